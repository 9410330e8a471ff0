"""The databases of YCSB commands. Each module in this folder defines one database class, named `DATABASE`."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from importlib import import_module
from typing import ClassVar
from urllib.parse import parse_qsl, unquote

from pydantic import SecretStr

from costof.cli.ycsb.job import Properties
from costof.errors import CostofError, ErrorText
from costof.messages.plan import Endpoint
from costof.urls import UrlError, UrlParts, host_shown, login_shown, split_host, split_url

BINDINGS = ("jdbc", "mongodb", "mongodb-async", "mysql", "postgresql", "redis")


def open_database(binding: str, properties: Properties, table: str) -> Database:
    """Return the database of a YCSB binding. Raises `BAD_TARGET`, `YCSB_BAD_PROPERTY` or `YCSB_NEEDS`."""
    if binding == "jdbc":
        binding = "postgresql" if properties.get("db.url", "").strip().startswith("jdbc:postgresql:") else "mysql"
    # Import the module only on demand, because importing a database driver is slow.
    module = import_module(f"{__name__}.{binding.removesuffix('-async')}")
    opened: Database = module.DATABASE(properties, table)
    return opened


class Database(ABC):
    """The user's database. As in YCSB, only the named table is written to. Nothing is created, emptied or dropped."""

    #: Names of the properties that only this database has. YCSB's general properties are not included.
    PROPERTIES: ClassVar[frozenset[str]]
    #: Address and database, without the password.
    shown: str

    @abstractmethod
    def __init__(self, properties: Properties, table: str) -> None:
        """Read the properties. Raises `BAD_TARGET` or `YCSB_BAD_PROPERTY`."""

    @abstractmethod
    def endpoint(self) -> Endpoint:
        """Return the address and settings with which the load generator (the engine) reaches the table."""

    @abstractmethod
    def holds_records(self, fields: int) -> bool:
        """Return whether the table contains records. Raises `CostofError` if it cannot be read.

        `fields`: the number of fields of a record. If the table is missing, the error suggests a CREATE TABLE
        with this number of fields.
        """

    def unused_options(self) -> list[str]:
        return []


NAME = re.compile(r"[A-Za-z0-9_$]{1,64}")


class JdbcDatabase(Database):
    """A database with the properties `db.url`, `db.user` and `db.passwd`."""

    PROPERTIES = frozenset({"db.url", "db.user", "db.passwd"})
    SCHEMES: ClassVar[tuple[str, ...]]
    PORT: ClassVar[int]
    EXAMPLE: ClassVar[str]
    #: Names of URL options that have an effect, in lower case.
    USED_OPTIONS: ClassVar[frozenset[str]]

    def __init__(self, properties: Properties, table: str) -> None:
        if "db.url" not in properties:
            raise CostofError(ErrorText.YCSB_NEEDS, what="the server's address", option=f"db.url={self.EXAMPLE}")
        parts = self._split(properties["db.url"].strip().removeprefix("jdbc:"))
        self._host, self._port = self._place(parts)
        self._database, self._table = unquote(parts.path.strip("/")), table
        for name, text in (("the database of db.url", self._database), ("table", table)):
            if not NAME.fullmatch(text):
                raise CostofError(ErrorText.YCSB_BAD_PROPERTY, name=name, allowed="a name of letters, digits, _ and $")
        self._options = {name.lower(): value for name, value in parse_qsl(parts.query, keep_blank_values=True)}
        self._user = properties.get("db.user") or self._options.get("user") or parts.username or ""
        password = properties.get("db.passwd") or self._options.get("password")
        self._password = (SecretStr(password) if password else parts.password) or SecretStr("")
        login = login_shown(parts.username, parts.password is not None)
        self.shown = f"{parts.scheme}://{login}{host_shown(self._host, self._port)}/{self._database}"

    def unused_options(self) -> list[str]:
        return [name for name in self._options if name not in self.USED_OPTIONS]

    @property
    def address(self) -> str:
        return host_shown(self._host, self._port)

    def missing_table(self, statement: str) -> CostofError:
        return CostofError(ErrorText.YCSB_TABLE_MISSING, table=self._table, target=self.shown, statement=statement)

    def _split(self, url: str) -> UrlParts:
        try:
            return split_url(url, self.EXAMPLE)
        except UrlError as error:
            raise _bad(str(error)) from None

    def _place(self, parts: UrlParts) -> tuple[str, int]:
        if parts.scheme not in self.SCHEMES:
            raise _bad(f"write it as {self.EXAMPLE}")
        try:
            return split_host(parts.hosts, self.PORT)
        except UrlError as error:
            raise _bad(str(error)) from None


def columns(fields: int) -> str:
    return "YCSB_KEY VARCHAR(255) PRIMARY KEY, " + ", ".join(f"FIELD{number} TEXT" for number in range(fields))


def _bad(detail: str) -> CostofError:
    return CostofError(ErrorText.BAD_TARGET, study="ycsb", detail=detail)
