"""Break-even: how many operations a connection must carry until a protection adds less than 5 % or 1 % of time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, hypot, log10
from typing import ClassVar

from pydantic import Field

from costof import format as fmt
from costof.model import Finite, Model
from costof.report.blocks import FILES, HTML, Block, Bullets, Figure, Table
from costof.report.canvas import Legend, Panel, Scale, Sheet, columns_for, grid, log, near_zero
from costof.report.palette import colour_of
from costof.report.sections import Section, sentences
from costof.results.index import VIEWS, Context, Index
from costof.results.models import Arm, Core, Effect, Sentence
from costof.results.run import Run
from costof.statistics.break_even import Rounds, break_even, saves_below
from costof.statistics.intervals import FEWEST_ROUNDS

SHARES = (0.05, 0.01)


class SavingsLimit(Model):
    """The number of operations per connection below which an arm takes less time than the control."""

    operations: Finite
    low: Finite
    high: Finite | None = Field(description="None: the interval has no upper end in this run.")


class Point(Model):
    """A break-even point: operations per connection above which an arm adds less than `share` of the control's time."""

    view: str
    arm: str
    share: Finite
    operations: Finite | None = Field(
        description="Estimate; None if, with the measured means, no number of operations is enough."
    )
    low: Finite | None
    high: Finite | None = Field(description="None: the interval has no upper end in this run.")
    saves: SavingsLimit | None = Field(
        default=None,
        description="Not None if the arm's connections are faster and its operations slower than the control's.",
    )


WHOLE = "to the time of a connection"


def whole(operations: float) -> str:
    """Format a number of operations, rounded up to whole operations: 51.2 as '52'."""
    return fmt.number(-(-operations // 1), 0)


class Spec(Model):
    """The metrics that time a connection and an operation. The break-even points are computed from them."""

    view: str
    connection: str
    operation: str


class BreakEvenSection(Section[list[Spec], list[Point]]):
    name, title, order = "break_even", "Break-even", 80
    spec, data = list[Spec], list[Point]
    default: ClassVar[list[Spec]] = []

    def metrics(self, spec: list[Spec]) -> list[str]:
        return [name for each in spec for name in (each.connection, each.operation)]

    def compute(self, run: Run, core: Core, spec: list[Spec]) -> list[Point]:
        points: list[Point] = []
        for metrics in spec:
            for arm in run.plan.protected:
                names = (arm.control_arm or "", arm.name)
                pairs = [(metric, name) for metric in (metrics.connection, metrics.operation) for name in names]
                if numbers := run.common_values(*pairs, fewest=FEWEST_ROUNDS):
                    points += _points(Rounds(*numbers), metrics.view, arm.name, run.plan.seed)
        return points

    def answer(self, index: Index, data: list[Point]) -> list[Sentence]:
        return sentences("break_even", [*_texts(index, data)])

    def blocks(self, index: Index, data: list[Point]) -> Iterator[Block]:
        if lines := [sentence.text for sentence in index.sentences("break_even")]:
            yield Bullets(lines, label="Break-even")
        if curves := _curves(index):
            colours = {curve.colour: curve.arm.label for curve in curves}
            legend = [Legend(colour, label) for colour, label in colours.items()]
            title = "Cost by operations a connection"
            yield Figure(
                "break-even",
                title,
                _caption(curves),
                lambda width: _draw(curves, index, data, width),
                legend,
                media=HTML,
            )
        if index.many_contexts and data:
            yield _table(index, data)


def _points(rounds: Rounds, view: str, arm: str, seed: int) -> Iterator[Point]:
    saved, saves = saves_below(rounds, seed), None
    if 0 < saved.value < math.inf:
        saves = SavingsLimit(
            operations=saved.value, low=saved.low, high=saved.high if math.isfinite(saved.high) else None
        )
    for share in SHARES:
        operations = break_even(rounds, share, seed)
        ends = (operations.value, operations.low, operations.high)
        value, low, high = (each if math.isfinite(each) else None for each in ends)
        yield Point(view=view, arm=arm, share=share, operations=value, low=low, high=high, saves=saves)


def _texts(index: Index, data: list[Point]) -> Iterator[str]:
    """Yield sentences about the break-even points of each protection, on the wire and in the application.

    A break-even point is computed for several shares of added time, such as 1 % and 5 %. If the run has several
    contexts (such as distances), the sentences cover only the largest of these shares.
    """
    arms = index.answered
    many = len({arm.context for arm in arms}) > 1
    largest = max((point.share for point in data), default=0.0)
    many_views = len({point.view for point in data}) > 1
    for protection in dict.fromkeys(arm.protection for arm in arms):
        arms_of_protection = [arm for arm in arms if arm.protection == protection]
        for view, words in VIEWS.items():
            points = [
                (arm, point)
                for arm in arms_of_protection
                for point in data
                if (point.arm, point.view) == (arm.name, view)
            ]
            shown = [(arm, point) for arm, point in points if not many or point.share == largest]
            if shown:
                label = arms_of_protection[0].label
                subject = f"{words}, {label}" if words and many_views else label
                texts = [clause.format(subject) for clause in _clauses(shown)]
                yield " ".join(f"{fmt.capital(text)}." for text in texts)


def _clauses(points: list[tuple[Arm, Point]]) -> list[str]:
    """Return clauses such as '{} adds less than 5 % to the time of a connection with 52 queries or more [48, 57]'.

    All clauses are about one protection, and '{}' stands for its name. For contexts (such as distances) without a
    break-even point, a clause says why: the protection always costs more, always saves time, or this run cannot tell.
    """
    reached: dict[float, list[str]] = {}
    for arm, p in points:
        if p.operations is not None:
            reached.setdefault(p.share, []).append(f"{arm.place_in_words} {_from(p)}".strip())
    out_of_reach = [(arm, p) for arm, p in points if p.operations is None and p.low is None]
    never = [(arm, p) for arm, p in out_of_reach if p.saves is None]
    saving = {arm.name: (arm, p.saves) for arm, p in out_of_reach if p.saves is not None}
    clauses = [f"{{}} adds less than {fmt.share(share)} {WHOLE} {fmt.listed(each)}" for share, each in reached.items()]
    if never:
        share = max(p.share for _, p in never)
        where = fmt.listed([arm.place_in_words for arm, p in never if p.share == share])
        clauses.append(
            f"{{}} adds {fmt.share(share)} or more {WHOLE} {where}".rstrip()
            + ", however many queries the connection carries"
        )
    for arm, saves in saving.values():
        clauses.append(
            f"{{}} saves time {f'{arm.place_in_words} '.lstrip()}{_below(saves)}, and adds time to connections with "
            "more queries"
        )
    for arm, p in points:
        if p.operations is None and p.low is not None:
            least, limit = fmt.plural_formatted(whole(p.low), "query", "queries"), fmt.share(p.share)
            clauses.append(
                f"{{}} adds {limit} or more {WHOLE} {f'{arm.place_in_words} '.lstrip()}with fewer than about {least}. "
                f"With more queries, this run cannot tell whether the added time is below {limit}"
            )
    return clauses


def _from(point: Point) -> str:
    """Return a break-even point in words, such as 'with 52 queries or more [48, 57]'."""
    if point.high is not None and point.high <= 1:
        return "even with a single query"
    queries = fmt.plural_formatted(whole(point.operations or 0), "query", "queries")
    return f"with {queries} or more {_interval(point.low or 0, point.high)}"


def _interval(low: float, high: float | None) -> str:
    """Return an interval in brackets, such as '[48, 57]' or '(95 % interval from 48, with no upper end)'."""
    if high is not None:
        return f"[{whole(low)}, {whole(high)}]"
    return fmt.OPEN_INTERVAL.format(whole(low))


def _below(saves: SavingsLimit) -> str:
    """Return in words which connections save time, such as 'on connections with fewer than 52 queries [48, 57]'."""
    queries = fmt.plural_formatted(whole(saves.operations), "query", "queries")
    return f"on connections with fewer than {queries} {_interval(saves.low, saves.high)}"


def _table(index: Index, data: list[Point]) -> Table:
    points = {(item.view, item.arm, item.share): item for item in data}
    shares = sorted({item.share for item in data}, reverse=True)
    columns = [(context, share) for context in index.contexts for share in shares]
    rows = []
    for view in dict.fromkeys(item.view for item in data):
        for protection, label in index.protections.items():
            cells = []
            for context, share in columns:
                arm = next((arm.name for arm in context.arms if arm.protection == protection), "")
                cells.append(_cell(points.get((view, arm, share))))
            rows.append([f"{label} ({view})", *cells])
    head = ["variant", *(f"{context.name}: {fmt.share(share)}" for context, share in columns)]
    return Table.of(head, rows, title="Operations a connection from which the cost is below 5 % or 1 %", media=FILES)


def _cell(item: Point | None) -> str:
    if item is None:
        return fmt.NONE
    if item.operations is None:
        return "never" if item.low is None else f"over {whole(item.low)} or never"
    if item.high is not None and item.high <= 1:
        return "always"
    high = whole(item.high) if item.high is not None else "no end"
    return f"{whole(item.operations)} [{whole(item.low or 0)}, {high}]"


CONNECTION = (("connect_and_first_operation", "connect_and_first_query"), ("connect", "connect"))
OPERATION = (("operation", "reused_query"),)
"""Pairs of (phase, end of a name) that select the metrics whose curves are drawn. Earlier pairs are preferred.

A metric fits a pair if it has this phase, or if its name has this end. The name is needed for metrics measured in an
application, which have other phases.
"""
MOST_NUMBERS = 2
"""In a panel with more curves than this, the marks have no numbers, because numbers would overlap."""
POINTS = 60


@dataclass(frozen=True)
class Curve:
    """The time that an arm adds to a connection with its first operation, and to each later operation.

    Both effects are measured in the same view: on the wire or in the application.
    """

    view: str
    context: Context
    arm: Arm
    colour: str
    connection: Effect
    operation: Effect

    def overhead(self, operations: float) -> tuple[float, float, float]:
        """Return the share of time that the arm adds to a connection with 1 + `operations` operations.

        The result is (value, low, high): 0.05 is 5 % more time, and low and high are the ends of the interval. The
        interval assumes that the errors of the two effects are independent. Break-even points (the dots in the picture)
        do not need this assumption.
        """
        first, each = self.connection.difference, self.operation.difference
        base = self.connection.control_value + operations * self.operation.control_value
        value = first.value + operations * each.value
        above = hypot(first.high - first.value, operations * (each.high - each.value))
        below = hypot(first.value - first.low, operations * (each.value - each.low))
        return value / base, (value - below) / base, (value + above) / base


def _curves(index: Index) -> list[Curve]:
    curves = []
    for view in dict.fromkeys(metric.view for metric in index.core.metrics):
        for context in index.contexts:
            for arm in context.arms:
                connection = _effect(index, view, arm.name, CONNECTION)
                operation = _effect(index, view, arm.name, OPERATION)
                if connection and operation and connection.control_value > 0 and operation.control_value > 0:
                    curves.append(Curve(view, context, arm, colour_of(index, arm), connection, operation))
    return curves


def _effect(index: Index, view: str, arm: str, kinds: tuple[tuple[str, str], ...]) -> Effect | None:
    for phase, ending in kinds:
        for metric in index.core.metrics:
            fits_view = metric.view == view and metric.unit != "per_second"
            if fits_view and (metric.phase == phase or metric.name.endswith(ending)):
                return index.effect(metric.name, arm)
    return None


def _caption(curves: list[Curve]) -> list[str]:
    """Return sentences with the value of each curve at 1, 100 and 1,000 operations, and an explanation of the marks."""
    parts = []
    for curve in curves:
        once, hundred, thousand = (fmt.percent(curve.overhead(count)[0], signed=True) for count in (0, 100, 1000))
        parts.append(
            f"{curve.arm.label} ({curve.view}{curve.context.at}) changes the time of a connection with 1 operation by "
            f"{once}, with 101 operations by {hundred}, and with 1,001 operations by {thousand}."
        )
    return [
        *parts,
        "The band is the 95 % interval. Dots mark the number of operations from which the cost is below 5 % and 1 %.",
    ]


def _draw(curves: list[Curve], index: Index, data: list[Point], width: int) -> Sheet:
    """Return the picture. Its axis of operations ends at 10,000, or later (up to a million) to show all marks."""
    marks = [item.high or item.operations or 1.0 for item in data]
    reach = float(10 ** min(6, max(4, ceil(log10(max([*marks, 1.0])) + 0.1))))
    panels = []
    for view, title in dict.fromkeys((curve.view, curve.context.title) for curve in curves):
        shown = [curve for curve in curves if (curve.view, curve.context.title) == (view, title)]
        panel = _panel(shown, data, reach, many=index.many_contexts)
        panel.title = f"added time, {view}" + (f"\n{title}" if title else "")
        panels.append(panel)
    return grid(width, panels, 280, columns=columns_for(len(index.contexts)))


def _panel(curves: list[Curve], data: list[Point], reach: float, *, many: bool) -> Panel:
    """Return a panel with the added time by number of operations. The vertical axis is logarithmic except near zero."""
    counts = [reach ** (number / (POINTS - 1)) for number in range(POINTS)]
    top = max(SHARES[0], *(curve.overhead(count)[2] for curve in curves for count in (1, reach)))
    lowest = min(-0.01, *(curve.overhead(count)[1] for curve in curves for count in (1, reach)))
    bottom = lowest if many or any(curve.overhead(1)[2] < 0 for curve in curves) else -0.01
    steps = (-0.5, -0.2, -0.05, 0.0, 0.01, 0.05, 0.2, 1.0, 5.0, 20.0)
    panel = Panel(
        x=Scale(1, reach, log),
        y=Scale(bottom * 1.25 if bottom < -0.01 else -0.01, top * 1.25, near_zero(0.01, 0.67)),
        x_label="operations a connection",
        x_ticks=[10.0**power for power in range(0, round(log10(reach)) + 1, 2 if many else 1)],
        y_ticks={value: fmt.share(value).replace("-", fmt.MINUS) for value in steps if value >= bottom * 1.2},
    )
    panel.across(0, "line", 0.9)
    for mark in SHARES:
        panel.across(mark, "soft", 0.9, dashes="4 3")
    drawn = [(curve, [curve.overhead(count) for count in counts]) for curve in curves]
    for curve, points in drawn:
        _, lows, highs = zip(*points, strict=True)
        panel.band(counts, lows, highs, curve.colour)
    for curve, points in drawn:
        panel.line([(count, value) for count, (value, _, _) in zip(counts, points, strict=True)], curve.colour, 2)
        _marks(panel, data, curve, reach, numbers=len(curves) <= MOST_NUMBERS)
    return panel


def _marks(panel: Panel, data: list[Point], curve: Curve, reach: float, *, numbers: bool) -> None:
    """Draw a curve's break-even points with their intervals. An interval without an upper end reaches the edge."""
    for item in data:
        if (item.view, item.arm) != (curve.view, curve.arm.name) or item.operations is None or item.operations <= 1:
            continue
        low, high = max(1.0, item.low or 1.0), reach if item.high is None else item.high
        panel.line([(low, item.share), (high, item.share)], curve.colour, 1.6)
        panel.dot(item.operations, item.share, curve.colour, 7)
        if numbers:
            late = item.operations > reach**0.85
            panel.word(
                item.operations, item.share, whole(item.operations), right=-7 if late else 7, up=10,
                size=11, anchor="end" if late else "start", bold=True,
            )  # fmt: skip


SECTION = BreakEvenSection()
