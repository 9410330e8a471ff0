"""Stored runs: one run of each study's quick profile, stored as its ledger and quoted on the study's page.

Ledgers (raw results) are stored instead of reports, because a report's HTML changes with every change of its layout,
but a ledger only when its study is measured again. `make docs` makes the reports from the ledgers with the current
analysis. Compression reduces a ledger to a tenth of its size.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from rich.console import Console

from costof.report import analyse, render_html, render_terminal
from costof.report.result import Result
from costof.results.ledger import PLAN, SLICES, Ledger

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
#: The archives of ledgers. Each contains a folder named like its study.
RUNS = DOCS / "runs"
#: Additional options of the command for studies whose quick budget is too small on a slow machine.
EXTRA_OPTIONS = {"postgres-pooling": " --budget 150s"}
#: The width of the quoted answers, in characters.
WIDTH = 90
#: Matches the quote of a run in a page, with the marks before and after it.
QUOTED = re.compile(r"(<!-- run ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def command(study: str) -> str:
    return f"costof run {study} --profile quick{EXTRA_OPTIONS.get(study, '')}"


def measure(study: str) -> None:
    """Run a study, and replace its stored ledger. Raises `CalledProcessError`."""
    program, *arguments = command(study).split()
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent, study)
        subprocess.run([Path(sys.executable).with_name(program), *arguments, "--out", folder], check=True)
        for path in folder.iterdir():
            if path.name not in (PLAN, SLICES):
                path.unlink()
        RUNS.mkdir(exist_ok=True)
        shutil.make_archive(str(RUNS / study), "xztar", parent, study)


def results() -> dict[str, Result]:
    """Return the results of all stored runs, by study."""
    with tempfile.TemporaryDirectory() as parent:
        for archive in RUNS.glob("*.tar.xz"):
            shutil.unpack_archive(archive, parent, filter="data")
        return {folder.name: analyse(Ledger.open(folder)) for folder in sorted(Path(parent).iterdir())}


def write_pages(results: dict[str, Result], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for study, result in results.items():
        (folder / f"{study}.html").write_text(render_html(result))


def pages_that_quote() -> list[Path]:
    return [path for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md"))) if QUOTED.search(path.read_text())]


def update_quotes(text: str, results: dict[str, Result]) -> str:
    """Return a page's text with current quotes of runs. The quote of a study without a stored run becomes empty."""
    return QUOTED.sub(lambda match: match[1] + _quote(match[2], results.get(match[2])) + match[3], text)


def _quote(study: str, result: Result | None) -> str:
    """Return the command of a study's run, and the short answer that it prints on a terminal."""
    if result is None:
        return ""
    text = io.StringIO()
    render_terminal(result, Console(file=text, width=WIDTH), Path("runs") / study)
    answer = textwrap.dedent(text.getvalue()).strip("\n")
    return f"```console\n$ {command(study)}\n```\n\n```text\n{answer}\n```\n"
