"""YCSB's JDBC binding, for the database that its URL names."""

from __future__ import annotations

from importlib import import_module

from costof.cli.ycsb.binding import Database
from costof.cli.ycsb.properties import Properties

POSTGRESQL = "jdbc:postgresql:"


def database_of(properties: Properties, table: str) -> Database:
    """Loaded when it is asked for, since drivers take their time. Raises as `Database` does."""
    postgresql = properties.get("db.url", "").strip().startswith(POSTGRESQL)
    module, name = ("postgresql", "PostgresqlDatabase") if postgresql else ("mysql", "MysqlDatabase")
    made: Database = getattr(import_module(f"{__package__}.{module}"), name)(properties, table)
    return made
