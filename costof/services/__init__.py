"""What a study is asked of, one folder for each kind: `lab.py`, and `target.py` for a user's own servers.

A lab (`lab.py` of a service's folder) starts real servers and may rearrange them for an arm; a target
(`target.py`) is somebody's own and is only asked. Both pass `tests/contract/test_service.py`.
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
    """What a service read of its servers at one instant. Each service has a kind of its own, which it alone reads."""


@dataclass(frozen=True)
class Judgement:
    """What the servers themselves say of a slice: why it does not prove its arm, figures, facts in words, and counts.

    Figures are means over the slice unless their name says otherwise, in the unit of the metric that shows them.
    Counts are the slice's own; the evidence adds them up, those of the warm-up among them.
    """

    mismatch: str | None = None
    figures: dict[str, float] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


class Service(ABC):
    """Servers under question. A context manager: leaving it gives back everything that it took."""

    #: Whether it can read its servers' CPU time itself; a target's are on other machines.
    measures_cpu: bool = False
    #: Of servers that cannot be looked at, where the user says how, and the role that they have in the figures.
    server_cpu: ServerCpu | None = None
    server_role: str = "server"
    #: What identified the servers when the run was begun that is resumed now; empty for a new run.
    known_identity: Mapping[str, str] = {}
    #: Whether its lab has hosts, where they can be made.
    makes_hosts: bool = False
    #: Why no other machine can ask it what its arms are, where none can.
    single_machine_reason: str | None = None

    @abstractmethod
    def __enter__(self) -> Self:
        """Start or reach the servers. Raises `CostofError`."""

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @abstractmethod
    def endpoint(self, arm: PlannedArm) -> Endpoint:
        """Return how to reach the service as `arm` says."""

    @abstractmethod
    def prepare(self, arm: PlannedArm, load: LoadData) -> None:
        """Make the place for the data, call `load` with the arm to load through, and wait until every member has it."""

    @abstractmethod
    def writes(self) -> list[str]:
        """Return every write of `prepare` and the teardown, in words (`--dry-run`)."""

    def commands(self) -> list[str]:
        """Return every command of the user's that it would run, after its arm (`--dry-run`)."""
        return [f"around each slice: {self.server_cpu.command}"] if self.server_cpu else []

    @abstractmethod
    def describe(self) -> Description: ...

    def identity(self) -> dict[str, str]:
        """Return what tells these servers from others, once they are reached: of a lab's, their versions."""
        return dict(self.describe().versions)

    def needs(self) -> list[str]:
        """Return what the account must be allowed to do, and how it is granted (`--dry-run`)."""
        return []

    def refusal_reason(self, arm: PlannedArm) -> str | None:
        """Return why an arm must not even be tried, such as a plain one where TLS was asked for, or None."""
        return None

    def arrange(self, arm: PlannedArm) -> None:
        """Bring the servers into the state that `arm` asks for, before each of its slices. Outside measured time."""

    def shared_by(self, hosts: int) -> None:
        """Tell it that so many hosts ask it together and share what a command is told, before it is reached."""

    def wants_ticket(self, arm: PlannedArm) -> bool:
        """Whether the client of an arm that resumes sessions must first connect once, outside measured time.

        Asked once after each `arrange`: the servers may show another key since the arm's last slice, and tickets given
        before are worth nothing then.
        """
        return False

    def prefix(self, arm: PlannedArm) -> list[str]:
        """Return what starts a program on the client's host of an arm (a network namespace); [] for this one."""
        return []

    def links(self) -> list[LinkEvidence]:
        """Return what was measured on the lab's links."""
        return []

    def prove(self, arm: PlannedArm, stage: Stage) -> dict[str, str]:
        """What the service itself can prove of an arm, such as a tunnel's negotiated cipher, or that the data is still
        sound when the run ends. At the start it is asked when the data is there."""
        return {}

    def counters(self, server: str) -> Counters:
        """Return the counters of the member at `server` ('address:port')."""
        return Counters()

    def usable(self, answer: SliceAnswer, moved: Counters) -> Counters:
        """Return what proves something of how counters moved in a slice of the warm-up; others are not read again."""
        return moved

    def cpu_seconds(self) -> dict[str, float]:
        """Return CPU seconds used so far, by role. Raises `SERVER_CPU_UNREAD`."""
        return {self.server_role: self.server_cpu.seconds()} if self.server_cpu else {}

    def observe(self, arm: PlannedArm) -> Observation | None:
        """Look at the servers, right before and right after each slice of an arm. Outside measured time."""
        return None

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        """Return what two observations say of the slice between them."""
        return Judgement()

    def throttled_seconds(self) -> dict[str, float]:
        """Return by role how long it wanted to run and its CPU share was used up: its own steal time."""
        return {}

    def early_warnings(self) -> list[str]:
        """Return the warnings that are known before anything is run."""
        return []

    def warnings(self) -> list[str]:
        """Return what a reader must know of these servers, once the run is over."""
        return []

    def lost(self, arm: PlannedArm | None = None) -> str | None:
        """Why the service can no longer answer, where it knows, or why one arm alone cannot be measured (its tunnel
        died); None while it can."""
        return None


class LabService(Resource, Service):
    """Servers of a run's own, whose CPU time the lab knows."""

    measures_cpu = True
    makes_hosts = True
    _lab: Lab

    @property
    def process_ids(self) -> dict[str, int]:
        """Pids of what the lab has started, by name."""
        return {process.name: process.pid for process in self._lab.processes.values()}


def ended(what: str, status: int | None) -> str | None:
    """Say that a part of the lab has ended, if it has an exit status."""
    return None if status is None else f"the lab's {what} ended in the middle of the run (status {status})"
