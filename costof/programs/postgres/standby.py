"""A synchronous standby of a lab's PostgreSQL: a second server on the same host, which replays the first one's log."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from costof.messages.answers import SliceAnswer
from costof.programs.parts import ServerConfiguration
from costof.programs.postgres.parts import PostgresPart
from costof.programs.postgres.scram import scram_secret

STANDBY = "standby"
#: `Standby._state` has this value if the standby has the server's whole log and commits wait for the standby.
IN_STEP = "streaming, sync"


class StandbyConfiguration(ServerConfiguration):
    """The presence of a standby, which is a second server with the same data."""

    standby: Literal["off", "on"] = Field(
        default="off", description="Whether a second server, the synchronous standby, replays the server's log."
    )


class Standby(PostgresPart[StandbyConfiguration]):
    configuration_type = StandbyConfiguration

    @classmethod
    def is_needed(cls, configuration: StandbyConfiguration) -> bool:
        return configuration.standby == "on"

    def access_rules(self, rules: str) -> str:
        return f"{rules}host replication {STANDBY} all scram-sha-256\n"

    def initialised(self) -> None:
        """Copy the data before the server starts. Nothing writes yet, so a plain copy is consistent."""
        server = self.server
        self._data = server.folder / STANDBY
        copy = ["cp", "-a", str(server.data), str(self._data)]
        server.place.lab.run(f"{server.name}-copy", [*server.os_user.prefix, *copy])

    def started(self) -> None:
        """Start the standby, make it synchronous, and wait until it has all of the server's log."""
        server, lab, user = self.server, self.server.place.lab, self.server.os_user
        password = secrets.token_urlsafe(24)
        server.ask(f"CREATE ROLE {STANDBY} LOGIN REPLICATION PASSWORD '{scram_secret(password)}'")
        password_file, sockets = server.folder / "standby.pgpass", server.folder / "standby-socket"
        user.write(password_file, f"*:*:*:{STANDBY}:{password}\n".encode())
        sockets.mkdir(mode=0o700)
        user.own(sockets)
        connection = {
            "host": server.address,
            "port": server.port,
            "user": STANDBY,
            "application_name": STANDBY,
            "passfile": password_file,
            "sslmode": "disable",
        }
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": sockets,
            "primary_conninfo": " ".join(f"{name}={value}" for name, value in connection.items()),
        }
        # The standby's settings come last: if two lines have the same setting, the last one applies.
        own = "".join(f"{name} = '{value}'\n" for name, value in settings.items())
        user.write(self._data / "postgresql.conf", (server.configuration() + own).encode())
        user.write(self._data / "standby.signal", b"")
        server.remove_segment_at_end(self._data)
        command = [*user.prefix, str(server.binary), "-D", str(self._data)]
        process = lab.spawn(f"{server.name}-{STANDBY}", STANDBY, command, forks=True, host=server.place.host)
        server.ask(f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'")
        server.ask("SELECT pg_reload_conf()")
        lab.wait_until(f"starting {process.name}", lambda: self._state() == IN_STEP, only=process)

    def evidence(self) -> dict[str, str]:
        return {STANDBY: self._state() or "not connected"}

    def mismatch(self, increases: Mapping[str, float], answer: SliceAnswer) -> str | None:
        state = self._state()
        if state is None:
            return "the synchronous standby was not connected"
        if state != IN_STEP:
            return f"the synchronous standby was {state}"
        # A working standby is behind only for milliseconds. If it is still behind and operations have failed, commits
        # have waited for an answer that never came.
        if answer.errors and (behind := self._bytes_behind()):
            return f"the synchronous standby was {behind:,} bytes of the log behind, so that commits waited in vain"
        return None

    def facts(self) -> dict[str, str]:
        return {STANDBY: "a second server on the same host, over loopback without TLS"}

    def _bytes_behind(self) -> int:
        """Return how many bytes of the log the server has flushed and the standby has not received."""
        received = f"SELECT write_lsn FROM pg_stat_replication WHERE usename = '{STANDBY}'"  # noqa: S608
        ((behind,),) = self.server.ask(f"SELECT coalesce(pg_current_wal_flush_lsn() - ({received}), 0)")
        return int(behind)

    def _state(self) -> str | None:
        """Return text such as 'streaming, sync' or 'catchup, async'; None if the standby is not connected."""
        rows = self.server.ask(f"SELECT state, sync_state FROM pg_stat_replication WHERE usename = '{STANDBY}'")  # noqa: S608
        return ", ".join(rows[0]) if rows else None
