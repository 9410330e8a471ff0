"""Where programs of a lab stand and how far from each other: hosts, links, and what was measured on them.

`Star` has clients around servers, `Chain` programs one behind the other. Chained replication has one of its own: nodes
around routers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from costof.lab.host import Host, Link
from costof.lab.lab import Lab, Resource
from costof.lab.network import Network
from costof.lab.round_trips import LinkEvidence, measured
from costof.lab.user_namespace import can_share_cpu

# Servers take the first loopback addresses of the lab, so that they are where they would be without a distance.
CLIENT_LOOPBACK = 100
MIDDLE_LOOPBACK = 99


class Topology(Resource):
    """A context manager within a lab's; leave it before the lab. `seed` chooses the packets that are lost."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self._lab = lab
        self._network = Network(lab, seed=seed)
        self._evidence: list[LinkEvidence] = []

    def _open(self, stack: ExitStack) -> None:
        """Make hosts and links. Raises `NEEDS_ROOT` for a distance where none can be, `LAB_FAILED`."""
        stack.enter_context(self._network)
        self._make()

    @abstractmethod
    def _make(self) -> None: ...

    @abstractmethod
    def words(self) -> str:
        """Say what stands where, for a result."""

    @property
    def shares(self) -> bool:
        """Whether hosts have the CPU shares that are asked for: with root."""
        return can_share_cpu()

    def links(self) -> list[LinkEvidence]:
        return self._evidence

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU time of what carries the links, where a process does."""
        return self._network.cpu_by_role()

    def lost(self) -> str | None:
        return self._network.lost()

    def process_ids(self) -> list[int]:
        return self._network.process_ids()


class Star(Topology):
    """Clients around servers: a host for the servers, and one for the clients of each distance.

    The servers keep one set of addresses whatever the distance, so that a replica set announces addresses that every
    client can use, and clients of one distance differ in nothing that is here. A clients' host has one link to the
    servers' host, and a route over it to their addresses.

    There may be a host in the middle, with a CPU share, for programs that stand before the servers. It is beside them:
    its link to a clients' host is as long as theirs.

    Where none can be made, and in a lab that can do without hosts of its own while all clients are near, both are
    loopback addresses.

    `distances`: round-trip times in milliseconds, by a name that is fit for names of processes.

    `apart`: hosts of their own, where they can be made, even when all clients are near, so that near is the same thing
    in a run with and without far clients. `middle`: the cores of a host between them, where there is to be one; without
    root it has no share.
    """

    def __init__(
        self, lab: Lab, distances: Mapping[str, float], seed: int, apart: bool, middle: float | None = None
    ) -> None:
        super().__init__(lab, seed)
        self._distances = distances
        far = any(milliseconds > 0 for milliseconds in distances.values())
        self._apart = apart or far or middle is not None
        self._middle_cores = middle
        self._inward: Link | None = None
        #: Where clients of each distance reach the host in the middle.
        self.middle_addresses: dict[str, str] = {}
        self._links: dict[str, Link] = {}
        self._served = 0

    def new_address(self) -> str:
        """Add an address to the servers' host, reached by all clients. Raises `LAB_FAILED`."""
        if self.server.loopback:
            self._served += 1
            return self._lab.address(self._served)
        address = self._network.served_address(self.server)
        for link in [*self._links.values(), *([self._inward] if self._inward else [])]:
            self._network.route(link.a, address, link)
        return address

    def client(self, distance: str) -> Host:
        """Return the host of the clients of a distance."""
        return self._links[distance].a

    def client_address(self, distance: str) -> str:
        """Return where a program on that host listens for others there."""
        return self.client(distance).loopback or "127.0.0.1"

    def measure(self) -> None:
        """Measure every link, one after the other: 1 s for distances as far as 170 ms."""
        self._evidence = [told for link in self._links.values() for told in measured(link)]

    def words(self) -> str:
        """Say such as 'on a host of their own; clients at lan (veth), us-us (44.648 ms, engine)'."""
        if self.server.loopback:
            return "on loopback"
        told = [f"{name} ({_kind(link)})" for name, link in self._links.items()]
        share = " with a CPU share" if self.shares else ""
        between = "" if self._inward is None else f"; a host{share} between them"
        return "on a host (network namespace) of their own; clients on hosts at " + ", ".join(told) + between

    def _make(self) -> None:
        if not self._apart:
            self._take_loopback()
            return
        self.server = self._network.host("server")
        for name, milliseconds in self._distances.items():
            client = self._network.host(f"client-{name}")
            self._links[name] = self._network.link(client, self.server, name, round_trip_ms=milliseconds)
        if self.server.loopback:
            # No hosts, and no client is far: a far one has been refused by now.
            self._take_loopback()
            return
        if self._middle_cores is not None:
            self.middle = self._network.host("middle", cpu_share=self._middle_cores if self.shares else None)
            for name, link in self._links.items():
                outward = self._network.link(link.a, self.middle, f"{name}-middle", round_trip_ms=link.round_trip_ms)
                self.middle_addresses[name] = outward.address_of(self.middle)
            self._inward = self._network.link(self.middle, self.server, "middle-server")
        self._network.start()

    def _take_loopback(self) -> None:
        self.server = Host("server", None, loopback=self._lab.address(1))
        client = Host("client", None, loopback=self._lab.address(CLIENT_LOOPBACK))
        ends = (client.loopback or "", self.server.loopback or "")
        self._links = {name: Link(name, client, self.server, *ends, "loopback", "lo") for name in self._distances}
        self.middle = Host("middle", None, loopback=self._lab.address(MIDDLE_LOOPBACK))
        self.middle_addresses = dict.fromkeys(self._distances, self.middle.loopback or "")


def _kind(link: Link) -> str:
    return link.kind if link.round_trip_ms == 0 else f"{link.round_trip_ms:g} ms, {link.kind}"


class Chain(Topology):
    """Programs one behind the other: a host for the clients, one for each program in the middle, and one for the last.

    ```
    client ──┬── one in the middle ──┬── last
             ├── another one ────────┤
             └───────────────────────┘
    ```

    Every pair that talks is joined by a link of its own; the last host has one address for all. Where none can be made
    the hosts are loopback addresses.

    `cores` is the share of each in the middle, `last_cores` that of the last, if any; without root none has one."""

    def __init__(
        self, lab: Lab, middle: Sequence[str], last: str, seed: int, cores: float, last_cores: float | None = None
    ) -> None:
        super().__init__(lab, seed)
        self._names = list(middle)
        self._last_name = last
        self._cores = cores if self.shares else None
        self._last_cores = last_cores if self.shares else None
        self.middle: dict[str, Host] = {}
        #: Where clients reach those in the middle.
        self.addresses: dict[str, str] = {}

    def words(self) -> str:
        """Say such as 'a client, haproxy and an origin, each on a host (network namespace) of its own'."""
        told = f"a client, {' and '.join(self._names)} and {self._last_name}"
        if self.client.namespace is None:
            return f"{told}, on loopback"
        return f"{told}, each on a host (network namespace) of its own, joined by veth"

    def _make(self) -> None:
        network = self._network
        self.client = network.host("client")
        self.last = network.host(self._last_name.split()[-1], cpu_share=self._last_cores)
        for name in self._names:
            self.middle[name] = network.host(name, cpu_share=self._cores)
        straight = network.link(self.client, self.last, f"client-{self.last.name}")
        links = {self.client: straight}
        for name, host in self.middle.items():
            self.addresses[name] = network.link(self.client, host, f"client-{name}").address_of(host)
            links[host] = network.link(host, self.last, f"{name}-{self.last.name}")
        if self.last.namespace is None:
            self.last_address = straight.address_of(self.last)
            return
        self.last_address = network.served_address(self.last)
        for host, link in links.items():
            network.route(host, self.last_address, link)
