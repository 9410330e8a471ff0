"""Measurement with asyncpg, a PostgreSQL driver that applications use, without a connection pool.

It measures a new connection with its first query, and queries on one persistent connection.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Iterator
from typing import Any

import asyncpg

from costof.instruments.drivers.driver import ApplicationDriver, DriverError, serve
from costof.messages.plan import Arm, Plan, Transport
from costof.programs.postgres.connection import PostgresSettings

#: The number of prepared statements that a connection caches: asyncpg's own default.
STATEMENTS_KEPT = 100
VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}

#: Maps OpenSSL's verification errors (X509_V_ERR_*, x509_vfy.h) to error classes.
CERTIFICATES = {10: "tls_certificate_expired", 62: "tls_certificate_name", 64: "tls_certificate_name"}
_CLASS_BY_WORDS = (("rejected SSL upgrade", "tls_refused"), ("no encryption", "plain_refused"))
_CLASS_BY_KIND: tuple[tuple[type[BaseException], str], ...] = (
    (asyncpg.InvalidAuthorizationSpecificationError, "authentication"),
    (asyncpg.PostgresConnectionError, "closed"),
    (asyncpg.AdminShutdownError, "closed"),
    (asyncpg.PostgresError, "server"),
    (asyncpg.InterfaceError, "protocol"),
    (ssl.SSLError, "tls_handshake"),
    (ConnectionRefusedError, "refused"),
    (ConnectionResetError, "reset"),
    (TimeoutError, "timeout"),
    (OSError, "closed"),
)


class AsyncpgDriver(ApplicationDriver[PostgresSettings]):
    """The application driver for asyncpg. Its event loop runs only while an operation runs."""

    name, version = "asyncpg", asyncpg.__version__
    settings = PostgresSettings

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._loop = asyncio.new_event_loop()
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._persistent: dict[str, Any] = {}

    def check(self, arm: Arm) -> str | None:
        service = self.service(arm)
        if service.channel_binding or service.statements == "simple":
            raise DriverError("plan", "asyncpg supports neither channel binding nor the simple query protocol")
        if arm.transport.group or arm.transport.cipher or arm.transport.resumption:
            raise DriverError("tls_configuration", "asyncpg cannot choose a group or cipher suite, nor resume sessions")
        if arm.transport.is_tls:
            self._contexts[arm.name] = _context(arm.transport)
        self._persistent[arm.name] = self._run(self._connect(arm))
        return service.addresses[0]

    def connect(self, arm: Arm) -> Iterator[str]:
        connection = self._run(self._connect(arm))
        try:
            yield "connect"
            self._select(connection, arm)
            yield "first_operation"
        finally:
            self._run(connection.close())

    def query(self, arm: Arm) -> None:
        connection = self._persistent[arm.name]
        if connection.is_closed():
            connection = self._persistent[arm.name] = self._run(self._connect(arm))
        self._select(connection, arm)

    def _select(self, connection: Any, arm: Arm) -> None:
        account = self._random.randint(1, self._records)
        if self._run(connection.fetchval(self.service(arm).select("$1"), account)) is None:
            raise DriverError("server", f"there is no account {account}")

    async def _connect(self, arm: Arm) -> Any:
        service = self.service(arm)
        host, _, port = service.addresses[0].rpartition(":")
        return await asyncpg.connect(
            host=host,
            port=int(port),
            user=service.username,
            password=service.password.get_secret_value() if service.password else None,
            database=service.database,
            timeout=self._timeout_seconds,
            command_timeout=self._timeout_seconds,
            ssl=self._contexts.get(arm.name, False),
            direct_tls=service.negotiation == "direct",
            server_settings=service.session,
            # A pooler may run the next query in another session, where a cached prepared statement does not exist.
            statement_cache_size=0 if service.statements == "extended" else STATEMENTS_KEPT,
        )

    def _run(self, operation: Any) -> Any:
        try:
            return self._loop.run_until_complete(operation)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            raise _classified(error) from error


def _context(transport: Transport) -> ssl.SSLContext:
    """Return the TLS context for the connections of an arm (measured variant).

    Create it once for each arm, as an application does at its start: loading the CA certificates is slow.
    """
    context = ssl.create_default_context(cafile=str(transport.ca_file) if transport.ca_file else None)
    # PostgreSQL requires ALPN if TLS begins with the first byte of a connection.
    context.set_alpn_protocols(["postgresql"])
    context.check_hostname = transport.verify == "full"
    if transport.verify == "none":
        context.verify_mode = ssl.CERT_NONE
    if transport.certificate_file:
        context.load_cert_chain(transport.certificate_file)
    if transport.version:
        context.minimum_version = context.maximum_version = VERSIONS[transport.version]
    return context


def _classified(error: Exception) -> DriverError:
    text = str(error) or type(error).__name__
    if isinstance(error, ssl.SSLCertVerificationError):
        return DriverError(CERTIFICATES.get(error.verify_code, "tls_certificate_untrusted"), text)
    by_words = (name for words, name in _CLASS_BY_WORDS if words in text)
    by_kind = (name for kind, name in _CLASS_BY_KIND if isinstance(error, kind))
    return DriverError(next(by_words, None) or next(by_kind), text)


if __name__ == "__main__":
    sys.exit(serve(AsyncpgDriver))
