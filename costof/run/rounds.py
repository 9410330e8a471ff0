"""Measurement of a round: one slice (a measured window) of each workload on each arm (a compared configuration).

The counters of the servers and of the machine are read before and after each slice. If a host began a slice late, the
slice is repeated once. If a host was lost, the whole round is repeated.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce

from costof.errors import CostofError, ErrorText
from costof.lab.program import Counters
from costof.messages.answers import PopulationAnswer
from costof.messages.plan import SliceRate
from costof.messages.process import HostLostError
from costof.results.capacity import add_capacities, observation
from costof.results.ledger import Ledger, LookRecord, LostRecord, SliceRecord
from costof.results.metrics import Samples, SliceKey, add_samples
from costof.run.capacity_search import Rates
from costof.run.evidence import mismatch
from costof.run.instruments import Instruments
from costof.run.machine import read_machine
from costof.run.progress import Progress
from costof.run.schedule import Looks, Schedule
from costof.run.sizes import MeasuredSlice
from costof.services import Observation, Service
from costof.study.arms import PlannedArm
from costof.study.load import CommandRate
from costof.study.plan import Plan
from costof.study.schema import SliceSize
from costof.study.sweep import CAPACITY


@dataclass
class StartingPoint:
    """The state from which a resumed run, or the next start of the servers, continues.

    A run with --restarts starts the servers several times. These fields describe the start with number `start`, which
    continues:

    - `samples`: its measurements so far;
    - `rounds`: the number of its complete rounds;
    - `seconds`: the time for which it has measured.

    The other fields describe the whole run:

    - `whole_starts`: the number of complete starts;
    - `earlier_rounds`: the number of rounds in the complete starts. The number of the next round is this plus `rounds`;
    - `error_rate_spent`: the part of the permitted rate of wrong verdicts that interim analyses (looks) have used;
    - `look_at_end`: set if the resumed run was already complete. The user has then seen its verdicts, so the analysis
      at its end counts as a look too;
    - `hosts`: the number of hosts at the beginning of the run, or None;
    - `identity`: facts that identify the servers.
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
    """The state of a run in progress. The sizes of measured windows (slices) in `plan` change once, after warm-up."""

    plan: Plan
    service: Service
    ledger: Ledger
    progress: Progress
    instruments: Instruments
    before: StartingPoint
    looks: Looks
    schedule: Schedule
    rates: Rates | None = None
    """The rates of a sweep (a search for the capacity of each arm); None for any other run."""
    lost_arms: set[str] = field(default_factory=set)
    slices: int = 0
    rounds: int = 0

    @property
    def comparable(self) -> bool:
        """True if, for at least one arm (compared configuration) with the protection, both arm and control can run.

        If not, further rounds could not show a cost. In a run with only controls, the value says whether one can run.
        """
        able = {arm.name for arm in self.instruments.able}
        if not self.plan.protected:
            return bool(able)
        return any(arm.name in able and arm.control_arm in able for arm in self.plan.protected)

    @property
    def runnable(self) -> dict[str, list[str]]:
        return {
            name: [
                arm.name
                for arm in self.plan.arms
                if workload.is_done_on(arm.levels) and self.instruments.measures(workload.instrument, arm.name)
            ]
            for name, workload in self.plan.study.workloads.items()
        }

    def stage(self, text: str) -> None:
        """Report the beginning of a stage. If there are several starts of the servers, say which: 'start 2 of 5: …'."""
        start = f"start {self.before.whole_starts + 1} of {self.plan.starts}: " if self.plan.starts > 1 else ""
        self.progress.stage(f"{start}{text}")


def measure_round(state: State, number: int) -> list[MeasuredSlice]:
    """Measure and return all slices of a round: one slice (measured window) of each workload on each arm.

    If a host is lost but enough hosts remain, the round is measured again.
    """
    while True:
        try:
            return _measure_slices(state, number)
        except HostLostError as error:
            population = state.instruments.population
            assert population is not None
            can_continue = population.without(error.host)
            state.ledger.append(
                LostRecord(
                    host=error.host,
                    round=number,
                    rest=len(population.names) if can_continue else None,
                    detail=error.detail,
                )
            )
            if not can_continue:
                raise


def _measure_slices(state: State, number: int) -> list[MeasuredSlice]:
    """Measure and return the slices (measured windows) of a round, or fewer if the service is lost."""
    measured = []
    for key, rate in _slices_of_round(state, number):
        if not _arm_is_lost(state, key.arm):
            measured.append(_measure_or_repeat(state, key, number, rate))
        if state.service.failure_reason():
            break
    if state.rates is not None and number >= 0:
        add_capacities(state.plan, state.before.samples)
    return measured


def _slices_of_round(state: State, number: int) -> Iterable[tuple[SliceKey, SliceRate | None]]:
    keys = state.schedule.round(number, state.runnable)
    if state.rates is None:
        return [(key, _rate(state.plan, key)) for key in keys]
    return state.rates.round(number, keys, state.plan.slices[state.rates.sweep.workload].seconds)


def _rate(plan: Plan, key: SliceKey) -> SliceRate | None:
    """Return the rate of a slice in a run with several loads (`--load 100/s,300/s`); None if there is no such rate.

    Commands get no rate here, because their command lines contain it. The slice (measured window) ends early if a
    client has waited for longer than half the slice, because then the arm cannot keep up with the load.
    """
    arm = plan.arm(key.arm)
    load = plan.load_of(arm)
    if not plan.rates or load is None or load.per_second is None or isinstance(load, CommandRate):
        return None
    return SliceRate(load.per_second, plan.size(key.workload, arm).seconds * 1000 / 2)


def _arm_is_lost(state: State, name: str) -> bool:
    """Return whether an arm (compared configuration) is lost, as after a crash of its tunnel. Record each loss once."""
    if name in state.lost_arms:
        return True
    reason = state.service.failure_reason(state.plan.arm(name))
    if reason is None:
        return False
    state.lost_arms.add(name)
    state.ledger.append(LostRecord(arm=name, detail=reason))
    return True


def _measure_or_repeat(state: State, key: SliceKey, number: int, rate: SliceRate | None) -> MeasuredSlice:
    """Measure a slice (measured window). If a host began the slice late, measure it once more.

    Both attempts are written to the ledger (the run's file), but only the last attempt counts. The figures use the
    last attempt unless it belongs to a warm-up round or its evidence contradicts the arm's settings.
    """
    for last_attempt in (False, True):
        state.slices += 1
        record, start_up_seconds = measure_slice(
            state.plan, state.service, state.instruments, key, number, state.slices, rate
        )
        state.ledger.append(record)
        late = isinstance(record.answer, PopulationAnswer) and record.answer.late
        if last_attempt or record.warm_up or not late:
            break
    if record.mismatch is None and not record.warm_up:
        add_samples(state.plan, state.before.samples, record)
    if record.mismatch is None and state.rates is not None and rate is not None:
        observed = observation(state.rates.sweep, number, rate.per_second, record.answer)
        if observed is not None:
            if not record.warm_up:
                state.before.samples.observe(CAPACITY, key, observed)
            state.rates.add(key, observed)
    return MeasuredSlice(key, record.answer, start_up_seconds)


def measure_slice(
    plan: Plan,
    service: Service,
    instruments: Instruments,
    key: SliceKey,
    round_number: int,
    slice_number: int,
    rate: SliceRate | None = None,
) -> tuple[SliceRecord, float]:
    """Measure a slice (a measured window of one arm).

    Return its record, and the seconds that preparation and bookkeeping took. Raises `INSTRUMENT_FAILED`, or
    `TARGET_FAILED` if the service is running but cannot be read.
    """
    entered = time.monotonic()
    arm, workload = plan.arm(key.arm), plan.study.workloads[key.workload]
    servers = instruments.members[workload.instrument, key.arm]
    with _ignoring_lost_service(service, arm):
        service.arrange(arm)
    _prepare_connections(plan, service, instruments, arm, key.workload)
    observed = _observe(service, arm)
    before, cpu_before = _read_counters(service, arm, servers), service.cpu_seconds()
    throttled_before, machine_before = service.throttled_seconds(), read_machine()
    process_before = time.process_time()
    started, size = time.monotonic(), plan.size(key.workload, arm)
    disconnect = workload.view == "wire" and service.counts_at_disconnect(arm)
    answer = instruments.slice(slice_number, arm, key.workload, size, rate=rate, disconnect=disconnect)
    measuring = time.monotonic() - started
    cpu = _since(cpu_before, service.cpu_seconds())
    machine = read_machine().since(machine_before)
    known = cpu_seconds_here(service, cpu) + time.process_time() - process_before
    known += (sum(answer.cpu_ns.values()) + answer.unmeasured_cpu_ns) / 1e9
    throttled = _since(throttled_before, service.throttled_seconds())
    increase = _read_counters(service, arm, servers).since(before)
    if round_number < 0:
        increase = service.trusted_counters(answer, increase)
    with _ignoring_lost_service(service, arm):
        service.finish_counting(arm)
    judgement = service.judge(arm, observed, _observe(service, arm), answer)
    workers = plan.workers(key.workload, arm)
    steal, foreign, hosts = machine.steal, max(0.0, machine.busy - known), []
    reason = mismatch(arm.settings, workload.view, answer, increase, workers) or judgement.mismatch
    if isinstance(answer, PopulationAnswer):
        # If several hosts generate the load, use the CPU times that the hosts report. The CPU time of this machine says
        # nothing about the hosts.
        steal, foreign, hosts = answer.steal_seconds, answer.foreign_cpu_seconds, answer.hosts
        reason = reason or answer.evidence_mismatch or (answer.not_simultaneous_reason if round_number >= 0 else None)
    record = SliceRecord(
        round=round_number,
        warm_up=round_number < 0,
        view=workload.view,
        workload=key.workload,
        answer=answer,
        per_second=None if rate is None else rate.per_second,
        server_connections=increase.connections,
        server_tls=increase.tls_connections,
        server_cpu_seconds=cpu,
        server_throttled_seconds=throttled,
        server_figures=judgement.figures,
        server_facts=judgement.facts,
        server_counts=judgement.counts,
        observed_seconds=machine.seconds,
        steal_seconds=steal,
        foreign_cpu_seconds=foreign,
        clock_jump_seconds=machine.clock,
        mismatch=reason,
        hosts=hosts,
        stands_for=key.stands_for,
    )
    return record, time.monotonic() - entered - measuring


def cpu_seconds_here(service: Service, cpu: dict[str, float]) -> float:
    """Return the CPU seconds of servers on this machine, without those that --server-cpu reads on another machine."""
    elsewhere = service.server_cpu is not None and not service.server_cpu.is_local
    return sum(seconds for role, seconds in cpu.items() if not (elsewhere and role == service.server_role))


def _prepare_connections(plan: Plan, service: Service, instruments: Instruments, arm: PlannedArm, name: str) -> None:
    """Renew the load generator's TLS session and its connections before a slice, without measuring.

    If the arm resumes TLS sessions, and `Service.arrange` has made its last session invalid, the load generator gets a
    new session. Connections that stay open are closed and opened again. Otherwise one connection with an unusual speed
    would affect all slices (measured windows) of the arm.
    """
    workload = plan.study.workloads[name]
    if workload.view != "wire":
        return
    connects = plan.study.wire_connect
    if connects is not None and service.wants_ticket(arm):
        _run_unmeasured(plan, instruments, arm, connects)
    if workload.keep_connections or service.endpoint(arm).service.keeps_connections(workload.kind):
        _run_unmeasured(plan, instruments, arm, name)


def _run_unmeasured(plan: Plan, instruments: Instruments, arm: PlannedArm, workload: str) -> None:
    """Let each worker perform one operation on a new connection, without recording it."""
    size = plan.size(workload, arm).model_copy(update={"operations": plan.workers(workload, arm)})
    instruments.slice(0, arm, workload, size, reconnect=True)


def _observe(service: Service, arm: PlannedArm) -> Observation | None:
    with _ignoring_lost_service(service, arm):
        return service.observe(arm)
    return None


def _read_counters(service: Service, arm: PlannedArm, servers: Sequence[str]) -> Counters:
    with _ignoring_lost_service(service, arm):
        return reduce(Counters.plus, map(service.counters, servers))
    return Counters()


@contextmanager
def _ignoring_lost_service(service: Service, arm: PlannedArm) -> Iterator[None]:
    """Ignore errors in reading the service's state if the service is lost, wholly or for this arm.

    The slice is then still recorded. Raises `TARGET_FAILED` if the service is not lost.
    """
    try:
        yield
    except Exception as error:
        if service.failure_reason() is not None or service.failure_reason(arm) is not None:
            return
        if isinstance(error, CostofError):
            raise
        detail = f"{type(error).__name__}: {error}"
        raise CostofError(ErrorText.TARGET_FAILED, target="the service", detail=detail) from error


def _since(before: dict[str, float], now: dict[str, float]) -> dict[str, float]:
    return {role: seconds - before.get(role, 0.0) for role, seconds in now.items()}
