"""`costof run`: run a study, and report what the protection costs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from click.shell_completion import CompletionItem

from costof.cli.gate import limit_option, limit_outcomes, print_outcomes, status
from costof.cli.options import TargetArguments, check_hosts, check_hosts_options, hosts_options, target_options
from costof.cli.output import AnswerForm, answer_form_options, check_json_lines, json_lines_option
from costof.cli.resume import reopen
from costof.cli.show import RESULT, print_answer, write_answer
from costof.errors import EXIT_ANSWERED, EXIT_FAILED, EXIT_PARTIAL, CostofError, WarningText
from costof.format import listed, milliseconds, plural
from costof.lab.user_namespace import enter
from costof.messages.plan import Share
from costof.messages.process import HostsProcess
from costof.results.ledger import Ledger, WarningRecord
from costof.services.open import lacking_levels, offered_levels, open_service, shown_urls
from costof.services.open import target_options as shown_options
from costof.studies import study_names
from costof.study.commands import COMMAND
from costof.study.library import load_study
from costof.study.load import RequestedLoad
from costof.study.plan import Options, Plan, levels_not_offered, resolve
from costof.study.schema import Level, Study

if TYPE_CHECKING:
    from costof.messages.answers import ClusterNode
    from costof.messages.plan import HostsSettings
    from costof.programs.access import Access
    from costof.report.result import Result
    from costof.results.index import Index
    from costof.results.limits import Outcome
    from costof.results.run import Run
    from costof.run.events import AnswerEvent
    from costof.run.rounds import StartingPoint
    from costof.services import Service


def _studies(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a study or, if none matches, of a file."""
    names = [CompletionItem(name) for name in study_names() if name.startswith(incomplete)]
    return names or [CompletionItem(incomplete, type="file")]


@click.command()
@click.argument("study", required=False, shell_complete=_studies)
@click.option(
    "--profile",
    help="How much to measure: 'quick', 'default' or 'published'. Without this option: 'default' in a lab, 'quick' on "
    "your own servers.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="FACTOR=LEVEL[,LEVEL…]",
    help="Choose the levels of a factor (or records=N); may be repeated.",
)
@click.option("--budget", metavar="TIME", help="Maximum measuring time, such as 45s, 5m or 1h30m.")
@click.option(
    "--precision", metavar="PERCENT", help="Stop when headline costs are known to within this percentage, such as 2%."
)
@click.option("--rounds", metavar="N", help="Measure exactly N rounds (2 or more), however long they take.")
@click.option(
    "--restarts", metavar="N", help="Start the lab N times and treat each start as one repetition (verdicts need 5)."
)
@click.option(
    "--load",
    metavar="RATE",
    help="Measure at this rate of new connections, such as 300/s; with --pool, a rate of operations. A list such as "
    "100/s,300/s,1000/s (or a range, 100/s..3000/s) shows latency over load. A range with a --limit such as 'p99 of a "
    "query' 10ms finds the capacity within this limit.",
)
@click.option(
    "--queries-per-connection", metavar="N", help="With --load: number of queries on each new connection. Default: 1."
)
@click.option("--pool", metavar="N", help="Measure over N open connections, with --load or --think-time.")
@click.option(
    "--think-time", metavar="TIME", help="With --pool: pause before each operation on a connection, such as 20ms."
)
@click.option(
    "--distance",
    metavar="TIME",
    help="Round-trip time to the servers, such as 20ms: emulated in a lab, else predicted.",
)
@click.option("--client", metavar="PROGRAM", help="Also measure with this client, such as pgbench, sysbench or h2load.")
@click.option(
    "--memory",
    metavar="N",
    help="Also measure the servers' memory of a connection, with up to N idle connections of each variant, such as "
    "1000.",
)
@limit_option
@target_options
@hosts_options
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the run. Default: runs/<time>-<study>.")
@answer_form_options
@json_lines_option
@click.option("--seed", type=int, help="Seed of the order of measurements and of the keys; the same seed repeats them.")
@click.option("--dry-run", is_flag=True, help="Print the plan and all writes to the target, without measuring.")
@click.option("--resume", type=click.Path(path_type=Path), help="Continue the run in this folder.")
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
    memory: str | None,
    limits: tuple[tuple[str, str], ...],
    target: TargetArguments,
    hosts: HostsSettings | None,
    out: Path | None,
    answer_form: AnswerForm,
    json_lines: bool,
    seed: int | None,
    dry_run: bool,
    resume: Path | None,
) -> None:
    """Run STUDY: measure, and report what the protection costs.

    The report has a calculator that predicts the cost at any load and distance. With --load and --distance, the run
    measures at your own load and distance instead.
    """
    check_json_lines(json_lines, answer_form, dry_run)
    requested_load = RequestedLoad(load, queries_per_connection, pool, think_time)
    if resume is not None:
        values: dict[str, object] = {
            "the study": study,
            "--set": settings,
            "--precision": precision,
            "--rounds": rounds,
        }
        values |= {"--restarts": restarts, "--limit": limits, "--distance": distance, "--client": client}
        values |= {**requested_load.options, "--out": out, "--seed": seed is not None, "--dry-run": dry_run}
        values |= {"--profile": profile, "--memory": memory}
        resumed = reopen(resume, [option for option, value in values.items() if value], budget, target, hosts)
        plan, access = resumed.plan, resumed.access
        if hosts is not None:
            check_hosts_options(plan.study, plan.load, access, hosts)
        service = open_service(plan, access, resumed.ledger.folder.name)
        enter_namespace(service)
        sys.exit(
            measure_and_report(
                plan, service, resumed.ledger, resumed.before, access, answer_form, hosts, json_lines, resumed.earlier
            )
        )
    access = target.access()
    if study is None:
        raise click.UsageError("missing STUDY; `costof list` prints all studies")
    chosen_study = load_study(study)
    offered = offered_levels(chosen_study, access)
    if not any(text.startswith(f"{chosen_study.main_factor}=") for text in settings):
        if left_out := levels_not_offered(chosen_study, offered):
            click.echo(WarningText.LAB_ONLY_LEVELS.text(levels=", ".join(left_out)), err=True)
        if access is not None:
            offered = _without_lacking_levels(chosen_study, access, offered, connect=not dry_run)
    urls, kept_options = shown_urls(chosen_study, access), shown_options(chosen_study, access)
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
        load=requested_load,
        client=client,
        hosts=hosts.address if hosts else None,
        target_options=kept_options,
        offered=offered,
        memory=memory,
    )
    sys.exit(run_study(chosen_study, options, access, out, answer_form, dry_run, hosts, json_lines))


def _without_lacking_levels(
    study: Study, access: Access, offered: Callable[[Level], bool] | None, connect: bool
) -> Callable[[Level], bool] | None:
    """Return a function that says which levels (protections) can be measured on the target (the user's own servers).

    The returned function rejects a level that `offered` rejects. It also rejects a level for which the target lacks
    something, such as a synchronous standby. A warning names what is missing.
    """
    lacking = lacking_levels(study, access, connect)
    if not lacking:
        return offered
    levels = study.factors[study.main_factor].levels
    left_out = [levels[name] for name in lacking]
    usual = levels_not_offered(study, lambda level: level not in left_out)
    for reason in dict.fromkeys(lacking[name] for name in usual):
        named = [name for name in usual if lacking[name] == reason]
        click.echo(WarningText.LACKING_LEVELS.text(levels=", ".join(named), reason=reason), err=True)
    return lambda level: level not in left_out and (offered is None or offered(level))


def run_study(
    study: Study,
    options: Options,
    access: Access | None,
    out: Path | None,
    answer_form: AnswerForm,
    dry_run: bool,
    hosts: HostsSettings | None = None,
    json_lines: bool = False,
    finish: Callable[[Result, Ledger], None] | None = None,
) -> int:
    """Plan and measure a study; return the exit status.

    Raises `CostofError` for invalid input, before anything is started. `finish`, if given, is called at the end, after
    the answer was printed.
    """
    plan = resolve(study, options)
    # The report's code imports numpy, which is slow. Import it only after the options are checked, so that an error for
    # a wrong option appears at once.
    from costof.report.sections import check

    check(study)
    folder = Ledger.new_folder(plan, out)
    service = open_service(plan, access, "a-run" if dry_run else folder.name)
    if hosts is not None:
        check_hosts_options(study, plan.load, access, hosts)
        check_hosts(plan, service)
    if not dry_run:
        enter_namespace(service)
    warnings = service.early_warnings()
    for text in warnings:
        click.echo(f"costof: {text}", err=True)
    if dry_run:
        nodes: list[ClusterNode] = []
        if hosts is not None:
            with HostsProcess(hosts, None) as process:
                nodes = process.nodes
        service.set_host_count(len(nodes) or 1)
        _print_plan(plan, service)
        _print_hosts(plan, nodes)
        return EXIT_ANSWERED
    # Create the folder before starting anything, so that a run does not measure for nothing if the folder is not
    # writable.
    ledger = Ledger.create(plan, folder)
    for text in warnings:
        ledger.append(WarningRecord(text=text))
    return measure_and_report(plan, service, ledger, None, access, answer_form, hosts, json_lines, finish=finish)


def enter_namespace(service: Service) -> None:
    """Restart this command in a user namespace if its lab needs network namespaces and the user is not root.

    Call this before anything is created, because the command then starts again from its beginning.
    """
    if service.makes_hosts:
        enter()


def measure_and_report(
    plan: Plan,
    service: Service,
    ledger: Ledger,
    before: StartingPoint | None,
    access: Access | None,
    answer_form: AnswerForm,
    hosts: HostsSettings | None = None,
    json_lines: bool = False,
    earlier: Run | None = None,
    finish: Callable[[Result, Ledger], None] | None = None,
) -> int:
    """Measure, write the report files, print the short answer, and return the exit status.

    `before` and `earlier`: where a resumed run continues, and what it has measured; None for a new run.
    """
    from costof.cli.progress import open_display
    from costof.run.experiment import run_starts
    from costof.run.memory import measure_memory
    from costof.run.progress import RunProgress

    kind: Literal["engine", "commands"] = "commands" if plan.study.service.kind == COMMAND else "engine"
    population = HostsProcess(hosts, kind) if hosts else None

    unused = [service]

    def next_service() -> Service:
        opened = unused.pop() if unused else open_service(plan, access, ledger.folder.name)
        opened.known_identity = before.identity if before is not None else {}
        return opened

    progress = RunProgress(plan, ledger, open_display(json_lines), earlier)
    try:
        with progress:
            complete = run_starts(plan, next_service, ledger, progress, before, population)
            if plan.memory and complete:
                measure_memory(plan, lambda idle: open_service(idle, access, ledger.folder.name), ledger, progress)
            progress.stage("writing the report")
            result = write_answer(ledger)
    except CostofError as error:
        progress.fail(error)
        if before is None:
            ledger.discard()
        raise
    outcome = _judge(plan, result)
    if json_lines:
        progress.show(_answer_event(result, outcome, ledger, progress.seconds))
    else:
        print_answer(result, ledger, answer_form)
        if answer_form == "json":
            print_outcomes(outcome.index, outcome.limits, to_error=True)
    if finish is not None:
        finish(result, ledger)
    return outcome.exit_status


@dataclass(frozen=True)
class RunOutcome:
    index: Index
    limits: list[Outcome]
    exit_status: int


def _judge(plan: Plan, result: Result) -> RunOutcome:
    from costof.report.sections.answer import too_few_rounds
    from costof.results.index import Index
    from costof.results.limits import outcomes

    index = Index(result)
    limits = [*outcomes(index, plan.limits)]
    if not result.values:
        return RunOutcome(index, limits, EXIT_FAILED)
    headline = {metric.name for metric in result.metrics if metric.headline}
    incomplete = any(each.entirely and each.metric in headline for each in result.missing)
    partial = (
        result.partial or any(arm.error for arm in result.arms) or incomplete or too_few_rounds(result) is not None
    )
    exit_status = status(each.state for each in limits) or (EXIT_PARTIAL if partial else EXIT_ANSWERED)
    return RunOutcome(index, limits, exit_status)


def _answer_event(result: Result, outcome: RunOutcome, ledger: Ledger, seconds: float) -> AnswerEvent:
    from costof.report.sections.answer import too_few_rounds
    from costof.run.events import AnswerEvent

    return AnswerEvent(
        seconds=seconds,
        verdict=result.summary.verdict if too_few_rounds(result) is None else "",
        sentences=[sentence.text for sentence in result.answer if sentence.kind == "answer"],
        warnings=[*result.warnings, *(sentence.text for sentence in result.answer if sentence.kind == "warning")],
        partial=result.partial,
        rounds=result.rounds,
        limits=limit_outcomes(outcome.limits),
        report=str(ledger.folder / "report.html"),
        result=str(ledger.folder / RESULT),
        exit_status=outcome.exit_status,
    )


def _print_plan(plan: Plan, service: Service) -> None:
    from costof.results.arms import arm_in_words
    from costof.statistics.intervals import FEWEST_ROUNDS

    click.echo(f"{plan.study.title}\n")
    for arm in plan.arms:
        role = " (control)" if arm.control else " (the control again, to show the run's noise)" if arm.replicate else ""
        click.echo(f"arm       {arm.name}: {arm_in_words(plan, arm)}{role}")
    if plan.load is not None:
        click.echo(f"load      {plan.load_in_words}")
    if emulated := sorted({trip for arm in plan.arms if (trip := plan.study.round_trip_ms(arm.levels))}):
        click.echo(f"distance  {listed([*map(milliseconds, emulated)])}, emulated between clients and servers")
    if plan.memory:
        where = "on servers started anew" if plan.target is None else "after the data was written once more"
        click.echo(f"memory    up to {plan.memory:,} idle connections of each arm, after the last round, {where}")
    if plan.client is not None:
        click.echo(f"client    {plan.client}, on every arm that it supports")
    used = {plan.size_name(workload, arm) for workload in plan.study.workloads for arm in plan.arms}
    for name, size in plan.slices.items():
        if name not in used:
            continue
        most = "" if plan.load else f"{size.operations:,} operations or "
        click.echo(f"slice     {name}: {most}{size.seconds:g} s")
    if plan.may_shorten_slices:
        click.echo("          shorter if the warm-up shows that this is enough")
    budget = plan.start_budget_seconds
    most = f" to {plan.most_rounds}, {budget:.0f} s at most" if budget is not None else ""
    click.echo(f"rounds    {plan.fewest_rounds}{most}{', after each start of the servers' if plan.starts > 1 else ''}")
    if plan.starts > 1:
        few = f": intervals without verdicts, which need {FEWEST_ROUNDS}" if plan.starts < FEWEST_ROUNDS else ""
        click.echo(f"starts    {plan.starts}{few}")
    for distance in plan.predicted_ms:
        click.echo(f"predict   costs at {milliseconds(distance)}, from measurements on this machine")
    for limit in plan.limits:
        click.echo(f"limit     {limit.metric} {limit.text}")
    click.echo(f"data      {plan.loads or 'none'}\nseed      {plan.seed}")
    for command in service.commands():
        click.echo(f"command   {command}")
    for write in service.writes():
        click.echo(f"write     {write}")
    for needed in service.needs():
        click.echo(f"grant     {needed}")


def _print_hosts(plan: Plan, nodes: Sequence[ClusterNode]) -> None:
    """Print the hosts that would measure, and each host's share of each workload."""
    by_workload: dict[str, list[str]] = {}
    for name, workload in plan.study.workloads.items():
        if workload.view == "wire":
            most = max(plan.workers(name, arm) for arm in plan.arms)
            shares = (Share(host=place, hosts=len(nodes)) for place in range(len(nodes)))
            by_workload[name] = [plural(share.workers(most), "worker") for share in shares]
        elif workload.command is not None:
            by_workload[name] = ["one at a time"] * len(nodes)
    for place, node in enumerate(nodes):
        workers = ", ".join(f"{name} {each[place]}" for name, each in by_workload.items())
        click.echo(f"host      {node.name}, {node.cpus} CPUs: {workers}")
