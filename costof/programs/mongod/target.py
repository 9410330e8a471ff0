"""A user's own MongoDB server or replica set.

All writes go into one database, which must not have collections before the run. The run writes a marker (a list of its
collections) into the database, and the clean-up drops only what the marker lists.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
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
    grant_line,
    parse_mongodb_url,
    short_error,
)
from costof.programs.mongod.durability import JOURNAL_DEFAULT, read_writes
from costof.programs.mongod.lab import WRITES, read_counters
from costof.programs.reach import SERVER_ID, VERSION, read_certificate
from costof.programs.server import NO_USE, PlannedUse, TargetServer
from costof.programs.target_database import MARKER_NAME, Heartbeat, Maker, Marker, describe_writes
from costof.urls import split_host

#: The key with which a level (a study's setting) requires a replica set. It is in the level's table `target`.
REPLICA_SET = "replica_set"
CATCH_UP_MS = 120_000


class MongodbTarget(TargetServer):
    """A user's server or replica set with a database for the run's data.

    The administrative session uses TLS if the URL requires TLS, whatever transport the arms (measured variants) use.
    costof's load generator verifies the transport of the arms. `hello` is the server's answer to the command of that
    name after the log-in.
    """

    url: MongodbUrl
    session: MongodbSession

    def __init__(self, access: Access, study: str, run: str, records: int, use: PlannedUse = NO_USE) -> None:
        self.url = parse_mongodb_url(access, study)
        super().__init__(access, study, run, records, use)
        self.session = MongodbSession(self.url)
        self._marked = MarkedDatabase(self.session, self.database)
        self._heartbeat = Heartbeat(self._marked.beat)
        self._marker: Marker | None = None

    def reach(self) -> None:
        super().reach()
        self.hello: dict[str, Any] = self.session.run(lambda: self.session.client.admin.command("hello"))

    def identity(self) -> dict[str, str]:
        facts = {VERSION: self._version()}
        if replica_set := self.hello.get("setName"):
            members = sorted([*self.hello.get("hosts", []), *self.hello.get("passives", [])])
            facts |= {"replica set": str(replica_set), "members": ", ".join(members)}
            with contextlib.suppress(PyMongoError, KeyError):
                settings = self.session.client.admin.command("replSetGetConfig")["config"]["settings"]
                facts[SERVER_ID] = str(settings["replicaSetId"])
        return facts | (read_certificate(*split_host(self.url.addresses[0], PORT)) if self.tls else {})

    def claim(self) -> None:
        check_privileges(self.session, self.url, self.database, (COLLECTION, MARKER_NAME), self.chosen)
        self._check_unoccupied()

    def remove_created(self) -> None:
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
        self._check_unoccupied()
        is_new = not self._marked.is_listed()
        self._marker = Marker(run=self.run, maker=Maker.this_process(), tables=[COLLECTION], made_database=is_new)
        # Write the heartbeat before the marker (the run's record): another command that finds a marker without a
        # heartbeat considers the run dead.
        self.session.run(self._heartbeat.start)
        self._marked.mark(self._marker)
        load()
        self.session.run(self._wait_for_members)

    def writes(self) -> list[str]:
        create, marker, load, drop = describe_writes(self.chosen, self.shown, self.records, "1 kB", COLLECTION)
        if WRITES in self.use.kinds:
            operations = self.use.most_operations
            most = "until the run ends" if operations is None else f"at most {operations:,} in all"
            load = f"insert documents into its {COLLECTION} while measuring, {most}"
            return [create, marker, load, f"change one document in its {MARKER_NAME} after each slice", drop]
        return [create, marker, load, drop]

    def needs(self) -> list[str]:
        if self.url.username is None:
            return []
        monitor = '{"role": "clusterMonitor", "db": "admin"}, for the servers\' own counters as evidence'
        return [grant_line(self.url, self.chosen), f"optionally {monitor}"]

    def counters(self, server: str) -> Counters:
        if self.counters_hidden is not None:
            return Counters()
        try:
            counters = read_counters(self.session.member(server))
        except OperationFailure as error:
            self.counters_hidden = short_error(error)
            return Counters()
        if counters.connections is None:
            self.counters_hidden = "serverStatus has no connections.totalCreated"
        # These counters include the target's other clients.
        return Counters(counters.connections, counters.tls_connections, shared=True)

    def may_lack(self, target_settings: Mapping[str, Any]) -> str | None:
        return "a replica set" if target_settings.get(REPLICA_SET) else None

    @property
    def url_promises(self) -> bool:
        # With replicaSet in the URL, a run connects only to a replica set of that name.
        return self.url.replica_set is not None

    def lacks(self, target_settings: Mapping[str, Any]) -> str | None:
        """Return why the server does not meet the requirements of an arm (measured variant); None if it meets them.

        The key 'replica_set' requires members that replicate. The key `JOURNAL_DEFAULT` requires that members flush
        their journals before they acknowledge a write that waits for a majority. The method does not check this key if
        the account may not read the server's setting.
        """
        if target_settings.get(REPLICA_SET) and not self.hello.get("setName"):
            return "it is not a replica set, so no other member stores a write"
        if target_settings.get(JOURNAL_DEFAULT):
            with contextlib.suppress(PyMongoError):
                configuration = self.session.client.admin.command("replSetGetConfig")["config"]
                if not configuration.get(JOURNAL_DEFAULT, True):
                    return f"its {JOURNAL_DEFAULT} is false, so a majority answers for a write from memory"
        return None

    def readings(self, target_settings: Mapping[str, Any]) -> dict[str, float]:
        if WRITES not in self.use.kinds or self.counters_hidden is not None:
            return {}
        try:
            return read_writes(self.session.client.admin.command("serverStatus"))
        except OperationFailure as error:
            self.counters_hidden = short_error(error)
            return {}

    def finish_counting(self, target_settings: Mapping[str, Any]) -> None:
        if WRITES in self.use.kinds:
            self.session.run(self._wait_for_members)

    def describe(self) -> Description:
        replica_set = self.hello.get("setName")
        members = len(self.hello.get("hosts", [])) + len(self.hello.get("passives", []))
        topology = f"replica set {replica_set} with {members} visible members" if replica_set else "a single server"
        facts = {"database": self.database}
        if WRITES in self.use.kinds:
            facts["flushes"] = "counted by the primary for all its clients together"
            facts["time of a flush"] = "not measured, because costof does not reach the server's disk"
        else:
            facts["read preference"] = self.url.read_preference
        return Description(versions={"mongod": self._version()}, topology=topology, facts=facts)

    def _version(self) -> str:
        build = self.session.run(lambda: self.session.client.admin.command("buildInfo"))
        return str(build.get("version", "unknown"))

    def _check_unoccupied(self) -> None:
        if self._marked.collections():
            raise self._occupied()

    def _wait_for_members(self) -> None:
        """Wait until each visible member has all the run's writes, so that clients can read them from any member.

        Each member gets a read that waits for the last write (`afterClusterTime`). A write that waits for a number of
        members (write concern) would not be enough: hidden members would count too, and the account may not be able to
        see how many there are.
        """
        members = [*self.hello.get("hosts", []), *self.hello.get("passives", [])]
        if not members:
            return
        collection = self.session.client[self.database].get_collection(
            MARKER_NAME, write_concern=pymongo.WriteConcern(1)
        )
        with self.session.client.start_session() as writer:
            collection.update_one({"_id": "last write"}, {"$inc": {"times": 1}}, upsert=True, session=writer)
            assert writer.operation_time is not None, "a member of a replica set returns the operation time"
            for server in members:
                member = self.session.member(server)
                with member.start_session(causal_consistency=True) as reader:
                    reader.advance_cluster_time(writer.cluster_time or {})
                    reader.advance_operation_time(writer.operation_time)
                    cursor = member[self.database][MARKER_NAME].find({"_id": "last write"}, session=reader)
                    next(cursor.max_time_ms(CATCH_UP_MS))
