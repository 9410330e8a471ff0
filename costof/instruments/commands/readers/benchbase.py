"""BenchBase: requests a second, and latency, of the `*.summary.json` that it writes into its folder of results.

BenchBase at d2ff90f was run (https://github.com/cmu-db/benchbase, ResultWriter.writeSummary): times are in us.
`goodput` is of transactions that committed, also outside the time that was measured.
"""

from __future__ import annotations

from costof.instruments.commands.readers import Figure, Reader, Report, UnreadableError, rate


def _latency(label: str, name: str, headline: bool = False) -> Figure:
    place = ("Latency Distribution", f"{name} Latency (microseconds)")
    return Figure(label, "ms", headline=headline, at=place, given="us")


FIGURES = {
    "requests_per_second": rate("requests a second", ("Throughput (requests/second)",), headline=True),
    "goodput_per_second": rate("committed requests a second", ("Goodput (requests/second)",)),
    "latency_ms": _latency("latency of a request", "Average", headline=True),
    "p50_ms": _latency("median of the latency", "Median"),
    "p95_ms": _latency("95th percentile of the latency", "95th Percentile"),
    "p99_ms": _latency("99th percentile of the latency", "99th Percentile"),
    "max_ms": _latency("longest latency", "Maximum"),
}


def _report(document: dict[str, object], figures: dict[str, float]) -> Report:
    """Raises `UnreadableError` if nothing was measured, and after an error."""
    if document.get("Final State") == "ERROR":
        raise UnreadableError("it ended in the state ERROR")
    if not figures.get("requests_per_second"):
        raise UnreadableError("no request was measured")
    return Report.build(figures)


READER = Reader(
    "BenchBase",
    FIGURES,
    _report,
    "-d FOLDER, an empty one, and then its summary: sh -c '… -d FOLDER >&2 && cat FOLDER/*.summary.json'",
    keys=("Throughput (requests/second)",),
    silent_on_failures="BenchBase's summary counts no failed transactions.",
)
