"""What a person sees while a run goes on: one line on standard error with round, time left and precision so far."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text

from costof.study.plan import Plan


class Bar:
    """A live line on a terminal; on anything else one plain line a stage, so that logs stay readable."""

    def __init__(self, plan: Plan, console: Console) -> None:
        self._plan = plan
        self._console = console
        self._live = console.is_terminal
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[state]}"),
            console=console,
            transient=True,
            disable=not self._live,
        )
        self._task = self._progress.add_task("", total=None, state="")

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def stage(self, text: str) -> None:
        self._started = time.monotonic()
        self._progress.update(self._task, description=text, state="", total=None)
        if not self._live:
            self._console.print(Text(text))

    def round(self, done: int, elapsed_seconds: float, reached: float | None) -> None:
        left = max(0.0, self.seconds_left(done, elapsed_seconds, reached))
        plan = self._plan
        state = f"round {done}" if plan.start_budget_seconds is not None else f"round {done} of {plan.most_rounds}"
        state += f" · {'at most' if plan.start_budget_seconds is not None else 'about'} {left:.0f} s left"
        if reached is not None:
            state += f" · known to ±{reached:.1%}"
            state += f", asked ±{plan.precision:.1%}" if plan.precision is not None else ""
        self._progress.update(self._task, total=elapsed_seconds + left, completed=elapsed_seconds, state=state)

    def seconds_left(self, done: int, elapsed_seconds: float, reached: float | None) -> float:
        """Time to the end of the budget or of the most rounds, whichever comes first."""
        each = elapsed_seconds / max(1, done)
        of_rounds, budget = (self._plan.most_rounds - done) * each, self._plan.start_budget_seconds
        return of_rounds if budget is None else min(budget - elapsed_seconds, of_rounds)
