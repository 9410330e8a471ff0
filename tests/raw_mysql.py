"""A client of MySQL's protocol for tests that must say what no driver says: any name, any flag, any command."""

from __future__ import annotations

import hashlib
import socket
import struct
from dataclasses import dataclass
from types import TracebackType
from typing import Self

PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH, DEPRECATE_EOF = 1 << 9, 1 << 15, 1 << 19, 1 << 24
CONNECT_WITH_DB, NO_SCHEMA = 1 << 3, 1 << 4
USUAL = PROTOCOL_41 | SECURE_CONNECTION | PLUGIN_AUTH | DEPRECATE_EOF
TLS = 1 << 11
#: All that a client can claim, but TLS, and lengths and attributes that this client does not send.
EVERYTHING = 0xFFFFFFFF & ~(TLS | 1 << 20 | 1 << 21)
UTF8MB4 = 45
OK, ERROR, END = 0x00, 0xFF, 0xFE
PLUGIN = b"mysql_native_password"


@dataclass
class RefusedError(Exception):
    """An error packet."""

    code: int
    words: str


class RawClient:
    """A connection. Logging in raises `RefusedError`, as `checked` does."""

    def __init__(
        self,
        address: str,
        user: bytes,
        password: str,
        *,
        database: str = "",
        capabilities: int = USUAL,
        collation: int = UTF8MB4,
        source: str | None = None,
    ) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), 20, (source, 0) if source else None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = bytearray()
        try:
            self._log_in(user, password, database, capabilities, collation)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, payload: bytes) -> None:
        """A command of less than 16 MiB."""
        self.send_bytes(struct.pack("<I", len(payload))[:3] + b"\0" + payload)

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def packet(self) -> bytes:
        """The next payload. Raises `ConnectionError` at the end."""
        header = self._exactly(4)
        return self._exactly(int.from_bytes(header[:3], "little"))

    def checked(self, payload: bytes) -> bytes:
        """Send a command; the first packet of its answer."""
        self.send(payload)
        return _checked(self.packet())

    def rows(self, payload: bytes) -> list[bytes]:
        """Send a command that is answered with a result set; its rows."""
        (columns,) = self.checked(payload)
        for _ in range(columns):
            self.packet()
        rows = []
        while (row := _checked(self.packet()))[0] != END:
            rows.append(row)
        return rows

    def prepare(self, sql: str) -> int:
        """Its number."""
        answer = self.checked(b"\x16" + sql.encode())
        columns, parameters = struct.unpack_from("<HH", answer, 5)
        for _ in range(columns + parameters):
            self.packet()
        return int.from_bytes(answer[1:5], "little")

    def _log_in(self, user: bytes, password: str, database: str, capabilities: int, collation: int) -> None:
        greeting = _checked(self.packet())
        end = greeting.index(b"\0", 1)
        scramble = greeting[end + 5 : end + 13] + greeting[end + 32 : end + 44]
        claimed = capabilities | CONNECT_WITH_DB if database else capabilities & ~CONNECT_WITH_DB
        response = struct.pack("<IIB23x", claimed, 1 << 24, collation)
        response += user + b"\0" + _proof(password, scramble) + (database.encode() + b"\0" if database else b"")
        response += PLUGIN + b"\0"
        self.send_bytes(struct.pack("<I", len(response))[:3] + b"\x01" + response)
        answer = _checked(self.packet())
        assert answer[0] == OK

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self._socket.recv(count - len(data))
            if not piece:
                raise ConnectionError(f"the connection ended after {len(data)} of {count} bytes")
            data += piece
        self.received += data
        return data


def _checked(payload: bytes) -> bytes:
    if payload[0] == ERROR:
        words = payload[9:] if payload[3:4] == b"#" else payload[3:]
        raise RefusedError(int.from_bytes(payload[1:3], "little"), words.decode())
    return payload


def _proof(password: str, scramble: bytes) -> bytes:
    def sha1(data: bytes) -> bytes:
        return hashlib.sha1(data, usedforsecurity=False).digest()

    once = sha1(password.encode())
    mask = sha1(scramble + sha1(once))
    return b"\x14" + bytes(one ^ other for one, other in zip(once, mask, strict=True))
