"""`costof run`: ask a study, and report the answer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from costof.cli.ask import answer, ask, enter_namespace
from costof.cli.gate import limit_option
from costof.cli.hosts_options import check_asked, hosts_options
from costof.cli.resume import reopen
from costof.cli.server_options import GivenTarget, target_options
from costof.errors import Caution
from costof.services.open import offered_levels, open_service, shown_urls
from costof.services.open import target_options as shown_options
from costof.studies import study_names
from costof.study.library import load_study
from costof.study.load import LoadAsked
from costof.study.plan import Options, left_out_of_target

if TYPE_CHECKING:
    from costof.messages.plan import HostsSettings


def _studies(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """For a shell: ours, or else the user's own files."""
    ours = [CompletionItem(name) for name in study_names() if name.startswith(incomplete)]
    return ours or [CompletionItem(incomplete, type="file")]


@click.command()
@click.argument("study", required=False, shell_complete=_studies)
@click.option("--profile", help="quick, default or published; else default, and quick for your own servers.")
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
@click.option(
    "--distance", metavar="TIME", help="The round trip to the servers, --set distance=TIME; predicted for your own."
)
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
    profile: str | None,
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
    target: GivenTarget,
    hosts: HostsSettings | None,
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
        given |= {**asked_load.options, "--out": out, "--seed": seed is not None, "--dry-run": dry_run}
        given["--profile"] = profile
        resumed = reopen(resume, [name for name, value in given.items() if value], budget, target, hosts)
        plan, access = resumed.plan, resumed.access
        if hosts is not None:
            check_asked(plan.study, plan.load, access, hosts)
        service = open_service(plan, access, resumed.ledger.folder.name)
        enter_namespace(service)
        sys.exit(answer(plan, service, resumed.ledger, resumed.before, access, as_json, hosts))
    access = target.access()
    if study is None:
        raise click.UsageError("which study? `costof list` shows them")
    asked = load_study(study)
    offered = offered_levels(asked, access)
    left_out = left_out_of_target(asked, offered)
    if left_out and not any(text.startswith(f"{asked.main_factor}=") for text in settings):
        click.echo(Caution.LEFT_OUT_OF_TARGET.text(levels=", ".join(left_out)), err=True)
    urls, kept_options = shown_urls(asked, access), shown_options(asked, access)
    if distance is not None:
        settings = (*settings, f"distance={distance}")
    options = Options(
        profile or ("default" if access is None else "quick"),
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
        target_options=kept_options,
        offered=offered,
    )
    sys.exit(ask(asked, options, access, out, as_json, dry_run, hosts))
