"""The command line: `costof list | run | show | report | compare | clean | ab | ycsb | gateway | doctor`.

What measures and what analyses is imported by the commands that do: half of the time of a `costof --help` would be
theirs.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click
from rich.console import Console

from costof import __version__
from costof.cli.clean import clean
from costof.cli.progress import Bar
from costof.cli.server_options import target_options
from costof.cli.ycsb import ycsb
from costof.errors import EXIT_ANSWERED, EXIT_FAILED, EXIT_PARTIAL, EXIT_USAGE, CostofError, Problem
from costof.files import write_whole
from costof.ledger.ledger import Ledger
from costof.programs.password import take_out_of_environment
from costof.services.open import open_service, shown_urls
from costof.study.plan import Options, Plan, resolve
from costof.study.schema import load_study, study_names

if TYPE_CHECKING:
    from costof.analysis.result import Result
    from costof.programs.access import Access
    from costof.run.experiment import Before

RESULT = "result.json"
MOST_CONCURRENT = 20_000


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="costof")
@click.pass_context
def cli(context: click.Context) -> None:
    """What will this protection cost my service? A controlled experiment on real servers, and its answer.

    `costof ab URL` asks one URL, with the options and the report of Apache's ab; `costof ycsb`
    takes YCSB's command line.
    """
    context.obj = take_out_of_environment()


cli.add_command(ycsb)
cli.add_command(clean)


@cli.command("list")
def list_studies() -> None:
    """The questions that can be asked, with their factors."""
    console = Console(highlight=False)
    for name in study_names():
        study = load_study(name)
        console.print(f"[bold]{name}[/]  {study.title}")
        for factor, spec in study.factors.items():
            levels = ", ".join(f"[green]{lv}[/]" if lv in spec.default else lv for lv in spec.levels)
            console.print(f"    {factor:<14} {levels}")
        for profile, size in study.profiles.items():
            console.print(f"    [dim]--profile {profile:<10} {size.description}[/]")


@cli.command()
@click.argument("study", required=False)
@click.option("--profile", default="default", help="quick, default or published.")
@click.option("--set", "settings", multiple=True, metavar="FACTOR=LEVEL[,LEVEL…]", help="Choose levels, or records=N.")
@click.option("--budget", metavar="TIME", help="Longest measuring time, such as 45s, 5m or 1h30m.")
@click.option("--precision", metavar="PERCENT", help="Stop once headline costs are known to within this, such as 2%.")
@click.option("--rounds", metavar="N", help="Exactly so many rounds (2 or more), whatever they take and tell.")
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
    access: Access | None,
    out: Path | None,
    as_json: bool,
    seed: int | None,
    dry_run: bool,
    resume: Path | None,
) -> None:
    """Ask STUDY: measure, and report what the protection costs."""
    if resume is not None:
        told = {"the study": study, "--set": settings, "--budget": budget, "--precision": precision, "--rounds": rounds}
        ledger, before = _reopen(resume, [name for name, value in told.items() if value])
        plan = ledger.plan()
    elif study is None:
        raise click.UsageError("which study? `costof list` shows them")
    else:
        asked = load_study(study)
        options = Options(profile, settings, budget, precision, rounds, seed, *shown_urls(asked, access))
        plan, before = resolve(asked, options), None
        if dry_run:
            _print_plan(plan, access)
            return
        # Made before anything is started, so that a folder that cannot be written costs nobody a run.
        ledger = Ledger.create(plan, out)
    _measure(plan, ledger, before, access)
    result = _write(ledger)
    _print(result, ledger, as_json)
    sys.exit(_status(result))


@cli.command()
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print result.json instead of the table.")
def show(folder: Path, as_json: bool) -> None:
    """Print the answer of an earlier run."""
    from costof.analysis import analyse

    ledger = Ledger.open(folder)
    _print(analyse(ledger), ledger, as_json)


@cli.command()
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
def report(folder: Path) -> None:
    """Make the reports of an earlier run again, from its ledger alone."""
    ledger = Ledger.open(folder)
    _write(ledger)
    for name in (RESULT, "report.html", "report.md"):
        click.echo(str(ledger.folder / name))


@cli.command()
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
def compare(first: Path, second: Path) -> None:
    """Did a cost change between two runs of one study?"""
    from costof.analysis import analyse
    from costof.analysis.compare import compare_runs
    from costof.cli.compare import render_comparison

    changes = compare_runs(analyse(Ledger.open(first)), analyse(Ledger.open(second)))
    render_comparison(changes, Console(highlight=False))


@cli.command("ab")
@click.argument("url")
@click.option("-n", "requests", type=click.IntRange(1, 1_000_000_000), help="Requests to make; 1 unless -t is given.")
@click.option("-c", "concurrency", type=click.IntRange(1, MOST_CONCURRENT), default=1, help="Requests at a time.")
@click.option("-k", "keep_alive", is_flag=True, help="Keep connections alive; else each request opens one.")
@click.option("-t", "seconds", type=click.IntRange(1, 604_800), help="Seconds at most; implies -n 50000.")
@click.option("-H", "headers", multiple=True, metavar="'NAME: VALUE'", help="A further header; may be repeated.")
@click.option("--insecure", is_flag=True, help="Do not verify the server's certificate, as ab never does.")
@click.option("--tls-ca", type=click.Path(path_type=Path), help="CA file (PEM) that the server's certificate is from.")
def ask_as_ab(
    url: str,
    requests: int | None,
    concurrency: int,
    keep_alive: bool,
    seconds: int | None,
    headers: tuple[str, ...],
    insecure: bool,
    tls_ca: Path | None,
) -> None:
    """Ask one URL as Apache's ab does, and print its report: HTTP/1.1 GET, a closed loop."""
    from costof.cli.ab import AbOptions, ask

    report = ask(AbOptions(url, requests, concurrency, keep_alive, seconds, headers, not insecure, tls_ca))
    for caution in report.cautions:
        click.echo(f"costof: {caution}", err=True)
    click.echo(report.text, nl=False)
    sys.exit(report.exit_status)


@cli.command()
@click.option("--rules", required=True, type=click.Path(path_type=Path), help="Which columns, for whom, how: TOML.")
@click.option("--server", required=True, metavar="HOST:PORT", help="The MySQL or MariaDB server behind the gateway.")
@click.option("--listen", default="127.0.0.1:3307", show_default=True, metavar="ADDRESS:PORT", help="For clients.")
@click.option(
    "--tls-cert", type=click.Path(path_type=Path), help="Take clients under TLS, with this certificate (PEM)."
)
@click.option("--tls-key", type=click.Path(path_type=Path), help="Its key (PEM), where it is in another file.")
@click.option(
    "--server-ca", type=click.Path(path_type=Path), help="Go to the server under TLS; CA file (PEM) of its own."
)
@click.option(
    "--limit", "limits", type=(str, click.IntRange(min=1)), multiple=True, metavar="NAME NUMBER",
    help="Another limit than the usual one: connections, connections_an_address, logins, login_seconds, "
    "command_seconds, write_seconds, idle_seconds, statement_bytes, long_data_bytes, prepared_statements, "
    "catalogue_seconds.",
)  # fmt: skip
@click.option("--check", "only_check", is_flag=True, help="Say whether the rules are right, and end.")
def gateway(
    rules: Path,
    server: str,
    listen: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    server_ca: Path | None,
    limits: tuple[tuple[str, int], ...],
    only_check: bool,
) -> None:
    """Stand before a MySQL server and encrypt columns of its answers, by account.

    A hangup (SIGHUP) reads the rules again; Ctrl-C ends it.
    """
    from costof.cli.gateway import GatewayOptions, check, serve

    def warn(text: str) -> None:
        click.echo(f"costof: {text}", err=True)

    options = GatewayOptions(rules, server, listen, tls_cert, tls_key, server_ca, dict(limits))
    if not only_check:
        serve(options, click.echo, warn)
        return
    for warning in check(options):
        warn(warning)


@cli.command()
def doctor() -> None:
    """What this machine has and lacks for the lab, and how to get it. Installs nothing."""
    from costof.cli.doctor import examine

    findings = examine()
    for finding in findings:
        click.echo(f"{'ok  ' if finding.good else 'LACK'}  {finding.what}: {finding.detail}")
    sys.exit(EXIT_ANSWERED if all(finding.good for finding in findings) else EXIT_FAILED)


def _reopen(folder: Path, told: list[str]) -> tuple[Ledger, Before]:
    """An earlier run to go on with. Its plan stands: options that would change it are refused."""
    from costof.analysis import read_run
    from costof.run.experiment import Before

    if told:
        raise CostofError(Problem.RESUME_DIFFERS, options=" and ".join(told))
    ledger = Ledger.open(folder)
    done = read_run(ledger)
    return ledger, Before(done.samples, done.whole_rounds, done.measured_seconds)


def _measure(plan: Plan, ledger: Ledger, before: Before | None, access: Access | None) -> None:
    from costof.run.experiment import run as carry_out

    try:
        service = open_service(plan, access, ledger.folder.name)
        with Bar(plan, Console(stderr=True, highlight=False)) as bar:
            carry_out(plan, service, ledger, bar, before)
    except CostofError:
        if before is None or before.rounds == 0:
            ledger.discard()
        raise


def _write(ledger: Ledger) -> Result:
    """`result.json` and the reports, beside the ledger they come from."""
    from costof.analysis import analyse
    from costof.report import write_reports

    result = analyse(ledger)
    try:
        write_whole(ledger.folder / RESULT, result.model_dump_json(indent=2) + "\n")
        write_reports(result, ledger.folder)
    except OSError as error:
        raise CostofError(Problem.OUTPUT_NOT_WRITABLE, path=ledger.folder, detail=error.strerror) from error
    return result


def _print(result: Result, ledger: Ledger, as_json: bool) -> None:
    from costof.report import render_terminal

    if as_json:
        click.echo(result.model_dump_json(indent=2))
        return
    console = Console(highlight=False)
    render_terminal(result, console, ledger.folder)


def _print_plan(plan: Plan, access: Access | None) -> None:
    service = open_service(plan, access, "a-run")
    click.echo(f"{plan.study.title}\n")
    for arm in plan.arms:
        role = " (control)" if arm.control else " (twin: the run's own noise)" if arm.twin else ""
        click.echo(f"arm       {arm.name}: {arm.label}{role}")
    for name, size in plan.slices.items():
        click.echo(f"slice     {name}: {size.operations:,} operations or {size.seconds:g} s")
    most = f" to {plan.most_rounds}, {plan.budget_seconds:.0f} s at most" if plan.budget_seconds is not None else ""
    click.echo(f"rounds    {plan.fewest_rounds}{most}")
    click.echo(f"data      {plan.loads or 'none'}\nseed      {plan.seed}")
    for write in service.writes():
        click.echo(f"write     {write}")
    for needed in service.needs():
        click.echo(f"grant     {needed}")


def _status(result: Result) -> int:
    failed = any(arm.error for arm in result.arms)
    if not result.values:
        return EXIT_FAILED
    return EXIT_PARTIAL if result.partial or failed else EXIT_ANSWERED


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """The entry point: every problem ends in one line on standard error and an exit status of its own."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        cli.main(standalone_mode=False)
    except CostofError as error:
        click.echo(f"costof: {error}", err=True)
        sys.exit(error.exit_status)
    except click.ClickException as error:
        click.echo(f"costof: {error.format_message()}", err=True)
        sys.exit(EXIT_USAGE)
    except (KeyboardInterrupt, click.Abort):
        click.echo("costof: interrupted", err=True)
        sys.exit(EXIT_PARTIAL)
    except BrokenPipeError:
        sys.exit(EXIT_FAILED)


if __name__ == "__main__":
    main()
