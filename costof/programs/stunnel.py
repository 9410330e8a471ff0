"""stunnel processes in a lab, which add TLS between a server and clients that do not use TLS themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from costof.lab.certificates import write_private
from costof.lab.debian import Packages
from costof.lab.host import Host
from costof.lab.lab import Lab
from costof.lab.program import find_program, first_words, located

PROGRAM = "stunnel"
PACKAGE = "stunnel4"
#: The settings of every stunnel process. With TCP_NODELAY on both sides all data is sent at once. The log level is
#: stunnel's default, with which it writes a few lines per connection. The lines go to the lab's log and not to syslog:
#: without a syslog daemon the C library would write them to the console, which took 4 ms per connection.
GLOBAL = """\
foreground = yes
pid =
debug = notice
syslog = no
socket = l:TCP_NODELAY=1
socket = r:TCP_NODELAY=1
"""


def find_stunnel() -> Path:
    return find_program(PROGRAM, PACKAGE)


def stunnel_version(binary: Path) -> str:
    # The second line of stunnel's output is 'stunnel 5.68 on x86_64-pc-linux-gnu platform'.
    command = ["sh", "-c", '"$0" -version 2>&1 | grep "^stunnel "', str(binary)]
    return first_words(command, PROGRAM, PACKAGE).split()[1]


NEEDED = {PROGRAM: located(find_stunnel, stunnel_version)}
FETCHABLE = [Packages(PROGRAM, [PACKAGE], ["usr/bin/stunnel"])]


@dataclass(frozen=True)
class End:
    """One end of a TLS tunnel.

    For each connection to `accept`, the end opens a connection to `connect` (both 'address:port').

    With a `certificate` (PEM, with its key) it is the server's end and accepts TLS. With a `ca_file` it is the client's
    end and connects with TLS. The client's end uses only TLS 1.3, resumes no session, and verifies that the server's
    certificate is for the address in `connect`.
    """

    name: str
    accept: str
    connect: str
    certificate: Path | None = None
    ca_file: Path | None = None

    def configuration(self) -> str:
        settings: dict[str, object] = {"accept": self.accept, "connect": self.connect}
        if self.certificate is not None:
            settings["cert"] = self.certificate
        else:
            settings |= {"client": "yes", "CAfile": self.ca_file, "verifyChain": "yes"}
            settings |= {"checkIP": self.connect.rpartition(":")[0], "sslVersion": "TLSv1.3", "sessionResume": "no"}
        return f"[{self.name}]\n" + "".join(f"{name} = {value}\n" for name, value in settings.items())


class Stunnel:
    """A stunnel process of a lab that serves one or more tunnel ends, each with its own port."""

    def __init__(self, lab: Lab, name: str, role: str, ends: Sequence[End], host: Host) -> None:
        """Start the process and wait until it listens. Raises `PROGRAM_MISSING`, `LAB_FAILED`."""
        file = lab.new_folder() / "stunnel.conf"
        write_private(file, (GLOBAL + "".join(end.configuration() for end in ends)).encode())
        self._process = lab.spawn(name, role, [str(find_stunnel()), str(file)], host=host)
        self.name = name
        lab.wait_until(f"starting {name}", lambda: b"Configuration successful" in self._log(), only=self._process)

    def connections(self, end: str) -> int:
        """Return how many connections the named end has forwarded; a server's end forwards after the TLS handshake."""
        return self._log().count(f"Service [{end}] connected remote server".encode())

    def why_dead(self) -> str | None:
        return self._process.why_dead(self.name)

    def _log(self) -> bytes:
        return self._process.log.read_bytes()
