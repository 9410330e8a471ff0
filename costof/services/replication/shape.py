"""The sync tree of a MongoDB replica set (which member replicates from which): how to read it and how to enforce it.

A member replicates from its sync source. The fail point `forceSyncSourceCandidate` of mongod's own tests names the
source that a member must choose next. The command `replSetSyncFrom` makes a member choose again.
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

#: A sync tree: maps the name of each member to its sync source. The source is None for the primary, and for members
#: that have no source at the moment.
Tree = Mapping[str, str | None]

STAR, CHAIN, NATURAL = "star", "chain", "natural"
TREE_PREFIX = "tree-"


def expected_tree(shape: str, members: Sequence[str]) -> Tree | None:
    """Return the sync tree for a shape; None for the shape 'natural', in which MongoDB chooses the sync sources.

    The first of `members` is the primary. In a 'star' all other members replicate from the primary. In a 'chain' each
    member replicates from the one before it. In 'tree-<n>' n members replicate from each member; the tree is filled
    level by level in the order of `members`.
    """
    if shape == NATURAL:
        return None
    widths = {STAR: max(1, len(members) - 1), CHAIN: 1}
    width = widths[shape] if shape in widths else int(shape.removeprefix(TREE_PREFIX))
    return {name: members[(number - 1) // width] if number else None for number, name in enumerate(members)}


def depths(tree: Tree, primary: str) -> dict[str, int]:
    """Return how many hops each member is away from the primary in a sync tree.

    Members that the primary's oplog does not reach are left out, for example members that replicate from each other in
    a circle for a moment.
    """
    followers: dict[str, list[str]] = {}
    for name, source in tree.items():
        if source is not None and name != primary:
            followers.setdefault(source, []).append(name)
    reached, level, hops = {primary: 0}, [primary], 0
    while level:
        hops += 1
        level = [name for source in level for name in followers.get(source, [])]
        reached |= dict.fromkeys(level, hops)
    return reached


def hops_to_majority(tree: Tree, primary: str, voters: Sequence[str]) -> int | None:
    """Return the number of hops after which a write of the primary has reached a majority of the voters.

    Return None if the write does not reach a majority.
    """
    hops = depths(tree, primary)
    reached = sorted(hops[name] for name in voters if name in hops)
    majority = len(voters) // 2 + 1
    return reached[majority - 1] if len(reached) >= majority else None


def tree_text(tree: Tree) -> str:
    """Return a text of a sync tree: each sync source with the members that replicate from it.

    An example is 'primary: secondary-1, secondary-2; secondary-1: hidden'.
    """
    followers: dict[str, list[str]] = {}
    for name, source in tree.items():
        if source is not None:
            followers.setdefault(source, []).append(name)
    in_order = [name for name in tree if name in followers] + [name for name in followers if name not in tree]
    return "; ".join(f"{source}: {', '.join(followers[source])}" for source in in_order)


PRIMARY, SECONDARY = "PRIMARY", "SECONDARY"
#: Parts to leave out of MongoDB's serverStatus, so that reading it takes little of a node's small CPU share.
UNREAD = dict.fromkeys(("locks", "wiredTiger", "tcmalloc", "transactions", "storageEngine", "mirroredReads"), 0)


@dataclass(frozen=True)
class MemberReading:
    """The state of one member at one instant. `state` is MongoDB's name, such as SECONDARY or STARTUP2.

    `source` is the address of the sync source. `applied` is the optime (MongoDB's timestamp) of the operation that the
    member applied last. `applied_ms` is the time at which the primary executed this operation, by the primary's clock
    in ms; the optime itself has only whole seconds. `fetched_bytes` is how much oplog the member has fetched so far.
    """

    state: str
    source: str | None
    applied: Timestamp
    applied_ms: float
    fetched_bytes: int
    cpu_seconds: float = 0.0


def read_member(client: pymongo.MongoClient[dict[str, Any]]) -> MemberReading:
    """Return the state of the member to which `client` is connected.

    Raises PyMongoError, in particular OperationFailure if the account lacks the role clusterMonitor.
    """
    status = client.admin.command("replSetGetStatus")
    server_status = client.admin.command({"serverStatus": 1, **UNREAD})
    optimes = status["optimes"]
    return MemberReading(
        state=next(member["stateStr"] for member in status["members"] if member.get("self")),
        source=status.get("syncSourceHost") or None,
        applied=optimes["appliedOpTime"]["ts"],
        applied_ms=optimes["lastAppliedWallTime"].timestamp() * 1000,
        fetched_bytes=int(server_status["metrics"]["repl"]["network"]["bytes"]),
    )


def read_status(status: dict[str, Any]) -> SetReading:
    """Parse one member's answer to `replSetGetStatus`.

    Return the state of each member. The keys are the members' addresses.

    Hidden members are included. The states of other members than the answering one may be slightly out of date.
    """
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
    """The states of all members of a replica set at one instant.

    `members` maps a member's name to its state. `unread` maps the name of a member that could not be read to the error.
    `names` maps addresses to names. `at` is the time of reading the CPU times, in seconds of the monotonic clock.
    """

    members: Mapping[str, MemberReading]
    unread: Mapping[str, str]
    names: Mapping[str, str]
    at: float = 0.0

    @property
    def tree(self) -> Tree:
        """The sync tree with the members' names. A sync source without a known name appears with its address."""
        return {
            name: self.names.get(member.source, member.source) if member.source else None
            for name, member in self.members.items()
        }

    @property
    def primary(self) -> str | None:
        return next((name for name, member in self.members.items() if member.state == PRIMARY), None)

    def lags_ms(self) -> dict[str, float]:
        """Return each member's lag behind the primary in ms, such as {"hidden": 12.0}; {} if there is no primary."""
        if self.primary is None:
            return {}
        newest = self.members[self.primary].applied_ms
        followers = {name: member for name, member in self.members.items() if name != self.primary}
        # The members are not read at exactly the same time, so a member may have applied a newer operation than the one
        # read from the primary. The member's lag is then 0.
        return {name: max(0.0, newest - member.applied_ms) for name, member in followers.items()}

    def fault(self, primary: str) -> str | None:
        """Return why the replica set is not healthy; None if it is healthy.

        In a healthy set, all members can be read, the member `primary` is the primary, and all others are secondaries.
        """
        for name, reason in self.unread.items():
            return f"{name} cannot be read: {reason}"
        for name, member in self.members.items():
            expected = PRIMARY if name == primary else SECONDARY
            if member.state != expected:
                return f"{name} is in state {member.state}"
        return None


def tree_mismatch(expected: Tree | None, before: SetReading, after: SetReading) -> str | None:
    """Return an error text if the sync tree changed between two readings, or if it differs from `expected`; else None.

    If `expected` is None, any tree that did not change is accepted.
    """
    if before.tree != after.tree:
        return f"the sync tree changed from '{tree_text(before.tree)}' to '{tree_text(after.tree)}'"
    if expected is not None and after.tree != dict(expected):
        return f"the sync tree was '{tree_text(after.tree)}', not '{tree_text(expected)}'"
    return None


def replication_figures(
    before: SetReading, after: SetReading, voters: Sequence[str], operations: int
) -> dict[str, float]:
    """Return results of a slice (measured window): the mean and maximum lag of the members, and the hops to a majority.

    Lags are in ms, at the end of the slice. For hops see `hops_to_majority`. If `operations` is not 0, the figures
    include the bytes of oplog that the primary sent per operation.
    """
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
#: Timeout in seconds for each step that prepares a replica set, such as electing a primary or changing the sync tree.
PATIENCE_SECONDS = 30.0
POLL_SECONDS = 0.05
STOP_MS = 8000
#: The minimum time between two checkpoints, which is mongod's default interval.
CHECKPOINT_SECONDS = 60.0
# The time after which the command `replSetSyncFrom` is repeated: a member refuses the command while it is choosing a
# source.
REPEAT_SECONDS = 0.3


class NotArrangedError(Exception):
    """A replica set could not be brought into the state that an arm (measured variant) needs. The text says why."""


class ShapedSet:
    """A replica set in which the lab determines the primary (the first member) and the sync sources.

    Its members must run with `enableTestCommands=1`, which enables fail points.
    """

    def __init__(self, lab: Lab, replica_set: ReplicaSet, database: str, collection: str) -> None:
        self._lab = lab
        self._set = replica_set
        self._database = database
        self._collection = collection
        self._shape: str | None = None
        self._names = {member.address: member.name for member in replica_set.members}
        self._last_request = 0.0
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

    def expected_tree(self, shape: str) -> Tree | None:
        return expected_tree(shape, [member.name for member in self.members])

    def admin(self, address: str) -> Client:
        return self._set.admin(self._names[address])

    def dead(self) -> list[tuple[str, int | None]]:
        processes = [(member.name, self._lab.processes[self._set.process_name(member.name)]) for member in self.members]
        return [(name, process.exit_status) for name, process in processes if process.exit_status is not None]

    def cpu_seconds(self, name: str) -> float:
        return process_cpu_seconds(self._lab.processes[self._set.process_name(name)].pid)

    def read(self) -> SetReading:
        """Read the state of each member from this member itself, all in parallel."""

        def read(member: Member, client: Client) -> MemberReading:
            return read_member(client)

        # Read the CPU times first, because reading the states uses CPU time of the members.
        cpu, at = {member.name: self.cpu_seconds(member.name) for member in self.members}, time.monotonic()
        ended = {name: f"it has ended (status {status})" for name, status in self.dead()}
        answers = self._set.run_on_all(read, skip=ended)
        members = {
            name: MemberReading(**{**vars(answer), "cpu_seconds": cpu[name]})
            for name, answer in answers.items()
            if isinstance(answer, MemberReading)
        }
        unread = {name: str(answer).split(",")[0] for name, answer in answers.items() if name not in members}
        unread = {name: self._state_prefix(name, members) + reason for name, reason in unread.items()}
        return SetReading(members, ended | unread, self._names, at)

    def _state_prefix(self, name: str, readable: Collection[str]) -> str:
        """Return the state of a member that cannot be read, such as 'in STARTUP2, ', as another member reports it.

        Return '' if no other member answers. A member cannot be read, for example, during its initial sync, because it
        does not have the database's users yet.
        """
        for witness in readable:
            try:
                members = self._set.admin(witness).admin.command("replSetGetStatus")["members"]
            except PyMongoError:
                continue
            states = {self._names[member["name"]]: str(member["stateStr"]) for member in members}
            return f"in {states[name]}, "
        return ""

    def restore_primary(self) -> None:
        """Make the first member the primary again if another member has been elected. Raises `NotArrangedError`."""
        primary = self._set.admin(self.primary).admin
        if primary.command("hello").get("isWritablePrimary"):
            return
        # While another member was primary, members may have chosen other sync sources, so forget the shape.
        self._shape = None

        def step_up() -> str | None:
            if primary.command("hello").get("isWritablePrimary"):
                return None
            try:
                primary.command("replSetFreeze", 0)
                primary.command("replSetStepUp", 1)
            except PyMongoError as error:
                return f"{self.primary} is not primary: {error}".split(", full error")[0]
            return f"{self.primary} is not primary"

        self._wait_until(step_up)
        self.deposed += 1

    def apply_shape(self, shape: str) -> None:
        """Give the sync tree a shape such as 'star', and wait until all members have it. Raises `NotArrangedError`."""
        expected = self.expected_tree(shape)
        chained = shape != STAR
        settings = self._set.admin(self.primary).admin.command("replSetGetConfig")["config"]["settings"]
        if settings["chainingAllowed"] != chained:
            self._set.reconfigure(lambda configuration: configuration["settings"].update(chainingAllowed=chained))
        if shape != self._shape:
            self._shape = None
            star = self.expected_tree(STAR)
            self._pin(None if shape == STAR else expected or star)
            if expected is None:
                # Without this pin, members of a chain keep their source, because nothing is wrong with it.
                self._wait_for_tree(star)
                self._pin(None)
                self._choose_sources_again()
        self._wait_for_tree(expected)
        self._shape = shape

    def _wait_for_tree(self, expected: Tree | None) -> None:
        """Wait until the members have the expected sync tree or, for None, until each member has a sync source."""

        def reason() -> str | None:
            reading = self.read()
            wrong = _misplaced(reading.tree, expected, self.primary)
            self._redirect(wrong, expected)
            if fault := reading.fault(self.primary):
                return fault
            return f"{wrong[0]} follows {reading.tree[wrong[0]] or 'no member'}" if wrong else None

        self._wait_until(reason)

    def _redirect(self, misplaced: list[str], expected: Tree | None) -> None:
        """Make misplaced members choose their sync source again. Callers repeat this until no member is misplaced."""
        if not misplaced:
            return
        if expected is not None and time.monotonic() > self._last_request + REPEAT_SECONDS:
            self._last_request = time.monotonic()
            addresses = {name: address for address, name in self._names.items()}

            def follow(member: Member, client: Client) -> None:
                if member.name in misplaced and (source := expected[member.name]) is not None:
                    client.admin.command("replSetSyncFrom", addresses[source])

            # Ignore errors: a member refuses the command while it is choosing a source. The next call retries.
            self._set.run_on_all(follow)
        # A member changes its source only when it fetches an oplog entry. So write an entry.
        self._write_note()

    def catch_up(self, shape: str) -> None:
        """Wait until every member has applied all writes that the primary has now. Raises `NotArrangedError`."""
        expected, now = self.expected_tree(shape), self._write_note()

        def reason() -> str | None:
            reading = self.read()
            # A member that has just changed its source may change it again, so redirect such members once more.
            self._redirect(_misplaced(reading.tree, expected, self.primary), expected)
            late = [name for name, member in reading.members.items() if member.applied < now]
            return reading.fault(self.primary) or (f"{late[0]} did not catch up" if late else None)

        self._wait_until(reason)

    def checkpoint(self) -> None:
        """Make every member write a checkpoint, at most once in `CHECKPOINT_SECONDS`. Raises `NotArrangedError`."""
        if time.monotonic() < self._checkpointed + CHECKPOINT_SECONDS:
            return

        def write_out(member: Member, client: Client) -> None:
            client.admin.command("fsync")

        self._run_on_all(write_out)
        self._checkpointed = time.monotonic()

    def trim(self, records: int) -> None:
        """Drop the measured collection if it has more than `records` records.

        Call `catch_up` afterwards to wait until all members have dropped the collection.
        """
        collection = self._set.admin(self.primary)[self._database][self._collection]
        if collection.estimated_document_count() > records:
            collection.drop()

    def _pin(self, tree: Tree | None) -> None:
        """Set the fail point that fixes each member's sync source to the one in `tree`. With None, unset it."""
        addresses = {name: address for address, name in self._names.items()}

        def pin(member: Member, client: Client) -> None:
            source = tree[member.name] if tree else None
            mode: dict[str, Any] = {"mode": "off"}
            if source is not None:
                mode = {"mode": "alwaysOn", "data": {"hostAndPort": addresses[source]}}
            client.admin.command("configureFailPoint", PIN, **mode)

        self._run_on_all(pin)

    def _choose_sources_again(self) -> None:
        """Make all members choose their sync sources again, so that MongoDB itself determines the sync tree.

        Otherwise a member would keep the source that the lab has set for an earlier arm (measured variant). The fail
        point `STOP` stops replication, and after it each member chooses a source. Members notice the fail point only
        when they fetch an oplog entry. All members must therefore replicate directly from the primary when this method
        is called.
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

        def resume(member: Member, client: Client) -> None:
            client.admin.command({"configureFailPoint": STOP, "mode": "off"})

        try:
            self._run_on_all(stop)
            self._write_note()
            self._run_on_all(stopped)
        finally:
            self._run_on_all(resume)

    def _run_on_all(self, operation: Callable[[Member, Client], None]) -> None:
        """Run an operation on all members in parallel. Raises `NotArrangedError` with the first error."""
        for name, result in self._set.run_on_all(operation).items():
            if isinstance(result, PyMongoError):
                raise NotArrangedError(f"{name}: {result}".split(", full error")[0])

    def _write_note(self) -> Any:
        """Write an oplog entry that changes no data, and return its optime."""
        # Write concern 1 needs only the primary. A majority, the default, could not acknowledge the write while members
        # are stopped.
        note = {"appendOplogNote": 1, "data": {"costof": "arrange"}, "writeConcern": {"w": 1}}
        return self._set.admin(self.primary).admin.command(note)["operationTime"]

    def _wait_until(self, reason: Callable[[], str | None]) -> None:
        """Wait until `reason` returns None, which means that there is no reason to wait.

        Raises `NotArrangedError` with the last reason after `PATIENCE_SECONDS`, or if a member has ended.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (text := reason()) is not None:
            if self.dead() or time.monotonic() > deadline:
                raise NotArrangedError(text)
            time.sleep(POLL_SECONDS)


def _misplaced(tree: Tree, expected: Tree | None, primary: str) -> list[str]:
    """Return the members whose sync source differs from the expected one.

    If `expected` is None, return the members without a source, except the primary.
    """
    if expected is None:
        return [name for name, source in tree.items() if name != primary and source is None]
    return [name for name, source in tree.items() if source != expected[name]]
