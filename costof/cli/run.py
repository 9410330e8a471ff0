"""`costof run`: ask a study, and report the answer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from costof.cli.gate import limit_option, status, tell
from costof.cli.progress import Bar
from costof.cli.server_options import target_options
from costof.cli.show import print_answer, write_answer
from costof.errors import EXIT_ANSWERED, EXIT_FAILED, EXIT_PARTIAL, CostofError, Problem
from costof.ledger.ledger import Ledger
from costof.services.open import open_service, shown_urls
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve

if TYPE_CHECKING:
    from costof.programs.access import Access
    from costof.report.result import Result
    from costof.run.experiment import Before
    from costof.services import Service


@click.command()
@click.argument("study", required=False)
@click.option("--profile", default="default", help="quick, default or published.")
@click.option("--set", "settings", multiple=True, metavar="FACTOR=LEVEL[,LEVEL…]", help="Choose levels, or records=N.")
@click.option("--budget", metavar="TIME", help="Longest measuring time, such as 45s, 5m or 1h30m.")
@click.option("--precision", metavar="PERCENT", help="Stop once headline costs are known to within this, such as 2%.")
@click.option("--rounds", metavar="N", help="Measure exactly N rounds (2 or more), however long they take.")
@click.option(
    "--restarts", metavar="N", help="Start the servers anew N times and estimate over starts (verdicts need 5)."
)
@limit_option
@target_options
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the run; else runs/<time>-<study>.")
@click.option("--json", "as_json", is_flag=True, help="Print result.json instead of the table.")
@click.option("--seed", type=int, help="Seed of the order of the slices.")
@click.option("--dry-run", is_flag=True, help="Print the plan and every write it would do, and do nothing.")
@click.option("--resume", type=click.Path(path_type=Path), help="Go on with the run in this folder.")
def run(
    study: str | None,
    profile: str,
    settings: tuple[str, ...],
    budget: str | None,
    precision: str | None,
    rounds: str | None,
    restarts: str | None,
    limits: tuple[tuple[str, str], ...],
    access: Access | None,
    out: Path | None,
    as_json: bool,
    seed: int | None,
    dry_run: bool,
    resume: Path | None,
) -> None:
    """Ask STUDY: measure, and report what the protection costs."""
    if resume is not None:
        given: dict[str, object] = {"the study": study, "--set": settings, "--precision": precision, "--rounds": rounds}
        given |= {"--restarts": restarts, "--limit": limits}
        ledger, before = _reopen(resume, [name for name, value in given.items() if value])
        plan = ledger.plan().with_budget(budget)
    elif study is None:
        raise click.UsageError("which study? `costof list` shows them")
    else:
        asked = load_study(study)
        options = Options(
            profile, settings, budget, precision, rounds, restarts, seed, *shown_urls(asked, access), limits
        )
        plan, before = resolve(asked, options), None
        # Imported here: a mistyped option should not wait for what the sections compute with.
        from costof.sections import check

        check(asked)
        if dry_run:
            _print_plan(plan, access)
            return
        # Made before anything is started, so that a folder that cannot be written costs nobody a run.
        ledger = Ledger.create(plan, out)
    _measure(plan, ledger, before, access)
    result = write_answer(ledger)
    print_answer(result, ledger, as_json)
    sys.exit(_status(result, _judged(result, plan, as_json)))


def _reopen(folder: Path, options: list[str]) -> tuple[Ledger, Before]:
    """An earlier run to go on with. Its plan stands: options that would change it are refused."""
    from costof.analysis import read_run
    from costof.run.experiment import Before

    if options:
        raise CostofError(Problem.RESUME_DIFFERS, options=" and ".join(options))
    ledger = Ledger.open(folder)
    done = read_run(ledger)
    if done.plan.starts > 1:
        # One that was cut off cannot go on where it was, on servers that have been started anew.
        return ledger, Before(
            sizes=done.sizes, start=len(done.starts), whole_starts=done.whole_starts, rounds_of_others=done.rounds
        )
    return ledger, Before(done.samples, done.whole_rounds, done.measured_seconds, done.error_rate_spent, done.sizes)


def _measure(plan: Plan, ledger: Ledger, before: Before | None, access: Access | None) -> None:
    from costof.run.starts import run_starts

    def service() -> Service:
        return open_service(plan, access, ledger.folder.name)

    try:
        with Bar(plan.of_a_start(), Console(stderr=True, highlight=False)) as bar:
            run_starts(plan, service, ledger, bar, before)
    except CostofError:
        if before is None or before.rounds == 0:
            ledger.discard()
        raise


def _print_plan(plan: Plan, access: Access | None) -> None:
    from costof.statistics.intervals import FEWEST_ROUNDS

    service = open_service(plan, access, "a-run")
    click.echo(f"{plan.study.title}\n")
    for arm in plan.arms:
        role = " (control)" if arm.control else " (twin: the run's own noise)" if arm.twin else ""
        click.echo(f"arm       {arm.name}: {arm.label}{role}")
    for name, size in plan.slices.items():
        click.echo(f"slice     {name}: {size.operations:,} operations or {size.seconds:g} s")
    if plan.may_shorten_slices:
        click.echo("          shorter where the warm-up shows that to be enough")
    budget = plan.of_a_start().budget_seconds
    most = f" to {plan.most_rounds}, {budget:.0f} s at most" if budget is not None else ""
    click.echo(f"rounds    {plan.fewest_rounds}{most}{', in each start' if plan.starts > 1 else ''}")
    if plan.starts > 1:
        few = f": intervals, and no verdicts below {FEWEST_ROUNDS}" if plan.starts < FEWEST_ROUNDS else ""
        click.echo(f"starts    {plan.starts}{few}")
    for limit in plan.limits:
        click.echo(f"limit     {limit.metric} {limit.said}")
    click.echo(f"data      {plan.loads or 'none'}\nseed      {plan.seed}")
    for write in service.writes():
        click.echo(f"write     {write}")
    for needed in service.needs():
        click.echo(f"grant     {needed}")


def _judged(result: Result, plan: Plan, as_json: bool) -> int:
    """Whether the plan's limits are kept: an exit status, 0 where they are or where it has none."""
    from costof.analysis.index import Index
    from costof.analysis.limits import outcomes

    index = Index(result)
    found = [*outcomes(index, plan.limits)]
    tell(index, found, to_error=as_json)
    return status(outcome.state for outcome in found)


def _status(result: Result, judged: int) -> int:
    failed = any(arm.error for arm in result.arms)
    if not result.values:
        return EXIT_FAILED
    return judged or (EXIT_PARTIAL if result.partial or failed else EXIT_ANSWERED)
