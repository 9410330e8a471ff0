"""A user's own replica set, measured as it stands under each write concern; no setting of it is changed."""

from __future__ import annotations

from typing import Self

from pymongo.errors import OperationFailure, PyMongoError

from costof.errors import Caution, CostofError, Problem
from costof.ipc.answers import SliceAnswer
from costof.ipc.plan import Endpoint, Transport
from costof.lab.program import Description
from costof.programs.access import Access
from costof.programs.mongod.session import first_words
from costof.programs.own_database import told_writes
from costof.services import Judgement, LoadData, Observation, Service
from costof.services.mongodb.lab import COLLECTION
from costof.services.mongodb.own import MongodbTarget, shown
from costof.services.replication.lab import write_concern
from costof.services.replication.readings import SetReading, figures_of, read_status, tree_mismatch
from costof.services.replication.tree import told
from costof.study.arms import PlannedArm
from costof.study.plan import Plan


class ReplicationTarget(MongodbTarget):
    """Arms differ in `write_concern`. Who follows whom is a fact of each slice, where the user may read it."""

    def __init__(self, plan: Plan, access: Access, run_name: str) -> None:
        super().__init__(plan, access, run_name)
        self._tree_hidden: str | None = None
        self._voters: list[str] = []

    def __enter__(self) -> Self:
        super().__enter__()
        if not self._hello.get("setName"):
            self.__exit__(None, None, None)
            raise CostofError(Problem.NO_REPLICA_SET, target=self._url.shown)
        try:
            members = self._session.client.admin.command("replSetGetConfig")["config"]["members"]
            self._voters = [member["host"] for member in members if member["votes"]]
        except PyMongoError as error:
            self._tree_hidden = first_words(error)
        return self

    def endpoint(self, arm: PlannedArm) -> Endpoint:
        tls = Transport(kind="tls", ca_file=self._url.ca_file)
        return Endpoint(
            service=self.client_settings("primary", write_concern(arm)),
            transport=tls if self._url.tls else arm.asked.transport_trusting(None),
        )

    def prepare(self, arm: PlannedArm, load: LoadData) -> None:
        """The marker alone: YCSB's load is what is measured."""
        super().prepare(arm, lambda arm: None)

    def writes(self) -> list[str]:
        create, marker, _, drop = told_writes(self._access.database, self._url.shown, 0, "1 kB", COLLECTION)
        each = f"insert records of about 1 kB into its {COLLECTION} for as long as the run lasts"
        return [create, marker, each, drop]

    def observe(self, arm: PlannedArm) -> Observation:
        if self._tree_hidden is not None:
            return None
        try:
            return read_status(self._session.client.admin.command("replSetGetStatus"))
        except OperationFailure as error:
            self._tree_hidden = first_words(error)
            return None

    def judge(self, arm: PlannedArm, before: Observation, after: Observation, answer: SliceAnswer) -> Judgement:
        if not isinstance(before, SetReading) or not isinstance(after, SetReading):
            return Judgement()
        # What the primary sent is counted by members that are not asked.
        figures = figures_of(before, after, self._voters, operations=0)
        return Judgement(tree_mismatch(None, before, after), figures, {"tree": told(after.tree)})

    def describe(self) -> Description:
        described = super().describe()
        return Description(described.versions, described.topology, {**described.facts, "read preference": "primary"})

    def cautions(self) -> list[str]:
        hidden = [Caution.TREE_HIDDEN.text(detail=self._tree_hidden)] if self._tree_hidden else []
        return super().cautions() + hidden


def service(plan: Plan, access: Access, run_name: str) -> Service:
    """The target of a plan. Raises `BAD_TARGET` for a URL that is none."""
    return ReplicationTarget(plan, access, run_name)


__all__ = ["service", "shown"]
