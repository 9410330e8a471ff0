"""The lab of MongoDB replica sets. Members run on separate hosts (network namespaces) with configurable round trips.

Fifteen hosts would need about a hundred links between each other. Instead, hosts are linked to routers, and each link
has half of the round trip between two members. There is one router for each combination of distances (round-trip times)
that an arm needs. To change the distances in a set, the lab routes the packets of each host in the set over another
router. A member's address belongs to none of the links, so connections survive the change.

The client reaches all members over a router without delay. A member that is far from the other members is therefore not
far from the client.

All sets run during the whole run, but only the set that is being measured has load. A set has a primary, electable
secondaries and a hidden member, with at most seven voters in all. Further members are read-only: they neither vote nor
can be elected.
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
from costof.programs.mongod.lab import QUIET, Member, ReplicaSet, find_mongod, mongod_version, read_counters
from costof.services import Judgement, LabService, LoadData, Observation, Service
from costof.services.replication.shape import (
    NotArrangedError,
    SetReading,
    ShapedSet,
    replication_figures,
    tree_mismatch,
    tree_text,
)
from costof.study.arms import PlannedArm
from costof.study.plan import Plan

#: The roles of members, in the members' order. Reports give the CPU use of each role.
PRIMARY, SECONDARIES, HIDDEN, READ_ONLY = "primary", "secondaries", "hidden", "read-only"
MAX_VOTERS = 7

FIGURES = {PRIMARY: "primary_cpu", SECONDARIES: "secondary_cpu", HIDDEN: "hidden_cpu", READ_ONLY: "read_only_cpu"}

OPTIONS = {
    # mongod's minimum sizes of cache (GB) and oplog (MB), which let fifteen members share one machine.
    "wiredTigerCacheSizeGB": "0.25",
    "oplogSize": "990",
    # Checkpoints and the eviction of dirty pages would use up a node's small CPU share for most of a second. Avoid both
    # in slices (measured windows). The lab itself makes checkpoints between slices.
    "syncdelay": "3600",
    "wiredTigerEngineConfigString": "eviction_updates_target=50,eviction_updates_trigger=60,"
    "eviction_dirty_target=50,eviction_dirty_trigger=60",
}
PARAMETERS = {
    # Enable fail points. With them the lab determines from which member each member replicates (its sync source).
    "enableTestCommands": "1",
    # A member that finds no member to replicate from tries again after 20 ms. MongoDB's default is a second.
    "failpoint.forceBgSyncSyncSourceRetryWaitMS": '{"mode": "alwaysOn", "data": {"sleepMS": 20}}',
    **QUIET,
}


def member_roles(nodes: int) -> dict[str, str]:
    """Return the role of each member of a replica set, in the members' order in a chain.

    Voters come first, so that a write reaches a majority of voters in as few steps as possible. The hidden member is
    the last voter.
    """
    voters = min(nodes, MAX_VOTERS)
    roles = {"primary": PRIMARY}
    roles |= {f"secondary-{number}": SECONDARIES for number in range(1, voters - 1)}
    roles["hidden"] = HIDDEN
    return roles | {f"read-only-{number}": READ_ONLY for number in range(1, nodes - voters + 1)}


def roles_text(nodes: int) -> str:
    counts = Counter(member_roles(nodes).values())
    several = {SECONDARIES: "secondaries" if counts[SECONDARIES] > 1 else "secondary", READ_ONLY: "read-only"}
    return ", ".join(f"{count} {several[role]}" if role in several else role for role, count in counts.items())


# Nodes with at most this round-trip time are near. Their links get no delay: the path over a router takes about as
# long.
NEAR_MS = 0.1
#: The CPU share of a node, in cores, outside of slices (measured windows): while its replica set forms or prepares for
#: a slice.
WHOLE_CPU = 1.0


@dataclass(frozen=True)
class Distances:
    """The distances in a replica set, as round-trip times in ms.

    `round_trip_ms` is the time between any two nodes. One node, the far node, may be further away. The time between it
    and any other node is `round_trip_ms` + `far_member_ms`.
    """

    round_trip_ms: float
    far_member_ms: float

    @property
    def near(self) -> bool:
        """Return whether the round-trip times are so short that no delay has to be added to the links."""
        return self.round_trip_ms <= NEAR_MS and self.far_member_ms == 0

    def to_router_ms(self, far: bool) -> float:
        """Return the round-trip time in ms of the link from the router to the far node (`far`) or any other node."""
        half = 0.0 if self.round_trip_ms <= NEAR_MS else self.round_trip_ms / 2
        return half + (self.far_member_ms if far else 0.0)


@dataclass(frozen=True)
class Group:
    """The hosts of one replica set.

    `nodes` are the hosts' names, and `far` is the name of the node that may be further away than the others.
    `distances` are all distances (round-trip times) that the set's arms (measured variants) need.
    """

    nodes: Sequence[str]
    far: str
    distances: Sequence[Distances]


class Nodes(Topology):
    """The hosts of all members of all replica sets, and the routers between the hosts.

    If the run has root's rights, each member gets its own host with a limited CPU share. Otherwise all members are on
    this machine's loopback addresses.
    """

    def __init__(self, lab: Lab, seed: int, groups: Sequence[Group]) -> None:
        super().__init__(lab, seed)
        self._groups = groups
        self.hosts: dict[str, Host] = {}
        self.addresses: dict[str, str] = {}
        self._routers: dict[Distances | None, Host] = {}
        self._links: dict[tuple[str, Distances | None], Link] = {}

    def move(self, group: Group, distances: Distances) -> None:
        """Change the distances (round-trip times) in a replica set. Connections stay open. Raises `LAB_FAILED`."""
        if self.shares:
            self._network.configure("moving nodes", [self._route(node, distances) for node in group.nodes])

    def words(self) -> str:
        """Return a text such as 'each member on a separate host (network namespace), joined by a router (veth)'."""
        if not self.shares:
            return "all members on loopback"
        kinds = ", ".join(sorted({link.kind for link in self._links.values()}))
        return f"each member on a separate host (network namespace), joined by a router ({kinds})"

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
        """Return the router for these round-trip times, or create it. None stands for the router without delay."""
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
                # The default route, over the router without delay, leads to the client and never changes.
                source = f"src {self.addresses[node]}"
                yield self.hosts[node], f"route add default via {link.b_address} {source}"

    def _route(self, node: str, distances: Distances) -> tuple[Host, str]:
        """Return a node's host, and `ip` arguments for a route to all other nodes over the router for `distances`."""
        link = self._links[node, None if distances.near else distances]
        address = self.addresses[node]
        network = f"{address.rpartition('.')[0]}.0/24"
        return self.hosts[node], f"route replace {network} via {link.b_address} src {address}"

    def _measure(self) -> None:
        """Measure the round trips of all distances, before anything else uses the links.

        If several sets have the same distances, measure them in one of these sets only.
        """
        measured_distances: set[Distances] = set()
        for group in self._groups:
            for distances in group.distances:
                if distances not in measured_distances:
                    measured_distances.add(distances)
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
        ends = self.hosts[a], self.hosts[b], self.addresses[a], self.addresses[b]
        return Link(name, *ends, kind="routed", device="", round_trip_ms=milliseconds)

    def _take_loopback(self) -> None:
        self.client = self._network.host("client")
        for group in self._groups:
            for distances in group.distances:
                if not distances.near:
                    what = f"a round trip of {distances.round_trip_ms + distances.far_member_ms:g} ms between nodes"
                    detail = "without root all nodes of a lab are on loopback"
                    raise CostofError(ErrorText.NEEDS_ROOT, what=what, detail=detail)
            for node in group.nodes:
                self.hosts[node] = self._network.host(node)
                self.addresses[node] = self.hosts[node].loopback or ""


REPLICA_SET = "costof"
DATABASE = "ycsb"
# A node's heartbeat interval is this number of ms times the number of other members: two seconds in a set of fifteen,
# less in smaller sets. In each interval a node sends one heartbeat to every other member, so it sends the same number
# of heartbeats a second in sets of all sizes.
HEARTBEAT_MS_A_MEMBER = 2000 / 14
#: If there are more records than this, the data is dropped before the next slice (measured window). A record takes
#: about 1 kB on each member.
MAX_RECORDS = 100_000


@dataclass
class _LabSet:
    shaped: ShapedSet
    group: Group
    distances: Distances | None = None


class ArmLabSettings(Model):
    """The settings of an arm (measured variant) for its replica set.

    `nodes` is the number of members. `shape` says which member replicates from which: 'star', 'chain', 'tree-<n>' or
    'natural' (see `expected_tree`). For the distances (round-trip times) see `Distances`. `node_cores` is the CPU share
    of a node.
    """

    nodes: int
    shape: str
    round_trip_ms: float
    far_member_ms: float
    node_cores: float

    @classmethod
    def from_arm(cls, arm: PlannedArm) -> ArmLabSettings:
        return cls.model_validate(arm.settings.lab)

    @property
    def distances(self) -> Distances:
        return Distances(self.round_trip_ms, self.far_member_ms)


class ReplicationLab(LabService):
    """A lab with one replica set for each size (number of nodes) that an arm (measured variant) needs.

    If a member ends, the arms of its set fail. If a member has ended in every set, the run fails.
    """

    makes_hosts = False

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._lab = Lab()
        self._password = SecretStr(secrets.token_urlsafe(24))
        self._groups = {
            nodes: _group(plan, nodes)
            for nodes in dict.fromkeys(ArmLabSettings.from_arm(arm).nodes for arm in plan.arms)
        }
        self._nodes = Nodes(self._lab, plan.seed, list(self._groups.values()))
        self._sets: dict[int, _LabSet] = {}
        self._measured = next(iter(self._groups))
        self._arrange_error: str | None = None
        # Workloads with reads read the records of earlier slices (measured windows), so these records must stay.
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
            # Limit the CPU shares only after all replica sets have formed: with a tenth of a core, forming a set takes
            # minutes.
            self._give_shares(nodes, min(ArmLabSettings.from_arm(arm).node_cores for arm in self._plan.arms))

    def endpoint(self, arm: PlannedArm) -> Endpoint:
        nodes = ArmLabSettings.from_arm(arm).nodes
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
        return Endpoint(
            service=settings.with_settings(arm.settings.service), transport=arm.settings.transport_trusting(None)
        )

    def prefix(self, arm: PlannedArm) -> list[str]:
        return self._nodes.client.prefix

    def prepare(self, arms: Sequence[PlannedArm], load: LoadData) -> None:
        """Load nothing: the measured workload is YCSB's load phase."""

    def writes(self) -> list[str]:
        return [f"the lab's own replica sets: {DATABASE}.{COLLECTION}, removed with the lab"]

    def arrange(self, arm: PlannedArm) -> None:
        """Give the arm's replica set the round-trip times, sync sources and CPU shares that the arm requires.

        A failure does not end the run. `judge` reports it, and the next slice (measured window) is discarded.
        """
        settings = ArmLabSettings.from_arm(arm)
        self._measured = settings.nodes
        lab_set = self._sets[self._measured]
        shaped = lab_set.shaped
        self._arrange_error = self._dead_member(self._measured)
        if self._arrange_error is not None:
            return
        # Each node has a whole CPU for these preparations. The arm's CPU share is only for the slice (measured window).
        self._give_shares(self._measured, WHOLE_CPU)
        try:
            if lab_set.distances != settings.distances:
                self._nodes.move(lab_set.group, settings.distances)
                lab_set.distances = settings.distances
            shaped.restore_primary()
            if self._may_drop:
                shaped.trim(MAX_RECORDS)
            shaped.apply_shape(settings.shape)
            shaped.catch_up(settings.shape)
            shaped.checkpoint()
        except (NotArrangedError, PyMongoError) as error:
            self._arrange_error = f"the set could not be arranged: {error}".split(", full error")[0]
        finally:
            self._give_shares(self._measured, settings.node_cores)

    def links(self) -> list[LinkEvidence]:
        return self._nodes.links()

    def counters(self, server: str) -> Counters:
        return read_counters(self._shaped.admin(server))

    def cpu_seconds(self) -> dict[str, float]:
        used: dict[str, float] = {}
        for member in self._shaped.members:
            used[member.role] = used.get(member.role, 0.0) + self._shaped.cpu_seconds(member.name)
        return used | self._nodes.cpu_seconds()

    def throttled_seconds(self) -> dict[str, float]:
        return throttled_seconds((member.role, member.host) for member in self._shaped.members if member.host)

    def observe(self, arm: PlannedArm) -> Observation | None:
        return self._sets[ArmLabSettings.from_arm(arm).nodes].shaped.read()

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        if not isinstance(before, SetReading) or not isinstance(after, SetReading):
            return Judgement(mismatch=self._arrange_error or "the members could not be read")
        settings = ArmLabSettings.from_arm(arm)
        shaped = self._sets[settings.nodes].shaped
        mismatch = (
            self._arrange_error
            or before.fault(shaped.primary)
            or after.fault(shaped.primary)
            or tree_mismatch(shaped.expected_tree(settings.shape), before, after)
        )
        facts = {"tree": tree_text(after.tree)}
        if mismatch is not None:
            return Judgement(mismatch, facts=facts)
        figures = replication_figures(before, after, shaped.voters, answer.operations)
        return Judgement(None, figures | self._cpu_figures(settings, before, after), facts)

    def failure_reason(self, arm: PlannedArm | None = None) -> str | None:
        if arm is not None:
            return self._dead_member(ArmLabSettings.from_arm(arm).nodes)
        reasons = [self._dead_member(nodes) for nodes in self._sets]
        return self._nodes.lost() or (reasons[0] if all(reasons) else None)

    def warnings(self) -> list[str]:
        warnings = [] if self._nodes.shares else [WarningText.NO_NODE_SHARES.text()]
        for nodes, lab_set in self._sets.items():
            if lab_set.shaped.deposed:
                warnings.append(WarningText.PRIMARY_DEPOSED.text(nodes=nodes, times=lab_set.shaped.deposed))
        return warnings

    def describe(self) -> Description:
        sets = "; ".join(f"{nodes} ({roles_text(nodes)})" for nodes in self._groups)
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
            for name, role in member_roles(nodes).items()
        ]
        return ReplicaSet(self._lab, _set_name(nodes), members, self._password, DATABASE, prefix=f"{nodes}-")

    def _give_shares(self, nodes: int, cores: float) -> None:
        for member in self._sets[nodes].shaped.members:
            if member.host:
                member.host.resize(cores)

    def _dead_member(self, nodes: int) -> str | None:
        for name, status in self._sets[nodes].shaped.dead():
            return f"{name} of the replica set of {nodes} members ended in the middle of the run (status {status})"
        return None

    def _cpu_figures(self, settings: ArmLabSettings, before: SetReading, after: SetReading) -> dict[str, float]:
        """Return the CPU usage for each role, as the mean over its members, such as {"primary_cpu": 40.0}.

        The unit is percent of a node's CPU share, or of a core if there are no shares. The usage covers the time
        between the two readings, which is a little longer than the slice (measured window).
        """
        cores = settings.node_cores if self._nodes.shares else 1.0
        seconds = (after.at - before.at) * cores
        used: dict[str, list[float]] = {}
        for member in self._sets[settings.nodes].shaped.members:
            change = after.members[member.name].cpu_seconds - before.members[member.name].cpu_seconds
            used.setdefault(member.role, []).append(change)
        return {FIGURES[role]: 100 * sum(each) / len(each) / seconds for role, each in used.items() if seconds}


def service(plan: Plan) -> Service:
    return ReplicationLab(plan)


def _group(plan: Plan, nodes: int) -> Group:
    roles = member_roles(nodes)
    # The far node is the last member that can be elected. All other nodes are equally far from each other.
    far = [name for name, role in roles.items() if role == SECONDARIES][-1]
    arm_settings = map(ArmLabSettings.from_arm, plan.arms)
    distances = dict.fromkeys(each.distances for each in arm_settings if each.nodes == nodes)
    return Group([f"{nodes}-{name}" for name in roles], f"{nodes}-{far}", list(distances))


def _set_name(nodes: int) -> str:
    return f"{REPLICA_SET}{nodes}"
