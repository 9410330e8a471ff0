"""A picture that compares all arms by the first headline (most important) rate or, without a rate, the first time."""

from __future__ import annotations

from collections.abc import Iterator

from costof import format as fmt
from costof.report.blocks import HTML, Block, Figure
from costof.report.canvas import BOLD, NARROW, Panel, Scale, Sheet, text_width
from costof.report.palette import colour_of
from costof.report.sections import Section
from costof.results.index import Context, Index
from costof.results.models import Arm, Metric, Value

BAR = 0.42
LETTERS = 11.5
"""Font size of an arm's label in pixels."""
MOST_IN_COLUMN, EDGES = 2, 40
"""A picture with more than MOST_IN_COLUMN panels has two columns, if the labels fit.

EDGES is the width of both edges of a panel together, in pixels.
"""
MOST_RATIO = 20
"""The panels of all contexts (such as distances) have the same scale, unless values differ by more than this factor."""
HOW_TO_READ = (
    "Each bar is the mean of a variant over all {unit}s, and the line at its end the 95 % interval of this mean. The "
    "percentage compares the variant with the control in the same {unit}s, so it can be surer than the lines suggest."
)


class SideBySideSection(Section[None, None]):
    name, title, order = "side_by_side", "Side by side", 18

    def blocks(self, index: Index, data: None) -> Iterator[Block]:
        metrics = sorted(index.headline_metrics, key=lambda metric: metric.unit != "per_second")
        for metric in metrics:
            shown = [(context, _values(index, metric, context)) for context in index.contexts]
            shown = [(context, values) for context, values in shown if len(values) > 1]
            if shown:
                yield _figure(index, metric, shown)
                return


def _values(index: Index, metric: Metric, context: Context) -> list[tuple[Arm, Value]]:
    found = [(arm, index.value(metric.name, arm.name)) for arm in context.shown_arms]
    return [(arm, value) for arm, value in found if value is not None and value.mean.value > 0]


def _figure(index: Index, metric: Metric, shown: list[tuple[Context, list[tuple[Arm, Value]]]]) -> Figure:
    caption = [
        f"{f'{context.title}: ' if context.title else ''}"
        f"{fmt.listed([f'{arm.label} {fmt.absolute(value.mean, metric.unit)}' for arm, value in values])}."
        for context, values in shown
    ]
    means = [value.mean.value for _, values in shown for _, value in values]
    ends = [
        max(max(value.mean.value, value.mean.high if value.mean.rounds > 1 else 0.0) for _, value in values)
        for _, values in shown
    ]
    if max(means) <= MOST_RATIO * min(means):
        ends = [max(ends)] * len(ends)

    words = [_words(index, metric, *each) for _, values in shown for each in values]
    widest = max(BOLD * text_width(each, LETTERS) for each in words) + EDGES

    def draw(width: int) -> Sheet:
        heights = [
            (56 if context.title else 34) + (62 if len(shown) == 1 else 48) * len(values) for context, values in shown
        ]
        panels = [
            _panel(index, metric, context.title, values, end, width)
            for (context, values), end in zip(shown, ends, strict=True)
        ]
        columns = 2 if len(shown) > MOST_IN_COLUMN and width / 2 > widest else 1
        rows = [max(heights[first : first + columns]) for first in range(0, len(heights), columns)]
        return Sheet(width, panels, rows, columns)

    reading = HOW_TO_READ.format(unit=index.unit)
    title = fmt.capital(fmt.titled(index.metric_title(metric.name), metric.unit))
    return Figure("arms", f"{title}, by variant", caption, draw, reading=reading, rank=1, media=HTML)


def _panel(index: Index, metric: Metric, title: str, values: list[tuple[Arm, Value]], end: float, width: int) -> Panel:
    panel = Panel(title=title, x=Scale(0, end * 1.02), y=Scale(len(values) - 1 + BAR / 2 + 0.12, -BAR / 2 - 0.42))
    for row, (arm, value) in enumerate(values):
        mean = value.mean
        panel.box(0, mean.value, row, BAR, colour_of(index, arm), opacity=0.85)
        if mean.rounds > 1:
            panel.line([(max(0.0, mean.low), row), (mean.high, row)], "ink", 1.4)
            for x in (max(0.0, mean.low), mean.high):
                panel.line([(x, row - BAR / 5), (x, row + BAR / 5)], "ink", 1.4)
        words = _words(index, metric, arm, value, with_unit=width > NARROW)
        if BOLD * text_width(words, LETTERS) > width:
            words = words.replace(arm.label, index.short(arm.name), 1)
        panel.word(0, row - BAR / 2, words, up=11, size=LETTERS, bold=True)
    return panel


def _words(index: Index, metric: Metric, arm: Arm, value: Value, *, with_unit: bool = True) -> str:
    effect = index.effect(metric.name, arm.name)
    share = (
        f"  ·  {fmt.relative(effect.printed_ratio).value}"
        if effect is not None and effect.printed_ratio is not None
        else ""
    )
    return f"{arm.label}  ·  {fmt.absolute(value.mean, metric.unit if with_unit else '').value}{share}"


SECTION = SideBySideSection()
