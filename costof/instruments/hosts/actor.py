"""What runs on a host: an actor of Ray's that owns one instrument, passes lines on and tells its clock.

Of the standard library alone: it is shipped by value, and for the engine a host needs nothing but Ray and the same
Python. The runner of commands is of the costof that is installed there.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import platform
import resource
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

ENGINE_NAME = "costof-engine"
RUNNER = ("-m", "costof.instruments.commands.runner", "--sealed")
REPORT_VERSION = "import costof; print(costof.__version__)"
ENDING_SECONDS, STARTING_SECONDS = 5.0, 300.0
LATENCY_REQUEST = "/dev/cpu_dma_latency"
PR_SET_PDEATHSIG = 1
#: Of proc(5)'s stat: user, nice, system, idle, iowait, irq, softirq, steal.
BUSY_FIELDS, STEAL_FIELD = (0, 1, 2, 5, 6), 7


class HostActor:
    """What it cannot do it says as `{"failed": …}`: an exception's text would stand in Ray's logs."""

    def __init__(self) -> None:
        if "RAY_RAYLET_PID" in os.environ:
            # An actor may outlive the raylet that started it, and would load its host for nobody.
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        self._process: subprocess.Popen[bytes] | None = None
        self._what = "instrument"
        self._received = b""
        self._held: list[int] = []

    def facts(self) -> dict[str, Any]:
        """What this host is, in words and numbers that a report prints."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        low, _, high = _read("/proc/sys/net/ipv4/ip_local_port_range").partition("\t")
        return {
            "boot id": _read("/proc/sys/kernel/random/boot_id"),
            "machine": platform.machine(),
            "CPU": _cpu_model(),
            "cores": os.cpu_count() or 1,
            "kernel": platform.release(),
            "python": platform.python_version(),
            "costof": _costof(),
            "open files": hard if hard != resource.RLIM_INFINITY else soft,
            "ports": int(high) - int(low) + 1 if high.strip().isdigit() else 0,
        }

    def clock(self) -> int:
        """`CLOCK_MONOTONIC` of this host, which its instrument reads too, in nanoseconds."""
        return time.monotonic_ns()

    def start(self, engine: bytes, sha256: str, *authorities: bytes) -> dict[str, Any]:
        """A new engine from these bytes, run from memory; its first line, and where it finds each CA file."""
        self.stop()
        if hashlib.sha256(engine).hexdigest() != sha256:
            return {"failed": "the engine has arrived damaged"}
        try:
            program = self._in_memory(ENGINE_NAME, engine)
            files = [self._in_memory("ca.pem", each) for each in authorities]
            argv = [ENGINE_NAME, "drive", "--sealed"]
            told = self._begin("engine", argv, f"/proc/self/fd/{program}", (program, *files))
        except OSError as error:
            return {"failed": f"the engine does not run from memory: {error.strerror}"}
        return told | {"files": [f"/proc/self/fd/{file}" for file in files]}

    def start_runner(self) -> dict[str, Any]:
        """A new runner of commands, in place of an engine; its first line. It is no child of this process: what is left
        of that are its standard streams."""
        self.stop()
        try:
            return self._begin("runner of commands", [sys.executable, *RUNNER]) | {"files": []}
        except OSError as error:
            return {"failed": f"the runner of commands does not start: {error.strerror}"}

    def ask(self, line: bytes, seconds: float) -> dict[str, Any]:
        """The instrument's answer to a line, and what the machine did meanwhile, in seconds of CPU time."""
        if self._process is None or self._process.stdin is None:
            return {"failed": "no instrument runs"}
        before = _machine()
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except OSError:
            return {"failed": self._last_words()}
        answer = self._line(seconds)
        busy, steal = (now - then for now, then in zip(_machine(), before, strict=True))
        return answer | {"busy": busy, "steal": steal}

    def stop(self) -> None:
        """End the instrument, and give up all that was held for it."""
        process, self._process, self._received = self._process, None, b""
        if process is not None:
            # Its sign to end: killed, the runner could not end what its commands have left.
            stdin, process.stdin = process.stdin, None
            with suppress(OSError):
                if stdin is not None:
                    stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=ENDING_SECONDS)
            process.kill()
            process.communicate()
        while self._held:
            os.close(self._held.pop())

    def _begin(
        self, what: str, argv: Sequence[str], executable: str | None = None, files: Sequence[int] = ()
    ) -> dict[str, Any]:
        """Raises OSError where it does not start."""
        self._what = what
        with suppress(OSError):
            latency = os.open(LATENCY_REQUEST, os.O_WRONLY)
            self._held.append(latency)
            os.write(latency, bytes(4))
        self._process = subprocess.Popen(
            argv,
            executable=executable,
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=files,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        return self._line(STARTING_SECONDS)

    def _in_memory(self, name: str, content: bytes) -> int:
        """A file without a folder, which nothing can change any more."""
        file = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self._held.append(file)
        with open(file, "wb", closefd=False) as whole:
            whole.write(content)
        os.fchmod(file, 0o700)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
        return file

    def _line(self, seconds: float) -> dict[str, Any]:
        """The next line that the instrument says."""
        assert self._process is not None
        assert self._process.stdout is not None
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._received:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return {"failed": f"its {self._what} gave no answer within {seconds:.0f} s"}
                chunk = self._process.stdout.read()
                if chunk == b"":
                    return {"failed": self._last_words()}
                self._received += chunk or b""
        line, _, self._received = self._received.partition(b"\n")
        return {"line": line}

    def _last_words(self) -> str:
        assert self._process is not None
        assert self._process.stderr is not None
        try:
            status = self._process.wait(timeout=ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            return f"its {self._what} closed its output"
        lines = self._process.stderr.read().decode(errors="replace").strip().splitlines()
        ended = f"its {self._what} ended"
        return f"{ended}: {lines[-1][-300:]}" if lines else f"{ended} with status {status}"


def _environment() -> dict[str, str]:
    """Without Ray's own, such as where its token is."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}


def _costof() -> str:
    """The version that a runner of commands would be of; '' where there is none."""
    with suppress(OSError, subprocess.SubprocessError):
        told = subprocess.run(
            [sys.executable, "-c", REPORT_VERSION],
            env=_environment(),
            capture_output=True,
            timeout=STARTING_SECONDS,
            check=True,
        )
        return told.stdout.decode().strip()
    return ""


def _machine() -> tuple[float, float]:
    """Seconds of CPU time since the host started: of programs and the kernel, and what the hypervisor took."""
    fields = [int(field) for field in _read("/proc/stat").split("\n", 1)[0].split()[1:]] + [0] * 8
    tick = os.sysconf("SC_CLK_TCK")
    return sum(fields[place] for place in BUSY_FIELDS) / tick, fields[STEAL_FIELD] / tick


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _cpu_model() -> str:
    named = (line for line in _read("/proc/cpuinfo").splitlines() if line.startswith("model name"))
    return next(named, "").partition(":")[2].strip() or platform.machine()
