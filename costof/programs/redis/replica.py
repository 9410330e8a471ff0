"""A replica of a lab's Redis: a second server on the same host, which executes the first one's writes in memory."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Literal

import redis
from pydantic import Field, SecretStr
from redis.backoff import NoBackoff
from redis.retry import Retry

from costof.lab.certificates import write_private
from costof.messages.answers import REPORTED, SliceAnswer
from costof.programs.flushes import TOLERANCE, commits_in_flight
from costof.programs.parts import ServerConfiguration
from costof.programs.redis.parts import RedisPart

REPLICA = "replica"
#: The name of a counter in `LabServer.readings`: the acknowledgements that the server has received from its replica.
ACKNOWLEDGEMENTS = "acknowledgements"
#: `Replica._state` has this value if the replica executes the server's writes.
ONLINE = "online"
#: The rights of the account with which the replica logs in (Redis's documentation, "ACL rules for replicas").
RIGHTS = ("+psync", "+replconf", "+ping")
#: The length in bytes of the command with which Redis asks for an acknowledgement, in the stream of writes. The
#: replica's acknowledgement covers all writes before this command but not the command itself.
REQUEST_BYTES = 37
#: How long a question to the replica may take. A replica that works answers within milliseconds.
ANSWER_SECONDS = 2.0


class ReplicaConfiguration(ServerConfiguration):
    """The presence of a replica, which is a second server with the same data."""

    replica: Literal["off", "on"] = Field(
        default="off", description="Whether a second server, the replica, executes the server's writes in memory."
    )


class Replica(RedisPart[ReplicaConfiguration]):
    configuration_type = ReplicaConfiguration

    @classmethod
    def is_needed(cls, configuration: ReplicaConfiguration) -> bool:
        return configuration.replica == "on"

    def settings(self) -> dict[str, str]:
        # By default, the server waits 5 s for further replicas before it sends its data to the first one.
        return {"repl-diskless-sync-delay": "0"}

    def started(self) -> None:
        """Start the replica, connect it to the server, and wait until it has all of the server's data."""
        server, lab = self.server, self.server.place.lab
        folder = server.folder / REPLICA
        folder.mkdir(mode=0o700)
        socket, configuration = folder / "socket", folder / "redis.conf"
        settings = {"port": "0", "tls-port": "0", "unixsocket": socket, "dir": folder, "appendonly": "no"}
        # The replica's settings come last: if two lines have the same setting, the last one applies.
        lines = "".join(f"{name} {value}\n" for name, value in settings.items())
        write_private(configuration, (server.configuration() + lines).encode())
        command_line = [str(server.binary), str(configuration)]
        self._process = lab.spawn(f"{server.name}-{REPLICA}", REPLICA, command_line, host=server.place.host)
        server.wait_until_ready(self._process)
        once = Retry(NoBackoff(), 0)
        self._replica = server.log_in(socket, socket_timeout=ANSWER_SECONDS, retry=once)
        self._follow()
        caught_up = lambda: self._state() == ONLINE and self._bytes_missing() == 0  # noqa: E731
        lab.wait_until(f"starting {self._process.name}", caught_up, only=self._process)

    def _follow(self) -> None:
        """Make the replica log in at the server. The password is sent in a command, so that it is in no file."""
        server, password = self.server, SecretStr(secrets.token_urlsafe(24))
        server.add_user(REPLICA, password, *RIGHTS)
        login = ("masteruser", REPLICA, "masterauth", password.get_secret_value())
        server.ask("CONFIG", "SET", *login, of=self._replica)
        server.ask("REPLICAOF", server.address, str(server.port), of=self._replica)

    def settle(self) -> None:
        has_data = lambda: self._state() is None or self._bytes_missing() == 0  # noqa: E731
        self.server.place.lab.wait_until(f"copying the data to {self._process.name}", has_data, only=self._process)

    def evidence(self) -> dict[str, str]:
        """Return the replica's state, and how many bytes of the server's writes the replica has not executed yet."""
        if (state := self._state()) != ONLINE:
            return {REPLICA: state or "not connected"}
        missing = self._bytes_missing()
        if missing is None:
            return {REPLICA: f"{state}, does not answer"}
        return {REPLICA: f"{state}, {f'{missing:,} bytes behind' if missing else 'has all writes'}"}

    def readings(self) -> dict[str, float]:
        """Return the number of the replica's acknowledgements: how often the server has executed REPLCONF.

        After its start, a replica sends the command REPLCONF only to acknowledge writes.
        """
        return {ACKNOWLEDGEMENTS: float(self.server.ask("INFO", "commandstats")["cmdstat_replconf"]["calls"])}

    def mismatch(self, increases: Mapping[str, float], answer: SliceAnswer) -> str | None:
        server = self._server_side()
        state = _state(server)
        if state is None:
            return "the replica was not connected"
        if state != ONLINE:
            return f"the replica was {state}"
        behind = server["master_repl_offset"] - server["slave0"]["offset"]
        # A working replica is behind only for milliseconds. If it is still behind and operations have failed, writes
        # have waited for an answer that never came.
        if answer.errors and behind > REQUEST_BYTES:
            return f"the replica was {behind:,} bytes behind, so that writes waited in vain"
        # An acknowledgement serves all writes that are in flight, as a flush does.
        operations = answer.counts.get(REPORTED, answer.operations)
        acknowledgements = increases.get(ACKNOWLEDGEMENTS, 0.0)
        if TOLERANCE * acknowledgements * commits_in_flight(answer) < operations:
            return f"the replica acknowledged writes only {acknowledgements:,.0f} times for {operations:,} writes"
        return None

    def facts(self) -> dict[str, str]:
        return {REPLICA: "a second server on the same host, in memory, over loopback without TLS"}

    def _server_side(self) -> dict[str, Any]:
        replication: dict[str, Any] = self.server.ask("INFO", "replication")
        return replication

    def _state(self) -> str | None:
        return _state(self._server_side())

    def _bytes_missing(self) -> int | None:
        """Return how many bytes of the server's writes the replica has not executed; None if it does not answer."""
        written: int = self._server_side()["master_repl_offset"]
        try:
            executed: int = self._replica.info("replication")["slave_repl_offset"]
        except redis.RedisError:
            return None
        return max(0, written - executed)


def _state(server_side: Mapping[str, Any]) -> str | None:
    return server_side["slave0"]["state"] if "slave0" in server_side else None
