"""vegeta: latency at a rate, and answers a second, of `vegeta report -type=json`.

https://github.com/tsenart/vegeta, lib/metrics.go: times are in ns; `throughput` is of successful requests (a status
from 200 to 399), `rate` of those that were sent, which is what the attack was told.
"""

from __future__ import annotations

from costof.commands.readers import Figure, Reader, UnreadableError, json_of, known, number_at, over

FIGURES = {
    "latency_ms": Figure("latency of a request", "ms", headline=True),
    "requests_per_second": Figure("successful requests a second", "per_second", "higher", headline=True),
    "sent_per_second": Figure("requests sent a second", "per_second", "higher"),
    "p50_ms": Figure("median of the latency", "ms"),
    "p95_ms": Figure("95th percentile of the latency", "ms"),
    "p99_ms": Figure("99th percentile of the latency", "ms"),
    "max_ms": Figure("longest latency", "ms"),
    "failed_percent": Figure("failed requests", "percent"),
}
_NANOSECONDS = {"latency_ms": "mean", "p50_ms": "50th", "p95_ms": "95th", "p99_ms": "99th", "max_ms": "max"}


def read(output: str) -> dict[str, float]:
    """Times in ms. Raises `UnreadableError` without latencies, and if no request succeeded."""
    document = json_of(output)
    success = number_at(document, "success")
    found = {name: over(1e6, number_at(document, "latencies", key)) for name, key in _NANOSECONDS.items()}
    if success is None or found["latency_ms"] is None:
        raise UnreadableError("there are no 'latencies' and 'success'")
    if not success:
        raise UnreadableError("no request succeeded")
    return known(
        {
            **found,
            "requests_per_second": number_at(document, "throughput"),
            "sent_per_second": number_at(document, "rate"),
            "failed_percent": 100 - 100 * success,
        }
    )


READER = Reader("vegeta", FIGURES, read, "sh -c 'vegeta attack … | vegeta report -type=json'")
