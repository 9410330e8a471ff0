"""`costof doctor`: check what this machine has and lacks for a lab (servers that costof starts)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from costof.cli.options import hosts_options
from costof.errors import EXIT_ANSWERED, EXIT_FAILED, CostofError
from costof.lab.lab import is_root
from costof.lab.network import TUN, tun_lacks
from costof.lab.program import UNPACKED, find_program, first_words, unpacked_from
from costof.lab.user_namespace import can_make_hosts, why_forbidden
from costof.messages.plan import HostsSettings
from costof.messages.process import HostsProcess, engine_path
from costof.programs.server import fetchable_programs, programs_needed

NETEM = "sch_netem"


@dataclass(frozen=True)
class Finding:
    """A requirement of a lab (servers that costof starts), and whether this machine fulfils it.

    `detail`: where the required program or feature was found, or how to get it.
    """

    what: str
    good: bool
    detail: str


def examine() -> list[Finding]:
    """Return a finding for each requirement of a lab (servers that costof starts). Changes nothing."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    busy = "; stop other programs, or intervals will be wide" if load > cores else ""
    return [
        _find("costof-engine", lambda: str(engine_path())),
        *(_find(name, look) for name, look in programs_needed().items()),
        *_unpacked(),
        *_user_and_hosts(),
        Finding("quiet machine", load <= cores, f"load {load:.1f} on {cores} cores{busy}"),
    ]


def _find(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, look())
    except CostofError as error:
        return Finding(what, False, str(error))


def _unpacked() -> list[Finding]:
    """Return a finding that lists the packages unpacked by scripts/system-packages; [] if there are none.

    The finding shows the packages' versions: apt does not update these packages, so the user must update them.
    """
    packages_by_program = unpacked_from()
    if not packages_by_program:
        return []
    unknown = [name for name, package in packages_by_program.items() if not package]
    packages = ", ".join(f"{name} of {package}" for name, package in packages_by_program.items() if package)
    if unknown:
        detail = f"unknown version of {', '.join(unknown)} in {UNPACKED}; run: sudo scripts/system-packages"
        return [Finding("unpacked", False, detail + (f" (known: {packages})" if packages else ""))]
    return [Finding("unpacked", True, f"{packages}; scripts/system-packages installs newer ones")]


def _user_and_hosts() -> list[Finding]:
    if can_make_hosts():
        return [Finding("user", True, "root" if is_root() else "in a user namespace with hosts"), *_hosts()]
    forbidden = why_forbidden()
    if forbidden is None:
        detail = "not root: each run creates its hosts in a new user namespace, without CPU shares"
        return [Finding("user", True, detail), *_hosts()]
    return [Finding("user", True, f"hosts are loopback addresses, so distances are not available: {forbidden}")]


def _hosts() -> list[Finding]:

    def ip() -> str:
        binary = find_program("ip", "iproute2")
        return f"{first_words([str(binary), '-V'], 'ip', 'iproute2')} at {binary}"

    return [
        _find("ip", ip),
        _find("nsenter", lambda: str(find_program("nsenter", "util-linux"))),
        _find("setpriv", lambda: str(find_program("setpriv", "util-linux"))),
        _links(),
    ]


def _links() -> Finding:
    """Return a finding on how this machine can emulate network delays: with the kernel's netem, or over TUN devices."""
    if _kernel_has(NETEM):
        return Finding("far links", True, "emulated by the kernel's netem")
    if (lack := tun_lacks()) is not None:
        return Finding("far links", False, f"{lack}; without it distances are not available")
    return Finding("far links", True, f"emulated by costof-engine over {TUN}, because this kernel has no netem")


def _kernel_has(module: str) -> bool:
    """Return whether the kernel lists this module, built in or loadable. Only a run shows whether it can be loaded."""
    folder = Path("/lib/modules") / os.uname().release
    if Path("/sys/module", module).exists():
        return True
    indexes = [folder / name for name in ("modules.builtin", "modules.dep")]
    return any(f"/{module}.ko" in index.read_text() for index in indexes if index.is_file())


def examine_hosts(settings: HostsSettings) -> list[Finding]:
    """Return a finding for each host of a Ray cluster. The hosts' CPUs are reserved while this function runs."""
    try:
        with HostsProcess(settings, "engine") as hosts:
            warnings = [Finding("cluster", True, text) for text in hosts.warnings]
            return [*warnings, *(Finding(name, True, detail) for name, detail in hosts.examine().items())]
    except CostofError as error:
        return [Finding("hosts", False, str(error))]


@click.command()
@hosts_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a line for each finding.")
def doctor(hosts: HostsSettings | None, as_json: bool) -> None:
    """Check what this machine has and lacks for a lab (servers that costof starts).

    Print how to get what is missing. The command installs nothing.

    With --hosts, the command checks the hosts of a Ray cluster instead.
    """
    findings = examine() if hosts is None else examine_hosts(hosts)
    exit_status = EXIT_ANSWERED if all(finding.good for finding in findings) else EXIT_FAILED
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
        sys.exit(exit_status)
    for finding in findings:
        click.echo(f"{'ok     ' if finding.good else 'missing'}  {finding.what}: {finding.detail}")
    if hosts is None:
        click.echo("To see in one minute which effects this machine can resolve: costof selftest")
    fetchable = [finding.what for finding in findings if not finding.good and finding.what in fetchable_programs()]
    if fetchable:
        click.echo(f"To install the missing programs without root: costof fetch {' '.join(fetchable)}")
    sys.exit(exit_status)
