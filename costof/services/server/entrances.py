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

#: The number of ports that are reserved in front of each server for one kind of entrances (tunnels, poolers or
#: proxies).
PORTS = 100


@dataclass(frozen=True)
class Site:
    """The surroundings of the programs in front of a server: the lab, the network and the arms (measured variants).

    `star` is the network of the lab. `distances` maps the name of an arm to the name of its clients' distance
    (round-trip time), such as 'lan' or '20ms'. `key` is the kind of certificate key that the server uses before the
    first slice (measured window), such as 'rsa-2048'. `number` is the server's number in the lab, from 1.
    """

    lab: Lab
    star: Star
    arms: Sequence[PlannedArm]
    distances: Mapping[str, str]
    key: str
    seed: int
    number: int = 1

    def name(self, program: str) -> str:
        """Return a name for a program's process in front of this server: 'ssh', or 'ssh-2' for the second server.

        The name is unique in the lab.
        """
        return program if self.number == 1 else f"{program}-{self.number}"

    def port(self, first: int) -> int:
        """Return the first port for one kind of entrances (tunnels, poolers or proxies) in front of this server.

        It is `first` for the lab's first server, `first` + `PORTS` for the second, and so on.
        """
        return first + PORTS * (self.number - 1)


class Entrances(ABC):
    """Base class for all programs of one kind in front of a lab's server, such as its SSH tunnels.

    Each of these programs is called an entrance. If one fails, only the arms (measured variants) that connect through
    it fail.
    """

    #: The key in `ArmSettings.lab` by which an arm (measured variant) requires an entrance of this kind, such as
    #: 'tunnel'.
    setting: ClassVar[str]
    #: Whether clients must run on another host than the server, even if they are near the server. True for entrances
    #: with a program at both ends of the connection, such as a pair of sidecars.
    separate_clients: ClassVar[bool] = False
    #: The roles (names under which reports list the CPU time) of the entrances' processes. If such a process ends, only
    #: the arms that need it fail, and not the run.
    roles: frozenset[str]
    #: Whether the clients' TLS ends at the entrance (the tunnel, pooler or proxy). The server's own connections are
    #: then plain.
    end_tls: bool = False

    @abstractmethod
    def __init__(self, site: Site) -> None: ...

    @abstractmethod
    def has(self, arm: PlannedArm) -> bool:
        """Return whether an arm's client connects to an entrance (tunnel, pooler or proxy) of this kind."""

    @abstractmethod
    def start(self, server: LabServer, authority: Authority) -> None:
        """Start all entrances (such as tunnels) to a running server. Raises `PROGRAM_MISSING`, `LAB_FAILED`."""

    def close(self) -> None:
        """Close the connections that control the entrances (such as poolers). The lab itself stops the entrances."""

    @abstractmethod
    def redirect(self, settings: ServiceSettings, arm: PlannedArm) -> ServiceSettings:
        """Return settings with which the arm's client connects to its entrance, such as a tunnel.

        `settings` are the client's settings for a direct connection to the server.
        """

    def arrange(self, arm: PlannedArm) -> None:
        """Change the entrances (such as tunnels) as an arm requires, for example their CPU share.

        It is called before each slice (measured window) of the arm.
        """

    def evidence(self, arm: PlannedArm) -> dict[str, str]:
        """Return facts that show that the arm's entrance works as required, such as the cipher of a tunnel."""
        return {}

    def counters(self, address: str) -> Counters | None:
        return None

    def observe(self, arm: PlannedArm) -> Observation | None:
        """Return the present state of an arm's tunnel, pooler or proxy; None if there is nothing to read.

        The state, such as counters, is read right before and right after each slice (measured window) of the arm.
        """
        return None

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        """Compare the observations before and after a slice (measured window).

        Return whether the slice is valid, and figures such as a mean delay.
        """
        return Judgement()

    @abstractmethod
    def failure_reason(self, arm: PlannedArm) -> str | None:
        """Return why an arm's entrance (tunnel, pooler or proxy) does not work; None if it works or does not exist."""

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU seconds of those tunnels, poolers or proxies whose processes are not in `Lab.processes`.

        The keys are the processes' roles, such as 'stunnel'.
        """
        return {}

    def throttled_seconds(self) -> dict[str, float]:
        """Return for how many seconds tunnels, poolers or proxies were stopped by the limit of their CPU share.

        The keys are the roles of their processes, such as 'stunnel'.
        """
        return {}

    def warnings(self) -> list[str]:
        """Return warnings about these tunnels, poolers or proxies for the report. It is called after the run."""
        return []

    @abstractmethod
    def versions(self) -> dict[str, str]: ...

    @abstractmethod
    def facts(self) -> dict[str, str]:
        """Return settings of the tunnels, poolers or proxies for the report. The keys are the programs' names."""
