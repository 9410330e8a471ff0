"""A round: its turns, each an arm's slice and what servers and machine did around it.

A turn is taken once more where a host began it late, and all of them where a host was lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from typing import Protocol

from costof.errors import CostofError, ErrorText
from costof.lab.program import Counters
from costof.messages.answers import PopulationAnswer
from costof.messages.process import HostLostError
from costof.results.ledger import Ledger, LookRecord, LostRecord, SliceRecord
from costof.results.samples import Samples, ServersSide, SliceKey, add_samples
from costof.run.evidence import mismatch
from costof.run.instruments import Instruments
from costof.run.machine import read_machine
from costof.run.schedule import Looks, Schedule
from costof.run.sizes import MeasuredSlice
from costof.services import Observation, Service
from costof.study.arms import PlannedArm
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
    earlier_rounds: int = 0
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


def measure_round(state: State, number: int) -> list[MeasuredSlice]:
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


def _turns(state: State, number: int) -> list[MeasuredSlice]:
    """All turns of a round, or those until the service is lost."""
    taken = []
    for turn in state.schedule.round(number, state.runnable):
        if not _arm_is_lost(state, turn.arm):
            taken.append(_measure_or_repeat(state, turn, number))
        if state.service.failure_reason():
            break
    return taken


def _arm_is_lost(state: State, name: str) -> bool:
    """Whether the arm's own part of the service is gone; said once in the ledger. The others go on."""
    if name in state.lost_arms:
        return True
    reason = state.service.failure_reason(state.plan.arm(name))
    if reason is None:
        return False
    state.lost_arms.add(name)
    state.ledger.append(LostRecord(arm=name, detail=reason))
    return True


def _measure_or_repeat(state: State, turn: SliceKey, number: int) -> MeasuredSlice:
    """Its slice goes to the ledger, and to the samples if it proved its arm and is none of the warm-up. One that a host
    began late is taken once more."""
    for last_attempt in (False, True):
        state.slices += 1
        record, start_up_seconds = measure_slice(
            state.plan, state.service, state.instruments, turn, number, state.slices
        )
        state.ledger.append(record)
        late = isinstance(record.answer, PopulationAnswer) and record.answer.late
        if last_attempt or record.warm_up or not late:
            break
    if record.mismatch is None and not record.warm_up:
        servers = ServersSide(record.server_figures, record.server_cpu_seconds)
        add_samples(state.plan, state.before.samples, number, turn, record.answer, servers)
    return MeasuredSlice(turn, record.answer, start_up_seconds)


def measure_slice(
    plan: Plan, service: Service, instruments: Instruments, turn: SliceKey, round_number: int, slice_number: int
) -> tuple[SliceRecord, float]:
    """The slice, and the seconds that the turn took beside it. Raises `INSTRUMENT_FAILED`, or `TARGET_FAILED` where the
    service cannot be asked although it is there."""
    began = time.monotonic()
    arm, workload = plan.arm(turn.arm), plan.study.workloads[turn.workload]
    servers = instruments.members[workload.instrument, turn.arm]
    with _reading_fails_softly(service):
        service.arrange(arm)
    _make_ready(plan, service, instruments, arm, turn.workload)
    observed = _observe(service, arm)
    before, cpu_before = _read_counters(service, servers), service.cpu_seconds()
    throttled_before, machine_before = service.throttled_seconds(), read_machine()
    own_before = time.process_time()
    started, size = time.monotonic(), plan.size(turn.workload, arm)
    answer = instruments.slice(slice_number, arm, turn.workload, size)
    measuring = time.monotonic() - started
    cpu = _since(cpu_before, service.cpu_seconds())
    machine = read_machine().since(machine_before)
    known = used_here(service, cpu) + sum(answer.cpu_ns.values()) / 1e9 + time.process_time() - own_before
    throttled = _since(throttled_before, service.throttled_seconds())
    moved = _read_counters(service, servers).since(before)
    if round_number < 0:
        moved = service.trusted_counters(answer, moved)
    judgement = service.judge(arm, observed, _observe(service, arm), answer)
    workers = plan.workers(turn.workload, arm)
    steal, foreign, hosts = machine.steal, max(0.0, machine.busy - known), []
    unproved = mismatch(arm.settings, workload.view, answer, moved, workers) or judgement.mismatch
    if isinstance(answer, PopulationAnswer):
        # The machines that loaded are others than this one.
        steal, foreign, hosts = answer.steal_seconds, answer.foreign_cpu_seconds, answer.hosts
        unproved = (
            unproved or answer.evidence_mismatch or (answer.not_simultaneous_reason if round_number >= 0 else None)
        )
    record = SliceRecord(
        round=round_number,
        warm_up=round_number < 0,
        view=workload.view,
        workload=turn.workload,
        answer=answer,
        server_connections=moved.connections,
        server_tls=moved.tls_connections,
        server_cpu_seconds=cpu,
        server_throttled_seconds=throttled,
        server_figures=judgement.figures,
        server_facts=judgement.facts,
        server_counts=judgement.counts,
        observed_seconds=machine.seconds,
        steal_seconds=steal,
        foreign_cpu_seconds=foreign,
        clock_jump_seconds=machine.clock,
        mismatch=unproved,
        hosts=hosts,
        stands_for=turn.stands_for,
    )
    return record, time.monotonic() - began - measuring


def used_here(service: Service, cpu: dict[str, float]) -> float:
    """Return the CPU seconds of servers on this machine: those that a command prints may be of another."""
    elsewhere = service.server_cpu is not None and not service.server_cpu.is_local
    return sum(seconds for role, seconds in cpu.items() if not (elsewhere and role == service.server_role))


def _make_ready(plan: Plan, service: Service, instruments: Instruments, arm: PlannedArm, name: str) -> None:
    """What a slice on the wire finds, in no figure: a session to resume where one is wanted, since arranging the
    servers has voided the last one, and standing connections that are new, since their luck would be an offset of the
    arm."""
    workload = plan.study.workloads[name]
    if workload.view != "wire":
        return
    connects = plan.study.wire_connect
    if connects is not None and service.wants_ticket(arm):
        _one_each(plan, instruments, arm, connects)
    if workload.keep_connections or service.endpoint(arm).service.keeps_connections(workload.kind):
        _one_each(plan, instruments, arm, name)


def _one_each(plan: Plan, instruments: Instruments, arm: PlannedArm, workload: str) -> None:
    """One operation of each worker, on a new connection, unmeasured."""
    size = plan.size(workload, arm).model_copy(update={"operations": plan.workers(workload, arm)})
    instruments.slice(0, arm, workload, size, reconnect=True)


def _observe(service: Service, arm: PlannedArm) -> Observation | None:
    with _reading_fails_softly(service):
        return service.observe(arm)
    return None


def _read_counters(service: Service, servers: Sequence[str]) -> Counters:
    with _reading_fails_softly(service):
        return reduce(Counters.plus, map(service.counters, servers))
    return Counters()


@contextmanager
def _reading_fails_softly(service: Service) -> Iterator[None]:
    """A server that died cannot be asked: the slice still belongs in the ledger, and `lost` tells the reason."""
    try:
        yield
    except CostofError:
        raise
    except Exception as error:
        if service.failure_reason() is None:
            detail = f"{type(error).__name__}: {error}"
            raise CostofError(ErrorText.TARGET_FAILED, target="the service", detail=detail) from error


def _since(before: dict[str, float], now: dict[str, float]) -> dict[str, float]:
    return {role: seconds - before.get(role, 0.0) for role, seconds in now.items()}
