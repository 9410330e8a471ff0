"""`costof list`: the studies."""

from __future__ import annotations

import click
from rich.console import Console

from costof.study.library import load_study, study_names


@click.command("list")
def list_studies() -> None:
    """The questions that can be asked, with their factors."""
    console = Console(highlight=False)
    for name in study_names():
        study = load_study(name)
        console.print(f"[bold]{name}[/]  {study.title}")
        for factor, spec in study.factors.items():
            levels = ", ".join(f"[green]{lv}[/]" if lv in spec.default else lv for lv in spec.levels)
            console.print(f"    {factor:<14} {levels}")
        for profile, size in study.profiles.items():
            console.print(f"    [dim]--profile {profile:<10} {size.description}[/]")
