"""hey: requests a second, and latency, of its text summary.

https://github.com/rakyll/hey, requester/print.go. It prints times in seconds with four digits: 0.1 ms is the least
that it tells apart.
"""

from __future__ import annotations

import re

from costof.commands.readers import (
    NUMBER,
    Figure,
    Reader,
    UnreadableError,
    known,
    number,
    numbers_in,
    percent_of,
    times,
)

FIGURES = {
    "requests_per_second": Figure("requests a second", "per_second", "higher", headline=True),
    "latency_ms": Figure("latency of a request, to 0.1 ms", "ms", headline=True),
    "p50_ms": Figure("median of the latency", "ms"),
    "p95_ms": Figure("95th percentile of the latency", "ms"),
    "p99_ms": Figure("99th percentile of the latency", "ms"),
    "max_ms": Figure("longest latency", "ms"),
    "connect_ms": Figure("connecting, TLS counted in, spread over all requests", "ms"),
    "failed_percent": Figure("requests without an answer, or with a status of 400 and above", "percent"),
}
_SECONDS = {
    "latency_ms": rf"^ +Average:\s+{NUMBER} secs",
    # hey writes the sign doubled.
    "p50_ms": rf"^ +50%+ in {NUMBER} secs",
    "p95_ms": rf"^ +95%+ in {NUMBER} secs",
    "p99_ms": rf"^ +99%+ in {NUMBER} secs",
    "max_ms": rf"^ +Slowest:\s+{NUMBER} secs",
    "connect_ms": rf"^ +DNS\+dialup:\s+{NUMBER} secs",
}
_STATUS = re.compile(r"^ +\[(\d{3})\]\s+(\d+) responses", re.MULTILINE | re.ASCII)
_ERROR = re.compile(r"^ +\[(\d+)\]\s", re.MULTILINE | re.ASCII)


def read(output: str) -> dict[str, float]:
    """Times in ms. Raises `UnreadableError` without a rate, and if no request was answered."""
    rate = numbers_in(output, {"requests_per_second": rf"^ +Requests/sec:\s+{NUMBER}"})
    if not rate:
        raise UnreadableError("there is no line 'Requests/sec: …'")
    seconds = numbers_in(output, _SECONDS)
    if "latency_ms" not in seconds:
        raise UnreadableError("no request was answered")
    found = {name: times(1000, seconds.get(name)) for name in _SECONDS}
    return known({**rate, **found, "failed_percent": _failed_percent(output)})


def _failed_percent(output: str) -> float | None:
    answered = [(int(status), number(count) or 0.0) for status, count in _STATUS.findall(output)]
    _, _, errors = output.partition("Error distribution:")
    failed = sum(number(count) or 0.0 for count in _ERROR.findall(errors))
    requests = failed + sum(count for _, count in answered)
    return percent_of(failed + sum(count for status, count in answered if status >= 400), requests)


READER = Reader("hey", FIGURES, read, "without -o")
