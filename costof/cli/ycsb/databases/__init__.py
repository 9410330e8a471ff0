"""What a YCSB command can be pointed at: a file each, named as YCSB's binding is, with '_' for its hyphens.

A file has `database_of`, which makes the `Database`. It is loaded when it is asked for, since drivers take their time.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from costof.cli.ycsb.binding import Database
from costof.cli.ycsb.properties import Properties


def names() -> list[str]:
    """Of all bindings."""
    return [found.name.replace("_", "-") for found in iter_modules(__path__)]


def database(binding: str, properties: Properties, table: str) -> Database:
    """That of a binding. Raises as `Database` does."""
    module = import_module(f"{__name__}.{binding.replace('-', '_')}")
    made: Database = module.database_of(properties, table)
    return made
