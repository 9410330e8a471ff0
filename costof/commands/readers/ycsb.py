"""YCSB: operations a second, and latency by operation, of the lines that it prints at the end.

YCSB 0.18.0-SNAPSHOT was run; 0.1.4 and later by source (https://github.com/brianfrankcooper/YCSB/wiki, "Running a
Workload"). `costof ycsb` prints the same lines.

Failed are operations that returned anything but OK. Latencies are of operations that succeeded.
"""

from __future__ import annotations

import re
from collections import Counter

from costof.commands.readers import NUMBER, Figure, Reader, Report, convert, number, rate

OPERATIONS = ("READ", "UPDATE", "INSERT", "SCAN", "READ-MODIFY-WRITE", "DELETE")
_MEAN = "AverageLatency"
_LATENCIES = {
    _MEAN: ("latency_us", "latency"),
    "95thPercentileLatency": ("p95_us", "95th percentile"),
    "99thPercentileLatency": ("p99_us", "99th percentile"),
}


def _name(operation: str, latency: str) -> str:
    return f"{operation.lower().replace('-', '_')}_{_LATENCIES[latency][0]}"


FIGURES = {
    "ops_per_second": rate("operations a second", rf"^\[OVERALL\], Throughput\(ops/sec\), {NUMBER}", headline=True),
    **{
        _name(operation, latency): Figure(
            f"{label} of {operation}", "us", headline=latency == _MEAN and operation in ("READ", "UPDATE")
        )
        for operation in OPERATIONS
        for latency, (_, label) in _LATENCIES.items()
    },
    "failed_percent": Figure("operations that did not return OK", "percent"),
}
_LINE = re.compile(rf"^\[([A-Z-]+)\], (\w+)\((us|ms)\), {NUMBER}", re.MULTILINE | re.ASCII)
_OPERATIONS = re.compile(r"^\[([A-Z-]+)\], Operations, (\d+)", re.MULTILINE | re.ASCII)
_RETURN = re.compile(r"^\[([A-Z-]+)\], Return=([\w-]+), (\d{1,15})\b", re.MULTILINE | re.ASCII)
#: In older versions a status is a number.
_OK = ("OK", "BATCHED_OK", "0")


def _report(text: str, figures: dict[str, float]) -> Report:
    lines = {(operation, latency): (digits, unit) for operation, latency, unit, digits in _LINE.findall(text)}
    # What never succeeded has a mean of NaN and percentiles of 0.
    empty = {operation for operation, count in _OPERATIONS.findall(text) if not number(count)}
    for (operation, latency), (digits, unit) in lines.items():
        # The plain histogram, which alone prints a variance, cuts its percentiles to whole ms.
        is_cut = latency != _MEAN and (operation, "LatencyVariance") in lines
        if operation in OPERATIONS and latency in _LATENCIES and operation not in empty and not is_cut:
            figures[_name(operation, latency)] = convert(float(digits), unit, "us")
    tried, failed = Counter[str](), Counter[str]()
    for operation, status, count in _RETURN.findall(text):
        tried[operation] += int(count)
        failed[operation] += 0 if status in _OK else int(count)
    missing = {_name(each, _MEAN): f"every {each} failed" for each in OPERATIONS if 0 < tried[each] == failed[each]}
    return Report.build(figures, float(tried.total()) or None, float(failed.total()), missing)


READER = Reader(
    "YCSB",
    FIGURES,
    _report,
    "no option: its exporter of text is the default",
    begins=r"^\[OVERALL\], RunTime",
    line="[OVERALL], Throughput(ops/sec),",
)
