"""Measurement with psycopg 3, a PostgreSQL driver that applications use, without a connection pool.

It measures a new connection with its first query, and queries on one persistent connection.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import pq

from costof.instruments.drivers.driver import ApplicationDriver, DriverError, serve
from costof.messages.plan import Arm, Plan, Transport
from costof.programs.postgres.connection import PostgresSettings

Connection = psycopg.Connection[tuple[Any, ...]]
SSLMODES = {"full": "verify-full", "ca-only": "verify-ca", "none": "require"}

# Maps words in an error's text to error classes, since libpq reports socket errors only as text.
_CLASS_BY_WORDS = (
    ("does not match host name", "tls_certificate_name"),
    # libpq reports an expired certificate with the same text.
    ("certificate verify failed", "tls_certificate_untrusted"),
    ("signature failure", "tls_certificate_untrusted"),
    ("server does not support SSL", "tls_refused"),
    ("no encryption", "plain_refused"),
    ("authentication failed", "authentication"),
    ("no pg_hba.conf entry", "authentication"),
    ("SSL error", "tls_handshake"),
    ("Connection refused", "refused"),
    ("could not translate host name", "resolve"),
    ("timeout expired", "timeout"),
    ("server closed the connection", "closed"),
    # The server's errors during log-in. libpq does not report their SQLSTATE.
    ("FATAL:", "server"),
)


class PsycopgDriver(ApplicationDriver[PostgresSettings]):
    name, version = "psycopg", psycopg.__version__
    settings = PostgresSettings

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._persistent: dict[str, Connection] = {}

    def versions(self) -> dict[str, str]:
        libpq = pq.version()
        return {
            self.name: self.version,
            "libpq": f"{libpq // 10_000}.{libpq % 10_000}",
            "Python": sys.version.split()[0],
        }

    def check(self, arm: Arm) -> str | None:
        if arm.transport.group or arm.transport.cipher or arm.transport.resumption:
            raise DriverError("tls_configuration", "libpq cannot choose a group or cipher suite, nor resume sessions")
        try:
            self._persistent[arm.name] = connection = self._connect(arm)
        except psycopg.Error as error:
            raise _classified(error) from error
        return f"{connection.info.host}:{connection.info.port}"

    def connect(self, arm: Arm) -> Iterator[str]:
        try:
            connection = self._connect(arm)
            try:
                yield "connect"
                self._select(connection, arm)
                yield "first_operation"
            finally:
                connection.close()
        except psycopg.Error as error:
            raise _classified(error) from error

    def query(self, arm: Arm) -> None:
        try:
            connection = self._persistent.get(arm.name)
            if connection is None or connection.closed:
                connection = self._persistent[arm.name] = self._connect(arm)
            self._select(connection, arm)
        except psycopg.Error as error:
            raise _classified(error) from error

    def _select(self, connection: Connection, arm: Arm) -> None:
        """Run the query, as a prepared statement if the arm requires one.

        `prepare` is always given. By default psycopg would prepare a statement only at its sixth execution, and the
        measurement would mix prepared and unprepared executions.
        """
        account = self._random.randint(1, self._records)
        prepared = self.service(arm).statements in (None, "prepared")
        if connection.execute(self.service(arm).select("%s"), (account,), prepare=prepared).fetchone() is None:
            raise DriverError("server", f"there is no account {account}")

    def _connect(self, arm: Arm) -> Connection:
        service = self.service(arm)
        host, _, port = service.addresses[0].rpartition(":")
        # A ClientCursor uses the simple query protocol: it writes the parameters into the statement's text.
        simple = service.statements == "simple"
        return psycopg.connect(
            host=host,
            port=port,
            user=service.username,
            password=service.password.get_secret_value() if service.password else None,
            dbname=service.database,
            # Even empty `options` keep libpq from using PGOPTIONS in the user's environment.
            options=service.session_options,
            connect_timeout=max(1, int(self._timeout_seconds)),
            autocommit=True,
            # Without this, libpq may try GSSAPI encryption before TLS, which adds a round trip.
            gssencmode="disable",
            channel_binding="require" if service.channel_binding else "disable",
            cursor_factory=psycopg.ClientCursor if simple else psycopg.Cursor,
            **_tls(arm.transport, direct=service.negotiation == "direct"),
        )


def _tls(transport: Transport, *, direct: bool) -> dict[str, Any]:
    if not transport.is_tls:
        return {"sslmode": "disable"}
    options: dict[str, Any] = {"sslmode": SSLMODES[transport.verify], "sslrootcert": str(transport.ca_file or "system")}
    if transport.version:
        version = f"TLSv{transport.version}"
        options |= {"ssl_min_protocol_version": version, "ssl_max_protocol_version": version}
    if transport.certificate_file:
        options |= {"sslcert": str(transport.certificate_file), "sslkey": str(transport.certificate_file)}
    return options | ({"sslnegotiation": "direct"} if direct else {})


def _classified(error: psycopg.Error) -> DriverError:
    text = " ".join(str(error).split())
    for words, error_class in _CLASS_BY_WORDS:
        if words in text:
            return DriverError(error_class, text)
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        return DriverError("closed", text)
    return DriverError("server" if error.sqlstate else "protocol", text)


if __name__ == "__main__":
    sys.exit(serve(PsycopgDriver))
