"""redis-benchmark, and valkey-benchmark: requests a second and latency of each test, of its `--csv`.

https://redis.io/docs/latest/operate/oss_and_stack/management/optimization/benchmarks/. Each test is a row; its figures
are named after it: `set_rps`, `lrange_100_latency_ms`. A command of the user's own, whose row is the command itself, is
called `command`. Older versions print no header, and the rate alone. It counts no failures: the first error ends it.
"""

from __future__ import annotations

import csv

from costof.commands.readers import Figure, Reader, UnreadableError, known, number

#: In its own order. An "LPUSH (needed to benchmark LRANGE)" only prepares others.
TESTS = (
    *("ping_inline", "ping_mbulk", "set", "get", "incr", "lpush", "rpush", "lpop", "rpop", "sadd", "hset", "spop"),
    *("zadd", "zpopmin", "lrange_100", "lrange_300", "lrange_500", "lrange_600", "mset", "xadd", "command"),
)
_PREPARES = "needed to benchmark"
#: Figure by column of the header.
_COLUMNS = {
    "rps": "rps",
    "avg_latency_ms": "latency_ms",
    "p50_latency_ms": "p50_ms",
    "p95_latency_ms": "p95_ms",
    "p99_latency_ms": "p99_ms",
    "max_latency_ms": "max_ms",
}
_OLDER_HEADER = ["test", "rps"]


def _figures(test: str) -> dict[str, Figure]:
    called = "the command" if test == "command" else test.upper()
    return {
        # Who asks for one test by -t is answered by its rate.
        f"{test}_rps": Figure(f"{called} a second", "per_second", "higher", headline=True),
        f"{test}_latency_ms": Figure(f"latency of {called}", "ms"),
        f"{test}_p50_ms": Figure(f"median latency of {called}", "ms"),
        f"{test}_p95_ms": Figure(f"95th percentile of {called}", "ms"),
        f"{test}_p99_ms": Figure(f"99th percentile of {called}", "ms"),
        f"{test}_max_ms": Figure(f"longest latency of {called}", "ms"),
    }


FIGURES = {name: figure for test in TESTS for name, figure in _figures(test).items()}


def read(output: str) -> dict[str, float]:
    """Times in ms. Raises `UnreadableError` without the row of a test."""
    header = _OLDER_HEADER
    found: dict[str, float | None] = {}
    for row in _rows(output):
        if row[0] == "test":
            header = row
        elif _PREPARES not in row[0]:
            test = _test(row[0])
            columns = dict(zip(header, row, strict=False))
            found |= {f"{test}_{_COLUMNS[name]}": number(columns[name]) for name in _COLUMNS if name in columns}
    figures = known(found)
    if not figures:
        raise UnreadableError("there is no row of a test")
    return figures


def _rows(output: str) -> list[list[str]]:
    """Those of the table: each field of its rows is quoted, which nothing else that it may say is."""
    lines = (line for line in output.split("\n") if line.startswith('"'))
    try:
        return [row for row in csv.reader(lines) if len(row) > 1]
    except csv.Error as error:
        raise UnreadableError(f"its CSV is broken: {error}") from None


def _test(row: str) -> str:
    """'LRANGE_100 (first 100 elements)' is lrange_100."""
    name, _, rest = row.partition(" ")
    known_one = name.lower() in TESTS and name.isupper() and (not rest or rest.startswith("("))
    return name.lower() if known_one else "command"


READER = Reader("redis-benchmark", FIGURES, read, "with --csv; with -t for the tests that matter")
