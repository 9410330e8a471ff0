"""A lab of one server behind the relay. The relay has a port for each arm, and delays requests of protected arms."""

from __future__ import annotations

from costof.lab.host import Host
from costof.messages.answers import SliceAnswer
from costof.programs.relay import NS_PER_MS, Paid, RelayCost
from costof.programs.server import LabServer
from costof.services import Judgement, Observation
from costof.services.server.lab import ServerLab
from costof.services.server.relays import HELD, Relays
from costof.study.arms import PlannedArm
from costof.study.plan import Plan


class TruthLab(ServerLab):
    """A lab whose relay delays requests of protected arms by the whole `cost`, and others only by the cost's `base_ns`.

    A slice's figure `server.added` is the mean delay in ms that the relay added to a request beyond `base_ns`.
    """

    def __init__(self, plan: Plan, program: type[LabServer], cost: RelayCost) -> None:
        arms = [_behind_relay(arm, cost if arm in plan.protected else cost.without_payers) for arm in plan.arms]
        super().__init__(plan.model_copy(update={"arms": arms}), program)
        self._base_ms = cost.base_ns / NS_PER_MS
        self._relays = next(each for each in self._entrances if isinstance(each, Relays))

    def entrance(self, arm: PlannedArm) -> str:
        """Return the 'address:port' at the relay to which the clients of an arm connect."""
        return self.endpoint(arm).service.addresses[0]

    def client_host(self, arm: PlannedArm) -> Host:
        return self._star.client(self._distances[arm.name])

    def paid(self, arm: PlannedArm) -> Paid:
        return self._relays.paid(arm)

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        figures = super().judge(arm, before, after, answer).figures
        return Judgement(figures={"added": figures[HELD] - self._base_ms} if HELD in figures else {})


def _behind_relay(arm: PlannedArm, cost: RelayCost) -> PlannedArm:
    lab = arm.settings.lab | {"relay": cost.model_dump()}
    return arm.model_copy(update={"settings": arm.settings.model_copy(update={"lab": lab})})
