"""`costof list`: print the studies."""

from __future__ import annotations

import click

from costof.studies import read_content, study_file, study_names


@click.command("list")
def list_studies() -> None:
    """List the studies with their factors, levels and profiles."""
    # The files are read without validation, which would take three times as long.
    for name in study_names():
        study = read_content(study_file(name))
        click.echo(f"{click.style(name, bold=True)}  {study['title']}")
        for factor, spec in study["factors"].items():
            levels = ", ".join(click.style(lv, fg="green") if lv in spec["default"] else lv for lv in spec["levels"])
            click.echo(f"    {factor:<14} {levels}")
        for profile, size in study["profiles"].items():
            click.secho(f"    --profile {profile:<10} {size['description']}", dim=True)
