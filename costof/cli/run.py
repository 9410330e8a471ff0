"""`costof run`: ask a study, and report the answer."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from costof.cli.ask import answer, ask, take_hosts
from costof.cli.gate import limit_option
from costof.cli.hosts_options import check_asked, hosts_options
from costof.cli.server_options import target_options
from costof.errors import Caution, CostofError, Problem
from costof.ledger.ledger import Ledger
from costof.services.open import of_target, shown_urls
from costof.studies import study_names
from costof.study.library import load_study
from costof.study.load import LoadAsked
from costof.study.plan import Options

if TYPE_CHECKING:
    from costof.hosts.asked import HostsAsked
    from costof.programs.access import Access
    from costof.run.rounds import Before


def _studies(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """For a shell: ours, or else the user's own files."""
    ours = [CompletionItem(name) for name in study_names() if name.startswith(incomplete)]
    return ours or [CompletionItem(incomplete, type="file")]


@click.command()
@click.argument("study", required=False, shell_complete=_studies)
@click.option("--profile", default="default", help="quick, default or published.")
@click.option("--set", "settings", multiple=True, metavar="FACTOR=LEVEL[,LEVEL…]", help="Choose levels, or records=N.")
@click.option("--budget", metavar="TIME", help="Longest measuring time, such as 45s, 5m or 1h30m.")
@click.option("--precision", metavar="PERCENT", help="Stop once headline costs are known to within this, such as 2%.")
@click.option("--rounds", metavar="N", help="Measure exactly N rounds (2 or more), however long they take.")
@click.option(
    "--restarts", metavar="N", help="Start the servers anew N times and estimate over starts (verdicts need 5)."
)
@click.option(
    "--load", metavar="RATE", help="Ask as often as your clients connect, such as 300/s; with --pool, as they ask."
)
@click.option(
    "--queries-per-connection", metavar="N", help="Of a load: queries on each new connection; 1 where absent."
)
@click.option("--pool", metavar="N", help="Of a load: ask over N standing connections, at a rate or with think times.")
@click.option(
    "--think-time", metavar="TIME", help="Of a pool: what its users think before each operation, such as 20ms."
)
@click.option("--distance", metavar="TIME", help="The same as --set distance=TIME: the round trip to the servers.")
@click.option("--client", metavar="PROGRAM", help="Have it ask as well: pgbench, or wrk.")
@limit_option
@target_options
@hosts_options
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
    load: str | None,
    queries_per_connection: str | None,
    pool: str | None,
    think_time: str | None,
    distance: str | None,
    client: str | None,
    limits: tuple[tuple[str, str], ...],
    access: Access | None,
    hosts: HostsAsked | None,
    out: Path | None,
    as_json: bool,
    seed: int | None,
    dry_run: bool,
    resume: Path | None,
) -> None:
    """Ask STUDY: measure, and report what the protection costs.

    The report's calculator says what that is at other loads and distances; --load and --distance measure yours.
    """
    asked_load = LoadAsked(load, queries_per_connection, pool, think_time)
    if resume is not None:
        given: dict[str, object] = {"the study": study, "--set": settings, "--precision": precision, "--rounds": rounds}
        given |= {"--restarts": restarts, "--limit": limits, "--distance": distance, "--client": client}
        given |= asked_load.options
        ledger, before = _reopen(resume, [name for name, value in given.items() if value], hosts)
        plan = ledger.plan().with_budget(budget)
        if hosts is not None:
            check_asked(plan.study, plan.load, access, hosts)
        take_hosts(plan, access)
        sys.exit(answer(plan, ledger, before, access, as_json, hosts))
    if study is None:
        raise click.UsageError("which study? `costof list` shows them")
    asked, left_out = of_target(load_study(study), access)
    if left_out and not any(text.startswith(f"{asked.main_factor}=") for text in settings):
        click.echo(Caution.LEFT_OUT_OF_TARGET.text(levels=", ".join(left_out)), err=True)
    urls = shown_urls(asked, access)
    if distance is not None:
        settings = (*settings, f"distance={distance}")
    options = Options(
        profile,
        settings,
        budget,
        precision,
        rounds,
        restarts,
        seed,
        *urls,
        limits=limits,
        load=asked_load,
        client=client,
        hosts=hosts.address if hosts else None,
    )
    sys.exit(ask(asked, options, access, out, as_json, dry_run, hosts))


def _reopen(folder: Path, options: list[str], hosts: HostsAsked | None) -> tuple[Ledger, Before]:
    """An earlier run to go on with. Its plan stands: options that would change it are refused."""
    from costof.analysis import read_run
    from costof.run.rounds import Before

    if options:
        raise CostofError(Problem.RESUME_DIFFERS, options=" and ".join(options))
    ledger = Ledger.open(folder)
    done = read_run(ledger)
    if (hosts is None) != (done.plan.hosts is None):
        begun, now = ("hosts", "this machine") if hosts is None else ("this machine", "hosts")
        raise CostofError(Problem.OTHER_HOSTS, path=folder, before=begun, now=now)
    if done.plan.starts > 1:
        # One that was cut off cannot go on where it was, on servers that have been started anew.
        return ledger, Before(
            sizes=done.sizes, start=len(done.starts), whole_starts=done.whole_starts, rounds_of_others=done.rounds
        )
    before = Before(done.samples, done.whole_rounds, done.measured_seconds, done.error_rate_spent, done.sizes)
    return ledger, replace(before, hosts=done.hosts)
