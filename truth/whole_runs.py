"""Runs of the command `costof` as users start it: quick profiles, and comparisons of a command with itself."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from costof.errors import EXIT_ANSWERED, EXIT_PARTIAL, CostofError, ErrorText
from costof.report.result import Result
from truth.design import BENCHMARKER, PAIR_SECONDS, Trial
from truth.rows import PairRow, QuickRow, Row

ROOT = Path(__file__).parents[1]
#: A command that takes some milliseconds on any machine.
COMMAND = f"gzip --best --stdout {ROOT / 'engine' / 'Cargo.lock'}"


def quick(trial: Trial, about: Row) -> list[QuickRow]:
    """Run a study's quick profile and return its headline effects. Raises `INSTRUMENT_FAILED` if the command fails."""
    began = time.monotonic()
    result = _run_costof(["run", trial.service, "--profile", "quick"], trial)
    seconds = time.monotonic() - began
    headline = {metric.name for metric in result.metrics if metric.headline}
    protected = {arm.name for arm in result.arms if not arm.control and not arm.replicate}
    return [
        QuickRow(
            **dict(about),
            metric=effect.metric,
            arm=effect.arm,
            ratio=effect.ratio.value,
            ratio_low=effect.ratio.low,
            ratio_high=effect.ratio.high,
            verdict=effect.verdict.value,
            rounds=effect.rounds,
            seconds=seconds,
        )
        for effect in result.effects
        if effect.metric in headline and effect.arm in protected and effect.ratio is not None
    ]


def pair(trial: Trial, about: Row) -> PairRow:
    """Compare the command with itself with `costof`, and then for the same time with the other tool."""
    result = _run_costof(["versus", "--budget", f"{PAIR_SECONDS}s", COMMAND, COMMAND], trial)
    headline = next(metric.name for metric in result.metrics if metric.headline)
    effect = next(each for each in result.effects if each.metric == headline)
    assert effect.ratio is not None, "every command takes its time"
    runs = max(10, round(PAIR_SECONDS / 2 / (effect.control_value / 1000)))
    first, second = _run_benchmarker(runs)
    ratio = second["mean"] / first["mean"]
    return PairRow(
        **dict(about),
        ratio=effect.ratio.value,
        ratio_low=effect.ratio.low,
        ratio_high=effect.ratio.high,
        verdict=effect.verdict.value,
        peer_ratio=ratio,
        # Compute this error as hyperfine computes the ± in "1.02 ± 0.03 times faster".
        peer_error=ratio * math.hypot(first["stddev"] / first["mean"], second["stddev"] / second["mean"]),
        seconds=PAIR_SECONDS,
    )


def _run_costof(arguments: Sequence[str], trial: Trial) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, "-m", "costof", *arguments, "--seed", str(trial.seed), "--out", f"{folder}/run"]
        completed = subprocess.run(argv, capture_output=True, text=True, check=False)
        if completed.returncode not in (EXIT_ANSWERED, EXIT_PARTIAL):
            raise CostofError(ErrorText.INSTRUMENT_FAILED, instrument="costof", detail=completed.stderr[-300:])
        return Result.model_validate_json((Path(folder) / "run" / "result.json").read_bytes())


def _run_benchmarker(runs: int) -> tuple[dict[str, float], dict[str, float]]:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        argv = [BENCHMARKER, "--shell", "none", "--warmup", "3", "--runs", str(runs), "--export-json", file.name]
        subprocess.run([*argv, COMMAND, COMMAND], capture_output=True, check=True)
        first, second = json.load(file)["results"]
    return first, second
