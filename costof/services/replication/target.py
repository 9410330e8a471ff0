"""A user's own MongoDB replica set. Arms differ in the client's write concern. The set's settings stay unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from pymongo.errors import OperationFailure, PyMongoError

from costof.errors import CostofError, ErrorText, WarningText
from costof.lab.program import Description
from costof.messages.answers import SliceAnswer
from costof.messages.plan import Endpoint
from costof.programs.access import Access, ShownAccess
from costof.programs.mongod.connection import COLLECTION, MAJORITY, short_error
from costof.programs.mongod.target import MongodbTarget
from costof.programs.target_database import describe_writes
from costof.services import Judgement, LoadData, Observation, Service
from costof.services.replication.shape import SetReading, read_status, replication_figures, tree_mismatch, tree_text
from costof.services.target import TargetService
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from costof.study.schema import Study


class ReplicationTarget(TargetService[MongodbTarget]):
    """A user's replica set as a service. Arms differ in the client's write concern.

    The run records the sync tree (which member replicates from which) in each slice (measured window) if the account
    may read it.
    """

    def __init__(self, access: Access, server: MongodbTarget) -> None:
        super().__init__(access, server)
        self._tree_hidden: str | None = None
        self._voters: list[str] = []

    def _open(self, stack: ExitStack) -> None:
        super()._open(stack)
        if not self.server.hello.get("setName"):
            raise CostofError(ErrorText.NO_REPLICA_SET, target=self.server.shown)
        try:
            members = self._command("replSetGetConfig")["config"]["members"]
            self._voters = [member["host"] for member in members if member["votes"]]
        except PyMongoError as error:
            self._tree_hidden = short_error(error)

    def endpoint(self, arm: PlannedArm) -> Endpoint:
        settings = {"read_preference": "primary", "write_concern": MAJORITY, **arm.settings.service}
        return Endpoint(service=self.server.client_settings().with_settings(settings), transport=self.transport(arm))

    def prepare(self, arms: Sequence[PlannedArm], load: LoadData) -> None:
        """Write no data, only the run's record (marker), because the measured workload is YCSB's load phase."""
        self.server.prepare(lambda: None)

    def writes(self) -> list[str]:
        create, marker, _, drop = describe_writes(self.server.chosen, self.server.shown, 0, "1 kB", COLLECTION)
        load = f"insert records of about 1 kB into its {COLLECTION} until the run ends"
        return [create, marker, load, drop]

    def observe(self, arm: PlannedArm) -> Observation | None:
        if self._tree_hidden is not None:
            return None
        try:
            return read_status(self._command("replSetGetStatus"))
        except OperationFailure as error:
            self._tree_hidden = short_error(error)
            return None

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        if not isinstance(before, SetReading) or not isinstance(after, SetReading):
            return Judgement()
        # With operations=0, the figures lack the bytes that the primary sent. Only the other members count these bytes,
        # and the run does not connect to them.
        figures = replication_figures(before, after, self._voters, operations=0)
        return Judgement(tree_mismatch(None, before, after), figures, {"tree": tree_text(after.tree)})

    def describe(self) -> Description:
        described = super().describe()
        return Description(described.versions, described.topology, {**described.facts, "read preference": "primary"})

    def warnings(self) -> list[str]:
        hidden = [WarningText.TREE_HIDDEN.text(detail=self._tree_hidden)] if self._tree_hidden else []
        return super().warnings() + hidden

    def _command(self, name: str) -> dict[str, Any]:
        return self.server.session.client.admin.command(name)


def service(plan: Plan, access: Access, run_name: str) -> Service:
    return ReplicationTarget(access, MongodbTarget(access, plan.study.name, run_name, plan.records))


def shown(access: Access, study: Study) -> ShownAccess:
    return MongodbTarget(access, study.name, "", 0).shown_access()
