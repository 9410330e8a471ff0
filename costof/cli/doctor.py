"""What this machine has and lacks for the lab."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from costof.cli.fetch import sources
from costof.cli.options import hosts_options
from costof.errors import EXIT_ANSWERED, EXIT_FAILED, CostofError
from costof.lab.lab import is_root
from costof.lab.network import TUN, tun_lacks
from costof.lab.program import UNPACKED, find_program, first_words, unpacked_from
from costof.lab.user_namespace import can_make_hosts, why_forbidden
from costof.messages.plan import HostsSettings
from costof.messages.process import HostsProcess, engine_path
from costof.programs.server import programs_needed

NETEM = "sch_netem"


@dataclass(frozen=True)
class Finding:
    """`detail` says what was found, or what to do about what was not."""

    what: str
    good: bool
    detail: str


def examine() -> list[Finding]:
    """Return one finding for each thing a lab needs. Changes nothing."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    busy = "; stop what else is running, or intervals will be wide" if load > cores else ""
    return [
        _found("costof-engine", lambda: str(engine_path())),
        *(_found(name, look) for name, look in programs_needed().items()),
        *_unpacked(),
        *_user_and_hosts(),
        Finding("quiet machine", load <= cores, f"load {load:.1f} on {cores} cores{busy}"),
    ]


def _found(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, look())
    except CostofError as error:
        return Finding(what, False, str(error))


def _unpacked() -> list[Finding]:
    """Return the versions of programs that apt does not update; none where nothing was unpacked."""
    found = unpacked_from()
    if not found:
        return []
    unknown = [name for name, package in found.items() if not package]
    packages = ", ".join(f"{name} of {package}" for name, package in found.items() if package)
    if unknown:
        detail = f"{', '.join(unknown)} in {UNPACKED}: of unknown version; run: sudo scripts/system-packages"
        return [Finding("unpacked", False, detail + (f" (besides {packages})" if packages else ""))]
    return [Finding("unpacked", True, f"{packages}; scripts/system-packages brings newer ones")]


def _user_and_hosts() -> list[Finding]:
    if can_make_hosts():
        return [Finding("user", True, "root" if is_root() else "in a user namespace that has hosts"), *_hosts()]
    forbidden = why_forbidden()
    if forbidden is None:
        told = "not root: hosts are made in a user namespace of the run's own, without CPU shares"
        return [Finding("user", True, told), *_hosts()]
    return [Finding("user", True, f"hosts are loopback addresses, so a far distance is refused: {forbidden}")]


def _hosts() -> list[Finding]:

    def ip() -> str:
        binary = find_program("ip", "iproute2")
        return f"{first_words([str(binary), '-V'], 'ip', 'iproute2')} at {binary}"

    return [
        _found("ip", ip),
        _found("nsenter", lambda: str(find_program("nsenter", "util-linux"))),
        _found("setpriv", lambda: str(find_program("setpriv", "util-linux"))),
        _links(),
    ]


def _links() -> Finding:
    """Distance comes from the kernel's netem or from the engine, which needs TUN devices."""
    if _kernel_has(NETEM):
        return Finding("far links", True, "by the kernel's netem")
    if (lack := tun_lacks()) is not None:
        return Finding("far links", False, f"{lack}; without it far distances cannot run")
    return Finding("far links", True, f"by costof-engine, over {TUN}: this kernel has no netem")


def _kernel_has(module: str) -> bool:
    """Return whether a module is built in or loadable, as far as its files tell; a run finds out by trying."""
    folder = Path("/lib/modules") / os.uname().release
    if Path("/sys/module", module).exists():
        return True
    indexes = [folder / name for name in ("modules.builtin", "modules.dep")]
    return any(f"/{module}.ko" in index.read_text() for index in indexes if index.is_file())


def examine_hosts(settings: HostsSettings) -> list[Finding]:
    """Return what each host of a cluster has and lacks; it is taken for that long and given back."""
    try:
        with HostsProcess(settings, "engine") as hosts:
            warnings = [Finding("cluster", True, text) for text in hosts.warnings]
            return [*warnings, *(Finding(name, True, detail) for name, detail in hosts.examine().items())]
    except CostofError as error:
        return [Finding("hosts", False, str(error))]


@click.command()
@hosts_options
def doctor(hosts: HostsSettings | None) -> None:
    """What this machine has and lacks for the lab, and how to get it. Installs nothing.

    With --hosts: what the hosts of a Ray cluster have and lack for measuring.
    """
    findings = examine() if hosts is None else examine_hosts(hosts)
    for finding in findings:
        click.echo(f"{'ok     ' if finding.good else 'missing'}  {finding.what}: {finding.detail}")
    fetchable = [finding.what for finding in findings if not finding.good and finding.what in sources()]
    if fetchable:
        click.echo(f"To have what is missing, without root: costof fetch {' '.join(fetchable)}")
    sys.exit(EXIT_ANSWERED if all(finding.good for finding in findings) else EXIT_FAILED)
