"""A user's own MongoDB.

It is somebody's data. All that is written goes into one database, which must not exist before and carries a marker; all
that is dropped is what the marker says this run has made.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pymongo
from pymongo.errors import OperationFailure, PyMongoError

from costof.lab.program import Counters, Description
from costof.programs.access import Access
from costof.programs.mongod.connection import (
    COLLECTION,
    PORT,
    MarkedDatabase,
    MongodbSession,
    MongodbSettings,
    MongodbUrl,
    check_privileges,
    first_words,
    grant_line,
    parse_mongodb_url,
)
from costof.programs.mongod.lab import read_counters
from costof.programs.reach import SERVER_ID, VERSION, certificate_of
from costof.programs.server import TargetServer
from costof.programs.target_database import MARKER_NAME, Heartbeat, Maker, Marker, describe_writes
from costof.urls import split_host

#: For a member to apply what the others have, milliseconds.
CATCH_UP_MS = 120_000


class MongodbTarget(TargetServer):
    """Reached for administration as its URL asks; the arms are the engine's to prove.

    `hello` is what it said of itself when it was reached.
    """

    url: MongodbUrl
    session: MongodbSession

    def __init__(self, access: Access, study: str, run: str, records: int) -> None:
        self.url = parse_mongodb_url(access, study)
        super().__init__(access, study, run, records)
        self.session = MongodbSession(self.url)
        self._marked = MarkedDatabase(self.session, self.database)
        self._heartbeat = Heartbeat(self._marked.beat)
        self._marker: Marker | None = None

    def reach(self) -> None:
        super().reach()
        self.hello: dict[str, Any] = self.session.run(lambda: self.session.client.admin.command("hello"))

    def identity(self) -> dict[str, str]:
        found = {VERSION: self._version()}
        if replica_set := self.hello.get("setName"):
            members = sorted([*self.hello.get("hosts", []), *self.hello.get("passives", [])])
            found |= {"replica set": str(replica_set), "members": ", ".join(members)}
            with contextlib.suppress(PyMongoError, KeyError):
                settings = self.session.client.admin.command("replSetGetConfig")["config"]["settings"]
                found[SERVER_ID] = str(settings["replicaSetId"])
        return found | (certificate_of(*split_host(self.url.addresses[0], PORT)) if self.tls else {})

    def claim(self) -> None:
        check_privileges(self.session, self.url, self.database, (COLLECTION, MARKER_NAME), self.chosen)
        self._refuse_what_is_there()

    def remove_made(self) -> None:
        self._heartbeat.stop()
        if self._marker is not None:
            self._marked.remove(self._marker)

    def client_settings(self) -> MongodbSettings:
        replica_set = self.hello.get("setName")
        return MongodbSettings(
            addresses=self.url.addresses,
            replica_set=replica_set,
            read_preference=self.url.read_preference if replica_set else "primary",
            username=self.url.username,
            password=self.url.password,
            auth_source=self.url.auth_source,
            database=self.database,
            collection=COLLECTION,
        )

    def prepare(self, load: Callable[[], None]) -> None:
        self._refuse_what_is_there()
        is_new = not self._marked.is_listed()
        self._marker = Marker(run=self.run, maker=Maker.this_process(), tables=[COLLECTION], made_database=is_new)
        # In this order: a marker without a sign of life is a dead run's.
        self.session.run(self._heartbeat.start)
        self._marked.mark(self._marker)
        load()
        self.session.run(self._wait_for_members)

    def writes(self) -> list[str]:
        return describe_writes(self.chosen, self.shown, self.records, "1 kB", COLLECTION)

    def needs(self) -> list[str]:
        if self.url.username is None:
            return []
        monitor = '{"role": "clusterMonitor", "db": "admin"}, for the servers\' own counters as evidence'
        return [grant_line(self.url, self.chosen), f"if it may be, {monitor}"]

    def counters(self, server: str) -> Counters:
        if self.counters_hidden is not None:
            return Counters()
        try:
            counted = read_counters(self.session.member(server))
        except OperationFailure as error:
            self.counters_hidden = first_words(error)
            return Counters()
        if counted.connections is None:
            self.counters_hidden = "serverStatus has no connections.totalCreated"
        # Other clients of the target move the same counters.
        return Counters(counted.connections, counted.tls_connections, shared=True)

    def describe(self) -> Description:
        replica_set = self.hello.get("setName")
        members = len(self.hello.get("hosts", [])) + len(self.hello.get("passives", []))
        topology = f"replica set {replica_set} with {members} visible members" if replica_set else "a single server"
        return Description(
            versions={"mongod": self._version()},
            topology=topology,
            facts={"read preference": self.url.read_preference, "database": self.database},
        )

    def _version(self) -> str:
        build = self.session.run(lambda: self.session.client.admin.command("buildInfo"))
        return str(build.get("version", "unknown"))

    def _refuse_what_is_there(self) -> None:
        """Raise `TARGET_OCCUPIED` unless the database has no collections, which is none."""
        if self._marked.collections():
            raise self._occupied()

    def _wait_for_members(self) -> None:
        """Until each visible member has all that was loaded: readers of any of them find every record.

        Each is asked to answer as of the last write (`afterClusterTime`). So many acknowledgements would not do: those
        of hidden members count too, and how many there are a guest may not know.
        """
        members = [*self.hello.get("hosts", []), *self.hello.get("passives", [])]
        if not members:
            return
        kept = self.session.client[self.database].get_collection(MARKER_NAME, write_concern=pymongo.WriteConcern(1))
        with self.session.client.start_session() as written:
            kept.insert_one({"_id": "loaded"}, session=written)
            assert written.operation_time is not None, "a member of a replica set tells the time"
            for server in members:
                member = self.session.member(server)
                with member.start_session(causal_consistency=True) as reader:
                    reader.advance_cluster_time(written.cluster_time or {})
                    reader.advance_operation_time(written.operation_time)
                    found = member[self.database][MARKER_NAME].find({"_id": "loaded"}, session=reader)
                    next(found.max_time_ms(CATCH_UP_MS))
