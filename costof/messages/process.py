"""Instruments: processes that measure, told and answering in lines of JSON (docs/ipc.md)."""

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
from costof.messages.plan import OPERATION_TIMEOUT_MS, HostsSettings, Limits, Plan, ServiceSettings, SliceOrder, line
from costof.model import Model

#: A busy machine is waited for; one that hangs is ended.
ANSWER_SECONDS = 300.0
# A slice is bounded by its own seconds and the time-out of one operation; past that the instrument itself hangs.
PATIENCE_SECONDS = 120.0
#: What does not stand by then hangs, on the slowest of machines too; a process that has ended is noticed at once.
READY_SECONDS = 600.0

ENGINE = "costof-engine"


T = TypeVar("T", bound=BaseModel)


class Instrument:
    """A measuring process. A context manager; leaving it closes its standard input, which ends it.

    One that is `patient` ends by itself whatever it waits for, and is waited for as long as it lives.
    """

    #: Once its standard input is closed; then it is killed. None waits.
    ending_seconds: float | None = 2.0

    def __init__(self, name: str, argv: list[str], env: dict[str, str] | None = None, patient: bool = False) -> None:
        self.name = name
        self._argv = argv
        self._env = env or {}
        self._patient = patient

    def __enter__(self) -> Self:
        try:
            # A session of its own: a Ctrl-C is for the run to handle, between two slices.
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
        """Hand the plan over; what it says of every arm. Raises `INSTRUMENT_FAILED`."""
        self._send({"plan": plan})
        return self._validated(Ready, self._answer(READY_SECONDS).get("ready"))

    def slice(
        self, number: int, arm: str, workload: str, operations: int, seconds: float, reconnect: bool = False
    ) -> SliceAnswer:
        """Measure one slice. Raises `INSTRUMENT_FAILED` when the instrument dies or hangs."""
        order = SliceOrder(id=number, arm=arm, workload=workload, operations=operations, seconds=seconds)
        self._send({"slice": order.model_copy(update={"reconnect": reconnect or None})})
        patience = seconds + OPERATION_TIMEOUT_MS / 1000 + PATIENCE_SECONDS
        return self._validated(SliceAnswer, self._answer(patience).get("slice"))

    def _send(self, message: Model | dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line(message))
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failed(self._last_words()) from None

    def _answer(self, seconds: float) -> dict[str, Any]:
        line = self._read_line(seconds)
        try:
            answer = json.loads(line)
        except ValueError:
            raise self._failed(f"it said {line[:200]!r}") from None
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
                    raise self._failed(self._last_words())
                self._received += chunk or b""
        line, _, self._received = self._received.partition(b"\n")
        return line

    def _validated(self, model: type[T], content: Any) -> T:
        try:
            return model.model_validate(content)
        except ValidationError as error:
            raise self._failed("its answer is not of the agreed form: " + " ".join(str(error).split())[:300]) from error

    def _last_words(self) -> str:
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
    """`costof-engine <command>`, a context manager. It ends with us, whatever ends us."""

    def __init__(self, command: str, prefix: Sequence[str] = ()) -> None:
        super().__init__(f"costof-engine {command}", [*prefix, str(engine_path()), command])

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_seconds(self) -> float:
        return process_cpu_seconds(self.pid)

    def ended(self) -> int | None:
        """The exit status, when it has ended."""
        return self._process.poll()

    def _begin(self, ready: type[T], plan: Model) -> T:
        """Hand the plan over and wait until it stands. Raises `INSTRUMENT_FAILED`."""
        self._send(plan)
        return self._validated(ready, self._answer(READY_SECONDS).get("ready"))

    def _counted(self, counters: type[T]) -> T:
        """Raises `INSTRUMENT_FAILED` when the process has died."""
        self._send({"counters": {}})
        return self._validated(counters, self._answer(ANSWER_SECONDS).get("counters"))


class HostLostError(CostofError):
    """One of several hosts that can no longer measure."""

    def __init__(self, host: str, detail: str) -> None:
        super().__init__(ErrorText.HOST_LOST, host=host, detail=detail)
        self.host = host
        self.detail = detail


class HostsProcess(Instrument):
    """Hosts of a Ray cluster that measure as one, each by the engine or by its runner of commands.

    A process of its own reaches them: whatever Ray does there, at its end too, takes along no run and no report.
    Without an `instrument` the hosts are only looked at.
    """

    # Ray may take its time to end what it has started.
    ending_seconds = 30.0

    def __init__(self, hosts: HostsSettings, instrument: Literal["engine", "commands"] | None) -> None:
        argv = [sys.executable, "-m", "costof.instruments.hosts.population"]
        super().__init__("the process that reaches the hosts", argv, patient=True)
        self._hosts = hosts
        self._by = instrument
        self._plan: Plan | None = None

    def __enter__(self) -> Self:
        """Reach the cluster and take its hosts. Raises `HOSTS_FAILED`."""
        super().__enter__()
        try:
            self._send({"cluster": self._hosts, "instrument": self._by})
            found = self._validated(ClusterAnswer, self._answer(READY_SECONDS).get("cluster"))
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        self.nodes, self.facts, self.warnings = found.nodes, found.facts, found.warnings
        #: Those that measure, by name.
        self.names = [node.name for node in found.nodes]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            # It may wait for hosts that nobody wants any more.
            self._process.send_signal(signal.SIGINT)
        super().__exit__(kind, error, trace)

    def examine(self) -> dict[str, str]:
        """Have each host run the engine, and tell what it has. Raises `HOST_LOST`."""
        self._send({"examine": {}})
        return dict(self._answer(READY_SECONDS)["examined"])

    def plan(self, plan: Plan) -> Ready:
        """Hand each host its share of the plan; what all say of every arm. Raises `HOST_LOST`, `INSTRUMENT_FAILED`."""
        self._plan = plan
        limits = Limits(proving_seconds=sum(arm.service.proving_seconds for arm in plan.arms))
        self._send({"plan": plan, "limits": limits})
        return self._validated(Ready, self._answer(READY_SECONDS).get("ready"))

    def slice(
        self, number: int, arm: str, workload: str, operations: int, seconds: float, reconnect: bool = False
    ) -> SliceAnswer:
        """Measure one slice, of which each host does its share. All windows open at one instant, but those of number 0,
        which are in no figure. Raises `HOST_LOST`, `INSTRUMENT_FAILED`."""
        assert self._plan is not None
        service: ServiceSettings = next(each.service for each in self._plan.arms if each.name == arm)
        order = SliceOrder(
            id=number, arm=arm, workload=workload, operations=operations, seconds=seconds, reconnect=reconnect or None
        )
        limits = Limits(
            proving_seconds=service.proving_seconds,
            longest_seconds=service.longest_seconds(workload),
            ends_itself=service.ends_itself(workload),
        )
        self._send({"slice": order, "limits": limits})
        return self._validated(PopulationAnswer, self._answer(seconds).get("slice"))

    def without(self, host: str) -> bool:
        """Whether the others go on, with the plan divided among them anew. Raises `HOST_LOST` for one more."""
        self.names.remove(host)
        self._send({"without": host})
        return bool(self._answer(READY_SECONDS)["goes_on"])

    def _answer(self, seconds: float) -> dict[str, Any]:
        answer = super()._answer(seconds)
        if "lost" in answer:
            raise HostLostError(**answer["lost"])
        if "refused" in answer:
            raise CostofError(ErrorText.HOSTS_FAILED, detail=answer["refused"])
        return answer


def engine_path(library: str = "") -> Path:
    """`costof-engine`: COSTOF_ENGINE, else the installed one; or the one of another TLS library, which `make
    tls-libraries` puts beside that. Raises `ENGINE_MISSING`, `TLS_LIBRARY_MISSING`."""
    if library:
        beside = engine_path().with_name(f"costof-engine-{library}")
        if not beside.is_file():
            raise CostofError(ErrorText.TLS_LIBRARY_MISSING, library=library)
        return beside
    named = os.environ.get("COSTOF_ENGINE")
    candidates = [Path(named).absolute()] if named else [*_installed_engine(), Path(sys.executable).with_name(ENGINE)]
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    detail = f"COSTOF_ENGINE={named} is no program" if named else "it is not installed beside costof"
    raise CostofError(ErrorText.ENGINE_MISSING, detail=detail)


def _installed_engine() -> list[Path]:
    """Where the files of the installed package say that it is: `pip install --user` and `--target` put it beside no
    interpreter."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        installed = distribution("costof")
    except PackageNotFoundError:
        return []
    listed = [Path(str(installed.locate_file(file))).resolve() for file in installed.files or [] if file.name == ENGINE]
    # pip lists what it moves into a `--target` by where it was before.
    return [*listed, Path(str(installed.locate_file("bin"))).resolve() / ENGINE]


def engine(prefix: Sequence[str] = (), env: dict[str, str] | None = None, library: str = "") -> Instrument:
    """The wire view. `prefix` is that of the lab's host that it is to run on."""
    path = engine_path(library)
    return Instrument(path.name, [*prefix, str(path), "drive"], env)


def application(protocol: str, env: dict[str, str], prefix: Sequence[str] = ()) -> Instrument:
    """The application view: the driver that most applications use, in a process of its own."""
    argv = [*prefix, sys.executable, "-m", f"costof.instruments.drivers.{protocol}"]
    return Instrument(f"the {protocol} application", argv, env)


def command_runner(prefix: Sequence[str] = ()) -> Instrument:
    """The commands of a study. It ends each at its time-out, and undoes what it has brought into force."""
    argv = [*prefix, sys.executable, "-m", "costof.instruments.commands.runner"]
    runner = Instrument("the runner of commands", argv, patient=True)
    runner.ending_seconds = None
    return runner


def process_cpu_seconds(pid: int) -> float:
    """CPU time of another process, ended threads included, to the nanosecond; 0 when it is gone.

    /proc/PID/stat counts in ticks of 10 ms, longer than many slices use. The clock's number is built as
    clock_getcpuclockid(3) of glibc does: the complement of the pid above three bits that say 'process, scheduler time'.
    """
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def ended_children_cpu_seconds(pid: int) -> float:
    """CPU time of another process's children that have ended, theirs included; 0 when it is gone.

    proc(5)'s cutime and cstime: exact in the kernel, told in ticks of 10 ms.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
