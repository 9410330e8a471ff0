"""CPU time of short `costof` commands, compared with `python -c pass`."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from costof.programs.origin import Listener, OriginProcess
from costof.statistics.intervals import ratio
from costof.study.library import load_study
from costof.study.plan import Options, resolve
from tests.fake_run import fake_run
from tests.truths.mongodb_tls import MongodbTruth

TURNS, ROUNDS = 9, 30


def main() -> None:
    """Print each command's CPU time, including child processes, and its ratio to the CPU time of Python alone.

    All commands are run in turn, several times. A ratio compares CPU times of the same turn.
    """
    with tempfile.TemporaryDirectory() as folder, OriginProcess() as origin:
        ledger = fake_run(
            Path(folder) / "run", resolve(load_study("mongodb-tls"), Options()), MongodbTruth(), rounds=ROUNDS
        )
        (address,) = origin.begin([Listener(address="127.0.0.1:0")]).listeners
        commands = {
            "--help": ["--help"],
            "list": ["list"],
            "ab -n 1": ["ab", "-n", "1", f"http://{address}/"],
            "run mongodb-tls --dry-run": ["run", "mongodb-tls", "--dry-run"],
            f"report of {ROUNDS} rounds": ["report", str(ledger.folder)],
        }
        command_lines = {"python -c pass": ["-c", "pass"]}
        command_lines |= {f"costof {name}": ["-m", "costof", *words] for name, words in commands.items()}
        turns = [{name: _cpu_seconds(argv) for name, argv in command_lines.items()} for _ in range(TURNS)]
    table = Table(title="Start-up", title_justify="left", box=None)
    for heading in ("command", "CPU, ms", "ratio to python -c pass"):
        table.add_column(heading, justify="left" if heading == "command" else "right")
    nothing = [turn["python -c pass"] for turn in turns]
    for name in command_lines:
        seconds = [turn[name] for turn in turns]
        times = None if seconds == nothing else ratio(nothing, seconds)
        shown = f"{times.value:.1f} [{times.low:.1f}, {times.high:.1f}]" if times else ""
        table.add_row(name, f"{1e3 * median(seconds):.0f}", shown)
    Console(highlight=False, width=120).print(table)


def _cpu_seconds(argv: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *argv], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
