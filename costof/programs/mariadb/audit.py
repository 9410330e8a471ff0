"""Audit logging in the lab's MariaDB: finding and loading the plugin server_audit, and checking its log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from costof.lab.debian import FILES, fetched_folder
from costof.lab.log_file import LogFile
from costof.lab.program import UNPACKED, find_library
from costof.lab.syslog import SyslogDaemon
from costof.messages.answers import SliceAnswer
from costof.programs.audit import OF_CLASS, AuditLog, ServerLog, entries_mismatch, statements_sent
from costof.programs.mariadb.parts import MariadbPart
from costof.programs.mariadb.versions import base_folder
from costof.programs.parts import ServerConfiguration

LIBRARY = "server_audit"
PACKAGE = "mariadb-server"
PREFIX = "server-audit-"
EVENTS = "server-audit-events"
LOGGING = "server-audit-logging"
#: The line of an entry of the audit log. Its fields are time, server, user, host, connection ID, query ID, operation,
#: database and, if the operation is QUERY, the statement's text. In a line from syslog, syslog's fields come first.
ENTRY = re.compile(r"^.*?,\d+,\d+,(?:QUERY,[^,]*,'\s*(\w+)|([A-Z_]+),).*$", re.MULTILINE)
#: Maps the first word of an entry's statement, such as 'SELECT', to the entry's class. For an entry without a
#: statement, the key is the operation, such as 'READ'.
CLASSES = {
    "SELECT": "read",
    **dict.fromkeys(("INSERT", "UPDATE", "DELETE", "REPLACE"), "write"),
    **dict.fromkeys(("COMMIT", "ROLLBACK", "START", "BEGIN", "SET"), "misc"),
    **dict.fromkeys(("READ", "WRITE"), "table"),
    **dict.fromkeys(("CREATE", "ALTER", "DROP"), "ddl"),
}
#: The classes of statements that get an entry, for each value of the setting `EVENTS`. Without this setting, all
#: classes get entries.
CLASSES_OF_EVENTS = {
    "QUERY": {"read", "write", "misc", "ddl"},
    "QUERY_DDL": {"ddl"},
    "QUERY_DML": {"read", "write"},
    "QUERY_DML_NO_SELECT": {"write"},
    "TABLE": {"table"},
}
#: For each class of statements, the names of the counters in SHOW STATUS that count its statements.
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
COUNTED = "statements_"


class AuditConfiguration(ServerConfiguration):
    """The configuration of a server's audit: whether statements are logged, and where the log goes."""

    audit: Literal["off", "loaded"] | None = Field(
        default=None, description="Whether server_audit is loaded. If absent, the log's entries are not counted."
    )
    log: Literal["file", "syslog"] = Field(
        default="file", description="Who writes the log file: the server itself, or a syslog daemon."
    )

    @property
    def audited(self) -> set[str]:
        if self.audit != "loaded" or self.settings.get(LOGGING, "ON").upper() != "ON":
            return set()
        events = [event.strip().upper() for event in self.settings.get(EVENTS, "").split(",") if event.strip()]
        return set().union(*(CLASSES_OF_EVENTS.get(event, set()) for event in events or CLASSES_OF_EVENTS))


class Audit(MariadbPart[AuditConfiguration]):
    """The feature of a server that loads the audit plugin and checks the plugin's log.

    The temporary server that creates the system tables does not load the plugin: it gets only `early_options`, which do
    not include the plugin's options.
    """

    configuration_type = AuditConfiguration
    prefix_of_settings = PREFIX

    @classmethod
    def is_needed(cls, configuration: AuditConfiguration) -> bool:
        return configuration.audit is not None

    @property
    def _is_loaded(self) -> bool:
        return self.configuration.audit == "loaded"

    def prepare(self) -> None:
        server, lab = self.server, self.server.lab
        self._entries = AuditLog(ENTRY, CLASSES)
        self._daemon: SyslogDaemon | None = None
        self.log = ServerLog(lab, server.name, LogFile(self._file))
        if self._is_loaded and self.configuration.log == "syslog":
            self._daemon = SyslogDaemon(lab, f"{server.name}-syslog", server.host)
            self.log = ServerLog.of_syslog(lab, self._daemon)
        self.log.readers.append(self._entries.add)

    def prefix(self) -> list[str]:
        return self._daemon.prefix if self._daemon is not None else []

    def options(self) -> list[str]:
        """Return the options that load the plugin, then its settings. Raises `PROGRAM_MISSING`."""
        settings = {name: value for name, value in self.configuration.settings.items() if name.startswith(PREFIX)}
        if self._is_loaded:
            library = find_server_audit(base_folder(self.server.binary))
            settings = {
                "plugin-dir": str(library.parent),
                "plugin-load-add": library.name,
                LOGGING: "ON",
                # Do not log the run's own administrative statements, which would count as entries of clients.
                f"{PREFIX}excl-users": self.server.administrator,
                f"{PREFIX}file-path": str(self._file),
                # The run reads one file from its beginning to its end.
                f"{PREFIX}file-rotations": "0",
                f"{PREFIX}output-type": "syslog" if self._daemon is not None else "file",
                **settings,
            }
        return [f"--{name}={value}" for name, value in settings.items()]

    def readings(self) -> dict[str, float]:
        """Return the number of entries (in total and by class), their bytes, and the server's counts of statements."""
        status = self.server.status("Com\\_%")
        counted = {
            f"{COUNTED}{name}": float(sum(int(status.get(each, 0)) for each in names))
            for name, names in COUNTERS.items()
        }
        if self._is_loaded:
            self.log.read()
        return counted | self._entries.readings()

    def mismatch(self, increases: Mapping[str, float], answer: SliceAnswer) -> str | None:
        """Return how the audit log differs from the counted statements; None if they agree.

        `increases` and `answer` belong to one slice (a measured window).
        """
        place = self.server.place
        kind = place.kind(answer)
        counted = {name: int(increases.get(f"{COUNTED}{name}", 0)) for name in COUNTERS}
        sent = statements_sent(kind, answer, place.client_statements)
        if kind == "tpcc":
            # TPC-C's client counts all its statements together. The server counts the reads and the writes separately.
            # All other statements are COMMIT or ROLLBACK.
            others = (answer.count("tpcc.statements") or 0) - sum(counted.values())
            sent = {**counted, "misc": others}
        if sent is None:
            return None
        for name, count in counted.items():
            if count < sent.get(name, 0):
                return f"the server counted {count:,} of {sent[name]:,} statements of class {name}"
        audited = self.configuration.audited
        if "table" in audited:
            # Each statement has an entry of class 'table' for every table that it uses. The number of tables is
            # unknown, so accept one entry per statement or more.
            tables, fewest = int(increases.get(f"{OF_CLASS}table", 0)), sum(counted.values())
            sent = {**sent, "table": max(tables, fewest)}
        return entries_mismatch(audited, sent, increases, answer, self.log.file)

    def facts(self) -> dict[str, str]:
        return {"audit plugin": LIBRARY} if self._is_loaded else {}

    @property
    def _file(self) -> Path:
        return self.server.folder / "audit.log"


def find_server_audit(base: Path) -> Path:
    """Return the plugin's library. `base` is the server's installation. Raises `PROGRAM_MISSING`."""
    plugins, fetched = "lib/mysql/plugin", fetched_folder("mariadbd") / FILES / "usr"
    return find_library(LIBRARY, PACKAGE, [base / plugins, UNPACKED, fetched / plugins])
