"""What a YCSB command needs of the database that its user names: how the engine reaches it, and whether it is empty."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from costof.cli.ycsb.properties import Properties
from costof.messages.plan import Endpoint


class Database(ABC):
    """Somebody's own. Only `load` and `run` write to it, into the table that was named, as YCSB does; nothing is made,
    emptied or dropped."""

    #: Its properties, beside YCSB's own.
    PROPERTIES: ClassVar[frozenset[str]]
    #: Address and database, without a password.
    shown: str

    @abstractmethod
    def __init__(self, properties: Properties, table: str) -> None:
        """Raises `BAD_TARGET` or `YCSB_BAD_PROPERTY`."""

    @abstractmethod
    def endpoint(self) -> Endpoint:
        """How the engine reaches the table."""

    @abstractmethod
    def holds_records(self, fields: int) -> bool:
        """Whether the table holds any. Raises `CostofError` when it cannot be asked, or cannot take so many fields."""

    def unused_options(self) -> list[str]:
        """Options of the URL that change nothing here."""
        return []
