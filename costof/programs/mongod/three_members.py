"""A MongoDB replica set of a lab's: primary, secondary, hidden, with authentication and a key file.

Every member takes plain and TLS on the same port (`preferTLS`), so that the arms use the very same processes. All three
stand on one host; far clients are on hosts of their own, and the members' addresses are the same for all of them.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Self

from pydantic import SecretStr

from costof.lab.certificates import write_private
from costof.lab.program import Counters, Description
from costof.programs.mongod.binary import find_mongod, mongod_version
from costof.programs.mongod.replica_set import PORT, Member, ReplicaSet, read_counters
from costof.programs.mongod.settings import COLLECTION, MongodbSettings
from costof.programs.server import LabServer, Place

ROLES = ("primary", "secondary", "hidden")
REPLICA_SET = "costof"
DATABASE = "ycsb"
CACHE_GB = "0.5"
# Of being elected.
PRIORITIES = {"primary": 2, "secondary": 1, "hidden": 0}
# Its periodic disk writes would be noise in the measurement.
PARAMETERS = {"diagnosticDataCollectionEnabled": "false"}


class ThreeMembers(LabServer):
    """A lab's server that is three `mongod`; it is read from the secondary."""

    clients_apart = False
    writes = [f"the lab's own replica set: {DATABASE}.{COLLECTION}, removed with the lab"]

    def __init__(self, place: Place) -> None:
        self._place = place
        self._password = SecretStr(secrets.token_urlsafe(24))
        self._key = place.keys[0]
        self._addresses = {role: place.new_address() for role in ROLES}
        self._certificates = {
            (role, kind): place.authority.issue(role, kind, [address, role, "localhost"])
            for role, address in self._addresses.items()
            for kind in place.keys
        }
        self.set = ReplicaSet(place.lab, REPLICA_SET, self._members(), self._password, DATABASE)

    @classmethod
    def at(cls, place: Place) -> Self:
        return cls(place)

    def start(self) -> None:
        binary = find_mongod()
        self._version = mongod_version(binary)
        self.set.start(binary, {**self._tls_options(), "wiredTigerCacheSizeGB": CACHE_GB}, PARAMETERS)
        self.set.form()

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
        return Description(
            versions={"mongod": self._version},
            topology=f"replica set of three ({', '.join(ROLES)})",
            facts={"read preference": "secondary", "authentication": "SCRAM-SHA-256", "TLS mode": "preferTLS"},
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

    def _tls_options(self) -> dict[str, object]:
        return {
            "tlsAllowConnectionsWithoutCertificates": None,
            "tlsMode": "preferTLS",
            "tlsCAFile": self._place.authority.ca_file,
        }
