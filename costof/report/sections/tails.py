"""Tails: the slowest operations of each arm against the control's, which is what people are paged for.

Of each headline latency: p50, p95, p99 and p99.9 of all operations together, and how many times the control's each is,
with an interval (`statistics/tails.py`). What the operations of a run cannot carry is not told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from pydantic import Field

from costof import format as fmt
from costof.format import Text
from costof.model import Finite, Model
from costof.report.blocks import FILES, Block, Cell, Column, Paragraph, Part, Row, Table
from costof.report.sections import Section, sentences
from costof.results.index import Index
from costof.results.models import Core, Sentence
from costof.results.models import Metric as ShownMetric
from costof.results.run import Run
from costof.results.samples import NS_PER_UNIT, in_unit
from costof.statistics.estimate import Estimate
from costof.statistics.histogram import counted
from costof.statistics.intervals import resamples
from costof.statistics.tails import (
    FEWEST_BEYOND,
    FEWEST_ROUNDS,
    RESAMPLES,
    Percentiles,
    bootstrap_percentiles,
    operations_needed,
    ratios,
)
from costof.study.schema import Metric

PERCENTILES = (50.0, 95.0, 99.0, 99.9)
#: Of those, what the report's head tells, behind the marks and limits, and of how many metrics.
AT_FIRST, HEAD_ORDER, MOST_AT_FIRST = PERCENTILES[:3], 3, 4
COLUMNS = [Column("arm", "text"), Column("percentile", "text"), *map(Column, ("control", "arm's", "relative"))]
METHOD = (
    "Percentiles are of all operations of all rounds; the interval of the ratio is a bootstrap over whole {unit}s. A "
    f"percentile is told where at least {FEWEST_BEYOND} operations of both arms lie beyond it."
)


class Tail(Model):
    metric: str
    arm: str
    percentile: Finite
    control_value: Finite
    value: Finite
    ratio: Estimate = Field(description="Arm over control.")


class UndeterminedPercentile(Model):
    """The first percentile that the operations of a metric and arm cannot carry."""

    metric: str
    arm: str
    percentile: Finite
    operations: int
    needed: int


class Tails(Model):
    found: list[Tail]
    undetermined: list[UndeterminedPercentile]


@dataclass(frozen=True)
class Measured:
    operations: int
    percentiles: Percentiles


class TailsSection(Section[None, Tails]):
    name, title, order = "tails", "The slowest operations", 25
    data = Tails

    def compute(self, run: Run, core: Core, spec: None) -> Tails | None:
        found: list[Tail | UndeterminedPercentile] = []
        for name, metric in run.plan.study.metrics.items():
            if not metric.headline or metric.is_of_whole_slice or metric.unit not in NS_PER_UNIT:
                continue
            rounds = sorted({piece.round for piece in run.counted if piece.workload == metric.workload})
            units = [run.samples.units.unit(number) for number in rounds]
            if len(set(units)) < FEWEST_ROUNDS:
                continue
            drawn = resamples(units, run.plan.seed, RESAMPLES)
            measured = {}
            for arm in run.plan.arms:
                if histograms := run.histograms(name, arm.name):
                    values, counts = counted(histograms.get(number, []) for number in rounds)
                    percentiles = bootstrap_percentiles(values, counts, drawn, PERCENTILES)
                    measured[arm.name] = Measured(int(counts.sum()), percentiles)
            for arm in run.plan.protected:
                of_arm, of_control = measured.get(arm.name), measured.get(arm.baseline or "")
                if of_arm is not None and of_control is not None:
                    found += _of_arm(name, metric, arm.name, of_control, of_arm, len(set(units)))
        tails = [each for each in found if isinstance(each, Tail)]
        undetermined = [each for each in found if isinstance(each, UndeterminedPercentile)]
        return Tails(found=tails, undetermined=undetermined) if tails else None

    def answer(self, index: Index, data: Tails) -> list[Sentence]:
        return sentences("detail", [_sentence(index, each) for each in worse_than_the_mean(index, data)])

    def parts(self, index: Index, data: Tails) -> list[Part]:
        return [Part("percentiles", "", [*_at_first(index, data)], order=HEAD_ORDER), *super().parts(index, data)]

    def blocks(self, index: Index, data: Tails) -> Iterator[Block]:
        yield Table(COLUMNS, [*_rows(index, data)], "Of all operations together", group="metric")
        if data.undetermined:
            yield Paragraph(" ".join(_untold(index, data.undetermined)), "note", media=FILES)
        yield Paragraph(METHOD.format(unit=index.unit), "note", media=FILES)


def _at_first(index: Index, data: Tails) -> Iterator[Block]:
    """Show p50, p95 and p99 of the first arm that the answer is about."""
    arm = next((each for each in index.answered if any(tail.arm == each.name for tail in data.found)), None)
    if arm is None:
        return
    found = {(tail.metric, tail.percentile): tail for tail in data.found if tail.arm == arm.name}
    names = list(dict.fromkeys(name for name, _ in found if name in index.metrics))[:MOST_AT_FIRST]
    rows: list[list[str | Text]] = []
    for name in names:
        metric = index.metrics[name]
        tails = [found.get((name, percentile)) for percentile in AT_FIRST]
        values = [
            f"{fmt.number(tail.control_value)} → {fmt.number(tail.value)}" if tail else fmt.NONE for tail in tails
        ]
        rows.append([fmt.titled(_metric_label(index, metric), metric.unit), *values])
        rows.append(["", *(fmt.relative(tail.ratio) if tail else fmt.NONE for tail in tails)])
    yield Table.of(["", *map(_name, AT_FIRST)], rows, title=f"p50, p95 and p99: {arm.label}{arm.at}")


def _of_arm(
    name: str, metric: Metric, arm: str, control: Measured, own: Measured, rounds: int
) -> Iterator[Tail | UndeterminedPercentile]:
    """Yield the percentiles that the operations of both can carry, and the first that they cannot."""
    for place, ratio in enumerate(ratios(control.percentiles, own.percentiles, rounds)):
        percentile, operations = PERCENTILES[place], min(control.operations, own.operations)
        needed = operations_needed(percentile)
        if operations < needed:
            yield UndeterminedPercentile(
                metric=name, arm=arm, percentile=percentile, operations=operations, needed=needed
            )
            return
        both = (control.percentiles.measured[place], own.percentiles.measured[place])
        before, after = (in_unit(metric, float(each), workers=1) for each in both)
        yield Tail(metric=name, arm=arm, percentile=percentile, control_value=before, value=after, ratio=ratio)


def worse_than_the_mean(index: Index, tails: Tails) -> list[Tail]:
    """Return the farthest tails that lose more than the mean does: each is a finding of its own."""
    farthest = {(each.metric, each.arm): each for each in tails.found}
    found = []
    for tail in farthest.values():
        effect = index.effect(tail.metric, tail.arm)
        mean = effect.ratio if effect else None
        if tail.percentile > PERCENTILES[0] and mean is not None and tail.ratio.low > max(mean.high, 1.0):
            found.append(tail)
    return found


def _sentence(index: Index, tail: Tail) -> str:
    metric = index.metrics[tail.metric]
    value = fmt.with_unit(fmt.number(tail.value), metric.unit)
    return (
        f"The {_name(tail.percentile)} of '{metric.label}' is {value} with {index.label_at(tail.arm)}, "
        f"{fmt.relative(tail.ratio)} against its control: more than the mean changes."
    )


def _untold(index: Index, undetermined: list[UndeterminedPercentile]) -> Iterator[str]:
    arms: dict[tuple[float, str, int, int], list[str]] = {}
    for each in undetermined:
        if each.metric in index.metrics:
            arms.setdefault((each.percentile, each.metric, each.needed, each.operations), []).append(each.arm)
    for (percentile, metric, needed, operations), names in arms.items():
        of = f"{_name(percentile)} of {index.metric_in_view(metric)} with {fmt.listed(names)}"
        yield f"{of} would need {needed:,} operations; there are {operations:,}."


def _rows(index: Index, data: Tails) -> Iterator[Row]:
    found = [each for each in data.found if each.metric in index.metrics]
    for name, of_metric in groupby(found, key=lambda each: each.metric):
        metric = index.metrics[name]
        label = fmt.titled(_metric_label(index, metric), metric.unit)
        yield Row([Cell(label)], "group")
        for tail in of_metric:
            values = (Cell(fmt.number(each)) for each in (tail.control_value, tail.value))
            yield Row([Cell(tail.arm), Cell(_name(tail.percentile)), *values, Cell.of(fmt.relative(tail.ratio))])


def _metric_label(index: Index, metric: ShownMetric) -> str:
    """Return the metric's label, with its view where there are several."""
    views = {each.view for each in index.headline_metrics}
    return f"{metric.view}: {metric.label}" if len(views) > 1 else metric.label


def _name(percentile: float) -> str:
    """'p99', 'p99.9'."""
    return f"p{percentile:g}"


SECTION = TailsSection()
