"""What an instrument is told of a PostgreSQL server."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from costof.messages.plan import ServiceSettings
from costof.model import Secret


class PostgresSettings(ServiceSettings):
    """Who logs in, what is asked, and how. `scale` is pgbench's: so many branches, and ten times as many tellers.

    `search_path` is the session's. `table_schema` is where pgbench's tables are, whatever that is: a pooler takes none.
    Whether one answers (`pooled`) is for those who call programs; instruments speak to it as to a server.
    """

    protocol: Literal["postgres"] = "postgres"
    username: str
    password: Secret | None = None
    database: str
    search_path: str | None = None
    table_schema: str | None = None
    table: str | None = None
    scale: int | None = None
    statements: Literal["simple", "extended", "prepared"] | None = None
    results: Literal["text", "binary"] | None = None
    negotiation: Literal["request", "direct"] | None = None
    channel_binding: bool | None = None
    pooled: bool = Field(default=False, exclude=True)

    def select(self, parameter: str) -> str:
        """One account's balance, asked by a driver's word for a parameter."""
        schema = f'"{self.table_schema}".' if self.table_schema else ""
        return f"SELECT abalance FROM {schema}pgbench_accounts WHERE aid = {parameter}"  # noqa: S608  # our own name
