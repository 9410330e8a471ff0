"""go-ycsb: operations a second, and the latency of each kind of operation, from the lines that it prints at the end.

Tested with go-ycsb 1.0.3 (https://github.com/pingcap/go-ycsb, pkg/measurement and pkg/client/dbwrapper.go). Latencies
are in us and cover only successful operations. A read-modify-write counts in three lines: READ, UPDATE and
READ_MODIFY_WRITE. go-ycsb also prints interim results in the same form every `measurement.interval`. The reader ignores
these interim results.

Failed operations are those that the database client reports as errors. go-ycsb prints their numbers on separate lines.
A missing record is an error in some databases, but not in Redis.
"""

from __future__ import annotations

import re

from costof.instruments.commands.readers import (
    NUMBER,
    Figure,
    Reader,
    Report,
    UnreadableError,
    figures_at,
    number_at,
    rate,
)

OPERATIONS = ("READ", "UPDATE", "INSERT", "SCAN", "READ_MODIFY_WRITE", "DELETE")
_LATENCIES = {
    "latency_us": ("latency", "Avg"),
    "p95_us": ("95th percentile", "95th"),
    "p99_us": ("99th percentile", "99th"),
}
FIGURES = {
    "ops_per_second": rate("operations a second", rf"^TOTAL +- .* OPS: {NUMBER}", headline=True),
    **{
        f"{operation.lower()}_{name}": Figure(
            f"{label} of {operation}",
            "us",
            headline=name == "latency_us" and operation in ("READ", "UPDATE"),
            at=rf"^{operation} +- .* {column}\(us\): {NUMBER}",
        )
        for operation in OPERATIONS
        for name, (label, column) in _LATENCIES.items()
    },
    "failed_percent": Figure("operations that ended with an error", "percent"),
}
_END = re.compile(r"^Run finished, takes .*\n(?:\w+ +- .*\n?)*", re.ASCII)
_ERRORS = re.compile(r"^(\w+)_ERROR +- .* Count: (\d{1,15})\b", re.MULTILINE | re.ASCII)


def _report(text: str, _: dict[str, float]) -> Report:
    """Return the report. Raises `UnreadableError` if no operation ended."""
    # Ignore the lines after the summary. These lines may be interim results of another run.
    end = _END.match(text)
    text = end[0] if end else ""
    figures = figures_at(text, FIGURES)
    succeeded = number_at(text, r"^TOTAL +- .* Count: (\d+)") or 0.0
    errors = {operation: float(count) for operation, count in _ERRORS.findall(text)}
    operations = succeeded + sum(errors.values())
    if not operations:
        raise UnreadableError("no operation ended")
    # go-ycsb prints no line for a kind of operation that never succeeded, and no total if no operation succeeded.
    missing = {f"{each.lower()}_latency_us": f"every {each} failed" for each in OPERATIONS if each in errors}
    return Report.build(
        figures, operations, operations - succeeded, missing | {"ops_per_second": "every operation failed"}
    )


READER = Reader(
    "go-ycsb",
    FIGURES,
    _report,
    "-p threadcount=N, and without -p outputstyle",
    begins=r"^Run finished, takes",
    line="Run finished, takes",
)
