"""A MySQL server that sends prepared packets over a socket pair."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

OK = b"\0\0\0\2\0\0\0"
EOF = b"\xfe\0\0\2\0"
# Capabilities of protocol 4.1, with connection attributes and without TLS.
CAPABILITIES = 0x0018_A20D
NONCE = b"01234567", b"abcdefghijkl\0"


@dataclass
class ResultSet:
    definitions: list[bytes]
    rows: list[bytes]

    def packets(self) -> list[bytes]:
        return [bytes([len(self.definitions)]), *self.definitions, EOF, *self.rows, EOF]


@dataclass
class ScriptedMysql:
    """A server for one connection. It answers statements with the result sets from `results`, or OK for None."""

    results: Callable[[str], ResultSet | None]
    client_hello: bytes = b""
    client: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        self.client, self._server = socket.socketpair()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with self._server:
            low, high = struct.unpack("<HH", struct.pack("<I", CAPABILITIES))
            greeting = b"\x0a8.0.36\0" + struct.pack("<I8sxHBHHB10x", 1, NONCE[0], low, 45, 2, high, 21)
            self._send(0, greeting + NONCE[1] + b"mysql_native_password\0")
            self.client_hello = self._receive()
            self._send(2, OK)
            while (command := self._receive())[:1] == b"\x03":
                result = self.results(command[1:].decode())
                for number, packet in enumerate([OK] if result is None else result.packets(), 1):
                    self._send(number % 256, packet)

    def _send(self, number: int, packet: bytes) -> None:
        with suppress(OSError):
            self._server.sendall(struct.pack("<I", len(packet))[:3] + bytes([number]) + packet)

    def _receive(self) -> bytes:
        """Return one packet; b"" if the client has disconnected."""
        header = self._read(4)
        return self._read(int.from_bytes(header[:3], "little")) if header else b""

    def _read(self, count: int) -> bytes:
        read = b""
        while len(read) < count:
            more = b""
            with suppress(OSError):
                more = self._server.recv(count - len(read))
            if not more:
                return b""
            read += more
        return read
