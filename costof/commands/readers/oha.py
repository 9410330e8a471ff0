"""oha: requests a second, and latency, of its JSON.

https://github.com/hatoo/oha, schema.json: times are in seconds. Its `successRate` is of requests that had an answer,
whatever its status.
"""

from __future__ import annotations

from typing import Any

from costof.commands.readers import (
    Figure,
    Reader,
    UnreadableError,
    json_of,
    known,
    number,
    number_at,
    percent_of,
    times,
)

FIGURES = {
    "requests_per_second": Figure("requests a second", "per_second", "higher", headline=True),
    "latency_ms": Figure("latency of a request", "ms", headline=True),
    "p50_ms": Figure("median of the latency", "ms"),
    "p95_ms": Figure("95th percentile of the latency", "ms"),
    "p99_ms": Figure("99th percentile of the latency", "ms"),
    "max_ms": Figure("longest latency", "ms"),
    "connect_ms": Figure("resolving and connecting, of a new connection", "ms"),
    "failed_percent": Figure("requests without an answer, or with a status of 400 and above", "percent"),
}
_SECONDS = {
    "latency_ms": ("summary", "average"),
    "p50_ms": ("latencyPercentiles", "p50"),
    "p95_ms": ("latencyPercentiles", "p95"),
    "p99_ms": ("latencyPercentiles", "p99"),
    "max_ms": ("summary", "slowest"),
    "connect_ms": ("details", "DNSDialup", "average"),
}
#: Its class of requests that were under way when the time of -z was over: no failures of the service.
_AT_THE_END = "aborted due to deadline"


def read(output: str) -> dict[str, float]:
    """Times in ms. Raises `UnreadableError` without a summary, and if no request was answered."""
    document = json_of(output)
    rate = number_at(document, "summary", "requestsPerSec")
    if rate is None:
        raise UnreadableError("there is no 'requestsPerSec' in its 'summary'")
    if number_at(document, "summary", "average") is None:
        raise UnreadableError("no request was answered")
    found = {name: times(1000, number_at(document, *path)) for name, path in _SECONDS.items()}
    return known({"requests_per_second": rate, **found, "failed_percent": _failed_percent(document)})


def _failed_percent(document: dict[str, Any]) -> float | None:
    statuses = _counts(document, "statusCodeDistribution")
    errors = _counts(document, "errorDistribution")
    failed = sum(count for error, count in errors.items() if error != _AT_THE_END)
    refused = sum(count for status, count in statuses.items() if (number(status) or 0) >= 400)
    return percent_of(failed + refused, failed + sum(statuses.values()))


def _counts(document: dict[str, Any], name: str) -> dict[str, float]:
    counts = document.get(name)
    return known({each: number(count) for each, count in counts.items()}) if isinstance(counts, dict) else {}


READER = Reader("oha", FIGURES, read, "with --no-tui --output-format json (older versions: --json)")
