"""sysbench's table `sbtest1`, as sysbench's oltp scripts create it (oltp_common.lua), for any MySQL server."""

from __future__ import annotations

TABLE = "sbtest1"


def create_table(database: str) -> str:
    """Return the statement that creates the table without its secondary index; `after_load` adds the index."""
    return (
        f"CREATE TABLE `{database}`.{TABLE} (id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' NOT NULL, "
        "c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id)) ENGINE = innodb"
    )


def after_load(database: str) -> list[str]:
    """Return the statements to run after the load.

    They create the secondary index, update the optimizer's statistics, and read every row into the server's cache.
    """
    return [
        f"CREATE INDEX k_1 ON `{database}`.{TABLE} (k)",
        f"ANALYZE TABLE `{database}`.{TABLE}",
        f"SELECT SUM(LENGTH(c)) FROM `{database}`.{TABLE}",  # noqa: S608  # names of our own
    ]
