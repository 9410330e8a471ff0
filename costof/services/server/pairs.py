"""Sidecar proxies: one beside the server and, for a pair, another one beside the clients, with mutual TLS."""

from __future__ import annotations

import contextlib
import operator
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from costof.errors import CostofError, ErrorText
from costof.lab.certificates import DEFAULT_KEY, Authority
from costof.lab.host import Host
from costof.lab.program import Counters
from costof.messages.answers import SliceAnswer
from costof.messages.plan import ServiceSettings
from costof.model import Model
from costof.programs.server import LabServer
from costof.programs.sidecars import PROGRAMS
from costof.programs.sidecars.proxy import ConnectionRecord, MutualTls, Passage, PassageCounters, Sidecar
from costof.services import Judgement, Observation
from costof.services.server.entrances import Entrances, Site
from costof.study.arms import PlannedArm

SERVER_ROLE = "proxy of the server"
CLIENT_ROLE = "proxy of the client"
FIRST_PORT = 15_000
#: The names in the sidecars' certificates. Each sidecar accepts only peers with the name of the other sidecar.
SERVER_NAME, CLIENT_NAME = "sidecar-of-the-server", "sidecar-of-the-client"
#: A request for test connections. Any server answers or refuses it at once, even one that does not speak HTTP.
REQUEST = b"GET / HTTP/1.1\r\nHost: costof\r\nConnection: close\r\n\r\n"
EVIDENCE_SECONDS = 60.0
#: If a sidecar has not recorded a test connection after this time, the test is repeated.
ATTEMPT_SECONDS = 1.0
#: How the answer of a port that requires TLS begins if it gets plain text: a TLS alert, or an HTTP error.
REFUSALS = (b"\x15", b"HTTP/1.1 400")
REFUSED = ("plain connections", "connections without a certificate")
NOTHING = ConnectionRecord("", "", "")


class SidecarSettings(Model):
    """The settings of an arm (measured variant) for its sidecars.

    There is a sidecar beside the server and, with `at_client`, another beside the clients.

    With `mutual_tls`, the two sidecars use TLS with each other, and each verifies the other's certificate. With `http`
    they forward HTTP/1.1 requests and keep their connections to the next hop open. Otherwise they forward bytes, and
    open one connection for each connection of a client. With `resumption`, new TLS connections resume an earlier
    session. `key` is the kind of key of both certificates, such as 'rsa-2048'.
    """

    program: str
    at_client: bool = False
    mutual_tls: bool = False
    http: bool = False
    resumption: bool = False
    key: str | None = None

    @classmethod
    def from_arm(cls, arm: PlannedArm) -> SidecarSettings | None:
        """Return the settings, or None for an arm without sidecars. Raises `LAB_FAILED` for an unknown program."""
        content = arm.settings.lab.get(Pairs.setting)
        if content is None:
            return None
        settings = cls.model_validate(content)
        if settings.program not in PROGRAMS:
            names = ", ".join(PROGRAMS)
            detail = f"unknown sidecar program '{settings.program}' (choose from: {names})"
            raise CostofError(ErrorText.LAB_FAILED, detail=detail)
        key = settings.key or arm.settings.lab.get("key", DEFAULT_KEY)
        return settings.model_copy(update={"key": key if settings.mutual_tls else None})


@dataclass(frozen=True)
class Route:
    """How the connections of an arm (measured variant) pass through the sidecars.

    Arms with equal settings share a route. Each route has its own port number, which both sidecars use.
    """

    name: str
    port: int
    settings: SidecarSettings


@dataclass(frozen=True)
class PairObservation(Observation):
    """The counters of an arm (variant), as read from the server's sidecar and, in a pair, from the clients' sidecar."""

    at_server: PassageCounters
    at_client: PassageCounters | None


@dataclass(frozen=True)
class RouteEvidence:
    """The result of testing a route with test connections.

    `at_server` and `at_client` are what the two sidecars recorded about a test connection. `accepted` lists the kinds
    of connections that the server's sidecar should have refused, but accepted.
    """

    at_server: ConnectionRecord
    at_client: ConnectionRecord | None
    accepted: list[str]

    def facts(self, settings: SidecarSettings) -> dict[str, str]:
        facts = {"proxies": f"{2 if settings.at_client else 1} × {PROGRAMS[settings.program].shown}"}
        if self.at_client is not None:
            facts["between the proxies"] = self.at_server.tls or "no TLS"
        if settings.mutual_tls and self.at_client is not None:
            facts[f"certificate that the {CLIENT_ROLE} saw"] = self.at_client.server or "none"
            facts[f"certificate that the {SERVER_ROLE} saw"] = self.at_server.client or "none"
            refused = [kind for kind in REFUSED if kind not in self.accepted]
            facts[f"refused by the {SERVER_ROLE}"] = " and ".join(refused) or "nothing"
        return facts

    def mismatch(self, settings: SidecarSettings) -> str | None:
        """Return how the result contradicts the settings ('the proxies did not use TLS'); None if it does not."""
        if not settings.mutual_tls:
            protocol = self.at_server.tls or (self.at_client.tls if self.at_client else "")
            return f"the proxies used {protocol}" if protocol else None
        client, server = (self.at_client or NOTHING).server, self.at_server.client
        if not self.at_server.tls or not (self.at_client or NOTHING).tls:
            return "the proxies did not use TLS"
        if server != CLIENT_NAME:
            return f"the {SERVER_ROLE} saw the certificate '{server}'"
        if client != SERVER_NAME:
            return f"the {CLIENT_ROLE} saw the certificate '{client}'"
        return f"the {SERVER_ROLE} accepted {' and '.join(self.accepted)}" if self.accepted else None


class Pairs(Entrances):
    """The sidecars of a run. Each program, such as Envoy, has one process beside the server.

    If arms (measured variants) need it, the program also has a process on each host of clients, that is, for each
    distance (round-trip time).
    """

    setting = "sidecars"
    roles = frozenset({SERVER_ROLE, CLIENT_ROLE})
    separate_clients = True

    def __init__(self, site: Site) -> None:
        self._site = site
        self._lab = site.lab
        self._star = site.star
        self._distances = site.distances
        settings = {arm.name: each for arm in site.arms if (each := SidecarSettings.from_arm(arm))}
        by_settings = {
            each: Route(f"route-{number}", site.port(FIRST_PORT) + number, each)
            for number, each in enumerate(dict.fromkeys(settings.values()), 1)
        }
        self._routes = {name: by_settings[each] for name, each in settings.items()}
        self._at_server: dict[str, Sidecar] = {}
        self._at_client: dict[tuple[str, str], Sidecar] = {}
        self._failed: dict[str, str] = {}
        self._mismatches: dict[str, str] = {}
        self._certificates: dict[tuple[str, str], Path] = {}

    def has(self, arm: PlannedArm) -> bool:
        return arm.name in self._routes

    def start(self, server: LabServer, authority: Authority) -> None:
        """Start the sidecars. Raises `PROGRAM_MISSING`, `ENVOY_MISSING`."""
        if not self._routes:
            return
        self._authority = authority
        server_address = server.client_settings().addresses[0]
        self._address = server_address.rpartition(":")[0]
        for program in dict.fromkeys(route.settings.program for route in self._routes.values()):
            PROGRAMS[program].find()
            arms = {name: route for name, route in self._routes.items() if route.settings.program == program}
            passages = [self._passage_at_server(route, server_address) for route in dict.fromkeys(arms.values())]
            name = self._site.name(f"{program}-server")
            sidecar = PROGRAMS[program](self._lab, name, SERVER_ROLE, passages, self._star.server)
            self._at_server[program] = self._started(sidecar)
            pairs = {name: route for name, route in arms.items() if route.settings.at_client}
            for distance in dict.fromkeys(self._distances[name] for name in pairs):
                passages = [self._passage_at_client(route, distance) for route in dict.fromkeys(pairs.values())]
                host = self._star.client(distance)
                name = self._site.name(f"{program}-client-{distance}")
                sidecar = PROGRAMS[program](self._lab, name, CLIENT_ROLE, passages, host)
                self._at_client[program, distance] = self._started(sidecar)

    def redirect(self, settings: ServiceSettings, arm: PlannedArm) -> ServiceSettings:
        return settings.at_address(self._entry(arm))

    def evidence(self, arm: PlannedArm) -> dict[str, str]:
        """Open test connections. Return facts: the sidecars' records of these connections, and the refused ones.

        If the facts contradict the arm's settings, the arm fails.
        """
        if self.failure_reason(arm) is not None:
            return {}
        settings = self._routes[arm.name].settings
        try:
            found = self._test(arm)
        except OSError as error:
            # An arm that cannot be tested must not be measured.
            self._mismatches[arm.name] = f"its proxies could not be verified: {error}"
            return {}
        if mismatch := found.mismatch(settings):
            self._mismatches[arm.name] = mismatch
        return found.facts(settings)

    def counters(self, address: str) -> Counters | None:
        """Return the number of connections that clients have opened to `address`; None if no sidecar listens there.

        Several sidecars may have this address, because it is the same on all hosts of clients. The result is the sum of
        their counts.
        """
        found = {}
        for name, route in self._routes.items():
            distance = self._distances[name]
            if address == self._listen_address(route, distance if route.settings.at_client else None):
                sidecar = self._sidecars(route, distance)[-1]
                found[id(sidecar)] = sidecar, route.name
        if not found:
            return None
        try:
            return Counters(sum(sidecar.counters(route).connections for sidecar, route in found.values()))
        except OSError:
            return Counters()

    def observe(self, arm: PlannedArm) -> PairObservation | None:
        route = self._routes[arm.name]
        with contextlib.suppress(OSError):
            counters = [each.counters(route.name) for each in self._sidecars(route, self._distances[arm.name])]
            return PairObservation(counters[0], counters[1] if len(counters) > 1 else None)
        return None

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        if not isinstance(before, PairObservation) or not isinstance(after, PairObservation):
            return Judgement(mismatch=self.failure_reason(arm) or "the proxies gave no counters")
        settings = self._routes[arm.name].settings
        increases = [after.at_server.since(before.at_server)]
        if after.at_client is not None and before.at_client is not None:
            increases.append(after.at_client.since(before.at_client))
        counts = {f"connections to the {SERVER_ROLE}": increases[0].connections}
        if settings.http:
            counts[f"requests counted by the {SERVER_ROLE}"] = increases[0].requests
        if settings.mutual_tls:
            counts["TLS handshakes between the proxies"] = increases[0].handshakes
        return Judgement(mismatch=missing(settings, increases, answer), counts=counts)

    def failure_reason(self, arm: PlannedArm) -> str | None:
        route = self._routes.get(arm.name)
        if route is None:
            return None
        dead = (each.why_dead() for each in self._sidecars(route, self._distances[arm.name]))
        return (
            next(filter(None, dead), None) or self._failed.get(route.settings.program) or self._mismatches.get(arm.name)
        )

    def versions(self) -> dict[str, str]:
        return {program: sidecar.version for program, sidecar in self._at_server.items() if sidecar.version}

    def facts(self) -> dict[str, str]:
        return {PROGRAMS[program].shown: PROGRAMS[program].facts() for program in self._at_server}

    def _started(self, sidecar: Sidecar) -> Sidecar:
        """Start a sidecar and return it. If the start fails, the arms (variants) that use this program fail."""
        try:
            sidecar.start()
        except CostofError as error:
            self._failed[sidecar.name] = str(error)
        return sidecar

    def _passage_at_server(self, route: Route, server_address: str) -> Passage:
        settings = route.settings
        inward = self._tls(route, SERVER_NAME, CLIENT_NAME) if settings.mutual_tls else None
        return Passage(route.name, self._listen_address(route), server_address, settings.http, inward)

    def _passage_at_client(self, route: Route, distance: str) -> Passage:
        settings = route.settings
        outward = self._tls(route, CLIENT_NAME, SERVER_NAME) if settings.mutual_tls else None
        listen, forward_to = self._listen_address(route, distance), self._listen_address(route)
        return Passage(route.name, listen, forward_to, settings.http, outward=outward)

    def _tls(self, route: Route, own: str, peer: str) -> MutualTls:
        kind = str(route.settings.key)
        certificate = self._certificates.get((own, kind)) or self._authority.issue(own, kind, [own])
        self._certificates[own, kind] = certificate
        return MutualTls(certificate, self._authority.ca_file, peer, route.settings.resumption)

    def _listen_address(self, route: Route, distance: str | None = None) -> str:
        """Return a route's 'address:port' at the server's sidecar.

        With `distance`, return the address at the sidecar of the clients at this distance (round-trip time).
        """
        return f"{self._star.client_address(distance) if distance else self._address}:{route.port}"

    def _entry(self, arm: PlannedArm) -> str:
        route = self._routes[arm.name]
        return self._listen_address(route, self._distances[arm.name] if route.settings.at_client else None)

    def _sidecars(self, route: Route, distance: str) -> list[Sidecar]:
        """Return the sidecars of a route: the server's and, in a pair, that of clients at this distance ('wan')."""
        program = route.settings.program
        at_client = [self._at_client[program, distance]] if route.settings.at_client else []
        return [self._at_server[program], *at_client]

    def _test(self, arm: PlannedArm) -> RouteEvidence:
        """Open a test connection through the arm's sidecars, and connections that must be refused. Raises OSError."""
        route, distance = self._routes[arm.name], self._distances[arm.name]
        host = self._star.client(distance)
        records = _record_test_connections(route, self._sidecars(route, distance), host, self._entry(arm))
        accepted = []
        if route.settings.mutual_tls:
            port = self._listen_address(route)
            accepted = [kind for kind, context in self._refused().items() if _is_accepted(host, port, context)]
        return RouteEvidence(records[0], records[1] if len(records) > 1 else None, accepted)

    def _refused(self) -> dict[str, ssl.SSLContext | None]:
        """Map each kind in `REFUSED` to the TLS context for a connection of this kind; None for plain connections."""
        return dict(zip(REFUSED, (None, ssl.create_default_context(cafile=self._authority.ca_file)), strict=True))


def missing(settings: SidecarSettings, increases: list[PassageCounters], answer: SliceAnswer) -> str | None:
    """Return an error text if not all traffic of a slice went through the arm's sidecars; None if it did.

    Each sidecar must have counted all requests or connections of the slice (measured window), and their TLS handshakes.
    `increases` has the increase of each sidecar's counters during the slice, the server's sidecar first. With `http`,
    handshakes are not checked, because sidecars that forward requests keep their connections open.
    """
    connect = answer.phases.get("connect")
    opened = connect.count if connect is not None else 0
    for role, counters in zip((SERVER_ROLE, CLIENT_ROLE), increases, strict=False):
        if settings.http and counters.requests < answer.operations:
            return f"the {role} counted only {counters.requests} of {answer.operations} requests"
        if not settings.http and counters.connections < opened:
            return f"the {role} counted only {counters.connections} of {opened} connections"
    if settings.mutual_tls and not settings.http and increases[0].handshakes < opened:
        return f"the {SERVER_ROLE} counted only {increases[0].handshakes} of {opened} TLS handshakes"
    return None


def _record_test_connections(route: Route, sidecars: list[Sidecar], host: Host, entry: str) -> list[ConnectionRecord]:
    """Open test connections until each sidecar has recorded one. Return each sidecar's last record. Raises OSError."""
    before, arrived = _lengths(route, sidecars), sidecars[0].counters(route.name)
    deadline = time.monotonic() + EVIDENCE_SECONDS
    try:
        for each in sidecars:
            each.record(True)
        # Several test connections may be necessary, because a sidecar may start to record with a delay.
        while time.monotonic() < deadline:
            with _connected(host, entry) as connection:
                if route.settings.http:
                    connection.sendall(REQUEST)
                    while connection.recv(65_536):
                        pass
                else:
                    # Send nothing, because the sidecars connect to the next hop as soon as a client connects. Keep the
                    # connection open until the server's sidecar has counted it.
                    _within(ATTEMPT_SECONDS, lambda: _has_arrived(route, sidecars[0], arrived))
            if _within(ATTEMPT_SECONDS, lambda: all(map(operator.gt, _lengths(route, sidecars), before))):
                return [each.records(route.name)[-1] for each in sidecars]
    finally:
        for each in sidecars:
            each.record(False)
    raise TimeoutError(f"they wrote nothing about a test connection within {EVIDENCE_SECONDS:.0f} s")


def _lengths(route: Route, sidecars: list[Sidecar]) -> list[int]:
    return [len(each.records(route.name)) for each in sidecars]


def _has_arrived(route: Route, sidecar: Sidecar, before: PassageCounters) -> bool:
    """Return whether a new connection has reached the server's sidecar and, with TLS, completed the handshake."""
    increase = sidecar.counters(route.name).since(before)
    return increase.connections > 0 and (increase.handshakes > 0 or not route.settings.mutual_tls)


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Wait at most `seconds` until the condition holds. Return whether it holds."""
    deadline = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds


def _is_accepted(host: Host, address: str, context: ssl.SSLContext | None) -> bool:
    """Return whether a port answers a request that comes without a client certificate, or in plain text.

    `context` is for TLS without a client certificate; None means plain text. Raises OSError if the port cannot be
    reached.
    """
    with _connected(host, address) as plain:
        try:
            secure = plain if context is None else context.wrap_socket(plain, server_hostname=SERVER_NAME)
            with contextlib.closing(secure):
                secure.sendall(REQUEST)
                answer = secure.recv(65_536)
                return bool(answer) and not answer.startswith(REFUSALS)
        except OSError:
            return False


@contextlib.contextmanager
def _connected(host: Host, address: str) -> Iterator[socket.socket]:
    ip, _, port = address.rpartition(":")
    with host.socket() as connection:
        connection.settimeout(EVIDENCE_SECONDS)
        connection.connect((ip, int(port)))
        yield connection
