"""sysbench's table `sbtest1`, as its oltp scripts make it (oltp_common.lua), for any MySQL server."""

from __future__ import annotations

TABLE = "sbtest1"


def create_table(database: str) -> str:
    """The table without its secondary index, which is made when the rows are there."""
    return (
        f"CREATE TABLE `{database}`.{TABLE} (id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' NOT NULL, "
        "c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id)) ENGINE = innodb"
    )


def after_load(database: str) -> list[str]:
    """Statements for a table that has its rows: the index, statistics, and a look at every row, so that all are in
    memory before the first slice."""
    return [
        f"CREATE INDEX k_1 ON `{database}`.{TABLE} (k)",
        f"ANALYZE TABLE `{database}`.{TABLE}",
        f"SELECT SUM(LENGTH(c)) FROM `{database}`.{TABLE}",  # noqa: S608  # names of our own
    ]
