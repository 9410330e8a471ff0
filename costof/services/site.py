"""Where a lab's servers stand and how far its clients are: a host for the servers, and one for each distance's clients.

The servers keep one set of addresses whatever the distance, so that a replica set announces addresses that every
client can use, and arms of one distance differ in their transport alone. A client's host has one link to the servers'
host, and a route over it to their addresses.

Without root, and in a lab that can do without hosts of its own while all clients are near, both are loopback addresses.
"""

from __future__ import annotations

from contextlib import ExitStack

from costof.lab.host import Host, Link
from costof.lab.lab import Lab
from costof.lab.network import Network
from costof.lab.resource import Opened
from costof.lab.round_trips import LinkEvidence, measured
from costof.study.arms import PlannedArm
from costof.study.plan import Plan

# Servers take the first loopback addresses of the lab, so that they are where they would be without a distance.
CLIENT_LOOPBACK = 100


class Site(Opened):
    """A context manager within a lab's; leave it before the lab.

    Servers bind addresses on `server`, each a `new_address`. `apart`: hosts of their own, where root allows it, even
    when all clients are near, so that near is the same thing in a run with and without far clients.
    """

    def __init__(self, lab: Lab, plan: Plan, apart: bool = False) -> None:
        self._lab = lab
        self._network = Network(lab, seed=plan.seed)
        self._names: dict[str, str] = {}
        self._links: dict[str, Link] = {}
        self._evidence: list[LinkEvidence] = []
        self._served = 0
        self._round_trips_ms: dict[str, float] = {}
        for arm in plan.arms:
            name = _distance_name(plan, arm)
            self._names[arm.name] = name
            self._round_trips_ms[name] = plan.study.round_trip_ms(arm.levels)
        self._apart = apart or any(milliseconds > 0 for milliseconds in self._round_trips_ms.values())

    def _open(self, stack: ExitStack) -> None:
        """Make hosts and links. Raises `NEEDS_ROOT` for a far client without root, `LAB_FAILED`."""
        stack.enter_context(self._network)
        if self._apart:
            self._make_hosts()
        else:
            self._take_loopback()

    def new_address(self) -> str:
        """One more address of the servers' host, reached by all clients. Raises `LAB_FAILED`."""
        if self.server.loopback:
            self._served += 1
            return self._lab.address(self._served)
        address = self._network.served_address(self.server)
        for link in self._links.values():
            self._network.route(link.a, address, link)
        return address

    def client(self, arm: PlannedArm) -> Host:
        """The host of the arm's clients."""
        return self._links[self._names[arm.name]].a

    def distance(self, arm: PlannedArm) -> str:
        """The name of the arm's distance, fit for names of processes."""
        return self._names[arm.name]

    def client_address(self, arm: PlannedArm) -> str:
        """Where a program on the client's host listens for others there."""
        return self.client(arm).loopback or "127.0.0.1"

    def measure(self) -> None:
        """Measure every link, one after the other: 1 s for distances as far as 170 ms."""
        self._evidence = [told for link in self._links.values() for told in measured(link)]

    def links(self) -> list[LinkEvidence]:
        """What was measured."""
        return self._evidence

    def cpu_seconds(self) -> dict[str, float]:
        """Of what carries the links, where a process does."""
        return self._network.cpu_by_role()

    def lost(self) -> str | None:
        return self._network.lost()

    def process_ids(self) -> list[int]:
        """Of what carries the links."""
        return self._network.process_ids()

    def topology(self) -> str:
        """Such as 'on a host of their own; clients at lan (veth), us-us (44.648 ms, engine)'."""
        if self.server.loopback:
            return "on loopback"
        told = [f"{name} ({_kind(link)})" for name, link in self._links.items()]
        return "on a host (network namespace) of their own; clients on hosts at " + ", ".join(told)

    def _make_hosts(self) -> None:
        self.server = self._network.host("server")
        for name, milliseconds in self._round_trips_ms.items():
            client = self._network.host(f"client-{name}")
            self._links[name] = self._network.link(client, self.server, name, round_trip_ms=milliseconds)
        if self.server.loopback:
            # Not root, and no client is far: a far one has been refused by now.
            self._take_loopback()
            return
        self._network.start()

    def _take_loopback(self) -> None:
        self.server = Host("server", None, loopback=self._lab.address(1))
        client = Host("client", None, loopback=self._lab.address(CLIENT_LOOPBACK))
        ends = (client.loopback or "", self.server.loopback or "")
        self._links = {name: Link(name, client, self.server, *ends, "loopback", "lo") for name in self._round_trips_ms}


def _distance_name(plan: Plan, arm: PlannedArm) -> str:
    """The level's own name; a number in one spelling, since a user may write it in several."""
    factor = plan.study.distance_factor
    level = arm.levels[factor] if factor else "lan"
    known = plan.study.factors[factor].milliseconds if factor else {level: 0.0}
    return level if level in known else f"{plan.study.round_trip_ms(arm.levels):g}ms"


def _kind(link: Link) -> str:
    return link.kind if link.round_trip_ms == 0 else f"{link.round_trip_ms:g} ms, {link.kind}"
