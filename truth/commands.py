"""Comparisons of commands by `costof versus`, as users start it, and by another tool.

A comparison has one of two forms. It compares a command with itself, or two commands that send the same request through
a relay. The relay delays the requests of one command.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from costof.errors import EXIT_ANSWERED, EXIT_PARTIAL, CostofError, ErrorText
from costof.programs.relay import FREE
from costof.report.result import Result
from costof.results.models import Effect
from truth.design import BENCHMARKER, PAIR_SECONDS, TIMEOUT_SECONDS, Trial
from truth.lab import TruthLab
from truth.rows import PairRow, Row
from truth.runs import SERVERS, plan_trial

ROOT = Path(__file__).parents[1]
#: A command that takes some milliseconds on any machine.
COMMAND = f"gzip --best --stdout {ROOT / 'engine' / 'Cargo.lock'}"
#: How often the command that sends a request is run before the comparison, to find out its duration.
RUNS_BEFORE = 30
MS_PER_SECOND = 1000.0


def pair(trial: Trial, about: Row) -> PairRow:
    """Compare `COMMAND` with itself, by `costof` and then for the same time by the other tool (`BENCHMARKER`)."""
    effect = _compare(trial, COMMAND, COMMAND)
    return _row(about, effect, _run_benchmarker(effect, COMMAND, COMMAND))


def command(trial: Trial, about: Row) -> PairRow:
    """Compare two commands by `costof`, and then by the other tool (`BENCHMARKER`). The relay delays one command."""
    plan = plan_trial(trial, PAIR_SECONDS)
    control, arm = plan.controls[0], plan.protected[0]
    with TruthLab(plan, SERVERS[trial.service], FREE) as lab:
        cost = trial.cost.at(_milliseconds(_request(lab.entrance(control))))
    with TruthLab(plan, SERVERS[trial.service], cost) as lab:
        commands = [_request(lab.entrance(each)) for each in (control, arm)]
        effect = _compare(trial, *commands)
        added, paid = lab.added_ms(arm), lab.paid(arm)
        peer = _run_benchmarker(effect, *commands)
        peer_added = lab.added_ms(arm, paid)
    return _row(about, effect, peer).model_copy(update={"truth": added, "peer_truth": peer_added})


def _request(address: str) -> str:
    return f"curl --silent --output /dev/null http://{address}/"


def _milliseconds(line: str) -> float:
    """Return the median time of a command in ms."""
    times = []
    for _ in range(RUNS_BEFORE):
        began = time.monotonic()
        subprocess.run(line.split(), check=True, timeout=TIMEOUT_SECONDS)
        times.append(time.monotonic() - began)
    return median(times) * MS_PER_SECOND


def _row(about: Row, effect: Effect, peer: tuple[dict[str, float], dict[str, float]]) -> PairRow:
    first, second = peer
    ratio = second["mean"] / first["mean"]
    return PairRow(
        **dict(about),
        control=effect.control_value,
        estimate=effect.difference.value,
        low=effect.difference.low,
        high=effect.difference.high,
        verdict=effect.verdict.value,
        peer_control=first["mean"] * MS_PER_SECOND,
        peer_estimate=(second["mean"] - first["mean"]) * MS_PER_SECOND,
        peer_ratio=ratio,
        # Compute this error as hyperfine computes the ± in "1.02 ± 0.03 times faster".
        peer_error=ratio * math.hypot(first["stddev"] / first["mean"], second["stddev"] / second["mean"]),
        seconds=PAIR_SECONDS,
    )


def _compare(trial: Trial, first: str, second: str) -> Effect:
    """Return the effect of the second command against the first, in the metric that answers the question."""
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, "-m", "costof", "versus", "--budget", f"{PAIR_SECONDS}s", "--seed", str(trial.seed)]
        argv += ["--out", f"{folder}/run", first, second]
        completed = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
        file = Path(folder) / "run" / "result.json"
        result = Result.model_validate_json(file.read_bytes()) if file.exists() else None
        # A run with too few rounds for a verdict counts too. It ends with `EXIT_PARTIAL`, as a run does that was ended.
        if completed.returncode not in (EXIT_ANSWERED, EXIT_PARTIAL) or result is None or result.partial:
            raise CostofError(ErrorText.INSTRUMENT_FAILED, instrument="costof", detail=completed.stderr[-300:])
    headline = next(metric.name for metric in result.metrics if metric.headline)
    return next(each for each in result.effects if each.metric == headline)


def _run_benchmarker(effect: Effect, *commands: str) -> tuple[dict[str, float], dict[str, float]]:
    """Measure two commands with `BENCHMARKER` for about as long as `costof` did, and return its figures of each."""
    runs = max(10, round(PAIR_SECONDS / 2 / (effect.control_value / MS_PER_SECOND)))
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        argv = [BENCHMARKER, "--shell", "none", "--warmup", "3", "--runs", str(runs), "--export-json", file.name]
        subprocess.run([*argv, *commands], capture_output=True, check=True, timeout=TIMEOUT_SECONDS)
        first, second = json.load(file)["results"]
    return first, second
