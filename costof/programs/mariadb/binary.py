"""The program `mariadbd`: where it and its files are, and the settings that the lab starts it with."""

from __future__ import annotations

from pathlib import Path

from costof.errors import CostofError, Problem
from costof.lab.program import UNPACKED, find_program, first_words

PACKAGE = "mariadb-server-core"
ED25519_PLUGIN = "auth_ed25519.so"

# What differs from MariaDB's defaults, and why. No binary log, performance schema or query cache are its defaults.
SETTINGS = {
    # No reverse look-up of the client's address within a measured connection.
    "skip-name-resolve": "ON",
    # Enough for hundreds of one-thread sequences side by side over far links.
    "max-connections": "1000",
    # TPC-C's terminals prepare 53 statements each, and those of all arms stand through the run.
    "max-prepared-stmt-count": "1048576",
    # Room for the data of a study, in a lab that shares the machine; pages are taken as they are used.
    "innodb-buffer-pool-size": "256M",
    # Written whole when the server is made: the default of 96M only takes time.
    "innodb-log-file-size": "32M",
    # Kernel-wide limits on asynchronous I/O are shared with other runs; a read from the buffer pool needs none.
    "innodb-use-native-aio": "OFF",
    # From 2 on, each client that hangs up without a COM_QUIT costs a line in the log.
    "log-warnings": "1",
    # The pool is the run's own and goes with it.
    "innodb-buffer-pool-dump-at-shutdown": "OFF",
    "innodb-buffer-pool-load-at-startup": "OFF",
}
TLS_VERSIONS = "TLSv1.0,TLSv1.1,TLSv1.2,TLSv1.3"

# Of this process alone (OPENSSL_CONF). Security level 0 lets keys of 1024 bits and SHA-1 signatures of TLS 1.0 through.
OPENSSL_CONFIGURATION = """\
openssl_conf = openssl_init

[openssl_init]
ssl_conf = ssl_configuration

[ssl_configuration]
system_default = lenient

[lenient]
MinProtocol = TLSv1
CipherString = DEFAULT:@SECLEVEL=0
"""


def find_mariadbd() -> Path:
    """COSTOF_MARIADBD, or the distribution's. Raises `PROGRAM_MISSING`."""
    return find_program("mariadbd", PACKAGE)


def mariadbd_version(binary: Path) -> str:
    """Such as '10.11.19-MariaDB-0+deb12u1'. Raises `PROGRAM_MISSING` when it does not run."""
    words = first_words([str(binary), "--no-defaults", "--version"], "mariadbd", PACKAGE).split()
    return words[words.index("Ver") + 1] if "Ver" in words else " ".join(words)


# Only what a server needs to start; the help, the sys schema and the test database take time and serve nobody here.
SYSTEM_TABLES = ("system_tables.sql", "system_tables_data.sql")


def system_tables(binary: Path) -> list[Path]:
    """The files that make and fill its system tables. Raises `PROGRAM_MISSING`."""
    share = base_folder(binary) / "share"
    for folder in (share / "mysql", share / "mariadb", share):
        # MariaDB 10.11 has the older names, 11.8 the newer.
        for prefix in ("mariadb", "mysql"):
            files = [folder / f"{prefix}_{name}" for name in SYSTEM_TABLES]
            if all(file.is_file() for file in files):
                return files
    detail = f"mariadb_{SYSTEM_TABLES[0]}, which makes its system tables, is nowhere under {share}"
    raise CostofError(
        Problem.PROGRAM_MISSING, program="mariadbd", detail=detail, package=PACKAGE, variable="COSTOF_MARIADBD"
    )


def base_folder(binary: Path) -> Path:
    """Where it is installed: the folder above bin or sbin."""
    return binary.resolve().parent.parent


def plugin_options(binary: Path) -> list[str]:
    """client_ed25519 needs a plugin of the server that comes in another package: see scripts/system-packages."""
    installed = base_folder(binary) / "lib/mysql/plugin" / ED25519_PLUGIN
    if installed.is_file() or not (UNPACKED / ED25519_PLUGIN).is_file():
        return []
    return [f"--plugin-dir={UNPACKED}"]
