"""A check that the server's commits waited for disk flushes, or did not, as the server's configuration says."""

from __future__ import annotations

from collections.abc import Mapping

from costof.messages.answers import REPORTED, SliceAnswer

#: Names of a server's counters in `LabServer.readings`: flushes of the server's logs, and bytes written to the logs.
FLUSHES, LOG_BYTES = "flushes", "log_bytes"
#: The server may make fewer flushes than expected, by this factor. The expected number is computed from the mean number
#: of commits in flight, because one flush serves all of them. When more commits than the mean are in flight, the server
#: needs fewer flushes.
TOLERANCE = 2.0
#: The number of flushes a second that a server may do in the background, that is, without a waiting commit.
BACKGROUND_PER_SECOND = 25.0
#: The minimum time for which flushes in the background are permitted, even in a shorter slice (measured window): on a
#: busy machine, the time between the two readings of the counter is longer than the slice.
LEAST_SECONDS = 1.0


def commits_in_flight(answer: SliceAnswer) -> float:
    """Return the mean number of operations in flight during a slice (a measured window), at least 1.

    It is the total duration of all operations divided by the slice's length (Little's law, 1961). If another load
    generator (`--client`) measured the slice, the total duration is the number of operations times the mean latency.
    """
    spent = max((phase.sum_ns for phase in answer.phases.values()), default=0)
    if REPORTED in answer.counts:
        spent = int(answer.counts[REPORTED] * answer.figures.get("latency_ms", 0.0) * 1e6)
    return max(1.0, spent / answer.elapsed_ns) if answer.elapsed_ns else 1.0


def flush_mismatch(increases: Mapping[str, float], answer: SliceAnswer, flushes_commits: bool) -> str | None:
    """Return how the flushes in a slice (measured window) contradict the server's configuration; None if they do not.

    With `flushes_commits` each commit must wait for a flush, which may serve several commits. Otherwise no commit may
    wait for a flush. Return None also if the slice wrote nothing or its flushes could not be counted.
    """
    flushes, written = increases.get(FLUSHES), increases.get(LOG_BYTES, 0.0)
    operations = answer.counts.get(REPORTED, answer.operations)
    if flushes is None or not operations or written < operations:
        return None
    served = flushes * commits_in_flight(answer)
    background = BACKGROUND_PER_SECOND * max(LEAST_SECONDS, answer.elapsed_ns / 1e9)
    if flushes_commits and TOLERANCE * served < operations:
        return f"the server flushed its log only {flushes:,.0f} times for {operations:,} commits"
    if not flushes_commits and flushes > background and served >= operations:
        return f"the server flushed its log {flushes:,.0f} times for {operations:,} commits that need no flush"
    return None
