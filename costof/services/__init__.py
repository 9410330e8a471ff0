"""Services: the servers that a study measures, one folder for each kind.

`lab.py` of a folder is a lab, which starts servers and may rearrange them for an arm. `target.py` is for a user's own
servers, whose settings it never changes. Both must pass `tests/contract/test_service.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self

from costof.lab.lab import Lab, Resource
from costof.lab.program import Counters, Description
from costof.lab.round_trips import LinkEvidence
from costof.messages.answers import SliceAnswer
from costof.messages.plan import Endpoint
from costof.services.server_cpu import ServerCpu
from costof.study.arms import PlannedArm

LoadData = Callable[[PlannedArm], None]
Stage = Literal["start", "end"]


class Observation:
    """A service's reading of its servers at one instant. Each service has a subclass, which only it can interpret."""


@dataclass(frozen=True)
class Judgement:
    """A service's result for one slice, from the servers' own data.

    `mismatch` is the reason why the slice was not as its arm says, or None. Figures are means over the slice unless
    their name says otherwise, in the unit of their metric. Counts are those of the slice; the evidence adds them up,
    including the warm-up's.
    """

    mismatch: str | None = None
    figures: dict[str, float] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


class Service(ABC):
    """The measured servers. A context manager: leaving it releases all resources."""

    #: Whether the service reads its servers' CPU time itself. It cannot for servers on other machines.
    measures_cpu: bool = False
    #: The user's command for the CPU time of servers on other machines, and their role in the figures.
    server_cpu: ServerCpu | None = None
    server_role: str = "server"
    #: In a resumed run, the servers' identity when the run began; empty in a new run.
    known_identity: Mapping[str, str] = {}
    #: Whether the lab makes separate hosts (network namespaces) if it may.
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
        """Return the client settings of an arm."""

    @abstractmethod
    def prepare(self, arm: PlannedArm, load: LoadData) -> None:
        """Prepare the data: call `load` with the arm to load through, and wait until every member has the data."""

    @abstractmethod
    def writes(self) -> list[str]:
        """Return a description of every write of the run and its clean-up (`--dry-run`)."""

    def commands(self) -> list[str]:
        """Return the user's commands that the run would execute, each after its arm (`--dry-run`)."""
        return [f"around each slice: {self.server_cpu.command}"] if self.server_cpu else []

    @abstractmethod
    def describe(self) -> Description: ...

    def identity(self) -> dict[str, str]:
        """Return facts that distinguish these servers from others, after connecting; for a lab, the versions."""
        return dict(self.describe().versions)

    def needs(self) -> list[str]:
        """Return the grants that the account needs (`--dry-run`)."""
        return []

    def refusal_reason(self, arm: PlannedArm) -> str | None:
        """Return why an arm must not be tried, such as one without TLS if the URL requires TLS, or None."""
        return None

    def arrange(self, arm: PlannedArm) -> None:
        """Bring the servers into the state of an arm, before each of its slices and outside measured time."""

    def set_host_count(self, hosts: int) -> None:
        """Set the number of hosts that measure together and share a command's load. Called before `__enter__`."""

    def wants_ticket(self, arm: PlannedArm) -> bool:
        """Return whether the arm's client must connect once outside measured time to get a new session ticket.

        Called once after each `arrange`: if the server's key has changed since the arm's last slice, earlier tickets
        are invalid.
        """
        return False

    def prefix(self, arm: PlannedArm) -> list[str]:
        """Return the command prefix that starts a program on the host of an arm's client; [] for this host."""
        return []

    def links(self) -> list[LinkEvidence]:
        """Return the measurements of the lab's links."""
        return []

    def collect_evidence(self, arm: PlannedArm, stage: Stage) -> dict[str, str]:
        """Return the service's own evidence about an arm, such as the cipher that a tunnel negotiated.

        The stage 'start' is after the load; 'end' is after the run, when the data can be checked again.
        """
        return {}

    def counters(self, server: str) -> Counters:
        """Return the counters of the member at `server` ('address:port')."""
        return Counters()

    def trusted_counters(self, answer: SliceAnswer, change: Counters) -> Counters:
        """Return those counters whose change in a warm-up slice is plausible; the others are not read again."""
        return change

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU seconds used so far, by role. Raises `SERVER_CPU_UNREAD`."""
        return {self.server_role: self.server_cpu.seconds()} if self.server_cpu else {}

    def observe(self, arm: PlannedArm) -> Observation | None:
        """Read the servers' state, right before and right after each slice of an arm, outside measured time."""
        return None

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        """Return the result of the two observations around a slice."""
        return Judgement()

    def throttled_seconds(self) -> dict[str, float]:
        """Return for each role how long it was ready to run but had used up its CPU share."""
        return {}

    def early_warnings(self) -> list[str]:
        """Return the warnings that are known before the run starts anything."""
        return []

    def warnings(self) -> list[str]:
        """Return the warnings about these servers, once the run is over."""
        return []

    def failure_reason(self, arm: PlannedArm | None = None) -> str | None:
        """Return why the service can no longer be measured, or with `arm` why this arm cannot; None if all is well."""
        return None


class LabService(Resource, Service):
    """Servers that the run starts, whose CPU time the lab can read."""

    measures_cpu = True
    makes_hosts = True
    _lab: Lab

    @property
    def process_ids(self) -> dict[str, int]:
        """The process IDs of the lab's processes, by name."""
        return {process.name: process.pid for process in self._lab.processes.values()}


def ended(what: str, status: int | None) -> str | None:
    """Return the error text for a part of the lab that has ended; None if it has no exit status."""
    return None if status is None else f"the lab's {what} ended in the middle of the run (status {status})"
