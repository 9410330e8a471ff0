"""Servers that are compatible with MySQL, Redis or MongoDB: go-mysql-server, miniredis and FerretDB.

They lack some statements, sections of INFO, counters or roles of the original servers. If Go is installed, each server
is built once into the user's cache.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from costof.lab.certificates import DEFAULT_KEY, Authority
from costof.lab.lab import Lab
from tests.clients.programs import Absent, go_program
from tests.support.programs import HANGS_SECONDS

HERE = Path(__file__).parent
USER = "app"


@dataclass(frozen=True)
class Kind:
    """A kind of server. Its source is in the folder `name` next to this file.

    `argv` returns the arguments of its command line for a host, a file with certificate and key, and a folder. `url` is
    the target's URL with placeholders for login and host.
    """

    name: str
    ports: tuple[int, ...]
    argv: Callable[[str, Path, Path], list[str]]
    url: str


GO_MYSQL_SERVER = Kind(
    "go-mysql-server", (3306,), lambda host, pem, _: [f"{host}:3306", str(pem), USER], "mysql://{login}@{host}:3306/"
)
MINIREDIS = Kind(
    "miniredis",
    (6379, 6380),
    lambda host, pem, _: [f"{host}:6379", f"{host}:6380", str(pem), USER],
    "rediss://{login}@{host}:6380/?plain_port=6379",
)
FERRETDB = Kind(
    "ferretdb",
    (27017,),
    lambda host, pem, folder: [f"{host}:27017", str(pem), USER, str(folder)],
    "mongodb://{login}@{host}:27017/",
)


@dataclass(frozen=True)
class RunningServer:
    url: str
    ca_file: Path


@contextlib.contextmanager
def running_server(kind: Kind) -> Iterator[RunningServer]:
    """Start a server, and yield it. Skip the test if it cannot be built."""
    try:
        program = go_program(HERE / kind.name, kind.name)
    except Absent as error:
        pytest.skip(str(error))
    with Lab() as lab:
        authority, host, password = Authority(lab.folder / "certificates"), lab.address(1), secrets.token_hex(8)
        argv = [str(program), *kind.argv(host, authority.issue("server", DEFAULT_KEY, [host]), lab.folder)]
        process = lab.spawn(kind.name, "server", argv, {"PASSWORD": password})
        lab.wait_until(kind.name, lambda: all(_listens(host, port) for port in kind.ports), HANGS_SECONDS, process)
        yield RunningServer(kind.url.format(login=f"{USER}:{password}", host=host), authority.ca_file)


def _listens(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), HANGS_SECONDS):
        return True
    return False
