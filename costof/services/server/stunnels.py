"""stunnel (a TLS proxy) in place of the server's own TLS: in front of the server and, for some arms, at clients too."""

from __future__ import annotations

from dataclasses import dataclass, replace

from costof.lab.certificates import DEFAULT_KEY, Authority, certificate_kind
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
#: The places where an arm (measured variant) uses stunnel: at the server only, or also on the clients' host.
SERVER, BOTH = "server", "both"


def stunnel_ends(arm: PlannedArm) -> str:
    """Return where an arm uses stunnel: `SERVER`, `BOTH`, or '' if it does not use stunnel."""
    return str(arm.settings.lab.get("stunnel", ""))


@dataclass(frozen=True)
class StunnelObservation(Observation):
    """The number of TLS connections that the server's stunnel has forwarded so far with an arm's (variant's) key."""

    connections: int


class Stunnels(Entrances):
    """The stunnel processes of a run: one in front of the server, and one on each host of clients that need it.

    Each kind of certificate key, such as 'rsa-2048', has its own port number, which all processes use.
    """

    setting = "stunnel"
    roles = frozenset({SERVER_ROLE, CLIENT_ROLE})
    end_tls = True

    def __init__(self, site: Site) -> None:
        self._lab = site.lab
        self._star = site.star
        self._distances = site.distances
        self._arms = {arm.name: arm for arm in site.arms if stunnel_ends(arm)}
        keys = dict.fromkeys(_key(arm) for arm in self._arms.values())
        self._site = site
        self._ports = {key: site.port(FIRST_PORT) + number for number, key in enumerate(keys)}
        self._server: Stunnel | None = None
        self._clients: dict[str, Stunnel] = {}
        self._address = ""

    def has(self, arm: PlannedArm) -> bool:
        return arm.name in self._arms

    def start(self, server: LabServer, authority: Authority) -> None:
        if not self._arms:
            return
        self._lab_server = server
        server_address = server.client_settings().addresses[0]
        self._address = server_address.rpartition(":")[0]
        ends = [
            End(
                key,
                self._listen_address(key),
                server_address,
                authority.issue(self._site.name("stunnel"), key, [self._address]),
            )
            for key in self._ports
        ]
        self._server = Stunnel(self._lab, self._site.name("stunnel"), SERVER_ROLE, ends, self._star.server)
        for distance in {self._distances[name] for name, arm in self._arms.items() if stunnel_ends(arm) == BOTH}:
            ends = [
                End(key, self._listen_address(key, distance), self._listen_address(key), ca_file=authority.ca_file)
                for key in self._ports
            ]
            client = self._star.client(distance)
            name = self._site.name(f"stunnel-{distance}")
            self._clients[distance] = Stunnel(self._lab, name, CLIENT_ROLE, ends, client)

    def redirect(self, settings: ServiceSettings, arm: PlannedArm) -> ServiceSettings:
        return settings.at_address(self._entrance(arm))

    def counters(self, address: str) -> Counters | None:
        """Return the server's counters without `tls_connections`; None if no stunnel listens at the address.

        TLS ends at stunnel, so the server cannot count TLS connections. `observe` reads stunnel's own count.
        """
        if all(address != self._entrance(arm) for arm in self._arms.values()):
            return None
        return replace(self._lab_server.counters(address), tls_connections=None)

    def observe(self, arm: PlannedArm) -> StunnelObservation | None:
        if self._server is None or not self.has(arm):
            return None
        return StunnelObservation(self._server.connections(_key(arm)))

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        if not isinstance(before, StunnelObservation) or not isinstance(after, StunnelObservation):
            return Judgement()
        forwarded = after.connections - before.connections
        opened = answer.phases.get("connect")
        too_few = opened is not None and forwarded < opened.count
        return Judgement(
            mismatch=f"stunnel carried {forwarded} connections of {opened.count}" if opened and too_few else None,
            counts={"connections carried by stunnel": forwarded},
        )

    def failure_reason(self, arm: PlannedArm) -> str | None:
        if self._server is None or not self.has(arm):
            return None
        client = self._clients.get(self._distances[arm.name]) if stunnel_ends(arm) == BOTH else None
        return self._server.why_dead() or (client.why_dead() if client else None)

    def versions(self) -> dict[str, str]:
        return {"stunnel": stunnel_version(find_stunnel())} if self._server else {}

    def facts(self) -> dict[str, str]:
        settings = "TCP_NODELAY at both ends; the client's end uses only TLS 1.3 and resumes no session"
        return {"stunnel": settings} if self._server else {}

    def _entrance(self, arm: PlannedArm) -> str:
        return self._listen_address(_key(arm), self._distances[arm.name] if stunnel_ends(arm) == BOTH else None)

    def _listen_address(self, key: str, distance: str | None = None) -> str:
        address = self._star.client_address(distance) if distance else self._address
        return f"{address}:{self._ports[key]}"


def _key(arm: PlannedArm) -> str:
    return certificate_kind(arm.settings.lab, DEFAULT_KEY) or DEFAULT_KEY
