"""Displays of a run in progress: a live table on a terminal, lines of text elsewhere, or events as JSON."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from typing import TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group, RenderableType
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType, Segment
from rich.text import Text

from costof import format as fmt
from costof.report.terminal import ASCII, BAR, interval_bar
from costof.results.tally import Discarded
from costof.run.events import (
    Event,
    InterruptedEvent,
    RoundEvent,
    RunningEffect,
    StageEvent,
    StartedEvent,
    WarningEvent,
)
from costof.run.progress import Display
from costof.statistics.estimate import Estimate
from costof.statistics.intervals import FEWEST_ROUNDS

#: Without a terminal: seconds between two lines with figures.
LINE_SECONDS = 10.0
#: Minimum seconds between two drawings of the table.
DRAWING_SECONDS = 0.25
#: Without a terminal: the maximum number of effects in a line.
MOST_IN_LINE = 4
#: The maximum width of the table. If the user makes the terminal narrower than the table, the terminal breaks the
#: table's lines. The parts may scroll out of the screen, where the cursor cannot erase them.
WIDEST = 79
#: The table has two optional columns: a drawing of each confidence interval, and the time until each effect has a
#: verdict. Each appears only if the table has at least this width.
WITH_BARS, WITH_VERDICTS = 72, 56
LEAST_NAME = 16
NOT_A_CI = ("", "0", "false")


def open_display(json_lines: bool, environment: Mapping[str, str] = os.environ) -> Display:
    """Return JSON lines if `json_lines` is true, else a live table on a capable terminal, else lines of text."""
    if json_lines:
        return JsonLines(sys.stdout)
    console = Console(stderr=True, highlight=False)
    can_draw = sys.stderr.isatty() and console.is_interactive and "TERM" in environment
    if can_draw and console.encoding.lower().startswith("utf") and environment.get("CI", "").lower() in NOT_A_CI:
        return LiveTable(console)
    return PlainLines(sys.stderr)


class JsonLines:
    """Events as JSON on standard output, one object a line."""

    pause_seconds = 0.0

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def show(self, event: Event) -> None:
        """Print the event. Raises `KeyboardInterrupt` if the program that reads standard output has closed it."""
        try:
            self._out.write(event.model_dump_json() + "\n")
            self._out.flush()
        except BrokenPipeError:
            # Redirect standard output to /dev/null. Otherwise the interpreter would write the buffered output at its
            # exit, and fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._out.fileno())
            raise KeyboardInterrupt from None

    def close(self) -> None: ...


class PlainLines:
    """The display without a terminal: a line for each stage, and at most every ten seconds a line with effects."""

    pause_seconds = LINE_SECONDS

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._names = Names()
        self._discarded: Discarded | None = None

    def show(self, event: Event) -> None:
        match event:
            case StartedEvent():
                self._names = Names(event)
            case StageEvent():
                self._print(event.text)
            case WarningEvent():
                self._print(f"warning: {event.text}")
            case InterruptedEvent():
                self._print(f"costof: {event.text}")
            case RoundEvent():
                parts = [status(event, self._names), *self._names.effects(event.effects)]
                if event.last_discarded != self._discarded:
                    self._discarded = event.last_discarded
                    parts += [discarded_words(event, self._names)] if event.last_discarded else []
                self._print(" · ".join(parts))

    def close(self) -> None: ...

    def _print(self, text: str) -> None:
        text = text.replace(fmt.NBSP, " ")
        encoding = self._out.encoding or "utf-8"
        if not encoding.lower().startswith("utf"):
            text = text.translate(ASCII).encode(encoding, "replace").decode(encoding)
        try:
            self._out.write(text + "\n")
            self._out.flush()
        except BrokenPipeError:
            # The program that read the progress has closed the pipe. Continue to measure, and discard the progress.
            self._out = open(os.devnull, "w")  # noqa: PTH123, SIM115  # no path, and open until the end


class LiveTable:
    """The display on a terminal: a table below all other output, which is removed when the run ends.

    It is redrawn at most once after each round of measurements, by a single write. No background thread draws it, since
    that could disturb a measurement. The cursor is never hidden, so it is visible even after the run was killed.
    """

    pause_seconds = DRAWING_SECONDS

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop")
        self._names = Names()
        self._stage = ""
        self._round: RoundEvent | None = None
        self._drawn_lengths: list[int] = []
        self._open = False

    def show(self, event: Event) -> None:
        match event:
            case StartedEvent():
                self._names = Names(event)
                with self._console:
                    self._live.start()
                    self._console.show_cursor()
                self._open = True
            case StageEvent():
                self._stage = event.text
                self._draw()
            case RoundEvent():
                self._round = event
                self._draw()
            case WarningEvent():
                self._print(event.text)
            case InterruptedEvent():
                self.close()
                self._print(event.text)

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        with self._console:
            self._clear_wrapped_lines()
            self._live.update(Text(), refresh=True)
            self._live.stop()

    def _print(self, text: str) -> None:
        """Print a lasting line, above the table if there is one."""
        with self._console:
            if self._open:
                self._clear_wrapped_lines()
            self._console.print(Text(f"costof: {text}"), soft_wrap=True)

    def _draw(self) -> None:
        if not self._open:
            return
        # Leave the last column free: after a line that fills the width, terminals differ in whether the cursor is on
        # the next line.
        width, height = max(1, min(WIDEST, self._console.width - 1)), self._console.height
        table = live_table(self._names, self._stage, self._round, width, height)
        rendered = self._console.render_lines(table, self._console.options.update_width(width), pad=False)
        lines = rendered[: height - 1]
        with self._console:
            self._clear_wrapped_lines()
            self._live.update(_Lines(lines), refresh=True)
        self._drawn_lengths = [Segment.get_line_length(line) for line in lines]

    def _clear_wrapped_lines(self) -> None:
        """Clear the additional lines that exist if the user has narrowed the terminal, so that the table's lines wrap.

        rich itself clears only as many lines as it has drawn.
        """
        width = max(1, self._console.width)
        wrapped = sum(max(1, ceil(length / width)) for length in self._drawn_lengths) - len(self._drawn_lengths)
        if wrapped > 0:
            clear = ((ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1))
            self._console.control(Control(ControlType.CARRIAGE_RETURN, *clear * wrapped))
        self._drawn_lengths = []


class _Lines:
    """Rendered lines, in the form of an object that rich can print."""

    def __init__(self, lines: Sequence[Sequence[Segment]]) -> None:
        self._lines = lines

    def __rich_console__(self, *_: object) -> Sequence[Segment]:
        return [
            segment
            for at, line in enumerate(self._lines)
            for segment in (*line, *([Segment.line()] if at < len(self._lines) - 1 else []))
        ]


class Names:
    """The names of a run's arms and metrics as users see them, such as 'TLS 1.3' for the arm 'tls13'."""

    def __init__(self, started: StartedEvent | None = None) -> None:
        self.started = started
        self._arms = {arm.name: arm for arm in started.arms} if started else {}
        self._metrics = {metric.name: metric for metric in started.metrics} if started else {}

    @property
    def title(self) -> str:
        return self.started.title if self.started else ""

    def arm(self, name: str) -> str:
        return self._arms[name].label

    def metric(self, name: str) -> str:
        """Return the metric's label.

        If another metric has the same label, the text begins with the view, which says who measures: 'wire: query' (the
        load generator) or 'app: query' (an application's driver).
        """
        metric = self._metrics[name]
        same = [each for each in self._metrics.values() if each.label == metric.label]
        return metric.label if len(same) == 1 else f"{metric.view}: {metric.label}"

    def by_arm(self, effects: Sequence[RunningEffect]) -> list[RunningEffect]:
        """Return the effects in the order in which the plan lists their arms (compared configurations)."""
        order = [*self._arms]
        return sorted(effects, key=lambda each: order.index(each.arm))

    def unit(self, name: str) -> str:
        return self._metrics[name].unit

    def added(self, effect: RunningEffect) -> fmt.Text:
        return fmt.absolute(effect.difference, self.unit(effect.metric), signed=True)

    def effects(self, effects: Sequence[RunningEffect]) -> list[str]:
        """Return the effects as texts, one text for each arm, such as 'TLS: new connection +4.8 ms [4.6, 5.0]'.

        The texts have at most `MOST_IN_LINE` effects. If there are more, the last text says how many are not shown.
        """
        by_arm: dict[str, list[str]] = {}
        for effect in self.by_arm(effects)[:MOST_IN_LINE]:
            by_arm.setdefault(effect.arm, []).append(f"{self.metric(effect.metric)} {self.added(effect)}")
        more = len(effects) - MOST_IN_LINE
        texts = [f"{self.arm(arm)}: {', '.join(each)}" for arm, each in by_arm.items()]
        return [*texts, f"and {more} more"] if more > 0 else texts


def status(event: RoundEvent, names: Names) -> str:
    """Return the state of the run as text, such as 'round 12 · at most 31 s left · verdict in about 12 s'."""
    started = names.started
    assert started is not None
    fixed = started.budget_seconds is None
    parts = [f"start {event.start} of {started.starts}"] if started.starts > 1 else []
    parts.append(f"round {event.round:,} of {started.most_rounds:,}" if fixed else f"round {event.round:,}")
    parts.append(f"{'about' if fixed else 'at most'} {fmt.duration(event.seconds_left)} left")
    units = started.starts if started.starts > 1 else event.round
    if event.verdict_seconds is not None:
        seconds = event.verdict_seconds
        parts.append(f"verdict in about {fmt.duration(seconds)}" if seconds >= 1 else "verdict at once")
    elif event.effects and event.effects[0].difference.rounds >= FEWEST_ROUNDS:
        late = [
            each for each in event.effects if each.needed_seconds is None or each.needed_seconds > event.seconds_left
        ]
        parts.append(f"no verdict expected on {len(late)} of {len(event.effects)} effects" if late else "")
    elif units:
        parts.append(f"verdicts need {FEWEST_ROUNDS} {'starts' if started.starts > 1 else 'rounds'}")
    if event.precision is not None:
        target = f", target ±{fmt.share(started.precision)}" if started.precision is not None else ""
        parts.append(f"±{fmt.percent(event.precision)}{target}")
    return " · ".join(filter(None, parts))


def discarded_words(event: RoundEvent, names: Names) -> str:
    """Return text about the last discarded slice (measured window) or round, with its cause; '' if there is none."""
    last = event.last_discarded
    if last is None:
        return ""
    what = f"a slice of {names.arm(last.arm)} in round {last.round}" if last.arm else f"round {last.round}"
    count = f" ({event.discarded:,} so far)" if event.discarded > 1 else ""
    return f"discarded{count}: {what}, because {last.cause}"


def live_table(names: Names, stage: str, event: RoundEvent | None, width: int, height: int) -> RenderableType:
    """Return the table for a terminal: the study's title, the state of the run, and the effects so far."""
    lines: list[RenderableType] = [_line(names.title, width, "bold")]
    if event is None:
        return Group(*lines, _line(stage, width), _line("Ctrl-C ends the run", width, "dim"))
    lines.append(_line(status(event, names), width))
    discarded = textwrap.wrap(discarded_words(event, names), width, max_lines=2, placeholder=" …")
    below = [_line(text, width, "yellow") for text in discarded]
    keeps = "Ctrl-C ends the run and keeps its rounds"
    below.append(_line(keeps if stage.endswith("measuring") else stage, width, "dim"))
    room = max(2, height - len(lines) - len(below) - 1)
    return Group(*lines, *_effects(names, event, width, room), *below)


def _line(text: str, width: int, style: str = "") -> Text:
    line = Text(text.replace(fmt.NBSP, " ").rstrip(), style=style, no_wrap=True)
    line.truncate(width, overflow="ellipsis")
    return line


def _effects(names: Names, event: RoundEvent, width: int, room: int) -> list[Text]:
    """Return a line of headings, then a line for each arm and for each of the arm's effects; `room` lines at most.

    The columns are padded here, because a table of rich takes ten times the CPU time.
    """
    if not event.effects:
        return [_line("no figures before the second round", width, "dim")]
    bars, verdicts = width >= WITH_BARS, width >= WITH_VERDICTS
    heads = ["", "added", "95 % interval", *([""] if bars else []), *(["verdict"] if verdicts else [])]
    rows: list[str | list[str]] = []
    arm = ""
    for at, effect in enumerate(names.by_arm(event.effects)):
        if len(rows) + (effect.arm != arm) >= room - 1:
            rows.append(f"and {len(event.effects) - at} more")
            break
        if effect.arm != arm:
            arm = effect.arm
            rows.append(names.arm(arm))
        added = names.added(effect)
        row = [f"  {names.metric(effect.metric)}", added.value, added.interval]
        row += [bar(effect.difference)] if bars else []
        row += [_needed(effect)] if verdicts else []
        rows.append(row)
    cells = [heads, *(row for row in rows if isinstance(row, list))]
    widths = [max(cell_len(row[at]) for row in cells) for at in range(len(heads))]
    widths[0] = min(widths[0], max(LEAST_NAME, width - sum(widths[1:]) - 2 * (len(heads) - 1)))

    def joined(row: list[str]) -> str:
        padded = [set_cell_size(cell, each) for cell, each in zip(row, widths, strict=True)]
        if cell_len(row[0]) > widths[0]:
            padded[0] = set_cell_size(row[0], widths[0] - 1) + "…"
        padded[1] = " " * (widths[1] - cell_len(row[1])) + row[1]
        return "  ".join(padded)

    return [
        _line(joined(heads), width, "dim"),
        *(_line(row, width, "bold") if isinstance(row, str) else _line(joined(row), width) for row in rows),
    ]


def _needed(effect: RunningEffect) -> str:
    """Return how much longer the run must measure until the effect has a verdict, such as 'needs 3 min'."""
    if effect.difference.rounds < FEWEST_ROUNDS:
        return ""
    if effect.needed_seconds is None:
        return "too noisy"
    return "at the end" if effect.needed_seconds < 1 else f"needs {fmt.roughly(effect.needed_seconds)}"


def bar(estimate: Estimate) -> str:
    """Return a drawing of the confidence interval on a scale that contains 0, such as '│ ──●── '.

    The end of the scale is rounded up to 1, 2 or 5 times a power of ten. The scale therefore rarely changes during a
    run, so that the user can see how the interval becomes narrower.
    """
    least, most = min(0.0, estimate.low), max(0.0, estimate.high)
    end = _step_above(max(-least, most))
    if end == 0:
        return "│".center(BAR)
    return interval_bar(estimate, -end if least < 0 else 0.0, end if most > 0 else 0.0, zero_inside="┼")


def _step_above(value: float) -> float:
    """Return the lowest 1, 2 or 5 times a power of ten that is at least `value`; 0 for 0."""
    if value <= 0:
        return 0.0
    power = 10.0 ** floor(log10(value))
    return next(times * power for times in (1, 2, 5, 10) if times * power >= value or times == 10)
