"""Starts each server program of labs, and yields what tests need: a check, the secrets, and the processes."""

from __future__ import annotations

import contextlib
import functools
import itertools
import socket
import ssl
import struct
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymongo
import pymysql
from pydantic import SecretStr
from pymysql.cursors import Cursor

from costof.errors import CostofError
from costof.lab.certificates import DEFAULT_KEY, Authority
from costof.lab.host import Host
from costof.lab.lab import Lab, descendants_of
from costof.lab.program import UNPACKED
from costof.messages.plan import Arm, Plan, ServiceSettings, TlsFiles
from costof.messages.process import engine
from costof.programs.balancer import ORIGIN_NAME, Balancer, Entrance
from costof.programs.haproxy import Haproxy
from costof.programs.mariadb.lab import DATABASE, USER, MariadbServer, greets
from costof.programs.mariadb.versions import base_folder, find_mariadbd
from costof.programs.mongod.connection import MongodbSettings
from costof.programs.nginx import Nginx
from costof.programs.openssh import CIPHERS, SshServer
from costof.programs.origin import Listener, OriginProcess
from costof.programs.server import Place, lab_server
from costof.programs.sidecars.envoy import Envoy
from costof.programs.sidecars.haproxy import HaproxySidecar
from costof.programs.sidecars.proxy import MutualTls, Passage, Sidecar
from tests.support.pgbouncer import a_pooler

#: A timeout in s for operations that hang. Other operations end sooner even on slow machines. The time limit of pytest
#: is longer.
HANGS_SECONDS = 1500
#: The tolerance in ms for round trips shorter than requested. The lab subtracts the measured delay of the path, at most
#: 0.3 ms, from the delay that it adds, and two clocks of a machine differ slightly.
SHORTER_MS = 0.35


@dataclass
class RunningServer:
    """A lab's running program. `answers` tests whether it serves a client. Only `folders` may show the `secrets`."""

    lab: Lab
    answers: Callable[[], bool]
    secrets: list[str]
    folders: list[Path]

    @property
    def started(self) -> list[int]:
        return [process.pid for process in self.lab.processes.values()]

    @property
    def pids(self) -> list[int]:
        """Return the ids of the started processes and of their descendants. Some of these may have ended meanwhile."""
        return self.started + [pid for parent in self.started for pid in descendants_of(parent)]


def logs_in(settings: ServiceSettings) -> bool:
    plan = Plan(operation_timeout_ms=HANGS_SECONDS * 1000, arms=[Arm(name="plain", service=settings)], workloads=[])
    with engine() as client:
        return client.plan(plan).arms[0].error is None


def finds_nothing(settings: MongodbSettings) -> bool:
    assert settings.password is not None
    client: pymongo.MongoClient[dict[str, object]] = pymongo.MongoClient(
        "mongodb://" + ",".join(settings.addresses),
        replicaSet=settings.replica_set,
        username=settings.username,
        password=settings.password.get_secret_value(),
    )
    with client:
        return client[settings.database][settings.collection].find_one() is None


@contextlib.contextmanager
def standing_server(
    program: str, answers: Callable[[Any], bool] = logs_in, secret_files: Sequence[str] = ()
) -> Iterator[RunningServer]:
    """Start the server that studies call `program`. Each file of `secret_files` in the lab's folder is a secret."""
    with Lab() as lab:
        host = Host("server", None, loopback=lab.address(1))
        authority = Authority(lab.folder / "certificates")
        addresses = (lab.address(number) for number in itertools.count(1))
        place = Place(lab, host, authority, [DEFAULT_KEY], lambda: next(addresses))
        with contextlib.closing(lab_server(program)(place)) as server:
            server.start()
            settings = server.client_settings()
            secrets = [value.get_secret_value() for _, value in settings if isinstance(value, SecretStr)]
            secrets += [(lab.folder / name).read_text() for name in secret_files]
            yield RunningServer(lab, lambda: answers(settings), secrets, [lab.folder])


ED25519_USER = "costof_ed25519"
#: The plugin for client_ed25519. It is in another package than the server: see scripts/system-packages.
ED25519_PLUGIN = "auth_ed25519.so"


def make_ed25519_user(server: MariadbServer) -> bool:
    """Create a user who logs in with ed25519. Return False if the server has no plugin for ed25519."""
    try:
        server.ask("INSTALL SONAME 'auth_ed25519'")
    except CostofError:
        return False
    password = server.password.get_secret_value()
    server._query(f"CREATE USER {ED25519_USER} IDENTIFIED VIA ed25519 USING PASSWORD(%s)", password)
    server.ask(f"GRANT ALL ON {DATABASE}.* TO {ED25519_USER}")
    return True


@contextlib.contextmanager
def running_mariadb(lab: Lab, *keys: str, authority: Authority | None = None) -> Iterator[MariadbServer]:
    """Start a MariaDB with a certificate for each of these kinds of keys. The server uses the first certificate.

    Several servers in a lab share an `authority`, because a lab's folder has the files of one authority only.
    """
    authority = authority or Authority(lab.folder / "certificates")
    installed = base_folder(find_mariadbd()) / "lib/mysql/plugin" / ED25519_PLUGIN
    elsewhere = not installed.is_file() and (UNPACKED / ED25519_PLUGIN).is_file()
    settings = {"plugin-dir": str(UNPACKED)} if elsewhere else {}
    server = MariadbServer(lab, authority, [lab.address(1)], keys=keys or (DEFAULT_KEY,), settings=settings)
    with contextlib.closing(server):
        server.start()
        yield server


# An account on a costof user's server: it may create databases of runs, but not read other databases.
ADMIN = "somebody"


def user_of_many_databases(server: MariadbServer, *, requires: str = "NONE", may: Sequence[str] = ("ALL",)) -> None:
    """Create the account `ADMIN` with the server's own password.

    `requires` is 'NONE', or 'SSL' to require TLS. `may` has the account's privileges on databases of runs.
    """
    server._query(f"CREATE USER {ADMIN} IDENTIFIED BY %s REQUIRE {requires}", server.password.get_secret_value())
    server._query(f"GRANT {', '.join(may)} ON `costof\\_%%`.* TO {ADMIN}".replace("%%", "%"))


def url_of(server: MariadbServer, user: str = ADMIN, password: str | None = None) -> str:
    return f"mysql://{user}:{password or server.password.get_secret_value()}@{server.address}:{server.port}/"


def databases(server: MariadbServer) -> set[str]:
    return {row[0] for row in server.ask("SHOW DATABASES")}


@contextlib.contextmanager
def users_mariadb(lab: Lab) -> Iterator[MariadbServer]:
    """Start a MariaDB like a user's own: with other data, and an account that can only use databases of runs."""
    with running_mariadb(lab) as server:
        user_of_many_databases(server)
        server.ask("CREATE DATABASE theirs")
        server.ask("CREATE TABLE theirs.data (id INT PRIMARY KEY)")
        server.ask("INSERT INTO theirs.data VALUES (1)")
        yield server


@contextlib.contextmanager
def tunnel_program() -> Iterator[RunningServer]:
    with Lab() as lab, running_mariadb(lab) as server:
        sshd = SshServer(lab, lab.address(1))
        sshd.start()
        entrance = (lab.address(2), 3306)
        tunnel = sshd.start_tunnel("ssh-tunnel", CIPHERS[1], entrance, (server.address, server.port))
        sshd.wait_until_open(tunnel, lambda: greets(*entrance))
        keys = [sshd._folder / "host_key", sshd._client_folder / "key"]
        secrets = [server.password.get_secret_value(), *(key.read_text().splitlines()[1] for key in keys)]
        yield RunningServer(
            lab, lambda: query(server, "SELECT 1", *entrance) == "1", secrets, [lab.folder, sshd._folder]
        )


@dataclass
class RunningBalancer:
    """A balancer on loopback addresses. `entrances` has its ports by name: plain, tls, reencrypt, through."""

    address: str
    entrances: dict[str, Entrance]
    authority: Authority
    certificate: Path

    def url(self, entrance: str) -> str:
        scheme = "http" if entrance == "plain" else "https"
        return f"{scheme}://{self.address}:{self.entrances[entrance].port}/"


@contextlib.contextmanager
def running_balancer(lab: Lab, kind: type[Balancer]) -> Iterator[RunningBalancer]:
    with OriginProcess() as origin:
        authority = Authority(lab.folder / "certificates")
        certificate = authority.issue("all", "rsa-2048", [lab.address(1), ORIGIN_NAME])
        listeners = [
            Listener(address=f"{lab.address(2)}:9000"),
            Listener(address=f"{lab.address(2)}:9001", tls=TlsFiles.of(certificate)),
        ]
        origin.begin(listeners)
        plain, tls = (listener.address for listener in listeners)
        entrances = [
            Entrance("plain", 8000, plain),
            Entrance("tls", 8001, plain, certificate),
            Entrance("reencrypt", 8002, tls, certificate, reencrypts=True),
            Entrance("through", 8003, tls, passes_through=True),
        ]
        host = Host(kind.name, None, loopback=lab.address(1))
        kind(lab, host, lab.address(1), entrances, authority.ca_file).start()
        yield RunningBalancer(lab.address(1), {each.name: each for each in entrances}, authority, certificate)


@contextlib.contextmanager
def balancer_program(kind: type[Balancer]) -> Iterator[RunningServer]:
    with Lab() as lab, running_balancer(lab, kind) as running:

        def answers() -> bool:
            context = ssl.create_default_context(cafile=str(running.authority.ca_file))
            return all(get(running.url(name), context) == "OK" for name in running.entrances)

        yield RunningServer(lab, answers, running.certificate.read_text().split("-----")[2].split(), [lab.folder])


@contextlib.contextmanager
def sidecar_program(kind: type[Sidecar]) -> Iterator[RunningServer]:
    with Lab() as lab, OriginProcess() as origin:
        address = f"{lab.address(2)}:9000"
        origin.begin([Listener(address=address)])
        authority = Authority(lab.folder / "certificates")
        names = ("near-the-server", "near-the-client")
        certificates = [authority.issue(name, "ecdsa-p256", [name]) for name in names]
        inward, outward = (
            MutualTls(certificate, authority.ca_file, peer)
            for certificate, peer in zip(certificates, reversed(names), strict=True)
        )
        near, far = f"{lab.address(1)}:15001", f"{lab.address(3)}:15001"
        passages = (
            Passage("route", near, address, http=True, inward=inward),
            Passage("route", far, near, http=True, outward=outward),
        )
        for name, passage in zip(names, passages, strict=True):
            host = Host(name, None, loopback=passage.listen.rpartition(":")[0])
            kind(lab, name, name, [passage], host).start()
        secrets = [line for each in certificates for line in each.read_text().split("-----")[2].split()]
        yield RunningServer(lab, lambda: get(f"http://{far}/") == "OK", secrets, [lab.folder])


@contextlib.contextmanager
def pooler_program() -> Iterator[RunningServer]:
    with Lab() as lab, a_pooler(lab) as pooler:
        secrets = [secret.get_secret_value() for secret in (pooler.upstream.password, pooler.upstream.secret)]
        yield RunningServer(lab, lambda: logs_in(pooler.settings), secrets, [lab.folder, *pooler.program.folders])


PROGRAMS = {
    "mongod": functools.partial(standing_server, "mongod", finds_nothing, secret_files=["keyfile"]),
    "mariadbd": functools.partial(standing_server, "mariadb"),
    "postgres": functools.partial(standing_server, "postgres"),
    "redis": functools.partial(standing_server, "redis"),
    "sshd": tunnel_program,
    "haproxy": functools.partial(balancer_program, Haproxy),
    "nginx": functools.partial(balancer_program, Nginx),
    "pgbouncer": pooler_program,
    "envoy": functools.partial(sidecar_program, Envoy),
    "haproxy as a sidecar": functools.partial(sidecar_program, HaproxySidecar),
}


def get(url: str, context: ssl.SSLContext | None = None) -> str:
    with urllib.request.urlopen(url, timeout=HANGS_SECONDS, context=context) as response:  # noqa: S310  # a server of the lab
        return str(response.read().decode())


def check_of(user: str, password: str) -> str:
    """Return the section of a gateway's rules with the account that reads which tables exist."""
    return f'[check]\nusername = "{user}"\npassword = "{password}"\n'


def log_in(server: MariadbServer, address: str | None = None, port: int | None = None) -> pymysql.Connection[Cursor]:
    return pymysql.connect(
        host=address or server.address,
        port=port or server.port,
        user=USER,
        password=server.password.get_secret_value(),
        database=DATABASE,
        ssl_disabled=True,
        connect_timeout=HANGS_SECONDS,
        read_timeout=HANGS_SECONDS,
    )


def query(server: MariadbServer, statement: str, address: str | None = None, port: int | None = None) -> str:
    """Return the last column of the first row, read over a new connection without TLS."""
    with log_in(server, address, port) as connection:
        return ask(connection, statement)


def ask(connection: pymysql.Connection[Cursor], statement: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        row = cursor.fetchone()
        return str(row[-1]) if row else ""


def start_tls(server: MariadbServer, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> ssl.SSLSocket:
    """Return a connection after the TLS handshake and before the login. The client requests TLS by an SSLRequest."""
    plain = socket.create_connection((server.address, server.port), timeout=HANGS_SECONDS)
    try:
        plain.recv(4096)
        # Capabilities PROTOCOL_41, SSL and SECURE_CONNECTION; packets up to 16 MiB; character set utf8.
        request = struct.pack("<IIB23x", 0x0200 | 0x0800 | 0x8000, 1 << 24, 33)
        plain.sendall(struct.pack("<I", len(request) | 1 << 24) + request)
        return context.wrap_socket(plain, server_hostname=server.address, session=session)
    except OSError:
        plain.close()
        raise


def eventually(what: str, condition: Callable[[], bool]) -> None:
    """Wait until the condition holds, and fail after a very long time. `what` is the condition's name in the error."""
    deadline = time.monotonic() + HANGS_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come about within {HANGS_SECONDS} s"
        time.sleep(0.02)
