"""What an instrument is told of a PostgreSQL server."""

from __future__ import annotations

from typing import Literal

from costof.ipc.plan import ServiceSettings
from costof.model import Secret


class PostgresSettings(ServiceSettings):
    """Who logs in, what is asked, and how. `scale` is pgbench's: so many branches, and ten times as many tellers."""

    protocol: Literal["postgres"] = "postgres"
    username: str
    password: Secret | None = None
    database: str
    search_path: str | None = None
    table: str | None = None
    scale: int | None = None
    statements: Literal["simple", "extended", "prepared"] | None = None
    results: Literal["text", "binary"] | None = None
    negotiation: Literal["request", "direct"] | None = None
    channel_binding: bool | None = None
