"""A round: its turns, each taken once more where a host began it late, and all of them where a host was lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from costof.messages.answers import PopulationAnswer
from costof.messages.process import HostLostError
from costof.results.ledger import Ledger, LookRecord, LostRecord
from costof.results.samples import Samples, ServersSide, Turn, add_samples
from costof.run.instruments import Instruments
from costof.run.schedule import Looks, Schedule
from costof.run.sizes import Taken
from costof.run.turn import take_turn
from costof.services import Service
from costof.study.plan import Plan
from costof.study.schema import SliceSize


class Progress(Protocol):
    """Whoever watches a run: the terminal, or nobody."""

    def stage(self, text: str) -> None: ...

    def round(self, done: int, elapsed_seconds: float, reached: float | None) -> None: ...


@dataclass
class Before:
    """What a run that is resumed has already: its samples, whole rounds, measuring time in seconds, what of the error
    rate its looks have spent, and the sizes of its slices.

    A start of the servers among several has rounds of its own: it knows the sizes, its number among all that were
    begun, how many are whole, and how many rounds the others have, after which its own are numbered. `hosts`: as many
    as the run was begun with, None where it has none. `identity`: what told its servers from others.
    `look_at_end`: of a complete run, whose verdicts have been seen.
    """

    samples: Samples = field(default_factory=Samples)
    rounds: int = 0
    seconds: float = 0.0
    error_rate_spent: float = 0.0
    sizes: dict[str, SliceSize] | None = None
    start: int = 0
    whole_starts: int = 0
    rounds_of_others: int = 0
    hosts: int | None = None
    resumed: bool = False
    identity: Mapping[str, str] = field(default_factory=dict)
    look_at_end: LookRecord | None = None


@dataclass
class State:
    """What a run holds while it lasts; the plan's sizes of slices are those of its warm-up until others are chosen."""

    plan: Plan
    service: Service
    ledger: Ledger
    progress: Progress
    instruments: Instruments
    before: Before
    looks: Looks
    schedule: Schedule
    lost_arms: set[str] = field(default_factory=set)
    slices: int = 0
    rounds: int = 0

    @property
    def comparable(self) -> bool:
        """Whether any protected arm that can run has a control that can: else more rounds tell no cost."""
        able = {arm.name for arm in self.instruments.able}
        return any(arm.name in able and arm.baseline in able for arm in self.plan.protected)

    @property
    def runnable(self) -> dict[str, list[str]]:
        """The arms of each workload that can be measured."""
        return {
            name: [
                arm.name
                for arm in self.plan.arms
                if workload.is_done_on(arm.levels) and self.instruments.measures(workload.instrument, arm.name)
            ]
            for name, workload in self.plan.study.workloads.items()
        }


def take_round(state: State, number: int) -> list[Taken]:
    """All turns of a round. Where a host was lost in it, and the others are enough, they take all of them anew."""
    while True:
        try:
            return _turns(state, number)
        except HostLostError as error:
            population = state.instruments.population
            assert population is not None
            goes_on = population.without(error.host)
            state.ledger.append(
                LostRecord(
                    host=error.host,
                    round=number,
                    rest=len(population.names) if goes_on else None,
                    detail=error.detail,
                )
            )
            if not goes_on:
                raise


def _turns(state: State, number: int) -> list[Taken]:
    """All turns of a round, or those until the service is lost."""
    taken = []
    for turn in state.schedule.round(number, state.runnable):
        if not _arm_is_lost(state, turn.arm):
            taken.append(_take_turn(state, turn, number))
        if state.service.lost():
            break
    return taken


def _arm_is_lost(state: State, name: str) -> bool:
    """Whether the arm's own part of the service is gone; said once in the ledger. The others go on."""
    if name in state.lost_arms:
        return True
    reason = state.service.lost(state.plan.arm(name))
    if reason is None:
        return False
    state.lost_arms.add(name)
    state.ledger.append(LostRecord(arm=name, detail=reason))
    return True


def _take_turn(state: State, turn: Turn, number: int) -> Taken:
    """Its slice goes to the ledger, and to the samples if it proved its arm and is none of the warm-up. One that a host
    began late is taken once more."""
    for last_attempt in (False, True):
        state.slices += 1
        record, start_up_seconds = take_turn(state.plan, state.service, state.instruments, turn, number, state.slices)
        state.ledger.append(record)
        late = isinstance(record.answer, PopulationAnswer) and record.answer.late
        if last_attempt or record.warm_up or not late:
            break
    if record.mismatch is None and not record.warm_up:
        servers = ServersSide(record.server_figures, record.server_cpu_seconds)
        add_samples(state.plan, state.before.samples, number, turn, record.answer, servers)
    return Taken(turn, record.answer, start_up_seconds)
