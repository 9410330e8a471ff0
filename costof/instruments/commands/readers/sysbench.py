"""sysbench: events a second and their latency; for SQL tests also queries and errors.

Tested with sysbench 1.0.20 and 1.1.0 (3ceba0b; https://github.com/akopytov/sysbench, src/sb_counter.c, src/tests/). An
event is a transaction (SQL tests), a request (fileio), a block (memory) or a calculation (cpu).

Failed events are sysbench's "ignored errors". After such an error sysbench runs the event again. Any other error ends
sysbench.
"""

from __future__ import annotations

from costof.instruments.commands.readers import NUMBER, Figure, Reader, Report, UnreadableError, number_at, rate

_PER_SECOND = rf": +\d+ +\({NUMBER} per sec"
#: Matches the line with the rate. sysbench 1.0 has three forms of this line: for SQL tests, cpu tests and memory tests.
#: sysbench 1.1 has a fourth form, for all tests.
_RATE = rf"^(?: +transactions: +\d+ +\(| +events per second: +|Total operations: \d+ \(| +events/s \(eps\): +){NUMBER}"
FIGURES = {
    "events_per_second": rate("events (transactions) a second", _RATE, headline=True),
    "latency_ms": Figure("latency of an event (transaction)", "ms", headline=True),
    "p95_ms": Figure("95th percentile of the latency", "ms", at=rf"^ +95th percentile: +{NUMBER}"),
    "p99_ms": Figure("99th percentile of the latency", "ms", at=rf"^ +99th percentile: +{NUMBER}"),
    "max_ms": Figure("longest latency", "ms", at=rf"^ +max: +{NUMBER}"),
    "queries_per_second": rate("queries a second", rf"^ +queries{_PER_SECOND}"),
    "reads_per_second": rate("reads of files a second", rf"^ +(?:reads/s: +|read: +IOPS=){NUMBER}"),
    "writes_per_second": rate("writes of files a second", rf"^ +(?:writes/s: +|write: +IOPS=){NUMBER}"),
    "fsyncs_per_second": rate("fsyncs a second", rf"^ +(?:fsyncs/s: +|fsync: +IOPS=){NUMBER}"),
    "read_mib_per_second": rate("read from files", rf"^ +(?:read, MiB/s:|read: +IOPS=\S+) +{NUMBER}", "MiB/s"),
    "written_mib_per_second": rate("written to files", rf"^ +(?:written, MiB/s:|write: +IOPS=\S+) +{NUMBER}", "MiB/s"),
    "transferred_mib_per_second": rate("transferred in memory", rf" MiB transferred \({NUMBER} MiB/sec\)", "MiB/s"),
    "reconnects_per_second": Figure("reconnects a second", "per_second", at=rf"^ +reconnects{_PER_SECOND}"),
    "failed_percent": Figure("transactions with an ignored error", "percent"),
}


def _report(text: str, figures: dict[str, float]) -> Report:
    """Return the report. Raises `UnreadableError` if no event was finished."""
    # Leave out rates of 0, which mean that the test does no such operations, for example no reads in a write test.
    figures = {n: value for n, value in figures.items() if value or FIGURES[n].better == "lower"}
    events, errors = (number_at(text, rf"^ +{name}: +(\d+)") for name in ("total number of events", "ignored errors"))
    seconds, busy_ms = number_at(text, rf"^ +total time: +{NUMBER}s"), number_at(text, rf"^ +sum: +{NUMBER}")
    if "events_per_second" not in figures:
        # sysbench 1.0 prints no rate for the tests fileio, threads and mutex. Compute it from the number of events.
        # sysbench 1.1 prints neither the rate nor the number of events for fileio, so add up reads, writes and fsyncs.
        kinds = ("reads_per_second", "writes_per_second", "fsyncs_per_second")
        transferred = sum(figures.get(name, 0.0) for name in kinds)
        figures["events_per_second"] = events / seconds if events and seconds else transferred
    if events == 0 or not figures["events_per_second"]:
        raise UnreadableError("no event was finished")
    if events and busy_ms is not None:
        figures["latency_ms"] = busy_ms / events
    missing = {"latency_ms": "sysbench prints no number of events, and its mean has only two decimal places"}
    return Report.build(figures, events and events + (errors or 0.0), errors or 0.0, missing)


READER = Reader(
    "sysbench",
    FIGURES,
    _report,
    "'run', and with --percentile=95 or 99 to choose the percentile",
    begins=r"^Running the test with following options:",
    line="Latency (ms):",
)
