"""Where the members of replica sets stand: each on a host of its own, any two the same round trip apart.

Fifteen hosts joined pairwise would be a hundred links. Here each has one to a router in the middle, with half of the
round trip, and there is one router for each pair of distances that the arms ask for: all of them stand through the run,
and a set is moved from one to another by a route of each node. Members are known by addresses that lie on no link, so
that their connections outlive the move.

The client has its own link to the router without a delay, at every distance: a node that is far from the others is not
far from the client.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from costof.errors import CostofError, Problem
from costof.lab.host import Host, Link
from costof.lab.lab import Lab
from costof.lab.round_trips import LinkEvidence, measured
from costof.lab.topology import Topology

# What veth and a router cost by themselves is less (docs/labs.md): no delay is put on top of it.
NEAR_MS = 0.1
#: In cores: what a node has of the CPU it runs on until an arm asks for less, and while its set is arranged.
WHOLE_CPU = 1.0


@dataclass(frozen=True)
class Distances:
    """Round trips: between any two nodes, and how much further away than that the far one is."""

    round_trip_ms: float
    far_member_ms: float

    @property
    def near(self) -> bool:
        """Whether the hosts' own path is all there is."""
        return self.round_trip_ms <= NEAR_MS and self.far_member_ms == 0

    def to_router_ms(self, far: bool) -> float:
        """Round trip of a node's link to the router."""
        half = 0.0 if self.round_trip_ms <= NEAR_MS else self.round_trip_ms / 2
        return half + (self.far_member_ms if far else 0.0)


@dataclass(frozen=True)
class Group:
    """The nodes of one set by name, which of them is the far one, and all distances at which they will stand."""

    nodes: Sequence[str]
    far: str
    distances: Sequence[Distances]


class Nodes(Topology):
    """With root every node has a CPU share, on one CPU: all of it at first, enough to form a set in."""

    def __init__(self, lab: Lab, seed: int, groups: Sequence[Group]) -> None:
        super().__init__(lab, seed)
        self._groups = groups
        self.hosts: dict[str, Host] = {}
        self.addresses: dict[str, str] = {}
        self._routers: dict[Distances | None, Host] = {}
        self._links: dict[tuple[str, Distances | None], Link] = {}

    def move(self, group: Group, distances: Distances) -> None:
        """Put the nodes of a group this far from each other. Connections between them stay. Raises `LAB_FAILED`."""
        if self.shares:
            self._network.configure("moving nodes", [self._way(node, distances) for node in group.nodes])

    def words(self) -> str:
        """Such as 'each member on a host (network namespace) of its own, joined by a router (veth, engine)'."""
        if not self.shares:
            return "all members on loopback"
        kinds = ", ".join(sorted({link.kind for link in self._links.values()}))
        return f"each member on a host (network namespace) of its own, joined by a router ({kinds})"

    def _make(self) -> None:
        """And measure them."""
        if self.shares:
            self._make_hosts()
            self._measure()
        else:
            self._take_loopback()

    def _make_hosts(self) -> None:
        self.client = self._network.host("client")
        switch = self._router(None)
        link = self._network.link(self.client, switch, "client")
        cpus = sorted(os.sched_getaffinity(0))
        for group in self._groups:
            for node, cpu in zip(group.nodes, itertools.cycle(cpus), strict=False):
                self.hosts[node] = self._network.host(node, cpu_share=WHOLE_CPU, cpu=cpu)
                self.addresses[node] = self._network.served_address(self.hosts[node])
                self._join(node, None, 0.0)
                for distances in group.distances:
                    if not distances.near:
                        self._router(distances)
                        self._join(node, distances, distances.to_router_ms(node == group.far))
        self._network.start()
        self._network.configure("routes", [(self.client, f"route add default via {link.b_address}"), *self._routes()])

    def _router(self, distances: Distances | None) -> Host:
        """That of a pair of distances; None is the near one, which the client has its link to."""
        if distances not in self._routers:
            router = self._network.host(f"router-{len(self._routers)}")
            self._network.forward(router)
            self._routers[distances] = router
        return self._routers[distances]

    def _join(self, node: str, distances: Distances | None, milliseconds: float) -> None:
        router = self._routers[distances]
        name = f"{node}-{router.name}"
        link = self._network.link(self.hosts[node], router, name, round_trip_ms=milliseconds)
        self._links[node, distances] = link

    def _routes(self) -> Iterable[tuple[Host, str]]:
        for (node, distances), link in self._links.items():
            yield self._routers[distances], f"route add {self.addresses[node]}/32 via {link.a_address}"
            if distances is None:
                # The client's link, whichever way the nodes go to each other.
                source = f"src {self.addresses[node]}"
                yield self.hosts[node], f"route add default via {link.b_address} {source}"

    def _way(self, node: str, distances: Distances) -> tuple[Host, str]:
        """To the addresses of all nodes, which are one network, by the router of the distances."""
        link = self._links[node, None if distances.near else distances]
        address = self.addresses[node]
        network = f"{address.rpartition('.')[0]}.0/24"
        return self.hosts[node], f"route replace {network} via {link.b_address} src {address}"

    def _measure(self) -> None:
        """Each distance once, in the first group that stands at it, before anything else uses the links."""
        seen: set[Distances] = set()
        for group in self._groups:
            for distances in group.distances:
                if distances not in seen:
                    seen.add(distances)
                    self.move(group, distances)
                    self._evidence += self._measured(group, distances)

    def _measured(self, group: Group, distances: Distances) -> Iterable[LinkEvidence]:
        near = next(node for node in reversed(group.nodes) if node != group.far)
        first = group.nodes[0]
        yield from measured(
            self._path(f"nodes at {distances.round_trip_ms:g} ms", first, near, distances.round_trip_ms)
        )
        if distances.far_member_ms:
            milliseconds = distances.round_trip_ms + distances.far_member_ms
            name = f"nodes at {distances.round_trip_ms:g} ms, far member {distances.far_member_ms:g} ms further"
            yield from measured(self._path(name, first, group.far, milliseconds))

    def _path(self, name: str, a: str, b: str, milliseconds: float) -> Link:
        """From node to node over the router, as if it were one link."""
        ends = self.hosts[a], self.hosts[b], self.addresses[a], self.addresses[b]
        return Link(name, *ends, kind="routed", device="", round_trip_ms=milliseconds)

    def _take_loopback(self) -> None:
        self.client = self._network.host("client")
        for group in self._groups:
            for distances in group.distances:
                if not distances.near:
                    told = f"{distances.round_trip_ms + distances.far_member_ms:g} ms"
                    detail = "the nodes of a lab without root are all on loopback"
                    raise CostofError(Problem.NEEDS_ROOT, what=f"a round trip of {told} between nodes", detail=detail)
            for node in group.nodes:
                self.hosts[node] = self._network.host(node)
                self.addresses[node] = self.hosts[node].loopback or ""
