"""Encryption at rest by MariaDB's plugin file_key_management, and a search for readable data in the server's files.

A server writes user data to four kinds of files (stores). Each store has its own settings for encryption. The run
verifies the encryption with a canary, a random text that the lab stores by SQL: the canary must be readable in the
files of each plain store, and in no file of an encrypted store.
"""

from __future__ import annotations

import secrets
import stat
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

from pydantic import Field
from pymysql.cursors import SSCursor
from pymysql.err import MySQLError

from costof.errors import CostofError, ErrorText
from costof.format import listed
from costof.lab.certificates import write_private
from costof.lab.program import UNPACKED, find_library
from costof.messages.answers import SliceAnswer
from costof.programs.canary import deleted_files, files_in, files_with, new_canary
from costof.programs.mariadb.parts import MariadbPart
from costof.programs.mariadb.versions import base_folder
from costof.programs.parts import ServerConfiguration

Store = Literal["tablespaces' files", "redo log", "temporary files", "binary log"]
SETTINGS: dict[Store, dict[str, str]] = {
    "tablespaces' files": {
        # With FORCE, no table can be created without encryption.
        "innodb-encrypt-tables": "FORCE",
        # The server creates some tablespaces unencrypted at its first start. These threads encrypt them later.
        "innodb-encryption-threads": "2",
        "aria-encrypt-tables": "ON",
    },
    "redo log": {"innodb-encrypt-log": "ON"},
    "temporary files": {
        "encrypt-tmp-files": "ON",
        "encrypt-tmp-disk-tables": "ON",
        "innodb-encrypt-temporary-tables": "ON",
    },
    "binary log": {"encrypt-binlog": "ON"},
}
#: File patterns of each store, relative to the server's folder. A store is a kind of files with its own settings for
#: encryption. All other files hold no user data, so the canary (a random text that is stored by SQL) must never be in
#: them.
FILES: dict[Store, tuple[str, ...]] = {
    "tablespaces' files": ("data/*.ibd", "data/ibdata*", "data/undo*", "data/*.MA[DI]", "data/aria_log*"),
    "redo log": ("data/ib_logfile*",),
    "temporary files": ("temporary/*", "data/ibtmp*"),
    "binary log": ("data/binlog.*",),
}
#: Settings of the server that are the same with and without encryption.
COMMON = {"log-bin": "binlog", "server-id": "1"}
PLUGIN = "file_key_management"
PLUGIN_PACKAGE = "mariadb-server"
KEY_BYTES = 32
#: The table in which a canary (a random text) is stored while the server's files are searched for it.
TABLE = "canaries"
#: The number of rows with a canary (a random text), and the size of the sort buffer in bytes. The rows do not fit into
#: the buffer, so a sort writes several parts to a temporary file.
ROWS = 2000
SORT_BUFFER = 16384
#: The bytes that the sorting query adds to each row of its result. The result then exceeds the network's buffers, so
#: the server has to keep the sort's temporary file open until the client has read all rows.
PADDING = 10_000
#: The number of pages that the server has read from disk: its name in `readings`, then its name in SHOW STATUS.
PAGES_READ, READ_PAGES = "pages_read", "Innodb_buffer_pool_reads"
UNFINISHED = (
    "SELECT COUNT(*) FROM information_schema.INNODB_TABLESPACES_ENCRYPTION "
    "WHERE MIN_KEY_VERSION = 0 OR ROTATING_OR_FLUSHING"
)


class EncryptionConfiguration(ServerConfiguration):
    """Which stores (kinds of files) a lab's MariaDB server encrypts."""

    encrypt: list[Store] | None = Field(
        default=None,
        description="The stores that the server encrypts. If a list is given, even an empty one, the server writes a "
        "binary log, and the lab searches all its files for a canary.",
    )
    cipher: Literal["AES_CBC", "AES_CTR"] = Field(
        default="AES_CBC", description="The server's `file_key_management_encryption_algorithm`."
    )


class EncryptionAtRest(MariadbPart[EncryptionConfiguration]):
    """The feature of a server that encrypts its files, and a search for a canary (a random text) in these files.

    `leak` is the result of the last search: how it contradicts the configuration; None if it does not.
    """

    configuration_type = EncryptionConfiguration
    leak: str | None = None

    @classmethod
    def is_needed(cls, configuration: EncryptionConfiguration) -> bool:
        return configuration.encrypt is not None

    @property
    def _stores(self) -> Sequence[Store]:
        return self.configuration.encrypt or []

    @property
    def _key_file(self) -> Path:
        return self.server.folder / "keys.txt"

    def prepare(self) -> None:
        write_private(self._key_file, f"1;{secrets.token_hex(KEY_BYTES)}\n".encode())

    def settings(self) -> dict[str, str]:
        algorithm = {"file-key-management-encryption-algorithm": self.configuration.cipher} if self._stores else {}
        return COMMON | algorithm | {name: value for store in self._stores for name, value in SETTINGS[store].items()}

    def early_options(self) -> list[str]:
        """Return the options that load the plugin and the key file. Raises `PROGRAM_MISSING`, `KEY_FILE_UNUSABLE`.

        They must come before all settings of the plugin.
        """
        if not self._stores:
            return []
        if reason := key_file_error(self._key_file):
            raise CostofError(ErrorText.KEY_FILE_UNUSABLE, path=self._key_file, reason=reason)
        plugin = find_plugin(base_folder(self.server.binary))
        return [
            f"--plugin-dir={plugin.parent}",
            f"--plugin-load-add={PLUGIN}",
            f"--file-key-management-filename={self._key_file}",
        ]

    def settle(self) -> None:
        """Wait until the server has encrypted all its tablespaces, if the configuration requires their encryption."""
        if "tablespaces' files" in self._stores:
            is_finished = lambda: int(self.server.ask(UNFINISHED)[0][0]) == 0  # noqa: E731
            self.server.lab.wait_until(f"encrypting the tablespaces of {self.server.name}", is_finished)

    def evidence(self) -> dict[str, str]:
        """Return the settings, and search all files of the server for a new canary (a random text). Sets `leak`."""
        try:
            return self.server.show(self.settings()) | self._search_for_canary()
        except MySQLError as error:
            raise CostofError(ErrorText.LAB_FAILED, detail=f"{self.server.name}: {error}") from error

    def _search_for_canary(self) -> dict[str, str]:
        connection, canary = self.server.connection, new_canary()
        table = f"{self.server.database}.{TABLE}"
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, c VARCHAR(120)) ENGINE=InnoDB")
            rows = ", ".join(f"({number}, '{canary}-{number}')" for number in range(ROWS))
            cursor.execute(f"INSERT INTO {table} VALUES {rows}")  # noqa: S608  # text of our own
            # FLUSH TABLES writes the table's pages to its file now. The server would otherwise write them much later.
            cursor.execute(f"FLUSH TABLES {table} FOR EXPORT")
            cursor.execute("UNLOCK TABLES")
        with connection.cursor(SSCursor) as sorted_rows:
            sorted_rows.execute(
                f"SET STATEMENT sort_buffer_size={SORT_BUFFER} FOR "  # noqa: S608  # text of our own
                f"SELECT c, REPEAT('x', {PADDING}) FROM {table} ORDER BY c"
            )
            # When the first row arrives, the sort is complete. The server keeps the sort's file until the last row is
            # read.
            sorted_rows.fetchone()
            folder, pid = self.server.folder, self.server.lab.processes[self.server.name].pid
            files = {**files_in(folder), **deleted_files(pid, folder)}
            readable = files_with(canary, files)
        with connection.cursor() as cursor:
            cursor.execute(f"DROP TABLE {table}")
        self.leak = contradiction(self._stores, readable)
        found: list[str] = [store for store in FILES if any(is_of(name, store) for name in readable)]
        return {
            "canary": f"readable in the {listed(found)}" if found else f"in none of the server's {len(files)} files"
        }

    def readings(self) -> dict[str, float]:
        return {PAGES_READ: float(self.server.status(READ_PAGES)[READ_PAGES])}

    def mismatch(self, increases: Mapping[str, float], answer: SliceAnswer) -> str | None:
        return self.leak


def key_file_error(path: Path) -> str | None:
    """Return why the server must not use a key file; None if it may use the file."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        return str(error.strerror).lower()
    return f"its mode is {mode:04o}, so other users can read the key" if mode & 0o077 else None


def find_plugin(base: Path) -> Path:
    """Return the plugin's library. `base` is the server's installation. Raises `PROGRAM_MISSING`."""
    return find_library(PLUGIN, PLUGIN_PACKAGE, [base / "lib/mysql/plugin", base / "lib/plugin", UNPACKED])


def contradiction(stores: Iterable[Store], readable: Iterable[str]) -> str | None:
    """Return how a search for a canary contradicts the list of encrypted `stores`; None if it does not.

    A canary is a random text that the lab has stored. `readable` are the files in which it was found, as paths relative
    to the server's folder. The canary must be in files of every unencrypted store, and in no other file.
    """
    encrypted, names = set(stores), list(readable)
    for store in FILES:
        files = [name for name in names if is_of(name, store)]
        if store in encrypted and files:
            return f"the canary is readable in {files[0]}, although the server encrypts its {store}"
        if store not in encrypted and not files:
            return f"the canary is not in the {store}, where it must be readable without encryption"
    others = [name for name in names if not any(is_of(name, store) for store in FILES)]
    return f"the canary is readable in {others[0]}, which must not hold data" if others else None


def is_of(name: str, store: Store) -> bool:
    return any(fnmatch(name, pattern) for pattern in FILES[store])
