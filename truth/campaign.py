"""Carries trials out, those that are not there yet: rows are appended as each one ends."""

from __future__ import annotations

import os
import subprocess
import time
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from costof.ledger.ledger import now
from costof.study.plan import Plan
from truth import peers, speed, tails
from truth.design import NOTHING, SELDOM, Sizes, Trial, trials
from truth.neighbour import neighbour
from truth.relay import FREE, NS_PER_MS, RelayCost
from truth.rows import AnyRow, EffectRow, Row, Rows
from truth.runs import finished, planned, rows_of

ROOT = Path(__file__).parents[1]


def carry_out(sizes: Sizes, rows: Rows) -> int:
    """All trials, in the design's order; a Ctrl-C loses the one that is under way. Returns how many have failed.

    One that fails, for whatever reason, is told and left out: nobody watches, and the next start tries it again.
    """
    every = trials(sizes)
    left = [trial for trial in every if not rows.has(trial)]
    print(f"{len(left)} of {len(every)} trials are to be done", flush=True)
    started, failed = time.monotonic(), 0
    for number, trial in enumerate(left, 1):
        try:
            rows.add(_carried_out(trial, sizes, rows))
        except Exception:
            traceback.print_exc()
            failed += 1
        hours = (time.monotonic() - started) / number * (len(left) - number) / 3600
        print(f"{number}/{len(left)} {trial.name}; {hours:.1f} h left", flush=True)
    return failed


def _carried_out(trial: Trial, sizes: Sizes, rows: Rows) -> Sequence[AnyRow]:
    told, budget = about(trial), sizes.budget_seconds
    cost = FREE if trial.cost == NOTHING else trial.cost.at(rows.service_ms(trial.service, trial.disturbed))
    with neighbour(trial.seed) if trial.disturbed else nullcontext():
        match trial.kind:
            case "effect":
                return _effects(trial, planned(trial, budget), cost, told)
            case "verdict":
                return _verdicts(trial, planned(trial, 2 * budget), cost, told)
            case "peer":
                return [peers.measure(trial, budget, cost, told)]
            case "tail":
                return [*tails.measure(trial, cost, told)]


def _effects(trial: Trial, plan: Plan, cost: RelayCost, told: Row) -> list[EffectRow]:
    share_paying = SELDOM if trial.cost.intermittent else 1.0
    with finished(plan, trial.service, cost) as done:
        return rows_of(done, told, cost.added_ns * share_paying / NS_PER_MS)


def _verdicts(trial: Trial, plan: Plan, cost: RelayCost, told: Row) -> list[EffectRow]:
    with finished(plan, trial.service, cost) as done:
        times = {"seconds_to_verdict": speed.today(done), "seconds_earlier": speed.earlier(done)}
        rows = rows_of(done, told, cost.added_ns / NS_PER_MS)
    return [row.model_copy(update={name: by_arm.get(row.arm) for name, by_arm in times.items()}) for row in rows]


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
    )


def _commit() -> str:
    """Of the sources, with a '+' where they differ from it."""
    argv = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    return subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
