"""memtier_benchmark: operations a second and latency, of its `--json-out-file`.

memtier at 2f74d61 (after 2.2.0) was run; 1.2.9 and later by source (https://github.com/redis/memtier_benchmark). Times
are in ms. Versions to 2.3.0 cut the mean of all commands to whole ms: it is worked out of the means of each command.
With several runs (-x) the averages of all are read.

Failed are lost connections, which versions from 2.2 on count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from costof.commands.readers import Figure, Reader, Report, UnreadableError, figures_at, number_at, rate

_TAIL = "Percentile Latencies"
FIGURES = {
    "ops_per_second": rate("operations a second", ("Totals", "Ops/sec"), headline=True),
    "latency_ms": Figure("latency of an operation", "ms", headline=True),
    "p50_ms": Figure("median of the latency", "ms", at=("Totals", _TAIL, "p50.00")),
    "p99_ms": Figure("99th percentile of the latency", "ms", at=("Totals", _TAIL, "p99.00")),
    "p999_ms": Figure("99.9th percentile of the latency", "ms", at=("Totals", _TAIL, "p99.90")),
    "max_ms": Figure("longest latency", "ms", at=("Totals", "Max Latency")),
    "sets_per_second": rate("SETs a second", ("Sets", "Ops/sec")),
    "set_latency_ms": Figure("latency of a SET", "ms"),
    "set_p99_ms": Figure("99th percentile of a SET", "ms", at=("Sets", _TAIL, "p99.00")),
    "gets_per_second": rate("GETs a second", ("Gets", "Ops/sec")),
    "get_latency_ms": Figure("latency of a GET", "ms"),
    "get_p99_ms": Figure("99th percentile of a GET", "ms", at=("Gets", _TAIL, "p99.00")),
    "failed_percent": Figure("lost connections, of all operations", "percent"),
}


def _report(document: dict[str, Any], _: dict[str, float]) -> Report:
    """Raises `UnreadableError` without totals, and if there was no operation."""
    averages = [section for name, section in document.items() if name.startswith("AGGREGATED AVERAGE RESULTS")]
    stats: Any = averages[0] if averages else document.get("ALL STATS")
    rates = {name: number_at(stats, (name, "Ops/sec")) for name in stats} if isinstance(stats, dict) else {}
    total = rates.pop("Totals", None)
    if total is None:
        raise UnreadableError("there are no 'Totals' of 'ALL STATS'")
    if not total:
        raise UnreadableError("there was no operation")
    # Commands that were not sent have zeros or worse, as have the totals of several runs: no histogram is averaged.
    empty = {name for name in stats if 0 in (rates.get(name), number_at(stats, (name, "Max Latency")))}
    figures = {n: value for n, value in figures_at(stats, FIGURES).items() if str(FIGURES[n].at[0]) not in empty}
    sent = {name: often for name, often in rates.items() if often}
    known = abs(sum(sent.values()) - total) <= 0.01 * total
    means = {
        "set_latency_ms": _mean(stats, {name: sent[name] for name in sent if name == "Sets"}),
        "get_latency_ms": _mean(stats, {name: sent[name] for name in sent if name == "Gets"}),
        "latency_ms": _mean(stats, sent) if known else None,
    }
    missing = {"latency_ms": "memtier wrote several commands by one name"}
    lost, operations = (number_at(stats, ("Totals", key)) for key in ("Connection Errors", "Count"))
    operations = None if operations is None else operations + (lost or 0.0)
    return Report.build({**figures, "ops_per_second": total, **means}, operations, lost, missing)


def _mean(stats: dict[str, Any], rates: Mapping[str, float]) -> float | None:
    """Return the mean latency of commands by their rates, if each has one. Older versions have the second name."""
    weighted = 0.0
    for name, often in rates.items():
        mean = number_at(stats, (name, "Average Latency"))
        mean = number_at(stats, (name, "Latency")) if mean is None else mean
        weighted += math.nan if mean is None else mean * often
    return weighted / sum(rates.values()) if rates else None


READER = Reader(
    "memtier_benchmark",
    FIGURES,
    _report,
    "--json-out-file {output}",
    keys=("ALL STATS", "run information"),
    silent_on_failures="memtier_benchmark counts an answer that is an error as any other.",
)
