"""The stored runs: one run of each study's quick profile. The study's page quotes the run's short answer.

Runs are stored as ledgers (raw results) and not as reports. A report's HTML changes with every change of its layout,
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
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from costof.report import analyse, render_embedded, render_html, render_terminal
from costof.report.result import Result
from costof.results.ledger import PLAN, SLICES, Ledger
from costof.results.run import Run, read_run
from costof.run.machine import cpu_model
from costof.study.library import load_study
from costof.study.plan import WITHOUT_IDLE_CONNECTIONS
from manual.answers import EMBEDDED, answer

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
#: The folder with the archives of ledgers. Each archive contains a folder with the name of its study.
RUNS = DOCS / "runs"
#: The folder with each study's former run, if it was on another kind of processor than the one in `RUNS`.
FORMER = RUNS / "another-processor"
#: Additional options of the command. The quick profile of this study needs more time on a slow machine.
EXTRA_OPTIONS = {"postgres-pooling": " --budget 150s"}
#: The number of idle connections with which the memory of a connection is measured.
IDLE_CONNECTIONS = 1_000
#: The width of the quoted answers, in characters.
WIDTH = 90
#: Matches text that a page quotes from a run, including the marks around it. After the mark `run` there is a command
#: with its output, and after `answer` the answer of a study's page.
QUOTED = re.compile(r"(<!-- (run|answer) ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def command(result: Result) -> str:
    """Return the command with which a stored run was measured."""
    memory = result.sections.memory
    return _command(result.study, memory.planned if memory is not None else 0)


def _command(study: str, idle_connections: int) -> str:
    memory = f" --memory {idle_connections}" if idle_connections else ""
    return f"costof run {study} --profile quick{EXTRA_OPTIONS.get(study, '')}{memory}"


def measure(study: str) -> None:
    """Run a study, and replace its stored ledger. Raises `CalledProcessError`.

    If the stored ledger is from another kind of processor, it moves to `FORMER`.
    """
    has_idle_connections = load_study(study).service.kind not in WITHOUT_IDLE_CONNECTIONS
    program, *arguments = _command(study, IDLE_CONNECTIONS if has_idle_connections else 0).split()
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent, study)
        subprocess.run([Path(sys.executable).with_name(program), *arguments, "--out", folder], check=True)
        keep_if_of_another_processor(study, cpu_model())
        store(folder, RUNS, PLAN, SLICES)


def keep_if_of_another_processor(study: str, processor: str, runs: Path = RUNS, former: Path = FORMER) -> None:
    """Move a study's stored ledger to `former` if it was not measured on `processor`."""
    stored = stored_runs(runs, f"{study}.tar.xz").get(study)
    if stored is not None and stored.result.environment.get("CPU") != processor:
        former.mkdir(exist_ok=True)
        (runs / f"{study}.tar.xz").replace(former / f"{study}.tar.xz")


def store(run: Path, folder: Path, *files: str) -> Path:
    """Archive these files of a run's folder in `folder`, and return the archive."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as parent:
        (Path(parent) / run.name).mkdir()
        for name in files:
            shutil.copy(run / name, Path(parent) / run.name)
        return Path(shutil.make_archive(str(folder / run.name), "xztar", parent, run.name))


@dataclass(frozen=True)
class StoredRun:
    """A stored run as read from its ledger, and its result."""

    run: Run
    result: Result


def stored_runs(folder: Path = RUNS, names: str = "*.tar.xz") -> dict[str, StoredRun]:
    """Return the runs in a folder's archives by study. `names` is a pattern of the archives' names."""
    with tempfile.TemporaryDirectory() as parent:
        for archive in folder.glob(names):
            shutil.unpack_archive(archive, parent, filter="data")
        ledgers = {folder.name: Ledger.open(folder) for folder in sorted(Path(parent).iterdir())}
        return {study: StoredRun(read_run(ledger), analyse(ledger)) for study, ledger in ledgers.items()}


def results(folder: Path = RUNS) -> dict[str, Result]:
    return {study: stored.result for study, stored in stored_runs(folder).items()}


def write_pages(results: dict[str, Result], folder: Path) -> None:
    """Write two HTML files for each study: the whole report, and only its key figures, picture and calculator.

    The page of the study shows the second file in an iframe.
    """
    folder.mkdir(exist_ok=True)
    for study, result in results.items():
        (folder / f"{study}.html").write_text(render_html(result))
        (folder / EMBEDDED.format(study=study)).write_text(render_embedded(result))


def pages_that_quote() -> list[Path]:
    return [path for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md"))) if QUOTED.search(path.read_text())]


def update_quotes(text: str, results: dict[str, Result]) -> str:
    """Return a page's text with current quotes of its runs. Without a stored run, only the command is quoted."""

    def quote(match: re.Match[str]) -> str:
        start, kind, study, end = match.groups()
        if study not in results:
            return start + (_console(_command(study, 0)) if kind == "run" else "") + end
        quoted = answer(results[study], results) if kind == "answer" else _printed(study, results[study])
        return start + quoted + end

    return QUOTED.sub(quote, text)


def _printed(study: str, result: Result) -> str:
    """Return the command of a study's run, and the short answer that it prints on a terminal."""
    text = io.StringIO()
    render_terminal(result, Console(file=text, width=WIDTH), Path("runs") / study)
    answer = textwrap.dedent(text.getvalue()).strip("\n")
    return f"{_console(command(result))}\n```text\n{answer}\n```\n"


def _console(line: str) -> str:
    return f"```console\n$ {line}\n```\n"
