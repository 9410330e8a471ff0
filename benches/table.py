"""What a bench prints."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Measured:
    """One client in one setting. `cpu_us` is its user and system time for an operation; `server_cores` what the server
    used meanwhile, in cores."""

    setting: str
    client: str
    operations_per_second: float
    cpu_us: float
    server_cores: float


def print_table(title: str, measured: list[Measured], ours: str) -> None:
    """A row for each client and setting, with our CPU for an operation over the peer's."""
    table = Table(title=title, title_justify="left", box=None)
    for heading in ("setting", "client", "operations/s", "client CPU, us/op", "server, cores", f"{ours} uses"):
        table.add_column(heading, justify="left" if heading in ("setting", "client") else "right")
    for row in measured:
        peer = next(r for r in measured if r.setting == row.setting and r.client == ours)
        share = "" if row.client == ours else f"{peer.cpu_us / row.cpu_us:.2f} of its CPU"
        table.add_row(
            row.setting,
            row.client,
            f"{row.operations_per_second:,.0f}",
            f"{row.cpu_us:.1f}",
            f"{row.server_cores:.2f}",
            share,
        )
    Console(highlight=False, width=110).print(table)
