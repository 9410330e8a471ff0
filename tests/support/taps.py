"""A proxy between clients and a server that keeps every byte."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Tap:
    """A context manager that forwards connections to `server` (host:port), and on exit waits for their end.

    `swap` receives each piece of data from the server, and returns what the client gets instead.
    """

    def __init__(self, server: str, swap: Callable[[bytes], bytes] = bytes) -> None:
        self._swap = swap
        host, port = server.rsplit(":", 1)
        self._server = (host, int(port))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._received = bytearray()
        self._sent: list[bytearray] = []
        self._lock = threading.Lock()
        self._serving: list[threading.Thread] = []

    @property
    def port(self) -> int:
        return int(self._listening.getsockname()[1])

    def __enter__(self) -> Self:
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Closing a socket does not wake a thread that waits in accept, but shutdown does.
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listening.close()
        for thread in self._serving:
            thread.join()

    def received(self) -> bytes:
        """Return all bytes sent to clients so far. The tap stores bytes before it forwards them."""
        with self._lock:
            return bytes(self._received)

    def sent(self) -> list[bytes]:
        with self._lock:
            return [bytes(each) for each in self._sent]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self._serving.append(threading.Thread(target=self._serve, args=(client,), daemon=True))
                self._serving[-1].start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._server) as server:
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sent = bytearray()
            with self._lock:
                self._sent.append(sent)
            up = threading.Thread(target=self._forward, args=(client, server, sent), daemon=True)
            up.start()
            self._forward(server, client, self._received, self._swap)
            up.join()

    def _forward(
        self, source: socket.socket, sink: socket.socket, kept: bytearray, swap: Callable[[bytes], bytes] = bytes
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 20):
                data = swap(data)
                with self._lock:
                    kept += data
                sink.sendall(data)
        # Forward the end of the connection, so that the thread of the other direction ends too.
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR if kept is self._received else socket.SHUT_WR)
