"""What a command line says of load machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from costof.errors import CostofError, Problem

AUTO, CLIENT_SCHEME = "auto", "ray://"


@dataclass(frozen=True)
class HostsAsked:
    """`address`: 'auto' where this machine is a node of the cluster, or 'ray://host:port'. `where`: labels that a host
    must have. `least`: of hosts, with which a run goes on when others are lost; None goes on without none.
    `unauthenticated`: a cluster that anybody may run code on will do."""

    address: str
    where: tuple[tuple[str, str], ...] = ()
    least: int | None = None
    unauthenticated: bool = False


def hosts_asked(
    address: str | None, where: Sequence[str], least: int | None, unauthenticated: bool
) -> HostsAsked | None:
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
    return HostsAsked(address, tuple(labels), least, unauthenticated)
