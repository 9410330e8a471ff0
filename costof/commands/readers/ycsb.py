"""YCSB: operations a second, and latency by operation, of the lines that it prints at the end.

https://github.com/brianfrankcooper/YCSB/wiki/Running-a-Workload, step 6. `costof ycsb` prints the same lines.
"""

from __future__ import annotations

import re

from costof.commands.readers import NUMBER, Figure, Reader, UnreadableError, known, number, numbers_in, percent_of

OPERATIONS = ("READ", "UPDATE", "INSERT", "SCAN", "READ-MODIFY-WRITE", "DELETE")
_LATENCIES = {"latency": "AverageLatency", "p95": "95thPercentileLatency", "p99": "99thPercentileLatency"}


def _name(operation: str, latency: str) -> str:
    return f"{operation.lower().replace('-', '_')}_{latency}_us"


FIGURES = {
    "ops_per_second": Figure("operations a second", "per_second", "higher", headline=True),
    **{
        _name(operation, latency): figure
        for operation in OPERATIONS
        for latency, figure in (
            ("latency", Figure(f"latency of {operation}", "us", headline=operation in ("READ", "UPDATE"))),
            ("p95", Figure(f"95th percentile of {operation}", "us")),
            ("p99", Figure(f"99th percentile of {operation}", "us")),
        )
    },
    "failed_percent": Figure("operations that did not return OK", "percent"),
}
_THROUGHPUT = rf"^\[OVERALL\], Throughput\(ops/sec\), {NUMBER}"
_LINE = re.compile(rf"^\[([A-Z-]+)\], (\w+)\((us|ms)\), {NUMBER}", re.MULTILINE | re.ASCII)
_RETURN = re.compile(r"^\[[A-Z-]+\], Return=([\w-]+), (\d+)", re.MULTILINE | re.ASCII)
#: In older versions a status is a number.
_OK = ("OK", "BATCHED_OK", "0")
_US = {"us": 1.0, "ms": 1000.0}


def read(output: str) -> dict[str, float]:
    """Latencies in us, of operations that succeeded. Raises `UnreadableError` without a throughput."""
    rate = numbers_in(output, {"ops_per_second": _THROUGHPUT})
    if not rate:
        raise UnreadableError("there is no line '[OVERALL], Throughput(ops/sec), …'")
    lines = {(operation, what): (unit, digits) for operation, what, unit, digits in _LINE.findall(output)}
    found: dict[str, float | None] = {}
    for operation in OPERATIONS:
        # The plain histogram, which alone tells a variance, cuts its percentiles to whole ms.
        coarse = (operation, "LatencyVariance") in lines
        for latency, what in _LATENCIES.items():
            if (operation, what) in lines and not (coarse and latency != "latency"):
                unit, digits = lines[operation, what]
                value = number(digits)
                found[_name(operation, latency)] = None if value is None else value * _US[unit]
    return known({**rate, **found, "failed_percent": _failed_percent(output)})


def _failed_percent(output: str) -> float | None:
    returns = [(status, number(count) or 0.0) for status, count in _RETURN.findall(output)]
    return percent_of(sum(count for status, count in returns if status not in _OK), sum(count for _, count in returns))


READER = Reader("YCSB", FIGURES, read, "as it is, with the exporter of text that it has by default")
