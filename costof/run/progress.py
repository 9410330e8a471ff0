"""Progress of a run: the interface to which the run reports, and the events that displays receive.

Figures are computed and drawn only between rounds, so that this work never disturbs a slice (measured window). If a
display has just been updated, it may skip a round.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Protocol

from costof.errors import CostofError
from costof.format import plural
from costof.results.arms import context_in_words
from costof.results.ledger import AnyRecord, EnvironmentRecord, Ledger, LostRecord, WarningRecord
from costof.results.run import Run
from costof.results.tally import Tally
from costof.run.events import (
    ErrorEvent,
    Event,
    EventArm,
    EventMetric,
    InterruptedEvent,
    RoundEvent,
    RunningEffect,
    StageEvent,
    StartedEvent,
    WarningEvent,
)
from costof.run.forecast import Pace, may_end_earlier, needed_seconds, seconds_left, seconds_to_verdict
from costof.statistics.intervals import FEWEST_ROUNDS
from costof.study.arms import PlannedArm
from costof.study.plan import Plan

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Progress(Protocol):
    """A receiver of the progress of a run, such as the terminal."""

    def stage(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...

    def round(self, done: int, elapsed_seconds: float, reached: float | None) -> None: ...


class Display(Protocol):
    """A renderer of events. After each event, at least `pause_seconds` pass before it shows another round."""

    pause_seconds: float

    def show(self, event: Event) -> None: ...

    def close(self) -> None:
        """Restore the terminal. Further events are shown below the present output."""


class RunProgress:
    """The progress of a run, sent as events to a display.

    It is a context manager. Inside the `with` block, it receives each record that the run appends to the ledger (the
    run's file).

    When Ctrl-C or SIGTERM arrives, the display says at once which results are kept. If a table is being drawn at that
    moment, the signal takes effect only after the drawing, so that no table is half drawn.
    """

    def __init__(
        self,
        plan: Plan,
        ledger: Ledger,
        display: Display,
        earlier: Run | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`earlier` is what a resumed run measured before; None for a new run."""
        self._plan = plan
        self._ledger = ledger
        self._display = display
        self._clock = clock
        self._began = self._shown = clock()
        self._tally = Tally(plan, earlier)
        self._resumed = earlier is not None
        self._first_start = self._start = 0
        #: Three counts for a run with --restarts: the starts that an earlier command has completed, the complete rounds
        #: in all starts before the current one, and the complete rounds of the current start.
        self._earlier_starts, self._earlier_rounds, self._rounds = 0, 0, 0
        if earlier is not None and plan.starts > 1:
            self._first_start = self._start = len(earlier.starts)
            self._earlier_starts, self._earlier_rounds = earlier.whole_starts, earlier.rounds
        elif earlier is not None:
            self._rounds = earlier.rounds if earlier.partial is None else earlier.whole_rounds
        self._interrupted = self._drawing = self._signal_waits = False

    @property
    def seconds(self) -> float:
        return self._clock() - self._began

    def __enter__(self) -> RunProgress:
        self._handlers = {
            each: signal.signal(each, self._on_signal)
            for each in SIGNALS
            if signal.getsignal(each) not in (signal.SIG_IGN, None)
        }
        self._ledger.listener = self._record
        self.show(_started(self._plan, self._ledger, self._resumed, self.seconds))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ledger.listener = None
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._display.close()

    def stage(self, text: str) -> None:
        self.show(StageEvent(seconds=self.seconds, text=text))

    def warn(self, text: str) -> None:
        self.show(WarningEvent(seconds=self.seconds, text=text))

    def round(self, done: int, elapsed_seconds: float, reached: float | None) -> None:
        self._tally.finish_round()
        self._rounds = done
        if self._clock() - self._shown >= self._display.pause_seconds:
            self.show(self._round_event(Pace(done, elapsed_seconds), reached))

    def fail(self, error: CostofError) -> None:
        self.show(ErrorEvent(seconds=self.seconds, text=str(error), exit_status=error.exit_status))

    def show(self, event: Event) -> None:
        self._drawing = True
        try:
            self._display.show(event)
        finally:
            self._drawing = False
            self._shown = self._clock()
        if self._signal_waits:
            self._signal_waits = False
            self._interrupt()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._drawing:
            self._signal_waits = True
        else:
            self._interrupt()

    def _interrupt(self) -> None:
        if not self._interrupted:
            self._interrupted = True
            rounds = self._earlier_rounds + self._rounds
            text = _interruption_message(rounds, self._plan, str(self._ledger.folder))
            self.show(InterruptedEvent(seconds=self.seconds, rounds=rounds, text=text))
        raise KeyboardInterrupt

    def _record(self, record: AnyRecord) -> None:
        self._tally.add(record)
        match record:
            case EnvironmentRecord() if record.start != self._start:
                self._earlier_rounds += self._rounds
                self._start, self._rounds = record.start, 0
            case WarningRecord() if self._earlier_rounds + self._rounds == 0:
                self.warn(record.text)
            case LostRecord():
                lost = f"host {record.host}" if record.host else record.arm or "the service"
                self.warn(f"{lost} was lost: {record.detail}")

    def _round_event(self, pace: Pace, reached: float | None) -> RoundEvent:
        plan, effects, discarded = self._plan, self._tally.effects(), self._tally.discarded()
        left_in_start = seconds_left(plan, pace)
        begun = self._start - self._first_start + 1
        remaining = plan.starts - self._earlier_starts - begun
        left = left_in_start + remaining * (self.seconds + left_in_start) / begun
        if plan.starts == 1:
            needed = needed_seconds(effects, pace, plan.budget_seconds or pace.seconds + left)
        else:
            needed = [None] * len(effects)
        return RoundEvent(
            seconds=self.seconds,
            start=self._start + 1,
            round=pace.rounds,
            measuring_seconds=pace.seconds,
            seconds_left=left,
            may_end_earlier=may_end_earlier(plan),
            verdict_seconds=seconds_to_verdict(plan, pace, effects, reached, left),
            precision=reached,
            effects=[
                RunningEffect(
                    metric=each.metric,
                    arm=each.change.arm.name,
                    control_value=sum(each.change.control) / each.change.rounds,
                    value=sum(each.change.values) / each.change.rounds,
                    difference=each.change.difference.estimate(each.change.rounds),
                    ratio=each.change.relative(),
                    needed_seconds=seconds,
                )
                for each, seconds in zip(effects, needed, strict=True)
            ],
            discarded=len(discarded),
            last_discarded=discarded[-1] if discarded else None,
        )


def _started(plan: Plan, ledger: Ledger, resumed: bool, seconds: float) -> StartedEvent:
    study = plan.study
    return StartedEvent(
        seconds=seconds,
        study=study.name,
        title=study.title,
        folder=str(ledger.folder),
        arms=[
            EventArm(name=arm.name, label=_label(plan, arm), control=arm.control_arm, replicate=arm.replicate)
            for arm in plan.arms
        ],
        metrics=[
            EventMetric(
                name=name,
                view=study.workloads[each.workload].view,
                **each.model_dump(include={"label", "unit", "better"}),
            )
            for name, each in study.metrics.items()
            if each.headline
        ],
        resumed=resumed,
        **plan.model_dump(include={"seed", "fewest_rounds", "most_rounds", "budget_seconds", "precision", "starts"}),
    )


def _label(plan: Plan, arm: PlannedArm) -> str:
    # `context_in_words` leaves out a factor `load` of the user's own study, so use the context's name instead.
    context = context_in_words(plan, arm) or (f"at {arm.context}" if arm.context else "")
    return f"{arm.label} {context}".rstrip()


def _interruption_message(rounds: int, plan: Plan, folder: str) -> str:
    if rounds == 0:
        return "interrupted before a round was complete, so there are no figures; stopping what the run started"
    few = rounds < FEWEST_ROUNDS and plan.starts == 1
    verb = "is" if rounds == 1 else "are"
    verdicts = f", but verdicts need {FEWEST_ROUNDS}" if few else ""
    return (
        f"interrupted; {plural(rounds, 'complete round')} {verb} kept{verdicts}; stopping what the run started "
        f"(to continue later: costof run --resume {folder})"
    )
