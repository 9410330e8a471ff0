"""k6: requests and iterations a second, and their times, of the file that `--summary-export` writes.

https://grafana.com/docs/k6/latest/using-k6/metrics/reference/: times are in ms. A share has its `value` from 0 to 1.
"""

from __future__ import annotations

from costof.commands.readers import Figure, Reader, UnreadableError, json_of, known, number_at, percent_of, times

FIGURES = {
    "requests_per_second": Figure("HTTP requests a second", "per_second", "higher", headline=True),
    "latency_ms": Figure("latency of an HTTP request, connecting left out", "ms", headline=True),
    "p50_ms": Figure("median of the latency", "ms"),
    "p95_ms": Figure("95th percentile of the latency", "ms"),
    "p99_ms": Figure("99th percentile of the latency", "ms"),
    "max_ms": Figure("longest latency", "ms"),
    "connect_ms": Figure("connecting by TCP, spread over all requests", "ms"),
    "tls_ms": Figure("handshake of TLS, spread over all requests", "ms"),
    "iterations_per_second": Figure("iterations of the script a second", "per_second", "higher"),
    "iteration_ms": Figure("an iteration of the script, its pauses counted in", "ms"),
    "failed_percent": Figure("failed HTTP requests", "percent"),
    "failed_checks_percent": Figure("failed checks of the script", "percent"),
}
_HTTP = {
    "requests_per_second": ("http_reqs", "rate"),
    "latency_ms": ("http_req_duration", "avg"),
    "p50_ms": ("http_req_duration", "med"),
    "p95_ms": ("http_req_duration", "p(95)"),
    "p99_ms": ("http_req_duration", "p(99)"),
    "max_ms": ("http_req_duration", "max"),
    "connect_ms": ("http_req_connecting", "avg"),
    "tls_ms": ("http_req_tls_handshaking", "avg"),
}
_ITERATIONS = {
    "iterations_per_second": ("iterations", "rate"),
    "iteration_ms": ("iteration_duration", "avg"),
}


def read(output: str) -> dict[str, float]:
    """Times in ms. A script that speaks no HTTP gives the figures of its iterations. Raises `UnreadableError` without
    an iteration, and if no HTTP request of any was answered."""
    document = json_of(output)
    found = {name: number_at(document, "metrics", *path) for name, path in {**_HTTP, **_ITERATIONS}.items()}
    if found["iterations_per_second"] is None:
        raise UnreadableError("there is no metric 'iterations'")
    # A request that was never answered counts as one of 0 ms.
    if found["requests_per_second"] and not found["latency_ms"]:
        raise UnreadableError("no request was answered")
    passed, failed = (number_at(document, "metrics", "checks", which) for which in ("passes", "fails"))
    checks = None if passed is None or failed is None else percent_of(failed, passed + failed)
    requests = times(100, number_at(document, "metrics", "http_req_failed", "value"))
    return known({**found, "failed_percent": requests, "failed_checks_percent": checks})


READER = Reader(
    "k6",
    FIGURES,
    read,
    'run --summary-export {output}, and for the 99th percentile --summary-trend-stats "avg,med,max,p(95),p(99)"',
)
