"""Entrances: programs in front of a lab's server, such as tunnels and poolers, to which some arms connect instead."""

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
    """The place for entrances: the lab, its hosts, the arms of the run, and the distance of each arm by its name.

    `key` is the kind of key that the server presents before the first slice.
    """

    lab: Lab
    star: Star
    arms: Sequence[PlannedArm]
    distances: Mapping[str, str]
    key: str


class Entrances(ABC):
    """All entrances of one kind, such as SSH tunnels. An entrance that fails affects only the arms that use it."""

    #: Roles of processes whose failure affects only their arms.
    roles: frozenset[str]
    #: Whether TLS ends at the entrance, so that the server gets plain connections.
    end_tls: bool = False

    @abstractmethod
    def has(self, arm: PlannedArm) -> bool:
        """Return whether an arm uses an entrance of this kind."""

    @abstractmethod
    def start(self, server: LabServer, authority: Authority) -> None:
        """Start all entrances in front of a running server. Raises `PROGRAM_MISSING`, `LAB_FAILED`."""

    def close(self) -> None:
        """Close this process's connections to the entrances; the lab ends the entrances' processes."""

    @abstractmethod
    def redirect(self, settings: ServiceSettings, arm: PlannedArm) -> ServiceSettings:
        """Return the client settings of an arm that uses an entrance of this kind."""

    def arrange(self, arm: PlannedArm) -> None:
        """Bring the entrances into the state of an arm, before each of its slices."""

    def evidence(self, arm: PlannedArm) -> dict[str, str]:
        """Return the evidence that the entrance of an arm works as the arm says."""
        return {}

    def counters(self, address: str) -> Counters | None:
        """Return the counters of the entrance at 'address:port', or None if there is no entrance of this kind."""
        return None

    def observe(self, arm: PlannedArm) -> Observation | None:
        """Read the state of an arm's entrance, right before and right after each of its slices."""
        return None

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        """Return the result of the two observations around a slice."""
        return Judgement()

    @abstractmethod
    def failure_reason(self, arm: PlannedArm) -> str | None:
        """Return why the entrance of an arm does not work, or None if it works."""

    def throttled_seconds(self) -> dict[str, float]:
        """Return for each role how long it was ready to run but had used up its CPU share."""
        return {}

    def warnings(self) -> list[str]:
        """Return the warnings about the entrances, once the run is over."""
        return []

    @abstractmethod
    def versions(self) -> dict[str, str]: ...

    @abstractmethod
    def facts(self) -> dict[str, str]:
        """Return a description of the entrances' settings; {} without entrances."""
