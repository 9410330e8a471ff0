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
        """Return `rules`, the lines of pg_hba.conf, with the changes that this feature requires."""
        return rules

    def initialised(self) -> None:
        """Do this feature's work between initdb, which creates the data folder, and the server's start."""

    def log(self) -> ServerLog | None:
        """Return the server's log if this feature redirects it, for example to syslog; otherwise None."""
        return None

    def session_options(self) -> list[str]:
        """Return options for the run's own sessions. Clients' sessions do not get them."""
        return []

    def reads_records(self) -> bool:
        """Return whether clients read YCSB's records, which must then exist before the measurement."""
        return False
