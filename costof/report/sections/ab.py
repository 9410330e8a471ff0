"""Figures as ab (ApacheBench) prints them, for every arm, beside the effects that this run measured."""

from __future__ import annotations

from collections.abc import Iterator

from costof import format as fmt
from costof.format import Text
from costof.report.blocks import FILES, Block, Details, Table
from costof.report.sections import Section
from costof.results.ab_figures import PERCENTILES, PHASES, AbFigures, ab_figures
from costof.results.index import Index
from costof.results.models import Core, Effect
from costof.results.run import Run

NOTE = (
    "The figures in this section cover all requests of the run and are counted as ab counts them: a request on an open "
    "connection has a connect time of 0. ab prints no intervals; costof adds the effect, with its interval."
)
RATES = ["variant", "requests /s", "ms a request", "across all", "KB/s", "failed", "effect on requests /s"]
TIMES = ["ms", "min", "mean", "sd", "median", "max", "difference of means", "relative"]
Cells = list[str | Text]


class AbSection(Section[None, list[AbFigures]]):
    name, title, order = "ab", "Figures as ab prints them", 60
    data = list[AbFigures]

    def compute(self, run: Run, core: Core, spec: None) -> list[AbFigures] | None:
        # ab prints connection times, which workloads without new connections do not have.
        workloads = [
            name
            for name, each in run.plan.study.workloads.items()
            if each.kind == "request" and not each.keep_connections
        ]
        figures = [
            ab_figures(
                arm.name,
                work,
                run.plan.workers(work, arm),
                [record.answer for record in run.counted_slices(work, arm.name)],
            )
            for work in workloads
            for arm in run.plan.arms
            if not arm.replicate
        ]
        return [each for each in figures if each is not None] or None

    def blocks(self, index: Index, data: list[AbFigures]) -> Iterator[Block]:
        rates: list[Cells] = []
        for each in data:
            effect = _effect(index, each, "slice")
            figures = [each.requests_per_second, each.ms_per_request, each.ms_across_all, each.kbytes_per_second]
            relative = fmt.relative(effect.printed_ratio) if effect and effect.printed_ratio else fmt.NONE
            rates.append([index.label_at(each.arm), *map(_number, figures), f"{sum(each.failed.values()):,}", relative])
        yield Table.of(RATES, rates, title="The table that ab prints")
        times = [
            [index.label_at(each.arm), *(f"{_ms(each.times[n].mean)} ±{_ms(each.times[n].sd)}" for n in PHASES)]
            for each in data
        ]
        yield Table.of(["mean ±sd, ms", *map(fmt.capital, PHASES)], times)
        names = [str(percent) for percent in PERCENTILES]
        served = [[index.label_at(each.arm), *(_ms(each.percentiles[name]) for name in names)] for each in data]
        yield Table.of(["served within, ms", *(fmt.with_unit(name, "%") for name in names)], served, note=NOTE)
        for each in data:
            title = index.label_at(each.arm)
            head = ["", "value", "difference from the control"]
            lines = [_time(index, each, name) for name in PHASES]
            tables = [
                Table.of(head, _figures(index, each), title=title),
                Table.of(TIMES, lines, title=f"{title}: connection times"),
            ]
            yield Details(title, [*tables], media=FILES)


def _figures(index: Index, each: AbFigures) -> Iterator[list[str]]:
    effect, difference = _effect(index, each, "slice"), fmt.NONE
    if effect:
        difference = str(fmt.absolute(effect.difference, effect.unit, signed=True))
        difference += f", {fmt.relative(effect.printed_ratio)}" if effect.printed_ratio else ""
    yield ["Concurrency level", f"{each.concurrency:,}", ""]
    yield ["Time taken for tests", fmt.with_unit(fmt.number(each.seconds), "s"), ""]
    yield ["Complete requests", f"{each.complete:,}", ""]
    yield ["Failed requests", f"{sum(each.failed.values()):,}", ""]
    if each.not_2xx:
        yield ["Non-2xx responses", f"{each.not_2xx:,}", ""]
    yield ["Keep-alive requests", f"{each.keep_alive:,}", ""]
    yield ["Total transferred", fmt.bytes_text(each.transferred_bytes), ""]
    yield ["HTML transferred", fmt.bytes_text(each.html_bytes), ""]
    yield ["Requests per second", _number(each.requests_per_second), difference]
    yield ["Time per request, mean", fmt.with_unit(_number(each.ms_per_request), "ms"), ""]
    yield ["Time per request, across all", fmt.with_unit(_number(each.ms_across_all), "ms"), ""]
    yield ["Transfer rate", fmt.with_unit(_number(each.kbytes_per_second), "KB/s"), ""]


def _time(index: Index, each: AbFigures, name: str) -> Cells:
    line, effect = each.times[name], _effect(index, each, PHASES[name])
    figures = [_ms(figure) for figure in (line.min, line.mean, line.sd, line.median, line.max)]
    # Show no effect on the connect time if connections were kept open. For requests on an open connection, ab counts a
    # connect time of 0 ms, but the study's metric covers only new connections.
    if effect is None or (name == "connect" and each.keep_alive):
        return [fmt.capital(name), *figures, fmt.NONE, fmt.NONE]
    relative = fmt.relative(effect.printed_ratio) if effect.printed_ratio else fmt.NONE
    return [fmt.capital(name), *figures, fmt.absolute(effect.difference, "ms", signed=True), relative]


def _effect(index: Index, figures: AbFigures, phase: str) -> Effect | None:
    figure = (figures.workload, phase, "per_second" if phase == "slice" else "ms")
    metrics = (each.name for each in index.core.metrics if (each.workload, each.phase, each.unit) == figure)
    metric = next(metrics, None)
    return index.effect(metric, figures.arm) if metric else None


def _number(value: float) -> str:
    return fmt.number(value, min(3, fmt.significant_decimals(value, 4)))


def _ms(value: float) -> str:
    return fmt.number(value, min(2, fmt.significant_decimals(value)))


SECTION = AbSection()
