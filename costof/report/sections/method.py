"""Method: how the figures were made, from this run's own settings; its arms, metrics and environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from costof import format as fmt
from costof.report.blocks import FILES, HTML, Block, Bullets, Cell, Table
from costof.report.sections import Section
from costof.results.index import Index
from costof.results.models import Metric


class MethodSection(Section[None, None]):
    name, title, order = "method", "Method and environment", 160

    def blocks(self, index: Index, data: None) -> Iterator[Block]:
        yield Bullets(_method(index), media=FILES)
        arms = [
            [arm.name, arm.label, "; ".join(f"{each.name}: {each.level}" for each in arm.factors)]
            for arm in index.core.arms
        ]
        yield Table.of(["arm", "label", "factors"], arms, title="Arms", texts=(0, 1, 2), media=HTML)
        metrics = map(_metric, index.core.metrics)
        yield Table.of(["metric", "what it is"], metrics, title="Metrics", texts=(0, 1), media=HTML)
        if facts := [*_flat(index.core.environment)]:
            yield Table.of(["what", "value"], facts, title="Environment", texts=(0, 1), media=FILES)


def _method(index: Index) -> list[str]:
    core = index.core
    lines = [
        f"Each round holds one slice of every workload on each of {fmt.plural(len(core.arms), 'arm')}, so that drift "
        f"of a shared machine hits all arms alike. Orders are random (seed {core.seed}) and balanced: each arm follows "
        "each other one equally often.",
        f"An effect is the mean of the {index.unit}s' paired differences (relative effects: of log ratios); its 95 % "
        f"interval is taken over {index.unit}s, not over single operations, with variances that the arms of a metric "
        "lend each other.",
        "Verdicts are corrected for the number of effects that are judged (headline effects by Holm, the others by "
        "Benjamini and Hochberg); the printed intervals are not. So a verdict can be “unresolved” although its "
        "interval just leaves out zero.",
        "“No difference above x %” means that an equivalence test succeeded on both sides, “no cost above x %” on one; "
        "“unresolved” means that this run cannot tell.",
    ]
    if core.starts:
        lines.append(
            f"The servers were started anew for each of {index.extent}, with their data and whatever asks them. What a "
            "start draws, such as where memory lies, lasts for all its rounds. So one number a start goes into each "
            "figure: the mean of its rounds."
        )
    if shortened := [f"{name} {fmt.share(round(share, 2))}" for name, share in core.slice_shares.items() if share < 1]:
        lines.append(
            "After the warm-up slices were as short as their start-up and the noise of their operations allowed, for "
            f"more rounds. Of its planned length each had: {', '.join(shortened)}."
        )
    if (told := core.host_start_spread) is not None:
        lines.append(
            f"Hosts began each slice together: their first operations within {fmt.milliseconds(told.median_ms)} of "
            f"each other in the median of {fmt.plural(told.slices, 'slice')}, {fmt.milliseconds(told.p99_ms)} in 99 %, "
            f"{fmt.milliseconds(told.max_ms)} at most; their clocks were known to within "
            f"{fmt.milliseconds(told.clock_error_ms)}. A slice that a host began late was taken once more; where that "
            "was late too, or not all hosts measured in 95 % of it, it is in no figure."
        )
    if core.resolved_early and core.budget_seconds:
        lines.append(
            f"The run ended before its budget of {fmt.duration(core.budget_seconds)} was spent, since every headline "
            "effect had a verdict. To measure on for narrower intervals, ask for a --precision."
        )
    elif core.target_precision is not None:
        lines.append(
            f"The run was to end once every headline effect was known to within {fmt.share(core.target_precision)}, or "
            "once its budget was spent."
        )
    if core.requested_rounds is not None:
        whole = "Each start" if core.starts else "The run"
        lines.append(f"{whole} was to end after exactly {fmt.plural(core.requested_rounds, 'round')}, however precise.")
    return lines


def _metric(metric: Metric) -> list[str | Cell]:
    worth = f"{fmt.capital(metric.better)} is better; a cost below {fmt.share(metric.margin)} counts as none."
    return [Cell(fmt.titled(metric.label, metric.unit), code=metric.name), f"{metric.description} {worth}"]


def _flat(facts: Mapping[str, Any], prefix: str = "") -> Iterator[list[str]]:
    """Return nested facts as ('machine cpu', '…') rows, in their own order."""
    for key, value in facts.items():
        name = f"{prefix} {key}".strip().replace("_", " ")
        if isinstance(value, Mapping):
            yield from _flat(value, name)
        else:
            yield [name, _said(value)]


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_said(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(map(_said, value)) or "none"
    return "not known" if value is None else str(value)


SECTION = MethodSection()
