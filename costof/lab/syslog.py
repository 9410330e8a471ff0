"""A syslog daemon for one server of a lab: `python -m costof.lab.syslog SOCKET` writes each message as a line.

Programs send messages to /dev/log, a path that is fixed in the C library. `SyslogDaemon.prefix` therefore gives a
program a /dev of its own, so that its messages reach this daemon and not the machine's. If the socket's queue is full,
the program waits, as with other daemons. No message is lost unless the disk is full.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from costof.lab.host import Host
from costof.lab.lab import Lab, Process
from costof.lab.program import find_program

ROLE = "syslog"
LONGEST_MESSAGE = 65_536
#: The maximum number of messages in one write. A write takes all messages that are waiting, up to this number.
BATCH = 256
STANDARD_OUTPUT = 1
#: The shell script that replaces /dev by a folder (the first argument) with a few devices and a socket (the second
#: argument), and then executes its further arguments. `unshare` has made the mounts private to the program.
OWN_DEV = """\
set -e
folder=$1 socket=$2
shift 2
mount -t tmpfs -o mode=755 costof "$folder"
for device in null zero full random urandom; do
    : >"$folder/$device"
    mount --bind "/dev/$device" "$folder/$device"
done
: >"$folder/log"
mount --bind "$socket" "$folder/log"
mount --rbind "$folder" /dev
exec "$@"
"""


class SyslogDaemon:
    """A running daemon in a lab. Its log has a line for each message."""

    def __init__(self, lab: Lab, name: str, host: Host | None) -> None:
        """Start the daemon and wait until it accepts messages. Raises `LAB_FAILED`."""
        self._socket = lab.folder / f"{name}.sock"
        self._dev = lab.folder / f"{name}.dev"
        self._dev.mkdir()
        self.process: Process = lab.spawn(
            name, ROLE, [sys.executable, "-m", "costof.lab.syslog", str(self._socket)], host=host
        )
        lab.wait_until(f"starting {name}", self._socket.exists, only=self.process)

    @property
    def prefix(self) -> list[str]:
        """Return a command prefix: the command after it sends its syslog messages to this daemon, with the same pid."""
        unshare = str(find_program("unshare", "util-linux"))
        return [unshare, "--mount", "/bin/sh", "-c", OWN_DEV, "sh", str(self._dev), str(self._socket)]

    def send(self, message: str) -> None:
        """Send a message. The log keeps the order of messages."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect(str(self._socket))
            sender.send(message.encode())


def receive(path: Path) -> None:
    """Receive messages at the socket `path`, and write them to standard output until the process is killed."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        # Bind under another name, because a server may send as soon as `path` exists.
        waiting = path.with_suffix(".new")
        receiver.bind(str(waiting))
        waiting.chmod(0o666)
        waiting.rename(path)
        while True:
            messages = [receiver.recv(LONGEST_MESSAGE)]
            try:
                while len(messages) < BATCH:
                    messages.append(receiver.recv(LONGEST_MESSAGE, socket.MSG_DONTWAIT))
            except BlockingIOError:
                pass
            _write(b"".join(message.rstrip(b"\0\n").replace(b"\n", b" ") + b"\n" for message in messages))


def _write(lines: bytes) -> None:
    try:
        os.write(STANDARD_OUTPUT, lines)
    except OSError:
        # If the disk is full, go on without the messages, as other daemons do. The run notices that entries are
        # missing.
        return


if __name__ == "__main__":
    receive(Path(sys.argv[1]))
