"""Whole runs that nobody watches."""

from __future__ import annotations

from pathlib import Path

from costof.lab.lab import Lab
from costof.results.ledger import Ledger
from costof.results.run import read_run
from costof.run.experiment import run
from costof.services.http.lab import HttpLab
from costof.services.server.lab import ServerLab
from costof.study.plan import Plan
from tests.support.programs import eventually


class Silent:
    """Of a run that nobody watches."""

    def stage(self, text: str) -> None: ...

    def round(self, done: int, elapsed_seconds: float, reached: float | None) -> None: ...


class _Killer(Silent):
    def __init__(self, lab: Lab, process: str) -> None:
        self._lab = lab
        self._process = process

    def round(self, done: int, elapsed_seconds: float, reached: float | None) -> None:
        if done == 1:
            self._lab.kill(self._process)
            eventually("the notice", lambda: bool(self._lab.dead()))


def lost_by_a_kill(plan: Plan, service: HttpLab | ServerLab, process: str, at: Path) -> dict[str, str]:
    """Why which arms were lost, where this process was killed after the first of two rounds.

    All others must have been measured to the end, and nothing else have gone wrong.
    """
    ledger = Ledger.create(plan, at)
    run(plan, service, ledger, _Killer(service._lab, process))
    found = read_run(ledger)
    assert found.end is not None
    assert found.end.partial is None
    arms = {arm.name for arm in plan.arms}
    assert {piece.answer.arm for piece in found.slices if piece.round == 0} == arms
    assert {piece.answer.arm for piece in found.slices if piece.round == 1} == arms - found.lost_arms.keys()
    assert not [piece.mismatch for piece in found.slices if piece.mismatch]
    assert not [piece.answer.errors for piece in found.slices if piece.answer.errors]
    return found.lost_arms
