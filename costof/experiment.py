"""A run, from a plan to a ledger: start the service, prove the arms, load the data, take turns until it is enough."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from costof.environment import describe_machine, steal_seconds
from costof.errors import Caution, CostofError, Problem
from costof.evidence import mismatch
from costof.instrument import OPERATION_TIMEOUT_MS, Instrument, Ready, application, engine
from costof.ledger import (
    CautionRecord,
    EndRecord,
    EnvironmentRecord,
    Ledger,
    LostRecord,
    ReadyRecord,
    SliceRecord,
    now,
)
from costof.plan import Plan, PlannedArm
from costof.rounds import Samples, Turn, add_samples, enough, precision, turns_of_round
from costof.service import Counters, Service
from costof.transport import application_environment

LOAD = "load"
LOAD_WORKERS = 4
LOAD_SECONDS = 3600.0
#: Rounds in a row in which nothing succeeded, after which going on would only wait for time-outs.
FRUITLESS_ROUNDS = 2
#: Classes of error that say the user's own input is wrong, rather than that a target does not offer something.
MENDABLE = frozenset(
    {
        "tls_certificate_name",
        "tls_certificate_expired",
        "tls_certificate_untrusted",
        "tls_configuration",
        "authentication",
    }
)


class Progress(Protocol):
    """Whoever watches a run: the terminal, or nobody."""

    def stage(self, text: str) -> None: ...

    def round(self, done: int, elapsed_seconds: float, reached: float | None) -> None: ...


@dataclass
class Before:
    """What a run that is resumed has already: its samples, whole rounds, and measuring time in seconds."""

    samples: Samples = field(default_factory=Samples)
    rounds: int = 0
    seconds: float = 0.0


@dataclass
class _Run:
    """What a run holds while it lasts."""

    plan: Plan
    service: Service
    ledger: Ledger
    progress: Progress
    instruments: dict[tuple[str, str], Instrument] = field(default_factory=dict)
    servers: dict[tuple[str, str], str] = field(default_factory=dict)
    before: Before = field(default_factory=Before)
    slices: int = 0

    def arm(self, name: str) -> PlannedArm:
        return next(arm for arm in self.plan.arms if arm.name == name)


def run(plan: Plan, service: Service, ledger: Ledger, progress: Progress, before: Before | None = None) -> None:
    """Carry the plan out; everything worth knowing is in the ledger afterwards.

    A Ctrl-C or a lost service ends the run as partial with what it has. Raises `CostofError` when there is nothing:
    the service cannot start, or no arm can run.
    """
    steal, started = steal_seconds(), time.monotonic()
    state = _Run(plan, service, ledger, progress, before=before or Before())
    partial: str | None = None
    _caution_if_busy(ledger)
    try:
        progress.stage("starting the servers")
        with service, ExitStack() as stack:
            ledger.append(EnvironmentRecord(started=now(), facts=describe_machine(service.describe())))
            _start_instruments(state, stack)
            _load(state)
            partial = _measure(state)
            for text in service.cautions():
                ledger.append(CautionRecord(text=text))
    except KeyboardInterrupt:
        partial = "interrupted"
    except CostofError as error:
        partial = str(error)
        if state.slices == 0:
            raise
    finally:
        share = (steal_seconds() - steal) / max(1e-9, (time.monotonic() - started) * (os.cpu_count() or 1))
        ledger.append(EndRecord(partial=partial, steal_share=max(0.0, share)))


def _start_instruments(state: _Run, stack: ExitStack) -> None:
    """The engine for every arm, and the application's driver: one process for arms that need the same surroundings."""
    plan = state.plan
    state.progress.stage("proving the arms")
    ready = _introduce(state, "wire", stack.enter_context(engine()), plan.arms)
    _refuse_what_cannot_answer(plan, ready)
    if any(workload.view == "app" for workload in plan.study.workloads.values()):
        able = [arm for arm in plan.arms if ("wire", arm.name) in state.instruments]
        for environment, arms in _surroundings(able):
            driver = stack.enter_context(application(plan.study.service, environment))
            _introduce(state, "app", driver, arms)


def _refuse_what_cannot_answer(plan: Plan, ready: Ready) -> None:
    """Raises `ARMS_CANNOT_RUN` when no arm can run, or when no protected one can and that is the user's to mend or was
    asked for by name. A target that merely does not offer the protection still gets its control reported."""
    errors = {arm.name: arm.error for arm in ready.arms if arm.error is not None}
    protected = [arm.name for arm in plan.arms if not arm.control and not arm.twin]
    stopped = [errors[name] for name in protected if name in errors]
    none_left = len(errors) == len(plan.arms)
    mendable = any(error.error_class in MENDABLE for error in stopped)
    if none_left or (len(stopped) == len(protected) and (plan.protection_asked or mendable)):
        told = stopped if len(stopped) == len(protected) else list(errors.values())
        raise CostofError(Problem.ARMS_CANNOT_RUN, detail="; ".join(dict.fromkeys(error.detail for error in told)))


def _surroundings(arms: list[PlannedArm]) -> list[tuple[dict[str, str], list[PlannedArm]]]:
    """Arms by the environment variables that their application needs. One process for all that can share it: two
    processes may differ by their memory's layout alone, and that would look like an effect."""
    groups: list[tuple[dict[str, str], list[PlannedArm]]] = []
    # Arms that ask for nothing come last and join the first process there is.
    for arm in sorted(arms, key=lambda arm: not application_environment(arm.levels)):
        environment = application_environment(arm.levels)
        for known, members in groups:
            if known == environment or not environment:
                members.append(arm)
                break
        else:
            groups.append((environment, [arm]))
    return groups


def _introduce(state: _Run, view: str, instrument: Instrument, arms: list[PlannedArm]) -> Ready:
    """Hand an instrument its plan, and note which of the arms it can measure."""
    ready = instrument.plan(_border_plan(state, view, arms))
    state.ledger.append(ReadyRecord(view=view, ready=ready))
    for told in ready.arms:
        if told.error is None and told.server is not None:
            state.instruments[view, told.name] = instrument
            state.servers[view, told.name] = told.server
    return ready


def _border_plan(state: _Run, view: str, arms: list[PlannedArm]) -> dict[str, Any]:
    plan = state.plan
    workloads = [
        {"name": name, "kind": workload.kind, "workers": workload.workers}
        for name, workload in plan.study.workloads.items()
        if workload.view == view
    ]
    if view == "wire":
        workloads.append({"name": LOAD, "kind": "load", "workers": LOAD_WORKERS})
    return {
        "seed": plan.seed,
        "threads": os.cpu_count() or 1,
        "operation_timeout_ms": OPERATION_TIMEOUT_MS,
        "data": {"records": plan.records, "fields": 10, "field_length": 100},
        "arms": [{"name": arm.name, **state.service.endpoint(arm)} for arm in arms],
        "workloads": workloads,
    }


def _load(state: _Run) -> None:
    """Load the data by the engine, through the first arm that can run."""
    state.progress.stage(f"loading {state.plan.records:,} records")
    able = next(arm for arm in state.plan.arms if ("wire", arm.name) in state.instruments)

    def load(arm: PlannedArm) -> None:
        answer = state.instruments["wire", arm.name].slice(0, arm.name, LOAD, state.plan.records, LOAD_SECONDS)
        if answer.errors:
            raise CostofError(Problem.NOTHING_MEASURED, detail=f"loading failed: {answer.errors[0].detail}")

    state.service.prepare(able, load)


def _measure(state: _Run) -> str | None:
    """Rounds until it is enough. Returns why the run is only partial, or None."""
    plan, before = state.plan, state.before
    workloads = {
        name: [arm.name for arm in plan.arms if (workload.view, arm.name) in state.instruments]
        for name, workload in plan.study.workloads.items()
    }
    state.progress.stage("warming up")
    for number in range(-plan.warm_up_rounds, 0):
        _round(state, workloads, number)
    state.progress.stage("measuring")
    started, longest, fruitless = time.monotonic() - before.seconds, 0.0, 0
    reached: list[float | None] = []
    for number in range(before.rounds, plan.most_rounds):
        round_started = time.monotonic()
        succeeded = _round(state, workloads, number)
        if lost := state.service.lost():
            state.ledger.append(LostRecord(detail=lost))
            return lost
        fruitless = 0 if succeeded else fruitless + 1
        if fruitless == FRUITLESS_ROUNDS:
            return f"nothing succeeded in {FRUITLESS_ROUNDS} rounds in a row"
        longest = max(longest, time.monotonic() - round_started)
        elapsed = time.monotonic() - started
        reached.append(precision(plan, before.samples))
        state.progress.round(number + 1, elapsed, reached[-1])
        if enough(plan, number + 1, elapsed, reached, longest):
            break
    return None


def _round(state: _Run, workloads: dict[str, list[str]], number: int) -> int:
    """All turns of a round, or those until the service is lost. Returns the operations that succeeded."""
    succeeded = 0
    for turn in turns_of_round(state.plan, number, workloads):
        succeeded += _take_turn(state, turn, number)
        if state.service.lost():
            break
    return succeeded


def _take_turn(state: _Run, turn: Turn, number: int) -> int:
    """One slice, with the server's counters and CPU read around it. Returns the operations that succeeded."""
    arm = state.arm(turn.arm)
    view = state.plan.study.workloads[turn.workload].view
    size = state.plan.slices[turn.workload]
    server = state.servers[view, turn.arm]
    with _reading_fails_softly(state):
        state.service.arrange(arm)
    before, cpu_before = _read_counters(state, server), state.service.cpu_seconds()
    state.slices += 1
    answer = state.instruments[view, turn.arm].slice(
        state.slices, turn.arm, turn.workload, size.operations, size.seconds
    )
    cpu = {role: seconds - cpu_before.get(role, 0.0) for role, seconds in state.service.cpu_seconds().items()}
    moved = _read_counters(state, server).since(before)
    wrong = mismatch(arm.levels, view, answer, moved)
    warm_up = number < 0
    state.ledger.append(
        SliceRecord(
            round=number,
            warm_up=warm_up,
            view=view,
            answer=answer,
            server_connections=moved.connections,
            server_tls=moved.tls_connections,
            server_cpu_seconds=cpu,
            mismatch=wrong,
        )
    )
    if wrong is None and not warm_up:
        add_samples(state.plan, state.before.samples, number, turn, answer)
    return answer.operations


def _read_counters(state: _Run, server: str) -> Counters:
    with _reading_fails_softly(state):
        return state.service.counters(server)
    return Counters()


@contextmanager
def _reading_fails_softly(state: _Run) -> Iterator[None]:
    """A server that died cannot be asked: the slice still belongs in the ledger, and `lost` tells the reason."""
    try:
        yield
    except CostofError:
        raise
    except Exception as error:
        if state.service.lost() is None:
            raise CostofError(Problem.TARGET_FAILED, target="the service", detail=str(error)) from error


def _caution_if_busy(ledger: Ledger) -> None:
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores:
        ledger.append(CautionRecord(text=Caution.BUSY.text(load=load, cores=cores)))
