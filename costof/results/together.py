"""How nearly together several hosts began each slice."""

from __future__ import annotations

from statistics import median

from costof.results.ledger import SliceRecord
from costof.results.models import StartingTogether
from costof.results.run import Run

NS_PER_MS = 1e6


def starting_together(run: Run) -> StartingTogether | None:
    """None of a run in which no two hosts measured at once."""
    found = [(spread, piece) for piece in run.counted if (spread := _spread_ns(run, piece)) is not None]
    if not found:
        return None
    spreads = sorted(spread for spread, _ in found)
    return StartingTogether(
        slices=len(spreads),
        median_ms=median(spreads) / NS_PER_MS,
        p99_ms=spreads[max(0, round(0.99 * len(spreads)) - 1)] / NS_PER_MS,
        most_ms=spreads[-1] / NS_PER_MS,
        clocks_ms=max(part.clock_error_ns for _, piece in found for part in piece.hosts) / NS_PER_MS,
    )


def _spread_ns(run: Run, piece: SliceRecord) -> int | None:
    """Between the first operations of the first and of the last host; of their openings, where operations begin at
    instants of a schedule."""
    workload = run.plan.study.workloads[piece.workload]
    scheduled = workload.pace is not None or workload.think_ms is not None
    begun = [part.late_ns if scheduled else part.first_ns for part in piece.hosts if part.took_part]
    known = [each for each in begun if each is not None]
    return max(known) - min(known) if len(known) > 1 else None
