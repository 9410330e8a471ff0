"""A MongoDB replica set of a lab: its members started and formed, its users, and the administration of it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import pymongo
from pydantic import SecretStr
from pymongo.errors import AutoReconnect, OperationFailure, PyMongoError

from costof.errors import CostofError, Problem
from costof.lab.certificates import write_private
from costof.lab.host import Host
from costof.lab.lab import Lab
from costof.lab.program import Counters

PORT = 27017
USERS_MS = 30_000
#: Its codes Unauthorized, and 'User … already exists'.
USER_IS_THERE = (13, 51003)
# Of all members together: each gets its turn on a machine that may have two cores for fifteen of them.
STARTING_SECONDS = 120.0
# Of one member, when all are asked: one that hangs is told as such.
ANSWER_SECONDS = 10.0

# While the set forms a short time-out elects at once; afterwards a busy machine must not depose the primary.
FORMING = {"electionTimeoutMillis": 1000, "heartbeatIntervalMillis": 200}
SETTLED = {"electionTimeoutMillis": 30000}
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
        self._settling: Future[None] | None = None

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
        """Make one set of the members, each with a copy of the users, which takes clients from then on.

        `settled` waits for the heartbeats and time-outs that it is measured with.

        Raises `LAB_FAILED`.
        """
        # The Unix socket counts as localhost, which may make the first user before there is one.
        for member in self.members:
            bootstrap = self._client(member.name)
            self._admins[member.name] = bootstrap
            what = f"starting the {self.process_name(member.name)}"
            self._lab.wait_until(what, partial(answers, bootstrap), STARTING_SECONDS)
        # Others are not electable yet: with the short time-out of a forming set a busy machine would make one primary.
        configured = [
            {
                "_id": number,
                "host": member.address,
                "priority": member.priority if number == 0 else 0,
                "hidden": member.hidden,
                "votes": member.votes,
            }
            for number, member in enumerate(self.members)
        ]
        configuration = {"_id": self.name, "version": 1, "members": configured, "settings": FORMING}
        primary = self.admin(self.primary.name)
        try:
            primary.admin.command("replSetInitiate", configuration)
            elected = lambda: bool(primary.admin.command("hello").get("isWritablePrimary"))  # noqa: E731
            self._lab.wait_until("electing a primary", elected)
            makes_users = partial(in_office, partial(self._make_users, primary))
            self._lab.wait_until("making the users", makes_users, STARTING_SECONDS)
            self._log_in()
            self._lab.wait_until("the first copy to the members", self._members_follow, STARTING_SECONDS)
            # It is answered at the next of the slow heartbeats: time in which data can be loaded.
            settles = partial(in_office, partial(self.reconfigure, partial(self._settle, heartbeat_ms)))
            self._settling = self._threads.submit(self._lab.wait_until, "settling", settles, STARTING_SECONDS)
        except PyMongoError as error:
            raise CostofError(Problem.LAB_FAILED, detail=str(error)) from error

    def settled(self) -> None:
        """Wait until the members have the configuration that `form` ends with. Raises `LAB_FAILED`."""
        if self._settling is None:
            return
        try:
            self._settling.result()
        except PyMongoError as error:
            raise CostofError(Problem.LAB_FAILED, detail=str(error)) from error

    def reconfigure(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Change the configuration that the members have, once it is `settled`. Raises PyMongoError."""
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
        self.settled()
        everywhere = pymongo.WriteConcern(w=len(self.members), wtimeout=120_000)
        marker = self.admin(self.primary.name)[self._database].get_collection("costof", write_concern=everywhere)
        try:
            marker.insert_one({"_id": "loaded"})
        except PyMongoError as error:
            raise CostofError(Problem.LAB_FAILED, detail=f"the members did not catch up: {error}") from error

    def _settle(self, heartbeat_ms: int, configuration: dict[str, Any]) -> None:
        configuration["settings"].update(SETTLED, heartbeatIntervalMillis=heartbeat_ms)
        for configured, member in zip(configuration["members"], self.members, strict=True):
            configured["priority"] = member.priority

    def _make_users(self, primary: Client) -> None:
        # One user for the administration of the lab and one, with the least that is needed, for what is measured.
        # Known to every member before anybody logs in there: a client whose first login fails asks again only at its
        # next heartbeat, which is rare here.
        everywhere = {"w": len(self.members), "wtimeout": USERS_MS}
        password = self._password.get_secret_value()
        with suppress_if_made():
            primary.admin.command("createUser", "lab", pwd=password, roles=["root"], writeConcern=everywhere)
        role = {"role": "readWrite", "db": self._database}
        with self._client(self.primary.name, "lab") as admin:
            with suppress_if_made():
                admin.admin.command("createUser", "costof", pwd=password, roles=[role], mechanisms=["SCRAM-SHA-256"])
            admin.admin.command("appendOplogNote", data={"costof": "users"}, writeConcern=everywhere)

    def _log_in(self) -> None:
        for member in self.members:
            self._admins[member.name].close()
            self._admins[member.name] = self._client(member.name, "lab")

    def _members_follow(self) -> bool:
        if not all(answers(client) for client in self._admins.values()):
            return False
        states = self.admin(self.primary.name).admin.command("replSetGetStatus")["members"]
        return [member["stateStr"] for member in states] == ["PRIMARY"] + ["SECONDARY"] * (len(self.members) - 1)

    def _folder(self, name: str) -> Path:
        return self._lab.folder / self.process_name(name)

    def _client(self, name: str, username: str | None = None) -> Client:
        socket = quote(str(self._folder(name) / f"mongodb-{PORT}.sock"), safe="")
        password = self._password.get_secret_value()
        login: dict[str, Any] = {"username": username, "password": password} if username else {}
        return pymongo.MongoClient(
            f"mongodb://{socket}",
            directConnection=True,
            serverSelectionTimeoutMS=2000,
            # Rare heartbeats, so that the administration adds no connections to the counters it reads.
            heartbeatFrequencyMS=600_000,
            **login,
        )


def read_counters(client: Client) -> Counters:
    """`connections.totalCreated` and `transportSecurity` of serverStatus."""
    status = client.admin.command("serverStatus")
    # It names the versions '1.2' and '1.3', and 'unknown'.
    tls = {f"TLSv{version}": int(count) for version, count in status.get("transportSecurity", {}).items()}
    return Counters(int(status["connections"]["totalCreated"]), tls)


def in_office(action: Callable[[], object]) -> bool:
    """Carry it out; False where the primary is none just now. With the short time-out of a forming set a busy machine
    deposes it, and soon elects it again."""
    try:
        action()
    except AutoReconnect:
        return False
    return True


@contextmanager
def suppress_if_made() -> Iterator[None]:
    """What a second attempt to make a user is told, if the first has made it: by then nobody may make one unasked."""
    try:
        yield
    except OperationFailure as error:
        if error.code not in USER_IS_THERE:
            raise


def answers(client: Client) -> bool:
    """Whether the member takes commands yet."""
    try:
        client.admin.command("ping")
    except PyMongoError:
        return False
    return True
