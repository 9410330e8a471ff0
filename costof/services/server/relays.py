"""Relays: a proxy in front of the server that adds a known delay to requests, to check that costof measures it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from costof.lab.certificates import Authority
from costof.messages.answers import SliceAnswer
from costof.messages.plan import ServiceSettings
from costof.programs.relay import ROLE, Entrance, Paid, RelayCost, RelayPlan, RelayProcess
from costof.programs.server import LabServer
from costof.services import Judgement, Observation, ended
from costof.services.server.entrances import Entrances, Site
from costof.study.arms import PlannedArm

#: The name of a result: the mean delay in ms that the relay added to a request in a slice (measured window). The relay
#: itself measures it.
HELD = "held"


@dataclass(frozen=True)
class PaidSoFar(Observation):
    """The total delay that the relay has added to an arm's requests since the lab's start."""

    paid: Paid


class Relays(Entrances):
    """One relay process, with a port for each arm (measured variant) whose settings contain `relay`.

    The control (the arm without protection) has a port too, with its own delay. One thread serves all ports, so arms
    differ only in their delays.
    """

    setting = "relay"
    roles = frozenset({ROLE})

    def __init__(self, site: Site) -> None:
        self._seed = site.seed
        self._star = site.star
        self._costs = {
            arm.name: RelayCost.model_validate(arm.settings.lab["relay"])
            for arm in site.arms
            if "relay" in arm.settings.lab
        }
        # A control (arm without the protection) and its identical copy share the state of the simulated cache
        # (`warming`), as they would on a real server.
        owners = {arm.name: arm.control_arm if arm.replicate else arm.name for arm in site.arms}
        distinct = [*dict.fromkeys(owners.values())]
        self._states = {name: distinct.index(owner) for name, owner in owners.items()}
        self._ports: dict[str, str] = {}
        self._process: RelayProcess | None = None
        self._started = ExitStack()

    def has(self, arm: PlannedArm) -> bool:
        return arm.name in self._costs

    def start(self, server: LabServer, authority: Authority) -> None:
        if not self._costs:
            return
        self._process = self._started.enter_context(RelayProcess(self._star.server.prefix))
        target = server.client_settings().addresses[0]
        address, _, _ = target.rpartition(":")
        entrances = [
            Entrance(address=f"{address}:0", cost=cost, state=self._states[arm] if cost.warming else None)
            for arm, cost in self._costs.items()
        ]
        ports = self._process.begin(RelayPlan(server=target, seed=self._seed, entrances=entrances))
        self._ports = dict(zip(self._costs, ports, strict=True))

    def close(self) -> None:
        self._started.close()

    def redirect(self, settings: ServiceSettings, arm: PlannedArm) -> ServiceSettings:
        return settings.at_address(self._ports[arm.name])

    def evidence(self, arm: PlannedArm) -> dict[str, str]:
        return {"delay": self._costs[arm.name].words}

    def paid(self, arm: PlannedArm) -> Paid:
        """Return the delays that an arm's requests have had in the relay so far. Raises `INSTRUMENT_FAILED`."""
        assert self._process is not None
        return self._process.paid()[list(self._costs).index(arm.name)]

    def observe(self, arm: PlannedArm) -> PaidSoFar:
        return PaidSoFar(self.paid(arm))

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        if not isinstance(before, PaidSoFar) or not isinstance(after, PaidSoFar):
            return Judgement()
        paid = after.paid.since(before.paid)
        counts = {"requests": paid.requests, "paying": paid.paying}
        if self._costs[arm.name].warming:
            counts["cold"] = paid.cold
        return Judgement(figures={HELD: paid.mean_ms}, counts=counts)

    def cpu_seconds(self) -> dict[str, float]:
        return {} if self._process is None else {ROLE: self._process.cpu_seconds()}

    def failure_reason(self, arm: PlannedArm) -> str | None:
        return ended("relay", self._process.ended()) if self._process is not None and self.has(arm) else None

    def versions(self) -> dict[str, str]:
        return {}

    def facts(self) -> dict[str, str]:
        return {}
