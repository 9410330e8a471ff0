"""sysbench 1.0 and later: events a second and their latency; of its SQL tests queries and errors as well.

https://github.com/akopytov/sysbench, src/sb_counter.c and src/tests/: an event is a transaction of a SQL test, a
request of fileio, a block of memory, a calculation of cpu.
"""

from __future__ import annotations

from costof.commands.readers import NUMBER, Figure, Reader, UnreadableError, known, numbers_in, over, percent_of

FIGURES = {
    "events_per_second": Figure("events (transactions) a second", "per_second", "higher", headline=True),
    "latency_ms": Figure("latency of an event (transaction)", "ms", headline=True),
    "p95_ms": Figure("95th percentile of the latency", "ms"),
    "p99_ms": Figure("99th percentile of the latency", "ms"),
    "max_ms": Figure("longest latency", "ms"),
    "queries_per_second": Figure("queries a second", "per_second", "higher"),
    "reads_per_second": Figure("reads of files a second", "per_second", "higher"),
    "writes_per_second": Figure("writes of files a second", "per_second", "higher"),
    "fsyncs_per_second": Figure("fsyncs a second", "per_second", "higher"),
    "read_mib_per_second": Figure("read of files", "MiB/s", "higher"),
    "written_mib_per_second": Figure("written to files", "MiB/s", "higher"),
    "transferred_mib_per_second": Figure("transferred in memory", "MiB/s", "higher"),
    "reconnects_per_second": Figure("reconnects a second", "per_second"),
    "failed_percent": Figure("transactions with an ignored error", "percent"),
}
_LINES = {
    "p95_ms": rf"^ +95th percentile: +{NUMBER}",
    "p99_ms": rf"^ +99th percentile: +{NUMBER}",
    "max_ms": rf"^ +max: +{NUMBER}",
    "queries_per_second": rf"^ +queries: +\d+ +\({NUMBER} per sec",
    "reads_per_second": rf"^ +reads/s: +{NUMBER}",
    "writes_per_second": rf"^ +writes/s: +{NUMBER}",
    "fsyncs_per_second": rf"^ +fsyncs/s: +{NUMBER}",
    "read_mib_per_second": rf"^ +read, MiB/s: +{NUMBER}",
    "written_mib_per_second": rf"^ +written, MiB/s: +{NUMBER}",
    "transferred_mib_per_second": rf" MiB transferred \({NUMBER} MiB/sec\)",
    "reconnects_per_second": rf"^ +reconnects: +\d+ +\({NUMBER} per sec",
}
#: The rate as each kind of test prints it; 1.1 prints that of any as well.
_RATES = {
    "sql": rf"^ +transactions: +\d+ +\({NUMBER} per sec",
    "cpu": rf"^ +events per second: +{NUMBER}",
    "memory": rf"^Total operations: \d+ \({NUMBER} per second\)",
    "any": rf"^ +events/s \(eps\): +{NUMBER}",
}
_TOTALS = {
    "seconds": rf"^ +total time: +{NUMBER}s",
    "events": rf"^ +total number of events: +{NUMBER}",
    "transactions": rf"^ +transactions: +{NUMBER}",
    "ms": rf"^ +sum: +{NUMBER}",
    "errors": rf"^ +ignored errors: +{NUMBER}",
}


def read(output: str) -> dict[str, float]:
    """Times in ms. Raises `UnreadableError` without totals, and if no event was finished."""
    totals = numbers_in(output, _TOTALS)
    if "events" not in totals:
        raise UnreadableError("there is no line 'total number of events: …'")
    if not totals["events"]:
        raise UnreadableError("no event was finished")
    figures: dict[str, float | None] = {
        "events_per_second": _rate(output, totals),
        # Its own 'avg' has two digits: 0.01 of anything short.
        "latency_ms": over(totals["events"], totals.get("ms")),
        **numbers_in(output, _LINES),
    }
    if "errors" in totals:
        # An event that failed is begun anew, and is counted when it succeeds.
        figures["failed_percent"] = percent_of(totals["errors"], totals["errors"] + totals.get("transactions", 0))
    return known(figures)


def _rate(output: str, totals: dict[str, float]) -> float | None:
    """As it is printed; of tests that print none (fileio, threads, mutex) by their totals."""
    printed = numbers_in(output, _RATES)
    if printed:
        return next(iter(printed.values()))
    seconds = totals.get("seconds")
    return totals["events"] / seconds if seconds else None


READER = Reader("sysbench", FIGURES, read, "'run', as it is; the percentile is that of --percentile=95 or 99")
