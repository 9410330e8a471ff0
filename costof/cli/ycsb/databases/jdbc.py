"""YCSB's JDBC binding, for the database that its URL names."""

from __future__ import annotations

from costof.cli.ycsb import databases
from costof.cli.ycsb.binding import Database
from costof.cli.ycsb.properties import Properties

POSTGRESQL = "jdbc:postgresql:"


def database_of(properties: Properties, table: str) -> Database:
    """Raises as `Database` does."""
    postgresql = properties.get("db.url", "").strip().startswith(POSTGRESQL)
    return databases.database("postgresql" if postgresql else "mysql", properties, table)
