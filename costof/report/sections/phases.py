"""The section 'Why': the phases of a new connection, and how much of an application's added time is on the wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field

from costof import format as fmt
from costof.model import Model
from costof.report.blocks import FILES, HTML, Block, Bullets, Cell, Column, Figure, Row, Table
from costof.report.canvas import NARROW, Legend, Panel, Scale, Sheet
from costof.report.sections import Section, sentences
from costof.results.index import Context, Index
from costof.results.models import Arm, Core, Metric, Sentence, Value
from costof.results.run import Run
from costof.statistics.estimate import Estimate, Verdict
from costof.statistics.intervals import FEWEST_ROUNDS, differences, estimate, share_of_whole

COLOURS = {
    "tcp": "tcp",
    "greeting": "greeting",
    # This phase has the colour of `greeting`, because no protocol has both phases.
    "tls_request": "greeting",
    "tls": "tls",
    "hello": "hello",
    "auth": "auth",
    "first_operation": "first",
}
"""Colours of a connection's phases, in the order they happen.

The phase `resolve` (name resolution) has no colour, because a lab has no such phase.
"""
LIGHT_INK = {"tls", "auth"}
"""Phases with a dark colour, so that the text in their bars is light."""
BAR = 0.46
FEW_BARS = 3
"""A picture with at most this many bars has room for two lines of text in each phase of a bar."""
HOW_TO_READ = (
    "Each bar is one connection from its first packet to its first answer. Its parts are the mean times of the phases, "
    "one after the other, with the round trips that each of them waits for."
)


class Explanation(Model):
    """Two metrics to compare: the time of an operation in an application, and the operation's time on the wire."""

    application: str
    wire: str
    client: str = Field(description="The application's driver, such as 'pymongo'.")


class Explained(Explanation):
    """The time that an arm adds in an application, the time that it adds on the wire, and the ratio of the two."""

    arm: str
    added: Estimate
    on_the_wire: Estimate
    share: Estimate | None = Field(
        description="Time added on the wire divided by time added in the application, paired by round. None if its "
        "interval has no bounds."
    )


class PhasesSection(Section[list[Explanation], list[Explained]]):
    name, title, order = "phases", "Why", 70
    spec, data = list[Explanation], list[Explained]
    default: ClassVar[list[Explanation]] = []

    def metrics(self, spec: list[Explanation]) -> list[str]:
        return [name for each in spec for name in (each.application, each.wire)]

    def compute(self, run: Run, core: Core, spec: list[Explanation]) -> list[Explained]:
        """Return the comparison for each arm that adds time in the application."""
        explained = [
            _explained(run, each, effect.arm)
            for each in spec
            for effect in core.effects
            if (effect.metric, effect.verdict) == (each.application, Verdict.COSTS)
        ]
        return [each for each in explained if each is not None]

    def answer(self, index: Index, data: list[Explained]) -> list[Sentence]:
        texts = [_sentence(index, arm, each) for arm in index.answered for each in data if each.arm == arm.name]
        return sentences("explanation", texts)

    def blocks(self, index: Index, data: list[Explained]) -> Iterator[Block]:
        if lines := [sentence.text for sentence in index.sentences("explanation")]:
            yield Bullets(lines, label="Why", loose=True)
        metrics = _phases(index)
        if figure := _figure(index, metrics):
            yield figure
        for context in index.contexts:
            if context.shown_arms and any(_values(index, metrics, arm) for arm in context.shown_arms):
                yield _table(index, metrics, context)


def _explained(run: Run, explanation: Explanation, name: str) -> Explained | None:
    """Return the times that the arm adds in the application and on the wire; None if too few rounds have both."""
    arms = (run.plan.arm(name).control_arm or "", name)
    pairs = [(metric, arm) for metric in (explanation.application, explanation.wire) for arm in arms]
    numbers = run.common_values(*pairs, fewest=FEWEST_ROUNDS)
    if numbers is None:
        return None
    added, on_the_wire = differences(*numbers[:2]), differences(*numbers[2:])
    return Explained(
        **dict(explanation),
        arm=name,
        added=estimate(added),
        on_the_wire=estimate(on_the_wire),
        share=share_of_whole(on_the_wire, added),
    )


def _sentence(index: Index, arm: Arm, each: Explained) -> str:
    """Return sentences on the added time in the application and on the wire, and on the client's added CPU time."""
    metric, subject = index.metrics[each.application], index.subject(arm.name)
    added = fmt.absolute(each.added, metric.unit).value
    share = (
        f": {fmt.percentage(each.share)} of the {added} with {each.client}"
        if each.share
        else f". Its share of the {added} with {each.client} is unresolved"
    )
    text = (
        f"{fmt.capital(subject)} adds {added} to '{metric.label}' with {each.client}. Without {each.client}, "
        f"{arm.label} adds {fmt.absolute(each.on_the_wire, metric.unit).value} to "
        f"'{index.metric_label(each.wire)}'{share}"
    )
    cpu = _extra_client_cpu_ms(index, metric.workload, arm)
    opened = _connections_per_client(arm)
    if cpu is not None and cpu > 0:
        text += f". With {arm.label}, the CPU time of {each.client} rises by {fmt.number(cpu)} ms for each new "
        if opened is None or round(opened, 1) == 1:
            text += "connection"
        else:
            text += f"client, which opens {fmt.count(opened)} connections to the server"
    return text + "."


def _extra_client_cpu_ms(index: Index, workload: str, arm: Arm) -> float | None:
    """Return the CPU milliseconds that the arm adds to the client for each operation; None if a reading is missing."""
    control = arm.control_arm or next(other.name for other in index.core.arms if other.control)
    used = {cpu.arm: cpu.seconds_per_1000.get("client") for cpu in index.core.cpu if cpu.workload == workload}
    value, base = used.get(arm.name), used.get(control)
    # Seconds for 1,000 operations are milliseconds for each operation.
    return value - base if value is not None and base is not None else None


def _connections_per_client(arm: Arm) -> float | None:
    for evidence in arm.evidence:
        clients = int(evidence.facts.get("clients", "0"))
        counted = evidence.facts.get("connections counted by the server")
        if clients and counted:
            return int(counted) / clients
    return None


def _phases(index: Index) -> list[Metric]:
    """Return the metrics of a new connection's phases, in the order in which the phases happen.

    If both the wire and the application have such metrics, return the metrics of the view that has more of them. Return
    [] if no view has at least two.
    """
    order, best = list(COLOURS), list[Metric]()
    for view in dict.fromkeys(metric.view for metric in index.core.metrics):
        phases = [metric for metric in index.core.metrics if metric.view == view and metric.phase in COLOURS]
        phases.sort(key=lambda metric: order.index(metric.phase or ""))
        best = phases if len(phases) > len(best) else best
    return best if len(best) > 1 else []


def _values(index: Index, metrics: list[Metric], arm: Arm) -> list[tuple[Metric, Value]]:
    values = [(metric, index.value(metric.name, arm.name)) for metric in metrics]
    return [(metric, value) for metric, value in values if value is not None and value.mean.value > 0]


def _table(index: Index, metrics: list[Metric], context: Context) -> Table:
    rows = []
    for metric in metrics:
        counted = []
        for arm in context.shown_arms:
            for _, value in _values(index, [metric], arm):
                trips = fmt.count(value.round_trips) if value.round_trips is not None else fmt.NONE
                transferred = fmt.sent_and_received(value.bytes_sent, value.bytes_received)
                counted.append(
                    Row([Cell(arm.label), Cell.of(fmt.absolute(value.mean)), Cell(trips), Cell(transferred)])
                )
        rows += [Row([Cell(metric.label)], "group"), *counted] if counted else []
    columns = [Column("variant", "text"), *map(Column, (metrics[0].unit, "round trips", "bytes sent / received"))]
    title = f"Phases of a new connection{context.suffix}"
    return Table(columns, rows, title, group="phase", media=FILES)


def _figure(index: Index, metrics: list[Metric]) -> Figure | None:
    timed = [metric for metric in metrics if any(_values(index, [metric], arm) for arm in index.shown_arms)]
    shown = [
        (context.title, arms)
        for context in index.contexts
        if (arms := [arm for arm in context.shown_arms if _values(index, timed, arm)])
    ]
    if not timed or not shown:
        return None
    caption = [line for title, arms in shown for line in _caption(index, timed, arms, title)]
    legend = [Legend(COLOURS[metric.phase or ""], metric.label) for metric in timed]

    few = len(shown) == 1 and len(shown[0][1]) <= FEW_BARS

    def draw(width: int) -> Sheet:
        # Each context has its own time axis: times on a LAN would be invisible on an axis for other continents.
        sizes = [54 + 78 * len(arms) if few else (54 if len(shown) == 1 else 68) + 46 * len(arms) for _, arms in shown]
        panels = [_panel(index, timed, arms, title, width, two_lines=few) for title, arms in shown]
        return Sheet(width, panels, sizes)

    title = "A new connection, phase by phase"
    return Figure("phases", title, caption, draw, legend, HOW_TO_READ, rank=2, media=HTML)


def _in_round_trips(values: list[tuple[Metric, Value]], before: str) -> str:
    counted = [value.round_trips for _, value in values if value.round_trips is not None]
    return f"{before}{fmt.round_trips(sum(counted))}" if counted else ""


def _caption(index: Index, metrics: list[Metric], arms: list[Arm], title: str) -> Iterator[str]:
    times: dict[str, dict[str, float]] = {}
    for arm in arms:
        values = _values(index, metrics, arm)
        times[arm.name] = {metric.name: value.mean.value for metric, value in values}
        place = f"{title}, " if title else ""
        total = fmt.with_unit(fmt.number(sum(times[arm.name].values())), metrics[0].unit)
        yield f"{place}{arm.label}: {total}{_in_round_trips(values, ' in ')}."
    first = times[arms[0].name]
    for arm in arms[1:] if arms[0].control else []:
        added = {metric: times[arm.name].get(metric.name, 0.0) - first.get(metric.name, 0.0) for metric in metrics}
        most = max(added, key=lambda metric: abs(added[metric]))
        change = fmt.with_unit(fmt.number(added[most], signed=True), most.unit)
        whole = fmt.with_unit(fmt.number(sum(added.values()), signed=True), most.unit)
        yield f"The largest difference with {arm.protection} is in {most.label}: {change} of {whole} in total."


def _panel(index: Index, metrics: list[Metric], arms: list[Arm], title: str, width: int, *, two_lines: bool) -> Panel:
    longest = max(sum(value.mean.value for _, value in _values(index, metrics, arm)) for arm in arms)
    panel = Panel(
        title=title,
        x=Scale(0, longest * 1.01),
        y=Scale(len(arms) - 1 + BAR / 2 + 0.12, -BAR / 2 - 0.42),
        x_label=f"{metrics[0].unit} from the start of the connection",
    )
    for row, arm in enumerate(arms):
        _bar(panel, index, metrics, arm, row, longest, width, two_lines=two_lines)
    return panel


def _bar(
    panel: Panel, index: Index, metrics: list[Metric], arm: Arm, row: int, longest: float, width: int, *,
    two_lines: bool,
) -> None:  # fmt: skip
    start, values = 0.0, _values(index, metrics, arm)
    for metric, value in values:
        size, phase = value.mean.value, metric.phase or ""
        panel.box(start, start + size, row, BAR, COLOURS[phase], edge="paper")
        ink = "paper" if phase in LIGHT_INK else "ink"
        lines = _inside(metric, value, size / longest * width * 0.94, two_lines=two_lines)
        for number, text in enumerate(lines):
            up = 7 * (len(lines) - 1) - 14 * number
            panel.word(start + size / 2, row, text, up=up, size=10.5, colour=ink, anchor="middle")
        start += size
    counted = _in_round_trips(values, "  ·  ") if width > NARROW else ""
    total = fmt.with_unit(fmt.number(start), metrics[0].unit)
    panel.word(0, row - BAR / 2, f"{arm.label}  ·  {total}{counted}", up=11, size=11.5, bold=True)


def _inside(metric: Metric, value: Value, pixels: float, *, two_lines: bool) -> list[str]:
    """Return the lines of text in a phase's part of a bar. `pixels` is the width of this part.

    A wide part has two lines, the time and the round trips. A narrower part has only the time, or no text.
    """
    time = fmt.absolute(value.mean, metric.unit).value
    if two_lines and value.round_trips is not None and pixels > 86:
        return [time, fmt.round_trips(value.round_trips)]
    return next(([text] for text in (time, time.split(fmt.NBSP)[0]) if pixels > 7.2 * len(text)), [])


SECTION = PhasesSection()
