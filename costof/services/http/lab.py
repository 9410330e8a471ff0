"""The lab of balancers before an HTTP server."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from costof import __version__
from costof.errors import WarningText
from costof.lab.certificates import Authority
from costof.lab.host import Host, throttled_seconds
from costof.lab.lab import Lab
from costof.lab.program import Counters, Description
from costof.lab.topology import Chain
from costof.messages.plan import Endpoint, TlsFiles, Transport
from costof.model import Model
from costof.programs.balancer import ORIGIN_NAME, PROOF_PATH, Balancer, Entrance
from costof.programs.balancer import ROLE as BALANCER_ROLE
from costof.programs.haproxy import Haproxy
from costof.programs.http import HttpSettings
from costof.programs.nginx import Nginx
from costof.programs.origin import ROLE as ORIGIN_ROLE
from costof.programs.origin import Listener, ListenerCounters, OriginProcess
from costof.services import LabService, LoadData, Service, Stage, ended
from costof.study.arms import PlannedArm
from costof.study.plan import Plan


class Setting(Model):
    """`direct`: past the balancer. `balancer` is a program's name, `balancer_cores` its CPU share, `key` the kind of
    key where TLS ends."""

    direct: bool = False
    tls_at_balancer: bool = False
    tls_at_origin: bool = False
    key: str | None = None
    balancer: str | None = None
    balancer_cores: float | None = None

    @classmethod
    def of(cls, arm: PlannedArm) -> Self:
        return cls.model_validate(arm.settings.lab)


PROGRAMS: dict[str, type[Balancer]] = {Haproxy.name: Haproxy, Nginx.name: Nginx}
PATH = "/?wait=200"
FIRST_ENTRANCE = 8000
FIRST_LISTENER = 9000
PROOF_SECONDS = 60
# A new connection for each request leaves its port waiting for a minute (TIME_WAIT); an operator who has thousands of
# them a second says so. Where /proc/sys may not be written, the kernel's own 28,000 ports must do.
TUNE = """
cd /proc/sys/net/ipv4
[ ! -w tcp_tw_reuse ] || echo 1 >tcp_tw_reuse
[ ! -w ip_local_port_range ] || echo "10240 65535" >ip_local_port_range
"""


@dataclass(frozen=True)
class Route:
    """Where an arm's connections go and where TLS ends. Each has ports of its own, so counters tell them apart."""

    direct: bool
    tls_at_balancer: bool
    tls_at_origin: bool
    key: str | None

    @classmethod
    def of(cls, arm: PlannedArm) -> Route:
        setting = Setting.of(arm)
        return cls(setting.direct, setting.tls_at_balancer, setting.tls_at_origin, setting.key)

    @property
    def name(self) -> str:
        """Such as 'balancer-rsa-2048' or 'direct'."""
        ends = ["balancer"] * self.tls_at_balancer + ["origin"] * self.tls_at_origin
        return "-".join([*(ends or ["direct" if self.direct else "plain"]), *([self.key] if self.key else [])])

    @property
    def passes_through(self) -> bool:
        """The balancer forwards bytes: TLS ends at the origin alone."""
        return self.tls_at_origin and not self.tls_at_balancer and not self.direct


class HttpLab(LabService):
    """All arms use one origin and one process of each balancer. A balancer that dies costs its arms; the origin, the
    run."""

    def __init__(self, plan: Plan) -> None:
        balanced = [arm for arm in plan.arms if not Route.of(arm).direct]
        self._routes = list(dict.fromkeys(map(Route.of, plan.arms)))
        self._lab = Lab()
        first_cores = Setting.of(balanced[0]).balancer_cores or 1.0
        names = dict.fromkeys(str(Setting.of(arm).balancer) for arm in balanced)
        self._chain = Chain(self._lab, list(names), "an origin", plan.seed, first_cores)
        self._balancers: dict[str, Balancer] = {}
        self._contradicted: dict[str, str] = {}

    def _open(self, stack: ExitStack) -> None:
        stack.enter_context(self._lab)
        stack.enter_context(self._chain)
        for host in (self._chain.client, *self._chain.middle.values()):
            if host.namespace is not None:
                self._lab.run(f"ports of {host.name}", [*host.prefix, "sh", "-ec", TUNE])
        self._authority = Authority(self._lab.folder / "certificates")
        self._origin = stack.enter_context(OriginProcess(self._chain.last.prefix))
        self._listeners = dict(zip(self._routes, self._listeners_of(self._routes), strict=True))
        self._origin.begin(list(self._listeners.values()))
        entrances = self._entrances_of([route for route in self._routes if not route.direct])
        for name, host in self._chain.middle.items():
            balancer = PROGRAMS[name](self._lab, host, self._chain.addresses[name], entrances, self._authority.ca_file)
            balancer.start()
            self._balancers[name] = balancer
        self._ports = {entrance.name: entrance.port for entrance in entrances}

    def endpoint(self, arm: PlannedArm) -> Endpoint:
        settings = HttpSettings(addresses=[self._entry(arm)], path=PATH).asking(arm.settings.service)
        return Endpoint(service=settings, transport=arm.settings.transport_trusting(self._authority.ca_file))

    def prefix(self, arm: PlannedArm) -> list[str]:
        return self._chain.client.prefix

    def prepare(self, arm: PlannedArm, load: LoadData) -> None: ...

    def writes(self) -> list[str]:
        return ["nothing: the lab's own servers are asked by GET alone"]

    def arrange(self, arm: PlannedArm) -> None:
        if not Route.of(arm).direct:
            setting = Setting.of(arm)
            self._chain.middle[str(setting.balancer)].resize(setting.balancer_cores or 1.0)

    def prove(self, arm: PlannedArm, stage: Stage) -> dict[str, str]:
        """Say where TLS ended for two connections made as the arm makes them. One that contradicts the arm loses it."""
        if stage == "end":
            return {}
        try:
            facts, wrong = self._prove(arm)
        except (OSError, http.client.HTTPException) as error:
            # A suite that this OpenSSL lacks is the arm's error already; any other arm must not go on unproven.
            facts, wrong = {}, f"it could not be proved: {error}"
        if wrong is not None:
            self._contradicted[arm.name] = wrong
        return facts

    def counters(self, server: str) -> Counters:
        """Read the end that a client speaks to: a balancer, or the origin where bytes are passed through to it."""
        for name, balancer in self._balancers.items():
            for route in self._routes:
                if not route.direct and server == f"{self._chain.addresses[name]}:{self._ports[route.name]}":
                    if route.passes_through:
                        return _told(self._taken(route))
                    return balancer.counters(route.name)
        return _told(self._taken(next(route for route in self._routes if route.direct)))

    def cpu_seconds(self) -> dict[str, float]:
        return self._lab.cpu_seconds() | {ORIGIN_ROLE: self._origin.cpu_seconds()}

    def throttled_seconds(self) -> dict[str, float]:
        return throttled_seconds((BALANCER_ROLE, host) for host in self._chain.middle.values())

    def lost(self, arm: PlannedArm | None = None) -> str | None:
        if arm is not None:
            balancer = None if Route.of(arm).direct else self._balancers[str(Setting.of(arm).balancer)]
            return self._contradicted.get(arm.name) or (balancer.why_dead() if balancer else None)
        return ended("origin", self._origin.ended())

    def warnings(self) -> list[str]:
        hosts = " and ".join(self._balancers)
        return [] if self._chain.shares else [WarningText.NO_CPU_SHARE.text(hosts=hosts, factors="balancer_cpu")]

    def describe(self) -> Description:
        facts = {key: told for balancer in self._balancers.values() for key, told in balancer.facts().items()}
        return Description(
            versions={name: balancer.version for name, balancer in self._balancers.items()}
            | {"origin": f"costof-engine {__version__}"},
            topology=self._chain.words(),
            facts=facts | {"request": f"GET {PATH}"},
        )

    @property
    def process_ids(self) -> dict[str, int]:
        return super().process_ids | {"origin": self._origin.pid}

    def _listeners_of(self, routes: Iterable[Route]) -> list[Listener]:
        names = [self._chain.last_address, *self._chain.addresses.values(), ORIGIN_NAME]
        return [
            Listener(
                address=f"{self._chain.last_address}:{FIRST_LISTENER + number}",
                tls=TlsFiles.of(self._certificate(ORIGIN_NAME, route, names)) if route.tls_at_origin else None,
            )
            for number, route in enumerate(routes)
        ]

    def _entrances_of(self, routes: Iterable[Route]) -> list[Entrance]:
        names = list(self._chain.addresses.values())
        return [
            Entrance(
                name=route.name,
                port=FIRST_ENTRANCE + number,
                onward=self._listeners[route].address,
                certificate=self._certificate("balancer", route, names) if route.tls_at_balancer else None,
                reencrypts=route.tls_at_balancer and route.tls_at_origin,
                passes_through=route.passes_through,
            )
            for number, route in enumerate(routes)
        ]

    def _certificate(self, owner: str, route: Route, names: list[str]) -> Path:
        assert route.key is not None
        return self._authority.issue(f"{owner}-of-{route.name}", route.key, names)

    def _entry(self, arm: PlannedArm) -> str:
        """Return where the arm's client connects to, 'address:port'."""
        route = Route.of(arm)
        if not route.direct:
            return f"{self._chain.addresses[str(Setting.of(arm).balancer)]}:{self._ports[route.name]}"
        return self._listeners[route].address

    def _taken(self, route: Route) -> ListenerCounters | None:
        """Return what the origin has taken over a route, or None when it has died: `lost` says so."""
        if self._origin.ended() is not None:
            return None
        return self._origin.counters().listeners[self._listeners[route].address]

    def _prove(self, arm: PlannedArm) -> tuple[dict[str, str], str | None]:
        """Return facts, and what of them contradicts the arm."""
        route = Route.of(arm)
        told = ""
        if not route.direct and not route.passes_through:
            told = self._ask(arm, PROOF_PATH).strip()
        before = self._origin.counters().listeners[self._listeners[route].address]
        self._ask(arm, "/?wait=0")
        after = self._origin.counters().listeners[self._listeners[route].address]
        # Which of the origin's ports was asked tells the route; one with TLS takes nothing else.
        onward = "nothing" if after.requests == before.requests else "TLS" if after.tls else "plain"
        facts = {"TLS at the balancer": told or "none"} if not route.direct else {}
        return facts | {"to the origin": onward}, contradiction(route, told, onward)

    def _ask(self, arm: PlannedArm, path: str) -> str:
        """Make one request over a connection of its own, from the client's host. Raises OSError, HTTPException."""
        transport = arm.settings.transport_trusting(self._authority.ca_file)
        asking = _Connection(self._chain.client, self._entry(arm), _context(transport))
        try:
            asking.request("GET", path, headers={"Connection": "close"})
            response = asking.getresponse()
            body = response.read().decode(errors="replace")
        finally:
            asking.close()
        if response.status != http.client.OK:
            raise http.client.HTTPException(f"GET {path} was answered with {response.status}")
        return body


def contradiction(route: Route, at_balancer: str, onward: str) -> str | None:
    """Return what of an arm's proof is not as its route says, or None."""
    if bool(at_balancer) != route.tls_at_balancer:
        return f"the balancer says of its connection: {at_balancer or 'no TLS'}"
    wanted = "TLS" if route.tls_at_origin else "plain"
    return None if onward == wanted else f"to the origin came {onward}, not {wanted}"


class _Connection(http.client.HTTPConnection):
    """A connection from a host of the lab."""

    def __init__(self, host: Host, address: str, context: ssl.SSLContext | None) -> None:
        super().__init__(address)
        self._from = host
        self._context = context

    def connect(self) -> None:
        plain = self._from.socket()
        plain.settimeout(PROOF_SECONDS)
        self.sock = plain
        plain.connect((self.host, self.port))
        if self._context is not None:
            self.sock = self._context.wrap_socket(plain, server_hostname=self.host)


def _context(transport: Transport) -> ssl.SSLContext | None:
    """Return TLS as the engine speaks it on an arm. Raises OSError for a suite that this OpenSSL lacks."""
    if not transport.is_tls:
        return None
    context = ssl.create_default_context(cafile=transport.ca_file)
    context.check_hostname = transport.verify == "full"
    if transport.verify == "none":
        context.verify_mode = ssl.CERT_NONE
    if transport.cipher is not None:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(f"{transport.cipher}:@SECLEVEL={transport.security_level}")
    return context


def _told(taken: ListenerCounters | None) -> Counters:
    return Counters(taken.connections, taken.tls) if taken is not None else Counters()


def service(plan: Plan) -> Service:
    return HttpLab(plan)
