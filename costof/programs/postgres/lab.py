"""The lab's PostgreSQL server.

All arms (measured variants) use the same server: it accepts plain and TLS connections on one port and can change its
key while it runs. It runs as an unprivileged user, since PostgreSQL refuses to run as root.
"""

from __future__ import annotations

import re
import secrets
import socket
import ssl
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import psycopg
from pydantic import SecretStr

from costof.datasets import ycsb
from costof.datasets.pgbench import TABLES, after_load, create_tables
from costof.errors import CostofError, ErrorText
from costof.lab.program import Counters, Description
from costof.lab.unprivileged import Unprivileged
from costof.programs.audit import ServerLog
from costof.programs.parts import configuration_of, first, merged, needed_parts
from costof.programs.postgres.audit import Audit
from costof.programs.postgres.client_certificates import ClientCertificates
from costof.programs.postgres.connection import PostgresSettings
from costof.programs.postgres.data_checksums import DataChecksums
from costof.programs.postgres.durability import Durability
from costof.programs.postgres.file_system import FileSystem
from costof.programs.postgres.parts import PostgresPart
from costof.programs.postgres.scram import SCRAM_ITERATIONS, ScramIterations, scram_secret
from costof.programs.postgres.standby import Standby
from costof.programs.postgres.versions import Version, find_postgres, postgres_version
from costof.programs.server import LabServer, Place

# Settings that differ from PostgreSQL's defaults, and why.
SETTINGS = {
    # The server logs one line for each connection, which says whether it is encrypted. The run reads these lines to
    # verify that connections used TLS or not.
    "log_connections": "on",
    # The connections of all arms (measured variants) and workloads stay open through the run.
    "max_connections": "1000",
    # Autovacuum would work while some arms (variants) are measured and not while others are.
    "autovacuum": "off",
    # Shared memory is in files in the data folder, which is removed with the lab. Files in /dev/shm would outlive a
    # killed server.
    "dynamic_shared_memory_type": "mmap",
    # Just-in-time compilation helps only larger queries than the measured ones, and needs a library that may be
    # missing.
    "jit": "off",
    # costof recognizes some errors by their English text, because their SQLSTATE is ambiguous.
    "lc_messages": "C",
}

PORT = 5432
#: Connections in addition to the measured clients': for administration, and for tests before a measurement.
RESERVED = 100
NAME = "postgres"
ROLE = "server"
DATABASE = "costof"
USER = "costof"
ADMINISTRATOR = "administrator"
#: pgbench's scale, the number of branches. With fewer branches than clients, clients would wait for each other.
SCALE = 32
PROBE_SECONDS = 5.0
#: The request for TLS, then the answer that accepts it (PostgreSQL's documentation, "SSL Session Encryption").
TLS_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"
TLS_ACCEPTED = b"S"
#: The lab's pg_hba.conf. It has one `host` line, so that the server treats plain and TLS connections alike.
ACCESS = """\
local all all scram-sha-256
host all all all scram-sha-256
"""
#: The shell script that removes PostgreSQL's shared memory segment, which outlives a killed server. The server uses the
#: segment to check that no other server uses its data. The segment's ID is at the end of line 7 of postmaster.pid.
REMOVE_SEGMENT = 'segment=$(sed -n "7s/.* //p" "$0/postmaster.pid") && exec ipcrm -m "$segment"'
_AUTHORIZED = re.compile(rf"connection authorized: user={USER} .*?(?:SSL enabled \(protocol=([^,]+),|$)", re.MULTILINE)
#: The optional features that a server may have. Their methods, such as `prepare`, are called in this order.
PARTS: tuple[type[PostgresPart[Any]], ...] = (
    Version,
    FileSystem,
    DataChecksums,
    ScramIterations,
    ClientCertificates,
    Standby,
    Durability,
    Audit,
)


class PostgresServer(LabServer):
    """One PostgreSQL server with pgbench's tables and YCSB's, for clients at all distances (round-trip times)."""

    port, user = PORT, USER
    writes = [f"the lab's own server: {DATABASE}.{table}, removed with the lab" for table in (*TABLES, ycsb.TABLE)]
    part_types = PARTS
    configuration_type = configuration_of(PARTS)

    def __init__(self, place: Place) -> None:
        configuration = self.configuration_type.model_validate(dict(place.configuration))
        self.parts: Sequence[PostgresPart[Any]] = needed_parts(PARTS, self, configuration)
        self.address = place.new_address()
        self.password = SecretStr(secrets.token_urlsafe(24))
        self._admin_password = SecretStr(secrets.token_urlsafe(24))
        self.name = place.name(NAME)
        self.place = place
        self.os_user = Unprivileged()
        self._key = place.keys[0]
        self._admin: psycopg.Connection[Any] | None = None
        #: The settings that the study requires, and `max_connections` if `accept` sets it. They override all other
        #: settings.
        self._chosen = dict(configuration.settings)
        self._log_ins: Counter[str] = Counter()

    def accept(self, connections: int) -> None:
        self._chosen["max_connections"] = str(connections + RESERVED)

    def start(self) -> None:
        lab = self.place.lab
        self.binary = first(part.find() for part in self.parts) or find_postgres()
        self.version = postgres_version(self.binary)
        self.folder = lab.new_folder()
        self.data = self.folder / "data"
        self.os_user.own(self.folder)
        for part in self.parts:
            part.prepare()
        self._settings = SETTINGS | merged(part.settings() for part in self.parts) | self._chosen
        names = [self.address, self.name, "localhost"]
        self._certificates = self.place.authority.issue_all(self.name, self.place.keys, names)
        self._install_certificate()
        self._make_cluster()
        self.remove_segment_at_end(self.data)
        self._process = lab.spawn(self.name, ROLE, self.command_line(), forks=True, host=self.place.host)
        own_log = ServerLog(lab, self.name, self._process.lines)
        self.log = first(part.log() for part in self.parts) or own_log
        self.log.readers.append(self._count_log_ins)
        path, ready = self.log.file.path, b"database system is ready to accept connections"
        is_ready = lambda: path.exists() and ready in path.read_bytes()  # noqa: E731
        lab.wait_until(f"starting {self.name}", is_ready, only=self._process)
        self._make_database()
        for part in self.parts:
            part.started()

    @property
    def major(self) -> int:
        return int(re.split(r"\D", self.version)[0])

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def command_line(self) -> list[str]:
        prefix = [word for part in self.parts for word in part.prefix()]
        options = [word for part in self.parts for word in part.options()]
        return [*prefix, *self.os_user.prefix, str(self.binary), "-D", str(self.data), *options]

    def configuration(self) -> str:
        """Return the whole postgresql.conf. Settings that it leaves out have PostgreSQL's defaults, not Debian's."""
        settings = {
            "listen_addresses": self.address,
            "port": PORT,
            "unix_socket_directories": self.folder,
            "ssl": "on",
            "ssl_cert_file": self._certificate_file,
            "ssl_key_file": self._certificate_file,
            **self._settings,
        }
        return "".join(f"{name} = '{value}'\n" for name, value in settings.items())

    def make_tables(self) -> None:
        for statement in (*create_tables(SCALE), ycsb.create_empty_table()):
            self.ask(statement)
        if self._has_records:
            self.ask(ycsb.insert_records(self.place.records))
        self.ask(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {USER}")

    def settle(self) -> None:
        for statement in [*after_load(), *([f"VACUUM ANALYZE {ycsb.TABLE}"] if self._has_records else [])]:
            self.ask(statement)
        super().settle()

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
        """Return the number of client log-ins so far, in total and for each TLS version.

        The log-ins are counted in the log. For each log-in the server logs a line before the connection's first query.
        """
        self.log.read()
        tls = {version: count for version, count in self._log_ins.items() if version}
        return Counters(self._log_ins.total(), tls)

    def _count_log_ins(self, lines: str) -> None:
        self._log_ins.update(_AUTHORIZED.findall(lines))

    def evidence(self) -> dict[str, str]:
        return self.show(self.place.configuration.settings) | super().evidence()

    def show(self, settings: Iterable[str]) -> dict[str, str]:
        """Return the values that settings have in a client's session. Raises `LAB_FAILED`."""
        if not (names := list(settings)):
            return {}
        with self._log_in(DATABASE, options=[]) as session:
            return {name: _shown(session, name) for name in names}

    def describe(self) -> Description:
        ((library,),) = self.ask("SHOW ssl_library")
        return Description(
            versions={NAME: self.version},
            topology="one server",
            facts={
                "authentication": "SCRAM-SHA-256",
                "TLS": f"{library}; plain on the same port; no session is ever resumed",
                "server settings": ", ".join(f"{name}={value}" for name, value in self._settings.items()),
                "pgbench's scale": f"{SCALE} branches",
            }
            | merged(part.facts() for part in self.parts),
        )

    def show_key(self, kind: str) -> bool:
        """Present a certificate with this kind of key from now on, and return whether the key has changed.

        The method waits until the server presents the key, because a reload is asynchronous, and the server reports a
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
        self.place.lab.wait_until(f"showing a key of kind {kind}", changed, only=self._process)
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
        """Return whether clients read YCSB's records, which must then be inserted before the measurement."""
        return "ycsb" in self.place.kinds.values() and any(part.reads_records() for part in self.parts)

    @property
    def _certificate_file(self) -> Path:
        return self.folder / "server.pem"

    def _install_certificate(self) -> None:
        # The server may be reading the file, so replace it atomically.
        new = self._certificate_file.with_suffix(".new")
        self.os_user.write(new, self._certificates[self._key].read_bytes())
        new.rename(self._certificate_file)

    def _make_cluster(self) -> None:
        self.initialise(self.binary.with_name("initdb"))
        self.os_user.write(self.data / "postgresql.conf", self.configuration().encode())
        rules = ACCESS
        for part in self.parts:
            rules = part.access_rules(rules)
        self.write_access_rules(rules)
        for part in self.parts:
            part.initialised()

    def initialise(self, initdb: Path) -> None:
        password_file = self.folder / "password"
        self.os_user.write(password_file, self._admin_password.get_secret_value().encode())
        options = [f"--username={ADMINISTRATOR}", f"--pwfile={password_file}", "--auth=scram-sha-256"]
        # Text is sorted by bytes (locale C), as YCSB's scans need. The files are not flushed to disk, because
        # nothing needs the data after the run.
        options += ["--encoding=UTF8", "--locale=C", "--no-sync", f"--pgdata={self.data}", *self.initdb_options()]
        self.place.lab.run(f"{self.name}-initdb", [*self.os_user.prefix, str(initdb), *options])
        password_file.unlink()

    def initdb_options(self) -> list[str]:
        return [option for part in self.parts for option in part.initdb_options()]

    def remove_segment_at_end(self, data: Path) -> None:
        self.place.lab.undo(["/bin/sh", "-c", REMOVE_SEGMENT, str(data)])

    def write_access_rules(self, access: str) -> None:
        """Write pg_hba.conf. A running server reads it at the next reload."""
        self.os_user.write(self.data / "pg_hba.conf", access.encode())

    def _log_in(self, database: str, options: Iterable[str] | None = None) -> psycopg.Connection[Any]:
        """Log in as the administrator, by default with the session options of `parts` for the run's own sessions."""
        if options is None:
            options = [word for part in self.parts for word in part.session_options()]
        try:
            return psycopg.connect(
                host=str(self.folder),
                port=PORT,
                user=ADMINISTRATOR,
                password=self._admin_password.get_secret_value(),
                dbname=database,
                autocommit=True,
                options=" ".join(options) or None,
            )
        except psycopg.Error as error:
            raise CostofError(ErrorText.LAB_FAILED, detail=f"{self.name}: {error}") from error

    def _make_database(self) -> None:
        self._admin = self._log_in("postgres")
        self.ask(f"CREATE ROLE {USER} LOGIN")
        self.store_password(SCRAM_ITERATIONS)
        self.ask(f"CREATE DATABASE {DATABASE} OWNER {USER}")
        self._admin.close()
        self._admin = self._log_in(DATABASE)

    def store_password(self, iterations: int) -> None:
        """Store the client's password. It is hashed here, so that it is neither in a statement nor in a log."""
        hashed = scram_secret(self.password.get_secret_value(), iterations)
        self.secret = SecretStr(hashed)
        self.ask(f"ALTER ROLE {USER} PASSWORD '{hashed}'")

    def _presented_certificate(self) -> bytes | None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with self.place.host.socket() as plain:
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
