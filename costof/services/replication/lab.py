"""The lab of replica sets: members on hosts of their own, near and far.

Fifteen hosts joined pairwise would be a hundred links. Here each has one to a router in the middle, with half of the
round trip, and there is one router for each pair of distances that the arms ask for: all of them stand through the run,
and a set is moved from one to another by a route of each node. Members are known by addresses that lie on no link, so
that their connections outlive the move.

The client has its own link to the router without a delay, at every distance: a node that is far from the others is not
far from the client.

All sets stand through the whole run and only the measured one works. A set has a primary, electable secondaries and a
hidden member, seven that vote at most; the others are read-only: they have no vote and cannot be elected.
"""

from __future__ import annotations

import itertools
import os
import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from pydantic import SecretStr
from pymongo.errors import PyMongoError

from costof.errors import CostofError, ErrorText, WarningText
from costof.lab.host import Host, Link, throttled_seconds
from costof.lab.lab import Lab
from costof.lab.program import Counters, Description
from costof.lab.round_trips import LinkEvidence, measured
from costof.lab.topology import Topology
from costof.messages.answers import SliceAnswer
from costof.messages.plan import Endpoint
from costof.model import Model
from costof.programs.mongod.connection import COLLECTION, MAJORITY, MongodbSettings
from costof.programs.mongod.lab import Member, ReplicaSet, find_mongod, mongod_version, read_counters
from costof.services import Judgement, LabService, LoadData, Observation, Service
from costof.services.replication.shape import NotArrangedError, SetReading, ShapedSet, figures_of, told, tree_mismatch
from costof.study.arms import PlannedArm
from costof.study.plan import Plan

#: Roles as CPU time is counted under them, in the members' order.
PRIMARY, SECONDARIES, HIDDEN, READ_ONLY = "primary", "secondaries", "hidden", "read-only"
MOST_VOTERS = 7

#: Names of the roles' CPU figures.
FIGURES = {PRIMARY: "primary_cpu", SECONDARIES: "secondary_cpu", HIDDEN: "hidden_cpu", READ_ONLY: "read_only_cpu"}

OPTIONS = {
    # The smallest that mongod takes: fifteen members share the machine's memory and its disk.
    "wiredTigerCacheSizeGB": "0.25",
    "oplogSize": "990",
    # The lab has checkpoints made between slices. One in a slice, or the eviction of what is dirty, takes a small
    # share of a core for most of a second.
    "syncdelay": "3600",
    "wiredTigerEngineConfigString": "eviction_updates_target=50,eviction_updates_trigger=60,"
    "eviction_dirty_target=50,eviction_dirty_trigger=60",
}
PARAMETERS = {
    # For the fail points that pin a shape.
    "enableTestCommands": "1",
    # A member that finds nobody ahead of it looks again after this and not after a second: sooner in its place.
    "failpoint.forceBgSyncSyncSourceRetryWaitMS": '{"mode": "alwaysOn", "data": {"sleepMS": 20}}',
    # Its periodic disk writes would be noise in the measurement.
    "diagnosticDataCollectionEnabled": "false",
}


def roles_of(nodes: int) -> dict[str, str]:
    """The members of a set by name, with their roles: in the order in which a chain is formed.

    Those that vote come first, the electable before the hidden one, so that no path to a majority leads through a
    member that does not count towards it.
    """
    voters = min(nodes, MOST_VOTERS)
    roles = {"primary": PRIMARY}
    roles |= {f"secondary-{number}": SECONDARIES for number in range(1, voters - 1)}
    roles["hidden"] = HIDDEN
    return roles | {f"read-only-{number}": READ_ONLY for number in range(1, nodes - voters + 1)}


def counted(nodes: int) -> str:
    """Say such as 'primary, 5 secondaries, hidden, 8 read-only'."""
    counts = Counter(roles_of(nodes).values())
    several = {SECONDARIES: "secondaries" if counts[SECONDARIES] > 1 else "secondary", READ_ONLY: "read-only"}
    return ", ".join(f"{count} {several[role]}" if role in several else role for role, count in counts.items())


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
        """Return the round trip of a node's link to the router."""
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
        """Return the router of a pair of distances; None is the near one, which the client has its link to."""
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
        """Return the route to the addresses of all nodes, one network, by the router of the distances."""
        link = self._links[node, None if distances.near else distances]
        address = self.addresses[node]
        network = f"{address.rpartition('.')[0]}.0/24"
        return self.hosts[node], f"route replace {network} via {link.b_address} src {address}"

    def _measure(self) -> None:
        """Measure each distance once, in the first group that stands at it, before anything else uses the links."""
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
        """Return a path from node to node over the router, as if it were one link."""
        ends = self.hosts[a], self.hosts[b], self.addresses[a], self.addresses[b]
        return Link(name, *ends, kind="routed", device="", round_trip_ms=milliseconds)

    def _take_loopback(self) -> None:
        self.client = self._network.host("client")
        for group in self._groups:
            for distances in group.distances:
                if not distances.near:
                    told = f"{distances.round_trip_ms + distances.far_member_ms:g} ms"
                    detail = "the nodes of a lab without root are all on loopback"
                    raise CostofError(ErrorText.NEEDS_ROOT, what=f"a round trip of {told} between nodes", detail=detail)
            for node in group.nodes:
                self.hosts[node] = self._network.host(node)
                self.addresses[node] = self.hosts[node].loopback or ""


REPLICA_SET = "costof"
DATABASE = "ycsb"
# As often as a set of fifteen has them every two seconds: a node sends as many a second in any set, and in small ones a
# change of the configuration, which waits for one, takes less.
HEARTBEAT_MS_A_MEMBER = 2000 / 14
#: Records (about 1 kB each, on every member) past which the data is dropped between two slices.
MOST_RECORDS = 100_000


@dataclass
class _LabSet:
    """One set, where its nodes stand, and what they were last given."""

    shaped: ShapedSet
    group: Group
    distances: Distances | None = None


class Setting(Model):
    """What an arm asks of the lab. `node_cores`: the CPU share of a node."""

    nodes: int
    shape: str
    round_trip_ms: float
    far_member_ms: float
    node_cores: float

    @classmethod
    def of(cls, arm: PlannedArm) -> Setting:
        return cls.model_validate(arm.settings.lab)

    @property
    def distances(self) -> Distances:
        return Distances(self.round_trip_ms, self.far_member_ms)


class ReplicationLab(LabService):
    """Sets by their number of nodes. A member that dies costs its set's arms; the last set, the run."""

    makes_hosts = False

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._lab = Lab()
        self._password = SecretStr(secrets.token_urlsafe(24))
        self._groups = {
            nodes: _group(plan, nodes) for nodes in dict.fromkeys(Setting.of(arm).nodes for arm in plan.arms)
        }
        self._nodes = Nodes(self._lab, plan.seed, list(self._groups.values()))
        self._sets: dict[int, _LabSet] = {}
        self._measured = next(iter(self._groups))
        self._trouble: str | None = None
        # Reads ask for records of earlier slices.
        self._may_drop = not any(
            options.get("read_proportion") for arm in plan.arms for options in arm.settings.workload.values()
        )

    def _open(self, stack: ExitStack) -> None:
        binary = find_mongod()
        self._version = mongod_version(binary)
        stack.enter_context(self._lab)
        stack.enter_context(self._nodes)
        replica_sets = []
        for nodes, group in self._groups.items():
            self._nodes.move(group, Distances(0.0, 0.0))
            replica_set = self._replica_set(nodes)
            stack.callback(replica_set.close)
            replica_set.start(binary, OPTIONS, PARAMETERS)
            replica_sets.append(replica_set)
            shaped = ShapedSet(self._lab, replica_set, DATABASE, COLLECTION)
            self._sets[nodes] = _LabSet(shaped, group)
        for replica_set in replica_sets:
            replica_set.form(round(HEARTBEAT_MS_A_MEMBER * (len(replica_set.members) - 1)))
        for nodes in self._sets:
            # From here on: forming in a tenth of a core would take minutes.
            self._give_shares(nodes, min(Setting.of(arm).node_cores for arm in self._plan.arms))

    def endpoint(self, arm: PlannedArm) -> Endpoint:
        nodes = Setting.of(arm).nodes
        members = self._sets[nodes].shaped.members
        settings = MongodbSettings(
            addresses=[member.address for member in members if member.priority],
            replica_set=_set_name(nodes),
            write_concern=MAJORITY,
            username="costof",
            password=self._password,
            database=DATABASE,
            collection=COLLECTION,
        )
        return Endpoint(service=settings.asking(arm.settings.service), transport=arm.settings.transport_trusting(None))

    def prefix(self, arm: PlannedArm) -> list[str]:
        return self._nodes.client.prefix

    def prepare(self, arm: PlannedArm, load: LoadData) -> None:
        """Load nothing: YCSB's load is what is measured."""

    def writes(self) -> list[str]:
        return [f"the lab's own replica sets: {DATABASE}.{COLLECTION}, removed with the lab"]

    def arrange(self, arm: PlannedArm) -> None:
        """Arrange the set. What goes wrong here `judge` tells: it spoils a slice and not the run."""
        setting = Setting.of(arm)
        self._measured = setting.nodes
        standing = self._sets[self._measured]
        shaped = standing.shaped
        self._trouble = self._lost_set(self._measured)
        if self._trouble is not None:
            return
        # Only the slice has to pass in the arm's share.
        self._give_shares(self._measured, WHOLE_CPU)
        try:
            if standing.distances != setting.distances:
                self._nodes.move(standing.group, setting.distances)
                standing.distances = setting.distances
            shaped.take_office()
            if self._may_drop:
                shaped.trim(MOST_RECORDS)
            shaped.take_shape(setting.shape)
            shaped.catch_up(setting.shape)
            shaped.checkpoint()
        except (NotArrangedError, PyMongoError) as error:
            self._trouble = f"the set could not be arranged: {error}".split(", full error")[0]
        finally:
            self._give_shares(self._measured, setting.node_cores)

    def links(self) -> list[LinkEvidence]:
        return self._nodes.links()

    def counters(self, server: str) -> Counters:
        return read_counters(self._shaped.admin(server))

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU time of the set that is measured; the members of a role together."""
        used: dict[str, float] = {}
        for member in self._shaped.members:
            used[member.role] = used.get(member.role, 0.0) + self._shaped.cpu_seconds(member.name)
        return used | self._nodes.cpu_seconds()

    def throttled_seconds(self) -> dict[str, float]:
        return throttled_seconds((member.role, member.host) for member in self._shaped.members if member.host)

    def observe(self, arm: PlannedArm) -> Observation | None:
        return self._sets[Setting.of(arm).nodes].shaped.read()

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        if not isinstance(before, SetReading) or not isinstance(after, SetReading):
            return Judgement(mismatch=self._trouble or "the members could not be asked")
        setting = Setting.of(arm)
        shaped = self._sets[setting.nodes].shaped
        wrong = (
            self._trouble
            or before.fault(shaped.primary)
            or after.fault(shaped.primary)
            or tree_mismatch(shaped.wanted(setting.shape), before, after)
        )
        facts = {"tree": told(after.tree)}
        if wrong is not None:
            return Judgement(wrong, facts=facts)
        figures = figures_of(before, after, shaped.voters, answer.operations)
        return Judgement(None, figures | self._cpu_figures(setting, before, after), facts)

    def lost(self, arm: PlannedArm | None = None) -> str | None:
        if arm is not None:
            return self._lost_set(Setting.of(arm).nodes)
        reasons = [self._lost_set(nodes) for nodes in self._sets]
        return self._nodes.lost() or (reasons[0] if all(reasons) else None)

    def warnings(self) -> list[str]:
        told = [] if self._nodes.shares else [WarningText.NO_NODE_SHARES.text()]
        for nodes, standing in self._sets.items():
            if standing.shaped.deposed:
                told.append(WarningText.PRIMARY_DEPOSED.text(nodes=nodes, times=standing.shaped.deposed))
        return told

    def describe(self) -> Description:
        sets = "; ".join(f"{nodes} ({counted(nodes)})" for nodes in self._groups)
        settings = ", ".join(f"{name}={value}" for name, value in (OPTIONS | PARAMETERS).items())
        share = "a CPU share each" if self._nodes.shares else "no CPU shares"
        return Description(
            versions={"mongod": self._version},
            topology=f"replica sets of {sets}; {self._nodes.words()}, {share}",
            facts={"read preference": "primary", "authentication": "SCRAM-SHA-256", "server settings": settings},
        )

    @property
    def _shaped(self) -> ShapedSet:
        return self._sets[self._measured].shaped

    def _replica_set(self, nodes: int) -> ReplicaSet:
        members = [
            Member(
                name,
                role,
                self._nodes.addresses[f"{nodes}-{name}"],
                host=self._nodes.hosts[f"{nodes}-{name}"],
                priority={PRIMARY: 2, SECONDARIES: 1}.get(role, 0),
                hidden=role == HIDDEN,
                votes=0 if role == READ_ONLY else 1,
            )
            for name, role in roles_of(nodes).items()
        ]
        return ReplicaSet(self._lab, _set_name(nodes), members, self._password, DATABASE, prefix=f"{nodes}-")

    def _give_shares(self, nodes: int, cores: float) -> None:
        for member in self._sets[nodes].shaped.members:
            if member.host:
                member.host.resize(cores)

    def _lost_set(self, nodes: int) -> str | None:
        for name, status in self._sets[nodes].shaped.dead():
            return f"{name} of the set of {nodes} ended in the middle of the run (status {status})"
        return None

    def _cpu_figures(self, setting: Setting, before: SetReading, after: SetReading) -> dict[str, float]:
        """Percent of a node's share (of a core where it has none), the mean of a role's members.

        Of the time between the readings, in which the time was used: the slice alone is a little shorter.
        """
        cores = setting.node_cores if self._nodes.shares else 1.0
        seconds = (after.at - before.at) * cores
        used: dict[str, list[float]] = {}
        for member in self._sets[setting.nodes].shaped.members:
            moved = after.members[member.name].cpu_seconds - before.members[member.name].cpu_seconds
            used.setdefault(member.role, []).append(moved)
        return {FIGURES[role]: 100 * sum(each) / len(each) / seconds for role, each in used.items() if seconds}


def service(plan: Plan) -> Service:
    return ReplicationLab(plan)


def _group(plan: Plan, nodes: int) -> Group:
    roles = roles_of(nodes)
    # The last that can be elected: any other is as near to the primary as it was.
    far = [name for name, role in roles.items() if role == SECONDARIES][-1]
    distances = dict.fromkeys(each.distances for each in map(Setting.of, plan.arms) if each.nodes == nodes)
    return Group([f"{nodes}-{name}" for name in roles], f"{nodes}-{far}", list(distances))


def _set_name(nodes: int) -> str:
    return f"{REPLICA_SET}{nodes}"
