"""Programs and sockets inside a network namespace, which is named by the path of a file that holds it."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from pathlib import Path

from costof.lab.program import find_program

#: Of namespaces that have a name: ip-netns(8)'s, in which root alone can write.
FOLDER = Path("/run/netns")
CLONE_NEWNET = 0x40000000
_setns = ctypes.CDLL(None, use_errno=True).setns


def entered(namespace: Path) -> list[str]:
    """Before a program's arguments: it runs in the namespace, with the same pid and end as without it."""
    return [str(find_program("nsenter", "util-linux")), f"--net={namespace}", "--"]


def socket_in(namespace: Path | None, family: int, kind: int, protocol: int = 0) -> socket.socket:
    """A socket of the namespace (None: this one). Raises OSError.

    A socket stays in the namespace in which it was made. A namespace belongs to a thread, so that making one on a
    thread of its own moves nobody else.
    """
    if namespace is None:
        return socket.socket(family, kind, protocol)
    made: list[socket.socket | OSError] = []

    def make() -> None:
        try:
            _enter(namespace)
            made.append(socket.socket(family, kind, protocol))
        except OSError as error:
            made.append(error)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    (outcome,) = made
    if isinstance(outcome, OSError):
        raise outcome
    return outcome


def _enter(namespace: Path) -> None:
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _setns(descriptor, CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(namespace))
    finally:
        os.close(descriptor)
