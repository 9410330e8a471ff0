"""A MariaDB server of the run's own: its own data, port and Unix socket, never the system's instance.

Plain and TLS are one process on one port, and its key is changed in place (`FLUSH SSL`), so that the arms use the very
same server. It takes TLS 1.0 to 1.3 and every suite its OpenSSL has, with keys from 1024 bits on: which of them an arm
gets is the client's choice, as it was in the published procedure.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import socket
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pymysql
from pymysql.cursors import Cursor
from pymysql.err import MySQLError

from costof.errors import CostofError, Problem
from costof.lab.certificates import Authority, write_private
from costof.lab.host import Host
from costof.lab.lab import Lab
from costof.lab.programs import UNPACKED, find_program, first_words
from costof.plan import Plan, PlannedArm
from costof.service import Counters, Description, LoadData, Service
from costof.transport import transport_of

PACKAGE = "mariadb-server-core"
PORT = 3306
DATABASE = "costof"
USER = "costof"
ED25519_USER = "costof_ed25519"
ED25519_PLUGIN = "auth_ed25519.so"
DEFAULT_KEY = "rsa-2048"
PROBE_SECONDS = 5.0

# What differs from MariaDB's defaults, and why. No binary log, performance schema or query cache are its defaults.
SETTINGS = {
    # No reverse look-up of the client's address within a measured connection.
    "skip-name-resolve": "ON",
    # Enough for hundreds of one-thread sequences side by side over far links.
    "max-connections": "1000",
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
    words = first_words([str(binary), "--no-defaults", "--version"], PACKAGE).split()
    return words[words.index("Ver") + 1] if "Ver" in words else " ".join(words)


class MariadbServer:
    """One `mariadbd` in a lab. `start` it, `show_key` for an arm, read `counters`, `close`; the lab ends it.

    `addresses` are where clients reach it, one for each link of its `host`, and are in its certificates; `bind` is what
    it listens on (the first address, or 0.0.0.0 in a namespace of its own). `keys` are the kinds of key it can show,
    the first one from the start.
    """

    def __init__(
        self,
        lab: Lab,
        authority: Authority,
        addresses: Sequence[str],
        *,
        bind: str | None = None,
        port: int = PORT,
        keys: Sequence[str] = (DEFAULT_KEY,),
        name: str = "mariadb",
        host: Host | None = None,
    ) -> None:
        self.addresses = list(addresses)
        self.port = port
        self.name = name
        self.password = secrets.token_urlsafe(24)
        self.version = ""
        self.tls_library = ""
        self.has_ed25519 = False
        self._lab = lab
        self._authority = authority
        self._bind = bind or self.address
        self._kinds = list(keys)
        self._host = host
        self._admin: pymysql.Connection[Cursor] | None = None
        self._tls_before_flush = 0
        self._key = self._kinds[0]

    def start(self) -> None:
        """Make the system tables and the users, start the server and wait until it answers.

        Raises `PROGRAM_MISSING` or `LAB_FAILED`.
        """
        binary = find_mariadbd()
        self.version = mariadbd_version(binary)
        self._folder.mkdir(mode=0o700)
        self._certificates = {
            kind: self._authority.issue(self.name, kind, [*self.addresses, self.name, "localhost"])
            for kind in self._kinds
        }
        self._install_certificate()
        self._bootstrap(binary)
        (self._folder / "openssl.cnf").write_text(OPENSSL_CONFIGURATION)
        environment = {"OPENSSL_CONF": str(self._folder / "openssl.cnf")}
        log = self._lab.spawn(self.name, self.name, self.command_line(binary), environment, host=self._host).log
        ready = b"ready for connections"
        self._lab.wait_until(f"starting {self.name}", lambda: ready in log.read_bytes())
        self._log_in()
        self._make_ed25519_user()

    def close(self) -> None:
        """Leave the server to the lab, which ends it."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def stop(self) -> None:
        """End it at once: the data is the run's own."""
        self.close()
        self._lab.stop(self.name)

    def command_line(self, binary: Path) -> list[str]:
        """Holds no secret: it can be seen by everybody on the machine."""
        return [
            *self._common_options(binary),
            f"--socket={self._socket}",
            f"--pid-file={self._folder / 'mariadbd.pid'}",
            f"--bind-address={self._bind}",
            f"--port={self.port}",
            f"--ssl-cert={self._certificate_file}",
            f"--ssl-key={self._certificate_file}",
            f"--tls-version={TLS_VERSIONS}",
        ]

    @property
    def address(self) -> str:
        """The first of its addresses."""
        return self.addresses[0]

    def endpoint(self, address: str | None = None, port: int | None = None) -> dict[str, Any]:
        """The `service` object of the border's plan, for one of its addresses or a tunnel's entrance.

        Holds the password.
        """
        return {
            "protocol": "mysql",
            "addresses": [f"{address or self.address}:{port or self.port}"],
            "username": USER,
            "password": self.password,
            "database": DATABASE,
        }

    def show_key(self, kind: str) -> None:
        """Show another key from the next connection on; those that stand live on.

        `FLUSH SSL` builds a new TLS context: its counters start at nought, which `counters` makes up for, and tickets
        given before are worth nothing, so that the next connection of a client that resumes is a full handshake.
        """
        if kind == self._key:
            return
        self._key = kind
        self._install_certificate()
        accepted = self._tls_accepted()
        self._query("FLUSH SSL")
        # It has reset the counter, unless this server keeps it.
        self._tls_before_flush += accepted - self._tls_accepted()

    def counters(self) -> Counters:
        """`Connections` and `Ssl_finished_accepts`, the latter under 'TLS': it does not count by version.

        A connection counts when it is accepted, so that those of the lab's own administration (one) are in it.
        """
        status = self.status("Connections")
        return Counters(int(status["Connections"]), {"TLS": self._tls_before_flush + self._tls_accepted()})

    def status(self, pattern: str) -> dict[str, str]:
        """`SHOW GLOBAL STATUS LIKE pattern`."""
        return {row[0]: row[1] for row in self._query("SHOW GLOBAL STATUS LIKE %s", pattern)}

    def facts(self) -> dict[str, str]:
        """What of its settings matters to a reader of a result."""
        return {
            "authentication": "mysql_native_password",
            "TLS": f"{TLS_VERSIONS}, {self.tls_library}; plain on the same port",
            "server settings": ", ".join(f"{name}={value}" for name, value in SETTINGS.items()),
        }

    @property
    def _folder(self) -> Path:
        return self._lab.folder / self.name

    @property
    def _socket(self) -> Path:
        # Short: the name of a socket may have 107 bytes.
        return self._folder / "sock"

    @property
    def _certificate_file(self) -> Path:
        return self._folder / "server.pem"

    def _common_options(self, binary: Path) -> list[str]:
        return [
            # First, or it is not understood: no configuration of the system's instance is read.
            str(binary),
            "--no-defaults",
            f"--basedir={_base(binary)}",
            f"--datadir={self._folder / 'data'}",
            f"--user={_os_user()}",
            *_plugin_options(binary),
            *(f"--{name}={value}" for name, value in SETTINGS.items()),
        ]

    def _install_certificate(self) -> None:
        write_private(self._certificate_file, self._certificates[self._key].read_bytes())

    def _bootstrap(self, binary: Path) -> None:
        """mariadb-install-db does the same and more, but needs a program of the client's package."""
        (self._folder / "data").mkdir(mode=0o700)
        statements = self._folder / "bootstrap.sql"
        # A file of mode 0600 on its standard input: the password is in no command line and no environment.
        write_private(statements, self._bootstrap_statements(binary).encode())
        # Through the shell for the redirection: what the warden starts has no standard input.
        program, first, *options = self._common_options(binary)
        redirected = ["/bin/sh", "-c", 'exec "$@" <"$0"', str(statements), program, first, "--bootstrap", *options]
        self._lab.run(f"{self.name}-bootstrap", redirected)
        statements.unlink()

    def _bootstrap_statements(self, binary: Path) -> str:
        tables = "\n".join((_sql_folder(binary) / name).read_text() for name in SYSTEM_TABLES)
        return (
            f"CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket={_quoted(_os_user())};\n{tables}\n"
            # Until then, bootstrapping knows no users.
            "FLUSH PRIVILEGES;\n"
            f"CREATE DATABASE {DATABASE};\n"
            f"CREATE USER {USER} IDENTIFIED VIA mysql_native_password USING PASSWORD({_quoted(self.password)});\n"
            f"GRANT ALL ON {DATABASE}.* TO {USER};\n"
        )

    def _log_in(self) -> None:
        # The socket's other end tells who we are, so that the administrator has no password to lose.
        try:
            self._admin = pymysql.connect(
                unix_socket=str(self._socket),
                user=_os_user(),
                # PyMySQL takes TLS where it is offered; it would be counted, and there is nothing to protect.
                ssl_disabled=True,
                autocommit=True,
                read_timeout=60,
                write_timeout=60,
            )
        except MySQLError as error:
            raise CostofError(Problem.LAB_FAILED, detail=f"{self.name}: {error}") from error
        self.tls_library = self._query("SELECT @@version_ssl_library")[0][0]

    def _make_ed25519_user(self) -> None:
        """Where the server has the plugin (it comes in another package than the server itself)."""
        with contextlib.suppress(MySQLError):
            self._run("INSTALL SONAME 'auth_ed25519'")
            self._run(f"CREATE USER {ED25519_USER} IDENTIFIED VIA ed25519 USING PASSWORD(%s)", self.password)
            self._run(f"GRANT ALL ON {DATABASE}.* TO {ED25519_USER}")
            self.has_ed25519 = True

    def _tls_accepted(self) -> int:
        return int(self.status("Ssl_finished_accepts")["Ssl_finished_accepts"])

    def _query(self, statement: str, *values: str) -> Sequence[tuple[str, ...]]:
        try:
            return self._run(statement, *values)
        except MySQLError as error:
            raise CostofError(Problem.LAB_FAILED, detail=f"{self.name}: {error}") from error

    def _run(self, statement: str, *values: str) -> Sequence[tuple[str, ...]]:
        if self._admin is None:
            raise CostofError(Problem.LAB_FAILED, detail=f"{self.name} is not running")
        with self._admin.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall()


class MariadbLab(Service):
    """One `mariadbd` on a loopback address; plain and TLS."""

    measures_cpu = True

    def __init__(self, plan: Plan) -> None:
        self._arms = plan.arms
        self._lab = Lab()

    def __enter__(self) -> Self:
        self._lab.__enter__()
        try:
            kinds = list(dict.fromkeys(arm.levels["key"] for arm in self._arms if "key" in arm.levels))
            self._authority = Authority(self._lab.folder / "certificates")
            self._server = MariadbServer(
                self._lab, self._authority, [self._lab.address(1)], keys=kinds or [DEFAULT_KEY]
            )
            self._server.start()
        except BaseException as error:
            self._lab.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self._lab.__exit__(kind, error, trace)

    def endpoint(self, arm: PlannedArm) -> dict[str, Any]:
        return {
            "service": self._server.endpoint(),
            "transport": transport_of(arm.levels, self._authority.ca_file),
        }

    def prepare(self, arm: PlannedArm, load: LoadData) -> None:
        load(arm)

    def writes(self) -> list[str]:
        return [f"the lab's own server: database {DATABASE}, removed with the lab"]

    def arrange(self, arm: PlannedArm) -> None:
        if "key" in arm.levels:
            self._server.show_key(arm.levels["key"])

    def counters(self, server: str) -> Counters:
        return self._server.counters()

    def cpu_seconds(self) -> dict[str, float]:
        return self._lab.cpu_seconds()

    def lost(self) -> str | None:
        for process in self._lab.dead():
            return f"the lab's {process.name} ended in the middle of the run (status {process.exit_status})"
        return None

    def describe(self) -> Description:
        return Description(
            versions={"mariadbd": self._server.version},
            topology="one server on loopback",
            facts=self._server.facts(),
        )

    @property
    def process_ids(self) -> dict[str, int]:
        """Pids of the servers by role."""
        return {process.role: process.pid for process in self._lab.processes.values()}


def service(plan: Plan) -> Service:
    return MariadbLab(plan)


def greets(address: str, port: int, host: Host | None = None) -> bool:
    """Whether a MySQL server says its greeting there, asked from `host`: the condition on which a tunnel stands."""
    try:
        with host.socket() if host else socket.socket() as probe:
            probe.settimeout(PROBE_SECONDS)
            probe.connect((address, port))
            # Three bytes of length, a sequence number, then the protocol's version.
            return probe.recv(5, socket.MSG_WAITALL)[4:5] == b"\x0a"
    except OSError:
        return False


# Only what a server needs to start; the help, the sys schema and the test database take time and serve nobody here.
SYSTEM_TABLES = ("mysql_system_tables.sql", "mysql_system_tables_data.sql")


def _sql_folder(binary: Path) -> Path:
    share = _base(binary) / "share"
    for folder in (share / "mysql", share / "mariadb", share):
        if (folder / SYSTEM_TABLES[0]).is_file():
            return folder
    detail = f"{SYSTEM_TABLES[0]}, which makes its system tables, is nowhere under {share}"
    raise CostofError(
        Problem.PROGRAM_MISSING, program="mariadbd", detail=detail, package=PACKAGE, variable="COSTOF_MARIADBD"
    )


def _base(binary: Path) -> Path:
    """Where it is installed: the folder above bin or sbin."""
    return binary.resolve().parent.parent


def _plugin_options(binary: Path) -> list[str]:
    """client_ed25519 needs a plugin of the server that comes in another package: see scripts/system-packages."""
    installed = _base(binary) / "lib/mysql/plugin" / ED25519_PLUGIN
    if installed.is_file() or not (UNPACKED / ED25519_PLUGIN).is_file():
        return []
    return [f"--plugin-dir={UNPACKED}"]


def _os_user() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
