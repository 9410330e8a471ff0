"""Instruments: processes that measure, and that exchange lines of JSON with costof (docs/ipc.md)."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ValidationError

from costof.errors import CostofError, ErrorText
from costof.messages.answers import ClusterAnswer, PopulationAnswer, Ready, SliceAnswer
from costof.messages.plan import (
    OPERATION_TIMEOUT_MS,
    HostsSettings,
    Limits,
    Plan,
    ServiceSettings,
    SliceOrder,
    SliceRate,
    line,
)
from costof.model import Model

#: Timeout for most answers, long enough for a busy machine.
ANSWER_SECONDS = 300.0
#: Extra time for the answer about a slice (measured window), beyond the slice's seconds and the timeout of one
#: operation.
PATIENCE_SECONDS = 120.0
#: Timeout for a process to become ready, long enough for slow machines. A process that ends instead is noticed at once.
READY_SECONDS = 600.0

ENGINE = "costof-engine"


T = TypeVar("T", bound=BaseModel)


class Instrument:
    """A process that measures, as a context manager. On exit it closes the process's input, which ends the process.

    A `patient` instrument has its own timeouts, so costof waits for its answers as long as the process runs.
    """

    #: Seconds on exit from closing the process's standard input to killing the process; None means never.
    ending_seconds: float | None = 2.0

    def __init__(self, name: str, argv: list[str], env: dict[str, str] | None = None, patient: bool = False) -> None:
        self.name = name
        self._argv = argv
        self._env = env or {}
        self._patient = patient

    def __enter__(self) -> Self:
        try:
            # In a new session, Ctrl-C does not end the measuring process: costof itself handles Ctrl-C.
            self._process = subprocess.Popen(
                self._argv,
                env={**os.environ, **self._env},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise CostofError(ErrorText.INSTRUMENT_FAILED, instrument=self.name, detail=str(error)) from error
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._received = b""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=self.ending_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def plan(self, plan: Plan) -> Ready:
        """Send the plan. Return the answer, which says for each arm whether it can run. Raises `INSTRUMENT_FAILED`."""
        self._send({"plan": plan})
        return self._validated(Ready, self._answer(READY_SECONDS).get("ready"))

    def slice(
        self,
        number: int,
        arm: str,
        workload: str,
        operations: int,
        seconds: float,
        reconnect: bool = False,
        rate: SliceRate | None = None,
        disconnect: bool = False,
    ) -> SliceAnswer:
        """Measure one slice (a measured window of one arm), at `rate` if given. Return the answer.

        Raises `INSTRUMENT_FAILED` if the process ends or hangs, and `HOST_LOST` if one of several hosts is lost.
        """
        order = SliceOrder(
            id=number,
            arm=arm,
            workload=workload,
            operations=operations,
            seconds=seconds,
            reconnect=reconnect or None,
            disconnect=disconnect or None,
        )
        return self._measured(order if rate is None else order.model_copy(update=rate._asdict()))

    def _measured(self, order: SliceOrder) -> SliceAnswer:
        self._send({"slice": order})
        patience = order.seconds + OPERATION_TIMEOUT_MS / 1000 + PATIENCE_SECONDS
        return self._validated(SliceAnswer, self._answer(patience).get("slice"))

    def finish(self) -> list[str]:
        """Run the cleanup commands, and return a reason for each one that failed. Raises `INSTRUMENT_FAILED`."""
        self._send({"finish": {}})
        return list(self._answer(ANSWER_SECONDS)["finished"]["failures"])

    def _send(self, message: Model | dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line(message))
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failed(self._describe_end()) from None

    def _answer(self, seconds: float) -> dict[str, Any]:
        line = self._read_line(seconds)
        try:
            answer = json.loads(line)
        except ValueError:
            raise self._failed(f"it wrote {line[:200]!r}, which is not JSON") from None
        if "error" in answer:
            error = answer["error"]
            raise self._failed(f"{error.get('class')}: {error.get('detail')}")
        return dict(answer)

    def _read_line(self, seconds: float) -> bytes:
        assert self._process.stdout is not None
        deadline = time.monotonic() + (float("inf") if self._patient else seconds)
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._received:
                left = deadline - time.monotonic()
                if not selector.select(None if left == float("inf") else max(0.0, left)):
                    raise self._failed(f"it gave no answer within {seconds:.0f} s")
                chunk = self._process.stdout.read()
                if chunk == b"":
                    raise self._failed(self._describe_end())
                self._received += chunk or b""
        line, _, self._received = self._received.partition(b"\n")
        return line

    def _validated(self, model: type[T], content: Any) -> T:
        try:
            return model.model_validate(content)
        except ValidationError as error:
            raise self._failed("its answer is malformed: " + " ".join(str(error).split())[:300]) from error

    def _describe_end(self) -> str:
        assert self._process.stderr is not None
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            return "it closed its output"
        lines = self._process.stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1][-300:] if lines else f"it ended with status {self._process.returncode}"

    def _failed(self, detail: str) -> CostofError:
        return CostofError(ErrorText.INSTRUMENT_FAILED, instrument=self.name, detail=detail)


class EngineProcess(Instrument):
    """`costof-engine <command>`, as a context manager. The engine ends when this process ends, even by SIGKILL.

    The engine is the program with costof's load generator, its gateway and other servers.
    """

    def __init__(self, command: str, prefix: Sequence[str] = ()) -> None:
        super().__init__(f"costof-engine {command}", [*prefix, str(engine_path()), command])

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_seconds(self) -> float:
        return process_cpu_seconds(self.pid)

    def ended(self) -> int | None:
        return self._process.poll()

    def _begin(self, ready: type[T], plan: Model) -> T:
        """Send the plan and wait until the process is ready. Raises `INSTRUMENT_FAILED`."""
        self._send(plan)
        return self._validated(ready, self._answer(READY_SECONDS).get("ready"))

    def _counted(self, counters: type[T]) -> T:
        """Request and return the process's counters. Raises `INSTRUMENT_FAILED` if the process has ended."""
        self._send({"counters": {}})
        return self._validated(counters, self._answer(ANSWER_SECONDS).get("counters"))


class HostLostError(CostofError):
    """Raised if a host can no longer measure."""

    def __init__(self, host: str, detail: str) -> None:
        super().__init__(ErrorText.HOST_LOST, host=host, detail=detail)
        self.host = host
        self.detail = detail


class HostsProcess(Instrument):
    """The hosts of a Ray cluster as one instrument. Each host runs the load generator or the command runner.

    A separate process uses Ray, so that a crash of Ray cannot end the run or lose its report. If `instrument` is None,
    the hosts are only listed.
    """

    # Ray may be slow to end its processes.
    ending_seconds = 30.0

    def __init__(self, hosts: HostsSettings, instrument: Literal["engine", "commands"] | None) -> None:
        argv = [sys.executable, "-m", "costof.instruments.hosts.population"]
        super().__init__("the process that controls the hosts", argv, patient=True)
        self._hosts = hosts
        self._instrument = instrument
        self._plan: Plan | None = None

    def __enter__(self) -> Self:
        """Connect to the cluster and start actors on its hosts. Raises `HOSTS_FAILED`."""
        super().__enter__()
        try:
            self._send({"cluster": self._hosts, "instrument": self._instrument})
            answer = self._validated(ClusterAnswer, self._answer(READY_SECONDS).get("cluster"))
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        self.nodes, self.facts, self.warnings = answer.nodes, answer.facts, answer.warnings
        self.names = [node.name for node in answer.nodes]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            # Interrupt the process: it may be waiting for answers of hosts that are not needed.
            self._process.send_signal(signal.SIGINT)
        super().__exit__(kind, error, trace)

    def examine(self) -> dict[str, str]:
        """Run the load generator on each host as a test. Return the hosts' descriptions by name. Raises `HOST_LOST`."""
        self._send({"examine": {}})
        return dict(self._answer(READY_SECONDS)["examined"])

    def plan(self, plan: Plan) -> Ready:
        """Send each host the plan with the host's share of the work.

        Return the merged answer. Raises `HOST_LOST`, `INSTRUMENT_FAILED`.
        """
        self._plan = plan
        limits = Limits(verifying_seconds=sum(arm.service.verifying_seconds for arm in plan.arms))
        self._send({"plan": plan, "limits": limits})
        return self._validated(Ready, self._answer(READY_SECONDS).get("ready"))

    def _measured(self, order: SliceOrder) -> SliceAnswer:
        """Let each host do its share of the slice. Raises `HOST_LOST`, `INSTRUMENT_FAILED`.

        All hosts begin a slice (measured window) at the same time. Slice 0 is an exception: it loads data or opens
        connections, and no figure uses it.
        """
        assert self._plan is not None
        service: ServiceSettings = next(each.service for each in self._plan.arms if each.name == order.arm)
        limits = Limits(
            verifying_seconds=service.verifying_seconds,
            longest_seconds=service.longest_seconds(order.workload),
            ends_itself=service.ends_itself(order.workload),
        )
        self._send({"slice": order, "limits": limits})
        return self._validated(PopulationAnswer, self._answer(order.seconds).get("slice"))

    def without(self, host: str) -> bool:
        """Remove a lost host, and divide the plan's work among the remaining hosts.

        Returns True if the run can continue, or False if too few hosts remain. Raises `HOST_LOST` if another host is
        lost.
        """
        self.names.remove(host)
        self._send({"without": host})
        return bool(self._answer(READY_SECONDS)["goes_on"])

    def _answer(self, seconds: float) -> dict[str, Any]:
        answer = super()._answer(seconds)
        if "lost" in answer:
            raise HostLostError(**answer["lost"])
        if "refused" in answer:
            raise CostofError(ErrorText.HOSTS_FAILED, error=answer["refused"])
        return answer


def engine_path(library: str = "") -> Path:
    """Return the path of the program `costof-engine`: the value of COSTOF_ENGINE if set, or else the installed one.

    With `library`, return the path of the engine that `make tls-libraries` has built with this TLS library, in the same
    folder. Raises `ENGINE_MISSING`, `TLS_LIBRARY_MISSING`.
    """
    if library:
        path = engine_path().with_name(f"costof-engine-{library}")
        if not path.is_file():
            raise CostofError(ErrorText.TLS_LIBRARY_MISSING, library=library)
        return path
    variable = os.environ.get("COSTOF_ENGINE")
    if variable:
        candidates = [Path(variable).absolute()]
    else:
        candidates = [*_installed_engine(), Path(sys.executable).with_name(ENGINE)]
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    detail = f"COSTOF_ENGINE={variable} is not a program" if variable else "it is not installed with costof"
    raise CostofError(ErrorText.ENGINE_MISSING, detail=detail)


def _installed_engine() -> list[Path]:
    """Return possible paths of `costof-engine`, from the list of files that the installer has recorded for costof.

    The engine need not be in the interpreter's folder: `pip install --user` and `--target` put it elsewhere.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        installed = distribution("costof")
    except PackageNotFoundError:
        return []
    listed = [Path(str(installed.locate_file(file))).resolve() for file in installed.files or [] if file.name == ENGINE]
    # With `--target`, pip moves programs to `bin` after it has written its list, so add that path.
    return [*listed, Path(str(installed.locate_file("bin"))).resolve() / ENGINE]


def engine(prefix: Sequence[str] = (), env: dict[str, str] | None = None, library: str = "") -> Instrument:
    """Return the engine, costof's load generator, as an instrument (a process that measures).

    `prefix` has the words that begin its command line if it runs on an emulated host (a network namespace), such as
    'nsenter'.
    """
    path = engine_path(library)
    return Instrument(path.name, [*prefix, str(path), "drive"], env)


def application(protocol: str, env: dict[str, str], prefix: Sequence[str] = ()) -> Instrument:
    """Return a process that measures with an application's driver, such as psycopg for the protocol 'postgres'."""
    argv = [*prefix, sys.executable, "-m", f"costof.instruments.drivers.{protocol}"]
    return Instrument(f"the {protocol} application", argv, env)


def command_runner(prefix: Sequence[str] = ()) -> Instrument:
    """Return the command runner, the process that runs the user's commands, as an instrument.

    costof never kills this process. The command runner itself limits the time of commands. When it ends, it runs the
    `cleanup` commands, which undo what the `setup` commands of arms have set up.
    """
    argv = [*prefix, sys.executable, "-m", "costof.instruments.commands.runner"]
    runner = Instrument("the command runner", argv, patient=True)
    runner.ending_seconds = None
    return runner


def process_cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of another process, including its ended threads; 0 if the process has ended.

    The time is read from the process's CPU clock, whose resolution is a nanosecond. /proc/PID/stat counts only in ticks
    of 10 ms, and many slices (measured windows) take less CPU time than that. The clock's id is computed as in glibc's
    clock_getcpuclockid(3): the complement of the pid, followed by three bits that mean 'process, scheduler time'.
    """
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def ended_children_cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of another process's ended children and their descendants; 0 if the process has ended.

    The time is the sum of cutime and cstime of proc(5), which count in ticks of 10 ms.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
