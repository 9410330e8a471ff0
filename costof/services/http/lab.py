"""The lab of an HTTP study: balancers on small hosts of their own before one origin; TLS ends where an arm says."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costof import __version__
from costof.errors import Caution
from costof.lab.certificates import Authority
from costof.lab.host import Host
from costof.lab.lab import Lab
from costof.lab.program import Counters, Description
from costof.lab.resource import Opened
from costof.programs.balancer import ORIGIN_NAME, PROOF_PATH, Balancer, Entrance
from costof.programs.balancer import ROLE as BALANCER_ROLE
from costof.programs.haproxy import Haproxy
from costof.programs.nginx import Nginx
from costof.programs.origin import ROLE as ORIGIN_ROLE
from costof.programs.origin import Listener, ListenerCounters, OriginProcess
from costof.services import LoadData, Service
from costof.services.http.site import BalancedSite
from costof.study.plan import Plan, PlannedArm
from costof.study.transport import transport_of

PROGRAMS: dict[str, type[Balancer]] = {Haproxy.name: Haproxy, Nginx.name: Nginx}
PATH = "/?wait=200"
FIRST_ENTRANCE = 8000
FIRST_LISTENER = 9000
#: Levels of `termination` at which the balancer, and the origin, has a certificate.
ENDS_AT_BALANCER = ("balancer", "reencrypt")
ENDS_AT_ORIGIN = ("reencrypt", "backend")
PROOF_SECONDS = 10


@dataclass(frozen=True)
class Road:
    """What an arm asks of the servers. Each has ports of its own, so that their counters tell roads apart."""

    termination: str
    key: str | None

    @classmethod
    def of(cls, arm: PlannedArm) -> Road:
        return cls(arm.levels["termination"], arm.levels.get("key"))

    @property
    def name(self) -> str:
        return f"{self.termination}-{self.key}" if self.key else self.termination

    @property
    def balanced(self) -> bool:
        return self.termination != "direct"


class HttpLab(Opened, Service):
    """All arms use one origin and one process of each balancer. A balancer that dies costs its arms; the origin, the
    run."""

    measures_cpu = True

    def __init__(self, plan: Plan) -> None:
        balanced = [arm for arm in plan.arms if Road.of(arm).balanced]
        self._roads = list(dict.fromkeys(map(Road.of, plan.arms)))
        self._lab = Lab()
        first_cores = float(balanced[0].levels["balancer_cpu"])
        names = dict.fromkeys(arm.levels["balancer"] for arm in balanced)
        self._site = BalancedSite(self._lab, list(names), first_cores, plan.seed)
        self._balancers: dict[str, Balancer] = {}
        self._contradicted: dict[str, str] = {}

    def _open(self, stack: ExitStack) -> None:
        stack.enter_context(self._lab)
        stack.enter_context(self._site)
        self._authority = Authority(self._lab.folder / "certificates")
        self._origin = stack.enter_context(OriginProcess(self._site.origin.prefix))
        self._listeners = dict(zip(self._roads, self._listeners_of(self._roads), strict=True))
        self._origin.begin(list(self._listeners.values()))
        entrances = self._entrances_of([road for road in self._roads if road.balanced])
        for name, host in self._site.balancers.items():
            balancer = PROGRAMS[name](self._lab, host, self._site.addresses[name], entrances, self._authority.ca_file)
            balancer.start()
            self._balancers[name] = balancer
        self._ports = {entrance.name: entrance.port for entrance in entrances}

    def endpoint(self, arm: PlannedArm) -> dict[str, Any]:
        address, port = self._entry(arm)
        return {
            "service": {
                "protocol": "http",
                "addresses": [f"{address}:{port}"],
                "path": PATH,
                "requests_per_connection": int(arm.levels["keep_alive"]),
            },
            "transport": transport_of(arm.levels, self._authority.ca_file),
        }

    def prefix(self, arm: PlannedArm) -> list[str]:
        return self._site.client.prefix

    def prepare(self, arm: PlannedArm, load: LoadData) -> None:
        """There is no data."""

    def writes(self) -> list[str]:
        return ["nothing: the lab's own servers are asked by GET alone"]

    def arrange(self, arm: PlannedArm) -> None:
        if Road.of(arm).balanced:
            self._site.resize(arm.levels["balancer"], float(arm.levels["balancer_cpu"]))

    def proofs(self, arm: PlannedArm) -> dict[str, str]:
        """Where TLS ended for two connections made as the arm makes them. One that contradicts the arm loses it."""
        try:
            facts, wrong = self._prove(arm)
        except (OSError, http.client.HTTPException) as error:
            # A suite that this OpenSSL lacks is the arm's error already; any other arm must not go on unproven.
            facts, wrong = {}, f"it could not be proved: {error}"
        if wrong is not None:
            self._contradicted[arm.name] = wrong
        return facts

    def lost_arm(self, arm: PlannedArm) -> str | None:
        if arm.name in self._contradicted:
            return self._contradicted[arm.name]
        return self._balancers[arm.levels["balancer"]].why_dead() if Road.of(arm).balanced else None

    def counters(self, server: str) -> Counters:
        """Of the end that a client speaks to: a balancer, or the origin where bytes are passed through to it."""
        for name, balancer in self._balancers.items():
            for road in self._roads:
                if road.balanced and server == f"{self._site.addresses[name]}:{self._ports[road.name]}":
                    if road.termination == "backend":
                        return _told(self._taken(road))
                    return balancer.counters(road.name)
        return _told(self._taken(next(road for road in self._roads if not road.balanced)))

    def cpu_seconds(self) -> dict[str, float]:
        return self._lab.cpu_seconds() | {ORIGIN_ROLE: self._origin.cpu_seconds()}

    def held_back_seconds(self) -> dict[str, float]:
        return {BALANCER_ROLE: self._site.held_back_seconds()} if self._site.shares else {}

    def lost(self) -> str | None:
        status = self._origin.ended()
        return None if status is None else f"the lab's origin ended in the middle of the run (status {status})"

    def cautions(self) -> list[str]:
        return (
            []
            if self._site.shares
            else [Caution.NO_CPU_SHARE.text(hosts=" and ".join(self._balancers), factors="balancer_cpu")]
        )

    def describe(self) -> Description:
        facts = {key: told for balancer in self._balancers.values() for key, told in balancer.facts().items()}
        return Description(
            versions={name: balancer.version for name, balancer in self._balancers.items()}
            | {"origin": f"costof-engine {__version__}"},
            topology=self._site.topology(),
            facts=facts | {"request": f"GET {PATH}"},
        )

    @property
    def process_ids(self) -> dict[str, int]:
        """Pids of what the lab has started, by name."""
        return {process.name: process.pid for process in self._lab.processes.values()} | {"origin": self._origin.pid}

    def _listeners_of(self, roads: Iterable[Road]) -> list[Listener]:
        names = [self._site.origin_address, *self._site.addresses.values(), ORIGIN_NAME]
        return [
            Listener(
                self._site.origin_address,
                FIRST_LISTENER + number,
                self._certificate(ORIGIN_NAME, road, names) if road.termination in ENDS_AT_ORIGIN else None,
            )
            for number, road in enumerate(roads)
        ]

    def _entrances_of(self, roads: Iterable[Road]) -> list[Entrance]:
        names = list(self._site.addresses.values())
        return [
            Entrance(
                name=road.name,
                port=FIRST_ENTRANCE + number,
                onward=self._listeners[road].name,
                certificate=self._certificate("balancer", road, names)
                if road.termination in ENDS_AT_BALANCER
                else None,
                reencrypts=road.termination == "reencrypt",
                passes_through=road.termination == "backend",
            )
            for number, road in enumerate(roads)
        ]

    def _certificate(self, owner: str, road: Road, names: list[str]) -> Path:
        assert road.key is not None
        return self._authority.issue(f"{owner}-{road.termination}", road.key, names)

    def _entry(self, arm: PlannedArm) -> tuple[str, int]:
        """Where the arm's client connects to."""
        road = Road.of(arm)
        if road.balanced:
            return self._site.addresses[arm.levels["balancer"]], self._ports[road.name]
        return self._listeners[road].address, self._listeners[road].port

    def _taken(self, road: Road) -> ListenerCounters | None:
        """What the origin has taken over a road. None when it has died: `lost` says so."""
        if self._origin.ended() is not None:
            return None
        return self._origin.counters().listeners[self._listeners[road].name]

    def _prove(self, arm: PlannedArm) -> tuple[dict[str, str], str | None]:
        """Facts, and what of them contradicts the arm."""
        road = Road.of(arm)
        told = ""
        if road.balanced and road.termination != "backend":
            told = self._ask(arm, PROOF_PATH).strip()
        before = self._origin.counters().listeners[self._listeners[road].name]
        self._ask(arm, "/?wait=0")
        after = self._origin.counters().listeners[self._listeners[road].name]
        # Which of the origin's ports was asked tells the road; one with TLS takes nothing else.
        onward = "nothing" if after.requests == before.requests else "TLS" if after.tls else "plain"
        facts = {"TLS at the balancer": told or "none"} if road.balanced else {}
        return facts | {"to the origin": onward}, contradiction(road.termination, told, onward)

    def _ask(self, arm: PlannedArm, path: str) -> str:
        """One request over a connection of its own, from the client's host. Raises OSError, HTTPException."""
        address, port = self._entry(arm)
        transport = self.endpoint(arm)["transport"]
        asking = _Connection(self._site.client, address, port, _context(transport))
        try:
            asking.request("GET", path, headers={"Connection": "close"})
            response = asking.getresponse()
            body = response.read().decode(errors="replace")
        finally:
            asking.close()
        if response.status != http.client.OK:
            raise http.client.HTTPException(f"GET {path} was answered with {response.status}")
        return body


def contradiction(termination: str, at_balancer: str, onward: str) -> str | None:
    """What of an arm's proof is not as its termination says, in words; None when all is."""
    if bool(at_balancer) != (termination in ENDS_AT_BALANCER):
        return f"the balancer says of its connection: {at_balancer or 'no TLS'}"
    wanted = "TLS" if termination in ENDS_AT_ORIGIN else "plain"
    return None if onward == wanted else f"to the origin came {onward}, not {wanted}"


class _Connection(http.client.HTTPConnection):
    """From a host of the lab."""

    def __init__(self, host: Host, address: str, port: int, context: ssl.SSLContext | None) -> None:
        super().__init__(address, port)
        self._from = host
        self._context = context

    def connect(self) -> None:
        plain = self._from.socket()
        plain.settimeout(PROOF_SECONDS)
        self.sock = plain
        plain.connect((self.host, self.port))
        if self._context is not None:
            self.sock = self._context.wrap_socket(plain, server_hostname=self.host)


def _context(transport: dict[str, Any]) -> ssl.SSLContext | None:
    """As the engine speaks TLS on an arm. Raises OSError for a suite that this OpenSSL lacks."""
    if transport["kind"] == "plain":
        return None
    context = ssl.create_default_context(cafile=transport["ca_file"])
    context.check_hostname = transport["verify"] == "full"
    if transport["verify"] == "none":
        context.verify_mode = ssl.CERT_NONE
    if "cipher" in transport:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(f"{transport['cipher']}:@SECLEVEL={transport['security_level']}")
    return context


def _told(taken: ListenerCounters | None) -> Counters:
    return Counters(taken.connections, taken.tls) if taken is not None else Counters()


def service(plan: Plan) -> Service:
    return HttpLab(plan)
