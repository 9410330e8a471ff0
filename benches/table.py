"""Functions that measure several clients alternately, and print a table of the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from costof.messages.answers import SliceAnswer
from costof.statistics.intervals import ratio

OURS = "costof-engine"


class Usage(NamedTuple):
    """The result of one measurement of a client (a load generator or database client).

    `cpu_us` is the client's CPU time for an operation, and `server_cores` the server's CPU use in cores.
    """

    operations_per_second: float
    cpu_us: float
    server_cores: float

    @classmethod
    def from_totals(cls, operations: int, seconds: float, cpu_seconds: float, server_seconds: float) -> Usage:
        """Compute the usage from totals: operations, the seconds that they took, CPU seconds of client and server."""
        return cls(operations / seconds, cpu_seconds * 1e6 / operations, server_seconds / seconds)

    @classmethod
    def from_slice(cls, answer: SliceAnswer, server_seconds: float) -> Usage:
        """Compute the usage from the engine's answer about one measurement (a slice), which must have no errors."""
        assert not answer.errors, answer.errors
        return cls.from_totals(
            answer.operations, answer.elapsed_ns / 1e9, answer.cpu_ns["client"] / 1e9, server_seconds
        )


@dataclass(frozen=True)
class Measured:
    """The measurements of all clients under the same conditions, which `conditions` names in the table."""

    conditions: str
    turns: Mapping[str, list[Usage]]


def alternate(conditions: str, clients: Mapping[str, Callable[[], Usage]], turns: int) -> Measured:
    """Measure each client once a turn. Every second turn has the reverse order, so that order favours no client."""
    usages: dict[str, list[Usage]] = {name: [] for name in clients}
    order = list(clients.items())
    for _ in range(turns):
        for name, measure in order:
            usages[name].append(measure())
        order.reverse()
    return Measured(conditions, usages)


def print_table(title: str, measured: list[Measured]) -> None:
    """Print a table line with medians for each set of conditions and each client.

    The line also has the engine's CPU time relative to the client's, with a 95 % interval. All clients are measured in
    turn, several times, and CPU times of the same turn are compared, because the speed of a shared machine changes
    between turns.
    """
    table = Table(title=title, title_justify="left", box=None)
    for heading in ("conditions", "client", "operations/s", "client CPU, us/op", "server, cores", f"{OURS} uses"):
        table.add_column(heading, justify="left" if heading in ("conditions", "client") else "right")
    for each in measured:
        for client, turns in each.turns.items():
            middle = Usage(*(median(column) for column in zip(*turns, strict=True)))
            table.add_row(
                each.conditions,
                client,
                f"{middle.operations_per_second:,.0f}",
                f"{middle.cpu_us:.1f}",
                f"{middle.server_cores:.2f}",
                "" if client == OURS else _share(each.turns[OURS], turns),
            )
    Console(highlight=False, width=120).print(table)


def _share(ours: list[Usage], theirs: list[Usage]) -> str:
    share = ratio([turn.cpu_us for turn in theirs], [turn.cpu_us for turn in ours])
    assert share is not None, "a client used no CPU"
    return f"{share.value:.2f} [{share.low:.2f}, {share.high:.2f}] of its CPU"
