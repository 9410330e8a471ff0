"""Simulated runs of mongodb-tls in which a mean alone would mislead: failures, intermittent costs, long tails."""

from __future__ import annotations

from dataclasses import replace

from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.fake_run import Slice, Truth, error_of, exact_phase, phase_of
from tests.noise import Chance


class Failing(Truth):
    """A simulated run in which queries of the given arms fail.

    Either a `share` of the queries of each slice fails or, if `wholly` is true, all queries of every fourth slice.
    """

    def __init__(self, arms: set[str], share: float = 0.0, *, wholly: bool = False) -> None:
        super().__init__()
        self._arms, self._share, self._wholly, self._slices = arms, share, wholly, 0

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        measured = super().slice(plan, workload, arm, chance)
        if workload != "wire_query" or arm.name not in self._arms:
            return measured
        self._slices += 1
        if self._wholly and self._slices % 4 == 0:
            errors = [error_of("connection_closed", "reset by peer", measured.operations)]
            return replace(measured, operations=0, phases={}, errors=errors)
        failed = round(measured.operations * self._share)
        return replace(measured, errors=[error_of("timeout", "no answer within 10 s", failed)] if failed else [])


class Stalling(Truth):
    """A simulated run: in every tenth slice (measured window) with TLS, queries are slower by the factor `times`."""

    def __init__(self, times: float) -> None:
        super().__init__()
        self._times, self._slices = times, 0

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        if (workload, arm.name) == ("wire_query", "tls"):
            self._slices += 1
            if self._slices % 10 == 0:
                chance = replace(chance, times=chance.times * self._times)
        return super().slice(plan, workload, arm, chance)


class LongTail(Truth):
    """A simulated run in which the times of queries scatter four times as much with TLS, around the same mean."""

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        measured = super().slice(plan, workload, arm, chance)
        spread = 0.8 if arm.name == "tls" else 0.2
        if workload != "wire_query":
            return measured
        return replace(measured, phases={"operation": phase_of(chance.times, 100, 1, 100, 300, spread=spread)})


class FewPay(Truth):
    """A simulated run in which one query in ten takes half a millisecond longer with TLS."""

    share = 0.1

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        measured = super().slice(plan, workload, arm, chance)
        if workload != "wire_query":
            return measured
        paying = round(100 * self.share) if arm.name == "tls" else 0
        # Multiplying by 37 modulo 100 mixes the numbers, so that fast and slow queries become longer equally often.
        extra = [500_000 * (37 * number % 100 < paying) for number in range(100)]
        times = [round(chance.times * 1e6 * (0.8 + 0.004 * number)) for number in range(100)]
        nanoseconds = [time + more for time, more in zip(times, extra, strict=True)]
        return replace(measured, phases={"operation": exact_phase(nanoseconds, 1, 100, 300)})


class EveryQueryPays(FewPay):
    share = 1.0


class FewQueries(Truth):
    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        measured = super().slice(plan, workload, arm, chance)
        if workload != "wire_query":
            return measured
        return replace(measured, operations=30, phases={"operation": phase_of(chance.times, 30, 1, 100, 300)})


class NeverPlain(Truth):
    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        measured = super().slice(plan, workload, arm, chance)
        if workload != "wire_query" or not arm.name.startswith("plain"):
            return measured
        return replace(measured, operations=0, phases={}, errors=[error_of("refused", "no", measured.operations)])
