"""What an instrument is told of a MySQL or MariaDB server."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from costof.messages.plan import ServiceSettings
from costof.model import Model, Secret


class Decryption(Model):
    """What a client must have to decrypt a gateway's columns.

    `must_be_encrypted`: 'database.table.column', each of which comes encrypted or is an error.
    """

    master_keys: dict[str, Secret] = Field(description="By their names in the gateway's rules.")
    must_be_encrypted: list[str] = Field(default_factory=list)


class MysqlSettings(ServiceSettings):
    """Who logs in, what is asked, and how. `table` is of no use to TPC-C, which has its own."""

    protocol: Literal["mysql"] = "mysql"
    username: str | None = None
    password: Secret | None = None
    database: str
    table: str | None = None
    statements: Literal["prepared", "text"] = "prepared"
    decryption: Decryption | None = None
