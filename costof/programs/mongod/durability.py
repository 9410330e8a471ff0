"""MongoDB's counters of writes: writes by write concern, waits for other members, and flushes of the journal.

A write concern is what a write waits for: a number of members or their majority (`w`), and whether these members must
have flushed their journals (`j`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costof.messages.answers import SliceAnswer
from costof.programs.flushes import FLUSHES, LOG_BYTES, flush_mismatch

#: A server parameter with which mongod counts writes by write concern. By default, it does not count them.
COUNT_CONCERNS = {"reportOpWriteConcernCountersInServerStatus": "true"}
#: The setting of a replica set that decides whether a write with w:majority waits for flushes of the journal.
JOURNAL_DEFAULT = "writeConcernMajorityJournalDefault"
#: The names of counters in `read_writes`: the writes that waited for other members, and the prefix of the counters of
#: inserts by `w`, such as 'inserts_1' and 'inserts_majority'.
WAITS, INSERTS = "waits_for_members", "inserts_"
#: The largest `w` for which inserts are read, because a replica set has at most seven voting members.
MOST_MEMBERS = 7


def read_writes(status: Mapping[str, Any]) -> dict[str, float]:
    """Return the counters of writes in a server's `serverStatus`. Counters that the server lacks are left out.

    The counted flushes are of the server's own journal, including flushes for which no write waits.
    """
    counted: dict[str, float] = {}
    if log := status.get("wiredTiger", {}).get("log"):
        counted |= {FLUSHES: log["log sync operations"], LOG_BYTES: log["log bytes written"]}
    if waits := status.get("metrics", {}).get("getLastError", {}).get("wtime"):
        counted[WAITS] = waits["num"]
    if by_concern := status.get("opWriteConcernCounters", {}).get("insert"):
        # The server lists a value of `w` only after the first insert with it.
        by_number = {f"{INSERTS}{n}": by_concern["wnum"].get(str(n), 0) for n in range(1, MOST_MEMBERS + 1)}
        counted |= {f"{INSERTS}majority": by_concern["wmajority"], **by_number}
    return {name: float(count) for name, count in counted.items()}


def writes_mismatch(
    w: int | str | None, flushes_writes: bool | None, increases: Mapping[str, float], answer: SliceAnswer, shared: bool
) -> str | None:
    """Return how the primary's counters contradict the write concern of a slice's (window's) inserts; else None.

    `flushes_writes` is True if an insert makes the primary flush its journal, and None if the server decides. If the
    server is `shared`, its counters include other clients' writes, so more flushes than needed prove nothing.
    """
    inserts = answer.phases["insert"].count if "insert" in answer.phases else 0
    counted, waits = increases.get(f"{INSERTS}{w}", inserts), increases.get(WAITS, inserts)
    if counted < inserts:
        return f"the server counted only {counted:,.0f} of {inserts:,} inserts with w:{w}"
    if w not in (None, 1) and waits < inserts:
        return f"only {waits:,.0f} of {inserts:,} inserts with w:{w} waited for other members"
    # Other operations, such as reads, need no flush.
    if flushes_writes is None or inserts < answer.operations or (shared and not flushes_writes):
        return None
    return flush_mismatch(increases, answer, flushes_writes)
