"""What the members of a replica set say of themselves, and what two such readings say of the slice between them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pymongo
from bson import Timestamp

from costof.services import Observation
from costof.services.replication.tree import Tree, hops_to_majority, told

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
    """All members as one of them sees them, by address: hidden ones too, and somewhat later than by themselves."""
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
        """How old on each member is what the primary has last applied; nothing while there is no primary."""
        if self.primary is None:
            return {}
        newest = self.members[self.primary].applied_ms
        followers = {name: member for name, member in self.members.items() if name != self.primary}
        # One that was asked a moment after the primary may be ahead of what the primary said.
        return {name: max(0.0, newest - member.applied_ms) for name, member in followers.items()}

    def fault(self, primary: str) -> str | None:
        """Why this is not a healthy set under its own primary."""
        for name, reason in self.unread.items():
            return f"{name} cannot be asked: {reason}"
        for name, member in self.members.items():
            wanted = PRIMARY if name == primary else SECONDARY
            if member.state != wanted:
                return f"{name} is in {member.state}"
        return None


def tree_mismatch(wanted: Tree | None, before: SetReading, after: SetReading) -> str | None:
    """Why the tree was not the one that was asked for all through; with None asked for, why it was not one tree."""
    if before.tree != after.tree:
        return f"the tree changed from '{told(before.tree)}' to '{told(after.tree)}'"
    if wanted is not None and after.tree != dict(wanted):
        return f"the tree was '{told(after.tree)}', not '{told(wanted)}'"
    return None


def figures_of(before: SetReading, after: SetReading, voters: Sequence[str], operations: int) -> dict[str, float]:
    """Lag at the slice's end in ms, hops to a majority, and bytes of oplog that the primary sent for an operation."""
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
