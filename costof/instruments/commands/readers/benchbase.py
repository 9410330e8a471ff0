"""BenchBase: requests a second, and latency, from the `*.summary.json` in its folder of results.

Tested with commit d2ff90f (https://github.com/cmu-db/benchbase, ResultWriter.writeSummary). Times are in us. The figure
`goodput_per_second` is BenchBase's goodput: the number of committed transactions a second, including transactions
outside the measured time.
"""

from __future__ import annotations

from costof.instruments.commands.readers import Figure, Reader, Report, UnreadableError, rate


def _latency(label: str, name: str, headline: bool = False) -> Figure:
    place = ("Latency Distribution", f"{name} Latency (microseconds)")
    return Figure(label, "ms", headline=headline, at=place, printed_unit="us")


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
    """Return the report. Raises `UnreadableError` if nothing was measured, or if BenchBase ended with an error."""
    if document.get("Final State") == "ERROR":
        raise UnreadableError("it ended in the state ERROR")
    if not figures.get("requests_per_second"):
        raise UnreadableError("no request was measured")
    return Report.build(figures)


READER = Reader(
    "BenchBase",
    FIGURES,
    _report,
    "-d and an empty folder, and then print its summary: sh -c '… -d FOLDER >&2 && cat FOLDER/*.summary.json'",
    keys=("Throughput (requests/second)",),
    silent_on_failures="BenchBase's summary counts no failed transactions.",
)
