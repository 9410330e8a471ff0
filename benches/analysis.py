"""Benchmark of the report of a long run: the CPU time of making it, compared with parsing the run's raw records.

The run has 200 rounds of 20 arms. Its raw records are lines of JSON.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from rich.console import Console

from costof.report import analyse, write_reports
from costof.results.ledger import SLICES, Ledger
from costof.statistics.intervals import ratio
from costof.study.library import load_study
from costof.study.plan import Options, resolve
from tests.fake_run import fake_run
from tests.truths.mysql_transport import TransportTruth

ROUNDS, TURNS = 200, 5
SETTINGS = ("transport=plain,tls,ssh-aes256-ctr,ssh-aes256-gcm", "distance=lan,us-us,us-eu,10")


def main() -> None:
    """Print the CPU seconds of making the report and of parsing the records, and their ratio with a 95 % interval.

    Making the report and parsing alternate. A ratio is computed from two successive measurements, because the speed of
    a shared machine changes.
    """
    with tempfile.TemporaryDirectory() as folder:
        plan = resolve(load_study("mysql-transport"), Options(settings=SETTINGS))
        ledger = fake_run(Path(folder) / "run", plan, TransportTruth(), rounds=ROUNDS)
        lines = ledger.folder / SLICES
        turns = [(_seconds(lambda: _read(lines)), _seconds(lambda: _report(ledger))) for _ in range(TURNS)]
    reading, reporting = ([turn[place] for turn in turns] for place in (0, 1))
    times = ratio(reading, reporting)
    assert times is not None
    Console(highlight=False, width=120).print(
        f"Report of {ROUNDS} rounds of {len(plan.arms)} arms, {median(reporting):.2f} s of CPU; "
        f"parsing its JSON: {median(reading):.2f} s; ratio {times.value:.1f} [{times.low:.1f}, {times.high:.1f}]"
    )


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _read(lines: Path) -> None:
    for line in lines.read_text().splitlines():
        json.loads(line)


def _report(ledger: Ledger) -> None:
    write_reports(analyse(ledger), ledger.folder)
