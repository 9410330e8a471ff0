"""BenchBase: requests a second, and latency, of the `*.summary.json` that it writes into its folder of results.

https://github.com/cmu-db/benchbase, ResultWriter.writeSummary: times are in us. No failed transaction is counted there;
`goodput` is of those that committed, also outside the time that was measured.
"""

from __future__ import annotations

from costof.commands.readers import Figure, Reader, UnreadableError, json_of, known, number_at, over

FIGURES = {
    "requests_per_second": Figure("requests a second", "per_second", "higher", headline=True),
    "goodput_per_second": Figure("committed requests a second", "per_second", "higher"),
    "latency_ms": Figure("latency of a request", "ms", headline=True),
    "p50_ms": Figure("median of the latency", "ms"),
    "p95_ms": Figure("95th percentile of the latency", "ms"),
    "p99_ms": Figure("99th percentile of the latency", "ms"),
    "max_ms": Figure("longest latency", "ms"),
}
_MICROSECONDS = {
    "latency_ms": "Average Latency (microseconds)",
    "p50_ms": "Median Latency (microseconds)",
    "p95_ms": "95th Percentile Latency (microseconds)",
    "p99_ms": "99th Percentile Latency (microseconds)",
    "max_ms": "Maximum Latency (microseconds)",
}


def read(output: str) -> dict[str, float]:
    """Times in ms. Raises `UnreadableError` without a throughput, if nothing was measured, and after an error."""
    document = json_of(output)
    rate = number_at(document, "Throughput (requests/second)")
    if rate is None:
        raise UnreadableError("there is no 'Throughput (requests/second)'")
    if document.get("Final State") == "ERROR":
        raise UnreadableError("it ended in the state ERROR")
    if not rate:
        raise UnreadableError("no request was measured")
    latencies = {
        name: over(1000, number_at(document, "Latency Distribution", key)) for name, key in _MICROSECONDS.items()
    }
    goodput = number_at(document, "Goodput (requests/second)")
    return known({"requests_per_second": rate, "goodput_per_second": goodput, **latencies})


READER = Reader(
    "BenchBase",
    FIGURES,
    read,
    "with -d FOLDER, an empty one, and then its summary: sh -c '… -d FOLDER >&2 && cat FOLDER/*.summary.json'",
)
