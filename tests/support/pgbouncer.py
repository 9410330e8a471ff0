"""PgBouncer in front of a PostgreSQL server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from costof.lab.certificates import DEFAULT_KEY, Authority
from costof.lab.host import Host
from costof.lab.lab import Lab
from costof.messages.plan import ServiceSettings
from costof.programs.pgbouncer.pooler import PgBouncer, Pool, Upstream
from costof.programs.postgres.lab import PostgresServer
from costof.programs.server import Place

PORT = 6432
POOL = Pool("pool", "transaction", 2)


@dataclass
class Pooler:
    """A running PgBouncer and its connection to the server. `settings` are for clients of the pooler."""

    program: PgBouncer
    upstream: Upstream
    settings: ServiceSettings


@contextlib.contextmanager
def a_pooler(lab: Lab) -> Iterator[Pooler]:
    authority = Authority(lab.folder / "certificates")
    place = Place(lab, Host("server", None, lab.address(1)), authority, [DEFAULT_KEY], lambda: lab.address(1))
    with contextlib.closing(PostgresServer(place)) as server:
        server.start()
        with pooler_before(server, lab, authority) as pooler:
            yield pooler


@contextlib.contextmanager
def pooler_before(server: PostgresServer, lab: Lab, authority: Authority) -> Iterator[Pooler]:
    """Start a pooler in front of the server. It has two processes on one port, and uses TLS to the server."""
    address = lab.address(2)
    upstream = Upstream.of(server, authority.ca_file)
    certificate = authority.issue("pooler", DEFAULT_KEY, [address])
    host = Host("pooler", None, address)
    program = PgBouncer(lab, "pgbouncer", host, [address], PORT, certificate, upstream, [POOL], processes=2)
    with contextlib.closing(program):
        program.start()
        settings = {"addresses": [f"{address}:{PORT}"], "database": POOL.name}
        yield Pooler(program, upstream, server.client_settings().with_settings(settings))
