"""Runs of the studies' published profiles, which repeat a published measurement at its original scale.

Such a run can take several hours. So it has a folder of its own, from which the same command continues it. Only
complete runs are stored: as a ledger (the raw records) or, if the ledger is too large for the repository, as a result,
which has the values of each round.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from costof.cli.show import RESULT
from costof.report import analyse
from costof.report.result import Result
from costof.results.ledger import PLAN, SLICES, Ledger
from costof.results.run import read_run
from costof.study.library import load_study
from manual.claims import PROFILE
from manual.kept import PUBLISHED_RUNS
from manual.reports import ROOT, store

#: The folder with the archives of complete runs, and the folder of unfinished runs.
STORED, UNDER_WAY = PUBLISHED_RUNS, ROOT / "runs" / PROFILE
#: The maximum size of an archive. If a run's ledger would be larger, its result is stored instead.
MOST_BYTES = 2_000_000


def arguments(study: str) -> list[str]:
    """Return the arguments with which `costof` runs a study as large as the published measurement.

    They include the number of rounds as the option --rounds. Without this option the run would shorten its slices
    (measured windows), and would end as soon as its verdicts are reached.
    """
    _, rounds = load_study(study).profiles[PROFILE].rounds
    return ["run", study, "--profile", PROFILE, "--rounds", str(rounds)]


def measure(study: str) -> Path | None:
    """Start a study's run, or continue an interrupted one. Return its archive; None if Ctrl-C ended the run."""
    folder = UNDER_WAY / study
    if not folder.exists():
        _run([*arguments(study), "--out", str(folder)])
    elif not _is_complete(folder):
        _run(["run", "--resume", str(folder)])
    return keep(folder, STORED) if folder.exists() and _is_complete(folder) else None


def keep(run: Path, folder: Path, most_bytes: int = MOST_BYTES) -> Path:
    """Store a complete run in `folder`: its ledger or, if the archive would be larger than `most_bytes`, its result."""
    archive = store(run, folder, PLAN, SLICES)
    if archive.stat().st_size > most_bytes:
        (run / RESULT).write_text(analyse(Ledger.open(run)).model_dump_json())
        archive = store(run, folder, RESULT)
    return archive


def stored(folder: Path = STORED) -> dict[str, Result]:
    """Return the results of all stored runs by study."""
    with tempfile.TemporaryDirectory() as parent:
        for archive in folder.glob("*.tar.xz"):
            shutil.unpack_archive(archive, parent, filter="data")
        return {run.name: _result(run) for run in sorted(Path(parent).iterdir())}


def _result(run: Path) -> Result:
    if (run / PLAN).exists():
        return analyse(Ledger.open(run))
    return Result.model_validate_json((run / RESULT).read_bytes())


def _is_complete(folder: Path) -> bool:
    return read_run(Ledger.open(folder)).partial is None


def _run(arguments: Sequence[str]) -> None:
    """Run `costof` and wait until it ends, even after Ctrl-C, because `costof` then still writes its results."""
    with subprocess.Popen([Path(sys.executable).with_name("costof"), *arguments]) as process:
        while process.poll() is None:
            try:
                process.wait()
            except KeyboardInterrupt:
                continue
