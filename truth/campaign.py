"""Execution of a campaign's missing trials.

When a trial ends, its ledger (the raw records of the run) is archived, and its result is appended to the rows.
"""

from __future__ import annotations

import gc
import os
import platform
import shutil
import subprocess
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import count, product
from pathlib import Path

import click

from costof import format as fmt
from costof.messages.process import engine_path
from costof.programs.relay import NS_PER_MS, RelayCost
from costof.results.ledger import now
from costof.run.machine import cpu_model, read_machine
from truth import commands, peers, tails
from truth.design import BENCHMARKER, DISTURBED, NOTHING, PEERS, SERVICES, Sizes, Trial, trials
from truth.judged import Judged, rows_of
from truth.ledgers import Ledgers, Measured
from truth.neighbour import neighbour
from truth.rows import BOOT, AnyRow, EffectRow, FailureRow, Row, Rows
from truth.runs import measure, plan_trial

ROOT = Path(__file__).parents[1]
#: The code that measures and the code that analyses. All trials of a campaign must be of one commit of this code.
SOURCES = ("costof", "engine", "truth", "tests/support", "pyproject.toml", "constraints.txt")
#: The code that only lays out the page, which may change at any time.
LAYOUT = ("truth/page.py", "truth/pictures.py", "truth/truth.md.jinja", "truth/plan.md.jinja")
#: This many failed trials in a row end a campaign, because it would not get better by itself.
FAILURES_IN_A_ROW = 5
#: A trial begins when the machine's CPUs were less busy than this for `IDLE_SECONDS`, but waits at most
#: `LONGEST_WAIT_SECONDS`.
IDLE_SHARE, IDLE_SECONDS, LONGEST_WAIT_SECONDS = 0.15, 0.2, 600.0


def check_commit(rows: Rows) -> None:
    """Raise `ClickException` if the sources have uncommitted changes, or are not the sources of the measured trials."""
    commit = read_commit()
    if commit.endswith("+"):
        raise click.ClickException(f"commit your changes of {', '.join(SOURCES)} first: a campaign measures one commit")
    if others := [each for each in rows.commits if each != commit]:
        raise click.ClickException(
            f"the trials so far were measured at {', '.join(others)}, and the sources are now at {commit}. To "
            "continue, check out that commit; to start a new campaign, remove runs/truth and docs/truth/*.parquet"
        )


def check_machine() -> None:
    """Raise `ClickException` if another tool is missing, an engine of other sources is set, or priority is refused.

    Without real-time priority the relay may wait for a core, and delay a request longer than it counts.
    """
    if "COSTOF_ENGINE" in os.environ:
        raise click.ClickException("unset COSTOF_ENGINE: a campaign measures with the engine that `make` installs")
    if missing := [tool for tool in (*PEERS, BENCHMARKER) if shutil.which(tool) is None]:
        raise click.ClickException(f"{', '.join(missing)} not found; run scripts/system-packages tests bench")
    if subprocess.run(["chrt", "--fifo", "1", "true"], check=False, capture_output=True).returncode:
        raise click.ClickException("the relay needs real-time priority (SCHED_FIFO): run the campaign as root")


def run_campaign(sizes: Sizes, rows: Rows, ledgers: Ledgers) -> int:
    """Run all missing trials. Return the number of failed trials. Ctrl-C loses only the current trial.

    If a trial fails, its error is recorded and the next trial begins, because a campaign runs unattended. The next
    start of the campaign retries the failed trials. Raises `ClickException` if many trials in a row fail, if a trial
    fails whose service time others need, or if the sources or the installed engine change meanwhile.
    """
    every, commit = trials(sizes), read_commit()
    missing = [trial for trial in every if not rows.has(trial)]
    first = _service_time_trials(rows) if missing else []
    remaining = first + [trial for trial in missing if trial not in first]
    print(f"{len(missing)} of {len(every)} trials remain", flush=True)
    started, failed, in_a_row, installed = time.monotonic(), 0, 0, _installed_engine()
    for number, trial in enumerate(remaining, 1):
        about = describe(trial, commit, wait_until_idle())
        try:
            new, in_a_row = _run_trial(trial, about, sizes, rows, ledgers), 0
        except click.ClickException:
            raise
        except Exception as error:
            traceback.print_exc()
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            new, failed, in_a_row = [FailureRow(**dict(about), reason=reason)], failed + 1, in_a_row + 1
        _check_unchanged(commit)
        if _installed_engine() != installed:
            raise click.ClickException("the installed engine has changed during the campaign")
        rows.add(new)
        if in_a_row == FAILURES_IN_A_ROW or (in_a_row and trial in first):
            raise click.ClickException(f"{fmt.plural(in_a_row, 'trial')} in a row failed; see above")
        _free_memory()
        hours = (time.monotonic() - started) / number * (len(remaining) - number) / 3600
        print(f"{number}/{len(remaining)} {trial.name}; {hours:.1f} h left", flush=True)
    return failed


def _service_time_trials(rows: Rows) -> list[Trial]:
    """Return a trial without added cost for each service whose service time on this machine is not known yet.

    The service time is the time of a request. Other trials need it, since their costs are shares of it. A campaign that
    was begun on another machine may therefore run more trials than planned, but only if others remain.
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
    for trial in ledgers.trials():
        print(trial, flush=True)
        try:
            analysed = _judged_from_archive(trial, ledgers)
            rows.replace([row.model_copy(update={"judged_anew": read_commit()}) for row in analysed])
        except Exception:
            traceback.print_exc()
            failed += 1
    return failed


def _free_memory() -> None:
    """Free the objects of a trial's run. The analysis of each run exempts all objects from garbage collection."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _installed_engine() -> tuple[int, int]:
    """Return the time of the installed engine's last change, and its size."""
    about = engine_path().stat()
    return about.st_mtime_ns, about.st_size


def _check_unchanged(commit: str) -> None:
    if read_commit() != commit:
        raise click.ClickException(f"the sources have changed during the campaign; they were at {commit}")


def _run_trial(trial: Trial, about: Row, sizes: Sizes, rows: Rows, ledgers: Ledgers) -> Sequence[AnyRow]:
    # A run that was measured counts, even if its analysis failed or its rows were lost.
    if ledgers.has(trial.name):
        return _judged_from_archive(trial.name, ledgers, about.commit)
    budget = sizes.budget_seconds
    cost = trial.cost.at(0.0 if trial.cost == NOTHING else rows.service_ms(trial.service, trial.disturbed))
    if trial.kind == "effect":
        return _effects(trial, cost, about, budget, ledgers)
    with _place(trial):
        match trial.kind:
            case "peer":
                return [peers.measure(trial, budget, cost, about)]
            case "tail":
                return [*tails.measure(trial, cost, about)]
            case "command":
                return [commands.command(trial, about)]
            case "pair":
                return [commands.pair(trial, about)]


def _effects(trial: Trial, cost: RelayCost, about: Row, budget: int, ledgers: Ledgers) -> list[EffectRow]:
    measured = Measured(about=about, long_run_ms=cost.added_ns * trial.cost.paying / NS_PER_MS)
    with tempfile.TemporaryDirectory() as folder:
        with _place(trial):
            ledger = measure(plan_trial(trial, budget), trial.service, cost, Path(folder) / "run")
        _check_unchanged(about.commit)
        ledgers.keep(measured, ledger)
    return _judged_from_archive(trial.name, ledgers, about.commit)


def _place(trial: Trial) -> AbstractContextManager[None]:
    """Return a context with the disturbing process, or without it."""
    return neighbour(trial.seed) if trial.disturbed else nullcontext()


def _judged_from_archive(trial: str, ledgers: Ledgers, commit: str = "") -> list[EffectRow]:
    """Return the rows of an archived run. Raise `ClickException` if it was not measured at `commit`, if given."""
    with ledgers.opened(trial) as (measured, ledger):
        if commit and measured.about.commit != commit:
            raise click.ClickException(f"{trial} was measured at {measured.about.commit}; remove runs/truth")
        return rows_of(Judged(ledger), measured.about, measured.long_run_ms)


def wait_until_idle() -> float:
    """Wait until other processes leave the machine alone, but not for ever. Return the seconds that this took."""
    began = time.monotonic()
    while _busy_share() > IDLE_SHARE and time.monotonic() - began < LONGEST_WAIT_SECONDS:
        pass
    return time.monotonic() - began


def _busy_share() -> float:
    """Return the share of the machine's CPU time that is used, or lost to other machines, in `IDLE_SECONDS`."""
    before = read_machine()
    time.sleep(IDLE_SECONDS)
    used = read_machine().since(before)
    return (used.busy + used.steal) / (used.seconds * (os.cpu_count() or 1))


def describe(trial: Trial, commit: str, waited: float = 0.0) -> Row:
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
        commit=commit,
        waited=waited,
        cores=os.cpu_count() or 1,
        machine=cpu_model(),
        kernel=platform.release(),
        boot=BOOT,
    )


def read_commit() -> str:
    """Return the last commit of the sources, with a '+' if there are uncommitted changes to them."""
    paths = [*SOURCES, *(f":(exclude){each}" for each in LAYOUT)]
    commit = _git("log", "-1", "--format=%H", "--", *paths)
    return commit + ("+" if _git("status", "--porcelain", "--", *paths) else "")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
