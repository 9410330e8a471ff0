"""How long a run takes to reach a verdict with the current analysis, and with an earlier one, on the same records."""

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
    times = {"seconds_to_verdict": current(done), "seconds_earlier": earlier(done)}
    return [row.model_copy(update={name: by_arm.get(row.arm) for name, by_arm in times.items()}) for row in rows]


def current(done: Judged) -> dict[str, float | None]:
    """Return, for each arm, the seconds from the start of the run until the current analysis has the verdict 'costs'.

    The time ends with the first round from which the verdict stays 'costs'. It is None if the last verdict is not
    'costs'.
    """
    costing = [_costing(ledger) for ledger in _rounds_of(done.ledger)]
    every = range(len(costing))
    return {arm.name: _since_when(done, every, [arm.name in each for each in costing]) for arm in done.plan.protected}


def earlier(done: Judged) -> dict[str, float | None]:
    """Return the same times as `current`, computed by the analysis of commit `EARLIER` in a separate process."""
    means = {
        arm.name: {each.round: mean_ms(done.plan, each) for each in slices_of(done.ledger, arm.name)}
        for arm in done.plan.arms
    }
    rounds = sorted(set.intersection(*(set(by_round) for by_round in means.values())))
    values = {arm: [by_round[number] for number in rounds] for arm, by_round in means.items()}
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
        answer = subprocess.run(
            program, env=environment, input=json.dumps(question).encode(), check=True, capture_output=True
        )
    verdicts = json.loads(answer.stdout)
    return {arm.name: _since_when(done, rounds, each) for arm, each in zip(done.plan.protected, verdicts, strict=True)}


def _rounds_of(ledger: Ledger) -> Iterator[Ledger]:
    """Yield, for each round, a ledger (the stored records of a run) with the records up to the end of this round."""
    with tempfile.TemporaryDirectory() as folder:
        partial, rounds = Ledger.create(ledger.plan(), Path(folder) / "run"), 0
        for record in ledger.records():
            # Leave out the records of interim analyses, so that each replay is judged as if it were analysed only once.
            if isinstance(record, LookRecord):
                continue
            if isinstance(record, SliceRecord) and record.round > rounds:
                yield partial
                rounds = record.round
            partial.append(record)
        yield partial


def _costing(ledger: Ledger) -> set[str]:
    return {each.arm for each in analyse(ledger).effects if each.metric == QUERY and each.verdict is Verdict.COSTS}


def _since_when(done: Judged, rounds: Sequence[int], reached: Sequence[bool]) -> float | None:
    """Return the seconds from the start of the run to the end of the round from which `reached` stays true.

    `reached` has a value for each of `rounds`. Return None if its last value is false.
    """
    if not reached[-1]:
        return None
    last_without = max((place for place, each in enumerate(reached) if not each), default=-1)
    return done.seconds[rounds[last_without + 1]]
