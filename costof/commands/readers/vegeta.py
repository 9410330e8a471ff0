"""vegeta: latency at a rate, and answers a second, of `vegeta report -type=json`.

vegeta 12.13.0 was run (https://github.com/tsenart/vegeta, lib/metrics.go): times are in ns; `throughput` is of
successful requests, `rate` of those that were sent, as the attack demands.

Failed are requests without an answer, and statuses below 200 and above 399.
"""

from __future__ import annotations

from costof.commands.readers import Figure, Reader, Report, UnreadableError, number_at, rate

FIGURES = {
    "latency_ms": Figure("latency of a request", "ms", headline=True, at=("latencies", "mean"), given="ns"),
    "requests_per_second": rate("successful requests a second", ("throughput",), headline=True),
    "sent_per_second": rate("requests sent a second", ("rate",)),
    "p50_ms": Figure("median of the latency", "ms", at=("latencies", "50th"), given="ns"),
    "p95_ms": Figure("95th percentile of the latency", "ms", at=("latencies", "95th"), given="ns"),
    "p99_ms": Figure("99th percentile of the latency", "ms", at=("latencies", "99th"), given="ns"),
    "max_ms": Figure("longest latency", "ms", at=("latencies", "max"), given="ns"),
    "failed_percent": Figure("failed requests", "percent"),
}


def _report(document: dict[str, object], figures: dict[str, float]) -> Report:
    """Raises `UnreadableError` without latencies, and if no request succeeded."""
    success, requests = number_at(document, ("success",)), number_at(document, ("requests",))
    if success is None or "latency_ms" not in figures:
        raise UnreadableError("there are no 'latencies' and 'success'")
    if not success:
        raise UnreadableError("no request succeeded")
    return Report.build(figures, requests, None if requests is None else float(round(requests * (1 - success))))


READER = Reader(
    "vegeta",
    FIGURES,
    _report,
    "a report as JSON: sh -c 'vegeta attack … | vegeta report -type=json'",
    keys=("latencies",),
)
