"""The base class of parts: optional features of a lab's PostgreSQL, such as an audit log or a standby."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costof.programs.audit import ServerLog
from costof.programs.parts import Configuration, ServerPart

if TYPE_CHECKING:
    from costof.programs.postgres.lab import PostgresServer


class PostgresPart(ServerPart[Configuration]):
    server: PostgresServer

    def initdb_options(self) -> list[str]:
        return []

    def access_rules(self, rules: str) -> str:
        """Return the rules of pg_hba.conf with the changes that this feature requires."""
        return rules

    def initialised(self) -> None:
        """Do the work that requires a complete data folder (after initdb) and must be done before the server starts."""

    def log(self) -> ServerLog | None:
        """Return the server's log if this feature sends it elsewhere, such as to syslog; else None."""
        return None

    def session_options(self) -> list[str]:
        """Return options for the run's own sessions. Clients' sessions do not have these options."""
        return []

    def reads_records(self) -> bool:
        """Return whether clients read YCSB's records, which must then exist before the measurement."""
        return False
