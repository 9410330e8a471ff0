"""A lab of one server behind the relay. The relay has a port for each arm, and delays requests of protected arms."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from costof.lab.host import Host
from costof.messages.answers import SliceAnswer
from costof.messages.plan import Endpoint
from costof.programs.server import LabServer
from costof.services import Judgement, Observation
from costof.services.server.lab import ServerLab
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from truth.relay import FREE, NS_PER_MS, Entrance, Paid, RelayCost, RelayPlan, RelayProcess
from truth.servers import Origin


@dataclass(frozen=True)
class PaidSoFar(Observation):
    """The delay that the relay has added to an arm's requests since the start of the lab."""

    paid: Paid


class TruthLab(ServerLab):
    """A lab whose relay delays all requests by `common`, and those of protected arms by `cost` in addition.

    A slice's figure `server.added` is the mean delay in ms that the relay added to a request beyond `common`.
    """

    def __init__(self, plan: Plan, program: type[LabServer], cost: RelayCost, common: RelayCost = FREE) -> None:
        super().__init__(plan, program)
        self._seed, self._common = plan.seed, common
        both = cost.model_copy(update={"added_ns": cost.added_ns + common.added_ns})
        self._costs = {arm.name: both if arm in plan.protected else common for arm in plan.arms}

    def _open(self, stack: ExitStack) -> None:
        super()._open(stack)
        self._relay = stack.enter_context(RelayProcess())
        server = self.server.client_settings().addresses[0]
        address, _, _ = server.rpartition(":")
        entrances = [Entrance(address=f"{address}:0", cost=cost) for cost in self._costs.values()]
        opened = self._relay.begin(RelayPlan(server=server, seed=self._seed, entrances=entrances))
        self._relayed = dict(zip(self._costs, opened, strict=True))

    def entrance(self, arm: PlannedArm) -> str:
        """Return the 'address:port' of the relay to which an arm's clients connect."""
        return self._relayed[arm.name]

    def client_host(self, arm: PlannedArm) -> Host:
        return self._star.client(self._distances[arm.name])

    def paid(self, arm: PlannedArm) -> Paid:
        return self._relay.paid()[list(self._costs).index(arm.name)]

    def endpoint(self, arm: PlannedArm) -> Endpoint:
        direct = super().endpoint(arm)
        through = direct.service.model_copy(update={"addresses": [self.entrance(arm)]})
        return direct.model_copy(update={"service": through})

    def observe(self, arm: PlannedArm) -> PaidSoFar:
        return PaidSoFar(self.paid(arm))

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        if not isinstance(before, PaidSoFar) or not isinstance(after, PaidSoFar):
            return Judgement()
        added = after.paid.since(before.paid).mean_ms - self._common.added_ns / NS_PER_MS
        return Judgement(figures={"added": added})

    def cpu_seconds(self) -> dict[str, float]:
        seconds = {"relay": self._relay.cpu_seconds()}
        if isinstance(self.server, Origin):
            seconds["server"] = self.server.cpu_seconds()
        return super().cpu_seconds() | seconds
