"""A server that accepts connections and sends a fixed text, then nothing."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def silent_listener(says: bytes = b"") -> Iterator[int]:
    """Yield the port on 127.0.0.1 of a server that sends `says` to each connection and keeps connections open."""
    accepted: list[socket.socket] = []

    def take(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                accepted.append(connection)
                connection.sendall(says)

    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        thread = threading.Thread(target=take, args=(listener,))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in accepted:
                connection.close()
