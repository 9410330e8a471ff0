"""Who is in a replica set of so many nodes: a primary, electable secondaries, a hidden member, and read-only ones."""

from __future__ import annotations

from collections import Counter

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
    """Such as 'primary, 5 secondaries, hidden, 8 read-only'."""
    counts = Counter(roles_of(nodes).values())
    several = {SECONDARIES: "secondaries" if counts[SECONDARIES] > 1 else "secondary", READ_ONLY: "read-only"}
    return ", ".join(f"{count} {several[role]}" if role in several else role for role, count in counts.items())
