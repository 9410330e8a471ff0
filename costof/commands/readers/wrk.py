"""wrk and wrk2: requests a second, and latency as `--latency` prints it.

https://github.com/wg/wrk and https://github.com/giltene/wrk2, src/wrk.c and src/units.c. wrk2 sends at the rate of -R
and counts latency from when a request was due; of its two distributions (-U) that one comes first.
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
    over,
    percent_of,
    times,
)

FIGURES = {
    "requests_per_second": Figure("requests a second", "per_second", "higher", headline=True),
    "latency_ms": Figure("latency of a request", "ms", headline=True),
    "p50_ms": Figure("median of the latency", "ms"),
    "p90_ms": Figure("90th percentile of the latency", "ms"),
    "p99_ms": Figure("99th percentile of the latency", "ms"),
    "p999_ms": Figure("99.9th percentile of the latency", "ms"),
    "max_ms": Figure("longest latency", "ms"),
    "failed_percent": Figure("answers with a status of neither 2xx nor 3xx", "percent"),
    "socket_errors": Figure("socket errors and timeouts", "errors"),
}
_US = {"us": 1, "ms": 1000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_TIME = rf"{NUMBER}(us|ms|s|m|h)\b"
#: Average, standard deviation and maximum, over all threads.
_THREAD_STATS = re.compile(rf"^ +Latency +{_TIME} +{_TIME} +{_TIME}", re.MULTILINE | re.ASCII)
_SOCKET_ERRORS = re.compile(r"^ +Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", re.MULTILINE)
#: wrk prints whole percentiles, wrk2 three digits.
_PERCENTILES = {"p50_ms": r"50(?:\.000)?", "p90_ms": r"90(?:\.000)?", "p99_ms": r"99(?:\.000)?", "p999_ms": r"99\.900"}
_LINES = {
    "requests_per_second": rf"^Requests/sec: +{NUMBER}",
    "requests": rf"^ +{NUMBER} requests in ",
    "failed": rf"^ +Non-2xx or 3xx responses: {NUMBER}",
}


def read(output: str) -> dict[str, float]:
    """Times in ms. Raises `UnreadableError` without a rate, and if no request was answered."""
    lines = numbers_in(output, _LINES)
    if "requests_per_second" not in lines:
        raise UnreadableError("there is no line 'Requests/sec: …'")
    if not lines["requests_per_second"]:
        raise UnreadableError("no request was answered")
    return known(
        {
            "requests_per_second": lines["requests_per_second"],
            **_latencies(output),
            # It says nothing of failures if there are none.
            "failed_percent": percent_of(lines.get("failed", 0.0), lines.get("requests")),
            "socket_errors": _socket_errors(output),
        }
    )


def _latencies(output: str) -> dict[str, float | None]:
    """Empty if each answer was beyond wrk's own timeout: it prints zeros then."""
    stats = _THREAD_STATS.search(output)
    if stats is None or not number(stats[1]):
        return {}
    found: dict[str, float | None] = {"latency_ms": _ms(stats[1], stats[2])}
    for name, percentile in _PERCENTILES.items():
        match = re.search(rf"^ *{percentile}% +{_TIME}", output, re.MULTILINE | re.ASCII)
        found[name] = _ms(match[1], match[2]) if match else None
    return {**found, "max_ms": _ms(stats[5], stats[6])}


def _ms(digits: str, unit: str) -> float | None:
    found = number(digits)
    return over(1000, times(_US[unit], found))


def _socket_errors(output: str) -> float:
    match = _SOCKET_ERRORS.search(output)
    return sum(number(count) or 0.0 for count in match.groups()) if match else 0.0


READER = Reader("wrk", FIGURES, read, "with --latency, for percentiles; wrk2 is read as well")
