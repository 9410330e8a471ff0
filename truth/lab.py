"""A lab of one server behind a relay, which has a port for each arm and delays the requests of protected arms."""

from __future__ import annotations

from dataclasses import replace

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
    """A lab whose relay delays requests by a known time.

    The requests of all arms are delayed by `cost.base_ns` and, after a change of arm, by `cost.warming`. The rest of
    `cost` delays only the requests of protected arms. The mean of this rest in ms is the figure `server.added` of each
    slice.
    """

    def __init__(self, plan: Plan, program: type[LabServer], cost: RelayCost) -> None:
        arms = [_behind_relay(arm, cost if arm in plan.protected else cost.without_payers) for arm in plan.arms]
        super().__init__(plan.model_copy(update={"arms": arms}), program)
        self._cost = cost
        self._relays = next(each for each in self._entrances if isinstance(each, Relays))

    def entrance(self, arm: PlannedArm) -> str:
        """Return the 'address:port' at the relay to which the clients of an arm connect."""
        return self.endpoint(arm).service.addresses[0]

    def client_host(self, arm: PlannedArm) -> Host:
        return self._star.client(self._distances[arm.name])

    def added_ms(self, arm: PlannedArm, earlier: Paid | None = None) -> float:
        """Return the mean delay in ms that only this arm's requests get, without the delays that all arms have.

        The mean is over all requests so far or, if `earlier` is given, over the requests since then.
        """
        paid = self.paid(arm)
        paid = paid.since(earlier) if earlier is not None else paid
        return paid.mean_ms - self._common_ms(paid.requests, paid.cold)

    def paid(self, arm: PlannedArm) -> Paid:
        return self._relays.paid(arm)

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        judged = super().judge(arm, before, after, answer)
        if HELD not in judged.figures:
            return replace(judged, mismatch=judged.mismatch or "the relay did not count this slice's requests")
        common_ms = self._common_ms(judged.counts["requests"], judged.counts.get("cold", 0))
        return replace(judged, figures={"added": judged.figures[HELD] - common_ms})

    def _common_ms(self, requests: int, cold: int) -> float:
        """Return the mean delay in ms of all arms, over `requests` requests of which `cold` follow a change of arm."""
        warming_ns = self._cost.warming.added_ns if self._cost.warming else 0
        return (self._cost.base_ns + warming_ns * cold / max(1, requests)) / NS_PER_MS


def _behind_relay(arm: PlannedArm, cost: RelayCost) -> PlannedArm:
    lab = arm.settings.lab | {"relay": cost.model_dump()}
    return arm.model_copy(update={"settings": arm.settings.model_copy(update={"lab": lab})})
