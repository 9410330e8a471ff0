"""stunnel instead of a server's own TLS: before the server alone, or before its clients too."""

from __future__ import annotations

from dataclasses import dataclass, replace

from costof.lab.certificates import DEFAULT_KEY, Authority
from costof.lab.program import Counters
from costof.messages.answers import SliceAnswer
from costof.messages.plan import ServiceSettings
from costof.programs.server import LabServer
from costof.programs.stunnel import End, Stunnel, find_stunnel, stunnel_version
from costof.services import Judgement, Observation
from costof.services.server.entrances import Entrances, Site
from costof.study.arms import PlannedArm

SERVER_ROLE = "stunnel"
CLIENT_ROLE = "stunnel of the client"
FIRST_PORT = 7379
#: Where an arm's connections go through stunnel: before the server alone, or at both ends.
SERVER, BOTH = "server", "both"


def stunnel_of(arm: PlannedArm) -> str:
    """Return `SERVER`, `BOTH`, or '' for an arm that does without."""
    return str(arm.settings.lab.get("stunnel", ""))


@dataclass(frozen=True)
class Carried(Observation):
    """Connections with TLS that the stunnel before the server has carried so far, with one key."""

    connections: int


class Stunnels(Entrances):
    """One process before the server, and one before the clients of each distance that has such arms. Each kind of key
    has a port, the same everywhere."""

    roles = frozenset({SERVER_ROLE, CLIENT_ROLE})
    end_tls = True

    def __init__(self, site: Site) -> None:
        self._lab = site.lab
        self._star = site.star
        self._distances = site.distances
        self._arms = {arm.name: arm for arm in site.arms if stunnel_of(arm)}
        keys = dict.fromkeys(_key(arm) for arm in self._arms.values())
        self._ports = {key: FIRST_PORT + number for number, key in enumerate(keys)}
        self._server: Stunnel | None = None
        self._clients: dict[str, Stunnel] = {}
        self._address = ""

    def has(self, arm: PlannedArm) -> bool:
        return arm.name in self._arms

    def start(self, server: LabServer, authority: Authority) -> None:
        if not self._arms:
            return
        self._behind = server
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

    def redirect(self, settings: ServiceSettings, arm: PlannedArm) -> ServiceSettings:
        return settings.entered_at(self._entrance(arm))

    def counters(self, address: str) -> Counters | None:
        """Return the server's own, but for TLS: it is spoken to in plain, and stunnel counts TLS itself."""
        if all(address != self._entrance(arm) for arm in self._arms.values()):
            return None
        return replace(self._behind.counters(address), tls_connections=None)

    def observe(self, arm: PlannedArm) -> Carried | None:
        carried = self._server.carried(_key(arm)) if self._server and self.has(arm) else None
        return None if carried is None else Carried(carried)

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        if not isinstance(before, Carried) or not isinstance(after, Carried):
            return Judgement()
        carried = after.connections - before.connections
        used = answer.phases.get("connect")
        missed = used is not None and carried < used.count
        return Judgement(
            mismatch=f"stunnel carried {carried} connections of {used.count}" if used and missed else None,
            counts={"connections carried by stunnel": carried},
        )

    def why_lost(self, arm: PlannedArm) -> str | None:
        if self._server is None or not self.has(arm):
            return None
        client = self._clients.get(self._distances[arm.name]) if stunnel_of(arm) == BOTH else None
        return self._server.why_dead() or (client.why_dead() if client else None)

    def versions(self) -> dict[str, str]:
        return {"stunnel": stunnel_version(find_stunnel())} if self._server else {}

    def facts(self) -> dict[str, str]:
        told = "TCP_NODELAY at both ends; the client's end speaks TLS 1.3 alone, and resumes no session"
        return {"stunnel": told} if self._server else {}

    def _entrance(self, arm: PlannedArm) -> str:
        """Return where an arm's client connects to, 'address:port'."""
        return self._at(_key(arm), self._distances[arm.name] if stunnel_of(arm) == BOTH else None)

    def _at(self, key: str, distance: str | None = None) -> str:
        address = self._star.client_address(distance) if distance else self._address
        return f"{address}:{self._ports[key]}"


def _key(arm: PlannedArm) -> str:
    return str(arm.settings.lab.get("key", DEFAULT_KEY))
