"""A user's own MongoDB: a replica set or a single server, reached by URL.

It is somebody's data. All that is written goes into one database named after the run, which must not exist before and
carries a marker; all that is dropped is that database, and only if its marker is this run's.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pymongo
from pymongo import uri_parser
from pymongo.errors import ConfigurationError, InvalidURI, OperationFailure, PyMongoError

from costof.errors import CostofError, Problem
from costof.lab.mongodb import COLLECTION
from costof.lab.replica_set import read_counters
from costof.plan import Plan, PlannedArm
from costof.redact import redact_url
from costof.service import Counters, Description, LoadData, Service
from costof.target.own_database import MARKER, MARKER_NAME, check_ca_file, new_database_name, told_writes
from costof.transport import transport_of

REACH_MS = 5000
AUTHENTICATION_FAILED = 18
#: Words of pymongo's errors for which another way of talking to the address would meet the same.
NOBODY_THERE = ("Connection refused", "Name or service not known", "No route to host")

Client = pymongo.MongoClient[dict[str, Any]]


class MongodbTarget(Service):
    """Reached for administration by whichever of plain and TLS answers; the arms are the engine's to prove."""

    def __init__(self, plan: Plan, url: str, ca_file: Path | None, run_name: str) -> None:
        self._study = plan.study.name
        self._shown = redact_url(url)
        self._records = plan.records
        self._ca_file = ca_file
        self._run = run_name
        self.database = new_database_name(run_name)
        self._parsed = self._parse(url)
        self._client: Client | None = None
        self._members: dict[str, Client] = {}
        self._made = False
        self._counters_hidden: str | None = None

    def __enter__(self) -> Self:
        check_ca_file(self._ca_file)
        self._client = self._reach()
        self._hello = self._asked(lambda: self._admin().admin.command("hello"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._drop()
        finally:
            for client in [*self._members.values(), *([self._client] if self._client else [])]:
                client.close()

    def endpoint(self, arm: PlannedArm) -> dict[str, Any]:
        replica_set = self._hello.get("setName")
        return {
            "service": {
                "protocol": "mongodb",
                "addresses": self._addresses,
                "replica_set": replica_set,
                "read_preference": self._read_preference if replica_set else "primary",
                "username": self._parsed["username"],
                "password": self._parsed["password"],
                "auth_source": self._auth_source,
                "database": self.database,
                "collection": COLLECTION,
            },
            "transport": transport_of(arm.levels, self._ca_file),
        }

    def prepare(self, arm: PlannedArm, load: LoadData) -> None:
        database = self._admin()[self.database]
        if self._asked(database.list_collection_names):
            raise CostofError(Problem.TARGET_OCCUPIED, database=self.database, target=self._shown)
        marker = database.get_collection(MARKER_NAME, write_concern=pymongo.WriteConcern("majority"))
        self._made = True
        self._asked(lambda: marker.insert_one({"_id": MARKER, "run": self._run}))
        load(arm)
        self._asked(self._wait_for_members)

    def writes(self) -> list[str]:
        return told_writes(self.database, self._shown, self._records, "1 kB", COLLECTION)

    def counters(self, server: str) -> Counters:
        if self._counters_hidden is not None:
            return Counters()
        client = self._members.get(server) or self._members.setdefault(server, self._direct(server))
        try:
            counted = read_counters(client)
        except OperationFailure as error:
            self._counters_hidden = str(error).split(", full error")[0]
            return Counters()
        # Other clients of the target move the same counters.
        return Counters(counted.connections, counted.tls_connections, shared=True)

    def describe(self) -> Description:
        build = self._asked(lambda: self._admin().admin.command("buildInfo"))
        replica_set = self._hello.get("setName")
        members = len(self._hello.get("hosts", [])) + len(self._hello.get("passives", []))
        topology = f"replica set {replica_set} with {members} visible members" if replica_set else "a single server"
        return Description(
            versions={"mongod": str(build.get("version", "unknown"))},
            topology=topology,
            facts={"read preference": self._read_preference, "database": self.database},
        )

    def cautions(self) -> list[str]:
        from costof.errors import Caution

        hidden = self._counters_hidden
        return [Caution.SERVER_COUNTERS_HIDDEN.text(detail=hidden)] if hidden else []

    @property
    def _addresses(self) -> list[str]:
        return [f"{host}:{port}" for host, port in self._parsed["nodelist"]]

    @property
    def _read_preference(self) -> str:
        return str(self._parsed["options"].get("readPreference", "secondaryPreferred"))

    @property
    def _auth_source(self) -> str:
        return str(self._parsed["options"].get("authSource") or self._parsed["database"] or "admin")

    def _parse(self, url: str) -> dict[str, Any]:
        try:
            return dict(uri_parser.parse_uri(url, warn=False, normalize=True))
        except (InvalidURI, ConfigurationError, ValueError) as error:
            detail = redact_url(str(error))
            raise CostofError(Problem.BAD_TARGET, url=self._shown, study=self._study, detail=detail) from None

    def _reach(self) -> Client:
        """A client for administration, by TLS or plain, whichever answers; the first refusal is what is told."""
        prefers_tls = self._ca_file is not None or bool(self._parsed["options"].get("tls"))
        first_error: PyMongoError | None = None
        for tls in (prefers_tls, not prefers_tls):
            client = self._connect(self._addresses, tls, replica_set=self._parsed["options"].get("replicaSet"))
            try:
                client.admin.command("ping")
            except OperationFailure as error:
                client.close()
                problem = Problem.TARGET_REFUSES_LOGIN if error.code == AUTHENTICATION_FAILED else Problem.TARGET_FAILED
                raise CostofError(problem, target=self._shown, detail=_first_words(error)) from None
            except PyMongoError as error:
                client.close()
                first_error = first_error or error
                if any(words in str(error) for words in NOBODY_THERE):
                    break
            else:
                self._tls = tls
                return client
        assert first_error is not None
        detail = _first_words(first_error)
        raise CostofError(Problem.TARGET_UNREACHABLE, target=self._shown, detail=detail) from None

    def _direct(self, server: str) -> Client:
        return self._connect([server], self._tls, replica_set=None, directConnection=True)

    def _connect(self, addresses: list[str], tls: bool, replica_set: str | None, **more: Any) -> Client:
        options: dict[str, Any] = {"serverSelectionTimeoutMS": REACH_MS, "connectTimeoutMS": REACH_MS, **more}
        if replica_set:
            options["replicaSet"] = replica_set
        if self._parsed["username"] is not None:
            options |= {name: self._parsed[name] for name in ("username", "password")}
            options["authSource"] = self._auth_source
        if tls:
            # The arms verify, and say what is wrong; the administration must not fail before they do.
            options |= {"tls": True, "tlsAllowInvalidHostnames": True}
            if self._ca_file is not None:
                options["tlsCAFile"] = str(self._ca_file)
        return pymongo.MongoClient(addresses, **options)

    def _admin(self) -> Client:
        assert self._client is not None
        return self._client

    def _asked(self, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except PyMongoError as error:
            raise CostofError(Problem.TARGET_FAILED, target=self._shown, detail=_first_words(error)) from None

    def _wait_for_members(self) -> None:
        """A write that every member which holds data has acknowledged: readers of any of them find every record."""
        holding = len(self._hello.get("hosts", [])) + len(self._hello.get("passives", []))
        if holding:
            everywhere = pymongo.WriteConcern(holding, wtimeout=120_000)
            collection = self._admin()[self.database].get_collection(MARKER_NAME, write_concern=everywhere)
            collection.insert_one({"_id": "loaded"})

    def _drop(self) -> None:
        """Drop this run's database, and nothing where the marker is not this run's."""
        if not self._made or self._client is None:
            return
        database = self._client[self.database]
        marker = self._asked(lambda: database[MARKER_NAME].find_one({"_id": MARKER}))
        if marker is not None and marker.get("run") == self._run:
            self._asked(lambda: self._admin().drop_database(self.database))


def service(plan: Plan, url: str, ca_file: Path | None, run_name: str) -> Service:
    """The target of a plan. Raises `BAD_TARGET` for a URL that is none."""
    return MongodbTarget(plan, url, ca_file, run_name)


def _first_words(error: PyMongoError) -> str:
    """pymongo appends its whole view of the topology to its errors; the first part tells the user."""
    text = str(error)
    for noise in (", Timeout:", ", full error:", " (configured timeouts"):
        text = text.split(noise)[0]
    return redact_url(text)
