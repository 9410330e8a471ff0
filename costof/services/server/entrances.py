"""Entrances: what stands before a lab's server and gives the clients of some arms another address."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from costof.lab.certificates import Authority
from costof.lab.lab import Lab
from costof.lab.program import Counters
from costof.lab.topology import Star
from costof.messages.answers import SliceAnswer
from costof.messages.plan import ServiceSettings
from costof.programs.server import LabServer
from costof.services import Judgement, Observation
from costof.study.arms import PlannedArm


@dataclass(frozen=True)
class Site:
    """Where entrances are made: the lab, its hosts, the arms of the run, and each arm's distance by the arm's name.

    `key` is the kind of key that the server shows before the first slice.
    """

    lab: Lab
    star: Star
    arms: Sequence[PlannedArm]
    distances: Mapping[str, str]
    key: str


class Entrances(ABC):
    """All entrances of one kind, such as SSH tunnels. One that fails, fails only the arms that use it."""

    #: Roles of the processes whose end fails only their arms.
    roles: frozenset[str]
    #: Whether TLS ends here, so that the server is spoken to in plain.
    end_tls: bool = False

    @abstractmethod
    def has(self, arm: PlannedArm) -> bool: ...

    @abstractmethod
    def start(self, server: LabServer, authority: Authority) -> None:
        """Start all of them before a server that answers. Raises `PROGRAM_MISSING`, `LAB_FAILED`."""

    def close(self) -> None:
        """Close connections of this process; the lab ends the entrances' own processes."""

    @abstractmethod
    def redirect(self, settings: ServiceSettings, arm: PlannedArm) -> ServiceSettings:
        """Return how the clients of an arm that comes in here are told to reach the service."""

    def arrange(self, arm: PlannedArm) -> None:
        """Bring them into the state that any arm asks for, before each of its slices."""

    def proofs(self, arm: PlannedArm) -> dict[str, str]:
        """Return what shows that an arm that comes in here is what it says."""
        return {}

    def counters(self, address: str) -> Counters | None:
        """Return the counters of what answers at 'address:port', or None where that is no entrance of this kind."""
        return None

    def observe(self, arm: PlannedArm) -> Observation | None:
        """Look at the entrance of an arm, right before and right after each of its slices."""
        return None

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        """Return what two observations say of the slice between them."""
        return Judgement()

    @abstractmethod
    def why_lost(self, arm: PlannedArm) -> str | None:
        """Return why the entrance of an arm does not work, or None while it does."""

    def throttled_seconds(self) -> dict[str, float]:
        """Return by role how long each wanted to run while its CPU share was used up."""
        return {}

    def warnings(self) -> list[str]:
        """Return what a reader must know of them, once the run is over."""
        return []

    @abstractmethod
    def versions(self) -> dict[str, str]: ...

    @abstractmethod
    def facts(self) -> dict[str, str]:
        """Return how they are set up, in words; empty where there are none."""
