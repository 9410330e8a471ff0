"""Carries trials out, those that are not there yet: rows are appended as each one ends, and its ledger is kept."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import count, product
from pathlib import Path

from costof.results.ledger import Ledger, now
from costof.study.plan import Plan
from truth import peers, speed, tails, whole_runs
from truth.design import DISTURBED, EARLIER, NOTHING, QUERIED_MS, SELDOM, SERVICES, Cost, Sizes, Trial, trials
from truth.judged import Judged, rows_of
from truth.ledgers import Ledgers
from truth.neighbour import neighbour
from truth.relay import FREE, NS_PER_MS, RelayCost
from truth.rows import BOOT, AnyRow, EffectRow, Row, Rows
from truth.runs import measured, planned, planned_as_earlier

ROOT = Path(__file__).parents[1]


def carry_out(sizes: Sizes, rows: Rows, ledgers: Ledgers) -> int:
    """All trials that are left; a Ctrl-C loses the one that is under way. Returns how many have failed.

    One that fails, for whatever reason, is told and left out: nobody watches, and the next start tries it again.
    """
    every, lessons = trials(sizes), _lessons(rows)
    left = lessons + [trial for trial in every if not rows.has(trial) and trial not in lessons]
    print(f"{len(left)} of {len(every)} trials are to be done", flush=True)
    started, failed = time.monotonic(), 0
    for number, trial in enumerate(left, 1):
        try:
            rows.add(_carried_out(trial, sizes, rows, ledgers))
        except Exception:
            traceback.print_exc()
            failed += 1
        hours = (time.monotonic() - started) / number * (len(left) - number) / 3600
        print(f"{number}/{len(left)} {trial.name}; {hours:.1f} h left", flush=True)
    return failed


def _lessons(rows: Rows) -> list[Trial]:
    """Trials without a cost that tell how long this machine takes, where it does not know it yet: costs are shares of
    that. Of a campaign that was begun elsewhere they may be more than were asked for."""
    return [
        next(trial for number in count() if not rows.has(trial := Trial("effect", service, NOTHING, disturbed, number)))
        for service, disturbed in product(SERVICES, DISTURBED)
        if not rows.knows_service(service, disturbed)
    ]


def judge_again(rows: Rows, ledgers: Ledgers) -> int:
    """The effects of each run whose ledger is kept, by the analysis of today, in place of their rows. Returns how many
    runs could not be judged: their rows stay.
    """
    failed = 0
    for trial, before in rows.by_trial().items():
        if ledgers.has(trial):
            print(trial, flush=True)
            try:
                with ledgers.opened(trial) as ledger:
                    found = _judged(ledger, before[0].about, before[0].long_run)
                rows.replace([row.model_copy(update={"judged_anew": _commit()}) for row in found])
            except Exception:
                traceback.print_exc()
                failed += 1
    return failed


def _carried_out(trial: Trial, sizes: Sizes, rows: Rows, ledgers: Ledgers) -> Sequence[AnyRow]:
    told, budget = about(trial), sizes.budget_seconds
    cost = FREE if trial.cost == NOTHING else trial.cost.at(rows.service_ms(trial.service, trial.disturbed))
    with neighbour(trial.seed) if trial.disturbed else nullcontext():
        match trial.kind:
            case "effect":
                return _effects(trial, planned(trial, budget), cost, told, ledgers)
            case "verdict":
                plan = planned_as_earlier(trial) if trial.tool == EARLIER else planned(trial, 2 * budget)
                taken = rows.service_ms(trial.service, trial.disturbed)
                common = Cost("all", max(0.0, QUERIED_MS / taken - 1)).at(taken)
                return _effects(trial, plan, trial.cost.at(QUERIED_MS), told, ledgers, common)
            case "peer":
                return [peers.measure(trial, budget, cost, told)]
            case "tail":
                return [*tails.measure(trial, cost, told)]
            case "quick":
                return whole_runs.quick(trial, told)
            case "pair":
                return [whole_runs.pair(trial, told)]


def _effects(
    trial: Trial, plan: Plan, cost: RelayCost, told: Row, ledgers: Ledgers, common: RelayCost = FREE
) -> list[EffectRow]:
    share_paying = SELDOM if trial.cost.intermittent else 1.0
    with tempfile.TemporaryDirectory() as folder:
        ledger = measured(plan, trial.service, cost, Path(folder) / "run", common)
        ledgers.keep(trial.name, ledger)
        return _judged(ledger, told, cost.added_ns * share_paying / NS_PER_MS)


def _judged(ledger: Ledger, told: Row, long_run_ms: float) -> list[EffectRow]:
    done = Judged(ledger)
    rows = rows_of(done, told, long_run_ms)
    return speed.timed(done, rows) if told.trial_kind == "verdict" else rows


def about(trial: Trial) -> Row:
    """What is known of a trial when it begins, now."""
    return Row(
        trial=trial.name,
        service=trial.service,
        payers=trial.cost.payers,
        added_share=trial.cost.share,
        disturbed=trial.disturbed,
        tool=trial.tool,
        seed=trial.seed,
        started=now(),
        commit=_commit(),
        load=os.getloadavg()[0],
        cores=os.cpu_count() or 1,
        boot=BOOT,
    )


def _commit() -> str:
    """Return the commit of the sources, with a '+' where they differ from it."""
    argv = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    return subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
