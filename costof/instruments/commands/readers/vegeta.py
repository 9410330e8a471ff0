"""vegeta: latency at a fixed request rate, and successful requests a second, from `vegeta report -type=json`.

Tested with vegeta 12.13.0. According to vegeta's source code (https://github.com/tsenart/vegeta, lib/metrics.go), 6.0.0
and later write the same format. Times are in ns. The field `rate` is the number of all requests a second. The field
`throughput` is the number of successful requests a second. Versions before 12.6 do not write it, so the reader computes
it.

A request counts as failed if it got no answer, or a status below 200 or above 399.
"""

from __future__ import annotations

from costof.instruments.commands.readers import Figure, Reader, Report, UnreadableError, number_at, rate

FIGURES = {
    "latency_ms": Figure("latency of a request", "ms", headline=True, at=("latencies", "mean"), printed_unit="ns"),
    "requests_per_second": rate("successful requests a second", ("throughput",), headline=True),
    "sent_per_second": rate("requests sent a second", ("rate",)),
    "p50_ms": Figure("median of the latency", "ms", at=("latencies", "50th"), printed_unit="ns"),
    "p95_ms": Figure("95th percentile of the latency", "ms", at=("latencies", "95th"), printed_unit="ns"),
    "p99_ms": Figure("99th percentile of the latency", "ms", at=("latencies", "99th"), printed_unit="ns"),
    "max_ms": Figure("longest latency", "ms", at=("latencies", "max"), printed_unit="ns"),
    "failed_percent": Figure("failed requests", "percent"),
}


def _report(document: dict[str, object], figures: dict[str, float]) -> Report:
    """Return the report. Raises `UnreadableError` if there are no latencies, or if no request was answered."""
    success, requests = number_at(document, ("success",)), number_at(document, ("requests",)) or 0.0
    if success is None or "latency_ms" not in figures:
        raise UnreadableError("there are no 'latencies' and 'success'")
    statuses = document.get("status_codes")
    # vegeta reports an unanswered request with status 0.
    if not success and isinstance(statuses, dict) and statuses.keys() <= {"0"}:
        raise UnreadableError("no request was answered")
    ns = sum(number_at(document, (key,)) or 0.0 for key in ("duration", "wait"))
    if "requests_per_second" not in figures and requests and ns > 0:
        figures["requests_per_second"] = requests * success / (ns / 1e9)
    return Report.build(figures, requests, round(requests * (1 - success)))


READER = Reader(
    "vegeta",
    FIGURES,
    _report,
    "a JSON report: sh -c 'vegeta attack … | vegeta report -type=json'",
    keys=("latencies",),
)
