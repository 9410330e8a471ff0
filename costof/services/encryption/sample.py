"""A check of the gateway with sample rows: what a client without keys receives is compared with the stored rows."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, TypeAlias

import pymysql
from pydantic import SecretStr
from pymysql.cursors import Cursor

from costof.datasets.tpcc import TABLES
from costof.encrypted import NONCE_BYTES, announcement
from costof.lab.host import Host
from costof.services.encryption.rules import Column, sample_statement

ROWS = 5
# The check searches all received bytes for plaintext values of at least this length. Shorter values may occur in
# ciphertext by chance, so the check compares them only with the value received in the same row and column.
DISTINCTIVE_BYTES = 8
SECONDS = 60

Connection: TypeAlias = "pymysql.Connection[Cursor]"
Values = list[bytes | None]
Rows = dict[Column, Values]


@dataclass(frozen=True)
class Login:
    """A server's address, and the account with which to log in.

    `host` is the host (network namespace) of the lab from which to connect; None means this machine.
    """

    address: str
    port: int
    username: str
    password: SecretStr
    host: Host | None = None
    tls: ssl.SSLContext | None = None


@dataclass
class Recorder:
    """A wrapper around a connection's incoming stream that records all bytes, as they are after TLS decryption."""

    inner: BinaryIO
    received: bytearray = field(default_factory=bytearray)

    def read(self, size: int = -1) -> bytes:
        chunk = self.inner.read(size)
        self.received += chunk
        return chunk

    def close(self) -> None:
        self.inner.close()


def log_in(login: Login, decrypts: bool = False) -> Connection:
    """Log in and return a connection. Its cursors return values as the server or gateway sent them, without decryption.

    With `decrypts`, the client announces to the gateway that it can decrypt. Raises `MySQLError`, `OSError`.
    """
    connection = pymysql.Connection(
        host=login.address,
        port=login.port,
        user=login.username,
        # PyMySQL would encode a str as Latin-1, so pass the password as bytes.
        password=login.password.get_secret_value().encode(),
        autocommit=True,
        connect_timeout=SECONDS,
        read_timeout=SECONDS,
        write_timeout=SECONDS,
        conv={},
        defer_connect=True,
        **({"ssl": login.tls} if login.tls else {"ssl_disabled": True}),
    )
    if decrypts:
        # The gateway refuses clients that do not announce that they can decrypt (docs/column-encryption-protocol.md).
        attributes = announcement(secrets.token_bytes(NONCE_BYTES))
        connection._connect_attrs.update(attributes)  # type: ignore[attr-defined]  # PyMySQL has no option for it
    if login.host is None:
        connection.connect()
    else:
        socket = login.host.socket()
        socket.settimeout(SECONDS)
        socket.connect((login.address, login.port))
        connection.connect(socket)
    return connection


def read_rows(connection: Connection, database: str) -> Rows:
    """Return the first `ROWS` rows of every table. Raises `MySQLError`."""
    rows: Rows = {}
    for table in TABLES:
        with connection.cursor() as cursor:
            cursor.execute(sample_statement(database, table, ROWS))
            names = [column[0] for column in cursor.description]
            for row in cursor.fetchall():
                for name, value in zip(names, row, strict=True):
                    rows.setdefault((table, name), []).append(value.encode() if isinstance(value, str) else value)
    return rows


def read_recorded(login: Login, database: str) -> tuple[Rows, bytes]:
    """Return the sample rows and all bytes that a client without keys receives for them.

    The client announces to the gateway that it can decrypt, because the gateway refuses other clients.
    """
    connection = log_in(login, decrypts=True)
    with connection:
        recorder = Recorder(connection._rfile)  # type: ignore[attr-defined]  # PyMySQL's incoming stream
        connection._rfile = recorder  # type: ignore[attr-defined]
        return read_rows(connection, database), bytes(recorder.received)


@dataclass(frozen=True)
class Sample:
    """The result of the check with sample rows: the numbers of encrypted values, of plain values and of received bytes.

    `mismatch` says how the received rows contradict the rules for encryption. None means that they do not.
    """

    encrypted: int
    plain: int
    received_bytes: int
    mismatch: str | None = None

    @property
    def text(self) -> str:
        """The text for the report, such as '40 encrypted values: no plaintext in 9,120 bytes received; 60 plain …'."""
        bytes_ = f"{self.received_bytes:,} bytes received"
        encrypted = f"{self.encrypted:,} encrypted values: no plaintext in {bytes_}" if self.encrypted else ""
        plain = f"{self.plain:,} plain values: all in {'them' if encrypted else bytes_}" if self.plain else ""
        return "; ".join(part for part in (encrypted, plain) if part)


def compare(stored: Rows, rows: Mapping[Column, Values], received: bytes, encrypted: Collection[Column]) -> Sample:
    """Compare the rows that a client received with the rows that the server stores, and return the result.

    `stored` are the rows that were read directly from the server. `rows` and `received` are the rows and bytes that the
    client received. `encrypted` are the columns that must be encrypted. NULL is never encrypted, so it is not compared.
    """
    hidden = [
        (column, value) for column in stored if column in encrypted for value in stored[column] if value is not None
    ]
    plain = [(column, value) for column in stored if column not in encrypted for value in stored[column] if value]
    # An encrypted column may have the same value as a plain column. Such a value may then arrive in plaintext.
    also_plain = {value for _, value in plain}
    mismatch = next(
        (
            f"{_name(column)} came in plaintext"
            for column in stored
            if column in encrypted and _any_equal(stored[column], rows[column])
        ),
        None,
    )
    for column, value in hidden if mismatch is None else ():
        if len(value) >= DISTINCTIVE_BYTES and value in received and value not in also_plain:
            mismatch = f"plaintext of {_name(column)} was among the bytes received"
            break
    for column, value in plain if mismatch is None else ():
        if value not in received or value not in rows[column]:
            mismatch = f"{_name(column)}, which is not encrypted, was changed"
            break
    return Sample(len(hidden), len(plain), len(received), mismatch)


def _any_equal(stored: Values, values: Values) -> bool:
    return any(value is not None and value == other for value, other in zip(stored, values, strict=True))


def _name(column: Column) -> str:
    return ".".join(column)
