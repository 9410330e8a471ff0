"""A row sample: what a client without keys receives on an arm, byte for byte, held against what the server holds."""

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
# Below this, chance may put a value's bytes anywhere in some hundred kilobytes of ciphertext. A shorter value is held
# against what came in its own place.
TELLING_BYTES = 8
SECONDS = 60

Connection: TypeAlias = "pymysql.Connection[Cursor]"
Values = list[bytes | None]
#: The sampled values of each column, in the order of the rows.
Rows = dict[Column, Values]


@dataclass(frozen=True)
class Login:
    """Where and as whom. `host` is that of the lab to connect from; None is this one."""

    address: str
    port: int
    username: str
    password: SecretStr
    host: Host | None = None
    tls: ssl.SSLContext | None = None


@dataclass
class Recorder:
    """A connection's incoming side that keeps what came, as it is inside TLS."""

    inner: BinaryIO
    received: bytearray = field(default_factory=bytearray)

    def read(self, size: int = -1) -> bytes:
        piece = self.inner.read(size)
        self.received += piece
        return piece

    def close(self) -> None:
        self.inner.close()


def log_in(login: Login, decrypts: bool = False) -> Connection:
    """Return a connection whose values come as the server sent them. Raises `MySQLError`, `OSError`."""
    made = pymysql.Connection(
        host=login.address,
        port=login.port,
        user=login.username,
        # As bytes: PyMySQL would take it for Latin-1.
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
        # Else a gateway refuses it (docs/column-encryption-protocol.md).
        told = announcement(secrets.token_bytes(NONCE_BYTES))
        made._connect_attrs.update(told)  # type: ignore[attr-defined]  # PyMySQL has no option for it
    if login.host is None:
        made.connect()
    else:
        socket = login.host.socket()
        socket.settimeout(SECONDS)
        socket.connect((login.address, login.port))
        made.connect(socket)
    return made


def read_rows(connection: Connection, database: str) -> Rows:
    """Return the first rows of every table. Raises `MySQLError`."""
    found: Rows = {}
    for table in TABLES:
        with connection.cursor() as cursor:
            cursor.execute(sample_statement(database, table, ROWS))
            names = [column[0] for column in cursor.description]
            for row in cursor.fetchall():
                for name, value in zip(names, row, strict=True):
                    found.setdefault((table, name), []).append(value.encode() if isinstance(value, str) else value)
    return found


def read_recorded(login: Login, database: str) -> tuple[Rows, bytes]:
    """Return the rows and all bytes that came, as a client that says that it decrypts and has no key."""
    connection = log_in(login, decrypts=True)
    with connection:
        recorder = Recorder(connection._rfile)  # type: ignore[attr-defined]  # what PyMySQL reads from
        connection._rfile = recorder  # type: ignore[attr-defined]
        return read_rows(connection, database), bytes(recorder.received)


@dataclass(frozen=True)
class Sample:
    """What a sample shows. `wrong` is what contradicts the arm, in words; None where nothing does."""

    encrypted: int
    plain: int
    received_bytes: int
    wrong: str | None = None

    @property
    def told(self) -> str:
        """Say '40 encrypted values: no plaintext in 9,120 bytes received; 60 plain ones: all there'."""
        bytes_ = f"{self.received_bytes:,} bytes received"
        hidden = f"{self.encrypted:,} encrypted values: no plaintext in {bytes_}" if self.encrypted else ""
        shown = f"{self.plain:,} plain values: all in {'them' if hidden else bytes_}" if self.plain else ""
        return "; ".join(part for part in (hidden, shown) if part)


def compare(kept: Rows, seen: Mapping[Column, Values], received: bytes, encrypted: Collection[Column]) -> Sample:
    """Hold what a client received against what the server keeps. NULL is NULL under any rule."""
    hidden = [(column, value) for column in kept if column in encrypted for value in kept[column] if value is not None]
    shown = [(column, value) for column in kept if column not in encrypted for value in kept[column] if value]
    # The same words may stand in a plain column too, and are received from there.
    also_plain = {value for _, value in shown}
    wrong = next(
        (f"{_name(c)} came in plaintext" for c in kept if c in encrypted and _some_alike(kept[c], seen[c])), None
    )
    for column, value in hidden if wrong is None else ():
        if len(value) >= TELLING_BYTES and value in received and value not in also_plain:
            wrong = f"plaintext of {_name(column)} was among the bytes received"
            break
    for column, value in shown if wrong is None else ():
        if value not in received or value not in seen[column]:
            wrong = f"{_name(column)}, which is not encrypted, did not come as it is"
            break
    return Sample(len(hidden), len(shown), len(received), wrong)


def _some_alike(kept: Values, seen: Values) -> bool:
    return any(value is not None and value == other for value, other in zip(kept, seen, strict=True))


def _name(column: Column) -> str:
    return ".".join(column)
