"""Audit logging in the lab's PostgreSQL: finding and loading the extension pgaudit, and checking its log."""

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
from costof.programs.audit import AuditLog, ServerLog, entries_mismatch, statements_sent
from costof.programs.parts import ServerConfiguration
from costof.programs.postgres.parts import PostgresPart

LIBRARY = "pgaudit"
CLASSES = "pgaudit.log"
#: The line of an entry (pgaudit's README, "Format"), with a prefix from the server or from syslog.
ENTRY = re.compile(r"^.*AUDIT: SESSION,\d+,\d+,([A-Z_]+),.*$", re.MULTILINE)
#: costof's names for pgaudit's classes of statements, without classes that no workload sends.
CLASS_NAMES = {"READ": "read", "WRITE": "write", "MISC": "misc", "DDL": "ddl", "FUNCTION": "function", "ROLE": "role"}
#: The logging collector's folder, a subfolder of the data folder, and the log file in it.
COLLECTED_FOLDER = "audit-log"
COLLECTED_FILE = "postgres.log"

LogDestination = Literal["stderr", "collector", "syslog"]


class AuditConfiguration(ServerConfiguration):
    """The configuration of a server's audit: whether statements are logged, and where the log goes."""

    audit: Literal["off", "loaded"] | None = Field(
        default=None,
        description="Whether pgaudit is loaded. If absent, the log's entries are not counted.",
    )
    log: LogDestination = Field(
        default="stderr",
        description="Who writes the log file: the server's processes themselves, its logging collector, or a syslog "
        "daemon.",
    )

    @property
    def audited(self) -> set[str]:
        if self.audit != "loaded":
            return set()
        named = {name.strip().lower() for name in self.settings.get(CLASSES, "none").split(",")}
        return set(CLASS_NAMES.values()) if "all" in named else named - {"none"}


class Audit(PostgresPart[AuditConfiguration]):
    """The feature of a server that loads pgaudit, sets the log's destination, and checks the log."""

    configuration_type = AuditConfiguration

    @classmethod
    def is_needed(cls, configuration: AuditConfiguration) -> bool:
        return configuration.audit is not None or configuration.log != "stderr"

    def prepare(self) -> None:
        server, lab = self.server, self.server.place.lab
        self._entries = AuditLog(ENTRY, CLASS_NAMES)
        self._log: ServerLog | None = None
        self._prefix: list[str] = []
        if self.configuration.log == "syslog":
            daemon = SyslogDaemon(lab, f"{server.name}-syslog", server.place.host)
            self._log, self._prefix = ServerLog.of_syslog(lab, daemon), daemon.prefix
        elif self.configuration.log == "collector":
            file = LogFile(server.data / COLLECTED_FOLDER / COLLECTED_FILE)
            raise_mark = lambda mark: server.ask(f"DO $$BEGIN RAISE LOG '{mark}'; END$$")  # noqa: E731
            self._log = ServerLog(lab, server.name, file, raise_mark)

    def settings(self) -> dict[str, str]:
        """Return the settings that load pgaudit and choose the destination. Raises `PROGRAM_MISSING`."""
        settings = {}
        if self.configuration.audit == "loaded":
            settings["shared_preload_libraries"] = str(find_pgaudit(self.server.binary).with_suffix(""))
        if self.configuration.log == "syslog":
            settings["log_destination"] = "syslog"
        elif self.configuration.log == "collector":
            settings |= {
                "logging_collector": "on",
                "log_directory": COLLECTED_FOLDER,
                "log_filename": COLLECTED_FILE,
                # The run reads one file from its beginning to its end.
                "log_rotation_age": "0",
                "log_rotation_size": "0",
            }
        return settings

    def prefix(self) -> list[str]:
        return self._prefix

    def log(self) -> ServerLog | None:
        return self._log

    def session_options(self) -> list[str]:
        # Do not log the run's own administrative statements, which would count as entries of clients.
        return ["-c", "pgaudit.log=none"] if self.configuration.audit == "loaded" else []

    def reads_records(self) -> bool:
        return self.configuration.audit is not None

    def started(self) -> None:
        self.server.log.readers.append(self._entries.add)

    def evidence(self) -> dict[str, str]:
        return self.server.show(["shared_preload_libraries"]) if self.configuration.audit else {}

    def readings(self) -> dict[str, float]:
        """Return the number of entries (in total and by class) and their bytes."""
        if self.configuration.audit is None:
            return {}
        self.server.log.read()
        return self._entries.readings()

    def mismatch(self, increases: Mapping[str, float], answer: SliceAnswer) -> str | None:
        """Return how the audit log differs from the sent statements; None if they agree.

        `increases` and `answer` belong to one slice (a measured window).
        """
        place = self.server.place
        sent = statements_sent(place.kind(answer), answer, place.client_statements)
        if self.configuration.audit is None or sent is None:
            return None
        return entries_mismatch(self.configuration.audited, sent, increases, answer, self.server.log.file)


def find_pgaudit(binary: Path) -> Path:
    """Return pgaudit's library for this PostgreSQL. Raises `PROGRAM_MISSING`.

    The server loads the library by its path. CREATE EXTENSION is not needed: without it, only entries of class DDL
    differ: they lack the names of objects.
    """
    installation = binary.resolve().parent.parent
    package = f"postgresql-{installation.name}-pgaudit"
    # `binary` may be a script that `costof fetch` has written. The library is then not beside the script but in
    # `fetched`, the folder with the unpacked package.
    fetched = fetched_folder("postgres") / FILES / "usr/lib/postgresql" / installation.name / "lib"
    return find_library(LIBRARY, package, [installation / "lib", UNPACKED, fetched])
