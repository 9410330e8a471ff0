"""A Redis server for tests: one that is changed for a while, and one that plays a user's own."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

from costof.ipc.plan import Transport
from costof.lab.certificates import Authority
from costof.lab.host import Host
from costof.lab.lab import Lab
from costof.programs.redis.server import PORT, TLS_PORT, USER, RedisServer
from costof.programs.server import Place


class Standing(RedisServer):
    """With an authority that trusts it, and changes for a while."""

    @property
    def ca_file(self) -> Path:
        return self._place.authority.ca_file

    @property
    def tls(self) -> Transport:
        return Transport(kind="tls").trusting(self.ca_file)

    def url(self, password: str | None = None) -> str:
        told = password or self.password.get_secret_value()
        return f"rediss://{USER}:{told}@{self.address}:{TLS_PORT}/?plain_port={PORT}"

    def keys(self) -> set[str]:
        return set(self.ask("KEYS", "*"))

    @contextlib.contextmanager
    def configured(self, name: str, value: str) -> Iterator[None]:
        usual = self.ask("CONFIG GET", name)[name]
        self.ask("CONFIG", "SET", name, value)
        try:
            yield
        finally:
            self.ask("CONFIG", "SET", name, usual)


@contextlib.contextmanager
def a_redis(lab: Lab) -> Iterator[Standing]:
    host, authority = Host("server", None, loopback=lab.address(1)), Authority(lab.folder / "certificates")
    addresses = (lab.address(number) for number in itertools.count(1))
    server = Standing.at(Place(lab, host, authority, ["rsa-2048", "ecdsa-p256"], lambda: next(addresses)))
    with contextlib.closing(server):
        server.start()
        yield server
