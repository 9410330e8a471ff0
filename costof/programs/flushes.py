"""The flushes that a server's commits wait for: the server's own counts, checked against its configuration."""

from __future__ import annotations

from collections.abc import Mapping

from costof.messages.answers import SliceAnswer

#: Readings of a server: the flushes of its logs, and the bytes that it has written to them.
FLUSHES, LOG_BYTES = "flushes", "log_bytes"
#: Half of the flushes that must have happened are enough evidence, because a mean of the commits in flight hides that
#: there were sometimes more.
TOLERANCE = 2.0
#: The flushes a second that a server may do in the background, whatever it does at a commit.
BACKGROUND_PER_SECOND = 25.0


def commits_in_flight(answer: SliceAnswer) -> float:
    """Return the mean number of operations that were under way during a slice (Little 1961), at least 1."""
    spent = max((phase.sum_ns for phase in answer.phases.values()), default=0)
    return max(1.0, spent / answer.elapsed_ns) if answer.elapsed_ns else 1.0


def flush_mismatch(moved: Mapping[str, float], answer: SliceAnswer, flushes_commits: bool) -> str | None:
    """Return why the flushes of a slice do not fit a server that flushes each commit, or flushes none; None if they do.

    If each commit waits for a flush, a flush serves at most as many commits as are in flight. A slice that wrote
    nothing, or whose flushes could not be counted, proves nothing.
    """
    flushes, written = moved.get(FLUSHES), moved.get(LOG_BYTES, 0.0)
    if flushes is None or not answer.operations or written < answer.operations:
        return None
    served = flushes * commits_in_flight(answer)
    background = BACKGROUND_PER_SECOND * answer.elapsed_ns / 1e9
    if flushes_commits and TOLERANCE * served < answer.operations:
        return f"the server flushed its log only {flushes:,.0f} times for {answer.operations:,} commits"
    if not flushes_commits and flushes > background and served >= answer.operations:
        return f"the server flushed its log {flushes:,.0f} times for {answer.operations:,} commits that need no flush"
    return None
