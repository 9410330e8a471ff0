"""The truth campaign: runs on real servers report the known delay that a relay in front of them adds."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from costof.programs.relay import FREE, NS_PER_MS, All, RelayCost, Warming
from costof.results.ledger import SliceRecord
from costof.services import Observation
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.support.small_plans import ended_by_operations
from truth.campaign import describe
from truth.design import NOTHING, SERVICES, Trial
from truth.judged import Judged, rows_of
from truth.lab import TruthLab
from truth.runs import NoProgress, measure, plan_trial

pytestmark = pytest.mark.servers

ADDED_MS = 0.2


def planned_by_operations(trial: Trial, rounds: int) -> Plan:
    """Return a trial's plan with slices of 50 operations: a busy machine may complete none in the usual 40 ms."""
    return ended_by_operations(plan_trial(trial, rounds=rounds), query=50)


@pytest.mark.parametrize("service", SERVICES)
def test_protected_arm_has_the_cost_that_the_relay_adds(service: str, tmp_path: Path) -> None:
    trial = Trial("effect", service, NOTHING, False, 0)
    cost = RelayCost(added_ns=round(ADDED_MS * NS_PER_MS), payers=All())
    done = Judged(measure(planned_by_operations(trial, rounds=3), service, cost, tmp_path / "run"))
    paying, replicate = rows_of(done, describe(trial, commit=""), ADDED_MS)
    assert (done.result.partial, done.result.errors) == (None, [])
    assert min(done.effect("server.added", paying.arm).differences) >= ADDED_MS
    assert (paying.rounds, paying.discarded, replicate.truth) == (3, 0, 0.0)
    assert paying.truth >= ADDED_MS
    assert paying.truth_ratio > 1
    assert paying.control + paying.estimate >= ADDED_MS


def test_simulated_cold_cache_delays_only_measurements_that_follow_another_arm(tmp_path: Path) -> None:
    warming = Warming(requests=20, added_ns=round(ADDED_MS * NS_PER_MS))
    cost = RelayCost(added_ns=0, payers=All(), warming=warming)
    plan = planned_by_operations(Trial("effect", "http", NOTHING, False, 0), rounds=4)
    ledger = measure(plan, "http", cost, tmp_path / "run")
    slices = [record for record in ledger.records() if isinstance(record, SliceRecord)]
    changed, unchanged = set(), set()
    for before, record in pairwise(slices):
        if record.workload == before.workload == "query":
            same = record.answer.arm.removesuffix("-copy") == before.answer.arm.removesuffix("-copy")
            (unchanged if same else changed).add(record.server_counts["cold"])
            assert record.server_figures["added"] >= 0
    assert unchanged == {0}
    assert len(changed) == 1, "as many as remain after the connection was opened"
    assert 0 < min(changed) < warming.requests


def test_each_measurement_opens_new_connections(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A connection kept for the whole run could be faster or slower than others by chance, and bias the effect."""
    counts: list[int | None] = []
    usual = TruthLab.observe

    def observe(lab: TruthLab, arm: PlannedArm) -> Observation | None:
        counts.append(lab.counters("").connections)
        return usual(lab, arm)

    monkeypatch.setattr(TruthLab, "observe", observe)
    plan = planned_by_operations(Trial("effect", "http", NOTHING, False, 0), rounds=3)
    ledger = measure(plan, "http", FREE, tmp_path / "run")
    slices = [record for record in ledger.records() if isinstance(record, SliceRecord)]
    # Connections between the end of a slice and the beginning of the next one. Before the first slice, the run has also
    # verified the arms.
    opened = [
        (before or 0) - (last or 0)
        for record, before, last in zip(slices[1:], counts[2::2], counts[1::2], strict=False)
        if record.workload == "query"
    ]
    assert len(opened) >= 3 * len(plan.arms), "the slices of three rounds"
    assert opened == [1] * len(opened)
    assert not any(record.mismatch for record in slices)
    assert all(record.answer.evidence["connections"] == 0 for record in slices if record.workload == "query")


def test_ctrl_c_ends_a_trial_without_a_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(NoProgress, "round", pressed)
    trial = Trial("effect", "mariadb", NOTHING, False, 0)
    with pytest.raises(KeyboardInterrupt):
        measure(plan_trial(trial, rounds=9), "mariadb", FREE, tmp_path / "run")
