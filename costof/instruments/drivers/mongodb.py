"""Measurement with pymongo, the MongoDB driver that applications use.

It measures a new client with its first `find_one`, and `find_one` on one persistent client.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pymongo
from pymongo.errors import (
    AutoReconnect,
    ConnectionFailure,
    NetworkTimeout,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)

from costof.datasets.ycsb import key_name
from costof.instruments.drivers.driver import ApplicationDriver, DriverError, serve
from costof.messages.plan import Arm, Plan
from costof.programs.mongod.connection import MongodbSettings

Client = pymongo.MongoClient[dict[str, Any]]
AUTHENTICATION_FAILED = 18

# Maps words in an error's text to error classes, since pymongo reports socket errors only as text.
_CLASS_BY_WORDS = (
    ("Hostname mismatch", "tls_certificate_name"),
    ("IP address mismatch", "tls_certificate_name"),
    ("certificate has expired", "tls_certificate_expired"),
    ("CERTIFICATE_VERIFY_FAILED", "tls_certificate_untrusted"),
    ("SSL", "tls_handshake"),
    ("Connection refused", "refused"),
    ("Name or service not known", "resolve"),
    ("connection closed", "closed"),
    ("Connection reset", "reset"),
    ("timed out", "timeout"),
)


class PymongoDriver(ApplicationDriver[MongodbSettings]):
    name, version = "pymongo", pymongo.version
    settings = MongodbSettings
    # A client opens one connection for monitoring and one for operations.
    connections_per_client = 2

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._timeout_ms = plan.operation_timeout_ms
        self._persistent: dict[str, Client] = {}

    def check(self, arm: Arm) -> str | None:
        if arm.transport.group or arm.transport.resumption:
            detail = "pymongo can neither choose a key-exchange group nor resume TLS sessions"
            raise DriverError("tls_configuration", detail)
        try:
            self._persistent[arm.name] = client = self._client(arm)
            # Test with a ping: a `find_one` would fail, because the collection may still be empty.
            preference = client.read_preference
            client.get_database(self.service(arm).database).command("ping", read_preference=preference)
            secondaries = client.secondaries
            address = next(iter(secondaries)) if secondaries else client.address
        except PyMongoError as error:
            raise _classified(error) from error
        return f"{address[0]}:{address[1]}" if address else None

    def connect(self, arm: Arm) -> Iterator[str]:
        client = self._client(arm)
        try:
            yield "connect"
            self._find_one(client, arm)
            yield "first_operation"
        finally:
            client.close()

    def query(self, arm: Arm) -> None:
        client = self._persistent.get(arm.name)
        if client is None:
            client = self._persistent[arm.name] = self._client(arm)
        self._find_one(client, arm)

    def _find_one(self, client: Client, arm: Arm) -> None:
        collection = client[self.service(arm).database][self.service(arm).collection]
        key = key_name(self._random.randrange(self._records))
        try:
            found = collection.find_one({"_id": key})
        except PyMongoError as error:
            raise _classified(error) from error
        if found is None:
            raise DriverError("server", f"there is no record {key}")

    def _client(self, arm: Arm) -> Client:
        service, transport = self.service(arm), arm.transport
        options: dict[str, Any] = {"readPreference": service.read_preference}
        if service.replica_set:
            options["replicaSet"] = service.replica_set
        if service.username is not None:
            options["username"] = service.username
            options["password"] = service.password.get_secret_value() if service.password else None
            options["authSource"] = service.auth_source
        if transport.is_tls:
            options["tls"] = True
            if transport.ca_file:
                options["tlsCAFile"] = str(transport.ca_file)
            if transport.certificate_file:
                options["tlsCertificateKeyFile"] = str(transport.certificate_file)
            if transport.verify == "ca-only":
                options["tlsAllowInvalidHostnames"] = True
            if transport.verify == "none":
                options["tlsAllowInvalidCertificates"] = True
        return pymongo.MongoClient(
            service.addresses,
            serverSelectionTimeoutMS=self._timeout_ms,
            connectTimeoutMS=self._timeout_ms,
            socketTimeoutMS=self._timeout_ms,
            **options,
        )


def _classified(error: PyMongoError) -> DriverError:
    text = str(error).split(", Timeout:")[0]
    if isinstance(error, OperationFailure):
        return DriverError("authentication" if error.code == AUTHENTICATION_FAILED else "server", text)
    for words, error_class in _CLASS_BY_WORDS:
        if words in text:
            return DriverError(error_class, text)
    if isinstance(error, NetworkTimeout):
        return DriverError("timeout", text)
    if isinstance(error, ServerSelectionTimeoutError):
        return DriverError("no_member", text)
    if isinstance(error, AutoReconnect | ConnectionFailure):
        return DriverError("closed", text)
    return DriverError("protocol", text)


if __name__ == "__main__":
    sys.exit(serve(PymongoDriver))
