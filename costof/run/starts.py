"""Starts: a run whose servers, and whatever asks them, are started anew as often as its plan says (`--restarts`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from costof.errors import CostofError
from costof.messages.process import HostsProcess
from costof.results.ledger import Ledger
from costof.run.experiment import run
from costof.run.rounds import Before, Progress
from costof.services import Service
from costof.study.plan import Plan


def run_starts(
    plan: Plan,
    open_service: Callable[[], Service],
    ledger: Ledger,
    progress: Progress,
    before: Before | None = None,
    population: HostsProcess | None = None,
) -> None:
    """Each start that is not whole yet, on servers of its own; most plans have one. A partial start ends the run.

    Raises as `run` and `open_service` do where this has not measured a start yet. What comes later is in the ledger.
    """
    before = first = before or Before()
    while before.whole_starts < plan.starts:
        watched = _OfStart(progress, before.whole_starts + 1, plan.starts) if plan.starts > 1 else progress
        try:
            after = run(plan, open_service(), ledger, watched, before, population)
        except CostofError:
            if before is first:
                raise
            return
        if after is None:
            return
        before = after


@dataclass(frozen=True)
class _OfStart:
    """Says of which start each stage is."""

    progress: Progress
    start: int
    starts: int

    def stage(self, text: str) -> None:
        self.progress.stage(f"start {self.start} of {self.starts}: {text}")

    def round(self, done: int, elapsed_seconds: float, reached: float | None) -> None:
        self.progress.round(done, elapsed_seconds, reached)
