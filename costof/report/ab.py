"""The table that people know: ab's figures of every arm, and beside them what this run says of their difference."""

from __future__ import annotations

from collections.abc import Iterator

from costof.analysis.ab import PERCENTILES, PHASES
from costof.analysis.result import AbFigures, Cell, Effect, Metric, Table
from costof.document import format as fmt
from costof.report.reading import Reading

NOTE = (
    "Counted as ab counts, over all requests of the run: one on a connection that stood has a connect of 0. These are "
    "point figures; the effects beside them are this run's, with their intervals."
)
NAMES = {"connect": "Connect", "processing": "Processing", "waiting": "Waiting", "total": "Total"}


def summary(reading: Reading) -> list[Table]:
    """All arms in three tables: rates, connection times, percentiles."""
    if not reading.result.ab:
        return []
    return [_rates(reading), _times(reading), _percentiles(reading)]


def of_arm(reading: Reading, figures: AbFigures) -> list[Table]:
    """One arm as ab prints it: its figures and its connection times."""
    arm = reading.arm(figures.arm)
    title = f"{arm.label}{arm.at} ({arm.name})" if arm else figures.arm
    head = ["", "as ab counts", "against the control"]
    times = ["ms", "min", "mean", "sd", "median", "max", "mean against the control", ""]
    rows = [[_cell(each) for each in row] for row in _figure_rows(reading, figures)]
    lines = [[_cell(each) for each in row] for row in _time_rows(reading, figures)]
    return [
        Table(name=f"ab-figures@{figures.arm}", title=title, columns=head, rows=rows),
        Table(name=f"ab-times@{figures.arm}", title=f"{title}: connection times", columns=times, rows=lines),
    ]


def _cell(text: str) -> Cell:
    return Cell(text=text)


def _rates(reading: Reading) -> Table:
    rows = []
    for each in reading.result.ab:
        effect = _effect(reading, each, "slice")
        against = Cell(text=fmt.NONE)
        if effect and effect.ratio:
            against = Cell(text=str(fmt.relative(effect.ratio)))
        cells = [each.arm, _number(each.requests_per_second), _number(each.ms_per_request)]
        rates = [_number(each.ms_across_all), _number(each.kbytes_per_second), f"{sum(each.failed.values()):,}"]
        rows.append([*map(_cell, cells), *map(_cell, rates), against])
    head = [
        "as ab counts",
        "requests /s",
        "ms a request",
        "across all",
        "KB/s",
        "failed",
        "effect on requests /s",
    ]
    return Table(name="ab", title="The table that ab prints", columns=head, rows=rows)


def _times(reading: Reading) -> Table:
    rows = [
        [_cell(each.arm), *(_cell(f"{_ms(each.times[name].mean)} ±{_ms(each.times[name].sd)}") for name in PHASES)]
        for each in reading.result.ab
    ]
    return Table(name="ab-times", title="", columns=["mean ±sd, ms", *(NAMES[n] for n in PHASES)], rows=rows)


def _percentiles(reading: Reading) -> Table:
    names = [str(percent) for percent in PERCENTILES]
    rows = [[_cell(each.arm), *(_cell(_ms(each.percentiles[name])) for name in names)] for each in reading.result.ab]
    head = ["served within, ms", *(fmt.with_unit(name, "%") for name in names)]
    return Table(name="ab-percentiles", title="", columns=head, rows=rows, note=NOTE)


def _figure_rows(reading: Reading, each: AbFigures) -> Iterator[list[str]]:
    effect = _effect(reading, each, "slice")
    against = fmt.NONE
    if effect:
        against = str(fmt.absolute(effect.difference, effect.unit, signed=True))
        against += f", {fmt.relative(effect.ratio)}" if effect.ratio else ""
    plain = [
        ("Concurrency level", f"{each.concurrency:,}"),
        ("Time taken for tests", fmt.with_unit(fmt.number(each.seconds), "s")),
        ("Complete requests", f"{each.complete:,}"),
        ("Failed requests", f"{sum(each.failed.values()):,}"),
        *([("Non-2xx responses", f"{each.not_2xx:,}")] if each.not_2xx else []),
        ("Keep-alive requests", f"{each.keep_alive:,}"),
        ("Total transferred", fmt.bytes_text(each.transferred_bytes)),
        ("HTML transferred", fmt.bytes_text(each.html_bytes)),
    ]
    yield from ([name, value, ""] for name, value in plain)
    yield ["Requests per second", _number(each.requests_per_second), against]
    yield ["Time per request, mean", fmt.with_unit(_number(each.ms_per_request), "ms"), ""]
    yield ["Time per request, across all", fmt.with_unit(_number(each.ms_across_all), "ms"), ""]
    yield ["Transfer rate", fmt.with_unit(_number(each.kbytes_per_second), "KB/s"), ""]


def _time_rows(reading: Reading, each: AbFigures) -> Iterator[list[str]]:
    for name, phase in PHASES.items():
        line, effect = each.times[name], _effect(reading, each, phase)
        figures = [_ms(figure) for figure in (line.min, line.mean, line.sd, line.median, line.max)]
        if effect is None or (name == "connect" and _reuses(each)):
            yield [NAMES[name], *figures, fmt.NONE, fmt.NONE]
            continue
        relative = str(fmt.relative(effect.ratio)) if effect.ratio else fmt.NONE
        yield [NAMES[name], *figures, str(fmt.absolute(effect.difference, "ms", signed=True)), relative]


def _reuses(each: AbFigures) -> bool:
    """Then ab's Connect is a mean over requests that opened none too, and the metric's is not."""
    return each.keep_alive > 0


def _effect(reading: Reading, figures: AbFigures, phase: str) -> Effect | None:
    """The effect of the metric that is this figure."""
    metric = next((each for each in reading.result.metrics if _is(each, figures, phase)), None)
    return reading.effect(metric.name, figures.arm) if metric else None


def _is(metric: Metric, figures: AbFigures, phase: str) -> bool:
    unit = "per_second" if phase == "slice" else "ms"
    return (metric.workload, metric.phase, metric.unit) == (figures.workload, phase, unit)


def _number(value: float) -> str:
    return fmt.number(value, min(3, fmt.significant_decimals(value, 4)))


def _ms(value: float) -> str:
    return fmt.number(value, min(2, fmt.significant_decimals(value)))
