"""Entrances: tunnels, poolers and proxies in front of a lab's server, to which the clients of some arms connect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from costof.lab.certificates import Authority
from costof.lab.lab import Lab
from costof.lab.program import Counters
from costof.lab.topology import Star
from costof.messages.answers import SliceAnswer
from costof.messages.plan import ServiceSettings
from costof.programs.server import LabServer
from costof.services import Judgement, Observation
from costof.study.arms import PlannedArm

#: The number of ports for the entrances of one kind in front of one server.
PORTS = 100


@dataclass(frozen=True)
class Site:
    """The surroundings of a server, for the programs in front of it: the lab, its network (`star`), the server's arms.

    `distances` has the distance of each arm by the arm's name. `key` is the kind of certificate key that the server
    presents before the first slice. `seed` is the run's seed. `number` is 1 for the lab's first server, 2 for the
    second.
    """

    lab: Lab
    star: Star
    arms: Sequence[PlannedArm]
    distances: Mapping[str, str]
    key: str
    seed: int
    number: int = 1

    def name(self, program: str) -> str:
        """Return a process name for a program in front of this server, unique in the lab."""
        return program if self.number == 1 else f"{program}-{self.number}"

    def port(self, first: int) -> int:
        """Return the first of this server's ports for the programs in front of it.

        `first` is the first one of the lab's first server. Each further server has the next `PORTS` ports.
        """
        return first + PORTS * (self.number - 1)


class Entrances(ABC):
    """All programs of one kind in front of a lab's server, such as SSH tunnels. Each of them is called an entrance.

    An entrance that fails affects only the arms that connect through it.
    """

    #: The name of the lab setting (`ArmSettings.lab`) of arms that connect through an entrance of this kind.
    setting: ClassVar[str]
    #: Whether clients always run on another host than the server, so that entrances at both ends are on different
    #: hosts.
    separate_clients: ClassVar[bool] = False
    #: Roles of the entrances' processes in CPU figures. The end of such a process does not end the run. Only the arms
    #: that need the process fail.
    roles: frozenset[str]
    #: Whether clients' TLS ends at the entrance, so that the server gets plain connections.
    end_tls: bool = False

    @abstractmethod
    def __init__(self, site: Site) -> None: ...

    @abstractmethod
    def has(self, arm: PlannedArm) -> bool:
        """Return whether an arm's client connects to an entrance of this kind, such as an SSH tunnel."""

    @abstractmethod
    def start(self, server: LabServer, authority: Authority) -> None:
        """Start all entrances of this kind in front of a running server. Raises `PROGRAM_MISSING`, `LAB_FAILED`."""

    def close(self) -> None:
        """Close the administrative connections to the entrances. The lab stops the entrances' processes."""

    @abstractmethod
    def redirect(self, settings: ServiceSettings, arm: PlannedArm) -> ServiceSettings:
        """Return the client settings with which an arm connects to its entrance.

        `settings` are for a direct connection.
        """

    def arrange(self, arm: PlannedArm) -> None:
        """Bring the entrances into the state that an arm needs, before each slice of the arm."""

    def evidence(self, arm: PlannedArm) -> dict[str, str]:
        """Return evidence that the arm's entrance works as the arm requires, such as the cipher of a tunnel."""
        return {}

    def counters(self, address: str) -> Counters | None:
        """Return the counters of the entrance at 'address:port'; None if no entrance of this kind listens there."""
        return None

    def observe(self, arm: PlannedArm) -> Observation | None:
        """Return the present state of an arm's entrance, or None if there is nothing to read.

        It is called right before and right after each slice of the arm.
        """
        return None

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        """Return the judgement of a slice from the observations before and after it."""
        return Judgement()

    @abstractmethod
    def failure_reason(self, arm: PlannedArm) -> str | None:
        """Return why an arm's entrance does not work; None if it works or if the arm uses no entrance of this kind."""

    def cpu_seconds(self) -> dict[str, float]:
        """Return, by role, the CPU seconds of the entrances' processes that the lab did not start itself."""
        return {}

    def throttled_seconds(self) -> dict[str, float]:
        """Return, by role, the seconds in which programs were ready to run but had used up their host's CPU share."""
        return {}

    def warnings(self) -> list[str]:
        """Return the warnings about these tunnels, poolers or proxies. It is called after the run."""
        return []

    @abstractmethod
    def versions(self) -> dict[str, str]: ...

    @abstractmethod
    def facts(self) -> dict[str, str]:
        """Return, by the name of the program, the settings that the report shows; {} without entrances."""
