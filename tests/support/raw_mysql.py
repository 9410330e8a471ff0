"""A MySQL client that can send any name, flag or command, and keeps every byte that it receives.

Tests of the gateway send invalid messages and check every byte of the answers. A driver would refuse or repair such
messages, and hide a part of the answers. This client implements only the protocol (MySQL Internals, "Client/Server
Protocol"): `mysql_native_password`, queries as text, and prepared statements without parameters.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from dataclasses import dataclass, field
from typing import Self

from tests.support.mysql_packets import (
    BINARY_CHARSET,
    BLOB,
    END,
    ERROR,
    LEAST_CIPHERTEXT,
    Column,
    Row,
    as_text,
    binary_row,
    definition,
    error,
    length,
    proof,
    text_row,
)

QUIT, INIT_DB, QUERY, FIELD_LIST, PING, CHANGE_USER = 0x01, 0x02, 0x03, 0x04, 0x0E, 0x11
PREPARE, EXECUTE, SEND_LONG_DATA, RESET_CONNECTION = 0x16, 0x17, 0x18, 0x1F
UTF8MB4 = 45
# A timeout for what hangs, long enough for a slow machine.
SECONDS = 300.0

CONNECT_WITH_DB, SSL, MORE_RESULTS, CONNECT_ATTRIBUTES = 0x8, 0x800, 0x8, 0x10_0000
# Capabilities that every client claims: LONG_PASSWORD, LONG_FLAG, PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION,
# MULTI_RESULTS, PS_MULTI_RESULTS, PLUGIN_AUTH.
USUAL = 0x1 | 0x4 | 0x200 | 0x2000 | 0x8000 | 0x2_0000 | 0x4_0000 | 0x8_0000
NO_SCHEMA, COMPRESS, LOCAL_FILES, MULTI_STATEMENTS, SESSION_TRACK = 0x10, 0x20, 0x80, 0x1_0000, 0x80_0000
DEPRECATE_EOF, OPTIONAL_METADATA, QUERY_ATTRIBUTES = 0x100_0000, 0x200_0000, 0x800_0000
#: All capabilities except TLS and the three that announce additional fields in the login: schema, length of the
#: authentication data, and attributes.
EVERYTHING = 0xFFFF_FFFF & ~(CONNECT_WITH_DB | SSL | CONNECT_ATTRIBUTES | 0x20_0000)


@dataclass
class Answer:
    """The answer to a command. `error` (number, message) may follow rows. `over` means a closed connection."""

    columns: list[Column] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    error: tuple[int, str] | None = None
    statement: int | None = None
    over: bool = False

    def is_sealed(self, place: int) -> bool:
        """Return whether column `place` has values other than NULL, all of which look like ciphertexts."""
        column = self.columns[place]
        values = [row[place] for row in self.rows if row[place] is not None]
        looks = all(len(value) >= LEAST_CIPHERTEXT and value[0] == 1 for value in values if value is not None)
        return (column.type, column.charset) == (BLOB, BINARY_CHARSET) and bool(values) and looks


class HungUp(Exception):  # noqa: N818  # not an error: many tests expect it
    """Raised if the server has closed the connection."""


class Client:
    """A context manager that logs in at its creation. `refusal` has number and message of a refused login."""

    def __init__(
        self,
        address: str,
        user: bytes,
        password: str,
        database: bytes | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        charset: int = UTF8MB4,
        claims: int = 0,
        attributes: dict[bytes, bytes] | None = None,
        source: str | None = None,
    ) -> None:
        host, port = address.rsplit(":", 1)
        self.received = bytearray()
        self.refusal: tuple[int, str] | None = None
        self.offered = 0
        self.scramble = b""
        self._sequence = 0
        self._buffer = bytearray()
        self._ends_lists = True
        here = (source, 0) if source else None
        self._socket: socket.socket = socket.create_connection((host, int(port)), SECONDS, here)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._log_in(user, password, database, tls, charset, claims, attributes or {})
        except HungUp:
            self.refusal = self.refusal or (0, "hung up")
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self.send(QUIT)
        self._socket.close()

    def query(self, statement: bytes) -> Answer:
        """Send COM_QUERY and return the answer. The rows of several result sets are in one list."""
        return self.command(QUERY, statement)

    def prepared(self, statement: bytes, number: int | None = None) -> Answer:
        """Prepare the statement and execute it, or execute the statement with the id `number` if given."""
        prepared = self.prepare(statement)
        if prepared.error or prepared.over:
            return prepared
        assert prepared.statement is not None
        return self.execute(prepared.statement if number is None else number)

    def prepare(self, statement: bytes) -> Answer:
        answer = Answer()
        with self._until_over(answer):
            self.send(PREPARE, statement)
            first = self._packet()
            if not self._iserror(first, answer):
                answer.statement, columns, parameters = struct.unpack_from("<IHH", first, 1)
                for count in (parameters, columns):
                    for _ in range(count + (count > 0 and self._ends_lists)):
                        self._packet()
        return answer

    def execute(self, number: int, tail: bytes = b"") -> Answer:
        """Send COM_STMT_EXECUTE for the statement with this ID. `tail` has the parameters in the protocol's format."""
        return self.command(EXECUTE, struct.pack("<IBI", number, 0, 1) + tail, is_binary=True)

    def command(self, command: int, body: bytes = b"", *, is_binary: bool = False) -> Answer:
        answer = Answer()
        with self._until_over(answer):
            self.send(command, body)
            while self._result(answer, is_binary) & MORE_RESULTS:
                pass
        return answer

    def send(self, command: int, body: bytes = b"") -> None:
        """Send a command, in several packets if necessary, without waiting for an answer."""
        payload = bytes([command]) + body
        self._sequence = 0
        for start in range(0, len(payload) + 1, 0xFFFFFF):
            self._write(payload[start : start + 0xFFFFFF])

    def packet(self) -> bytes:
        """Return the next packet of the server. Raises `HungUp`."""
        return self._packet()

    @contextlib.contextmanager
    def _until_over(self, answer: Answer):  # type: ignore[no-untyped-def]
        try:
            yield
        except HungUp:
            answer.over = True

    def _result(self, answer: Answer, is_binary: bool) -> int:
        first = self._packet()
        if self._iserror(first, answer):
            return 0
        if first[0] == 0:
            _, at = length(first, 1)
            _, at = length(first, at)
            return int.from_bytes(first[at : at + 2], "little")
        count, _ = length(first, 0)
        columns = [definition(self._packet()) for _ in range(count)]
        answer.columns += columns
        if self._ends_lists:
            self._packet()
        while True:
            packet = self._packet()
            if self._iserror(packet, answer):
                return 0
            if packet[0] == END and len(packet) < 9:
                return int.from_bytes(packet[3:5], "little")
            answer.rows.append(binary_row(packet, columns) if is_binary else text_row(packet))

    def _iserror(self, packet: bytes, answer: Answer) -> bool:
        if packet[0] != ERROR:
            return False
        answer.error = error(packet)
        return True

    def _log_in(
        self,
        user: bytes,
        password: str,
        database: bytes | None,
        tls: ssl.SSLContext | None,
        charset: int,
        claims: int,
        attributes: dict[bytes, bytes],
    ) -> None:
        greeting = self._packet()
        if greeting[0] == ERROR:
            self.refusal = error(greeting)
            return
        end = greeting.index(0, 1)
        self.offered = int.from_bytes(greeting[end + 14 : end + 16], "little") | (
            int.from_bytes(greeting[end + 19 : end + 21], "little") << 16
        )
        self.scramble = greeting[end + 5 : end + 13] + greeting[end + 32 : end + 44]
        flags = (
            USUAL
            | claims
            | (CONNECT_WITH_DB if database is not None else 0)
            | (CONNECT_ATTRIBUTES if attributes else 0)
        )
        self._ends_lists = not flags & self.offered & DEPRECATE_EOF
        head = struct.pack("<IIB23x", flags | (SSL if tls else 0), 1 << 24, charset)
        if tls is not None:
            self._write(head)
            self._socket = tls.wrap_socket(self._socket, server_hostname="127.0.0.1")
        response = proof(password, self.scramble)
        body = head + user + b"\0" + bytes([len(response)]) + response
        body += database + b"\0" if database is not None else b""
        body += b"mysql_native_password\0"
        if attributes:
            pairs = b"".join(as_text(word) for pair in attributes.items() for word in pair)
            body += as_text(pairs)
        self._write(body)
        answer = self._packet()
        if answer[0] == END:
            self._write(proof(password, answer[answer.index(0) + 1 :].rstrip(b"\0")))
            answer = self._packet()
        if answer[0] == ERROR:
            self.refusal = error(answer)

    def _write(self, payload: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            self._socket.sendall(struct.pack("<I", len(payload))[:3] + bytes([self._sequence & 0xFF]) + payload)
        self._sequence += 1

    def _packet(self) -> bytes:
        head = self._exactly(4)
        self._sequence = head[3] + 1
        return self._exactly(int.from_bytes(head[:3], "little"))

    def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionError:
                data = b""
            if not data:
                raise HungUp
            self.received += data
            self._buffer += data
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data
