"""The commands of `make man`, `make docs` and `make docs-reports`."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import click
from ruamel.yaml import YAML

from costof.report.result import Result
from costof.studies import study_names
from manual import commands, costs, files, glance, processors, published, published_runs, reports, studies
from manual.claims import PROFILE
from manual.kept import KEPT, UPGRADES, of_studies
from manual.llms import configuration, llms_text, navigation
from manual.picture import picture

DOCS = reports.DOCS
#: Folders and files of generated pages, which are not committed.
REFERENCE, REPORTS, INDEX, LLMS = DOCS / "reference", DOCS / "reports", DOCS / "index.md", DOCS / "llms.txt"
#: The site's configuration, with the studies' pages added. Zensical (the site generator) needs it beside docs/.
SITE = reports.ROOT / "site.yml"
COSTS, PUBLISHED, PROCESSORS = DOCS / "costs.md", DOCS / "published.md", DOCS / "processors.md"
SCHEMA = REFERENCE / files.SCHEMA
#: The folder of the built site, and a pattern that matches a formula in its pages. The Markdown extension
#: pymdownx.arithmatex writes formulas in this form.
BUILT = reports.ROOT / "build" / "site"
FORMULA = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
#: README's picture, and the study that it shows.
PICTURE, PICTURED = DOCS / "report.svg", "mongodb-tls"


@click.group()
def main() -> None:
    """Generate documentation."""


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
def man(folder: Path) -> None:
    """Write a manual page for each command into FOLDER."""
    commands.write_manual_pages(folder)


@main.command()
def pages() -> None:
    """Write the generated pages of the site.

    These are the first page, costs.md, published.md, processors.md, the reference, the reports of runs, and llms.txt.
    """
    REFERENCE.mkdir(exist_ok=True)
    for name, text in reference().items():
        (REFERENCE / f"{name}.md").write_text(text)
    SCHEMA.write_text(json.dumps(files.outputs_schema(), indent=1))
    runs = reports.stored_runs()
    shown = [*studies_in_navigation(), *(run.name for run in UPGRADES)]
    repeated = published_runs.stored()
    INDEX.write_text(index([runs[name].result for name in shown if name in runs], repeated))
    COSTS.write_text(costs.page(of_studies(runs), study_names(), datetime.now(UTC).date()))
    here = {name: stored.result for name, stored in of_studies(runs).items()}
    PROCESSORS.write_text(processors.page(reports.results(reports.FORMER), here))
    PUBLISHED.write_text(published.page(repeated, here))
    reports.write_pages({name: stored.result for name, stored in runs.items()}, REPORTS)
    LLMS.write_text(llms_text())
    YAML(typ="safe").dump(configuration(), SITE)


@main.command()
def formulas() -> None:
    """Write the formulas of the built site as MathML, which browsers show without a program."""
    # Imported here, because it is installed only where the site is built.
    from latex2mathml.converter import convert

    for page in BUILT.rglob("*.html"):
        text = page.read_text()
        written = FORMULA.sub(lambda found: convert(unescape(found[1])), text)
        if written != text:
            page.write_text(written)


@main.command()
@click.argument("names", nargs=-1, type=click.Choice(list(KEPT)))
@click.option("--profile", type=click.Choice(["quick", PROFILE]), default="quick", show_default=True)
def measure(names: tuple[str, ...], profile: str) -> None:
    """Repeat the stored runs NAMES, by default all. Store them again, and write their answers into the pages.

    A name is a study, or a run about another question, such as postgres-upgrade (see manual/kept.py).

    With --profile published, run the five studies of docs/published.md instead, at the scale of the published
    measurements. This takes hours; Ctrl-C ends it, and the same command continues it.
    """
    if profile == PROFILE:
        if beyond := [name for name in names if not KEPT[name].is_of_study]:
            raise click.BadParameter(f"only a study has the profile {profile}, but not {', '.join(beyond)}")
        for name in names or published.STUDIES:
            archive = published_runs.measure(name)
            if archive is None:
                raise click.ClickException(f"the run of {name} is not complete; the same command continues it")
            click.echo(f"{name}: {archive}")
        return
    for name in names or KEPT:
        reports.measure(name)
    quote_runs()


@main.command()
def quote() -> None:
    """Analyse the stored runs again, and update their answers in the pages."""
    quote_runs()


def quote_runs() -> None:
    runs = reports.stored_runs()
    if PICTURED in runs:
        PICTURE.write_text(picture(runs[PICTURED].result))
    for path in reports.pages_that_quote():
        path.write_text(reports.update_quotes(path.read_text(), runs))


def reference() -> dict[str, str]:
    """Return all pages of the reference by their names, in Markdown."""
    return {"commands": commands.page(), "studies": studies.page(), **files.pages()}


def index(results: Sequence[Result], repeated: Collection[str] = ()) -> str:
    """Return README as the site's first page, with a list of all studies' answers inserted before its picture.

    Links are made relative to `docs/`. Files beside README, such as CONTRIBUTING.md, are not on the site: their names
    stand without a link.
    """
    text = re.sub(r"\[([^]]+)\]\(([A-Z]+\.md)\)", r"\1 (`\2`)", (reports.ROOT / "README.md").read_text())
    introduction, picture, rest = re.sub(r"\]\(docs/", "](", text).partition("![")
    return "".join([introduction, glance.overview(results, repeated), "\n", picture, rest])


def studies_in_navigation() -> list[str]:
    pages = (Path(page) for _, listed in navigation() for page in listed)
    return [page.stem for page in pages if page.parent.name == "studies"]


if __name__ == "__main__":
    main()
