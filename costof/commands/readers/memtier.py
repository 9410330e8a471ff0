"""memtier_benchmark: operations a second and latency, of its `--json-out-file`.

https://github.com/RedisLabs/memtier_benchmark, run_stats.cpp: times are in ms. With several runs (-x) the averages of
all are read. An answer of the server that is an error it counts as any other; only lost connections are told.
"""

from __future__ import annotations

from typing import Any

from costof.commands.readers import Figure, Reader, UnreadableError, json_of, known, number_at

FIGURES = {
    "ops_per_second": Figure("operations a second", "per_second", "higher", headline=True),
    "latency_ms": Figure("latency of an operation", "ms", headline=True),
    "p50_ms": Figure("median of the latency", "ms"),
    "p99_ms": Figure("99th percentile of the latency", "ms"),
    "p999_ms": Figure("99.9th percentile of the latency", "ms"),
    "max_ms": Figure("longest latency", "ms"),
    "sets_per_second": Figure("SETs a second", "per_second", "higher"),
    "set_latency_ms": Figure("latency of a SET", "ms"),
    "set_p99_ms": Figure("99th percentile of a SET", "ms"),
    "gets_per_second": Figure("GETs a second", "per_second", "higher"),
    "get_latency_ms": Figure("latency of a GET", "ms"),
    "get_p99_ms": Figure("99th percentile of a GET", "ms"),
    "failed": Figure("connections that failed", "errors"),
}
_TOTALS = {
    "ops_per_second": ("Ops/sec",),
    "p50_ms": ("Percentile Latencies", "p50.00"),
    "p99_ms": ("Percentile Latencies", "p99.00"),
    "p999_ms": ("Percentile Latencies", "p99.90"),
    "max_ms": ("Max Latency",),
    "failed": ("Connection Errors",),
}


def read(output: str) -> dict[str, float]:
    """Times in ms. Raises `UnreadableError` without totals, and if there was no operation."""
    stats = _stats(json_of(output))
    totals = {name: number_at(stats, "Totals", *path) for name, path in _TOTALS.items()}
    if totals["ops_per_second"] is None:
        raise UnreadableError("there are no 'Totals' of 'ALL STATS'")
    if not totals["ops_per_second"]:
        raise UnreadableError("there was no operation")
    if not totals["max_ms"]:
        # Of several runs it averages no histogram of the totals, and writes what it says of an empty one.
        totals = {name: figure for name, figure in totals.items() if not name.endswith("_ms")}
    return known(
        {**totals, "latency_ms": _mean(stats), **_command(stats, "Sets", "set"), **_command(stats, "Gets", "get")}
    )


def _stats(document: Any) -> dict[str, Any]:
    """Of all runs together: their averages come after the best and the worst."""
    sections = document if isinstance(document, dict) else {}
    averages = [section for name, section in sections.items() if name.startswith("AGGREGATED AVERAGE RESULTS")]
    stats = averages[0] if averages else sections.get("ALL STATS")
    return stats if isinstance(stats, dict) else {}


def _command(stats: dict[str, Any], section: str, name: str) -> dict[str, float | None]:
    """Empty if there was none of this command: its latencies are zeros then."""
    if not number_at(stats, section, "Ops/sec"):
        return {}
    return {
        f"{name}s_per_second": number_at(stats, section, "Ops/sec"),
        f"{name}_latency_ms": _latency(stats, section),
        f"{name}_p99_ms": number_at(stats, section, "Percentile Latencies", "p99.00"),
    }


def _mean(stats: dict[str, Any]) -> float | None:
    """That of the totals, which some versions write as 0.000 though they print it right; then that of all commands."""
    total = _latency(stats, "Totals")
    if total:
        return total
    commands = [name for name in stats if name != "Totals" and number_at(stats, name, "Count")]
    weighted = [(number_at(stats, name, "Count") or 0.0, _latency(stats, name) or 0.0) for name in commands]
    operations = sum(count for count, _ in weighted)
    return sum(count * latency for count, latency in weighted) / operations if operations else None


def _latency(stats: dict[str, Any], section: str) -> float | None:
    """Older versions have the second name alone."""
    found = number_at(stats, section, "Average Latency")
    return number_at(stats, section, "Latency") if found is None else found


READER = Reader("memtier_benchmark", FIGURES, read, "with --json-out-file {output}")
