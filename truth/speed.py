"""Seconds to a verdict: the analysis of today and an earlier one, both played over the same rounds as they came in."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from costof.report import analyse
from costof.results.ledger import Ledger, LookRecord, SliceRecord
from costof.statistics.estimate import Verdict
from truth.design import EARLIER
from truth.judged import QUERY, Judged, mean_ms, slices_of
from truth.rows import EffectRow

ROOT = Path(__file__).parents[1]


def timed(done: Judged, rows: Sequence[EffectRow]) -> list[EffectRow]:
    times = {"seconds_to_verdict": today(done), "seconds_earlier": earlier(done)}
    return [row.model_copy(update={name: by_arm.get(row.arm) for name, by_arm in times.items()}) for row in rows]


def today(done: Judged) -> dict[str, float | None]:
    """By arm; None where the run ended without the verdict. A verdict counts from when it stands to the run's end."""
    told = [_costing(ledger) for ledger in _rounds_of(done.ledger)]
    every = range(len(told))
    return {arm.name: _since_when(done, every, [arm.name in each for each in told]) for arm in done.plan.protected}


def earlier(done: Judged) -> dict[str, float | None]:
    """The same by the analysis of `EARLIER`, which runs in a process of its own."""
    means = {
        arm.name: {each.round: mean_ms(done.plan, each) for each in slices_of(done.ledger, arm.name)}
        for arm in done.plan.arms
    }
    rounds = sorted(set.intersection(*(set(of_arm) for of_arm in means.values())))
    values = {arm: [of_arm[number] for number in rounds] for arm, of_arm in means.items()}
    control = done.plan.controls[0]
    question = {
        "control": values[control.name],
        "replicate": values[done.plan.replicate(control).name],
        "arms": [values[arm.name] for arm in done.plan.protected],
        "margin": done.plan.study.metrics[QUERY].margin,
    }
    with tempfile.TemporaryDirectory() as folder:
        sources = subprocess.run(["git", "archive", EARLIER, "costof"], cwd=ROOT, check=True, capture_output=True)
        with tarfile.open(fileobj=io.BytesIO(sources.stdout)) as archive:
            archive.extractall(folder, filter="data")
        program = [sys.executable, str(Path(__file__).with_name("earlier.py"))]
        environment = os.environ | {"PYTHONPATH": folder}
        asked = json.dumps(question).encode()
        answer = subprocess.run(program, env=environment, input=asked, check=True, capture_output=True)
    told = json.loads(answer.stdout)
    return {arm.name: _since_when(done, rounds, each) for arm, each in zip(done.plan.protected, told, strict=True)}


def _rounds_of(ledger: Ledger) -> Iterator[Ledger]:
    """Yield the ledger as it was when each round had ended."""
    with tempfile.TemporaryDirectory() as folder:
        partial, rounds = Ledger.create(ledger.plan(), Path(folder) / "run"), 0
        for record in ledger.records():
            # What looks have spent of the error rate is not asked here.
            if isinstance(record, LookRecord):
                continue
            if isinstance(record, SliceRecord) and record.round > rounds:
                yield partial
                rounds = record.round
            partial.append(record)
        yield partial


def _costing(ledger: Ledger) -> set[str]:
    """Return the arms that are said to cost something."""
    return {each.arm for each in analyse(ledger).effects if each.metric == QUERY and each.verdict is Verdict.COSTS}


def _since_when(done: Judged, rounds: Sequence[int], stands: Sequence[bool]) -> float | None:
    """Seconds of the run after which something stood, by whether it did after each of these rounds."""
    if not stands[-1]:
        return None
    last_without = max((place for place, each in enumerate(stands) if not each), default=-1)
    return done.seconds[rounds[last_without + 1]]
