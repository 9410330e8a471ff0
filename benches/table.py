"""Clients that take turns in one setting, and what a bench prints of them."""

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
    """What a client did in one turn. `cpu_us` is its user and system time for an operation; `server_cores` what the
    server used meanwhile, in cores."""

    operations_per_second: float
    cpu_us: float
    server_cores: float

    @classmethod
    def of(cls, operations: int, seconds: float, cpu_seconds: float, server_seconds: float) -> Usage:
        """From what was counted: operations, the time they took, and the CPU time of client and server."""
        return cls(operations / seconds, cpu_seconds * 1e6 / operations, server_seconds / seconds)

    @classmethod
    def of_slice(cls, answer: SliceAnswer, server_seconds: float) -> Usage:
        """The engine's, in which nothing may have failed."""
        assert not answer.errors, answer.errors
        return cls.of(answer.operations, answer.elapsed_ns / 1e9, answer.cpu_ns["client"] / 1e9, server_seconds)


@dataclass(frozen=True)
class Measured:
    """All clients in one setting: their turns by name, in the order in which they alternated."""

    setting: str
    turns: Mapping[str, list[Usage]]


def alternate(setting: str, clients: Mapping[str, Callable[[], Usage]], turns: int) -> Measured:
    """Let each client take its turn, then each again."""
    taken: dict[str, list[Usage]] = {name: [] for name in clients}
    for _ in range(turns):
        for name, take in clients.items():
            taken[name].append(take())
    return Measured(setting, taken)


def print_table(title: str, measured: list[Measured]) -> None:
    """A row for each client and setting: medians, and our CPU for an operation over the peer's with its 95 % interval,
    paired by turn as a run pairs by round: the speed of a shared machine changes from turn to turn."""
    table = Table(title=title, title_justify="left", box=None)
    for heading in ("setting", "client", "operations/s", "client CPU, us/op", "server, cores", f"{OURS} uses"):
        table.add_column(heading, justify="left" if heading in ("setting", "client") else "right")
    for each in measured:
        for client, turns in each.turns.items():
            middle = Usage(*(median(column) for column in zip(*turns, strict=True)))
            table.add_row(
                each.setting,
                client,
                f"{middle.operations_per_second:,.0f}",
                f"{middle.cpu_us:.1f}",
                f"{middle.server_cores:.2f}",
                "" if client == OURS else _share(each.turns[OURS], turns),
            )
    Console(highlight=False, width=120).print(table)


def _share(ours: list[Usage], theirs: list[Usage]) -> str:
    share = ratio([turn.cpu_us for turn in theirs], [turn.cpu_us for turn in ours])
    assert share is not None, "somebody used no CPU"
    return f"{share.value:.2f} [{share.low:.2f}, {share.high:.2f}] of its CPU"
