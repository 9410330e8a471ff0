"""The Ray actor on each host. It runs a measuring process (an instrument) and exchanges lines of JSON with it.

The instrument is costof's load generator, the engine, or the command runner, which runs the user's own commands. Ray
sends this module to the hosts. The module uses only the standard library, so a host that runs the engine needs only Ray
and the same Python version. A host that runs commands also needs costof, which contains the command runner.
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
#: Columns of CPU time in /proc/stat (proc(5)), counted from 0. `BUSY_FIELDS` are user, nice, system, irq and softirq.
BUSY_FIELDS, STEAL_FIELD = (0, 1, 2, 5, 6), 7


class HostActor:
    """An actor that runs an instrument (a measuring process) on a host.

    Its methods report errors as `{"failed": …}`, since Ray would write an exception's text to its logs.
    """

    def __init__(self) -> None:
        if "RAY_RAYLET_PID" in os.environ:
            # Let the kernel kill this process when its parent ends (raylet, Ray's process on this host). Otherwise this
            # process could go on and keep the host busy.
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        self._process: subprocess.Popen[bytes] | None = None
        self._instrument_name = "instrument"
        self._received = b""
        self._held: list[int] = []

    def facts(self) -> dict[str, Any]:
        """Return facts about this host, such as its number of cores, for the report and for checks before the run."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        low, _, high = _read("/proc/sys/net/ipv4/ip_local_port_range").partition("\t")
        return {
            "boot id": _read("/proc/sys/kernel/random/boot_id"),
            "machine": platform.machine(),
            "CPU": _cpu_model(),
            "cores": os.cpu_count() or 1,
            "kernel": platform.release(),
            "python": platform.python_version(),
            "costof": _costof_version(),
            "open files": hard if hard != resource.RLIM_INFINITY else soft,
            "ports": int(high) - int(low) + 1 if high.strip().isdigit() else 0,
        }

    def clock(self) -> int:
        """Return this host's `CLOCK_MONOTONIC` in nanoseconds, the clock of the host's measuring process."""
        return time.monotonic_ns()

    def start(self, engine: bytes, sha256: str, *authorities: bytes) -> dict[str, Any]:
        """Start the load generator (the engine). Return its first line of output, or `{"failed": …}`.

        `engine` is the content of the engine's program file, which is kept in memory. `authorities` are the contents of
        CA files. The answer's `files` are the paths at which the engine can read the CA files.
        """
        self.stop()
        if hashlib.sha256(engine).hexdigest() != sha256:
            return {"failed": "the engine arrived damaged (its SHA-256 differs)"}
        try:
            program = self._in_memory(ENGINE_NAME, engine)
            files = [self._in_memory("ca.pem", each) for each in authorities]
            argv = [ENGINE_NAME, "drive", "--sealed"]
            answer = self._begin("engine", argv, f"/proc/self/fd/{program}", (program, *files))
        except OSError as error:
            return {"failed": f"the engine does not run from memory: {error.strerror}"}
        return answer | {"files": [f"/proc/self/fd/{file}" for file in files]}

    def start_runner(self) -> dict[str, Any]:
        """Start a command runner instead of the load generator. Return its first line of output, or `{"failed": …}`.

        The runner detaches from this process; the pipes to its standard streams stay open.
        """
        self.stop()
        try:
            return self._begin("command runner", [sys.executable, *RUNNER]) | {"files": []}
        except OSError as error:
            return {"failed": f"the command runner does not start: {error.strerror}"}

    def ask(self, line: bytes, seconds: float) -> dict[str, Any]:
        """Send a line to the measuring process. Return its answer, waiting at most `seconds`.

        The answer also has two CPU times of the whole host during this call, in seconds: `busy` is the time used, and
        `steal` is the time that a hypervisor took away.
        """
        if self._process is None or self._process.stdin is None:
            return {"failed": "no instrument runs"}
        before = _cpu_seconds()
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except OSError:
            return {"failed": self._describe_end()}
        answer = self._line(seconds)
        busy, steal = (now - then for now, then in zip(_cpu_seconds(), before, strict=True))
        return answer | {"busy": busy, "steal": steal}

    def stop(self) -> None:
        """End the measuring process, and close the files held for it."""
        process, self._process, self._received = self._process, None, b""
        if process is not None:
            # A killed command runner could not clean up, so first close the process's input, which ends the process.
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
        self, name: str, argv: Sequence[str], executable: str | None = None, files: Sequence[int] = ()
    ) -> dict[str, Any]:
        self._instrument_name = name
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
        """Write a file in memory and seal it against changes. Return its descriptor."""
        file = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self._held.append(file)
        with open(file, "wb", closefd=False) as whole:
            whole.write(content)
        os.fchmod(file, 0o700)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
        return file

    def _line(self, seconds: float) -> dict[str, Any]:
        """Return the next line that the measuring process writes, or why it wrote none within `seconds`."""
        assert self._process is not None
        assert self._process.stdout is not None
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._received:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return {"failed": f"its {self._instrument_name} gave no answer within {seconds:.0f} s"}
                chunk = self._process.stdout.read()
                if chunk == b"":
                    return {"failed": self._describe_end()}
                self._received += chunk or b""
        line, _, self._received = self._received.partition(b"\n")
        return {"line": line}

    def _describe_end(self) -> str:
        assert self._process is not None
        assert self._process.stderr is not None
        try:
            status = self._process.wait(timeout=ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            return f"its {self._instrument_name} closed its output"
        lines = self._process.stderr.read().decode(errors="replace").strip().splitlines()
        ended = f"its {self._instrument_name} ended"
        return f"{ended}: {lines[-1][-300:]}" if lines else f"{ended} with status {status}"


def _environment() -> dict[str, str]:
    """Return this process's environment without Ray's variables, one of which names the file with Ray's token."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}


def _costof_version() -> str:
    with suppress(OSError, subprocess.SubprocessError):
        result = subprocess.run(
            [sys.executable, "-c", REPORT_VERSION],
            env=_environment(),
            capture_output=True,
            timeout=STARTING_SECONDS,
            check=True,
        )
        return result.stdout.decode().strip()
    return ""


def _cpu_seconds() -> tuple[float, float]:
    """Return two CPU times of this host since its start, in seconds: busy time, and time stolen by the hypervisor."""
    fields = [int(field) for field in _read("/proc/stat").split("\n", 1)[0].split()[1:]] + [0] * 8
    tick = os.sysconf("SC_CLK_TCK")
    return sum(fields[place] for place in BUSY_FIELDS) / tick, fields[STEAL_FIELD] / tick


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _cpu_model() -> str:
    models = (line for line in _read("/proc/cpuinfo").splitlines() if line.startswith("model name"))
    return next(models, "").partition(":")[2].strip() or platform.machine()
