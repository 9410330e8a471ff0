"""A MongoDB replica set of the run's own: primary, secondary, hidden.

Every member takes plain and TLS on the same port (`preferTLS`), so that the arms use the very same processes. All three
stand on one host; far clients are on hosts of their own, and the members' addresses are the same for all of them.
"""

from __future__ import annotations

import secrets
from contextlib import ExitStack

from pydantic import SecretStr

from costof.ipc.plan import Endpoint
from costof.lab.certificates import DEFAULT_KEY, Authority, write_private
from costof.lab.lab import Lab
from costof.lab.program import Counters, Description
from costof.lab.resource import Opened
from costof.lab.round_trips import LinkEvidence
from costof.programs.mongod.binary import find_mongod, mongod_version
from costof.programs.mongod.replica_set import PORT, Member, ReplicaSet, read_counters
from costof.programs.mongod.settings import MongodbSettings
from costof.services import LoadData, Service
from costof.services.site import Site
from costof.services.tickets import Tickets
from costof.study.arms import PlannedArm
from costof.study.plan import Plan

ROLES = ("primary", "secondary", "hidden")
REPLICA_SET = "costof"
DATABASE = "ycsb"
COLLECTION = "usertable"
CACHE_GB = "0.5"
# Of being elected.
PRIORITIES = {"primary": 2, "secondary": 1, "hidden": 0}
# Its periodic disk writes would be noise in the measurement.
PARAMETERS = {"diagnosticDataCollectionEnabled": "false"}


class MongodbLab(Opened, Service):
    """Three `mongod` with authentication, a key file and certificates of the run's own CA."""

    measures_cpu = True

    def __init__(self, plan: Plan) -> None:
        self._arms = plan.arms
        self._lab = Lab()
        self._site = Site(self._lab, plan, servers=len(ROLES))
        self._tickets = Tickets()
        self._password = SecretStr(secrets.token_urlsafe(24))
        self._key = ""

    def _open(self, stack: ExitStack) -> None:
        binary = find_mongod()
        self._version = mongod_version(binary)
        stack.enter_context(self._lab)
        stack.enter_context(self._site)
        self._issue_certificates()
        self._set = ReplicaSet(self._lab, REPLICA_SET, self._members(), self._password, DATABASE)
        stack.callback(self._set.close)
        self._set.start(binary, {**self._tls_options(), "wiredTigerCacheSizeGB": CACHE_GB}, PARAMETERS)
        self._set.form()
        self._site.measure()

    def endpoint(self, arm: PlannedArm) -> Endpoint:
        settings = MongodbSettings(
            addresses=[self._address(role) for role in ("primary", "secondary")],
            replica_set=REPLICA_SET,
            read_preference="secondary",
            username="costof",
            password=self._password,
            database=DATABASE,
            collection=COLLECTION,
        )
        return Endpoint(service=settings, transport=arm.asked.transport_trusting(self._authority.ca_file))

    def prefix(self, arm: PlannedArm) -> list[str]:
        return self._site.client(arm).prefix

    def prepare(self, arm: PlannedArm, load: LoadData) -> None:
        load(arm)
        self._set.write_everywhere()

    def writes(self) -> list[str]:
        return [f"the lab's own replica set: {DATABASE}.{COLLECTION}, removed with the lab"]

    def arrange(self, arm: PlannedArm) -> None:
        key = arm.asked.lab.get("key")
        if key is None or key == self._key:
            return
        for role in ROLES:
            self._install_certificate(role, key)
            self._set.admin(role).admin.command("rotateCertificates", 1)
        self._key = key
        self._tickets.void()

    def wants_ticket(self, arm: PlannedArm) -> bool:
        return self._tickets.renew(arm)

    def links(self) -> list[LinkEvidence]:
        return self._site.links()

    def counters(self, server: str) -> Counters:
        role = next(role for role in ROLES if self._address(role) == server)
        return read_counters(self._set.admin(role))

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
        kinds = list(dict.fromkeys(key for arm in self._arms if (key := arm.asked.lab.get("key")))) or [DEFAULT_KEY]
        self._certificates = {
            (role, kind): self._authority.issue(role, kind, [self._host(role), role, "localhost"])
            for role in ROLES
            for kind in kinds
        }
        self._key = kinds[0]

    def _install_certificate(self, role: str, kind: str) -> None:
        write_private(self._lab.folder / f"{role}.pem", self._certificates[role, kind].read_bytes())

    def _members(self) -> list[Member]:
        members = []
        for role in ROLES:
            self._install_certificate(role, self._key)
            members.append(
                Member(
                    role,
                    role,
                    self._host(role),
                    host=self._site.server,
                    priority=PRIORITIES[role],
                    hidden=role == "hidden",
                    options={"tlsCertificateKeyFile": self._lab.folder / f"{role}.pem"},
                )
            )
        return members

    def _tls_options(self) -> dict[str, object]:
        return {
            "tlsAllowConnectionsWithoutCertificates": None,
            "tlsMode": "preferTLS",
            "tlsCAFile": self._authority.ca_file,
        }


def service(plan: Plan) -> Service:
    return MongodbLab(plan)
