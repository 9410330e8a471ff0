"""Topologies: the hosts on which a lab's programs run, the links between them, and the links' measured round trips.

In a `Star`, each host of clients has a link to the servers' host. In a `Chain`, requests pass from one program to the
next. The study of chained replication defines one more topology, in its own module.
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

# Numbers of loopback addresses for clients and the middle host. Servers use the lab's first addresses.
CLIENT_LOOPBACK = 100
MIDDLE_LOOPBACK = 99


class Topology(Resource):
    """Base class of topologies.

    A topology is a context manager. Enter it after the lab: `with Lab() as lab, Star(lab, ...)`. `seed` determines
    which packets are lost.
    """

    def __init__(self, lab: Lab, seed: int) -> None:
        self._lab = lab
        self._network = Network(lab, seed=seed)
        self._evidence: list[LinkEvidence] = []

    def _open(self, stack: ExitStack) -> None:
        """Create hosts and links. Raises `LAB_FAILED`, and `NEEDS_ROOT` if a link's delay requires root."""
        stack.enter_context(self._network)
        self._make()

    @abstractmethod
    def _make(self) -> None: ...

    @abstractmethod
    def words(self) -> str:
        """Return a description of the hosts as text, for the results."""

    @property
    def shares(self) -> bool:
        """Return whether hosts get the CPU shares that the study requires. Only root can set CPU shares."""
        return can_share_cpu()

    def links(self) -> list[LinkEvidence]:
        return self._evidence

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU seconds of processes that simulate links, as {"link": 1.2}; {} if there are none."""
        return self._network.cpu_by_role()

    def lost(self) -> str | None:
        return self._network.lost()

    def process_ids(self) -> list[int]:
        return self._network.process_ids()


class Star(Topology):
    """A host for the servers, linked to one host of clients for each distance (round-trip time).

    `distances` has the round-trip times in milliseconds by name, such as {"lan": 0, "wan": 40}. The names become parts
    of process names. Clients with a round-trip time of 0 are near, others are far.

    The servers have the same addresses for all clients, so that a replica set can announce addresses that every client
    can use.

    `middle` is the CPU share, in cores, of one more host for programs between clients and servers, such as a balancer;
    None means no such host. The middle host is as far from a client as the servers are. Without root its CPU use is not
    limited.

    The hosts are network namespaces. Servers and clients use loopback addresses instead if namespaces cannot be
    created, or if all clients are near and there is no middle host. With `separate`, near clients are always on
    hosts of their own, so that runs with and without far clients can be compared.
    """

    def __init__(
        self, lab: Lab, distances: Mapping[str, float], seed: int, separate: bool, middle: float | None = None
    ) -> None:
        super().__init__(lab, seed)
        self._distances = distances
        far = any(milliseconds > 0 for milliseconds in distances.values())
        self._separate = separate or far or middle is not None
        self._middle_cores = middle
        self._inward: Link | None = None
        #: For each distance (name of a round-trip time), the address at which its clients reach the middle host.
        self.middle_addresses: dict[str, str] = {}
        self._links: dict[str, Link] = {}
        self._served = 0

    def new_address(self) -> str:
        """Add an address to the servers' host that all clients can reach. Raises `LAB_FAILED`."""
        if self.server.loopback:
            self._served += 1
            return self._lab.address(self._served)
        address = self._network.served_address(self.server)
        for link in [*self._links.values(), *([self._inward] if self._inward else [])]:
            self._network.route(link.a, address, link)
        return address

    def client(self, distance: str) -> Host:
        return self._links[distance].a

    def client_address(self, distance: str) -> str:
        """Return the address at which a program on a clients' host listens for programs on the same host."""
        return self.client(distance).loopback or "127.0.0.1"

    def measure(self) -> None:
        """Measure the round trips of all links, one after the other. Each link takes 0.2 s and two round trips."""
        self._evidence = [evidence for link in self._links.values() for evidence in measured(link)]

    def words(self) -> str:
        """Return text such as 'on a host (network namespace) of their own; clients on hosts at lan (veth)'."""
        if self.server.loopback:
            return "on loopback"
        clients = [f"{name} ({_kind(link)})" for name, link in self._links.items()]
        share = " with a CPU share" if self.shares else ""
        between = "" if self._inward is None else f"; a host{share} between them"
        return "on a host (network namespace) of their own; clients on hosts at " + ", ".join(clients) + between

    def _make(self) -> None:
        if not self._separate:
            self._take_loopback()
            return
        self.server = self._network.host("server")
        for name, milliseconds in self._distances.items():
            client = self._network.host(f"client-{name}")
            self._links[name] = self._network.link(client, self.server, name, round_trip_ms=milliseconds)
        if self.server.loopback:
            # Without network namespaces, the hosts are loopback addresses, and all distances are 0: for any other
            # distance, `link` has raised an error.
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
    """A host for the clients, one for each program in the middle, and one for the last program.

    Clients reach the last program through one of the programs in the middle, or directly:

    ``` client ──┬── one in the middle ──┬── last ├── another one ────────┤ └── (direct) ───────────┘ ```

    Each connected pair of hosts has a separate link. All other hosts reach the last host at the same address. If
    namespaces cannot be created, the hosts are loopback addresses.

    `cores` is the CPU share of each middle host. `last_cores` is the CPU share of the last host; None means no limit.
    Shares need root.
    """

    def __init__(
        self, lab: Lab, middle: Sequence[str], last: str, seed: int, cores: float, last_cores: float | None = None
    ) -> None:
        super().__init__(lab, seed)
        self._names = list(middle)
        self._last_name = last
        self._cores = cores if self.shares else None
        self._last_cores = last_cores if self.shares else None
        self.middle: dict[str, Host] = {}
        #: For each middle program, the address at which clients reach its host.
        self.addresses: dict[str, str] = {}

    def words(self) -> str:
        """Return text such as 'a client, haproxy and an origin, on loopback'."""
        programs = f"a client, {' and '.join(self._names)} and {self._last_name}"
        if self.client.namespace is None:
            return f"{programs}, on loopback"
        return f"{programs}, each on a host (network namespace) of its own, joined by veth"

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
