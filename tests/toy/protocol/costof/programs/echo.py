"""An echo server (RFC 862) that accepts plain connections and TLS on one port, and the server's lab."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import ssl
import sys
from collections import Counter

from costof.lab.program import Counters, Description
from costof.messages.plan import ServiceSettings
from costof.programs.server import LabServer, Place

PORT = 7
UNENCRYPTED = "TCP"
READY = "listening"
#: The first byte of a TLS connection (RFC 8446, 5.1). No line of text starts with it.
HANDSHAKE = b"\x16"


class EchoServer(LabServer):
    """An echo server, run by `python -m costof.programs.echo` on the lab's host for servers."""

    writes = ["nothing"]

    def __init__(self, place: Place) -> None:
        self._lab = place.lab
        self._host = place.host
        self._address = place.new_address()
        self._certificate = place.authority.issue("echo", place.keys[0], [self._address])

    def start(self) -> None:
        argv = [sys.executable, "-m", __name__, self._address, str(PORT), str(self._certificate)]
        self._log = self._lab.spawn("echo", "server", argv, host=self._host).log
        self._lab.wait_until("starting the echo server", lambda: READY in self._log.read_text())

    def client_settings(self) -> ServiceSettings:
        return ServiceSettings(protocol="echo", addresses=[f"{self._address}:{PORT}"])

    def counters(self, server: str) -> Counters:
        kinds = Counter(self._log.read_text().split())
        del kinds[READY]
        connections = kinds.total()
        del kinds[UNENCRYPTED]
        return Counters(connections, dict(kinds))

    def describe(self) -> Description:
        return Description(versions={"Python": sys.version.split()[0]}, topology="one server")


class _Connection(socketserver.BaseRequestHandler):
    """A handler that writes a log line about the TLS of its connection, and then sends back what it receives."""

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            client, kind = self.request, UNENCRYPTED
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
            if client.recv(1, socket.MSG_PEEK) == HANDSHAKE:
                client = tls.wrap_socket(client, server_side=True)
                kind = str(client.version())
            # Other threads write to the same log, so write the line and its end in one call.
            print(f"{kind}\n", end="", flush=True)
            while received := client.recv(4096):
                client.sendall(received)


lab_server = EchoServer

if __name__ == "__main__":
    address, port, certificate = sys.argv[1:]
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    with socketserver.ThreadingTCPServer((address, int(port)), _Connection) as server:
        print(READY, flush=True)
        server.serve_forever()
