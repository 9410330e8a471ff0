"""`costof list`: print the studies."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import click

from costof.studies import read_content, study_file, study_names


@dataclass(frozen=True)
class FactorSummary:
    levels: list[str]
    default: list[str]


@dataclass(frozen=True)
class StudySummary:
    """A study as `--json` prints it: its factors by name, and the descriptions of its profiles by name."""

    name: str
    title: str
    factors: dict[str, FactorSummary]
    profiles: dict[str, str]


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead.")
def list_studies(as_json: bool) -> None:
    """List the studies with their factors, levels and profiles."""
    # The files are read without validation, which would take three times as long.
    studies = {name: read_content(study_file(name)) for name in study_names()}
    if as_json:
        click.echo(json.dumps([asdict(_summary(name, study)) for name, study in studies.items()], indent=2))
        return
    for name, study in studies.items():
        click.echo(f"{click.style(name, bold=True)}  {study['title']}")
        for factor, spec in study["factors"].items():
            levels = ", ".join(click.style(lv, fg="green") if lv in spec["default"] else lv for lv in spec["levels"])
            click.echo(f"    {factor:<14} {levels}")
        for profile, size in study["profiles"].items():
            click.secho(f"    --profile {profile:<10} {size['description']}", dim=True)


def _summary(name: str, study: dict[str, Any]) -> StudySummary:
    factors = {
        factor: FactorSummary(levels=[*spec["levels"]], default=spec["default"])
        for factor, spec in study["factors"].items()
    }
    profiles = {profile: size["description"] for profile, size in study["profiles"].items()}
    return StudySummary(name, study["title"], factors, profiles)
