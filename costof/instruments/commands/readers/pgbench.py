"""PostgreSQL's pgbench: transactions a second, their latency, and the time to connect.

Tested with pgbench 15.18, 17.10 and 18.6. According to source code and manual (https://www.postgresql.org/docs/,
"pgbench"), the reader also fits 9.4 to 14.

Two kinds of transactions count as failed. First, pgbench 15 and later give up a transaction after a serialization
failure or a deadlock. Second, a client that ended with an error never begins its remaining transactions. Transactions
that pgbench skipped because they were too late (-R with -L) do not count as failed.
"""

from __future__ import annotations

from costof.instruments.commands.readers import NUMBER, Figure, Reader, Report, UnreadableError, number_at, rate

_N = "^number of transactions"
_PERCENT = rf".*\({NUMBER} ?%\)"
#: The expressions match lines about all scripts together; lines about a single script begin with " - ". Versions before
#: 14 always print the rate twice, first "including" and then "excluding connections establishing". Later versions print
#: one rate; with -C it is "including reconnection times". The oldest versions print a colon instead of " =".
FIGURES = {
    "tps": rate("transactions a second", rf"^tps = {NUMBER}(?! \(including connections|[\d.])", headline=True),
    "tps_with_connecting": rate("transactions a second, with connecting", rf"^tps = {NUMBER} \(including connections"),
    "latency_ms": Figure("latency of a transaction", "ms", headline=True, at=rf"^latency average(?: =|:) {NUMBER} ms"),
    "latency_stddev_ms": Figure("standard deviation of the latency", "ms", at=rf"^latency stddev(?: =|:) {NUMBER} ms"),
    "schedule_lag_ms": Figure("delay behind the schedule of -R", "ms", at=rf"^rate limit schedule lag: avg {NUMBER} "),
    "connection_ms": Figure("a new connection", "ms", headline=True, at=rf"^average connection time = {NUMBER} ms"),
    "initial_connection_ms": Figure("connecting all clients", "ms", at=rf"^initial connection time = {NUMBER} ms"),
    "late_percent": Figure("transactions above the limit of -L", "percent", at=rf"{_N} above the .*: {_PERCENT}"),
    "skipped_percent": Figure("transactions skipped as too late", "percent", at=rf"{_N} skipped: {_PERCENT}"),
    "retried_percent": Figure("retried transactions", "percent", at=rf"{_N} retried: {_PERCENT}"),
    "failed_percent": Figure("failed transactions", "percent"),
}


def _report(text: str, figures: dict[str, float]) -> Report:
    """Return the report. Raises `UnreadableError` if there is no rate, because no transaction was processed."""
    processed = number_at(text, rf"{_N} actually processed: (\d+)")
    if "tps" not in figures or processed is None:
        raise UnreadableError("there is no line 'tps = …'")
    figures = {name: value for name, value in figures.items() if value or name != "latency_ms"}
    missing = {"latency_ms": "pgbench before 9.6 measures it only with -T or -P"}
    planned = number_at(text, rf"{_N} actually processed: \d+/(\d+)") or 0.0
    skipped = number_at(text, rf"{_N} skipped: (\d+)") or 0.0
    failed = number_at(text, r"^number of failed transactions: (\d+)") or 0.0
    # With -t, pgbench prints the number of planned transactions. Transactions that were neither processed nor skipped
    # have failed.
    operations = max(processed + failed, planned - skipped)
    return Report.build(figures, operations, operations - processed, missing)


READER = Reader(
    "pgbench",
    FIGURES,
    _report,
    "no option, or with -C to measure new connections as well",
    begins=r"^transaction type:",
    line="number of transactions actually processed:",
)
