"""Services: the servers that a study measures, one folder for each kind.

`lab.py` in a folder starts servers and may change their settings for each arm. `target.py` measures a user's own
servers and never changes their settings. Both must pass `tests/contract/test_service.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self

from costof.lab.flushes import FlushEvidence
from costof.lab.lab import Lab, Resource
from costof.lab.memory import Memory, read_memory
from costof.lab.program import Counters, Description
from costof.lab.round_trips import LinkEvidence
from costof.messages.answers import SliceAnswer
from costof.messages.plan import Endpoint
from costof.services.server_cpu import ServerCpu
from costof.services.server_memory import METHOD, ServerMemory
from costof.study.arms import PlannedArm

LoadData = Callable[[PlannedArm], None]
Stage = Literal["start", "end"]


class Observation:
    """A reading of a service's servers at one instant, such as counters. Each service defines its own subclass."""


@dataclass(frozen=True)
class Judgement:
    """A service's judgement of one slice from its servers' readings: whether the slice fits its arm, and figures.

    `mismatch` is the reason why the slice was not measured as its arm requires, or None if it was. `figures` are means
    over the slice unless their name says otherwise, in the unit of their metric. `counts` are the counts in this slice.
    The report shows their sum over all slices, including the warm-up, as evidence.
    """

    mismatch: str | None = None
    figures: dict[str, float] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


class Service(ABC):
    """The servers that a run measures: a lab or a target.

    It is a context manager and releases all resources at its end.
    """

    #: Whether the service itself can read its servers' CPU time, which needs servers on this machine.
    measures_cpu: bool = False
    #: The user's command that prints the CPU time of servers on other machines; None without one.
    server_cpu: ServerCpu | None = None
    #: The user's command that prints the memory of servers on other machines; None without one.
    server_memory: ServerMemory | None = None
    #: The number of connections that a lab's servers must accept at the same time; None: as many as usual.
    needed_connections: int | None = None
    #: The role (name of a group of processes) under which figures list what `server_cpu` and `server_memory` print.
    server_role: str = "server"
    #: The facts of `identity` at the time when a resumed run first began; empty in a new run.
    known_identity: Mapping[str, str] = {}
    #: Whether the service runs its servers on separate hosts (network namespaces) if it has the rights to do so.
    makes_hosts: bool = False
    #: Why other machines cannot measure this service; None if they can.
    single_machine_reason: str | None = None

    @abstractmethod
    def __enter__(self) -> Self:
        """Start the servers or connect to them. Raises `CostofError`."""

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @abstractmethod
    def endpoint(self, arm: PlannedArm) -> Endpoint:
        """Return the address to which an arm's client connects, and the client's settings."""

    @abstractmethod
    def prepare(self, arms: Sequence[PlannedArm], load: LoadData) -> None:
        """Load the data by calling `load`, and wait until all servers have the data.

        `arms` are the arms that can run. The argument of `load` is the arm over whose connections the data is loaded:
        the first one, unless the service needs other arms for this.
        """

    @abstractmethod
    def writes(self) -> list[str]:
        """Return one description for each write of the run and its clean-up (`--dry-run`)."""

    def commands(self) -> list[str]:
        """Return one text for each of the user's commands that the run would execute (`--dry-run`).

        The beginning of the text says when, or for which arm, the command is executed.
        """
        cpu, memory = self.server_cpu, self.server_memory
        around = [f"around each slice: {cpu.command}"] if cpu else []
        return [*around, *([f"between idle connections, after the last slice: {memory.command}"] if memory else [])]

    @abstractmethod
    def describe(self) -> Description: ...

    def identity(self) -> dict[str, str]:
        """Return facts that identify these servers: for a lab, the programs' versions.

        Call it only while the service is connected to the servers.
        """
        return dict(self.describe().versions)

    def needs(self) -> list[str]:
        """Return the grants that the account needs (`--dry-run`)."""
        return []

    def refusal_reason(self, arm: PlannedArm) -> str | None:
        """Return why an arm must not be measured, or None if it may be.

        A reason is, for example, that the arm has no TLS although the target's URL requires TLS.
        """
        return None

    def arrange(self, arm: PlannedArm) -> None:
        """Bring the servers into the state that an arm needs, before each of its slices and outside measured time."""

    def set_host_count(self, hosts: int) -> None:
        """Set the number of hosts that measure together and share the load. It is called before `__enter__`."""

    def wants_ticket(self, arm: PlannedArm) -> bool:
        """Return whether the arm's client must connect once outside measured time to get a new session ticket.

        This is so if the server's key has changed since the arm's last slice, because earlier tickets are then invalid.
        The function is called once after each `arrange`.
        """
        return False

    def prefix(self, arm: PlannedArm) -> list[str]:
        """Return the words that, put before a command, run it on the host of the arm's client; [] for this machine."""
        return []

    def links(self) -> list[LinkEvidence]:
        """Return the measured round trips of the lab's links."""
        return []

    def measure_flush(self, seconds: float) -> FlushEvidence | None:
        """Measure the time of a flush of the disk with the servers' data; None if the study does not count flushes.

        It is called before the first slice, after each round, and after the last slice. Raises `LAB_FAILED`.
        """
        return None

    def collect_evidence(self, arm: PlannedArm, stage: Stage) -> dict[str, str]:
        """Return the service's own evidence about an arm, such as the cipher that a tunnel negotiated.

        It is called with the stage 'start' after the load, and with 'end' after the last slice, to check the data
        again.
        """
        return {}

    def counters(self, server: str) -> Counters:
        """Return the counters of the server (such as a member of a replica set) at `server` ('address:port')."""
        return Counters()

    def trusted_counters(self, answer: SliceAnswer, change: Counters) -> Counters:
        """Return the change of counters in a warm-up slice without the counters that cannot be right.

        A counter cannot be right if it missed connections that the instrument counted in the slice (`answer`). The
        service ignores such counters from then on.
        """
        return change

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU seconds that the servers have used so far, by role. Raises `SERVER_CPU_UNREAD`."""
        return {self.server_role: self.server_cpu.seconds()} if self.server_cpu else {}

    def server_processes(self) -> list[tuple[str, int]]:
        """Return (role, pid) of the servers' processes on this machine, without their children."""
        return []

    def memory(self) -> Memory | None:
        """Return the memory that the servers use now, by role; None if it cannot be read.

        Raises `SERVER_MEMORY_UNREAD`.
        """
        memory = read_memory(self.server_processes())
        if self.server_memory is not None:
            memory = memory.plus(self.server_role, self.server_memory.read(), METHOD)
        return memory if memory.methods else None

    def counts_at_disconnect(self, arm: PlannedArm) -> bool:
        """Return whether the arm's server counts a connection's work only when it ends.

        The engine then closes its connections after each of the arm's slices.
        """
        return False

    def finish_counting(self, arm: PlannedArm) -> None:
        """Make the arm's server update its counters after a slice. Called before the slice's last `observe`."""

    def observe(self, arm: PlannedArm) -> Observation | None:
        """Return the servers' present state, or None if the service does not read a state.

        It is called right before and right after each slice of an arm, outside measured time.
        """
        return None

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        """Return the judgement of a slice from the observations before and after it."""
        return Judgement()

    def throttled_seconds(self) -> dict[str, float]:
        """Return, by role, the seconds in which programs were ready to run but had used up their CPU share."""
        return {}

    def early_warnings(self) -> list[str]:
        """Return the warnings that are known before the run starts anything."""
        return []

    def warnings(self) -> list[str]:
        """Return the warnings about these servers. It is called after the run."""
        return []

    def failure_reason(self, arm: PlannedArm | None = None) -> str | None:
        """Return why the service (or only `arm`, if given) can no longer be measured; None if it can."""
        return None


class LabService(Resource, Service):
    """A service whose servers are started by the run, in a lab that can read their CPU time."""

    measures_cpu = True
    makes_hosts = True
    _lab: Lab

    @property
    def process_ids(self) -> dict[str, int]:
        return {process.name: process.pid for process in self._lab.processes.values()}

    def server_processes(self) -> list[tuple[str, int]]:
        processes = self._lab.processes.values()
        return [(process.role, process.pid) for process in processes if process.exit_status is None]


def ended(what: str, status: int | None) -> str | None:
    """Return an error text if a program of the lab has ended; None if it is running (`status` is None)."""
    return None if status is None else f"the lab's {what} ended in the middle of the run (status {status})"
