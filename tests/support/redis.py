"""Redis servers for tests, whose settings can be changed for a while."""

from __future__ import annotations

import contextlib
import datetime
import itertools
from collections.abc import Iterator
from pathlib import Path

from costof.lab.certificates import Authority
from costof.lab.host import Host
from costof.lab.lab import Lab
from costof.messages.plan import Transport
from costof.programs.redis.connection import RUNS
from costof.programs.redis.lab import PORT, TLS_PORT, USER, RedisServer
from costof.programs.server import Place


class RunningServer(RedisServer):
    """A Redis server whose certificate authority is known, and whose settings can be changed for a while."""

    @property
    def ca_file(self) -> Path:
        return self.place.authority.ca_file

    @property
    def tls(self) -> Transport:
        return Transport(kind="tls").trusting(self.ca_file)

    def url(self, password: str | None = None) -> str:
        secret = password or self.password.get_secret_value()
        return f"rediss://{USER}:{secret}@{self.address}:{TLS_PORT}/?plain_port={PORT}"

    def all_keys(self) -> set[str]:
        return set(self.ask("KEYS", "*"))

    def places(self) -> set[str]:
        """Return the names of all runs that have keys on the server or are listed in the hash `RUNS`."""
        names = {key.split(":")[1] for key in self.all_keys() - {RUNS} if key.startswith("costof:")}
        return names | {field.partition(":")[0] for field in self.ask("HKEYS", RUNS)}

    def bytes_received(self) -> int:
        """Return the bytes received from all clients, after TLS was removed, including this request."""
        return int(self.ask("INFO", "stats")["total_net_input_bytes"])

    @contextlib.contextmanager
    def showing_an_expired_certificate(self) -> Iterator[None]:
        names, past = [self.address], datetime.timedelta(seconds=-1)
        usual = str(self._certificates[self._key])
        expired = str(self.place.authority.issue("expired", "rsa-2048", names, valid_for=past))
        self.ask("CONFIG", "SET", "tls-cert-file", expired, "tls-key-file", expired)
        try:
            yield
        finally:
            self.ask("CONFIG", "SET", "tls-cert-file", usual, "tls-key-file", usual)

    @contextlib.contextmanager
    def configured(self, name: str, value: str) -> Iterator[None]:
        usual = self.ask("CONFIG GET", name)[name]
        self.ask("CONFIG", "SET", name, value)
        try:
            yield
        finally:
            self.ask("CONFIG", "SET", name, usual)


@contextlib.contextmanager
def users_redis(lab: Lab) -> Iterator[RunningServer]:
    host, authority = Host("server", None, loopback=lab.address(1)), Authority(lab.folder / "certificates")
    addresses = (lab.address(number) for number in itertools.count(1))
    server = RunningServer(Place(lab, host, authority, ["rsa-2048", "ecdsa-p256"], lambda: next(addresses)))
    with contextlib.closing(server):
        server.start()
        yield server
