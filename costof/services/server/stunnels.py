"""stunnel instead of a server's own TLS: before the server alone, or before its clients too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from costof.lab.certificates import DEFAULT_KEY, Authority
from costof.lab.lab import Lab
from costof.lab.star import Star
from costof.messages.answers import SliceAnswer
from costof.programs.server import LabServer
from costof.programs.stunnel import End, Stunnel, find_stunnel, stunnel_version
from costof.study.arms import PlannedArm

SERVER_ROLE = "stunnel"
CLIENT_ROLE = "stunnel of the client"
ROLES = frozenset({SERVER_ROLE, CLIENT_ROLE})
FIRST_PORT = 7379
#: Where an arm's connections go through stunnel: before the server alone, or at both ends.
SERVER, BOTH = "server", "both"


def stunnel_of(arm: PlannedArm) -> str:
    """`SERVER`, `BOTH`, or '' for an arm that does without."""
    return str(arm.asked.lab.get("stunnel", ""))


class Stunnels:
    """One process before the server, and one before the clients of each distance that has such arms. Each kind of key
    has a port, the same everywhere. `distances` are those of all arms, by name."""

    def __init__(self, lab: Lab, star: Star, arms: Sequence[PlannedArm], distances: Mapping[str, str]) -> None:
        self._lab = lab
        self._star = star
        self._distances = distances
        self._arms = {arm.name: arm for arm in arms if stunnel_of(arm)}
        keys = dict.fromkeys(_key(arm) for arm in self._arms.values())
        self._ports = {key: FIRST_PORT + number for number, key in enumerate(keys)}
        self._server: Stunnel | None = None
        self._clients: dict[str, Stunnel] = {}
        self._address = ""

    def start(self, server: LabServer, authority: Authority) -> None:
        """Raises `PROGRAM_MISSING`, `LAB_FAILED`."""
        if not self._arms:
            return
        onward = server.client_settings().addresses[0]
        self._address = onward.rpartition(":")[0]
        ends = [
            End(key, self._at(key), onward, certificate=authority.issue("stunnel", key, [self._address]))
            for key in self._ports
        ]
        self._server = Stunnel(self._lab, "stunnel", SERVER_ROLE, ends, self._star.server)
        for distance in {self._distances[name] for name, arm in self._arms.items() if stunnel_of(arm) == BOTH}:
            ends = [End(key, self._at(key, distance), self._at(key), ca_file=authority.ca_file) for key in self._ports]
            client = self._star.client(distance)
            self._clients[distance] = Stunnel(self._lab, f"stunnel-{distance}", CLIENT_ROLE, ends, client)

    def entrance(self, arm: PlannedArm) -> str | None:
        """Where an arm's client connects to, 'address:port'; None for an arm without one."""
        if arm.name not in self._arms:
            return None
        return self._at(_key(arm), self._distances[arm.name] if stunnel_of(arm) == BOTH else None)

    def is_entrance(self, address: str) -> bool:
        return any(address == self.entrance(arm) for arm in self._arms.values())

    def carried(self, arm: PlannedArm) -> int | None:
        """Connections with TLS that the one before the server has carried so far, with the arm's key."""
        return self._server.carried(_key(arm)) if self._server and arm.name in self._arms else None

    def why_lost(self, arm: PlannedArm) -> str | None:
        """Why nothing goes through an arm's any more; None while it stands, and for an arm without one."""
        if self._server is None or arm.name not in self._arms:
            return None
        client = self._clients.get(self._distances[arm.name]) if stunnel_of(arm) == BOTH else None
        return self._server.why_dead() or (client.why_dead() if client else None)

    def versions(self) -> dict[str, str]:
        return {"stunnel": stunnel_version(find_stunnel())} if self._server else {}

    def facts(self) -> dict[str, str]:
        told = "TCP_NODELAY at both ends; the client's end speaks TLS 1.3 alone, and resumes no session"
        return {"stunnel": told} if self._server else {}

    def _at(self, key: str, distance: str | None = None) -> str:
        address = self._star.client_address(distance) if distance else self._address
        return f"{address}:{self._ports[key]}"


def mismatch(answer: SliceAnswer, carried: int) -> str | None:
    """Whether a slice's connections went through, in words; None when they did."""
    used = answer.phases.get("connect")
    if used is None or carried >= used.count:
        return None
    return f"stunnel carried {carried} connections of {used.count}"


def _key(arm: PlannedArm) -> str:
    return str(arm.asked.lab.get("key", DEFAULT_KEY))
