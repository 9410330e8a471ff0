"""Split: which part of a protection's cost comes from additional programs, and which part from the protection itself.

The run measures a third arm, which has the additional programs without the protection, such as two proxies that do not
encrypt. It lies between the control and the protected arm: the first step of the cost is from the control to this arm,
and the second step from this arm to the protected arm. Both differences are paired by round, and the second step's
share of the cost has Fieller's interval. Percentiles cover all operations, and their intervals come from a bootstrap
over rounds (`statistics/tails.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from pydantic import Field

from costof import format as fmt
from costof.model import Finite, Model
from costof.report.blocks import FILES, Block, Cell, Column, Details, Paragraph, Part, Row, Table
from costof.report.sections import Section, sentences
from costof.results.index import Index, Lead
from costof.results.metrics import NS_PER_UNIT
from costof.results.models import Core, Sentence
from costof.results.run import Run
from costof.statistics.estimate import Estimate
from costof.statistics.histogram import counted
from costof.statistics.intervals import (
    FEWEST_ROUNDS,
    bootstrap_shares,
    difference,
    differences,
    resamples,
    share_of_whole,
)
from costof.statistics.tails import RESAMPLES, Percentiles, bootstrap_percentiles, operations_needed
from costof.study.arms import PlannedArm

#: Position of the section's blocks in the report: after the costs.
PLACE = 23
MEAN = "mean"
PERCENTILES = {"p50": 50.0, "p99": 99.0}
METHOD = (
    "The cost of the first step is the figure of '{between}' minus that of '{control}'. The cost of the second step is "
    "the figure of the protected variant minus that of '{between}'. Both costs are computed round by round. The share "
    "of the second step is its cost divided by the cost of both steps, with its 95 % "
    "interval (Fieller). Percentiles are computed over all operations, and intervals of their differences by a "
    "bootstrap over rounds."
)


class Spec(Model):
    """An entry of `[[sections.split]]` of a study: two steps of a protection's cost, and the metrics to split."""

    protected: str = Field(description="Level of the main factor with the protection.")
    between: str = Field(
        description="Level of the main factor with the first step alone, such as proxies that do not encrypt."
    )
    first: str = Field(description="Words for the first step, such as 'the way through the proxies'.")
    second: str = Field(description="Words for the second step, such as 'the encryption'.")
    metrics: list[str] = Field(description="The metrics to split. The answer has a sentence about the first one.")


class Figure(Model):
    """A metric's mean or percentile on the control, and how much the first and the second step add to it."""

    metric: str
    figure: str = Field(description="'mean', 'p50' or 'p99'.")
    unit: str
    control_value: Finite
    first: Estimate
    second: Estimate
    both: Estimate
    share: Estimate | None = Field(
        description="The cost of the second step divided by that of both. None for percentiles, and if the share has "
        "no bounded interval."
    )


class Split(Model):
    """The cost of the arm `protected`, split into the step from `control` to `between` and the step to `protected`."""

    protected: str
    between: str
    control: str
    context: str
    first: str
    second: str
    figures: list[Figure]


class SplitSection(Section[list[Spec], list[Split]]):
    # The short answer shows one reason for the costs, from the first section that gives a reason. The negative order
    # puts this section before the cost model, so that the reason is this section's.
    name, title, order = "split", "Where the cost comes from", -1
    spec, data = list[Spec], list[Split]

    def metrics(self, spec: list[Spec]) -> list[str]:
        return [name for each in spec for name in each.metrics]

    def compute(self, run: Run, core: Core, spec: list[Spec]) -> list[Split] | None:
        splits = []
        for each in spec:
            for arm in run.plan.protected:
                if arm.levels[run.plan.study.main_factor] != each.protected or arm.control_arm is None:
                    continue
                between = _arm_between(run, each, arm)
                figures = _figures(run, each, [run.plan.arm(arm.control_arm), between, arm]) if between else []
                if between is not None and figures:
                    splits.append(
                        Split(
                            protected=arm.name,
                            between=between.name,
                            control=arm.control_arm,
                            context=arm.context,
                            first=each.first,
                            second=each.second,
                            figures=figures,
                        )
                    )
        return splits or None

    def lead(self, index: Index, data: list[Split]) -> Lead:
        """Exclude the arms `between` from the top of the report, because they are not protections.

        These arms have only the additional programs, such as two proxies. If the cost of the run's first arm is split,
        the main sentences are about this arm alone.
        """
        reference = data[0].protected if _is_first(index, data[0]) else None
        return Lead(reference=reference, without=frozenset(each.between for each in data))

    def answer(self, index: Index, data: list[Split]) -> list[Sentence]:
        texts = [text for each in data if each.context == data[0].context and (text := _sentence(index, each))]
        return [*sentences("why", texts[:1] if _is_first(index, data[0]) else []), *sentences("detail", texts)]

    def parts(self, index: Index, data: list[Split]) -> list[Part]:
        return [Part(self.name, self.title, [*self.blocks(index, data)], order=PLACE)]

    def blocks(self, index: Index, data: list[Split]) -> Iterator[Block]:
        for each in data:
            if each.context == index.nearest.name:
                yield _table(index, each)
        others: list[Block] = [_table(index, each) for each in data if each.context != index.nearest.name]
        if others:
            yield Details("At other distances", others, media=FILES)
        words = METHOD.format(between=index.label(data[0].between), control=index.control_label)
        yield Paragraph(words, "note", media=FILES)


def _is_first(index: Index, split: Split) -> bool:
    return bool(index.arms) and index.arms[0].name == split.protected


def _arm_between(run: Run, spec: Spec, arm: PlannedArm) -> PlannedArm | None:
    """Return the arm that has the additional programs of `arm` without its protection; None if there is none.

    It has the same context (such as a distance) and, except for the main factor, the same levels as `arm`.
    """
    main = run.plan.study.main_factor
    for other in run.plan.protected:
        same = all(arm.levels.get(name) == level for name, level in other.levels.items() if name != main)
        if other.context == arm.context and other.levels[main] == spec.between and same:
            return other
    return None


def _figures(run: Run, spec: Spec, arms: Sequence[PlannedArm]) -> list[Figure]:
    figures = []
    for name in spec.metrics:
        numbers = run.common_values(*((name, arm.name) for arm in arms), fewest=FEWEST_ROUNDS)
        if numbers is None:
            continue
        control, between, protected = numbers
        figures.append(
            Figure(
                metric=name,
                figure=MEAN,
                unit=run.plan.study.metrics[name].unit,
                control_value=sum(control) / len(control),
                first=difference(control, between),
                second=difference(between, protected),
                both=difference(control, protected),
                share=share_of_whole(differences(between, protected), differences(control, protected)),
            )
        )
        figures += _percentiles(run, name, arms)
    return figures


def _percentiles(run: Run, name: str, arms: Sequence[PlannedArm]) -> list[Figure]:
    """Return the split of each percentile of a latency for which every arm has enough operations."""
    metric = run.plan.study.metrics[name]
    rounds = sorted({record.round for record in run.counted if record.workload == metric.workload})
    units = [run.samples.units.unit(number) for number in rounds]
    if metric.is_of_whole_slice or metric.unit not in NS_PER_UNIT or len(set(units)) < FEWEST_ROUNDS:
        return []
    drawn, found, operations = resamples(units, run.plan.seed, RESAMPLES), [], []
    for arm in arms:
        values, counts = counted(run.histograms(name, arm.name).get(number, []) for number in rounds)
        found.append(bootstrap_percentiles(values, counts, drawn, [*PERCENTILES.values()]))
        operations.append(int(counts.sum()))
    control, between, protected = found
    steps = ((control, between), (between, protected), (control, protected))
    first, second, both = (_differences(*step, len(set(units)), NS_PER_UNIT[metric.unit]) for step in steps)
    return [
        Figure(
            metric=name,
            figure=figure,
            unit=metric.unit,
            control_value=float(control.measured[place]) / NS_PER_UNIT[metric.unit],
            first=first[place],
            second=second[place],
            both=both[place],
            share=None,
        )
        for place, (figure, percentile) in enumerate(PERCENTILES.items())
        if min(operations) >= operations_needed(percentile)
    ]


def _differences(before: Percentiles, after: Percentiles, rounds: int, ns_per_unit: float) -> list[Estimate]:
    measured = (after.measured - before.measured) / ns_per_unit
    low, high = np.quantile((after.resampled - before.resampled) / ns_per_unit, bootstrap_shares(rounds), axis=0)
    return [
        Estimate(value=float(value), low=min(float(a), float(value)), high=max(float(b), float(value)), rounds=rounds)
        for value, a, b in zip(measured, low, high, strict=True)
    ]


def _sentence(index: Index, split: Split) -> str | None:
    """Return the sentence that splits the cost of an arm; None if its cost is not resolved.

    For example: "Of the 0.35 ms that mutual TLS adds to 'request', the way through the proxies takes 0.31 ms and
    the encryption 0.04 ms."
    """
    figure = next((each for each in split.figures if each.figure == MEAN), None)
    if figure is None or figure.both.low <= 0:
        return None
    whole, first = (fmt.absolute(each, figure.unit) for each in (figure.both, figure.first))
    resolved = figure.second.low > 0
    second = fmt.absolute(figure.second, figure.unit) if resolved else fmt.at_most(figure.second, figure.unit)
    return (
        f"Of the {whole} that {index.label_at(split.protected)} adds to '{index.metric_label(figure.metric)}', "
        f"{split.first} takes {first} and {split.second} {'' if resolved else 'at most '}{second}."
    )


def _table(index: Index, split: Split) -> Table:
    rows: list[Row] = []
    for each in split.figures:
        if each.figure == MEAN:
            rows.append(Row([Cell(fmt.titled(index.metric_label(each.metric), each.unit))], "group"))
        control = fmt.number(each.control_value, fmt.significant_decimals(each.control_value))
        steps = (Cell.of(fmt.absolute(step, signed=True)) for step in (each.both, each.first, each.second))
        share = Cell.of(fmt.percentage(each.share)) if each.share else Cell("")
        rows.append(Row([Cell(each.figure), Cell(control), *steps, share]))
    columns = [
        Column("figure", "text"),
        *map(Column, (index.control_heading, "added", split.first, split.second, f"share of {split.second}")),
    ]
    return Table(columns, rows, f"{fmt.capital(index.label_at(split.protected))}: what each step adds", group="metric")


SECTION = SplitSection()
