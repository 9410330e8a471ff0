"""redis-benchmark, and valkey-benchmark: requests a second and latency of each test, of its `--csv`.

redis-benchmark 7.0.15 was run; 2.6 and later by source (https://github.com/redis/redis, src/redis-benchmark.c). Before
6.2 there is no header, and the rate alone. Each test is a row; its figures are named after it: `set_rps`,
`lrange_100_latency_ms`. A command of the user's own, whose row is the command itself, is called `command`.
"""

from __future__ import annotations

import csv

from costof.commands.readers import Figure, Reader, Report, UnreadableError, number, rate

#: In its own order. An "LPUSH (needed to benchmark LRANGE)" only prepares others.
TESTS = (
    *("ping_inline", "ping_mbulk", "set", "get", "incr", "lpush", "rpush", "lpop", "rpop", "sadd", "hset", "spop"),
    *("zadd", "zpopmin", "lrange_100", "lrange_300", "lrange_500", "lrange_600", "mset", "xadd", "command"),
)
_OLDER_NAMES = {"ping_bulk": "ping_mbulk"}
_OLDER_HEADER = ["test", "rps"]
#: Figure by column of the header.
_COLUMNS = {"rps": "rps", "avg_latency_ms": "latency_ms"} | {
    f"{tail}_latency_ms": f"{tail}_ms" for tail in ("p50", "p95", "p99", "max")
}


def _figures(test: str) -> dict[str, Figure]:
    called = "the command" if test == "command" else test.upper()
    return {
        # A test that -t names is answered by its rate.
        f"{test}_rps": rate(f"{called} a second", headline=True),
        f"{test}_latency_ms": Figure(f"latency of {called}", "ms"),
        f"{test}_p50_ms": Figure(f"median latency of {called}", "ms"),
        f"{test}_p95_ms": Figure(f"95th percentile of {called}", "ms"),
        f"{test}_p99_ms": Figure(f"99th percentile of {called}", "ms"),
        f"{test}_max_ms": Figure(f"longest latency of {called}", "ms"),
    }


FIGURES = {name: figure for test in TESTS for name, figure in _figures(test).items()}


def _report(output: str, _: dict[str, float]) -> Report:
    """Raises `UnreadableError` without the row of a test."""
    header = _OLDER_HEADER
    rows: dict[str, list[str]] = {}
    for row in _rows(output):
        if row[0] == "test":
            header, rows = row, {}
        elif "needed to benchmark" not in row[0]:
            # Without a header, a test that comes again begins another report.
            rows = {row[0]: row} if row[0] in rows else rows | {row[0]: row}
    tests = {name: _test(name) for name in rows}
    unknown = [name for name, test in tests.items() if test is None]
    figures: dict[str, float | None] = {}
    for name, row in rows.items():
        if tests[name] or len(unknown) == 1:
            columns = dict(zip(header, row, strict=False))
            figures |= {
                f"{tests[name] or 'command'}_{_COLUMNS[c]}": number(columns[c]) for c in _COLUMNS if c in columns
            }
    if not rows:
        raise UnreadableError("there is no row of a test")
    missing = {"command_rps": f"there are several tests of unknown names: {', '.join(unknown)[:100]}"}
    return Report.build(figures, missing=missing if len(unknown) > 1 else None)


def _rows(output: str) -> list[list[str]]:
    """Return the rows of the table: each of their fields is quoted, as in no other line. Raises `UnreadableError`."""
    lines = (line for line in output.split("\n") if line.startswith('"'))
    try:
        return [row for row in csv.reader(lines) if len(row) > 1]
    except csv.Error as error:
        raise UnreadableError(f"its CSV is broken: {error}") from None


def _test(row: str) -> str | None:
    """Return the test of a row, such as lrange_100 of 'LRANGE_100 (first 100 elements)'; None for an unknown one."""
    name, _, rest = row.partition(" ")
    test = _OLDER_NAMES.get(name.lower(), name.lower())
    return test if test in TESTS and name.isupper() and (not rest or rest.startswith("(")) else None


READER = Reader(
    "redis-benchmark",
    FIGURES,
    _report,
    "--csv; with -t for the tests that matter",
    silent_on_failures="redis-benchmark stops at the first error and counts none.",
)
