"""pgbench's four tables, as `pgbench --initialize` creates them (PostgreSQL's documentation, "pgbench")."""

from __future__ import annotations

TABLES = ("pgbench_history", "pgbench_accounts", "pgbench_tellers", "pgbench_branches")
ACCOUNTS = "pgbench_accounts"
TELLERS_OF_A_BRANCH = 10

_COLUMNS = {
    "pgbench_branches": "bid int PRIMARY KEY, bbalance int, filler char(88)",
    "pgbench_tellers": "tid int PRIMARY KEY, bid int, tbalance int, filler char(84)",
    "pgbench_accounts": "aid int PRIMARY KEY, bid int, abalance int, filler char(84)",
    "pgbench_history": "tid int, bid int, aid int, delta int, mtime timestamp, filler char(22)",
}


def create_tables(scale: int) -> list[str]:
    """Return the statements that create all tables and fill two of them: `scale` branches and 10 * `scale` tellers.

    `pgbench_accounts` stays empty, because costof's load generator fills it. The primary keys exist before the load, so
    the server rejects an account that is loaded twice.
    """
    tellers = f"SELECT tid, (tid - 1) / {TELLERS_OF_A_BRANCH} + 1, 0 FROM generate_series(1, {{}}) AS tid"  # noqa: S608
    return [
        *(f"CREATE TABLE {table} ({columns})" for table, columns in _COLUMNS.items()),
        f"INSERT INTO pgbench_branches SELECT bid, 0 FROM generate_series(1, {scale}) AS bid",  # noqa: S608  # a number
        "INSERT INTO pgbench_tellers " + tellers.format(scale * TELLERS_OF_A_BRANCH),
    ]


def after_load() -> list[str]:
    """Return the statements to run after the load: they vacuum the tables and read all accounts into the cache."""
    return [*(f"VACUUM ANALYZE {table}" for table in TABLES), f"SELECT sum(length(filler)) FROM {ACCOUNTS}"]  # noqa: S608
