"""memtier_benchmark: operations a second and latency, from its `--json-out-file`.

Tested with memtier 1.2.17, 1.4.0, 2.3.0, and the commits 2f74d61 and 378cbb9 (after 2.3.1). According to memtier's
source code (https://github.com/redis/memtier_benchmark, run_stats.cpp), 1.2.9 and later write the same format. Times
are in ms. The mean latency over all commands is computed from the mean of each command, because memtier 2.3.0 truncates
the overall mean to whole ms. If memtier made several runs (-x), the reader uses the averages over all runs.

Failed operations are lost connections, which 2.3.0 and later count. The count is too low if memtier restarts a thread,
since the new thread counts from 0.
"""

from __future__ import annotations

from costof.instruments.commands.readers import Figure, Reader, Report, UnreadableError, figures_at, number_at, rate

_TAIL = "Percentile Latencies"
FIGURES = {
    "ops_per_second": rate("operations a second", ("Totals", "Ops/sec"), headline=True),
    "latency_ms": Figure("latency of an operation", "ms", headline=True),
    "p50_ms": Figure("median of the latency", "ms", at=("Totals", _TAIL, "p50.00")),
    "p99_ms": Figure("99th percentile of the latency", "ms", at=("Totals", _TAIL, "p99.00")),
    "p999_ms": Figure("99.9th percentile of the latency", "ms", at=("Totals", _TAIL, "p99.90")),
    "max_ms": Figure("longest latency", "ms", at=("Totals", "Max Latency")),
    "sets_per_second": rate("SETs a second", ("Sets", "Ops/sec")),
    "set_latency_ms": Figure("latency of a SET", "ms", at=("Sets", "Latency")),
    "set_p99_ms": Figure("99th percentile of a SET", "ms", at=("Sets", _TAIL, "p99.00")),
    "gets_per_second": rate("GETs a second", ("Gets", "Ops/sec")),
    "get_latency_ms": Figure("latency of a GET", "ms", at=("Gets", "Latency")),
    "get_p99_ms": Figure("99th percentile of a GET", "ms", at=("Gets", _TAIL, "p99.00")),
    "failed_percent": Figure("lost connections, relative to operations", "percent"),
}


def _report(document: dict[str, object], _: dict[str, float]) -> Report:
    """Return the report. Raises `UnreadableError` if there are no totals or no operations."""
    averages = [section for name, section in document.items() if name.startswith("AGGREGATED AVERAGE RESULTS")]
    section = averages[0] if averages else document.get("ALL STATS")
    stats = section if isinstance(section, dict) else {}
    rates = {name: number_at(stats, (name, "Ops/sec")) for name in stats}
    total = rates.pop("Totals", None)
    if total is None:
        raise UnreadableError("there are no 'Totals' of 'ALL STATS'")
    if not total:
        # memtier measures durations by the wall clock. If the clock is set back during the run, the duration is
        # negative and the rate is 0.
        backwards = (number_at(stats, ("Runtime", "Total duration")) or 0.0) < 0
        raise UnreadableError("the machine's clock was set back" if backwards else "there was no operation")
    # Leave out commands that were not sent, because their figures are zeros or garbage. After several runs (-x) also
    # leave out the latencies in "Totals": memtier does not average their histograms, and "Max Latency" is 0.
    empty = {name for name in stats if 0 in (rates.get(name), number_at(stats, (name, "Max Latency")))}
    figures = {n: value for n, value in figures_at(stats, FIGURES).items() if str(FIGURES[n].at[0]) not in empty}
    means = [(weight, number_at(stats, (name, "Latency"))) for name, weight in rates.items() if weight]
    weights = sum(weight for weight, _ in means)
    if all(mean is not None for _, mean in means) and abs(weights - total) <= 0.01 * total:
        figures["latency_ms"] = sum(weight * (mean or 0.0) for weight, mean in means) / weights
    missing = {"latency_ms": "memtier wrote several commands under one name"}
    lost, operations = (number_at(stats, ("Totals", key)) for key in ("Connection Errors", "Count"))
    operations = None if operations is None else operations + (lost or 0.0)
    return Report.build({**figures, "ops_per_second": total}, operations, lost, missing)


READER = Reader(
    "memtier_benchmark",
    FIGURES,
    _report,
    "--json-out-file {output}",
    keys=("ALL STATS", "run information"),
    silent_on_failures="memtier_benchmark counts errors as answers, and loses its count of failures in new threads.",
)
