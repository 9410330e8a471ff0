"""Execution of a campaign's missing trials.

When a trial ends, its result is appended to the rows, and its ledger (the raw records of the run) is archived.
"""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from itertools import count, product
from pathlib import Path

import click

from costof.programs.relay import FREE, NS_PER_MS, RelayCost
from costof.results.ledger import Ledger, now
from costof.run.machine import cpu_model
from costof.study.plan import Plan
from truth import peers, speed, tails, whole_runs
from truth.design import DISTURBED, EARLIER, NOTHING, QUERIED_MS, SELDOM, SERVICES, Sizes, Trial, trials
from truth.judged import Judged, rows_of
from truth.ledgers import Ledgers
from truth.neighbour import neighbour
from truth.rows import BOOT, AnyRow, EffectRow, Row, Rows
from truth.runs import measure, plan_as_earlier, plan_trial

ROOT = Path(__file__).parents[1]
#: Folders with the code that measures and the code that analyses. All trials of a campaign must be of one commit of
#: this code.
SOURCES = ("costof", "engine", "truth")


def check_commit(rows: Rows) -> None:
    """Raise `ClickException` if the sources have uncommitted changes, or are not the sources of the measured trials."""
    commit = _commit()
    if commit.endswith("+"):
        raise click.ClickException(f"commit your changes of {', '.join(SOURCES)} first: a campaign measures one commit")
    if others := [each for each in rows.commits if each != commit]:
        raise click.ClickException(
            f"the trials so far were measured at {', '.join(others)}, and the sources are now at {commit}. To "
            "continue, check out that commit; to start a new campaign, remove runs/truth and docs/truth/*.parquet"
        )


def run_campaign(sizes: Sizes, rows: Rows, ledgers: Ledgers) -> int:
    """Run all missing trials. Return the number of failed trials. Ctrl-C loses only the current trial.

    If a trial fails, its error is printed and the next trial begins, because a campaign runs unattended. The next start
    of the campaign retries the failed trials.
    """
    every, first = trials(sizes), _service_time_trials(rows)
    remaining = first + [trial for trial in every if not rows.has(trial) and trial not in first]
    print(f"{len(remaining)} of {len(every)} trials remain", flush=True)
    started, failed = time.monotonic(), 0
    for number, trial in enumerate(remaining, 1):
        try:
            rows.add(_run_trial(trial, sizes, rows, ledgers))
        except Exception:
            traceback.print_exc()
            failed += 1
        hours = (time.monotonic() - started) / number * (len(remaining) - number) / 3600
        print(f"{number}/{len(remaining)} {trial.name}; {hours:.1f} h left", flush=True)
    return failed


def _service_time_trials(rows: Rows) -> list[Trial]:
    """Return a trial without added cost for each service whose service time on this machine is not known yet.

    The service time is the time of a request. Other trials need it, since their costs are shares of it. A campaign that
    was begun on another machine may therefore run more trials than planned.
    """
    return [
        next(trial for number in count() if not rows.has(trial := Trial("effect", service, NOTHING, disturbed, number)))
        for service, disturbed in product(SERVICES, DISTURBED)
        if not rows.knows_service(service, disturbed)
    ]


def judge_again(rows: Rows, ledgers: Ledgers) -> int:
    """Analyse again, with the current code, each run whose ledger was archived, and replace its rows.

    Return the number of runs that could not be analysed. Their rows stay as they are.
    """
    failed = 0
    for trial, before in rows.by_trial().items():
        if ledgers.has(trial):
            print(trial, flush=True)
            try:
                with ledgers.opened(trial) as ledger:
                    analysed = _judged(ledger, before[0].about, before[0].long_run)
                rows.replace([row.model_copy(update={"judged_anew": _commit()}) for row in analysed])
            except Exception:
                traceback.print_exc()
                failed += 1
    return failed


def _run_trial(trial: Trial, sizes: Sizes, rows: Rows, ledgers: Ledgers) -> Sequence[AnyRow]:
    about, budget = describe(trial), sizes.budget_seconds
    cost = FREE if trial.cost == NOTHING else trial.cost.at(rows.service_ms(trial.service, trial.disturbed))
    with neighbour(trial.seed) if trial.disturbed else nullcontext():
        match trial.kind:
            case "effect":
                return _effects(trial, plan_trial(trial, budget), cost, about, ledgers)
            case "verdict":
                plan = plan_as_earlier(trial) if trial.tool == EARLIER else plan_trial(trial, 2 * budget)
                service_ms = rows.service_ms(trial.service, trial.disturbed)
                base_ns = round(max(0.0, QUERIED_MS - service_ms) * NS_PER_MS)
                cost = trial.cost.at(QUERIED_MS).model_copy(update={"base_ns": base_ns})
                return _effects(trial, plan, cost, about, ledgers)
            case "peer":
                return [peers.measure(trial, budget, cost, about)]
            case "tail":
                return [*tails.measure(trial, cost, about)]
            case "quick":
                return whole_runs.quick(trial, about)
            case "command":
                return [whole_runs.command(trial, about)]
            case "pair":
                return [whole_runs.pair(trial, about)]


def _effects(trial: Trial, plan: Plan, cost: RelayCost, about: Row, ledgers: Ledgers) -> list[EffectRow]:
    share_paying = SELDOM if trial.cost.intermittent else 1.0
    with tempfile.TemporaryDirectory() as folder:
        ledger = measure(plan, trial.service, cost, Path(folder) / "run")
        ledgers.keep(trial.name, ledger)
        return _judged(ledger, about, cost.added_ns * share_paying / NS_PER_MS)


def _judged(ledger: Ledger, about: Row, long_run_ms: float) -> list[EffectRow]:
    done = Judged(ledger)
    rows = rows_of(done, about, long_run_ms)
    return speed.timed(done, rows) if about.trial_kind == "verdict" else rows


def describe(trial: Trial) -> Row:
    """Return the columns that every table has, for a trial that begins now."""
    return Row(
        trial=trial.name,
        service=trial.service,
        payers=trial.cost.payers,
        added_share=trial.cost.share,
        carry_over=trial.cost.carry_over,
        disturbed=trial.disturbed,
        tool=trial.tool,
        seed=trial.seed,
        started=now(),
        commit=_commit(),
        load=os.getloadavg()[0],
        cores=os.cpu_count() or 1,
        machine=cpu_model(),
        kernel=platform.release(),
        boot=BOOT,
    )


@cache
def _commit() -> str:
    """Return the last commit of the sources, abbreviated, with a '+' if there are uncommitted changes to them."""
    commit = _git("log", "-1", "--format=%h", "--", *SOURCES)
    return commit + ("+" if _git("status", "--porcelain", "--", *SOURCES) else "")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
