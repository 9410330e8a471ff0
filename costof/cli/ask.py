"""Asking a study: carry its plan out, and report the answer. What `run` and `versus` have in common."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from rich.console import Console

from costof.cli.gate import status, tell
from costof.cli.hosts_options import check_asked, check_hosts
from costof.cli.progress import Bar
from costof.cli.show import print_answer, write_answer
from costof.errors import EXIT_ANSWERED, EXIT_FAILED, EXIT_PARTIAL, CostofError
from costof.format import milliseconds, plural
from costof.lab.user_namespace import enter
from costof.messages.plan import Share
from costof.messages.process import HostsProcess
from costof.results.ledger import CautionRecord, Ledger
from costof.services.open import open_service
from costof.study.commands import COMMAND
from costof.study.plan import Options, Plan, resolve
from costof.study.schema import Study

if TYPE_CHECKING:
    from costof.messages.answers import ClusterNode
    from costof.messages.plan import HostsSettings
    from costof.programs.access import Access
    from costof.report.result import Result
    from costof.run.rounds import Before
    from costof.services import Service


def ask(
    study: Study,
    options: Options,
    access: Access | None,
    out: Path | None,
    as_json: bool,
    dry_run: bool,
    hosts: HostsSettings | None = None,
) -> int:
    """An exit status. Raises whatever the user got wrong before anything is started."""
    plan = resolve(study, options)
    # Imported here: a mistyped option should not wait for what the sections compute with.
    from costof.report.sections import check

    check(study)
    folder = Ledger.new_folder(plan, out)
    service = open_service(plan, access, "a-run" if dry_run else folder.name)
    if hosts is not None:
        check_asked(study, plan.load, access, hosts)
        check_hosts(plan, service)
    if not dry_run:
        enter_namespace(service)
    warnings = service.warnings()
    for text in warnings:
        click.echo(f"costof: {text}", err=True)
    if dry_run:
        nodes = []
        if hosts is not None:
            with HostsProcess(hosts, None) as found:
                nodes = found.nodes
        service.shared_by(len(nodes) or 1)
        _print_plan(plan, service)
        _print_hosts(plan, nodes)
        return EXIT_ANSWERED
    # Made before anything is started, so that a folder that cannot be written costs nobody a run.
    ledger = Ledger.create(plan, folder)
    for text in warnings:
        ledger.append(CautionRecord(text=text))
    return answer(plan, service, ledger, None, access, as_json, hosts)


def enter_namespace(service: Service) -> None:
    """Begin the command anew in a user namespace, where its lab needs one to have hosts. Nothing may be made before."""
    if service.makes_hosts:
        enter()


def answer(
    plan: Plan,
    service: Service,
    ledger: Ledger,
    before: Before | None,
    access: Access | None,
    as_json: bool,
    hosts: HostsSettings | None = None,
) -> int:
    """Measure, write the answer and print it. Return an exit status."""
    _measure(plan, service, ledger, before, access, hosts)
    result = write_answer(ledger)
    print_answer(result, ledger, as_json)
    return _status(result, _judged(result, plan, as_json))


def _measure(
    plan: Plan,
    service: Service,
    ledger: Ledger,
    before: Before | None,
    access: Access | None,
    hosts: HostsSettings | None,
) -> None:
    from costof.run.experiment import run_starts

    by: Literal["engine", "commands"] = "commands" if plan.study.service.kind == COMMAND else "engine"
    population = HostsProcess(hosts, by) if hosts else None
    unused = [service]

    def service_of_a_start() -> Service:
        found = unused.pop() if unused else open_service(plan, access, ledger.folder.name)
        found.known_identity = before.identity if before is not None else {}
        return found

    try:
        with Bar(plan, Console(stderr=True, highlight=False)) as bar:
            run_starts(plan, service_of_a_start, ledger, bar, before, population)
    except CostofError:
        if before is None:
            ledger.discard()
        raise


def _print_plan(plan: Plan, service: Service) -> None:
    from costof.statistics.intervals import FEWEST_ROUNDS

    click.echo(f"{plan.study.title}\n")
    for arm in plan.arms:
        role = " (control)" if arm.control else " (twin: the run's own noise)" if arm.twin else ""
        click.echo(f"arm       {arm.name}: {arm.label}{role}")
    if plan.load is not None:
        click.echo(f"load      {plan.load.in_words}")
    if plan.client is not None:
        click.echo(f"client    {plan.client}, on every arm that it can be told to speak to")
    for name, size in plan.slices.items():
        most = "" if plan.load else f"{size.operations:,} operations or "
        click.echo(f"slice     {name}: {most}{size.seconds:g} s")
    if plan.may_shorten_slices:
        click.echo("          shorter where the warm-up shows that to be enough")
    budget = plan.start_budget_seconds
    most = f" to {plan.most_rounds}, {budget:.0f} s at most" if budget is not None else ""
    click.echo(f"rounds    {plan.fewest_rounds}{most}{', in each start' if plan.starts > 1 else ''}")
    if plan.starts > 1:
        few = f": intervals, and no verdicts below {FEWEST_ROUNDS}" if plan.starts < FEWEST_ROUNDS else ""
        click.echo(f"starts    {plan.starts}{few}")
    for distance in plan.predicted_ms:
        click.echo(f"predict   costs at {milliseconds(distance)}, from what is measured where this machine is")
    for limit in plan.limits:
        click.echo(f"limit     {limit.metric} {limit.said}")
    click.echo(f"data      {plan.loads or 'none'}\nseed      {plan.seed}")
    for command in service.commands():
        click.echo(f"command   {command}")
    for write in service.writes():
        click.echo(f"write     {write}")
    for needed in service.needs():
        click.echo(f"grant     {needed}")


def _print_hosts(plan: Plan, nodes: Sequence[ClusterNode]) -> None:
    """The hosts that would measure, and how much of each workload each would have."""
    found: dict[str, list[str]] = {}
    for name, workload in plan.study.workloads.items():
        if workload.view == "wire":
            most = max(plan.workers(name, arm) for arm in plan.arms)
            shares = (Share(host=place, hosts=len(nodes)) for place in range(len(nodes)))
            found[name] = [plural(share.workers(most), "worker") for share in shares]
        elif workload.command is not None:
            found[name] = ["one at a time"] * len(nodes)
    for place, node in enumerate(nodes):
        workers = ", ".join(f"{name} {each[place]}" for name, each in found.items())
        click.echo(f"host      {node.name}, {node.cpus} CPUs: {workers}")


def _judged(result: Result, plan: Plan, as_json: bool) -> int:
    """Whether the plan's limits are kept: an exit status, 0 where they are or where it has none."""
    from costof.results.index import Index
    from costof.results.limits import outcomes

    index = Index(result)
    found = [*outcomes(index, plan.limits)]
    if as_json:
        tell(index, found, to_error=True)
    return status(outcome.state for outcome in found)


def _status(result: Result, judged: int) -> int:
    from costof.report.sections.answer import too_few_rounds

    if not result.values:
        return EXIT_FAILED
    headline = {metric.name for metric in result.metrics if metric.headline}
    lacking = any(each.wholly and each.metric in headline for each in result.missing)
    in_part = result.partial or any(arm.error for arm in result.arms) or lacking or too_few_rounds(result) is not None
    return judged or (EXIT_PARTIAL if in_part else EXIT_ANSWERED)
