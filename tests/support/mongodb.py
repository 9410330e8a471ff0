"""A single MongoDB server with one user. In tests it is the server of a costof user."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pymongo
from cryptography import x509
from pymongo.errors import PyMongoError

from costof.errors import CostofError
from costof.lab.certificates import Authority, write_private
from costof.lab.lab import Lab
from costof.programs.mongod.lab import find_mongod
from tests.support.programs import HANGS_SECONDS, eventually

EXPIRES_SECONDS = 6
PASSWORD = "correct-horse-battery"  # must not appear in any log, ledger, report or process list


@dataclass
class Standalone:
    """A running `mongod` with one user; `address` is host and port."""

    address: str
    ca_file: Path

    @property
    def url(self) -> str:
        return f"mongodb://tester:{PASSWORD}@{self.address}/?authSource=admin"

    def client(self) -> pymongo.MongoClient[dict[str, object]]:
        return pymongo.MongoClient(self.url, tls=True, tlsCAFile=str(self.ca_file), tlsAllowInvalidHostnames=True)


def start_standalone(
    lab: Lab,
    authority: Authority,
    number: int,
    tls: str = "preferTLS",
    names: list[str] | None = None,
    expired: bool = False,
    seconds: int = EXPIRES_SECONDS,
) -> Standalone:
    """Start a `mongod` with the TLS mode `tls`. `names` are the names in its certificate; None means its address."""
    host, name = lab.address(number), f"mongod-{number}"
    folder = lab.folder / name
    folder.mkdir(exist_ok=True)
    argv = [str(find_mongod()), "--auth", "--dbpath", str(folder), "--bind_ip", host, "--port", "27017"]
    argv += ["--unixSocketPrefix", str(folder), "--tlsMode", tls, "--wiredTigerCacheSizeGB", "0.25"]
    if tls != "disabled":
        valid = datetime.timedelta(seconds=seconds) if expired else datetime.timedelta(days=1)
        issued = authority.issue(name, "ecdsa-p256", names or [host], valid)
        (certificate,) = x509.load_pem_x509_certificates(issued.read_bytes().split(b"-----END PRIVATE KEY-----")[1])
        private = lab.folder / f"{name}.pem"
        write_private(private, issued.read_bytes())
        argv += ["--tlsCertificateKeyFile", str(private), "--tlsCAFile", str(authority.ca_file)]
        argv += ["--tlsAllowConnectionsWithoutCertificates"]
    process = lab.spawn(name, "server", argv)
    socket = quote(str(folder / "mongodb-27017.sock"), safe="")
    secure = {"tls": True, "tlsAllowInvalidCertificates": True} if tls == "requireTLS" else {}
    bootstrap: pymongo.MongoClient[dict[str, object]]
    with pymongo.MongoClient(
        f"mongodb://{socket}", directConnection=True, serverSelectionTimeoutMS=500, **secure
    ) as bootstrap:

        def answers() -> bool:
            try:
                bootstrap.admin.command("ping")
            except PyMongoError:
                return False
            return True

        try:
            lab.wait_until(name, answers, HANGS_SECONDS, process)
        except CostofError:
            # mongod does not start with an expired certificate. If the certificate expires too early on a slow machine,
            # issue another one with a longer validity.
            if not expired or datetime.datetime.now(datetime.UTC) < certificate.not_valid_after_utc:
                raise
            lab.stop(name)
            return start_standalone(lab, authority, number, tls, names, expired, 2 * seconds)
        bootstrap.admin.command("createUser", "tester", pwd=PASSWORD, roles=["root"])
    if expired:
        # A running mongod continues when its certificate expires.
        end = certificate.not_valid_after_utc
        eventually("the expiry", lambda: datetime.datetime.now(datetime.UTC) > end)
    return Standalone(f"{host}:27017", authority.ca_file)
