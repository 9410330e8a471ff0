"""One turn of an arm: its slice, and what servers and machine did around it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

from costof.errors import CostofError, Problem
from costof.lab.program import Counters
from costof.messages.answers import PopulationAnswer
from costof.results.ledger import SliceRecord
from costof.results.samples import Turn
from costof.run.evidence import mismatch
from costof.run.instruments import Instruments
from costof.run.machine import read_machine
from costof.services import Observation, Service
from costof.study.arms import PlannedArm
from costof.study.plan import Plan


def take_turn(
    plan: Plan, service: Service, instruments: Instruments, turn: Turn, round_number: int, slice_number: int
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
        moved = service.usable(answer, moved)
    judgement = service.judge(arm, observed, _observe(service, arm), answer)
    workers = plan.workers(turn.workload, arm)
    steal, foreign, hosts = machine.steal, max(0.0, machine.busy - known), []
    unproved = mismatch(arm.asked, workload.view, answer, moved, workers) or judgement.mismatch
    if isinstance(answer, PopulationAnswer):
        # The machines that loaded are others than this one.
        steal, foreign, hosts = answer.steal_seconds, answer.foreign_cpu_seconds, answer.hosts
        unproved = unproved or answer.unlike or (answer.apart if round_number >= 0 else None)
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
    elsewhere = service.server_cpu is not None and not service.server_cpu.is_here
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
        if service.lost() is None:
            detail = f"{type(error).__name__}: {error}"
            raise CostofError(Problem.TARGET_FAILED, target="the service", detail=detail) from error


def _since(before: dict[str, float], now: dict[str, float]) -> dict[str, float]:
    return {role: seconds - before.get(role, 0.0) for role, seconds in now.items()}
