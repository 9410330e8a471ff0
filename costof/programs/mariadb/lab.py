"""The lab's MariaDB server, with sysbench's data.

All arms (measured variants) use the same server process: it accepts plain and TLS connections on one port and can
change its key while it runs (`FLUSH SSL`). It accepts TLS 1.0 to 1.3, all cipher suites of its OpenSSL, and keys from
1024 bits. The client chooses among these.
"""

from __future__ import annotations

import os
import pwd
import secrets
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pymysql
from pydantic import SecretStr
from pymysql.cursors import Cursor
from pymysql.err import MySQLError

from costof.datasets import tpcc, ycsb
from costof.datasets.sysbench import TABLE, after_load, create_table
from costof.errors import CostofError, ErrorText
from costof.lab.certificates import DEFAULT_KEY, Authority, write_private
from costof.lab.host import Host
from costof.lab.lab import Lab
from costof.lab.program import Counters, Description
from costof.programs.mariadb.audit import Audit
from costof.programs.mariadb.client_certificates import ClientCertificates
from costof.programs.mariadb.connection import MysqlSettings
from costof.programs.mariadb.durability import Durability
from costof.programs.mariadb.encryption_at_rest import EncryptionAtRest
from costof.programs.mariadb.parts import MariadbPart
from costof.programs.mariadb.versions import PACKAGE, Version, base_folder, find_mariadbd, mariadbd_version
from costof.programs.parts import configuration_of, first, merged, needed_parts
from costof.programs.server import LabServer, Place

# Settings that differ from MariaDB's defaults, and why. By default MariaDB has no binary log, performance schema and
# query cache, so they need no setting.
SETTINGS = {
    # The server must not do a reverse DNS look-up of the client's address during a measured connection.
    "skip-name-resolve": "ON",
    # Studies with long round trips need hundreds of concurrent connections.
    "max-connections": "1000",
    # Each of TPC-C's terminals (clients) prepares 53 statements, and the terminals of all arms (measured variants) stay
    # connected through the run.
    "max-prepared-stmt-count": "1048576",
    # 256 MB is enough for the data of a study. The server allocates the memory only when it uses it.
    "innodb-buffer-pool-size": "256M",
    # The server writes the whole file at its first start. The default, 96M, would only take longer.
    "innodb-log-file-size": "32M",
    # Other runs may use up the kernel's limits for asynchronous I/O. The server does not need asynchronous I/O, since
    # it reads from its buffer pool.
    "innodb-use-native-aio": "OFF",
    # From level 2 on, each client that disconnects without COM_QUIT adds a line to the log.
    "log-warnings": "1",
    # The content of the buffer pool is not needed after the run.
    "innodb-buffer-pool-dump-at-shutdown": "OFF",
    "innodb-buffer-pool-load-at-startup": "OFF",
}
#: Connections in addition to the measured clients': for administration, and for tests before a measurement.
RESERVED = 100
TLS_VERSIONS = "TLSv1.0,TLSv1.1,TLSv1.2,TLSv1.3"

# The configuration of OpenSSL in the server's process only (OPENSSL_CONF). Security level 0 permits keys of 1024 bits
# and the SHA-1 signatures of TLS 1.0.
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


# The SQL files that a server needs to start. MariaDB's other files (help tables, sys schema, test database) would only
# delay the start.
SYSTEM_TABLES = ("system_tables.sql", "system_tables_data.sql")


def system_tables(binary: Path) -> list[Path]:
    """Return the SQL files that create and fill the system tables. Raises `PROGRAM_MISSING`."""
    share = base_folder(binary) / "share"
    for folder in (share / "mysql", share / "mariadb", share):
        # MariaDB 10.11 has the prefix mysql, 11.8 mariadb.
        for prefix in ("mariadb", "mysql"):
            files = [folder / f"{prefix}_{name}" for name in SYSTEM_TABLES]
            if all(file.is_file() for file in files):
                return files
    detail = f"no file mariadb_{SYSTEM_TABLES[0]} for its system tables under {share}"
    raise CostofError(
        ErrorText.PROGRAM_MISSING, program="mariadbd", detail=detail, package=PACKAGE, variable="COSTOF_MARIADBD"
    )


def bootstrap_statements(binary: Path, database: str, user: str, password: SecretStr) -> str:
    """Return the SQL for `mariadbd --bootstrap`, including the password. Raises `PROGRAM_MISSING`."""
    tables = "\n".join(file.read_text() for file in system_tables(binary))
    password_hash = f"PASSWORD({quoted(password.get_secret_value())})"
    return (
        f"CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket={quoted(os_user())};\n{tables}\n"
        # This loads the account tables, without which the bootstrapping server refuses CREATE USER.
        "FLUSH PRIVILEGES;\n"
        f"CREATE DATABASE {database};\n"
        f"CREATE USER {user} IDENTIFIED VIA mysql_native_password USING {password_hash};\n"
        f"GRANT ALL ON {database}.* TO {user};\n"
    )


def os_user() -> str:
    """Return the name of the user that runs this process. This user is the server's administrator.

    The server identifies the administrator by the user at the other end of its Unix socket.
    """
    return pwd.getpwuid(os.geteuid()).pw_name


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


PORT = 3306
DATABASE = "costof"
USER = "costof"
ROLE = "server"
PROBE_SECONDS = 5.0
#: The optional features that a server may have. Their methods, such as `prepare`, are called in this order.
PARTS: tuple[type[MariadbPart[Any]], ...] = (Version, EncryptionAtRest, ClientCertificates, Durability, Audit)


class MariadbServer:
    """One `mariadbd` in a lab. The lab stops the process.

    It listens on the first of `addresses`. Its certificates are valid for all of `addresses`. `keys` are the kinds of
    certificate key that it can present, such as 'rsa-2048'; it presents the first one after its start. `settings`
    override the lab's usual settings (`SETTINGS`) and the settings of the server's optional features (`parts`).
    """

    port, database, user = PORT, DATABASE, USER
    parts: Sequence[MariadbPart[Any]] = ()

    def __init__(
        self,
        lab: Lab,
        authority: Authority,
        addresses: Sequence[str],
        *,
        keys: Sequence[str] = (DEFAULT_KEY,),
        name: str = "mariadb",
        host: Host | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.addresses = list(addresses)
        self.address = self.addresses[0]
        self.name = name
        self.password = SecretStr(secrets.token_urlsafe(24))
        self.version = ""
        self.tls_library = ""
        self.lab = lab
        self.host = host
        self.administrator = os_user()
        self._authority = authority
        self._kinds = list(keys)
        self._chosen = dict(settings)
        self._settings = SETTINGS | self._chosen
        self._admin: pymysql.Connection[Cursor] | None = None
        self._tls_before_flush = 0
        self._key = self._kinds[0]

    def start(self) -> None:
        """Create tables and users, start the server, wait for its answer. Raises `PROGRAM_MISSING`, `LAB_FAILED`."""
        self.binary = first(part.find() for part in self.parts) or find_mariadbd()
        self.version = mariadbd_version(self.binary)
        self.folder.mkdir(mode=0o700)
        for part in self.parts:
            part.prepare()
        self._settings = SETTINGS | merged(part.settings() for part in self.parts) | self._chosen
        names = [*self.addresses, self.name, "localhost"]
        self._certificates = self._authority.issue_all(self.name, self._kinds, names)
        self._install_certificate()
        self._bootstrap()
        (self.folder / "openssl.cnf").write_text(OPENSSL_CONFIGURATION)
        environment = {"OPENSSL_CONF": str(self.folder / "openssl.cnf")}
        log = self.lab.spawn(self.name, ROLE, self.command_line(self.binary), environment, host=self.host).log
        ready = b"ready for connections"
        self.lab.wait_until(f"starting {self.name}", lambda: ready in log.read_bytes())
        self._log_in()
        for part in self.parts:
            part.started()

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def stop(self) -> None:
        self.close()
        self.lab.stop(self.name)

    def command_line(self, binary: Path) -> list[str]:
        """Return the command line. It holds no secrets, since all users of the machine can see it."""
        return [
            *(word for part in self.parts for word in part.prefix()),
            *self._common_options(binary),
            f"--socket={self._socket}",
            f"--pid-file={self.folder / 'mariadbd.pid'}",
            f"--bind-address={self.address}",
            f"--port={self.port}",
            f"--ssl-cert={self._certificate_file}",
            f"--ssl-key={self._certificate_file}",
            f"--tls-version={TLS_VERSIONS}",
            *(option for part in self.parts for option in part.options()),
        ]

    @property
    def ca_file(self) -> Path:
        return self._authority.ca_file

    def client_settings(self) -> MysqlSettings:
        return MysqlSettings(
            addresses=[f"{self.address}:{self.port}"],
            username=USER,
            password=self.password,
            database=DATABASE,
        )

    def add_user(self, name: str) -> None:
        """Create another user with all rights on the database and the same password as `USER`. Raises `LAB_FAILED`."""
        password = self.password.get_secret_value()
        self._query(f"CREATE USER {name} IDENTIFIED VIA mysql_native_password USING PASSWORD(%s)", password)
        self._query(f"GRANT ALL ON {DATABASE}.* TO {name}")

    def ask(self, statement: str) -> Sequence[tuple[Any, ...]]:
        """Execute a statement as the administrator, directly at the server. Raises `LAB_FAILED`."""
        return self._query(statement)

    def show(self, settings: Iterable[str]) -> dict[str, str]:
        """Return the values of settings in the running server. Raises `LAB_FAILED`."""
        return {name: str(self.ask(f"SELECT @@{name.replace('-', '_')}")[0][0]) for name in settings}

    def show_key(self, kind: str) -> bool:
        """Present a key of this kind to new connections, and return whether the key has changed.

        Open connections stay open. Session tickets become invalid, so a client that resumes sessions makes a full
        handshake at its next connection.

        `FLUSH SSL` makes a new TLS context, whose counters begin at 0. `counters` adds the earlier counts.
        """
        if kind == self._key:
            return False
        self._key = kind
        self._install_certificate()
        accepted = self._tls_accepted()
        self._query("FLUSH SSL")
        # If the server has not reset its counter, this adds 0.
        self._tls_before_flush += accepted - self._tls_accepted()
        return True

    def counters(self) -> Counters:
        """Return the server's connections and TLS handshakes so far.

        The numbers are the status variables `Connections` and `Ssl_finished_accepts`. The TLS handshakes have the key
        'TLS' because the server does not count them by version. The connections include the lab's one administrative
        connection.
        """
        status = self.status("Connections")
        return Counters(int(status["Connections"]), {"TLS": self._tls_before_flush + self._tls_accepted()})

    def status(self, pattern: str) -> dict[str, str]:
        return {row[0]: row[1] for row in self._query("SHOW GLOBAL STATUS LIKE %s", pattern)}

    def describe(self) -> Description:
        return Description(versions={"mariadbd": self.version}, topology="one server", facts=self.facts())

    def facts(self) -> dict[str, str]:
        return {
            "authentication": "mysql_native_password",
            "TLS": f"{TLS_VERSIONS}, {self.tls_library}; plain on the same port",
            "server settings": ", ".join(f"{name}={value}" for name, value in self._settings.items()),
            **merged(part.facts() for part in self.parts),
        }

    @property
    def folder(self) -> Path:
        return self.lab.folder / self.name

    @property
    def _socket(self) -> Path:
        # The path of a Unix socket may have at most 107 bytes, so the name is short.
        return self.folder / "sock"

    @property
    def _certificate_file(self) -> Path:
        return self.folder / "server.pem"

    def _common_options(self, binary: Path) -> list[str]:
        return [
            str(binary),
            # This must be the first option. With it, the configuration of the system's own server is not read.
            "--no-defaults",
            f"--basedir={base_folder(binary)}",
            f"--datadir={self.folder / 'data'}",
            # Each server needs its own temporary folder: a starting server removes all '#sql' files in the folder.
            f"--tmpdir={self.folder / 'temporary'}",
            f"--user={self.administrator}",
            *(option for part in self.parts for option in part.early_options()),
            *(f"--{name}={value}" for name, value in self._settings.items()),
        ]

    def _install_certificate(self) -> None:
        write_private(self._certificate_file, self._certificates[self._key].read_bytes())

    def _bootstrap(self) -> None:
        """Create the system tables and users, without mariadb-install-db, which needs the client package."""
        for name in ("data", "temporary"):
            (self.folder / name).mkdir(mode=0o700)
        statements = self.folder / "bootstrap.sql"
        # The statements come on standard input from a file of mode 0600, so that the password is neither in a command
        # line nor in the environment.
        text = bootstrap_statements(self.binary, DATABASE, USER, self.password)
        write_private(statements, text.encode())
        # A shell does the redirection: programs that the supervisor starts have no standard input.
        program, no_defaults, *options = self._common_options(self.binary)
        command = [program, no_defaults, "--bootstrap", *options]
        redirected = ["/bin/sh", "-c", 'exec "$@" <"$0"', str(statements), *command]
        self.lab.run(f"{self.name}-bootstrap", redirected)
        statements.unlink()

    def _log_in(self) -> None:
        # No password is needed: the server identifies the administrator by the user at the socket's other end.
        try:
            self._admin = pymysql.connect(
                unix_socket=str(self._socket),
                user=self.administrator,
                # By default, PyMySQL would use TLS, and the server would count this connection as a TLS connection.
                ssl_disabled=True,
                autocommit=True,
                read_timeout=600,
                write_timeout=600,
            )
        except MySQLError as error:
            raise CostofError(ErrorText.LAB_FAILED, detail=f"{self.name}: {error}") from error
        self.tls_library = self._query("SELECT @@version_ssl_library")[0][0]

    def _tls_accepted(self) -> int:
        return int(self.status("Ssl_finished_accepts")["Ssl_finished_accepts"])

    def _query(self, statement: str, *values: str) -> Sequence[tuple[str, ...]]:
        try:
            return self._run(statement, *values)
        except MySQLError as error:
            raise CostofError(ErrorText.LAB_FAILED, detail=f"{self.name}: {error}") from error

    @property
    def connection(self) -> pymysql.Connection[Cursor]:
        """The administrator's connection, opened at the first use. Raises `LAB_FAILED`."""
        if self._admin is None:
            raise CostofError(ErrorText.LAB_FAILED, detail=f"{self.name} is not running")
        return self._admin

    def _run(self, statement: str, *values: str) -> Sequence[tuple[str, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall()


def greets(address: str, port: int, host: Host | None = None) -> bool:
    """Connect from `host` (None: this machine) and return whether a MySQL server sends its greeting."""
    try:
        with host.socket() if host else socket.socket() as probe:
            probe.settimeout(PROBE_SECONDS)
            probe.connect((address, port))
            # A packet has three bytes of length and a sequence number; the greeting begins with protocol version 10.
            return probe.recv(5, socket.MSG_WAITALL)[4:5] == b"\x0a"
    except OSError:
        return False


class SysbenchServer(MariadbServer, LabServer):
    """A MariaDB server with the tables of sysbench and YCSB and, if the study needs them, those of TPC-C.

    Clients at all distances (round-trip times) use it, directly or through tunnels.
    """

    parts: Sequence[MariadbPart[Any]]
    part_types = PARTS
    configuration_type = configuration_of(PARTS)
    writes = [f"the lab's own server: {DATABASE}.{table}, removed with the lab" for table in (TABLE, ycsb.TABLE)]

    def __init__(self, place: Place) -> None:
        self.place = place
        configuration = self.configuration_type.model_validate(dict(place.configuration))
        self.parts = needed_parts(PARTS, self, configuration)
        prefixes = tuple(part.prefix_of_settings for part in self.parts if part.prefix_of_settings)
        super().__init__(
            place.lab,
            place.authority,
            [place.new_address()],
            keys=place.keys,
            name=place.name("mariadb"),
            host=place.host,
            settings={name: each for name, each in configuration.settings.items() if not name.startswith(prefixes)},
        )

    def accept(self, connections: int) -> None:
        self._chosen["max-connections"] = str(connections + RESERVED)

    def make_tables(self) -> None:
        self.ask(create_table(DATABASE))
        self.ask(ycsb.create_empty_table(f"`{DATABASE}`.{ycsb.TABLE}"))
        if self._has_tpcc:
            for statement in tpcc.create_tables(DATABASE):
                self.ask(statement)

    def settle(self) -> None:
        """Create the index and statistics as sysbench does, and read every row so that it is in memory."""
        for statement in [*after_load(DATABASE), *(tpcc.after_load(DATABASE) if self._has_tpcc else [])]:
            self.ask(statement)
        super().settle()

    def client_settings(self) -> MysqlSettings:
        return super().client_settings().model_copy(update={"table": TABLE})

    def counters(self, server: str = "") -> Counters:
        return super().counters()

    def evidence(self) -> dict[str, str]:
        return self.show(self.place.configuration.settings) | super().evidence()

    @property
    def _has_tpcc(self) -> bool:
        return "tpcc" in self.place.kinds.values()

    def answers(self, address: str, port: int, host: Host) -> bool:
        return greets(address, port, host)
