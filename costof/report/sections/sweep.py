"""Sweep: the cost of each arm at each level of one factor, such as the number of terminals."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from costof import format as fmt
from costof.format import Text
from costof.model import Model
from costof.report.blocks import FILES, MARKDOWN, Block, Cell, Heading, Paragraph, Table
from costof.report.sections import Section
from costof.results.index import Index
from costof.results.models import Arm, Core, Metric
from costof.results.run import Run
from costof.study.schema import PublishedFigure

PUBLISHED = "published (loss)"


class Spec(Model):
    """The metric that the tables of a study show, and the factor whose levels are the rows of the tables."""

    metric: str
    factor: str = Field(description="A context whose levels are numbers, such as the number of terminals.")


class Swept(Model):
    """One table of the section: its title, and the arms of its rows in the order of their levels."""

    title: str
    arms: list[str]


class Sweep(Model):
    metric: str
    factor: str
    label: str
    tables: list[Swept]


class SweepSection(Section[Spec, Sweep]):
    name, title, order = "sweep", "Costs by level", 12
    spec, data = Spec, Sweep

    def metrics(self, spec: Spec) -> list[str]:
        return [spec.metric]

    def compute(self, run: Run, core: Core, spec: Spec) -> Sweep:
        factors = run.plan.study.factors
        arms = [arm for arm in core.arms if arm.control_arm and not arm.replicate]
        contexts = [name for name, factor in factors.items() if factor.context and name != spec.factor]
        varied = [name for name in contexts if len({arm.levels.get(name) for arm in arms}) > 1]
        label, metric = factors[spec.factor].label, run.plan.study.metrics[spec.metric].label
        groups: dict[str, list[Arm]] = {}
        for arm in sorted(arms, key=lambda arm: float(arm.levels[spec.factor])):
            title = ", ".join([arm.label, *(f"{factors[name].label} {arm.levels.get(name, '')}" for name in varied)])
            groups.setdefault(f"{title}: {metric}, by number of {label}", []).append(arm)
        order = list(dict.fromkeys(arm.label for arm in arms))
        tables = [Swept(title=title, arms=[arm.name for arm in group]) for title, group in groups.items()]
        tables.sort(key=lambda table: order.index(groups[table.title][0].label))
        return Sweep(metric=spec.metric, factor=spec.factor, label=label, tables=tables)

    def blocks(self, index: Index, data: Sweep) -> Iterator[Block]:
        tables = []
        for table in data.tables:
            arms = [arm for name in table.arms if (arm := index.arm(name))]
            if rows := [row for arm in arms if (row := _row(index, data, arm))]:
                tables.append((table.title, index.label(arms[0].control_arm or ""), arms[0].label, rows))
        published = index.core.published
        change = "loss" if index.metrics[data.metric].better == "higher" else "change"
        for title, control, arm_label, rows in tables:
            head = [data.label, f"control: {control}", arm_label, change, PUBLISHED]
            if all(row[-1] == fmt.NONE for row in rows):
                head, rows = head[:-1], [row[:-1] for row in rows]
            yield Table.of(head, rows, title=title)
        if tables and published:
            yield Heading("Published figures", media=MARKDOWN)
            yield Paragraph(published.cited, "note", media=FILES)


def _row(index: Index, data: Sweep, arm: Arm) -> list[str | Text | Cell]:
    effect, metric = index.effect(data.metric, arm.name), index.metrics[data.metric]
    values = [index.value(data.metric, name) for name in (arm.control_arm or "", arm.name)]
    means = [fmt.absolute(value.mean) for value in values if value]
    if effect is None or len(means) < len(values):
        return []
    change = Text(fmt.NONE)
    if effect.printed_ratio is not None:
        change = fmt.loss(effect.printed_ratio) if metric.better == "higher" else fmt.relative(effect.printed_ratio)
    published = next(iter(index.core.published_for(data.metric, arm)), None)
    return [arm.levels[data.factor], *means, change, _published(published, metric)]


def _published(figure: PublishedFigure | None, metric: Metric) -> str:
    """Return the published figures of control and arm with the loss, such as '260.55 → 237.64 (8.79 %)'."""
    if figure is None or not figure.control_value or not figure.value:
        return fmt.NONE
    more = figure.value / figure.control_value - 1
    loss = fmt.number((-more if metric.better == "higher" else more) * 100, 2)
    change = f"{fmt.number(figure.control_value, 2)} → {fmt.number(figure.value, 2)}"
    return f"{change} ({fmt.with_unit(loss, '%')})"


SECTION = SweepSection()
