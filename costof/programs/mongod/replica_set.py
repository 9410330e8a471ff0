"""A MongoDB replica set of a lab: its members started and formed, its users, and the administration of it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import pymongo
from pydantic import SecretStr
from pymongo.errors import PyMongoError

from costof.errors import CostofError, Problem
from costof.lab.certificates import write_private
from costof.lab.host import Host
from costof.lab.lab import Lab
from costof.lab.program import Counters

PORT = 27017
# Of one member, when all are asked: one that hangs is told as such.
ANSWER_SECONDS = 10.0
PROBE_SECONDS = 2.0

# A busy machine must not depose the primary.
ELECTION_MS = 30_000
HEARTBEAT_MS = 2000

Client = pymongo.MongoClient[dict[str, Any]]
T = TypeVar("T")


@dataclass(frozen=True)
class Member:
    """A `mongod` of the set. `role` is what its CPU time is counted under; `options` are mongod's own, by name."""

    name: str
    role: str
    ip: str
    host: Host | None = None
    priority: float = 1
    hidden: bool = False
    votes: int = 1
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"{self.ip}:{PORT}"


class ReplicaSet:
    """Members with authentication and a key file. The first one is the primary as long as nobody deposes it.

    `prefix` stands before the members' names in those of processes and folders, where a lab has several sets.
    """

    def __init__(
        self, lab: Lab, name: str, members: Sequence[Member], password: SecretStr, database: str, prefix: str = ""
    ) -> None:
        self._lab = lab
        self.name = name
        self.members = list(members)
        self._password = password
        self._database = database
        self._prefix = prefix
        self._admins: dict[str, Client] = {}
        self._threads = ThreadPoolExecutor(len(self.members), thread_name_prefix=name)

    @property
    def primary(self) -> Member:
        """The member that is meant to be it."""
        return self.members[0]

    def admin(self, name: str) -> Client:
        """A kept connection to one member, over its Unix socket, with every right."""
        return self._admins[name]

    def process_name(self, name: str) -> str:
        """The name of a member's process in the lab."""
        return self._prefix + name

    def close(self) -> None:
        """End the administration; the members end with the lab."""
        for client in self._admins.values():
            client.close()
        self._threads.shutdown(cancel_futures=True)

    def start(self, binary: Path, options: Mapping[str, object], parameters: Mapping[str, object]) -> None:
        """Start all members at once; `form` waits for them. Raises `LAB_FAILED`."""
        key_file = self._lab.folder / f"{self._prefix}keyfile"
        write_private(key_file, secrets.token_hex(128).encode())
        for member in self.members:
            data = self._folder(member.name)
            data.mkdir(mode=0o700)
            every = {
                "replSet": self.name,
                "dbpath": data,
                "bind_ip": member.ip,
                "port": PORT,
                "unixSocketPrefix": data,
                "keyFile": key_file,
                **options,
                **member.options,
            }
            argv = [str(binary)]
            # An option without a value is a switch.
            for name, value in every.items():
                argv += [f"--{name}"] if value is None else [f"--{name}", str(value)]
            for name, value in parameters.items():
                argv += ["--setParameter", f"{name}={value}"]
            self._lab.spawn(self.process_name(member.name), member.role, argv, host=member.host)

    def form(self, heartbeat_ms: int = HEARTBEAT_MS) -> None:
        """Make one set of the members, each with a copy of the users. Raises `LAB_FAILED`.

        The primary is elected and makes the users while it is alone, which takes no time-out; then it takes in the
        others. A member that finds a primary begins its copy at once, and one that finds none looks again in a second.
        """
        primary = self._wait_for(self.primary)
        try:
            primary.admin.command("replSetInitiate", self._configuration(self.members[:1], heartbeat_ms))
            elected = lambda: bool(primary.admin.command("hello")["isWritablePrimary"])  # noqa: E731
            self._lab.wait_until("electing a primary", elected)
            self._make_users(primary)
            others = {member.name: self._wait_for(member) for member in self.members[1:]}
            # By force, or they could be taken in one by one only, with a heartbeat between two of them.
            whole = self._configuration(self.members, heartbeat_ms) | {"version": 2}
            self.admin(self.primary.name).admin.command("replSetReconfig", whole, force=True)
            for name, client in others.items():
                # It says so without a log-in, and knows its users from then on.
                follows = lambda asked=client: bool(asked.admin.command("hello")["secondary"])  # noqa: E731
                self._lab.wait_until(f"the first copy to the {self.process_name(name)}", follows)
                self._log_in(name, client)
        except PyMongoError as error:
            raise CostofError(Problem.LAB_FAILED, detail=str(error)) from error

    def reconfigure(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Change the configuration that the members have. Raises PyMongoError."""
        admin = self.admin(self.primary.name).admin
        configuration = admin.command("replSetGetConfig")["config"]
        change(configuration)
        configuration["version"] += 1
        admin.command("replSetReconfig", configuration)

    def ask_all(
        self, question: Callable[[Member, Client], T], but: Collection[str] = ()
    ) -> dict[str, T | PyMongoError]:
        """One question to every member at once, `but` some; the answer of one that cannot is its error."""

        def ask(member: Member) -> T | PyMongoError:
            try:
                with pymongo.timeout(ANSWER_SECONDS):
                    return question(member, self.admin(member.name))
            except PyMongoError as error:
                return error

        asked = [member for member in self.members if member.name not in but]
        return dict(zip([member.name for member in asked], self._threads.map(ask, asked), strict=True))

    def write_everywhere(self) -> None:
        """A write that every member has acknowledged: whoever answers from here on has all before it, settled.

        Raises `LAB_FAILED`.
        """
        everywhere = pymongo.WriteConcern(w=len(self.members), wtimeout=120_000)
        marker = self.admin(self.primary.name)[self._database].get_collection("costof", write_concern=everywhere)
        try:
            marker.insert_one({"_id": "loaded"})
        except PyMongoError as error:
            raise CostofError(Problem.LAB_FAILED, detail=f"the members did not catch up: {error}") from error

    def _configuration(self, members: Sequence[Member], heartbeat_ms: int) -> dict[str, Any]:
        configured = [
            {
                "_id": number,
                "host": member.address,
                "priority": member.priority,
                "hidden": member.hidden,
                "votes": member.votes,
            }
            for number, member in enumerate(members)
        ]
        settings = {"electionTimeoutMillis": ELECTION_MS, "heartbeatIntervalMillis": heartbeat_ms}
        return {"_id": self.name, "version": 1, "members": configured, "settings": settings}

    def _wait_for(self, member: Member) -> Client:
        """Until it takes commands. Its Unix socket counts as localhost, which may make the first user."""
        client = self._admins[member.name] = self._client(member.name)
        what = f"starting the {self.process_name(member.name)}"
        self._lab.wait_until(what, partial(answers, client))
        return client

    def _make_users(self, primary: Client) -> None:
        """One for the administration of the lab and one, with the least that is needed, for what is measured."""
        password = self._password.get_secret_value()
        primary.admin.command("createUser", "lab", pwd=password, roles=["root"])
        admin = self._log_in(self.primary.name, primary).admin
        role = {"role": "readWrite", "db": self._database}
        admin.command("createUser", "costof", pwd=password, roles=[role], mechanisms=["SCRAM-SHA-256"])

    def _log_in(self, name: str, anonymous: Client) -> Client:
        anonymous.close()
        self._admins[name] = self._client(name, "lab")
        return self._admins[name]

    def _folder(self, name: str) -> Path:
        return self._lab.folder / self.process_name(name)

    def _client(self, name: str, username: str | None = None) -> Client:
        socket = quote(str(self._folder(name) / f"mongodb-{PORT}.sock"), safe="")
        password = self._password.get_secret_value()
        # One that has not started answers nothing; the administration comes when it has, and is waited for.
        patience = ANSWER_SECONDS if username else PROBE_SECONDS
        login: dict[str, Any] = {"username": username, "password": password} if username else {}
        return pymongo.MongoClient(
            f"mongodb://{socket}",
            directConnection=True,
            serverSelectionTimeoutMS=1000 * patience,
            # Rare heartbeats, so that the administration adds no connections to the counters it reads.
            heartbeatFrequencyMS=600_000,
            **login,
        )


def read_counters(client: Client) -> Counters:
    """`connections.totalCreated` and `transportSecurity` of serverStatus, as far as the server has them."""
    status = client.admin.command("serverStatus")
    created, security = status.get("connections", {}).get("totalCreated"), status.get("transportSecurity")
    if created is None:
        return Counters()
    # It names the versions '1.2' and '1.3', and 'unknown'.
    tls = None if security is None else {f"TLSv{version}": int(count) for version, count in security.items()}
    return Counters(int(created), tls)


def answers(client: Client) -> bool:
    """Whether the member takes commands yet."""
    try:
        client.admin.command("ping")
    except PyMongoError:
        return False
    return True
