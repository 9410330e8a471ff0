"""Shapes of a replica set: which member follows which, how it is arranged, and what members say.

A shape is pinned by a fail point of the server's own tests, `forceSyncSourceCandidate`: whenever a member chooses whom
to follow, it chooses that one. `replSetSyncFrom` makes it choose.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pymongo
from bson import Timestamp
from pymongo.errors import PyMongoError

from costof.lab.lab import Lab
from costof.messages.process import process_cpu_seconds
from costof.programs.mongod.lab import Client, Member, ReplicaSet
from costof.services import Observation

#: The source that each member follows; None for the primary, and for one that follows nobody.
Tree = Mapping[str, str | None]

STAR, CHAIN, NATURAL = "star", "chain", "natural"
TREE_PREFIX = "tree-"


def wanted_tree(shape: str, members: Sequence[str]) -> Tree | None:
    """The tree of a level of `sync`, filled breadth first in the members' order, the primary first.

    None where MongoDB chooses.
    """
    if shape == NATURAL:
        return None
    widths = {STAR: max(1, len(members) - 1), CHAIN: 1}
    width = widths[shape] if shape in widths else int(shape.removeprefix(TREE_PREFIX))
    return {name: members[(number - 1) // width] if number else None for number, name in enumerate(members)}


def depths(tree: Tree, primary: str) -> dict[str, int]:
    """Return hops of the oplog from the primary to each member that any hop leads to."""
    followers: dict[str, list[str]] = {}
    for name, source in tree.items():
        if source is not None and name != primary:
            followers.setdefault(source, []).append(name)
    found, level, hops = {primary: 0}, [primary], 0
    while level:
        hops += 1
        # Two that follow each other for a moment are reached from nowhere.
        level = [name for source in level for name in followers.get(source, [])]
        found |= dict.fromkeys(level, hops)
    return found


def hops_to_majority(tree: Tree, primary: str, voters: Sequence[str]) -> int | None:
    """Return the hops until a majority of the voters has the oplog, or None where it never does."""
    known = depths(tree, primary)
    reached = sorted(known[name] for name in voters if name in known)
    majority = len(voters) // 2 + 1
    return reached[majority - 1] if len(reached) >= majority else None


def told(tree: Tree) -> str:
    """Say such as 'primary: secondary-1, secondary-2; secondary-1: hidden': each source and who follows it."""
    followers: dict[str, list[str]] = {}
    for name, source in tree.items():
        if source is not None:
            followers.setdefault(source, []).append(name)
    in_order = [name for name in tree if name in followers] + [name for name in followers if name not in tree]
    return "; ".join(f"{source}: {', '.join(followers[source])}" for source in in_order)


PRIMARY, SECONDARY = "PRIMARY", "SECONDARY"
#: Parts of serverStatus that are not read, so that asking costs a small node little.
UNREAD = dict.fromkeys(("locks", "wiredTiger", "tcmalloc", "transactions", "storageEngine", "mirroredReads"), 0)


@dataclass(frozen=True)
class MemberReading:
    """`state` is MongoDB's word, such as SECONDARY or STARTUP2; `source` the address that the member follows.

    `applied` is the last operation it has applied and `applied_ms` that operation's time on the primary's clock, which
    is finer than the seconds of an optime. `fetched_bytes`: of the oplog, so far, from all its sources.
    """

    state: str
    source: str | None
    applied: Timestamp
    applied_ms: float
    fetched_bytes: int
    cpu_seconds: float = 0.0


def read_member(client: pymongo.MongoClient[dict[str, Any]]) -> MemberReading:
    """Ask one member directly. Raises PyMongoError; without the right to (clusterMonitor), OperationFailure."""
    status = client.admin.command("replSetGetStatus")
    counted = client.admin.command({"serverStatus": 1, **UNREAD})
    optimes = status["optimes"]
    return MemberReading(
        state=next(member["stateStr"] for member in status["members"] if member.get("self")),
        source=status.get("syncSourceHost") or None,
        applied=optimes["appliedOpTime"]["ts"],
        applied_ms=optimes["lastAppliedWallTime"].timestamp() * 1000,
        fetched_bytes=int(counted["metrics"]["repl"]["network"]["bytes"]),
    )


def read_status(status: dict[str, Any]) -> SetReading:
    """Read all members as one of them sees them, by address: hidden ones too, and somewhat late."""
    members = {
        str(member["name"]): MemberReading(
            state=str(member["stateStr"]),
            source=member.get("syncSourceHost") or None,
            applied=member["optime"]["ts"],
            applied_ms=member.get("lastAppliedWallTime", member["optimeDate"]).timestamp() * 1000,
            fetched_bytes=0,
        )
        for member in status["members"]
        if "optime" in member
    }
    return SetReading(members, {}, {})


@dataclass(frozen=True)
class SetReading(Observation):
    """All members by name at one instant, by the clock of the reader; `unread` says why one has no reading.

    `at`: the monotonic clock's seconds when their CPU time was read.
    """

    members: Mapping[str, MemberReading]
    unread: Mapping[str, str]
    names: Mapping[str, str]
    at: float = 0.0

    @property
    def tree(self) -> Tree:
        """Who follows whom, by name; a source that is no member of ours keeps its address."""
        return {
            name: self.names.get(member.source, member.source) if member.source else None
            for name, member in self.members.items()
        }

    @property
    def primary(self) -> str | None:
        return next((name for name, member in self.members.items() if member.state == PRIMARY), None)

    def lags_ms(self) -> dict[str, float]:
        """Return how old on each member is what the primary has last applied; nothing without a primary."""
        if self.primary is None:
            return {}
        newest = self.members[self.primary].applied_ms
        followers = {name: member for name, member in self.members.items() if name != self.primary}
        # One that was asked a moment after the primary may be ahead of what the primary said.
        return {name: max(0.0, newest - member.applied_ms) for name, member in followers.items()}

    def fault(self, primary: str) -> str | None:
        """Return why this is not a healthy set under its own primary."""
        for name, reason in self.unread.items():
            return f"{name} cannot be asked: {reason}"
        for name, member in self.members.items():
            wanted = PRIMARY if name == primary else SECONDARY
            if member.state != wanted:
                return f"{name} is in {member.state}"
        return None


def tree_mismatch(wanted: Tree | None, before: SetReading, after: SetReading) -> str | None:
    """Return why the tree was not the wanted one all through; with None wanted, why it was not one tree."""
    if before.tree != after.tree:
        return f"the tree changed from '{told(before.tree)}' to '{told(after.tree)}'"
    if wanted is not None and after.tree != dict(wanted):
        return f"the tree was '{told(after.tree)}', not '{told(wanted)}'"
    return None


def figures_of(before: SetReading, after: SetReading, voters: Sequence[str], operations: int) -> dict[str, float]:
    """Return lag at the slice's end in ms, hops to a majority, and bytes of oplog sent for an operation."""
    primary = after.primary
    if primary is None:
        return {}
    figures: dict[str, float] = {}
    lags = after.lags_ms()
    if lags:
        figures["replication_lag_ms"] = statistics.fmean(lags.values())
        figures["replication_lag_max_ms"] = max(lags.values())
    hops = hops_to_majority(after.tree, primary, voters)
    if hops is not None:
        figures["hops_to_majority"] = float(hops)
    if operations:
        direct = [name for name, source in after.tree.items() if source == primary and name in before.members]
        sent = sum(after.members[name].fetched_bytes - before.members[name].fetched_bytes for name in direct)
        figures["oplog_bytes_sent"] = sent / operations
    return figures


PIN = "forceSyncSourceCandidate"
STOP = "stopReplProducer"
#: For a shape to be taken up, a set to catch up, a primary to be elected: each.
PATIENCE_SECONDS = 30.0
POLL_SECONDS = 0.05
STOP_MS = 8000
#: Between two checkpoints of the lab: as mongod's own.
CHECKPOINT_SECONDS = 60.0
# A member that has not obeyed by then is told again: it may just have been choosing by itself.
AGAIN_SECONDS = 0.3


class NotArrangedError(Exception):
    """The set did not come into the state that was asked for; its text says why."""


class ShapedSet:
    """Administration of a `ReplicaSet` with `enableTestCommands=1`. Members are told in their order, primary first."""

    def __init__(self, lab: Lab, replica_set: ReplicaSet, database: str, collection: str) -> None:
        self._lab = lab
        self._set = replica_set
        self._database = database
        self._collection = collection
        self._shape: str | None = None
        self._names = {member.address: member.name for member in replica_set.members}
        self._told = 0.0
        self._checkpointed = time.monotonic()
        self.deposed = 0

    @property
    def members(self) -> list[Member]:
        return self._set.members

    @property
    def primary(self) -> str:
        return self._set.primary.name

    @property
    def voters(self) -> list[str]:
        return [member.name for member in self.members if member.votes]

    def wanted(self, shape: str) -> Tree | None:
        return wanted_tree(shape, [member.name for member in self.members])

    def admin(self, address: str) -> Client:
        return self._set.admin(self._names[address])

    def dead(self) -> list[tuple[str, int | None]]:
        """Return members whose process ended though nobody asked it to, with its exit status."""
        processes = [(member.name, self._lab.processes[self._set.process_name(member.name)]) for member in self.members]
        return [(name, process.exit_status) for name, process in processes if process.exit_status is not None]

    def cpu_seconds(self, name: str) -> float:
        return process_cpu_seconds(self._lab.processes[self._set.process_name(name)].pid)

    def read(self) -> SetReading:
        """Ask all members directly and at once."""

        def read(member: Member, client: Client) -> MemberReading:
            return read_member(client)

        # Before the asking, which is itself work for the members.
        cpu, at = {member.name: self.cpu_seconds(member.name) for member in self.members}, time.monotonic()
        ended = {name: f"it has ended (status {status})" for name, status in self.dead()}
        answers = self._set.ask_all(read, but=ended)
        members = {
            name: MemberReading(**{**vars(answer), "cpu_seconds": cpu[name]})
            for name, answer in answers.items()
            if isinstance(answer, MemberReading)
        }
        unread = {name: str(answer).split(",")[0] for name, answer in answers.items() if name not in members}
        unread = {name: self._seen_by_others(name, members) + reason for name, reason in unread.items()}
        return SetReading(members, ended | unread, self._names, at)

    def _seen_by_others(self, name: str, able: Collection[str]) -> str:
        """Say what a member is doing that cannot tell, such as 'in STARTUP2, ': in initial sync it knows no users."""
        for witness in able:
            try:
                told = self._set.admin(witness).admin.command("replSetGetStatus")["members"]
            except PyMongoError:
                continue
            states = {self._names[member["name"]]: str(member["stateStr"]) for member in told}
            return f"in {states[name]}, "
        return ""

    def take_office(self) -> None:
        """Make the primary the one that is meant to be it. Raises `NotArrangedError`."""
        primary = self._set.admin(self.primary).admin
        if primary.command("hello").get("isWritablePrimary"):
            return
        # Whoever chose a source under another primary may have been told wrong.
        self._shape = None

        def office() -> str | None:
            if primary.command("hello").get("isWritablePrimary"):
                return None
            try:
                primary.command("replSetFreeze", 0)
                primary.command("replSetStepUp", 1)
            except PyMongoError as error:
                return f"{self.primary} is not primary: {error}".split(", full error")[0]
            return f"{self.primary} is not primary"

        self._until(office)
        # However many arrangements that took.
        self.deposed += 1

    def take_shape(self, shape: str) -> None:
        """Arrange the set until every member follows whom it should. Raises `NotArrangedError`."""
        wanted = self.wanted(shape)
        chained = shape != STAR
        settings = self._set.admin(self.primary).admin.command("replSetGetConfig")["config"]["settings"]
        if settings["chainingAllowed"] != chained:
            self._set.reconfigure(lambda configuration: configuration["settings"].update(chainingAllowed=chained))
        if shape != self._shape:
            self._shape = None
            self._pin(wanted if shape != STAR else None)
            if wanted is None:
                self._until_followed(self.wanted(STAR))
                self._choose_anew()
        self._until_followed(wanted)
        self._shape = shape

    def _until_followed(self, wanted: Tree | None) -> None:
        """Wait until the members' tree is this one; with None, until each follows somebody."""

        def reason() -> str | None:
            reading = self.read()
            wrong = _astray(reading.tree, wanted, self.primary)
            self._urge(wrong, wanted)
            if fault := reading.fault(self.primary):
                return fault
            return f"{wrong[0]} follows {reading.tree[wrong[0]] or 'nobody'}" if wrong else None

        self._until(reason)

    def _urge(self, astray: list[str], wanted: Tree | None) -> None:
        """Tell members that are astray whom to follow, again now and then, and give them something to fetch."""
        if not astray:
            return
        if wanted is not None and time.monotonic() > self._told + AGAIN_SECONDS:
            self._told = time.monotonic()
            addresses = {name: address for address, name in self._names.items()}

            def follow(member: Member, client: Client) -> None:
                if member.name in astray and (source := wanted[member.name]) is not None:
                    client.admin.command("replSetSyncFrom", addresses[source])

            # One that is just changing its source refuses; it is asked again.
            self._set.ask_all(follow)
        # A member looks up from its source when something comes from there; an idle one would for seconds not.
        self._note()

    def catch_up(self, shape: str) -> None:
        """Wait until every member has what the primary has now. Raises `NotArrangedError`."""
        wanted, now = self.wanted(shape), self._note()

        def caught_up() -> str | None:
            reading = self.read()
            # One that has just taken its place may lose its source once more.
            self._urge(_astray(reading.tree, wanted, self.primary), wanted)
            late = [name for name, member in reading.members.items() if member.applied < now]
            return reading.fault(self.primary) or (f"{late[0]} did not catch up" if late else None)

        self._until(caught_up)

    def checkpoint(self) -> None:
        """Have every member write out what it has, once it is time again. Raises `NotArrangedError`."""
        if time.monotonic() < self._checkpointed + CHECKPOINT_SECONDS:
            return

        def write_out(member: Member, client: Client) -> None:
            client.admin.command("fsync")

        self._tell_all(write_out)
        self._checkpointed = time.monotonic()

    def trim(self, records: int) -> None:
        """Drop the measured collection once it holds more than so many records; `catch_up` waits for the members."""
        collection = self._set.admin(self.primary)[self._database][self._collection]
        if collection.estimated_document_count() > records:
            collection.drop()

    def _pin(self, tree: Tree | None) -> None:
        """Pin each member to its source; None takes the pins away."""
        addresses = {name: address for address, name in self._names.items()}

        def pin(member: Member, client: Client) -> None:
            source = tree[member.name] if tree else None
            mode: dict[str, Any] = {"mode": "off"}
            if source is not None:
                mode = {"mode": "alwaysOn", "data": {"hostAndPort": addresses[source]}}
            client.admin.command("configureFailPoint", PIN, **mode)

        self._tell_all(pin)

    def _choose_anew(self) -> None:
        """A member keeps its source as long as it is a fit one, so that the last arm's would be taken for MongoDB's.

        Called when all follow the primary: what they fetch then wakes them, and they find that they must stop.
        """
        entered: dict[str, int] = {}

        def stop(member: Member, client: Client) -> None:
            if member.name != self.primary:
                answer = client.admin.command({"configureFailPoint": STOP, "mode": "alwaysOn"})
                entered[member.name] = answer["count"]

        def stopped(member: Member, client: Client) -> None:
            if member.name != self.primary:
                times = {"timesEntered": entered[member.name] + 1, "maxTimeMS": STOP_MS}
                client.admin.command({"waitForFailPoint": STOP, **times})

        def go_on(member: Member, client: Client) -> None:
            client.admin.command({"configureFailPoint": STOP, "mode": "off"})

        try:
            self._tell_all(stop)
            self._note()
            self._tell_all(stopped)
        finally:
            self._tell_all(go_on)

    def _tell_all(self, question: Callable[[Member, Client], None]) -> None:
        for name, answer in self._set.ask_all(question).items():
            if isinstance(answer, PyMongoError):
                raise NotArrangedError(f"{name}: {answer}".split(", full error")[0])

    def _note(self) -> Any:
        """Write an entry to the oplog that changes nothing, and return its time."""
        # Not by the default, a majority: members that are told to let their sources go acknowledge nothing.
        note = {"appendOplogNote": 1, "data": {"costof": "arrange"}, "writeConcern": {"w": 1}}
        return self._set.admin(self.primary).admin.command(note)["operationTime"]

    def _until(self, reason: Callable[[], str | None]) -> None:
        """Ask until there is no reason left why not."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (told := reason()) is not None:
            if self.dead() or time.monotonic() > deadline:
                raise NotArrangedError(told)
            time.sleep(POLL_SECONDS)


def _astray(tree: Tree, wanted: Tree | None, primary: str) -> list[str]:
    """Return members that do not follow whom they should; with None wanted, those that follow nobody."""
    if wanted is None:
        return [name for name, source in tree.items() if name != primary and source is None]
    return [name for name, source in tree.items() if source != wanted[name]]
