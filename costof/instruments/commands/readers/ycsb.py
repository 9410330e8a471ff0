"""YCSB: operations a second, and the latency of each kind of operation, from the lines that it prints at the end.

Tested with YCSB 0.18.0-SNAPSHOT (https://github.com/brianfrankcooper/YCSB/wiki, "Running a Workload"). According to
YCSB's source code, 0.1.4 to 0.17.0 print the same lines. `costof ycsb` prints the same lines.

An operation counts as failed if its return status is not OK. Latencies cover only successful operations.
"""

from __future__ import annotations

import re
from collections import Counter

from costof.instruments.commands.readers import NUMBER, Figure, Reader, Report, UnreadableError, rate

OPERATIONS = ("READ", "UPDATE", "INSERT", "SCAN", "READ-MODIFY-WRITE", "DELETE")
_LATENCIES = {
    "latency_us": ("latency", "AverageLatency"),
    "p95_us": ("95th percentile", "95thPercentileLatency"),
    "p99_us": ("99th percentile", "99thPercentileLatency"),
}
_NAMES = {operation: operation.lower().replace("-", "_") for operation in OPERATIONS}
FIGURES = {
    "ops_per_second": rate("operations a second", rf"^\[OVERALL\], Throughput\(ops/sec\), {NUMBER}", headline=True),
    **{
        f"{_NAMES[operation]}_{name}": Figure(
            f"{label} of {operation}",
            "us",
            headline=name == "latency_us" and operation in ("READ", "UPDATE"),
            at=rf"^\[{operation}\], {line}\((?P<unit>us|ms)\), {NUMBER}",
        )
        for operation in OPERATIONS
        for name, (label, line) in _LATENCIES.items()
    },
    "failed_percent": Figure("operations that did not return OK", "percent"),
}
_RETURN = re.compile(r"^\[([A-Z-]+)\], Return=([\w-]+), (\d{1,15})\b", re.MULTILINE | re.ASCII)
#: Return statuses of successful operations. Older versions print the status as the number 0.
_OK = ("OK", "BATCHED_OK", "0")


def _report(text: str, figures: dict[str, float]) -> Report:
    """Return the report. Raises `UnreadableError` if no operation was done, for example if no thread could connect."""
    if not figures.get("ops_per_second"):
        raise UnreadableError("no operation was done")
    truncated: set[str] = set()
    for name in _NAMES.values():
        # YCSB's plain histogram, and versions before 0.5, truncate percentiles to whole ms. Leave such percentiles out.
        percentiles = {f"{name}_p95_us", f"{name}_p99_us"} & figures.keys()
        if all(figures[each] % 1000 == 0 for each in percentiles):
            truncated |= percentiles
    tried, failed = Counter[str](), Counter[str]()
    for operation, status, count in _RETURN.findall(text):
        tried[operation] += int(count)
        failed[operation] += 0 if status in _OK else int(count)
    missing = {f"{_NAMES[o]}_latency_us": f"every {o} failed" for o in OPERATIONS if 0 < tried[o] == failed[o]}
    # YCSB prints zeros for kinds of operations that never succeeded, so leave zeros out.
    figures = {n: value for n, value in figures.items() if n not in truncated and value}
    return Report.build(figures, float(tried.total()) or None, float(failed.total()), missing)


READER = Reader(
    "YCSB",
    FIGURES,
    _report,
    "no option, since its text exporter is the default",
    begins=r"^\[OVERALL\], RunTime",
    line="[OVERALL], Throughput(ops/sec),",
)
