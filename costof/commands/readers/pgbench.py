"""pgbench of PostgreSQL: transactions a second, their latency, and the time to connect.

https://www.postgresql.org/docs/current/pgbench.html, "Notes": what the lines of its summary mean.
"""

from __future__ import annotations

from costof.commands.readers import NUMBER, Figure, Reader, UnreadableError, numbers_in

FIGURES = {
    "tps": Figure("transactions a second", "per_second", "higher", headline=True),
    "tps_with_connecting": Figure("transactions a second, time to connect counted in", "per_second", "higher"),
    "latency_ms": Figure("latency of a transaction", "ms", headline=True),
    "latency_stddev_ms": Figure("standard deviation of the latency", "ms"),
    "schedule_lag_ms": Figure("start behind the schedule of -R", "ms"),
    "connection_ms": Figure("a new connection", "ms", headline=True),
    "initial_connection_ms": Figure("connecting all clients at first", "ms"),
    "late_percent": Figure("transactions above the latency limit of -L", "percent"),
    "skipped_percent": Figure("transactions skipped, being too late to begin", "percent"),
    "retried_percent": Figure("retried transactions", "percent"),
    "failed_percent": Figure("failed transactions", "percent"),
}
#: The lines of all scripts together; those of a single script begin with " - ". Versions before 14 tell the rate twice,
#: "including" and then "excluding connections establishing", whether or not -C connects anew for each transaction.
#: Later ones tell it once, with -C "including reconnection times".
_LINES = {
    "tps": rf"^tps = {NUMBER}(?! \(including connections|[\d.])",
    "tps_with_connecting": rf"^tps = {NUMBER} \(including connections",
    "latency_ms": rf"^latency average = {NUMBER} ms",
    "latency_stddev_ms": rf"^latency stddev = {NUMBER} ms",
    "schedule_lag_ms": rf"^rate limit schedule lag: avg {NUMBER} ",
    "connection_ms": rf"^average connection time = {NUMBER} ms",
    "initial_connection_ms": rf"^initial connection time = {NUMBER} ms",
    "late_percent": rf"^number of transactions above the .* latency limit: .*\({NUMBER} ?%\)",
    "skipped_percent": rf"^number of transactions skipped: .*\({NUMBER} ?%\)",
    "retried_percent": rf"^number of transactions retried: .*\({NUMBER}%\)",
    "failed_percent": rf"^number of failed transactions: .*\({NUMBER}%\)",
}


def read(output: str) -> dict[str, float]:
    """Times in ms. Raises `UnreadableError` without a rate, which pgbench leaves out if no transaction was made."""
    found = numbers_in(output, _LINES)
    if "tps" not in found:
        raise UnreadableError("there is no line 'tps = …'")
    return found


READER = Reader("pgbench", FIGURES, read, "as it is; with -C it tells the time of a new connection as well")
