"""pgaudit in the lab's PostgreSQL: where the extension is, how it is loaded, and what is expected in its log."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import Field

from costof.lab.debian import FILES, fetched_folder
from costof.lab.program import UNPACKED, find_library
from costof.programs.server import ServerConfiguration

LIBRARY = "pgaudit"
CLASSES = "pgaudit.log"
#: An entry (pgaudit's README, "Format"). In a line it follows the prefix of the server or of syslog.
ENTRY = re.compile(r"^.*AUDIT: SESSION,\d+,\d+,([A-Z_]+),.*$", re.MULTILINE)
#: Classes of entries. Statements of these classes are all that the workloads send.
CLASS_NAMES = {"READ": "read", "WRITE": "write", "MISC": "misc", "DDL": "ddl", "FUNCTION": "function", "ROLE": "role"}
#: The file of the logging collector, in a folder of its own in the data folder.
COLLECTED_FOLDER = "audit-log"
COLLECTED_FILE = "postgres.log"

LogDestination = Literal["stderr", "collector", "syslog"]


class AuditConfiguration(ServerConfiguration):
    """Whether a server audits statements, and where its log goes."""

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
        """The classes of statements that get an entry."""
        if self.audit != "loaded":
            return set()
        named = {name.strip().lower() for name in self.settings.get(CLASSES, "none").split(",")}
        return set(CLASS_NAMES.values()) if "all" in named else named - {"none"}


def find_pgaudit(binary: Path) -> Path:
    """Return pgaudit's library for this PostgreSQL. Raises `PROGRAM_MISSING`.

    It needs not be among the server's own extensions, since the server loads it by its path. Without CREATE EXTENSION,
    only the names of objects are missing in entries of class DDL.
    """
    installation = binary.resolve().parent.parent
    package = f"postgresql-{installation.name}-pgaudit"
    # The program that `costof fetch` leaves is a script beside the folder of the package's files.
    fetched = fetched_folder("postgres") / FILES / "usr/lib/postgresql" / installation.name / "lib"
    return find_library(LIBRARY, package, [installation / "lib", UNPACKED, fetched])


def audit_settings(configuration: AuditConfiguration, binary: Path) -> dict[str, str]:
    """Return the server settings that load pgaudit and choose the destination of the log. Raises `PROGRAM_MISSING`."""
    settings = {}
    if configuration.audit == "loaded":
        settings["shared_preload_libraries"] = str(find_pgaudit(binary).with_suffix(""))
    if configuration.log == "syslog":
        settings["log_destination"] = "syslog"
    elif configuration.log == "collector":
        settings |= {
            "logging_collector": "on",
            "log_directory": COLLECTED_FOLDER,
            "log_filename": COLLECTED_FILE,
            # The run reads one file from its beginning to its end.
            "log_rotation_age": "0",
            "log_rotation_size": "0",
        }
    return settings
