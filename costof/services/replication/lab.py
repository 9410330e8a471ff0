"""The lab of chained replication: a replica set for each number of nodes, shaped and slowed down as an arm asks for.

All sets stand through the whole run and only the measured one works. A set has a primary, electable secondaries and a
hidden member, seven that vote at most; the others are read-only: they have no vote and cannot be elected.
"""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from dataclasses import dataclass

from pydantic import SecretStr
from pymongo.errors import PyMongoError

from costof.errors import Caution
from costof.lab.host import throttled_seconds
from costof.lab.lab import Lab
from costof.lab.program import Counters, Description
from costof.lab.resource import Resource
from costof.lab.round_trips import LinkEvidence
from costof.messages.answers import SliceAnswer
from costof.messages.plan import Endpoint
from costof.model import Model
from costof.programs.mongod.binary import find_mongod, mongod_version
from costof.programs.mongod.replica_set import Member, ReplicaSet, read_counters
from costof.programs.mongod.settings import COLLECTION, MAJORITY, MongodbSettings
from costof.services import Judgement, LoadData, Observation, Service
from costof.services.replication.members import (
    FIGURES,
    HIDDEN,
    OPTIONS,
    PARAMETERS,
    PRIMARY,
    READ_ONLY,
    SECONDARIES,
    counted,
    roles_of,
)
from costof.services.replication.nodes import WHOLE_CPU, Distances, Group, Nodes
from costof.services.replication.readings import SetReading, figures_of, tree_mismatch
from costof.services.replication.shape import NotArrangedError, ShapedSet
from costof.services.replication.tree import told
from costof.study.arms import PlannedArm
from costof.study.plan import Plan

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
    prefix: str
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
        return cls.model_validate(arm.asked.lab)

    @property
    def distances(self) -> Distances:
        """How far the nodes are from each other."""
        return Distances(self.round_trip_ms, self.far_member_ms)


class ReplicationLab(Resource, Service):
    """Sets by their number of nodes. A member that dies costs its set's arms; the last set, the run."""

    measures_cpu = True

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
            options.get("read_proportion") for arm in plan.arms for options in arm.asked.workload.values()
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
            self._sets[nodes] = _LabSet(shaped, group, f"{nodes}-")
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
        return Endpoint(service=settings.asking(arm.asked.service), transport=arm.asked.transport_trusting(None))

    def prefix(self, arm: PlannedArm) -> list[str]:
        return self._nodes.client.prefix

    def prepare(self, arm: PlannedArm, load: LoadData) -> None:
        """YCSB's load is what is measured: there is nothing to be there before it."""

    def writes(self) -> list[str]:
        return [f"the lab's own replica sets: {DATABASE}.{COLLECTION}, removed with the lab"]

    def arrange(self, arm: PlannedArm) -> None:
        """What goes wrong here is told by `judge`: it spoils a slice and not the run."""
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
            self._move(standing, setting.distances)
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
        """Of the set that is being measured; the members of a role together."""
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

    def cautions(self) -> list[str]:
        told = [] if self._nodes.shares else [Caution.NO_NODE_SHARES.text()]
        for nodes, standing in self._sets.items():
            if standing.shaped.deposed:
                told.append(Caution.PRIMARY_DEPOSED.text(nodes=nodes, times=standing.shaped.deposed))
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
    def process_ids(self) -> dict[str, int]:
        """Pids of the members, by the number of nodes and their name, such as '7-secondary-1'."""
        return {process.name: process.pid for process in self._lab.processes.values()}

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

    def _move(self, standing: _LabSet, distances: Distances) -> None:
        if standing.distances != distances:
            self._nodes.move(standing.group, distances)
            standing.distances = distances

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
