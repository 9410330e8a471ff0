"""A user's own MongoDB: a replica set or a single server, reached by URL.

It is somebody's data. All that is written goes into one database, which must not exist before and carries a marker; all
that is dropped is what the marker says this run has made.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import pymongo
from pymongo.errors import OperationFailure

from costof.errors import Caution, CostofError, Problem
from costof.ipc.plan import Endpoint
from costof.lab.program import Counters, Description
from costof.programs.access import Access
from costof.programs.heartbeat import Heartbeat
from costof.programs.maker import Maker
from costof.programs.mongod.marked_database import MarkedDatabase
from costof.programs.mongod.privileges import check_privileges, grant_line
from costof.programs.mongod.replica_set import read_counters
from costof.programs.mongod.session import MongodbSession, first_words
from costof.programs.mongod.settings import MongodbSettings
from costof.programs.mongod.url import parse_mongodb_url
from costof.programs.own_database import MARKER_NAME, Marker, check_ca_file, own_name, told_writes
from costof.services import LoadData, Service
from costof.services.mongodb.lab import COLLECTION
from costof.services.plain_arms import barred_by_tls
from costof.study.arms import PlannedArm
from costof.study.plan import Plan


class MongodbTarget(Service):
    """Reached for administration as its URL asks; the arms are the engine's to prove."""

    def __init__(self, plan: Plan, access: Access, run_name: str) -> None:
        self._url = parse_mongodb_url(access, plan.study.name)
        self._access = access
        self._records = plan.records
        self._run = run_name
        self.database = own_name(access.database, run_name)
        self._session = MongodbSession(self._url)
        self._marked = MarkedDatabase(self._session, self.database)
        self._heartbeat = Heartbeat(self._marked.beat)
        self._marker: Marker | None = None
        self._counters_hidden: str | None = None

    def __enter__(self) -> Self:
        check_ca_file(self._url.ca_file)
        self._session.open()
        try:
            self._hello = self._session.asked(lambda: self._session.client.admin.command("hello"))
            names = (COLLECTION, MARKER_NAME)
            check_privileges(self._session, self._url, self.database, names, self._access.database)
            self._refuse_what_is_there()
        except BaseException:
            self._session.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._heartbeat.stop()
        try:
            if self._marker is not None:
                self._marked.remove(self._marker)
        finally:
            self._session.close()

    def endpoint(self, arm: PlannedArm) -> Endpoint:
        replica_set = self._hello.get("setName")
        settings = self.client_settings(self._url.read_preference if replica_set else "primary")
        return Endpoint(service=settings, transport=arm.asked.transport_trusting(self._url.ca_file))

    def client_settings(self, read_preference: str, write_concern: int | str | None = None) -> MongodbSettings:
        return MongodbSettings(
            addresses=self._url.addresses,
            replica_set=self._hello.get("setName"),
            read_preference=read_preference,
            write_concern=write_concern,
            username=self._url.username,
            password=self._url.password,
            auth_source=self._url.auth_source,
            database=self.database,
            collection=COLLECTION,
        )

    def prepare(self, arm: PlannedArm, load: LoadData) -> None:
        self._refuse_what_is_there()
        self._marker = Marker(run=self._run, maker=Maker.this_process(), tables=[COLLECTION], made_database=True)
        # In this order: a marker without a sign of life is a dead run's.
        self._session.asked(self._heartbeat.start)
        self._marked.mark(self._marker)
        load(arm)
        self._session.asked(self._wait_for_members)

    def writes(self) -> list[str]:
        return told_writes(self._access.database, self._url.shown, self._records, "1 kB", COLLECTION)

    def needs(self) -> list[str]:
        if self._url.username is None:
            return []
        monitor = '{"role": "clusterMonitor", "db": "admin"}, for the servers\' own counters as evidence'
        return [grant_line(self._url, self._access.database), f"if it may be, {monitor}"]

    def barred(self, arm: PlannedArm) -> str | None:
        return barred_by_tls(arm, self._url.tls, self._access.allow_plain)

    def counters(self, server: str) -> Counters:
        if self._counters_hidden is not None:
            return Counters()
        try:
            counted = read_counters(self._session.member(server))
        except OperationFailure as error:
            self._counters_hidden = first_words(error)
            return Counters()
        # Other clients of the target move the same counters.
        return Counters(counted.connections, counted.tls_connections, shared=True)

    def describe(self) -> Description:
        build = self._session.asked(lambda: self._session.client.admin.command("buildInfo"))
        replica_set = self._hello.get("setName")
        members = len(self._hello.get("hosts", [])) + len(self._hello.get("passives", []))
        topology = f"replica set {replica_set} with {members} visible members" if replica_set else "a single server"
        return Description(
            versions={"mongod": str(build.get("version", "unknown"))},
            topology=topology,
            facts={"read preference": self._url.read_preference, "database": self.database},
        )

    def cautions(self) -> list[str]:
        hidden = self._counters_hidden
        return [Caution.SERVER_COUNTERS_HIDDEN.text(detail=hidden)] if hidden else []

    def _refuse_what_is_there(self) -> None:
        """A database without collections is none. Raises `TARGET_OCCUPIED`."""
        if self._marked.collections():
            what = "is there already, and this run did not make what it holds"
            raise CostofError(Problem.TARGET_OCCUPIED, database=self.database, target=self._url.shown, what=what)

    def _wait_for_members(self) -> None:
        """A write that every member which holds data has acknowledged: readers of any of them find every record."""
        holding = len(self._hello.get("hosts", [])) + len(self._hello.get("passives", []))
        if holding:
            everywhere = pymongo.WriteConcern(holding, wtimeout=120_000)
            collection = self._session.client[self.database].get_collection(MARKER_NAME, write_concern=everywhere)
            collection.insert_one({"_id": "loaded"})


def service(plan: Plan, access: Access, run_name: str) -> Service:
    """The target of a plan. Raises `BAD_TARGET` for a URL that is none."""
    return MongodbTarget(plan, access, run_name)


def shown(access: Access, study: str) -> tuple[str, None]:
    """The URL as plans and reports show it. Raises `BAD_TARGET`."""
    return parse_mongodb_url(access, study).shown, None
