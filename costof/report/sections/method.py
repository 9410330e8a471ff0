"""Method: how the figures were measured and computed, and the run's arms, metrics and environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from costof import format as fmt
from costof.report.blocks import FILES, HTML, Block, Bullets, Cell, Table
from costof.report.sections import Section
from costof.results.index import Index
from costof.results.models import Metric
from costof.study.schema import FAR


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
        yield Table.of(
            ["metric", "in result.json", "description"], metrics, title="Metrics", texts=(0, 1, 2), media=HTML
        )
        if facts := [*_flat(index.core.environment)]:
            yield Table.of(["fact", "value"], facts, title="Environment", texts=(0, 1), media=FILES)


def _method(index: Index) -> list[str]:
    core = index.core
    lines = [
        f"Each round measures every workload on each of {fmt.plural(len(core.arms), 'variant')} (arms) for a short "
        f"time, called a slice. Drift of the machine therefore affects all variants alike. The order is random (seed "
        f"{core.seed}) and balanced: each variant follows every other variant equally often.",
        f"An effect is the mean over {index.unit}s of the difference between variant and control. A relative effect is "
        f"the geometric mean over {index.unit}s of the ratio of variant to control. The 95 % interval is computed from "
        f"the {index.unit}s, not from single operations. The variance of an effect is estimated from its "
        "own values and from those of the other variants in the same metric.",
        "Main effects are the effects in the study's most important metrics. Verdicts are corrected for multiple "
        "testing: main effects by Holm, the others by Benjamini and Hochberg. The printed intervals are not "
        "corrected. So an effect can be “unresolved” although its interval just excludes zero.",
        "“No difference above x %” means that the effect is between −x % and +x %, by an equivalence test. “No cost "
        "above x %” means that the cost is below x %. “Unresolved” means that this run cannot tell whether the "
        "effect is a cost, a saving, or smaller than x %.",
    ]
    if core.starts:
        lines.append(
            f"The servers were restarted with new data and new clients for {index.extent}. Random properties of a "
            "start, such as its memory layout, affect all its rounds alike. Each figure uses one number for each "
            "start: the mean of the start's rounds."
        )
    if shortened := [
        f"Each window of the workload {_workload(index, name)} took {fmt.share(round(share, 2))} of the planned time."
        for name, share in core.slice_shares.items()
        if share < 1
    ]:
        lines.append(
            "After the warm-up, the measured windows were shortened, so that more rounds fit into the budget. "
            f"{' '.join(shortened)}"
        )
    if (starts := core.host_start_spread) is not None:
        lines.append(
            f"Hosts started each slice together. The hosts' first operations were within "
            f"{fmt.milliseconds(starts.median_ms)} of each other (median of {fmt.plural(starts.slices, 'slice')}; p99 "
            f"{fmt.milliseconds(starts.p99_ms)}, maximum {fmt.milliseconds(starts.max_ms)}), with a clock error of at "
            f"most {fmt.milliseconds(starts.clock_error_ms)}. A slice with a late host was measured again. The "
            "slice was discarded if a host was late again, or if the hosts measured together for less than 95 % of it."
        )
    if core.resolved_early and core.budget_seconds:
        lines.append(
            f"The run ended before its budget of {fmt.duration(core.budget_seconds)} because every main effect had "
            "a verdict. A run with --precision measures longer, until its intervals are narrow enough."
        )
    elif core.target_precision is not None:
        length = f" of {fmt.duration(core.budget_seconds)}" if core.budget_seconds else ""
        lines.append(
            f"The run was set to end when every main effect was known to within "
            f"{fmt.share(core.target_precision)}, or at the end of its budget{length}. If a run ends because its "
            "intervals are narrow enough (--precision), the intervals contain the true cost in at least 93 of 100 such "
            "runs."
        )
    if core.requested_rounds is not None:
        whole = "Each start" if core.starts else "The run"
        lines.append(f"{whole} was set to end after exactly {fmt.plural(core.requested_rounds, 'round')}.")
    if core.continued:
        lines.append(
            "The run was continued after its end (--resume), when its verdicts were known. Because of that, "
            f"verdicts are stricter and intervals of costs are {fmt.number(core.widening, 2)} times as wide as those "
            "of a run that ends once. These wider intervals contain the true cost in at least 93 of 100 such runs."
        )
    return lines


def _workload(index: Index, slice_name: str) -> str:
    """Return the workload of a slice in quotes, such as “queries on 8 connections”."""
    name = slice_name.removesuffix(FAR)
    return f"“{index.workload_label(name)}”" + (" (for distant clients)" if name != slice_name else "")


def _metric(metric: Metric) -> list[str | Cell]:
    worth = f"{fmt.capital(metric.better)} is better; a cost below {fmt.share(metric.margin)} counts as none."
    return [fmt.titled(metric.label, metric.unit), Cell("", code=metric.name), f"{metric.description} {worth}"]


def _flat(facts: Mapping[str, Any], prefix: str = "") -> Iterator[list[str]]:
    """Yield a row of name and value for each fact. The name of a nested fact begins with its parent's name."""
    for key, value in facts.items():
        name = f"{prefix} {key}".strip().replace("_", " ")
        if isinstance(value, Mapping):
            yield from _flat(value, name)
        else:
            yield [name, _fact_text(value)]


def _fact_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_fact_text(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(map(_fact_text, value)) or "none"
    return "not known" if value is None else str(value)


SECTION = MethodSection()
