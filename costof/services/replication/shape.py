"""A replica set whose members follow each other as an arm asks for.

A shape is pinned by a fail point of the server's own tests, `forceSyncSourceCandidate`: whenever a member chooses whom
to follow, it chooses that one. `replSetSyncFrom` makes it choose.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any

from pymongo.errors import PyMongoError

from costof.lab.lab import Lab
from costof.messages.process import process_cpu_seconds
from costof.programs.mongod.replica_set import Client, Member, ReplicaSet
from costof.services.replication.readings import MemberReading, SetReading, read_member
from costof.services.replication.tree import STAR, Tree, wanted_tree

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
    """The set did not come into the state that was asked for, in words."""


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
        """The kept connection to the member at an address."""
        return self._set.admin(self._names[address])

    def dead(self) -> list[tuple[str, int | None]]:
        """Members whose process ended though nobody asked it to, with its exit status."""
        processes = [(member.name, self._lab.processes[self._set.process_name(member.name)]) for member in self.members]
        return [(name, process.exit_status) for name, process in processes if process.exit_status is not None]

    def cpu_seconds(self, name: str) -> float:
        """CPU time of a member so far."""
        return process_cpu_seconds(self._lab.processes[self._set.process_name(name)].pid)

    def read(self) -> SetReading:
        """All members, asked directly and at once."""

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
        """Such as 'in STARTUP2, ': what a member is doing that cannot tell (in initial sync it knows no users)."""
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
        """Until every member follows whom it should. Raises `NotArrangedError`."""
        wanted = self.wanted(shape)
        self._allow_chaining(shape != STAR)
        if shape != self._shape:
            self._shape = None
            self._pin(wanted if shape != STAR else None)
            if wanted is None:
                self._until_followed(self.wanted(STAR))
                self._choose_anew()
        self._until_followed(wanted)
        self._shape = shape

    def _until_followed(self, wanted: Tree | None) -> None:
        """Until the members' tree is this one; with None, until each follows somebody."""

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
            self._follow({name: source for name in astray if (source := wanted[name]) is not None})
        # A member looks up from its source when something comes from there; an idle one would for seconds not.
        self._note()

    def catch_up(self, shape: str) -> None:
        """Until every member has what the primary has now. Raises `NotArrangedError`."""
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

    def _allow_chaining(self, allowed: bool) -> None:
        settings = self._set.admin(self.primary).admin.command("replSetGetConfig")["config"]["settings"]
        if settings["chainingAllowed"] != allowed:
            self._set.reconfigure(lambda configuration: configuration["settings"].update(chainingAllowed=allowed))

    def _pin(self, tree: Tree | None) -> None:
        """Each member to its source; None takes the pins away."""
        addresses = {name: address for address, name in self._names.items()}

        def pin(member: Member, client: Client) -> None:
            source = tree[member.name] if tree else None
            mode: dict[str, Any] = {"mode": "off"}
            if source is not None:
                mode = {"mode": "alwaysOn", "data": {"hostAndPort": addresses[source]}}
            client.admin.command("configureFailPoint", PIN, **mode)

        self._tell_all(pin)

    def _follow(self, sources: dict[str, str]) -> None:
        addresses = {name: address for address, name in self._names.items()}

        def follow(member: Member, client: Client) -> None:
            if member.name in sources:
                client.admin.command("replSetSyncFrom", addresses[sources[member.name]])

        # One that is just changing its source refuses; it is asked again.
        self._set.ask_all(follow)

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
        """An entry in the oplog that changes nothing; its time."""
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
    """Members that do not follow whom they should; with None wanted, those that follow nobody."""
    if wanted is None:
        return [name for name, source in tree.items() if name != primary and source is None]
    return [name for name, source in tree.items() if source != wanted[name]]
