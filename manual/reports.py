"""The stored runs (`manual/kept.py`): their ledgers, their reports, and the pages that quote their short answers.

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
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from rich.console import Console

from costof.report import analyse, render_embedded, render_html, render_terminal
from costof.report.result import Result
from costof.results.ledger import PLAN, SLICES, Ledger, run_name
from costof.results.run import read_run
from costof.run.machine import cpu_model
from costof.study.library import load_study
from costof.study.plan import WITHOUT_IDLE_CONNECTIONS
from manual.answers import EMBEDDED, answer, answer_beyond_study
from manual.kept import KEPT, of_studies
from manual.protections import StoredRun, needs_in_verdict

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
#: The folder with the archives of ledgers. Each archive contains a folder with the name of its run.
RUNS = DOCS / "runs"
#: The folder with former runs that were measured on another kind of processor than the runs in `RUNS`.
FORMER = RUNS / "another-processor"
#: The number of idle connections with which the memory of a connection is measured.
IDLE_CONNECTIONS = 1_000
#: The width of the quoted answers, in characters.
WIDTH = 90
#: Matches text that a page quotes from a run, including the marks around it. After the mark `run` there is a command
#: with its output, after `answer` the answer to the run's question, and after `precision` how to measure more precisely
#: (only on studies' pages). The mark also has the name of the run.
QUOTED = re.compile(r"(<!-- (run|answer|precision) ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def command(result: Result) -> str:
    """Return the command with which a stored run was measured."""
    memory = result.sections.memory
    return _command(result.run, memory.planned if memory is not None else 0)


def _command(name: str, idle_connections: int) -> str:
    run = KEPT[name]
    memory = f"--memory {idle_connections}" if idle_connections else ""
    return " ".join(filter(None, ["costof run", run.study, "--profile quick", run.options, memory]))


def measure(name: str) -> None:
    """Repeat a kept run, and replace its stored ledger. Raises `CalledProcessError`.

    Programs that the run needs are fetched first. A study's own run also measures the memory of idle connections. If
    the stored ledger is from another kind of processor, it moves to `FORMER`.
    """
    run = KEPT[name]
    measures_memory = run.is_of_study and load_study(run.study).service.kind not in WITHOUT_IDLE_CONNECTIONS
    program, *arguments = _command(name, IDLE_CONNECTIONS if measures_memory else 0).split()
    costof = Path(sys.executable).with_name(program)
    if run.fetches:
        subprocess.run([costof, "fetch", *run.fetches.split()], check=True)
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent, name)
        subprocess.run([costof, *arguments, "--out", folder], check=True)
        keep_if_of_another_processor(name, cpu_model())
        store(folder, RUNS, PLAN, SLICES)


def keep_if_of_another_processor(name: str, processor: str, runs: Path = RUNS, former: Path = FORMER) -> None:
    """Move a stored ledger to `former` if it was not measured on `processor`."""
    archive = f"{name}.tar.xz"
    stored = stored_runs(runs, archive).get(name)
    if stored is not None and stored.result.environment.get("CPU") != processor:
        former.mkdir(exist_ok=True)
        (runs / archive).replace(former / archive)


def store(run: Path, folder: Path, *files: str) -> Path:
    """Archive these files of a run's folder in `folder`, and return the archive."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as parent:
        (Path(parent) / run.name).mkdir()
        for name in files:
            shutil.copy(run / name, Path(parent) / run.name)
        return Path(shutil.make_archive(str(folder / run.name), "xztar", parent, run.name))


def stored_runs(folder: Path = RUNS, names: str = "*.tar.xz") -> dict[str, StoredRun]:
    """Return the runs in a folder's archives by name. `names` is a pattern of the archives' names."""
    with tempfile.TemporaryDirectory() as parent:
        for archive in folder.glob(names):
            shutil.unpack_archive(archive, parent, filter="data")
        ledgers = {folder.name: Ledger.open(folder) for folder in sorted(Path(parent).iterdir())}
        return {name: StoredRun(read_run(ledger), _cited(analyse(ledger))) for name, ledger in ledgers.items()}


def _cited(result: Result) -> Result:
    """Return a run's result with the published figures of today's study, which may cite them better than the run's."""
    if result.published is None:
        return result
    return result.model_copy(update={"published": load_study(result.study).published})


def results(folder: Path = RUNS) -> dict[str, Result]:
    return {name: stored.result for name, stored in stored_runs(folder).items()}


def write_pages(results: dict[str, Result], folder: Path) -> None:
    """Write two HTML files for each run: the whole report, and only its key figures, picture and calculator.

    The page that quotes the run shows the second file in an iframe. The calculator is about the study's protection, so
    the second file of a run of another question has none.
    """
    folder.mkdir(exist_ok=True)
    for name, result in results.items():
        (folder / f"{name}.html").write_text(render_html(result))
        shown = result
        if not KEPT[name].is_of_study:
            shown = result.model_copy(update={"sections": result.sections.model_copy(update={"cost_model": None})})
        (folder / EMBEDDED.format(run=name)).write_text(render_embedded(shown))


def pages_that_quote() -> list[Path]:
    """Return the pages with answers of stored runs. The site's first page is left out: it is made from the README."""
    pages = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
    return [path for path in pages if path != DOCS / "index.md" and QUOTED.search(path.read_text())]


def update_quotes(text: str, runs: Mapping[str, StoredRun]) -> str:
    """Return a page's text with current quotes of its runs. Without a stored run, only the command is quoted."""
    results = {name: stored.result for name, stored in runs.items()}

    def quote(match: re.Match[str]) -> str:
        start, kind, name, end = match.groups()
        if name not in results:
            return start + (_console(name, _command(name, 0)) if kind == "run" else "") + end
        if kind == "run":
            return start + _printed(name, results[name]) + end
        if kind == "precision":
            return start + _more_precise(results[name]) + end
        if not KEPT[name].is_of_study:
            return start + answer_beyond_study(results[name]) + end
        former = stored_runs(FORMER, f"{name}.tar.xz").get(name)
        needed = needs_in_verdict(runs[name])
        shown = answer(results[name], of_studies(results), former.result if former is not None else None, needed)
        return start + shown + end

    return QUOTED.sub(quote, text)


def _printed(name: str, result: Result) -> str:
    """Return the command of a run, and the short answer that it prints on a terminal.

    The answer names the folder that a run with this command has: a kept run's own folder has another name.
    """
    text, started = io.StringIO(), datetime.fromisoformat(result.started)
    folder = Path("runs", run_name(started, result.study))
    render_terminal(result, Console(file=text, width=WIDTH), folder)
    answer = textwrap.dedent(text.getvalue()).strip("\n")
    return f"{_console(name, command(result))}\n```text\n{answer}\n```\n"


def _more_precise(result: Result) -> str:
    """Return, in Markdown, the command that measures four times as many rounds as the run."""
    # `costof run` does not accept --rounds and --budget together.
    words = re.sub(r" --budget \S+", "", command(result))
    return (
        f"For intervals half as wide, measure four times as many rounds: `{words} --rounds {4 * result.rounds}` "
        "([when a run ends](../asking.md#when-a-run-ends)).\n"
    )


def _console(name: str, line: str) -> str:
    fetch = f"$ costof fetch {KEPT[name].fetches}\n" if KEPT[name].fetches else ""
    return f"```console\n{fetch}$ {line}\n```\n"
