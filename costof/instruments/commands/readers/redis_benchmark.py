"""redis-benchmark and valkey-benchmark: requests a second and latency of each test, from the output of `--csv`.

Tested with redis-benchmark 2.8.24, 6.0.20 and 7.0.15. According to the source code (https://github.com/redis/redis,
src/redis-benchmark.c), redis-benchmark 2.4.18 to 7.4.1 and valkey-benchmark up to 8.0.1 print the same format. Versions
before 6.2 print no header, and only the rate. Each test has a row. The names of a test's figures begin with the test's
name: `set_rps`, `lrange_100_latency_ms`. The row of a user-defined command is labelled with the command itself, but the
reader calls this test `command`.
"""

from __future__ import annotations

import csv
from dataclasses import replace

from costof.instruments.commands.readers import Figure, Reader, Report, UnreadableError, number, rate

#: The tests in redis-benchmark's order. The row "LPUSH (needed to benchmark LRANGE)" is missing here, because it
#: prepares the LRANGE tests and is no test itself.
TESTS = (
    *("ping_inline", "ping_mbulk", "set", "get", "incr", "lpush", "rpush", "lpop", "rpop", "sadd", "hset", "spop"),
    *("zadd", "zpopmin", "lrange_100", "lrange_300", "lrange_500", "lrange_600", "mset", "xadd", "command"),
)
_OLDER_NAMES = {"ping_bulk": "ping_mbulk"}
_OLDER_HEADER = ["test", "rps"]
#: For each column of the table: the suffix of a figure's name, such as 'p50_ms' in 'set_p50_ms', and a template of the
#: figure. '{}' in its label stands for the test's name.
_COLUMNS = {
    "rps": ("rps", rate("{} a second", headline=True)),
    "avg_latency_ms": ("latency_ms", Figure("latency of {}", "ms")),
    "p50_latency_ms": ("p50_ms", Figure("median latency of {}", "ms")),
    "p95_latency_ms": ("p95_ms", Figure("95th percentile of {}", "ms")),
    "p99_latency_ms": ("p99_ms", Figure("99th percentile of {}", "ms")),
    "max_latency_ms": ("max_ms", Figure("longest latency of {}", "ms")),
}
FIGURES = {
    f"{test}_{name}": replace(figure, label=figure.label.format("the command" if test == "command" else test.upper()))
    for test in TESTS
    for name, figure in _COLUMNS.values()
}


def _report(output: str, _: dict[str, float]) -> Report:
    """Return the report. Raises `UnreadableError` if there is no row of a test."""
    header = _OLDER_HEADER
    rows: dict[str, list[str]] = {}
    for row in _rows(output):
        if row[0] == "test":
            header, rows = row, {}
        elif "needed to benchmark" not in row[0]:
            # Versions before 6.2 print no header. In their output, a second row for the same test begins a new report.
            rows = {row[0]: row} if row[0] in rows else rows | {row[0]: row}
    if not rows:
        raise UnreadableError("there is no row of a test")
    tests = {name: "command" if len(rows) == 1 and _test(name) is None else _test(name) for name in rows}
    figures: dict[str, float | None] = {}
    for name, row in rows.items():
        columns = {column: number(value) for column, value in zip(header, row, strict=False)}
        if tests[name] is not None:
            figures |= {f"{tests[name]}_{figure}": columns.get(column) for column, (figure, _) in _COLUMNS.items()}
    unknown = ", ".join(name for name, test in tests.items() if test is None)[:100]
    return Report.build(figures, missing={"command_rps": f"these tests are unknown: {unknown}"} if unknown else None)


def _rows(output: str) -> list[list[str]]:
    """Return the rows of the table: all lines that begin with a quotation mark. Raises `UnreadableError`."""
    lines = (line for line in output.split("\n") if line.startswith('"'))
    try:
        return [row for row in csv.reader(lines) if len(row) > 1]
    except csv.Error as error:
        raise UnreadableError(f"its CSV is broken: {error}") from None


def _test(row: str) -> str | None:
    """Return the name of a row's test, such as 'lrange_100' for 'LRANGE_100 (first 100 elements)'; None if unknown."""
    name, _, rest = row.partition(" ")
    test = _OLDER_NAMES.get(name.lower(), name.lower())
    return test if test in TESTS and name.isupper() and (not rest or rest.startswith("(")) else None


READER = Reader(
    "redis-benchmark",
    FIGURES,
    _report,
    "--csv, and with -t to select tests",
    silent_on_failures="redis-benchmark counts no failures; before 6.2 it counts errors as answers.",
)
