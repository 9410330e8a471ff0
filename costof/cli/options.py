"""Options that several commands share: for the user's own servers (a target), and for hosts of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import click

from costof.errors import CostofError, ErrorText, WarningText
from costof.messages.plan import HostsSettings
from costof.programs.access import Access, Password, check_ca_file, read_password
from costof.programs.password_variable import VARIABLE
from costof.services import Service
from costof.study.commands import COMMAND
from costof.study.load import CommandRate, Load
from costof.study.plan import Plan
from costof.study.schema import Study

FILE = click.Path(path_type=Path)
TARGET = click.option("--target", "url", metavar="URL", help="Measure your own servers instead of a lab.")
PLAIN_TARGET = click.option(
    "--plain-target",
    "plain_url",
    metavar="URL",
    help="For an HTTP study: the target's plain HTTP address; --target is then its HTTPS address.",
)
TLS_CA = click.option(
    "--tls-ca",
    "ca_file",
    type=FILE,
    help="CA file (PEM) to verify the target's certificate; turns TLS on (for Redis, also write rediss://).",
)
ALLOW_PLAIN = click.option(
    "--allow-plain",
    is_flag=True,
    help="Also measure without TLS if the target demands it; log-ins are then readable on the network.",
)
PASSWORD_FILE = click.option(
    "--password-file", type=FILE, help=f"File with the target's password; the variable {VARIABLE} works too."
)
ASK_PASSWORD = click.option("--ask-password", is_flag=True, help="Prompt for the target's password.")
DATABASE = click.option(
    "--database", metavar="NAME", help="Database to create on the target; it must be new or empty. Default: a new name."
)
SERVER_CPU = click.option(
    "--server-cpu",
    metavar="COMMAND",
    help="Command that prints the CPU seconds used by the target's servers, for example over ssh.",
)
SERVER_MEMORY = click.option(
    "--server-memory",
    metavar="COMMAND",
    help="Command that prints the memory of the target's servers in bytes, to measure the memory of a connection.",
)
POOLER = click.option(
    "--pooler", "pooler_url", metavar="URL", help="Your own PgBouncer in front of the target, for postgres-pooling."
)

Command = Callable[..., Any]


@dataclass(frozen=True)
class TargetArguments:
    """The options of the user's own servers, as given on the command line."""

    url: str | None = field(repr=False)
    plain_url: str | None = field(repr=False)
    ca_file: Path | None
    allow_plain: bool
    password: Password | None
    database: str | None
    server_cpu: str | None
    pooler_url: str | None = field(repr=False)
    server_memory: str | None = None

    def access(self) -> Access | None:
        """Return how to reach the target (the user's own servers); None without --target.

        Raises `TLS_CA_INVALID`. Raises `PLAIN_TARGET_UNUSED` or `TARGET_OPTION_UNUSED` for an option that has no effect
        without --target.
        """
        if self.url is not None:
            check_ca_file(self.ca_file)
            return self.access_at(self.url)
        if self.plain_url is not None:
            raise CostofError(ErrorText.PLAIN_TARGET_UNUSED)
        for option in self.options:
            raise CostofError(ErrorText.TARGET_OPTION_UNUSED, option=option)
        return None

    def access_at(self, url: str) -> Access:
        return Access(
            url,
            self.ca_file,
            self.plain_url,
            self.password,
            self.database,
            self.allow_plain,
            self.server_cpu,
            self.pooler_url,
            self.server_memory,
        )

    @property
    def options(self) -> list[str]:
        """Return the names of the target options that the user gave. The variable COSTOF_PASSWORD is not an option."""
        values = {
            "--target": self.url,
            "--plain-target": self.plain_url,
            "--tls-ca": self.ca_file,
            "a password": self.password and self.password.explicit,
            "--database": self.database,
            "--allow-plain": self.allow_plain,
            "--server-cpu": self.server_cpu,
            "--server-memory": self.server_memory,
            "--pooler": self.pooler_url,
        }
        return [option for option, value in values.items() if value]


def target_options(command: Command) -> Command:
    """Add the options of a target (the user's own servers). The command receives them as one argument, `target`."""
    fields = ("url", "plain_url", "ca_file", "allow_plain", "database", "server_cpu", "server_memory", "pooler_url")

    @wraps(command)
    def with_target(password_file: Path | None, ask_password: bool, **values: Any) -> Any:
        target_values = {name: values.pop(name) for name in fields}
        target = TargetArguments(password=_password(password_file, ask_password), **target_values)
        return command(target=target, **values)

    options = (TARGET, PLAIN_TARGET, TLS_CA, ALLOW_PLAIN, PASSWORD_FILE, ASK_PASSWORD, DATABASE)
    for option in reversed((*options, SERVER_CPU, SERVER_MEMORY, POOLER)):
        with_target = option(with_target)
    return with_target


def server_options(command: Command) -> Command:
    """Add the options for logging in to a target (the user's own servers) without measuring. --target is required."""

    @wraps(command)
    def with_access(
        url: str,
        ca_file: Path | None,
        password_file: Path | None,
        ask_password: bool,
        database: str | None,
        **values: Any,
    ) -> Any:
        check_ca_file(ca_file)
        access = Access(url, ca_file, None, _password(password_file, ask_password), database)
        return command(access=access, **values)

    required = click.option(
        "--target", "url", metavar="URL", required=True, help="The server, such as mongodb://… or mysql://…"
    )
    only = click.option("--database", metavar="NAME", help="List and remove only this database.")
    for option in reversed((required, TLS_CA, PASSWORD_FILE, ASK_PASSWORD, only)):
        with_access = option(with_access)
    return with_access


def _password(file: Path | None, ask: bool) -> Password | None:
    """Return the password from --password-file or --ask-password, if the user gave one of these options.

    Otherwise return the value of COSTOF_PASSWORD, which the root command has stored; None if the variable is not set.
    """
    return read_password(file, ask, click.get_current_context().find_root().obj)


HOSTS = click.option(
    "--hosts", "address", metavar="auto|ray://…", help="Use all hosts of a Ray cluster, which measure at the same time."
)
WHERE = click.option(
    "--hosts-where",
    "where",
    multiple=True,
    metavar="KEY=VALUE",
    help="With --hosts: use only hosts with this Ray label; may be repeated.",
)
LEAST = click.option(
    "--hosts-least",
    "least",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --hosts: continue when hosts fail, as long as at least N hosts are left.",
)
UNAUTHENTICATED = click.option(
    "--hosts-unauthenticated",
    "unauthenticated",
    is_flag=True,
    help="With --hosts: accept a Ray cluster without authentication, on which anyone who reaches it can run code.",
)


AUTO, CLIENT_SCHEME = "auto", "ray://"


def hosts_options(command: Command) -> Command:
    """Add the options, such as --hosts, that let hosts of a Ray cluster measure instead of this machine.

    The command receives them as one argument, `hosts`, which is None if this machine measures.
    """

    @wraps(command)
    def with_hosts(
        address: str | None, where: tuple[str, ...], least: int | None, unauthenticated: bool, **values: Any
    ) -> Any:
        return command(hosts=hosts_settings(address, where, least, unauthenticated), **values)

    for option in reversed((HOSTS, WHERE, LEAST, UNAUTHENTICATED)):
        with_hosts = option(with_hosts)
    return with_hosts


def hosts_settings(
    address: str | None, where: Sequence[str], least: int | None, unauthenticated: bool
) -> HostsSettings | None:
    """Return the settings of the hosts that measure; None without an address, because then this machine measures.

    Raises `HOSTS_ADDRESS`, `HOSTS_LABEL` and `HOSTS_OPTION_UNUSED`.
    """
    if address is None:
        values = {"--hosts-where": where, "--hosts-least": least, "--hosts-unauthenticated": unauthenticated}
        for option in (option for option, value in values.items() if value):
            raise CostofError(ErrorText.HOSTS_OPTION_UNUSED, option=option)
        return None
    if address != AUTO and not address.startswith(CLIENT_SCHEME):
        raise CostofError(ErrorText.HOSTS_ADDRESS, text=address)
    labels = []
    for text in where:
        key, assigned, value = text.partition("=")
        if not key or not assigned:
            raise CostofError(ErrorText.HOSTS_LABEL, text=text)
        labels.append((key, value))
    return HostsSettings(address=address, where=tuple(labels), least=least, unauthenticated=unauthenticated)


def check_hosts_options(study: Study, load: Load | None, access: Access | None, hosts: HostsSettings) -> None:
    """Check that the options for several hosts fit the study.

    Raises `HOSTS_NEED_TARGET` if the study starts its own servers (a lab). Raises `HOSTS_CANNOT` if --hosts-least is
    combined with a study whose commands contain {rate}. In such a study, each host's command line contains that host's
    part of the rate. If a host fails, the others cannot take over its part.
    """
    if access is None and study.service.kind != COMMAND:
        raise CostofError(ErrorText.HOSTS_NEED_TARGET)
    if hosts.least is not None and isinstance(load, CommandRate):
        detail = "each host sends a fixed part of the rate, and cannot take over the part of a host that fails"
        raise CostofError(ErrorText.HOSTS_CANNOT, what="--hosts-least with the placeholder {rate}", detail=detail)


def check_hosts(plan: Plan, service: Service) -> None:
    """Raise `HOSTS_CANNOT` for features that work only on this machine. Warn of workloads that hosts cannot measure."""
    libraries = dict.fromkeys(arm.settings.tls_library for arm in plan.arms if arm.settings.tls_library)
    if libraries:
        detail = "hosts receive only the engine with the installed TLS library"
        raise CostofError(ErrorText.HOSTS_CANNOT, what=f"the TLS library {', '.join(libraries)}", detail=detail)
    if plan.client is not None:
        detail = "hosts receive only costof's engine"
        raise CostofError(ErrorText.HOSTS_CANNOT, what=f"--client {plan.client}", detail=detail)
    if plan.memory:
        detail = "it opens all idle connections from this machine"
        raise CostofError(ErrorText.HOSTS_CANNOT, what="--memory", detail=detail)
    if any(arm.settings.before or arm.settings.after for arm in plan.arms):
        detail = (
            "each host would run them while others measure; keep the servers of all levels running, and name them in "
            "the command lines"
        )
        raise CostofError(ErrorText.HOSTS_CANNOT, what="'before' and 'after'", detail=detail)
    if plan.sweep is not None and plan.study.service.kind == COMMAND:
        detail = "each slice has another rate, which hosts cannot divide among their commands; list loads instead"
        raise CostofError(ErrorText.HOSTS_CANNOT, what="a limit on latency for commands", detail=detail)
    programs = [each.command for each in plan.study.workloads.values() if each.command]
    if any(each.warmup or each.first_warmup for each in programs):
        detail = "unmeasured runs end at different times, but hosts must measure at the same time"
        raise CostofError(ErrorText.HOSTS_CANNOT, what="--warmup", detail=detail)
    if any(each.keep_runs for each in programs):
        detail = "hosts send only sums over their runs, not the single runs"
        raise CostofError(
            ErrorText.HOSTS_CANNOT, what="--export-json, --export-csv and --export-markdown", detail=detail
        )
    if service.single_machine_reason is not None:
        raise CostofError(ErrorText.HOSTS_CANNOT, what=plan.study.name, detail=service.single_machine_reason)
    if plan.left_out:
        click.echo(WarningText.HOSTS_WITHOUT_APPLICATIONS.text(workloads="; ".join(plan.left_out)), err=True)
