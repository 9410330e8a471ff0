"""A MongoDB replica set of the run's own: primary, secondary, hidden.

Every member takes plain and TLS on the same port (`preferTLS`), so that the arms use the very same processes. All three
stand on one host; far clients are on hosts of their own, and the members' addresses are the same for all of them.
"""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import pymongo
from pymongo.errors import PyMongoError

from costof.errors import CostofError, Problem
from costof.lab.certificates import Authority, write_private
from costof.lab.lab import Lab
from costof.lab.mongod_binary import find_mongod, mongod_version
from costof.lab.site import Site
from costof.lab.tickets import Tickets
from costof.plan import Plan, PlannedArm
from costof.result import LinkEvidence
from costof.service import Counters, Description, LoadData, Service
from costof.transport import transport_of

PORT = 27017
ROLES = ("primary", "secondary", "hidden")
REPLICA_SET = "costof"
DATABASE = "ycsb"
COLLECTION = "usertable"
CACHE_GB = "0.5"
USERS_MS = 30_000

# While the set forms a short time-out elects at once; afterwards a busy machine must not depose the primary.
FORMING = {"electionTimeoutMillis": 1000, "heartbeatIntervalMillis": 200}
SETTLED = {"electionTimeoutMillis": 30000, "heartbeatIntervalMillis": 2000}


class MongodbLab(Service):
    """Three `mongod` with authentication, a key file and certificates of the run's own CA."""

    measures_cpu = True

    def __init__(self, plan: Plan) -> None:
        self._arms = plan.arms
        self._lab = Lab()
        self._site = Site(self._lab, plan, servers=len(ROLES))
        self._tickets = Tickets()
        self._password = secrets.token_urlsafe(24)
        self._admins: dict[str, pymongo.MongoClient[dict[str, Any]]] = {}
        self._key = ""

    def __enter__(self) -> Self:
        binary = find_mongod()
        self._version = mongod_version(binary)
        with ExitStack() as stack:
            stack.enter_context(self._lab)
            stack.enter_context(self._site)
            stack.callback(self._close_admins)
            self._issue_certificates()
            self._start(binary)
            self._form_replica_set()
            self._site.measure()
            self._leave = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave.close()

    def endpoint(self, arm: PlannedArm) -> dict[str, Any]:
        return {
            "service": {
                "protocol": "mongodb",
                "addresses": [self._address(role) for role in ("primary", "secondary")],
                "replica_set": REPLICA_SET,
                "read_preference": "secondary",
                "username": "costof",
                "password": self._password,
                "auth_source": "admin",
                "database": DATABASE,
                "collection": COLLECTION,
            },
            "transport": transport_of(arm.levels, self._authority.ca_file),
        }

    def prefix(self, arm: PlannedArm) -> list[str]:
        return self._site.client(arm).prefix

    def prepare(self, arm: PlannedArm, load: LoadData) -> None:
        load(arm)
        # Acknowledged by all three: whoever answers a query from here on has every record.
        everywhere = pymongo.WriteConcern(w=len(ROLES), wtimeout=120_000)
        marker = self._admins["primary"][DATABASE].get_collection("costof", write_concern=everywhere)
        try:
            marker.insert_one({"_id": "loaded"})
        except PyMongoError as error:
            raise CostofError(Problem.LAB_FAILED, detail=f"the members did not catch up: {error}") from error

    def writes(self) -> list[str]:
        return [f"the lab's own replica set: {DATABASE}.{COLLECTION}, removed with the lab"]

    def arrange(self, arm: PlannedArm) -> None:
        key = arm.levels.get("key")
        if key is None or key == self._key:
            return
        for role in ROLES:
            self._install_certificate(role, key)
            self._admins[role].admin.command("rotateCertificates", 1)
        self._key = key
        self._tickets.void()

    def wants_ticket(self, arm: PlannedArm) -> bool:
        return self._tickets.renew(arm)

    def links(self) -> list[LinkEvidence]:
        return self._site.links()

    def counters(self, server: str) -> Counters:
        role = next(role for role in ROLES if self._address(role) == server)
        return read_counters(self._admins[role])

    def cpu_seconds(self) -> dict[str, float]:
        return self._lab.cpu_seconds() | self._site.cpu_seconds()

    def lost(self) -> str | None:
        for process in self._lab.dead():
            return f"the lab's {process.name} ended in the middle of the run (status {process.exit_status})"
        return self._site.lost()

    def describe(self) -> Description:
        return Description(
            versions={"mongod": self._version},
            topology=f"replica set of three ({', '.join(ROLES)}) {self._site.topology()}",
            facts={"read preference": "secondary", "authentication": "SCRAM-SHA-256", "TLS mode": "preferTLS"},
        )

    @property
    def process_ids(self) -> dict[str, int]:
        """Pids of the members by role."""
        return {process.role: process.pid for process in self._lab.processes.values()}

    def log(self, role: str) -> str:
        """What a member has logged."""
        return self._lab.processes[role].log.read_text(errors="replace")

    def _address(self, role: str) -> str:
        return f"{self._host(role)}:{PORT}"

    def _host(self, role: str) -> str:
        return self._site.addresses[ROLES.index(role)]

    def _issue_certificates(self) -> None:
        self._authority = Authority(self._lab.folder / "certificates")
        kinds = list(dict.fromkeys(arm.levels["key"] for arm in self._arms if "key" in arm.levels)) or ["rsa-2048"]
        self._certificates = {
            (role, kind): self._authority.issue(role, kind, [self._host(role), role, "localhost"])
            for role in ROLES
            for kind in kinds
        }
        self._key = kinds[0]

    def _install_certificate(self, role: str, kind: str) -> None:
        write_private(self._lab.folder / f"{role}.pem", self._certificates[role, kind].read_bytes())

    def _start(self, binary: Path) -> None:
        folder = self._lab.folder
        key_file = folder / "keyfile"
        write_private(key_file, secrets.token_hex(128).encode())
        for role in ROLES:
            self._install_certificate(role, self._key)
            data = folder / role
            data.mkdir(mode=0o700)
            options = {
                "replSet": REPLICA_SET,
                "dbpath": data,
                "bind_ip": self._host(role),
                "port": PORT,
                "unixSocketPrefix": folder / role,
                "keyFile": key_file,
                "tlsMode": "preferTLS",
                "tlsCertificateKeyFile": folder / f"{role}.pem",
                "tlsCAFile": self._authority.ca_file,
                "wiredTigerCacheSizeGB": CACHE_GB,
            }
            argv = [str(binary), "--tlsAllowConnectionsWithoutCertificates"]
            argv += [word for name, value in options.items() for word in (f"--{name}", str(value))]
            # Its periodic disk writes would be noise in the measurement.
            argv += ["--setParameter", "diagnosticDataCollectionEnabled=false"]
            self._lab.spawn(role, role, argv, host=self._site.server)

    def _form_replica_set(self) -> None:
        # The Unix socket counts as localhost, which may make the first user before there is one.
        for role in ROLES:
            bootstrap = self._client(role)
            self._lab.wait_until(f"starting the {role}", partial(_answers, bootstrap))
            self._admins[role] = bootstrap
        members = [
            {"_id": 0, "host": self._address("primary"), "priority": 2},
            # Not electable yet: with the short time-out of a forming set a busy machine would make it primary.
            {"_id": 1, "host": self._address("secondary"), "priority": 0},
            {"_id": 2, "host": self._address("hidden"), "priority": 0, "hidden": True},
        ]
        configuration = {"_id": REPLICA_SET, "version": 1, "members": members, "settings": FORMING}
        primary = self._admins["primary"]
        try:
            primary.admin.command("replSetInitiate", configuration)
            self._lab.wait_until("electing a primary", lambda: bool(_hello(primary).get("isWritablePrimary")))
            self._make_users(primary)
            self._log_in()
            self._lab.wait_until("the first copy to the members", self._members_follow)
            configuration = self._admins["primary"].admin.command("replSetGetConfig")["config"]
            configuration["version"] += 1
            configuration["settings"].update(SETTLED)
            configuration["members"][1]["priority"] = 1
            self._admins["primary"].admin.command("replSetReconfig", configuration)
        except PyMongoError as error:
            raise CostofError(Problem.LAB_FAILED, detail=str(error)) from error

    def _make_users(self, primary: pymongo.MongoClient[dict[str, Any]]) -> None:
        # One user for the administration of the lab and one, with the least that is needed, for what is measured.
        # Known to every member before anybody logs in there: a client whose first login fails asks again only at its
        # next heartbeat, which is rare here.
        everywhere = {"w": len(ROLES), "wtimeout": USERS_MS}
        primary.admin.command("createUser", "lab", pwd=self._password, roles=["root"], writeConcern=everywhere)
        admin = self._client("primary", "lab")
        role = {"role": "readWrite", "db": DATABASE}
        admin.admin.command(
            "createUser",
            "costof",
            pwd=self._password,
            roles=[role],
            mechanisms=["SCRAM-SHA-256"],
            writeConcern=everywhere,
        )
        admin.close()

    def _log_in(self) -> None:
        for role in ROLES:
            self._admins[role].close()
            self._admins[role] = self._client(role, "lab")

    def _members_follow(self) -> bool:
        if not all(_answers(client) for client in self._admins.values()):
            return False
        states = self._admins["primary"].admin.command("replSetGetStatus")["members"]
        return [member["stateStr"] for member in states] == ["PRIMARY", "SECONDARY", "SECONDARY"]

    def _close_admins(self) -> None:
        for client in self._admins.values():
            client.close()

    def _client(self, role: str, username: str | None = None) -> pymongo.MongoClient[dict[str, Any]]:
        socket = quote(str(self._lab.folder / role / f"mongodb-{PORT}.sock"), safe="")
        login: dict[str, Any] = {"username": username, "password": self._password} if username else {}
        return pymongo.MongoClient(
            f"mongodb://{socket}",
            directConnection=True,
            serverSelectionTimeoutMS=2000,
            # Rare heartbeats, so that the administration adds no connections to the counters it reads.
            heartbeatFrequencyMS=600_000,
            **login,
        )


def service(plan: Plan) -> Service:
    return MongodbLab(plan)


def read_counters(client: pymongo.MongoClient[dict[str, Any]]) -> Counters:
    """`connections.totalCreated` and `transportSecurity` of serverStatus."""
    status = client.admin.command("serverStatus")
    # It names the versions '1.2' and '1.3', and 'unknown'.
    tls = {f"TLSv{version}": int(count) for version, count in status.get("transportSecurity", {}).items()}
    return Counters(int(status["connections"]["totalCreated"]), tls)


def _hello(client: pymongo.MongoClient[dict[str, Any]]) -> dict[str, Any]:
    return client.admin.command("hello")


def _answers(client: pymongo.MongoClient[dict[str, Any]]) -> bool:
    try:
        client.admin.command("ping")
    except PyMongoError:
        return False
    return True
