"""PgBouncer of the run's own: a pool of standing connections to a PostgreSQL server, before which its clients come.

TLS to the server is a setting of a process, and so is the key that clients are shown; mode and size are a pool's.
Several processes may share a port (SO_REUSEPORT): each has one thread, and pools of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from costof.lab.host import Host
from costof.lab.lab import Lab
from costof.lab.program import Counters, with_descriptors
from costof.lab.unprivileged import Unprivileged
from costof.programs.pgbouncer.pool import BACKLOG, CLIENTS, ROLE, Pool, Totals, find_pgbouncer, pgbouncer_version
from costof.programs.pgbouncer.process import PoolerProcess, Row, Upstream

DESCRIPTORS = 2 * CLIENTS
# What differs from PgBouncer's defaults, and why.
SETTINGS = {
    "auth_type": "scram-sha-256",
    "max_client_conn": CLIENTS,
    # A storm of clients is to wait for PgBouncer and not for the kernel to send its packets again.
    "listen_backlog": BACKLOG,
    # Connections to the server stand through the run: one that is opened anew would fall into some slice.
    "server_lifetime": 1_000_000,
    "server_idle_timeout": 0,
    "server_check_query": "",
    # Only its own words about itself, once a minute.
    "log_stats": 0,
}


class PgBouncer:
    """So many `processes` on one port of `addresses`. `start` it; the lab ends them.

    Clients that ask for TLS are shown `certificate` (key and certificate in one PEM file); others are taken too.
    """

    def __init__(
        self,
        lab: Lab,
        name: str,
        host: Host,
        addresses: Sequence[str],
        port: int,
        certificate: Path,
        upstream: Upstream,
        pools: Sequence[Pool],
        processes: int = 1,
    ) -> None:
        self.name = name
        self.version = ""
        self._lab = lab
        self._host = host
        self._addresses = list(addresses)
        self._port = port
        self._certificate = certificate
        self._upstream = upstream
        self._pools = list(pools)
        self._several = processes > 1
        self._user = Unprivileged()
        self._processes = [PoolerProcess(f"{name}-{number}", port, upstream) for number in range(1, processes + 1)]
        self._counted: Counter[str] = Counter()

    def start(self) -> None:
        """Until each process says of itself that its pools are full. Raises `PROGRAM_MISSING`, `LAB_FAILED`."""
        binary = find_pgbouncer()
        self.version = pgbouncer_version(binary)
        for each in self._processes:
            each.folder = self._lab.new_folder()
            self._user.own(each.folder)
            for name, content in self._files(each.folder):
                self._user.write(each.folder / name, content)
            argv = [*self._user.prefix, str(binary), str(each.folder / "pgbouncer.ini")]
            started = each.process = self._lab.spawn(
                each.name, ROLE, with_descriptors(DESCRIPTORS, argv), host=self._host
            )
            self._lab.wait_until(f"starting {each.name}", each.answers, of=started)
            each.fill(self._pools)
            self._lab.wait_until(f"filling {each.name}", partial(each.is_full, self._pools), of=started)

    def close(self) -> None:
        """Leave the processes to the lab, which ends them."""
        for each in self._processes:
            each.hang_up()

    def configuration(self, folder: Path) -> str:
        """The whole of a process' pgbouncer.ini."""
        settings = {
            "listen_addr": ",".join(self._addresses),
            "listen_port": self._port,
            "unix_socket_dir": folder,
            "so_reuseport": int(self._several),
            "auth_file": folder / "users.txt",
            "admin_users": self._upstream.username,
            "client_tls_sslmode": "allow",
            "client_tls_key_file": folder / "server.pem",
            "client_tls_cert_file": folder / "server.pem",
            "server_tls_sslmode": "verify-full" if self._upstream.ca_file else "disable",
            **({"server_tls_ca_file": folder / "ca.pem"} if self._upstream.ca_file else {}),
            **SETTINGS,
        }
        lines = ["[databases]", *map(self._entry, self._pools), "[pgbouncer]"]
        return "".join(f"{line}\n" for line in [*lines, *(f"{name} = {value}" for name, value in settings.items())])

    @property
    def folders(self) -> list[Path]:
        """Those of its processes, with its configuration and its secrets."""
        return [each.folder for each in self._processes]

    def counters(self) -> Counters:
        """Clients that came, by the version of their TLS: a line of the log each."""
        for each in self._processes:
            self._counted.update(each.clients())
        tls = {version: count for version, count in self._counted.items() if version}
        return Counters(self._counted.total(), tls)

    def totals(self, pool: str) -> Totals:
        """Of all processes. Raises `LAB_FAILED`."""
        rows = self._show("STATS_TOTALS", pool)
        waited_us = sum(int(row["wait_time"]) for row in rows)
        return Totals(sum(int(row["xact_count"]) for row in rows), waited_us / 1e3)

    def servers(self, pool: str) -> dict[int, str]:
        """A pool's connections, by the server's process: TLS as PgBouncer sees it, '' for none. Raises `LAB_FAILED`."""
        return {int(row["remote_pid"]): str(row["tls"]) for row in self._show("SERVERS", pool)}

    def why_dead(self) -> str | None:
        """Why nothing goes through it any more; None while all of its processes stand."""
        return next((why for each in self._processes if (why := each.why_dead())), None)

    def _show(self, what: str, pool: str) -> list[Row]:
        return [row for each in self._processes for row in each.show(what) if row["database"] == pool]

    def _files(self, folder: Path) -> Iterator[tuple[str, bytes]]:
        to = self._upstream
        yield "server.pem", self._certificate.read_bytes()
        # From a password in plain text it would derive the key at each log-in, on its only thread. With another secret
        # than the server's it could not log in there by the key that a client's proof has shown it.
        yield "users.txt", f'"{to.username}" "{to.secret.get_secret_value()}"\n'.encode()
        if to.ca_file:
            yield "ca.pem", to.ca_file.read_bytes()
        yield "pgbouncer.ini", self.configuration(folder).encode()

    def _entry(self, pool: Pool) -> str:
        to = self._upstream
        words = {
            "host": to.address,
            "port": to.port,
            "dbname": to.database,
            "user": to.username,
            "password": to.password.get_secret_value(),
            "pool_mode": pool.mode,
            "pool_size": pool.size,
            # One that breaks is opened anew.
            "min_pool_size": pool.size,
        }
        return f"{pool.name} = {' '.join(f'{name}={value}' for name, value in words.items())}"
