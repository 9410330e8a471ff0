"""ab (ApacheBench): requests a second, and latency.

https://httpd.apache.org/docs/current/programs/ab.html, "Output". Its means have three digits; connecting and
percentiles it prints in whole ms.
"""

from __future__ import annotations

from costof.commands.readers import NUMBER, Figure, Reader, UnreadableError, known, numbers_in, percent_of

FIGURES = {
    "requests_per_second": Figure("requests a second", "per_second", "higher", headline=True),
    "latency_ms": Figure("latency of a request", "ms", headline=True),
    "p50_ms": Figure("median of the latency, in whole ms", "ms"),
    "p95_ms": Figure("95th percentile of the latency, in whole ms", "ms"),
    "p99_ms": Figure("99th percentile of the latency, in whole ms", "ms"),
    "max_ms": Figure("longest latency, in whole ms", "ms"),
    "connect_ms": Figure("connecting, TLS counted in, in whole ms", "ms"),
    "failed_percent": Figure("failed requests, or answers of another length than the first", "percent"),
    "non_2xx_percent": Figure("answers with a status other than 2xx", "percent"),
}
_LINES = {
    "requests_per_second": rf"^Requests per second: +{NUMBER} ",
    # The first of two lines; the other is the inverse of the rate, "across all concurrent requests".
    "latency_ms": rf"^Time per request: +{NUMBER} \[ms\] \(mean\)",
    "p50_ms": rf"^ +50% +{NUMBER}",
    "p95_ms": rf"^ +95% +{NUMBER}",
    "p99_ms": rf"^ +99% +{NUMBER}",
    "max_ms": rf"^ +100% +{NUMBER} \(longest",
    "connect_ms": rf"^Connect: +\d+ +{NUMBER}",
}
_COUNTS = {
    "complete": rf"^Complete requests: +{NUMBER}",
    "failed": rf"^Failed requests: +{NUMBER}",
    "non_2xx": rf"^Non-2xx responses: +{NUMBER}",
}


def read(output: str) -> dict[str, float]:
    """Times in ms. Raises `UnreadableError` without a rate, and if no request was completed."""
    counts = numbers_in(output, _COUNTS)
    found = numbers_in(output, _LINES)
    if "requests_per_second" not in found:
        raise UnreadableError("there is no line 'Requests per second: …'")
    if not counts.get("complete"):
        raise UnreadableError("no request was completed")
    shares = {
        "failed_percent": percent_of(counts.get("failed"), counts["complete"]),
        # A line that is there only if there are some.
        "non_2xx_percent": percent_of(counts.get("non_2xx", 0.0), counts["complete"]),
    }
    return known({**found, **shares})


READER = Reader("ab", FIGURES, read, "as it is; -l where answers differ in length, which it takes for failures")
