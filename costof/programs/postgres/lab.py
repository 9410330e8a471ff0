"""The lab's PostgreSQL server.

All arms use the same server: it accepts plain and TLS connections on one port and can change its key while it runs. It
runs as an unprivileged user, since PostgreSQL refuses to run as root.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import socket
import ssl
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import psycopg
from pydantic import Field, SecretStr

from costof.datasets import ycsb
from costof.datasets.pgbench import TABLES, after_load, create_tables
from costof.errors import CostofError, ErrorText
from costof.lab.debian import fetched_folder
from costof.lab.log_file import LogFile
from costof.lab.program import UNPACKED, Counters, Description, find_program, first_words
from costof.lab.releases import Jar, Release, copy_if_private, find_release, unpack_archive
from costof.lab.syslog import SyslogDaemon
from costof.lab.unprivileged import Unprivileged
from costof.messages.answers import SliceAnswer
from costof.programs.audit import AuditLog, entries_mismatch, is_full, statements_sent
from costof.programs.flushes import FLUSHES, LOG_BYTES, flush_mismatch
from costof.programs.postgres.audit import (
    CLASS_NAMES,
    COLLECTED_FILE,
    COLLECTED_FOLDER,
    ENTRY,
    AuditConfiguration,
    audit_settings,
)
from costof.programs.postgres.connection import PostgresSettings
from costof.programs.postgres.file_system import FileSystem, FileSystemConfiguration
from costof.programs.server import LabServer, Place, VersionedConfiguration

PACKAGE = "postgresql"
#: The folder in which Debian's packages install each version of PostgreSQL. scripts/system-packages unpacks the package
#: with the same paths.
DISTRIBUTED = "usr/lib/postgresql"

# Settings that differ from PostgreSQL's defaults, and why.
SETTINGS = {
    # The server logs one line for each connection, which says whether it is encrypted. The run reads these lines as the
    # server's evidence.
    "log_connections": "on",
    # 1000 is enough for the connections of all arms and workloads, which stay open through the run.
    "max_connections": "1000",
    # Autovacuum would work while some arms are measured and not while others are.
    "autovacuum": "off",
    # Shared memory is in files in the data folder, which is removed with the lab. Files in /dev/shm would outlive a
    # killed server.
    "dynamic_shared_memory_type": "mmap",
    # Just-in-time compilation helps only larger queries than the measured ones, and needs a library that may be
    # missing.
    "jit": "off",
    # Some errors are recognized by their English text, because their SQLSTATE is ambiguous.
    "lc_messages": "C",
}


def find_postgres(version: str = "") -> Path:
    """Return the path of PostgreSQL: the installed one, or that of a version (`find_release`)."""
    if version:
        return find_release(version, "postgres", RELEASES)
    versions = [
        folder / "bin"
        for root in (Path("/"), UNPACKED / PACKAGE, fetched_folder("postgres"))
        for folder in sorted((root / DISTRIBUTED).glob("*"), key=_version, reverse=True)
    ]
    # Symbolic links are resolved because PostgreSQL's other programs are in the folder of the real file.
    return find_program("postgres", PACKAGE, versions).resolve()


def postgres_version(binary: Path) -> str:
    return first_words([str(binary), "--version"], "postgres", PACKAGE).removeprefix("postgres (PostgreSQL) ")


def _release(version: str, **sha256: str) -> Release:
    """Return a release of PostgreSQL as packed by zonky.io, by the SHA-256 of its JAR for each machine."""
    packed = "io.zonky.test.postgres:embedded-postgres-binaries-linux"
    names = {"x86_64": "amd64", "aarch64": "arm64v8"}
    jars = {machine: Jar(f"{packed}-{names[machine]}:{version}.0", each) for machine, each in sha256.items()}
    return Release(
        "postgres", version.partition(".")[0], version, jars, unpack_archive, "bin/postgres", postgres_version
    )


#: The releases of `costof fetch postgres@18`. All have the same packer and options, so that they differ only in
#: PostgreSQL's version. Debian's packages are built with other options.
RELEASES = {
    release.series: release
    for release in (
        _release(
            "18.1",
            x86_64="65d0723e0274ad3ec6230dcbdfe034af6ee096fce15a77b0f9b8be71d2702934",
            aarch64="ea0f16b754fc0a10d9d8993bbd426c20f8c709b318b28e49b42d9cac1c958b8f",
        ),
        _release(
            "17.7",
            x86_64="ceb1c01cf5e71d6f906b8614982f6ed61e96b3740dd30758fa6262f97e752b69",
            aarch64="85622d56a394c424db4b15185bad31f51848809cb0810fe87059ec38be23caad",
        ),
        _release("16.11", x86_64="7f78235db9c0d94e933e81ec43d00708a5533841d7eb3a9b6b86bb1fd465ae2f"),
        _release(
            "15.15",
            x86_64="7c73da91870b0615b37a8ceb84871bd42f28c3600f87a97ca9747f4a0b8d2dbb",
            aarch64="623ee4c35cfdccd585d4473ff9b51942d465a7f8280687e6b960f56066f58909",
        ),
    )
}


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in folder.name.split(".") if part.isdigit())


def scram_secret(password: str, iterations: int) -> str:
    """Return an ASCII password as PostgreSQL stores it for SCRAM-SHA-256 (RFC 5803), with a new salt."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    client_key, server_key = (hmac.digest(salted, text, "sha256") for text in (b"Client Key", b"Server Key"))
    stored_key = hashlib.sha256(client_key).digest()
    salt_text, stored_text, server_text = (base64.b64encode(each).decode() for each in (salt, stored_key, server_key))
    return f"SCRAM-SHA-256${iterations}:{salt_text}${stored_text}:{server_text}"


PORT = 5432
#: Connections that are not the clients' own: the run's own ones, and those of instruments that look for the server.
RESERVED = 100
NAME = "postgres"
ROLE = "server"
DATABASE = "costof"
USER = "costof"
ADMINISTRATOR = "administrator"
#: pgbench's scale, the number of branches. With fewer branches than clients, clients would wait for each other.
SCALE = 32
PROBE_SECONDS = 5.0
#: The request for TLS and the answer that accepts it (PostgreSQL's documentation, "SSL Session Encryption").
TLS_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"
TLS_ACCEPTED = b"S"
#: The lab's pg_hba.conf. It has one `host` line, so that the server treats plain and TLS connections alike.
ACCESS = """\
local all all scram-sha-256
host all all all scram-sha-256
"""
#: The pg_hba.conf of a server whose clients need a certificate.
ACCESS_BY_CERTIFICATE = """\
local all all scram-sha-256
hostssl all all all scram-sha-256 clientcert=verify-ca
"""
#: The number of hashes in a SCRAM secret of PostgreSQL (`scram_iterations`).
SCRAM_ITERATIONS = 4096
#: The first version whose initdb turns data checksums on.
CHECKSUMS_BY_DEFAULT = 18
#: The shell script that removes PostgreSQL's shared memory segment, which outlives a killed server. The server uses the
#: segment to check that no other server uses its data. The segment's ID is at the end of line 7 of postmaster.pid.
REMOVE_SEGMENT = 'segment=$(sed -n "7s/.* //p" "$0/postmaster.pid") && exec ipcrm -m "$segment"'
#: The file with the segment's ID, and the line in it, counted from 0.
PID_FILE, SEGMENT_LINE = "postmaster.pid", 6
#: The settings that decide whether a commit waits for a flush. The server's flushes are counted if a level sets one.
COMMIT_SETTINGS = frozenset({"synchronous_commit", "fsync"})
STANDBY = "standby"
#: PostgreSQL's view with the flushes of its log, from version 18 on and before.
COUNTED_FLUSHES = {
    True: "SELECT coalesce(sum(fsyncs), 0) FROM pg_stat_io WHERE object = 'wal'",
    False: "SELECT wal_sync FROM pg_stat_wal",
}
END_MILLISECONDS = 5000
#: The state of a standby that has all of the server's log: that of its connection, and its role at commits.
IN_STEP = "streaming, sync"
_AUTHORIZED = re.compile(rf"connection authorized: user={USER} .*?(?:SSL enabled \(protocol=([^,]+),|$)", re.MULTILINE)


class PostgresConfiguration(VersionedConfiguration, FileSystemConfiguration, AuditConfiguration):
    """The configuration of a PostgreSQL server. Every version has the same defaults of the lab."""

    scram_iterations: int = Field(
        default=SCRAM_ITERATIONS, gt=0, description="Hashes in the password's SCRAM secret, which each log-in repeats."
    )
    data_checksums: bool = Field(default=False, description="Whether each page of data has a checksum.")
    standby: Literal["off", "on"] = Field(
        default="off", description="Whether a second server, the synchronous standby, replays the server's log."
    )


class PostgresServer(LabServer):
    """One PostgreSQL server with pgbench's tables and YCSB's, which clients at all distances use."""

    writes = [f"the lab's own server: {DATABASE}.{table}, removed with the lab" for table in (*TABLES, ycsb.TABLE)]
    configuration_type = PostgresConfiguration

    def __init__(self, place: Place) -> None:
        self._configuration = PostgresConfiguration.model_validate(dict(place.configuration))
        self.address = place.new_address()
        self.password = SecretStr(secrets.token_urlsafe(24))
        self._admin_password = SecretStr(secrets.token_urlsafe(24))
        self.name = place.name(NAME)
        self._place = place
        self._key = place.keys[0]
        self._user = Unprivileged()
        self._admin: psycopg.Connection[Any] | None = None
        self._settings = SETTINGS | place.configuration.settings
        self._file_system: FileSystem | None = None
        self._counts_flushes = bool(COMMIT_SETTINGS & place.configuration.settings.keys())
        self._has_standby = self._configuration.standby == "on"
        self._counted: Counter[str] = Counter()
        self._audit_log = AuditLog(ENTRY, CLASS_NAMES)
        self._marks = 0
        self._syslog: SyslogDaemon | None = None

    def accept(self, connections: int) -> None:
        self._settings["max_connections"] = str(connections + RESERVED)

    def start(self) -> None:
        binary = find_postgres(self._configuration.version)
        self._version = postgres_version(binary)
        self._settings |= audit_settings(self._configuration, binary)
        if self._configuration.version:
            binary = copy_if_private(binary, self._place.lab.new_folder)
        self._folder = self._place.lab.new_folder()
        self._user.own(self._folder)
        configuration = self._configuration
        if configuration.file_system is not None:
            self._file_system = FileSystem(configuration.file_system, configuration.cipher, self._folder)
            self._file_system.mount(self._place.lab, self.name, self._user)
        self._certificates = self._place.authority.issue_all(
            self.name, self._place.keys, [self.address, self.name, "localhost"]
        )
        self._install_certificate()
        self._make_cluster(binary.with_name("initdb"))
        if self._has_standby:
            self._copy_cluster()
        self._place.lab.undo(["/bin/sh", "-c", REMOVE_SEGMENT, str(self._data)])
        if configuration.log == "syslog":
            self._syslog = SyslogDaemon(self._place.lab, f"{self.name}-syslog", self._place.host)
        self._process = self._place.lab.spawn(
            self.name, ROLE, self.command_line(binary), forks=True, host=self._place.host
        )
        self._log = self._log_file()
        path, ready = self._log.path, b"database system is ready to accept connections"
        is_ready = lambda: path.exists() and ready in path.read_bytes()  # noqa: E731
        self._place.lab.wait_until(f"starting {self.name}", is_ready, only=self._process)
        self._make_database()
        if self._has_standby:
            self._start_standby(binary)
        if self._file_system is not None:
            # At the end, the file system of the data folder may end before the segment can be looked up in it.
            segment = (self._data / PID_FILE).read_text().splitlines()[SEGMENT_LINE].split()[-1]
            self._place.lab.undo(["ipcrm", "-m", segment])

    def _log_file(self) -> LogFile:
        if self._syslog is not None:
            return self._syslog.process.lines
        if self._configuration.log == "collector":
            return LogFile(self._data / COLLECTED_FOLDER / COLLECTED_FILE)
        return self._process.lines

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def command_line(self, binary: Path) -> list[str]:
        logging = self._syslog.prefix if self._syslog is not None else []
        return [*logging, *self._user.prefix, str(binary), "-D", str(self._data)]

    def configuration(self) -> str:
        """Return the whole postgresql.conf. Settings that it leaves out have PostgreSQL's defaults, not Debian's."""
        settings = {
            "listen_addresses": self.address,
            "port": PORT,
            "unix_socket_directories": self._folder,
            "ssl": "on",
            "ssl_cert_file": self._certificate_file,
            "ssl_key_file": self._certificate_file,
            **({"ssl_ca_file": self._ca_file} if self._configuration.client_certificates else {}),
            **self._settings,
        }
        return "".join(f"{name} = '{value}'\n" for name, value in settings.items())

    def make_tables(self) -> None:
        for statement in (*create_tables(SCALE), ycsb.create_empty_table()):
            self.ask(statement)
        if self._has_records:
            self.ask(ycsb.insert_records(self._place.records))
        self.ask(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {USER}")

    def settle(self) -> None:
        for statement in [*after_load(), *([f"VACUUM ANALYZE {ycsb.TABLE}"] if self._has_records else [])]:
            self.ask(statement)

    def client_settings(self) -> PostgresSettings:
        return PostgresSettings(
            addresses=[f"{self.address}:{PORT}"],
            username=USER,
            password=self.password,
            database=DATABASE,
            scale=SCALE,
            table=ycsb.TABLE if self._has_records else None,
        )

    def counters(self, server: str = "") -> Counters:
        """Return the number of client log-ins so far, also by TLS version.

        The log-ins are counted in the log. For each log-in the server logs a line before the connection's first query.
        """
        self._read_log()
        tls = {version: count for version, count in self._counted.items() if version}
        return Counters(self._counted.total(), tls)

    def evidence(self) -> dict[str, str]:
        """Return what distinguishes this server's configuration, as the running server shows it.

        If the study varies the file system of the data folder, also search the stored files for a canary.
        """
        configuration = self._configuration
        shown = [*configuration.settings]
        shown += ["server_version"] if configuration.version else []
        shown += ["data_checksums"] if configuration.data_checksums else []
        shown += ["shared_preload_libraries"] if configuration.audit else []
        facts: dict[str, str] = {}
        if shown:
            # The run's own session may have other settings than sessions of clients, and is not audited.
            with self._log_in(DATABASE, audited=True) as session:
                facts = {name: _shown(session, name) for name in shown}
        if configuration.scram_iterations != SCRAM_ITERATIONS:
            secret = self.ask(f"SELECT rolpassword FROM pg_authid WHERE rolname = '{USER}'")[0][0]  # noqa: S608  # our own name
            facts["SCRAM iterations"] = secret.split("$")[1].partition(":")[0]
        if configuration.client_certificates:
            rules = self.ask("SELECT array_to_string(options, ',') FROM pg_hba_file_rules WHERE type LIKE 'host%'")
            facts["access over the network"] = ", ".join(options or "without a certificate" for (options,) in rules)
        if self._has_standby:
            facts[STANDBY] = self._standby_state() or "not connected"
        return facts | (self._file_system.verify(self.ask) if self._file_system else {})

    def readings(self) -> dict[str, float]:
        """Return the flushes of the log and the bytes written to it, if a level configures commits.

        In a study of audits, also return the number of entries of the audit log, by class too, and their bytes.
        """
        entries = {}
        if self._configuration.audit is not None:
            self._read_log()
            entries = self._audit_log.readings()
        if not self._counts_flushes or self._admin is None:
            return entries
        ((flushes,),) = self.ask(COUNTED_FLUSHES[self._admin.info.server_version >= 180000])
        ((position,),) = self.ask("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        return {FLUSHES: float(flushes), LOG_BYTES: float(position), **entries}

    def finish_counting(self) -> None:
        """End the clients' connections: their server processes report counts at most once a second, and at their end.

        The engine opens new connections before each slice.
        """
        if self._counts_flushes:
            clients = f"FROM pg_stat_activity WHERE usename = '{USER}'"
            self.ask(f"SELECT pg_terminate_backend(pid) {clients}")
            self.ask(f"SELECT pg_terminate_backend(pid, {END_MILLISECONDS}) {clients}")

    def mismatch(self, moved: Mapping[str, float], answer: SliceAnswer) -> str | None:
        if self._file_system is not None:
            # Flushes prove nothing here: if reads and writes alternate, reads also write when they prune pages.
            return self._file_system.leak
        state = self._standby_state() if self._has_standby else IN_STEP
        if state != IN_STEP:
            return f"the synchronous standby was {state}" if state else "the synchronous standby was not connected"
        flushes_commits = not any(self._settings.get(name) == "off" for name in COMMIT_SETTINGS)
        return flush_mismatch(moved, answer, flushes_commits) or self._audit_mismatch(moved, answer)

    def _audit_mismatch(self, moved: Mapping[str, float], answer: SliceAnswer) -> str | None:
        """Return why a slice's audit entries are not exactly those of the client's statements; None if they are."""
        sent = statements_sent(self._place.kind(answer), answer)
        if self._configuration.audit is None or sent is None:
            return None
        return entries_mismatch(self._configuration.audited, sent, moved, answer, self._log)

    def _read_log(self) -> None:
        """Count the log-ins and the audit's entries in the log.

        All entries of statements that have been answered are counted. The server's processes write them before they
        answer. The collector and the syslog daemon write them in the order in which they get them, so that a mark,
        which comes last, follows them.
        """
        if self._configuration.log == "stderr" or self._admin is None:
            self._count(self._log.new_lines())
        else:
            self._marks += 1
            mark = f"costof mark {self._marks}."
            if self._syslog is not None:
                self._syslog.send(mark)
            else:
                self.ask(f"DO $$BEGIN RAISE LOG '{mark}'; END$$")
            # On a full disk the mark is lost, as are the entries.
            found = lambda: mark in self._count(self._log.new_lines()) or is_full(self._log.path)  # noqa: E731
            self._place.lab.wait_until(f"reading the log of {self.name}", found, only=self._process)
        self._log.shorten()

    def _count(self, lines: str) -> str:
        self._counted.update(_AUTHORIZED.findall(lines))
        self._audit_log.add(lines)
        return lines

    def describe(self) -> Description:
        ((library,),) = self.ask("SHOW ssl_library")
        return Description(
            versions={NAME: self._version},
            topology="one server",
            facts={
                "authentication": "SCRAM-SHA-256",
                "TLS": f"{library}; plain on the same port; no session is ever resumed",
                "server settings": ", ".join(f"{name}={value}" for name, value in self._settings.items()),
                "pgbench's scale": f"{SCALE} branches",
            }
            | ({STANDBY: "a second server on the same host, over loopback without TLS"} if self._has_standby else {}),
        )

    def show_key(self, kind: str) -> bool:
        """Present another key from now on, and return whether the key has changed.

        The function waits until the server presents the key, because a reload is asynchronous, and the server reports a
        wrong file only in its log.
        """
        if kind == self._key:
            return False
        self._key = kind
        self._install_certificate()
        self.ask("SELECT pg_reload_conf()")
        # The file has the private key first, then the certificate.
        pem = self._certificates[kind].read_text()
        expected = ssl.PEM_cert_to_DER_cert(pem[pem.index("-----BEGIN CERTIFICATE-----") :])
        changed = lambda: self._presented_certificate() == expected  # noqa: E731
        self._place.lab.wait_until(f"showing a key of kind {kind}", changed, only=self._process)
        return True

    def tls_versions(self, backends: Iterable[int]) -> set[str]:
        """Return the TLS versions, such as 'TLSv1.3', of the connections that these server processes serve.

        `backends` are process IDs. The version of a plain connection is ''.
        """
        pids = ", ".join(map(str, backends))
        statement = f"SELECT coalesce(version, '') FROM pg_stat_ssl WHERE pid IN ({pids})"  # noqa: S608
        return {version for (version,) in self.ask(statement)}

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        if self._admin is None:
            raise CostofError(ErrorText.LAB_FAILED, detail=f"{self.name} is not running")
        try:
            cursor = self._admin.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise CostofError(ErrorText.LAB_FAILED, detail=f"{self.name}: {error}") from error

    @property
    def _has_records(self) -> bool:
        """True if clients read YCSB's records, which exist from the start."""
        return self._configuration.audit is not None and "ycsb" in self._place.kinds.values()

    @property
    def _data(self) -> Path:
        return self._file_system.data if self._file_system else self._folder / "data"

    @property
    def _certificate_file(self) -> Path:
        return self._folder / "server.pem"

    @property
    def _ca_file(self) -> Path:
        return self._folder / "ca.pem"

    def _install_certificate(self) -> None:
        # The file is replaced atomically because the server may be reading it.
        new = self._certificate_file.with_suffix(".new")
        self._user.write(new, self._certificates[self._key].read_bytes())
        new.rename(self._certificate_file)

    def _make_cluster(self, initdb: Path) -> None:
        self.initialise(initdb)
        self._user.write(self._ca_file, self._place.authority.ca_file.read_bytes())
        self._user.write(self._data / "postgresql.conf", self.configuration().encode())
        access = ACCESS_BY_CERTIFICATE if self._configuration.client_certificates else ACCESS
        replication = f"host replication {STANDBY} all scram-sha-256\n" if self._has_standby else ""
        self.write_access_rules(access + replication)

    def initialise(self, initdb: Path) -> None:
        password_file = self._folder / "password"
        self._user.write(password_file, self._admin_password.get_secret_value().encode())
        options = [f"--username={ADMINISTRATOR}", f"--pwfile={password_file}", "--auth=scram-sha-256"]
        # Text is sorted by bytes (locale C), as YCSB's scans need. The files are not flushed to disk: nobody needs them
        # after the run.
        options += ["--encoding=UTF8", "--locale=C", "--no-sync", f"--pgdata={self._data}"]
        if self._configuration.data_checksums:
            options.append("--data-checksums")
        elif int(re.split(r"\D", self._version)[0]) >= CHECKSUMS_BY_DEFAULT:
            options.append("--no-data-checksums")
        self._place.lab.run(f"{self.name}-initdb", [*self._user.prefix, str(initdb), *options])
        password_file.unlink()

    def write_access_rules(self, access: str) -> None:
        """Write pg_hba.conf. A running server reads it at the next reload."""
        self._user.write(self._data / "pg_hba.conf", access.encode())

    def _log_in(self, database: str, *, audited: bool = False) -> psycopg.Connection[Any]:
        try:
            return psycopg.connect(
                host=str(self._folder),
                port=PORT,
                user=ADMINISTRATOR,
                password=self._admin_password.get_secret_value(),
                dbname=database,
                autocommit=True,
                # The run's own statements get no entries.
                options=None if audited or self._configuration.audit != "loaded" else "-c pgaudit.log=none",
            )
        except psycopg.Error as error:
            raise CostofError(ErrorText.LAB_FAILED, detail=f"{self.name}: {error}") from error

    def _make_database(self) -> None:
        self._admin = self._log_in("postgres")
        # The password is hashed here, on the client's side, so that it is neither in a statement nor in a log.
        hashed = scram_secret(self.password.get_secret_value(), self._configuration.scram_iterations)
        #: The form in which the server stores the password (a SCRAM secret).
        self.secret = SecretStr(hashed)
        self.ask(f"CREATE ROLE {USER} LOGIN PASSWORD '{hashed}'")
        self.ask(f"CREATE DATABASE {DATABASE} OWNER {USER}")
        self._admin.close()
        self._admin = self._log_in(DATABASE)

    def _copy_cluster(self) -> None:
        """Copy the data for the standby before the server starts, when no backup is needed for a consistent copy."""
        self._standby_data = self._folder / STANDBY
        copy = ["cp", "-a", str(self._data), str(self._standby_data)]
        self._place.lab.run(f"{self.name}-copy", [*self._user.prefix, *copy])

    def _start_standby(self, binary: Path) -> None:
        """Start the standby, make it synchronous, and wait until it has all of the server's log."""
        password = secrets.token_urlsafe(24)
        assert self._admin is not None
        hashed = self._admin.pgconn.encrypt_password(password.encode(), STANDBY.encode(), b"scram-sha-256").decode()
        self.ask(f"CREATE ROLE {STANDBY} LOGIN REPLICATION PASSWORD '{hashed}'")
        password_file, sockets = self._folder / "standby.pgpass", self._folder / "standby-socket"
        self._user.write(password_file, f"*:*:*:{STANDBY}:{password}\n".encode())
        sockets.mkdir(mode=0o700)
        self._user.own(sockets)
        server = {
            "host": self.address,
            "port": PORT,
            "user": STANDBY,
            "application_name": STANDBY,
            "passfile": password_file,
            "sslmode": "disable",
        }
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": sockets,
            "primary_conninfo": " ".join(f"{name}={value}" for name, value in server.items()),
        }
        # If two lines have the same setting, the last one applies.
        own = "".join(f"{name} = '{value}'\n" for name, value in settings.items())
        self._user.write(self._standby_data / "postgresql.conf", (self.configuration() + own).encode())
        self._user.write(self._standby_data / "standby.signal", b"")
        lab, command = self._place.lab, [*self._user.prefix, str(binary), "-D", str(self._standby_data)]
        lab.undo(["/bin/sh", "-c", REMOVE_SEGMENT, str(self._standby_data)])
        process = lab.spawn(f"{self.name}-{STANDBY}", STANDBY, command, forks=True, host=self._place.host)
        self.ask(f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'")
        self.ask("SELECT pg_reload_conf()")
        lab.wait_until(f"starting {process.name}", lambda: self._standby_state() == IN_STEP, only=process)

    def _standby_state(self) -> str | None:
        """Return text such as 'streaming, sync' or 'catchup, async'; None if the standby is not connected."""
        rows = self.ask(f"SELECT state, sync_state FROM pg_stat_replication WHERE usename = '{STANDBY}'")  # noqa: S608
        return ", ".join(rows[0]) if rows else None

    def _presented_certificate(self) -> bytes | None:
        """Return the certificate (DER) that the server presents now, or None if the server does not answer."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with self._place.host.socket() as plain:
                plain.settimeout(PROBE_SECONDS)
                plain.connect((self.address, PORT))
                plain.sendall(TLS_REQUEST)
                if plain.recv(1, socket.MSG_WAITALL) != TLS_ACCEPTED:
                    return None
                with context.wrap_socket(plain) as secure:
                    return secure.getpeercert(binary_form=True)
        except OSError:
            return None


def _shown(session: psycopg.Connection[Any], setting: str) -> str:
    row = session.execute(f"SHOW {setting}".encode()).fetchone()
    return "" if row is None else str(row[0])
