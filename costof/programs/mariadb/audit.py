"""server_audit in the lab's MariaDB: where the plugin is, how it is loaded, and what is expected in its log."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import Field

from costof.lab.debian import FILES, fetched_folder
from costof.lab.program import UNPACKED, find_library
from costof.programs.server import ServerConfiguration

LIBRARY = "server_audit"
PACKAGE = "mariadb-server"
#: The prefix of the plugin's settings.
PREFIX = "server-audit-"
EVENTS = "server-audit-events"
LOGGING = "server-audit-logging"
#: An entry has the fields user, host, connection, query, operation, database and, of a statement, its text. In a file a
#: time and the server's name precede them, in a message to syslog also the fields of syslog.
ENTRY = re.compile(r"^.*?,\d+,\d+,(?:QUERY,[^,]*,'\s*(\w+)|([A-Z_]+),).*$", re.MULTILINE)
#: The classes of entries by the statement's first word, or by the operation.
CLASSES = {
    "SELECT": "read",
    **dict.fromkeys(("INSERT", "UPDATE", "DELETE", "REPLACE"), "write"),
    **dict.fromkeys(("COMMIT", "ROLLBACK", "START", "BEGIN", "SET"), "misc"),
    **dict.fromkeys(("READ", "WRITE"), "table"),
    **dict.fromkeys(("CREATE", "ALTER", "DROP"), "ddl"),
}
#: The classes that each event of `EVENTS` audits. Without events, all are audited.
CLASSES_OF_EVENTS = {
    "QUERY": {"read", "write", "misc", "ddl"},
    "QUERY_DDL": {"ddl"},
    "QUERY_DML": {"read", "write"},
    "QUERY_DML_NO_SELECT": {"write"},
    "TABLE": {"table"},
}
#: The server's own counters of statements, by class (SHOW STATUS).
COUNTERS = {
    "read": ("Com_select",),
    "write": (
        "Com_insert",
        "Com_insert_select",
        "Com_update",
        "Com_update_multi",
        "Com_delete",
        "Com_delete_multi",
        "Com_replace",
        "Com_replace_select",
    ),
}
#: The prefix of the readings of these counters.
COUNTED = "statements_"
FAILED_WRITES = "Server_audit_writes_failed"


class AuditConfiguration(ServerConfiguration):
    """Whether a server audits statements, and where its log goes."""

    audit: Literal["off", "loaded"] | None = Field(
        default=None, description="Whether server_audit is loaded. If absent, the log's entries are not counted."
    )
    log: Literal["file", "syslog"] = Field(
        default="file", description="Who writes the log file: the server itself, or a syslog daemon."
    )

    @property
    def audited(self) -> set[str]:
        """The classes of statements that get an entry."""
        if self.audit != "loaded" or self.settings.get(LOGGING, "ON").upper() != "ON":
            return set()
        events = [event.strip().upper() for event in self.settings.get(EVENTS, "").split(",") if event.strip()]
        return set().union(*(CLASSES_OF_EVENTS.get(event, set()) for event in events or CLASSES_OF_EVENTS))


def find_server_audit(base: Path) -> Path:
    """Return the plugin's library. `base` is the server's installation. Raises `PROGRAM_MISSING`."""
    plugins, fetched = "lib/mysql/plugin", fetched_folder("mariadbd") / FILES / "usr"
    return find_library(LIBRARY, PACKAGE, [base / plugins, UNPACKED, fetched / plugins])
