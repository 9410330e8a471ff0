"""The lab's Redis server.

All arms (measured variants) use the same server process: it has a plain and a TLS port and can change its key while it
runs.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis
from pydantic import SecretStr

from costof.errors import CostofError, ErrorText
from costof.lab.certificates import write_private
from costof.lab.lab import Process
from costof.lab.program import Counters, Description, find_program, first_words
from costof.programs.parts import configuration_of, merged, needed_parts
from costof.programs.redis.connection import VALKEY, RedisSettings
from costof.programs.redis.durability import Durability
from costof.programs.redis.parts import RedisPart
from costof.programs.redis.replica import Replica
from costof.programs.server import LabServer, Place

PACKAGE = "redis-server"
BINARY = "redis-server"

# Settings that differ from Redis's defaults, and why.
SETTINGS = {
    # By default Redis requires client certificates, which only some arms (measured variants) use.
    "tls-auth-clients": "no",
    # Turn snapshots off: a separate process would write them while some arms (variants) are measured and not while
    # others are.
    "save": '""',
    # Redis logs to standard output, which is the lab's log.
    "logfile": '""',
    # A rewrite of the append-only file would run while some arms (variants) are measured and not while others are.
    "auto-aof-rewrite-percentage": "0",
}


def find_redis() -> Path:
    return find_program(BINARY, PACKAGE)


def redis_version(binary: Path) -> str:
    """Return the version, such as '7.0.15', or 'Valkey 8.0.1' if the program is Valkey's. Raises `PROGRAM_MISSING`."""
    name, *words = first_words([str(binary), "--version"], BINARY, PACKAGE).split()
    version = next((word.removeprefix("v=") for word in words if word.startswith("v=")), "unknown")
    return f"{VALKEY} {version}" if name == VALKEY else version


NAME = "redis"
ROLE = "server"
PORT = 6379
TLS_PORT = 6380
USER = "costof"
#: A Redis user for load generators that show the password in the machine's process list, such as redis-benchmark. The
#: user has only a few rights.
VISIBLE_USER = "visible"
VISIBLE_RIGHTS = "resetchannels ~key:* -@all +get +set +ping +hello"
ADMINISTRATOR = "administrator"
#: The optional features that a server may have. Their methods, such as `started`, are called in this order.
PARTS: tuple[type[RedisPart[Any]], ...] = (Replica, Durability)


class RedisServer(LabServer):
    """One `redis-server`, for clients at all distances (round-trip times)."""

    port = PORT
    appends = True
    part_types = PARTS
    configuration_type = configuration_of(PARTS)
    writes = ["the lab's own server: strings under keys key:<number>, removed with the lab"]

    def __init__(self, place: Place) -> None:
        configuration = self.configuration_type.model_validate(dict(place.configuration))
        self.parts: Sequence[RedisPart[Any]] = needed_parts(PARTS, self, configuration)
        self.address = place.new_address()
        self.password = SecretStr(secrets.token_urlsafe(24))
        self._admin_password = SecretStr(secrets.token_urlsafe(24))
        self._visible_password = SecretStr(secrets.token_urlsafe(24))
        self.name = place.name(NAME)
        self.place = place
        self._key = place.keys[0]
        self._settings = SETTINGS | merged(part.settings() for part in self.parts) | configuration.settings
        if configuration.client_certificates:
            self._settings |= {"tls-auth-clients": "yes", "tls-ca-cert-file": str(place.authority.ca_file)}
        self._admin: redis.Redis | None = None
        self._clients: list[redis.Redis] = []
        #: Number of TLS connections in all earlier periods in which the plain port was closed.
        self._tls_connections = 0
        #: The number of all connections at the last closing of the plain port; None while the plain port is open.
        self._closed_at: int | None = None

    def start(self) -> None:
        lab = self.place.lab
        self.binary = find_redis()
        self._version = redis_version(self.binary)
        # Redis gets its own folder, whose path is short enough for a Unix socket.
        self.folder = lab.new_folder()
        names = [self.address, self.name, "localhost"]
        self._certificates = self.place.authority.issue_all(self.name, self.place.keys, names)
        configuration = self.folder / "redis.conf"
        write_private(configuration, self.configuration().encode())
        command_line = [str(self.binary), str(configuration)]
        self.process = lab.spawn(self.name, ROLE, command_line, host=self.place.host)
        self.wait_until_ready(self.process)
        self._admin = self.log_in(self._socket)
        self.ask("PING")
        for part in self.parts:
            part.started()

    def wait_until_ready(self, process: Process) -> None:
        """Wait until a process of this program answers. Raises `LAB_FAILED`."""
        # Redis writes 'Ready to …' for a port, and 'The server is now ready to …' for a Unix socket.
        is_ready = lambda: b"ready to accept connections" in process.log.read_bytes().lower()  # noqa: E731
        self.place.lab.wait_until(f"starting {process.name}", is_ready, only=process)

    def log_in(self, socket: Path, **options: Any) -> redis.Redis:
        """Return a client, logged in as the administrator, of the server or replica that listens at a Unix socket.

        `options` are redis-py's. The method `close` closes the client.
        """
        client = redis.Redis(
            unix_socket_path=str(socket),
            username=ADMINISTRATOR,
            password=self._admin_password.get_secret_value(),
            decode_responses=True,
            **options,
        )
        self._clients.append(client)
        return client

    def close(self) -> None:
        self._admin = None
        while self._clients:
            self._clients.pop().close()

    def configuration(self) -> str:
        """Return the whole redis.conf. Settings that it leaves out have Redis's defaults, not the distribution's."""
        certificate = self._certificates[self._key]
        settings = {
            "bind": self.address,
            "port": str(PORT),
            "tls-port": str(TLS_PORT),
            "tls-cert-file": str(certificate),
            "tls-key-file": str(certificate),
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "dir": str(self.folder),
            **self._settings,
        }
        # Redis needs only hashes of the passwords.
        users = [
            "default off",
            f"{USER} on #{_hash(self.password)} allkeys allcommands",
            f"{VISIBLE_USER} on #{_hash(self._visible_password)} {VISIBLE_RIGHTS}",
            f"{ADMINISTRATOR} on #{_hash(self._admin_password)} allkeys allcommands",
        ]
        lines = [*(f"{name} {value}" for name, value in settings.items()), *(f"user {user}" for user in users)]
        return "\n".join(lines) + "\n"

    def client_settings(self) -> RedisSettings:
        return RedisSettings(
            addresses=[f"{self.address}:{PORT}"],
            tls_addresses=[f"{self.address}:{TLS_PORT}"],
            username=USER,
            password=self.password,
            visible_login=(VISIBLE_USER, self._visible_password.get_secret_value()),
        )

    def counters(self, server: str = "") -> Counters:
        """Return the number of all connections, and of connections made while only the TLS port was open.

        Redis does not count TLS connections separately, so `expect_tls` closes the plain port while clients use TLS.
        """
        connections = self._connections()
        since = 0 if self._closed_at is None else connections - self._closed_at
        return Counters(connections, {"TLS": self._tls_connections + since})

    def expect_tls(self, tls: bool) -> None:
        """Close the plain port if clients use TLS from now on; otherwise open it. Existing connections stay open."""
        if tls == (self._closed_at is not None):
            return
        self.ask("CONFIG", "SET", "port", "0" if tls else str(PORT))
        connections = self._connections()
        if self._closed_at is not None:
            self._tls_connections += connections - self._closed_at
        self._closed_at = connections if tls else None

    def evidence(self) -> dict[str, str]:
        configuration = self.place.configuration
        shown = [*configuration.settings, *(["tls-auth-clients"] if configuration.client_certificates else [])]
        return {name: self.ask("CONFIG", "GET", name)[name] for name in shown} | super().evidence()

    def describe(self) -> Description:
        return Description(
            versions={NAME: self._version},
            topology="one server",
            facts={
                "authentication": "AUTH, a password of 32 characters",
                "TLS": "a separate port, the only open one while TLS is measured; session tickets for clients that "
                "resume sessions",
                "server settings": ", ".join(f"{name}={value}" for name, value in self._settings.items()),
            }
            | merged(part.facts() for part in self.parts),
        )

    def show_key(self, kind: str) -> bool:
        """Present a certificate with this kind of key from now on, and return whether the key has changed.

        Certificate and key are set in one command, because Redis refuses a certificate that does not match its key.
        """
        if kind == self._key:
            return False
        file = str(self._certificates[kind])
        self.ask("CONFIG", "SET", "tls-cert-file", file, "tls-key-file", file)
        self._key = kind
        return True

    def ask(self, *command: str, of: redis.Redis | None = None) -> Any:
        """Execute a command as the administrator, on this server or on `of`. Raises `LAB_FAILED`."""
        if self._admin is None:
            raise CostofError(ErrorText.LAB_FAILED, detail=f"{self.name} is not running")
        try:
            return (of or self._admin).execute_command(*command)  # type: ignore[no-untyped-call]
        except redis.RedisError as error:
            raise CostofError(ErrorText.LAB_FAILED, detail=f"{self.name}: {error}") from error

    def add_user(self, name: str, password: SecretStr, *rights: str) -> None:
        self.ask("ACL", "SETUSER", name, "on", f"#{_hash(password)}", *rights)

    def _connections(self) -> int:
        return int(self.ask("INFO", "stats")["total_connections_received"])

    @property
    def _socket(self) -> Path:
        return self.folder / "socket"


def _hash(password: SecretStr) -> str:
    """Return the hash that Redis stores for a password (`ACL SETUSER`, `#<hash>`)."""
    return hashlib.sha256(password.get_secret_value().encode()).hexdigest()
