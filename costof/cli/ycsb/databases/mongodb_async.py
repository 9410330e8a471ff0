"""YCSB's asynchronous MongoDB binding, which takes what the other one takes."""

from costof.cli.ycsb.databases.mongodb import database_of

__all__ = ["database_of"]
