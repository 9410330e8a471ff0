"""`make man`, `make docs` and `make docs-reports`."""

from __future__ import annotations

import re
from pathlib import Path

import click

from costof.studies import study_names
from manual import commands, files, reports, studies
from manual.picture import picture

DOCS = reports.DOCS
#: Where pages that are made here lie; none is committed.
REFERENCE, REPORTS, INDEX = DOCS / "reference", DOCS / "reports", DOCS / "index.md"
#: README's picture, and the study that it is of.
PICTURE, PICTURED = DOCS / "report.svg", "mongodb-tls"


@click.group()
def main() -> None:
    """What the documentation has beside its own pages."""


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
def man(folder: Path) -> None:
    """Write a manual page for each command into FOLDER."""
    commands.write_manual_pages(folder)


@main.command()
def pages() -> None:
    """Write what `docs/` lacks of a site: its first page, the reference, and the reports."""
    INDEX.write_text(index())
    REFERENCE.mkdir(exist_ok=True)
    for name, text in reference().items():
        (REFERENCE / f"{name}.md").write_text(text)
    reports.write_pages(reports.results(), REPORTS)


@main.command()
@click.argument("names", nargs=-1, type=click.Choice(study_names()))
def measure(names: tuple[str, ...]) -> None:
    """Run each study's quick profile, or those of NAMES, keep the ledgers, and have the pages quote them."""
    for name in names or study_names():
        reports.measure(name)
    quote_runs()


@main.command()
def quote() -> None:
    """Have the pages quote what the runs say by today's analysis."""
    quote_runs()


def quote_runs() -> None:
    found = reports.results()
    if PICTURED in found:
        PICTURE.write_text(picture(found[PICTURED]))
    for path in reports.pages_that_quote():
        path.write_text(reports.quoting(path.read_text(), found))


def reference() -> dict[str, str]:
    """All pages of the reference by their names, in Markdown."""
    return {"commands": commands.page(), "studies": studies.page(), **files.pages()}


def index() -> str:
    """Return README as the site's first page: its links are from a folder deeper."""
    return re.sub(r"\]\(docs/", "](", (reports.ROOT / "README.md").read_text())


if __name__ == "__main__":
    main()
