"""Fast and slow operations: what a protection costs at each percentile of the main (headline) latencies.

Percentiles cover all operations of a run. A table has p50 to p99.9, with an interval for their ratio to the control's.
A picture has the differences at all percentiles, with a band for the whole curve (`statistics/tails.py`). Percentiles
with too few operations are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from pydantic import Field

from costof import format as fmt
from costof.format import Text
from costof.model import Finite, Model
from costof.report.blocks import FILES, TEXT, Block, Cell, Column, Paragraph, Part, Row, Table
from costof.report.sections import Section, sentences
from costof.report.sections.tails.curve import (
    Curve,
    CurvePoint,
    MissingCurve,
    curve_blocks,
    percentile_name,
)
from costof.results.index import Index
from costof.results.metrics import NS_PER_UNIT, in_unit
from costof.results.models import Core, Sentence
from costof.results.models import Metric as ShownMetric
from costof.results.run import Run
from costof.statistics.estimate import Estimate
from costof.statistics.histogram import counted
from costof.statistics.intervals import resamples
from costof.statistics.tails import (
    CURVE,
    FEWEST_BEYOND,
    FEWEST_ROUNDS,
    RESAMPLES,
    Percentiles,
    bootstrap_percentiles,
    difference_band,
    operations_needed,
    places_on_curve,
    ratios,
)
from costof.study.schema import Metric

PERCENTILES = (50.0, 95.0, 99.0, 99.9)
#: The table of percentiles at the top of the report: which percentiles it has, its position in the report (after checks
#: and limits), and the maximum number of its metrics.
IN_HEAD, HEAD_ORDER, MOST_IN_HEAD = PERCENTILES[:3], 3, 4
#: A curve is shown only if it begins at p10 or lower and ends at this percentile or higher.
LEAST_CURVE = 90.0
METHOD = (
    "Percentiles are computed over all operations of all rounds. The intervals of their ratios, variant to control, "
    f"come from a bootstrap over whole {{unit}}s. A percentile is left out if the variant or the control has fewer "
    f"than {FEWEST_BEYOND} operations beyond it: a p99 needs {operations_needed(99):,} operations, a p99.9 "
    f"{operations_needed(99.9):,}."
)
NO_PERCENTILE = " In this run, this leaves out some percentiles of {metrics}."
METHOD_OF_CURVE = (
    " The band around a curve is simultaneous: 95 % of the curves of the bootstrap lie inside it at every percentile "
    "(Montiel Olea & Plagborg-Møller 2019)."
)
NO_CURVE = (
    f" A curve is left out if the variant or the control has fewer than {operations_needed(LEAST_CURVE):,} operations. "
    "In this run, this leaves out curves of {metrics}."
)


class Tail(Model):
    metric: str
    arm: str
    percentile: Finite
    control_value: Finite
    value: Finite
    ratio: Estimate = Field(description="Arm divided by control.")


class UndeterminedPercentile(Model):
    """The lowest percentile that is not reported, because the arm or its control has too few operations."""

    metric: str
    arm: str
    percentile: Finite
    operations: int
    needed: int


class Tails(Model):
    percentiles: list[Tail]
    undetermined: list[UndeterminedPercentile]
    curves: list[Curve] = []
    missing_curves: list[MissingCurve] = []


@dataclass(frozen=True)
class Measured:
    """The number of an arm's operations, and their percentiles: first those in `PERCENTILES`, then those in `CURVE`."""

    operations: int
    percentiles: Percentiles


class TailsSection(Section[None, Tails]):
    name, title, order = "tails", "Fast and slow operations", 25
    data = Tails

    def compute(self, run: Run, core: Core, spec: None) -> Tails | None:
        results: list[Tail | UndeterminedPercentile | Curve | MissingCurve] = []
        for name, metric in run.plan.study.metrics.items():
            if not metric.headline or metric.is_of_whole_slice or metric.unit not in NS_PER_UNIT:
                continue
            rounds = sorted({record.round for record in run.counted if record.workload == metric.workload})
            units = [run.samples.units.unit(number) for number in rounds]
            if len(set(units)) < FEWEST_ROUNDS:
                continue
            drawn = resamples(units, run.plan.seed, RESAMPLES)
            measured = {}
            for arm in run.plan.arms:
                if histograms := run.histograms(name, arm.name):
                    values, counts = counted(histograms.get(number, []) for number in rounds)
                    percentiles = bootstrap_percentiles(values, counts, drawn, (*PERCENTILES, *CURVE))
                    measured[arm.name] = Measured(int(counts.sum()), percentiles)
            for arm in run.plan.protected:
                protected, control = measured.get(arm.name), measured.get(arm.control_arm or "")
                if protected is not None and control is not None:
                    results += _tails(name, metric, arm.name, control, protected, len(set(units)))
                    results.append(_curve(name, metric, arm.name, control, protected, len(set(units))))
        tails = [each for each in results if isinstance(each, Tail)]
        return (
            Tails(
                percentiles=tails,
                undetermined=[each for each in results if isinstance(each, UndeterminedPercentile)],
                curves=[each for each in results if isinstance(each, Curve)],
                missing_curves=[each for each in results if isinstance(each, MissingCurve)],
            )
            if tails
            else None
        )

    def answer(self, index: Index, data: Tails) -> list[Sentence]:
        return sentences("detail", [_sentence(index, each) for each in worse_than_the_mean(index, data)])

    def parts(self, index: Index, data: Tails) -> list[Part]:
        return [Part("percentiles", "", [*_in_head(index, data)], order=HEAD_ORDER), *super().parts(index, data)]

    def blocks(self, index: Index, data: Tails) -> Iterator[Block]:
        figures = map(Column, (index.control_heading, "this variant", "relative"))
        columns = [Column("variant", "text"), Column("percentile", "text"), *figures]
        yield Table(columns, [*_rows(index, data)], "Percentiles of all operations", group="metric")
        yield from curve_blocks(index, data.curves)
        method = METHOD.format(unit=index.unit)
        if data.undetermined:
            method += NO_PERCENTILE.format(metrics=_named(index, data.undetermined))
        method += METHOD_OF_CURVE if data.curves else ""
        if data.missing_curves:
            method += NO_CURVE.format(metrics=_named(index, data.missing_curves))
        yield Paragraph(method, "note", media=FILES)


def _in_head(index: Index, data: Tails) -> Iterator[Block]:
    """Yield a table with p50, p95 and p99 of one arm: the first protected arm that has percentiles."""
    arm = next((each for each in index.answered if any(tail.arm == each.name for tail in data.percentiles)), None)
    if arm is None:
        return
    by_metric = {(tail.metric, tail.percentile): tail for tail in data.percentiles if tail.arm == arm.name}
    names = list(dict.fromkeys(name for name, _ in by_metric if name in index.metrics))[:MOST_IN_HEAD]
    rows: list[list[str | Text]] = []
    for name in names:
        metric = index.metrics[name]
        tails = [by_metric.get((name, percentile)) for percentile in IN_HEAD]
        values = [
            f"{fmt.number(tail.control_value)} → {fmt.number(tail.value)}" if tail else fmt.NONE for tail in tails
        ]
        rows.append([fmt.titled(_metric_label(index, metric), metric.unit), *values])
        rows.append(["", *(fmt.relative(tail.ratio) if tail else fmt.NONE for tail in tails)])
    yield Table.of(
        ["", *map(percentile_name, IN_HEAD)], rows, title=f"p50, p95 and p99: control → {arm.label}{arm.at}", media=TEXT
    )


def _tails(
    name: str, metric: Metric, arm: str, control: Measured, protected: Measured, rounds: int
) -> Iterator[Tail | UndeterminedPercentile]:
    """Yield the percentiles of the arm, and then the lowest one for which arm or control has too few operations."""
    places = range(len(PERCENTILES))
    estimates = ratios(control.percentiles.at(places), protected.percentiles.at(places), rounds)
    for place, ratio in enumerate(estimates):
        percentile, operations = PERCENTILES[place], min(control.operations, protected.operations)
        needed = operations_needed(percentile)
        if operations < needed:
            yield UndeterminedPercentile(
                metric=name, arm=arm, percentile=percentile, operations=operations, needed=needed
            )
            return
        both = (control.percentiles.measured[place], protected.percentiles.measured[place])
        before, after = (in_unit(metric, float(each), workers=1) for each in both)
        yield Tail(metric=name, arm=arm, percentile=percentile, control_value=before, value=after, ratio=ratio)


def _curve(
    name: str, metric: Metric, arm: str, control: Measured, protected: Measured, units: int
) -> Curve | MissingCurve:
    operations, needed = min(control.operations, protected.operations), operations_needed(LEAST_CURVE)
    if operations < needed:
        return MissingCurve(metric=name, arm=arm, operations=operations, needed=needed)
    on_curve = places_on_curve(operations)
    of_control, of_arm = (
        each.percentiles.at([len(PERCENTILES) + place for place in on_curve]) for each in (control, protected)
    )
    band = difference_band(of_control, of_arm, units)
    figures = (
        np.array([of_control.measured, of_arm.measured, band.values, band.low, band.high]) / NS_PER_UNIT[metric.unit]
    )
    points = [
        CurvePoint(percentile=CURVE[place], control_value=before, value=after, difference=added, low=low, high=high)
        for place, (before, after, added, low, high) in zip(on_curve, figures.T.tolist(), strict=True)
    ]
    return Curve(metric=name, arm=arm, points=points)


def worse_than_the_mean(index: Index, tails: Tails) -> list[Tail]:
    """Return the highest percentile of each metric and arm, if the arm raises it clearly more than the mean.

    'Clearly' means that the interval of the percentile's ratio (arm to control) lies above that of the mean's ratio.
    """
    highest = {(each.metric, each.arm): each for each in tails.percentiles}
    worse = []
    for tail in highest.values():
        effect = index.effect(tail.metric, tail.arm)
        mean = effect.ratio if effect else None
        if tail.percentile > PERCENTILES[0] and mean is not None and tail.ratio.low > max(mean.high, 1.0):
            worse.append(tail)
    return worse


def _sentence(index: Index, tail: Tail) -> str:
    metric = index.metrics[tail.metric]
    value, name = fmt.with_unit(fmt.number(tail.value), metric.unit), percentile_name(tail.percentile)
    return (
        f"{fmt.capital(index.subject(tail.arm))} raises the {name} of '{metric.label}' to {value} "
        f"({fmt.relative(tail.ratio)}), more than it raises the mean."
    )


def _named(index: Index, missing: Sequence[UndeterminedPercentile | MissingCurve]) -> str:
    return fmt.listed([*dict.fromkeys(index.metric_in_view(each.metric) for each in missing)])


def _rows(index: Index, data: Tails) -> Iterator[Row]:
    tails = [each for each in data.percentiles if each.metric in index.metrics]
    for name, of_metric in groupby(tails, key=lambda each: each.metric):
        metric = index.metrics[name]
        label = fmt.titled(_metric_label(index, metric), metric.unit)
        yield Row([Cell(label)], "group")
        for tail in of_metric:
            values = (Cell(fmt.number(each)) for each in (tail.control_value, tail.value))
            yield Row(
                [
                    Cell(index.label_at(tail.arm)),
                    Cell(percentile_name(tail.percentile)),
                    *values,
                    Cell.of(fmt.relative(tail.ratio)),
                ]
            )


def _metric_label(index: Index, metric: ShownMetric) -> str:
    """Return the metric's label, with its view (as 'wire: query') if some headline metric has another view."""
    return f"{metric.view}: {metric.label}" if index.many_views else metric.label


SECTION = TailsSection()
