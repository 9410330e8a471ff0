"""A run: start the service, verify the arms, load the data, and measure rounds until the stop rule ends the run.

An arm is one of the configurations that the run compares.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from math import ceil

from costof.errors import CostofError, ErrorText, WarningText
from costof.format import listed, plural
from costof.lab.flushes import SECONDS, SECONDS_AFTER_ROUND
from costof.messages.process import HostsProcess
from costof.programs.reach import check_identity
from costof.results.changes import all_headlines_resolved, every_change, judge_changes
from costof.results.ledger import (
    INTERRUPTED,
    EndRecord,
    EnvironmentRecord,
    EvidenceRecord,
    FlushRecord,
    Ledger,
    LinksRecord,
    LookRecord,
    LostRecord,
    SizesRecord,
    WarningRecord,
    now,
)
from costof.run.capacity_search import Rates
from costof.run.instruments import Instruments
from costof.run.machine import busy_warnings, cores_awake, describe_machine, read_machine
from costof.run.progress import Progress
from costof.run.rounds import StartingPoint, State, measure_round
from costof.run.schedule import Looks, Schedule, enough, precision
from costof.run.sizes import MeasuredSlice, choose_sizes
from costof.services import Service, Stage
from costof.statistics.intervals import FEWEST_ROUNDS
from costof.study.commands import COMMAND
from costof.study.plan import Plan
from costof.urls import is_loopback

#: A run ends after this many consecutive rounds without a successful operation: further rounds would only wait for
#: timeouts.
FRUITLESS_ROUNDS = 2


def run(
    plan: Plan,
    service: Service,
    ledger: Ledger,
    progress: Progress,
    before: StartingPoint | None = None,
    population: HostsProcess | None = None,
) -> StartingPoint | None:
    """Start the servers once, measure until the stop rule ends the run, and write the results to the run's file.

    Return the state from which the next start of the servers (--restarts) continues. After Ctrl-C, or if the servers
    are lost, keep the results so far, mark them as partial, and return None. Raises `CostofError` if there are no
    results, because the service cannot start or no arm can run.
    """
    if not plan.protected and not plan.is_alone and not plan.compares_controls:
        raise CostofError(ErrorText.NOTHING_TO_COMPARE, control=plan.controls[0].label)
    steal, started = read_machine().steal, time.monotonic()
    before = before or StartingPoint()
    looks = Looks(plan, before.error_rate_spent + (before.look_at_end.error_rate if before.look_at_end else 0.0))
    instruments = Instruments(plan, service, ledger, before.start, population)
    rates = None if plan.sweep is None else Rates(plan, plan.sweep, before.samples)
    state = State(plan, service, ledger, progress, instruments, before, looks, Schedule(plan), rates)
    partial: str | None = None
    too_busy = busy_warnings(os.getloadavg()[0], os.cpu_count() or 1) if before.start == 0 else []
    has_begun = False
    try:
        if population is not None:
            first = "connecting to the hosts"
        elif plan.study.service.kind == COMMAND:
            first = "checking the commands"
        else:
            first = "starting the servers" if plan.target is None else "connecting to the servers"
        state.stage(first)
        with cores_awake() as cores, population or nullcontext(), service, ExitStack() as stack:
            identity, described = service.identity(), service.describe()
            check_identity(plan.target or "this lab", before.identity, identity)
            facts = {**describe_machine(described), "idle cores": cores}
            if population is not None:
                count = len(population.names)
                if before.hosts is not None and before.hosts != count:
                    earlier, current = plural(before.hosts, "host"), plural(count, "host")
                    raise CostofError(ErrorText.OTHER_HOSTS, path=ledger.folder, before=earlier, now=current)
                service.set_host_count(count)
                facts |= population.facts
            environment = EnvironmentRecord(
                started=now(),
                start=before.start,
                facts=facts,
                versions=described.versions,
                identity=identity,
                budget_seconds=plan.budget_seconds if before.resumed else None,
            )
            ledger.append(environment)
            has_begun = True
            if before.look_at_end is not None:
                ledger.append(before.look_at_end)
            for text in too_busy:
                ledger.append(WarningRecord(text=text))
            # Read the CPU time and memory once: if this fails, the run ends here, before any data is loaded.
            service.cpu_seconds()
            if service.server_memory is not None:
                service.server_memory.read()
            state.stage("verifying the arms")
            state.instruments.start(stack)
            _limit_server_cpu(state)
            service.cpu_seconds()
            if plan.loads:
                state.stage(f"loading {plan.loads}")
            service.prepare(state.instruments.able, state.instruments.load)
            _record_evidence(state, "start")
            partial = _measure(state)
            _record_evidence(state, "end")
            for text in [*instruments.finish(), *service.warnings(), *(population.warnings if population else [])]:
                ledger.append(WarningRecord(text=text))
    except KeyboardInterrupt:
        partial = INTERRUPTED
    except CostofError as error:
        partial = str(error)
        # If nothing was measured, there is nothing to report, so raise the error.
        first_failed = state.slices == 1 and not before.resumed and error.message is ErrorText.INSTRUMENT_FAILED
        if state.slices == 0 or first_failed or (state.rounds == 0 and error.message is ErrorText.SERVER_CPU_UNREAD):
            raise
    finally:
        share = (read_machine().steal - steal) / max(1e-9, (time.monotonic() - started) * (os.cpu_count() or 1))
        # If a resumed run fails before it has measured anything, keep its earlier results, and write no second end.
        if has_begun or not before.resumed:
            ledger.append(EndRecord(partial=partial, steal_share=max(0.0, share), error_rate=state.looks.error_rate))
    if partial:
        return None
    return StartingPoint(
        sizes=state.plan.slices,
        start=before.start + 1,
        whole_starts=before.whole_starts + 1,
        earlier_rounds=before.earlier_rounds + state.rounds,
    )


def _record_evidence(state: State, stage: Stage) -> None:
    for arm in state.plan.arms:
        facts = state.service.collect_evidence(arm, stage)
        if facts:
            state.ledger.append(EvidenceRecord(arm=arm.name, facts=facts))
    links = state.service.links()
    if links:
        state.ledger.append(LinksRecord(links=links))
    _record_flush(state, SECONDS)


def _record_flush(state: State, seconds: float) -> None:
    if (flush := state.service.measure_flush(seconds)) is not None:
        state.ledger.append(FlushRecord(flush=flush))


def _measure(state: State) -> str | None:
    """Measure rounds until the stop rule ends the run. If the run ends early (is partial), return the reason."""
    before = state.before
    state.stage("warming up")
    _warm_up(state)
    plan = state.plan
    state.stage("measuring")
    started, longest, fruitless = time.monotonic() - before.seconds, 0.0, 0
    reached: list[float | None] = []
    for done in range(before.rounds + 1, plan.most_rounds + 1):
        round_started, number = time.monotonic(), before.earlier_rounds + done - 1
        succeeded = sum(each.answer.operations for each in measure_round(state, number))
        state.rounds = done
        if reason := state.service.failure_reason():
            state.ledger.append(LostRecord(detail=reason))
            return reason
        _record_flush(state, SECONDS_AFTER_ROUND)
        fruitless = 0 if succeeded else fruitless + 1
        if fruitless == FRUITLESS_ROUNDS:
            return f"no operation succeeded in {FRUITLESS_ROUNDS} rounds in a row"
        longest = max(longest, time.monotonic() - round_started)
        elapsed = time.monotonic() - started
        if done == 1:
            _warn_of_few_rounds(state, longest)
        reached.append(precision(plan, before.samples))
        state.progress.round(done, elapsed, reached[-1])
        if enough(plan, done, elapsed, reached, longest) or (done >= plan.fewest_rounds and not state.comparable):
            break
        rate = state.looks.due(done, elapsed)
        if rate is not None:
            state.ledger.append(LookRecord(round=number, error_rate=rate))
            if all_headlines_resolved(judge_changes(plan, every_change(plan, before.samples), rate)):
                state.looks.end(rate)
                break
    return None


def _warn_of_few_rounds(state: State, round_seconds: float) -> None:
    """Warn if the budget is too short for `FEWEST_ROUNDS` rounds, without which there is no verdict."""
    budget = state.plan.start_budget_seconds
    if budget is not None and state.plan.starts == 1 and budget < FEWEST_ROUNDS * round_seconds:
        rounds, seconds = max(1, int(budget / round_seconds)), ceil(round_seconds * (FEWEST_ROUNDS + 1))
        text = WarningText.BUDGET_HOLDS_FEW.text(rounds=rounds, needed=FEWEST_ROUNDS, budget=f"{seconds}s")
        state.progress.warn(text)


def _warm_up(state: State) -> None:
    """Run the warm-up rounds, and choose the sizes of later slices (measured windows) from the last warm-up round.

    No figure uses the warm-up rounds. A size is a number of operations and a time limit. A resumed run keeps its sizes.
    """
    slices: list[MeasuredSlice] = []
    operations = 0
    for number in range(-state.plan.warm_up_rounds, 0):
        slices = measure_round(state, number)
        operations += sum(each.answer.operations for each in slices)
    if operations and state.service.server_cpu is not None:
        state.service.server_cpu.check_increase(operations)
    sizes = state.before.sizes
    if sizes is None:
        if state.rates is None:
            sizes = choose_sizes(state.plan, slices)
        else:
            sweep = state.rates.sweep
            seconds = sweep.seconds(state.rates.least)
            sizes = {sweep.workload: state.plan.slices[sweep.workload].model_copy(update={"seconds": seconds})}
        state.ledger.append(SizesRecord(slices=sizes))
    state.plan = state.plan.model_copy(update={"slices": sizes})


def _limit_server_cpu(state: State) -> None:
    """If the servers run on this machine, reject CPU times from --server-cpu that are too high for its number of cores.

    The servers count as running on this machine if all their addresses are loopback addresses.
    """
    server_cpu = state.service.server_cpu
    if server_cpu is None or state.instruments.population is not None:
        return
    addresses = {address for members in state.instruments.members.values() for address in members}
    if all(map(is_loopback, addresses)):
        server_cpu.limit_cores(os.cpu_count() or 1, f"this machine, where {listed(sorted(addresses))} is,")


def run_starts(
    plan: Plan,
    open_service: Callable[[], Service],
    ledger: Ledger,
    progress: Progress,
    before: StartingPoint | None = None,
    population: HostsProcess | None = None,
) -> bool:
    """Start the servers as often as --restarts says (by default once), and measure after each start.

    A resumed run skips the starts that it has already measured completely. If a start is incomplete, the run ends. If
    the first start fails, the function raises the errors of `run` and `open_service`. Later errors are only recorded in
    the run's file. Returns whether all starts are complete.
    """
    before = first = before or StartingPoint()
    while before.whole_starts < plan.starts:
        try:
            after = run(plan, open_service(), ledger, progress, before, population)
        except CostofError:
            if before is first:
                raise
            return False
        if after is None:
            return False
        before = after
    return True
