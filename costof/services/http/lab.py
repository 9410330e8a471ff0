"""The lab for studies of load balancers: an HTTP server (the origin), with HAProxy or nginx in front of it."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from costof import __version__
from costof.errors import WarningText
from costof.lab.certificates import Authority
from costof.lab.host import throttled_seconds
from costof.lab.lab import Lab
from costof.lab.program import Counters, Description
from costof.lab.topology import Chain
from costof.messages.plan import Endpoint, TlsFiles, Transport
from costof.model import Model
from costof.programs.balancer import EVIDENCE_PATH, MANY_PORTS, ORIGIN_NAME, Balancer, Entrance
from costof.programs.balancer import ROLE as BALANCER_ROLE
from costof.programs.haproxy import Haproxy
from costof.programs.http import HostConnection, HttpSettings
from costof.programs.nginx import Nginx
from costof.programs.origin import ROLE as ORIGIN_ROLE
from costof.programs.origin import Listener, ListenerCounters, OriginProcess
from costof.services import LabService, LoadData, Service, Stage, ended
from costof.study.arms import PlannedArm
from costof.study.plan import Plan


class ArmLabSettings(Model):
    """The settings of an arm (measured variant) for the balancer and the origin (the HTTP server).

    With `direct`, clients connect to the origin without a balancer. `balancer` is the balancer's name, such as 'nginx',
    and `balancer_cores` its CPU share in cores. `tls_at_balancer` and `tls_at_origin` say where TLS ends. `key` is the
    kind of key of the TLS certificates, such as 'rsa-2048'.
    """

    direct: bool = False
    tls_at_balancer: bool = False
    tls_at_origin: bool = False
    key: str | None = None
    balancer: str | None = None
    balancer_cores: float | None = None

    @classmethod
    def from_arm(cls, arm: PlannedArm) -> Self:
        return cls.model_validate(arm.settings.lab)


PROGRAMS: dict[str, type[Balancer]] = {Haproxy.name: Haproxy, Nginx.name: Nginx}
PATH = "/?wait=200"
FIRST_ENTRANCE = 8000
FIRST_LISTENER = 9000


@dataclass(frozen=True)
class Route:
    """How an arm (variant) reaches the origin (HTTP server): directly or through a balancer, and where TLS ends.

    Each route has its own ports at balancer and origin, and so its own counters.
    """

    direct: bool
    tls_at_balancer: bool
    tls_at_origin: bool
    key: str | None

    @classmethod
    def from_arm(cls, arm: PlannedArm) -> Route:
        settings = ArmLabSettings.from_arm(arm)
        return cls(settings.direct, settings.tls_at_balancer, settings.tls_at_origin, settings.key)

    @property
    def name(self) -> str:
        """A unique name from the place where TLS ends and the kind of key, such as 'balancer-rsa-2048' or 'plain'."""
        ends = ["balancer"] * self.tls_at_balancer + ["origin"] * self.tls_at_origin
        return "-".join([*(ends or ["direct" if self.direct else "plain"]), *([self.key] if self.key else [])])

    @property
    def passes_through(self) -> bool:
        """Return whether the balancer forwards bytes unchanged, because TLS ends only at the HTTP server."""
        return self.tls_at_origin and not self.tls_at_balancer and not self.direct


class HttpLab(LabService):
    """A lab in which all arms (variants) use the same origin (HTTP server), and one process of each balancer program.

    If a balancer ends, the arms that use it fail. If the origin ends, the run fails.
    """

    def __init__(self, plan: Plan) -> None:
        balanced = [arm for arm in plan.arms if not Route.from_arm(arm).direct]
        self._routes = list(dict.fromkeys(map(Route.from_arm, plan.arms)))
        self._lab = Lab()
        first_cores = ArmLabSettings.from_arm(balanced[0]).balancer_cores or 1.0
        names = dict.fromkeys(str(ArmLabSettings.from_arm(arm).balancer) for arm in balanced)
        self._chain = Chain(self._lab, list(names), "an origin", plan.seed, first_cores)
        self._balancers: dict[str, Balancer] = {}
        self._mismatches: dict[str, str] = {}

    def _open(self, stack: ExitStack) -> None:
        stack.enter_context(self._lab)
        stack.enter_context(self._chain)
        for host in (self._chain.client, *self._chain.middle.values()):
            if host.namespace is not None:
                self._lab.run(f"ports of {host.name}", [*host.prefix, "sh", "-ec", MANY_PORTS])
        self._authority = Authority(self._lab.folder / "certificates")
        self._origin = stack.enter_context(OriginProcess(self._chain.last.prefix))
        self._listeners = dict(zip(self._routes, self._make_listeners(self._routes), strict=True))
        self._origin.begin(list(self._listeners.values()))
        entrances = self._make_entrances([route for route in self._routes if not route.direct])
        for name, host in self._chain.middle.items():
            balancer = PROGRAMS[name](self._lab, host, self._chain.addresses[name], entrances, self._authority.ca_file)
            balancer.start()
            self._balancers[name] = balancer
        self._ports = {entrance.name: entrance.port for entrance in entrances}

    def endpoint(self, arm: PlannedArm) -> Endpoint:
        settings = HttpSettings(addresses=[self._entry(arm)], path=PATH).with_settings(arm.settings.service)
        return Endpoint(service=settings, transport=arm.settings.transport_trusting(self._authority.ca_file))

    def prefix(self, arm: PlannedArm) -> list[str]:
        return self._chain.client.prefix

    def prepare(self, arms: Sequence[PlannedArm], load: LoadData) -> None: ...

    def writes(self) -> list[str]:
        return ["nothing: the lab's own servers only get GET requests"]

    def arrange(self, arm: PlannedArm) -> None:
        if not Route.from_arm(arm).direct:
            settings = ArmLabSettings.from_arm(arm)
            self._chain.middle[str(settings.balancer)].resize(settings.balancer_cores or 1.0)

    def collect_evidence(self, arm: PlannedArm, stage: Stage) -> dict[str, str]:
        """Send test requests. Return facts: whether TLS is used to the balancer and to the origin (HTTP server).

        If the facts contradict the arm's settings, the arm fails.
        """
        if stage == "end":
            return {}
        try:
            facts, mismatch = self._test_route(arm)
        except (OSError, http.client.HTTPException) as error:
            # An arm that cannot be tested must not be measured. For example, this OpenSSL may lack a cipher suite.
            facts, mismatch = {}, f"its route could not be verified: {error}"
        if mismatch is not None:
            self._mismatches[arm.name] = mismatch
        return facts

    def counters(self, server: str) -> Counters:
        """Return the counters for `server`, the 'address:port' to which an arm's clients connect.

        Return the balancer's counters. Return the origin's if there is no balancer, or if TLS ends only at the origin,
        so that the balancer cannot count TLS connections.
        """
        for name, balancer in self._balancers.items():
            for route in self._routes:
                if not route.direct and server == f"{self._chain.addresses[name]}:{self._ports[route.name]}":
                    if route.passes_through:
                        return _to_counters(self._origin_counters(route))
                    return balancer.counters(route.name)
        return _to_counters(self._origin_counters(next(route for route in self._routes if route.direct)))

    def cpu_seconds(self) -> dict[str, float]:
        return self._lab.cpu_seconds() | {ORIGIN_ROLE: self._origin.cpu_seconds()}

    def server_processes(self) -> list[tuple[str, int]]:
        return [*super().server_processes(), (ORIGIN_ROLE, self._origin.pid)]

    def throttled_seconds(self) -> dict[str, float]:
        return throttled_seconds((BALANCER_ROLE, host) for host in self._chain.middle.values())

    def failure_reason(self, arm: PlannedArm | None = None) -> str | None:
        if arm is not None:
            settings = ArmLabSettings.from_arm(arm)
            balancer = None if settings.direct else self._balancers[str(settings.balancer)]
            return self._mismatches.get(arm.name) or (balancer.why_dead() if balancer else None)
        return ended("origin", self._origin.ended())

    def warnings(self) -> list[str]:
        hosts = " and ".join(self._balancers)
        return [] if self._chain.shares else [WarningText.NO_CPU_SHARE.text(hosts=hosts, factors="balancer_cpu")]

    def describe(self) -> Description:
        facts = {name: text for balancer in self._balancers.values() for name, text in balancer.facts().items()}
        return Description(
            versions={name: balancer.version for name, balancer in self._balancers.items()}
            | {"origin": f"costof-engine {__version__}"},
            topology=self._chain.words(),
            facts=facts | {"request": f"GET {PATH}"},
        )

    @property
    def process_ids(self) -> dict[str, int]:
        return super().process_ids | {"origin": self._origin.pid}

    def _make_listeners(self, routes: Iterable[Route]) -> list[Listener]:
        names = [self._chain.last_address, *self._chain.addresses.values(), ORIGIN_NAME]
        return [
            Listener(
                address=f"{self._chain.last_address}:{FIRST_LISTENER + number}",
                tls=TlsFiles.of(self._certificate(ORIGIN_NAME, route, names)) if route.tls_at_origin else None,
            )
            for number, route in enumerate(routes)
        ]

    def _make_entrances(self, routes: Iterable[Route]) -> list[Entrance]:
        names = list(self._chain.addresses.values())
        return [
            Entrance(
                name=route.name,
                port=FIRST_ENTRANCE + number,
                origin=self._listeners[route].address,
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
        route = Route.from_arm(arm)
        if not route.direct:
            return f"{self._chain.addresses[str(ArmLabSettings.from_arm(arm).balancer)]}:{self._ports[route.name]}"
        return self._listeners[route].address

    def _origin_counters(self, route: Route) -> ListenerCounters | None:
        if self._origin.ended() is not None:
            return None
        return self._origin.counters().listeners[self._listeners[route].address]

    def _test_route(self, arm: PlannedArm) -> tuple[dict[str, str], str | None]:
        """Test an arm's route. Return facts, and an error text if they contradict the arm's settings (else None)."""
        route = Route.from_arm(arm)
        at_balancer = ""
        if not route.direct and not route.passes_through:
            at_balancer = self._get(arm, EVIDENCE_PATH).strip()
        before = self._origin.counters().listeners[self._listeners[route].address]
        self._get(arm, "/?wait=0")
        after = self._origin.counters().listeners[self._listeners[route].address]
        # Each route has its own port at the origin, so the port's counters show how the test request arrived.
        to_origin = "nothing" if after.requests == before.requests else "TLS" if after.tls else "plain"
        facts = {"TLS at the balancer": at_balancer or "none"} if not route.direct else {}
        return facts | {"to the origin": to_origin}, route_mismatch(route, at_balancer, to_origin)

    def _get(self, arm: PlannedArm, path: str) -> str:
        """Send a GET request from the client's host. Return the response's body. Raises OSError, HTTPException."""
        transport = arm.settings.transport_trusting(self._authority.ca_file)
        connection = HostConnection(self._chain.client, self._entry(arm), _context(transport))
        try:
            connection.request("GET", path, headers={"Connection": "close"})
            response = connection.getresponse()
            body = response.read().decode(errors="replace")
        finally:
            connection.close()
        if response.status != http.client.OK:
            raise http.client.HTTPException(f"GET {path} was answered with {response.status}")
        return body


def route_mismatch(route: Route, at_balancer: str, to_origin: str) -> str | None:
    """Return an error text if a test request did not use TLS where the route requires it; None if it did.

    `at_balancer` is the TLS version and cipher that the balancer reports, or '' without TLS. `to_origin` is how the
    request reached the origin: 'TLS', 'plain', or 'nothing' if it did not arrive.
    """
    if bool(at_balancer) != route.tls_at_balancer:
        return f"the balancer's connection had {at_balancer or 'no TLS'}"
    expected = "TLS" if route.tls_at_origin else "plain"
    return None if to_origin == expected else f"the origin got {to_origin}, not {expected}"


def _context(transport: Transport) -> ssl.SSLContext | None:
    """Return an arm's TLS context for requests; None without TLS. Raises OSError if OpenSSL lacks a cipher suite."""
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


def _to_counters(listener: ListenerCounters | None) -> Counters:
    return Counters(listener.connections, listener.tls) if listener is not None else Counters()


def service(plan: Plan) -> Service:
    return HttpLab(plan)
