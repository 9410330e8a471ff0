"""The flushes that a server's commits wait for: the server's own counts, checked against its configuration."""

from __future__ import annotations

from collections.abc import Mapping

from costof.messages.answers import REPORTED, SliceAnswer

#: Readings of a server: the flushes of its logs, and the bytes that it has written to them.
FLUSHES, LOG_BYTES = "flushes", "log_bytes"
#: Half of the flushes that must have happened are enough evidence, because a mean of the commits in flight hides that
#: there were sometimes more.
TOLERANCE = 2.0
#: The flushes a second that a server may do in the background, whatever it does at a commit.
BACKGROUND_PER_SECOND = 25.0


def commits_in_flight(answer: SliceAnswer) -> float:
    """Return the mean number of operations that were under way during a slice (Little 1961), at least 1.

    If a load generator measured the slice, its report says how many operations there were, and how long one took.
    """
    spent = max((phase.sum_ns for phase in answer.phases.values()), default=0)
    if REPORTED in answer.counts:
        spent = int(answer.counts[REPORTED] * answer.figures.get("latency_ms", 0.0) * 1e6)
    return max(1.0, spent / answer.elapsed_ns) if answer.elapsed_ns else 1.0


def flush_mismatch(moved: Mapping[str, float], answer: SliceAnswer, flushes_commits: bool) -> str | None:
    """Return why the flushes of a slice do not fit a server that flushes each commit, or flushes none; None if they do.

    If each commit waits for a flush, a flush serves at most as many commits as are in flight. A slice that wrote
    nothing, or whose flushes could not be counted, proves nothing.
    """
    flushes, written = moved.get(FLUSHES), moved.get(LOG_BYTES, 0.0)
    operations = answer.counts.get(REPORTED, answer.operations)
    if flushes is None or not operations or written < operations:
        return None
    served = flushes * commits_in_flight(answer)
    background = BACKGROUND_PER_SECOND * answer.elapsed_ns / 1e9
    if flushes_commits and TOLERANCE * served < operations:
        return f"the server flushed its log only {flushes:,.0f} times for {operations:,} commits"
    if not flushes_commits and flushes > background and served >= operations:
        return f"the server flushed its log {flushes:,.0f} times for {operations:,} commits that need no flush"
    return None
