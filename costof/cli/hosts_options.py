"""The options that say which load machines measure, and what cannot be measured from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click

from costof.errors import Caution, CostofError, Problem
from costof.messages.plan import HostsSettings
from costof.programs.access import Access
from costof.services import Service
from costof.study.commands import COMMAND
from costof.study.load import Load, Told
from costof.study.plan import Plan
from costof.study.schema import Study

HOSTS = click.option(
    "--hosts", "address", metavar="auto|ray://…", help="Measure from the hosts of a Ray cluster, as one."
)
WHERE = click.option("--hosts-where", "where", multiple=True, metavar="KEY=VALUE", help="Hosts with this label alone.")
LEAST = click.option(
    "--hosts-least", "least", type=click.IntRange(min=1), metavar="N", help="Go on with so many when others are lost."
)
UNAUTHENTICATED = click.option(
    "--hosts-unauthenticated", "unauthenticated", is_flag=True, help="Take a cluster that anybody may run code on."
)

AUTO, CLIENT_SCHEME = "auto", "ray://"

Command = Callable[..., Any]


def hosts_options(command: Command) -> Command:
    """All of them; the command gets one `hosts`, None where this machine is to measure."""

    @wraps(command)
    def with_hosts(
        address: str | None, where: tuple[str, ...], least: int | None, unauthenticated: bool, **others: Any
    ) -> Any:
        return command(hosts=hosts_settings(address, where, least, unauthenticated), **others)

    for option in reversed((HOSTS, WHERE, LEAST, UNAUTHENTICATED)):
        with_hosts = option(with_hosts)
    return with_hosts


def hosts_settings(
    address: str | None, where: Sequence[str], least: int | None, unauthenticated: bool
) -> HostsSettings | None:
    """None without an address. Raises `HOSTS_ADDRESS`, `HOSTS_LABEL`, `HOSTS_OPTION_UNUSED`."""
    if address is None:
        said = {"--hosts-where": where, "--hosts-least": least, "--hosts-unauthenticated": unauthenticated}
        for option in (option for option, value in said.items() if value):
            raise CostofError(Problem.HOSTS_OPTION_UNUSED, option=option)
        return None
    if address != AUTO and not address.startswith(CLIENT_SCHEME):
        raise CostofError(Problem.HOSTS_ADDRESS, text=address)
    labels = []
    for text in where:
        key, assigned, value = text.partition("=")
        if not key or not assigned:
            raise CostofError(Problem.HOSTS_LABEL, text=text)
        labels.append((key, value))
    return HostsSettings(address=address, where=tuple(labels), least=least, unauthenticated=unauthenticated)


def check_asked(study: Study, load: Load | None, access: Access | None, hosts: HostsSettings) -> None:
    """Raises `HOSTS_NEED_TARGET` of a study whose servers would be a lab's, and `HOSTS_CANNOT` for a rate that could
    not be divided anew."""
    if access is None and study.service.kind != COMMAND:
        raise CostofError(Problem.HOSTS_NEED_TARGET)
    if hosts.least is not None and isinstance(load, Told):
        detail = "each host is told its share once, and it would not be more where others are lost"
        raise CostofError(Problem.HOSTS_CANNOT, what="--hosts-least beside '{rate}'", detail=detail)


def check_hosts(plan: Plan, service: Service) -> None:
    """Raises `HOSTS_CANNOT` for what only this machine has, and says what is left out."""
    libraries = dict.fromkeys(arm.asked.tls_library for arm in plan.arms if arm.asked.tls_library)
    if libraries:
        detail = "hosts are sent the engine of the installed TLS library alone"
        raise CostofError(Problem.HOSTS_CANNOT, what=f"TLS by {', '.join(libraries)}", detail=detail)
    if plan.client is not None:
        detail = "hosts are sent costof's engine alone"
        raise CostofError(Problem.HOSTS_CANNOT, what=f"--client {plan.client}", detail=detail)
    if any(arm.asked.before or arm.asked.after for arm in plan.arms):
        detail = (
            "each would do and undo what all share, one under another's measuring; have both levels stand beside each "
            "other, and name them in the command lines"
        )
        raise CostofError(Problem.HOSTS_CANNOT, what="'before' and 'after'", detail=detail)
    if any(each.command and each.command.warmup for each in plan.study.workloads.values()):
        detail = "unmeasured runs end at different times, and hosts measure together"
        raise CostofError(Problem.HOSTS_CANNOT, what="--warmup", detail=detail)
    if service.of_this_machine is not None:
        raise CostofError(Problem.HOSTS_CANNOT, what=plan.study.name, detail=service.of_this_machine)
    if plan.left_out:
        click.echo(Caution.HOSTS_WITHOUT_APPLICATIONS.text(views="; ".join(plan.left_out)), err=True)
