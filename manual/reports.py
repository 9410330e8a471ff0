"""Reports of real runs: of each study a run of its quick profile, kept as its ledger, and quoted by the study's page.

The HTML of a report changes whole with each change of its looks. A ledger changes only when it is measured anew, and
is what a report is made of: `make docs` makes the pages from it, by the analysis of today. Compressed it is a tenth of
its size.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from costof.report import analyse, render_html, render_markdown
from costof.report.result import Result
from costof.results.ledger import PLAN, SLICES, Ledger

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
#: The ledgers, each an archive with a folder named as its study is.
RUNS = DOCS / "runs"
#: Of studies whose quick budget holds too few rounds on a slow machine.
BEYOND = {"postgres-pooling": " --budget 150s"}
#: What a page quotes of a run stands between these.
QUOTED = re.compile(r"(<!-- run ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def command(study: str) -> str:
    return f"costof run {study} --profile quick{BEYOND.get(study, '')}"


def measure(study: str) -> None:
    """Run it, and keep its ledger in place of the earlier one. Raises `CalledProcessError`."""
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
    """Analyse all runs that are kept, by the study's name."""
    with tempfile.TemporaryDirectory() as parent:
        for archive in RUNS.glob("*.tar.xz"):
            shutil.unpack_archive(archive, parent, filter="data")
        return {folder.name: analyse(Ledger.open(folder)) for folder in sorted(Path(parent).iterdir())}


def write_pages(found: dict[str, Result], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for study, result in found.items():
        (folder / f"{study}.html").write_text(render_html(result))


def pages_that_quote() -> list[Path]:
    return [path for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md"))) if QUOTED.search(path.read_text())]


def quoting(text: str, found: dict[str, Result]) -> str:
    """Return a page's text with what the runs say today, and nothing of a study that has no run."""
    return QUOTED.sub(lambda match: match[1] + _words(match[2], found.get(match[2])) + match[3], text)


def _words(study: str, result: Result | None) -> str:
    """Return what a report begins with, below the command that it is the answer to."""
    if result is None:
        return ""
    before_tables = render_markdown(result).partition("\n#")[0]
    _, subtitle, *parts = before_tables.strip().split("\n\n")
    lines = [line for part in parts for line in part.replace("**", "").splitlines()]
    checks = [line.removeprefix("- ") for line in lines if line[2:3] in "✓✗"]
    told = [line.removeprefix("- ") for line in lines if line[2:3] not in "✓✗"]
    quoted = "\n>\n".join(f"> {line}" for line in [*told, " ".join(checks)])
    _, _, extent = subtitle.partition(" · profile quick · ")
    return f"`{command(study)}`, {extent.rpartition(' · ')[0]}:\n\n{quoted}\n"
