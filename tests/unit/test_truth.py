"""Tests, without servers, of the campaign that measures how often `costof` is wrong: its design, rows and page."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from click import ClickException

from costof.statistics.estimate import Verdict
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.fake_run import Slice, Truth, fake_run
from tests.noise import Chance
from truth import page, plan
from truth.__main__ import DOCS
from truth.campaign import check_commit, describe, judge_again, run_campaign
from truth.design import (
    BENCHMARKER,
    CARRY_OVER,
    CELLS,
    DISTURBED,
    EARLIER,
    FULL,
    IDENTICAL,
    MAIN,
    NOTHING,
    QUICK,
    SERVICES,
    TENTH,
    Cost,
    Trial,
    part,
    trials,
)
from truth.figures import COVERAGE, Proportion, cases, least_found, replicates, speeds
from truth.judged import Judged, rows_of
from truth.ledgers import Ledgers
from truth.rows import ROWS, EffectRow, PairRow, PeerRow, QuickRow, Rows, TailRow
from truth.runs import plan_trial
from truth.speed import timed
from truth.whole_figures import commands, identical, judged_different, peer_judged_different, quick_profiles

CONTROL_MS = 0.1
ADDED_MS = 0.2


@pytest.fixture(autouse=True)
def commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truth.campaign._commit", lambda: "abc1234")


def effect(trial: Trial, arm: str = "1", error: float = 0.0, verdict: Verdict | None = None, **more: Any) -> EffectRow:
    """Return an effect whose estimate is wrong by `error` ms and has an interval of ±1 % of the control's time."""
    truth = 0.0 if arm == "replicate" else trial.cost.share * CONTROL_MS
    middle, half = truth + error, 0.01 * CONTROL_MS
    return EffectRow(
        **dict(describe(trial)),
        arm=arm,
        truth=truth,
        long_run=truth,
        control=CONTROL_MS,
        estimate=middle,
        low=middle - half,
        high=middle + half,
        truth_ratio=1 + truth / CONTROL_MS,
        ratio_low=1 + (middle - half) / CONTROL_MS,
        ratio_high=1 + (middle + half) / CONTROL_MS,
        verdict="" if arm == "replicate" else (verdict or Verdict.UNRESOLVED).value,
        rounds=40,
        discarded=0,
        seconds=10.0,
        **more,
    )


def peer(trial: Trial, error: float) -> PeerRow:
    truth = trial.cost.share * CONTROL_MS
    return PeerRow(
        **dict(describe(trial)), truth=truth, control=CONTROL_MS, value=CONTROL_MS + truth + error, seconds=10.0
    )


def tail(trial: Trial, engine: float) -> TailRow:
    return TailRow(**dict(describe(trial)), percentile=99.0, operations=100, engine=engine, captured=100.0)


@pytest.mark.parametrize(
    ("proportion", "reaches"),
    [
        (Proportion(950, 1000), "yes"),
        (Proportion(95, 100), "yes, but too few runs to be sure"),
        (Proportion(100, 100), "no, but too few runs to be sure"),
        (Proportion(80, 100), "no"),
        (Proportion(1000, 1000), "no"),
    ],
)
def test_comparison_with_a_goal_says_if_there_are_too_few_runs_to_be_sure(proportion: Proportion, reaches: str) -> None:
    assert proportion.reaches(*COVERAGE) == reaches


def test_full_campaign_has_the_planned_number_of_runs_for_each_known_cost() -> None:
    all_trials = trials(FULL)
    assert max(Counter(trial.name for trial in all_trials).values()) == 1
    assert max(Counter(trial.seed for trial in all_trials).values()) == 1
    cells = Counter((trial.cost, trial.disturbed) for trial in all_trials if trial.kind == "effect")
    assert cells == {(cost, disturbed): runs for cost, runs in CELLS.items() for disturbed in DISTURBED}
    parts = [part(trial) for trial in all_trials]
    assert parts == sorted(parts)
    first = Counter(trial.cost for trial in all_trials if trial.kind == "effect" and part(trial) == 0)
    assert min(first[cost] for cost in MAIN) >= 450, "half of the runs are in the first part"


def test_committed_page_about_the_campaign_matches_the_plan_in_the_code() -> None:
    assert (page_of_docs := DOCS / plan.PAGE).read_text() == plan.text(), (
        f"python -m truth --plan writes {page_of_docs}"
    )


def test_campaign_refuses_to_continue_on_another_commit_or_with_uncommitted_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Rows(tmp_path)
    check_commit(rows)
    rows.add([effect(trials(QUICK)[0])])
    check_commit(rows)
    for commit, message in (("abc1234+", "commit your changes"), ("def5678", "measured at abc1234")):
        monkeypatch.setattr("truth.campaign._commit", lambda commit=commit: commit)
        with pytest.raises(ClickException, match=message):
            check_commit(rows)


def test_campaign_continues_after_an_interruption(tmp_path: Path) -> None:
    done, cut = trials(QUICK)[:2]
    rows = Rows(tmp_path)
    rows.add([effect(done), effect(done, "replicate")])
    with (tmp_path / ROWS).open("a") as file:
        file.write(effect(cut).model_dump_json()[:100])
    again = Rows(tmp_path)
    assert again.effects == rows.effects
    assert (again.has(done), again.has(cut)) == (True, False)
    again.add([effect(cut)])
    assert Rows(tmp_path).has(cut)


def test_truth_campaign_continues_from_the_trials_stored_in_docs(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "before")
    one, other = trials(QUICK)[:2]
    rows.add([effect(one), tail(other, 1.0)])
    rows.write_parquet(tmp_path / "published")
    after = Rows(tmp_path / "after", tmp_path / "published")
    assert (after.effects, after.tails, after.peers) == (rows.effects, rows.tails, [])
    after.add([effect(other)])
    assert len(Rows(tmp_path / "after", tmp_path / "published").effects) == 2


def test_first_runs_of_a_campaign_after_each_boot_measure_the_service_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[Trial] = []

    def run_trial(trial: Trial, *_: object) -> list[EffectRow]:
        done.append(trial)
        return [effect(trial)]

    monkeypatch.setattr("truth.campaign._run_trial", run_trial)
    rows, ledgers = Rows(tmp_path / "one"), Ledgers(tmp_path)
    run_campaign(QUICK, rows, ledgers)
    assert sorted(trial.name for trial in done) == sorted(trial.name for trial in trials(QUICK))
    assert [trial.cost for trial in done[:6]] == [NOTHING] * 6
    assert {(trial.service, trial.disturbed) for trial in done[:6]} == set(product(SERVICES, DISTURBED))
    before = {trial.name for trial in done}
    done.clear()
    of_another_boot = Rows(tmp_path / "another")
    of_another_boot.add([row.model_copy(update={"boot": "another"}) for row in rows.effects])
    run_campaign(QUICK, of_another_boot, ledgers)
    assert [trial.cost for trial in done] == [NOTHING] * 6
    assert not before & {trial.name for trial in done}
    done.clear()
    run_campaign(QUICK, of_another_boot, ledgers)
    assert done == []


class Paying(Truth):
    """A simulated run in which the relay reports that it has added `ADDED_MS` to operations of protected arms."""

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        measured = super().slice(plan, workload, arm, chance)
        return replace(measured, figures={"added": ADDED_MS if arm in plan.protected else 0.0})


def test_results_of_the_campaign_are_recomputed_for_runs_with_archived_raw_results(tmp_path: Path) -> None:
    kept, missing = (Trial("effect", "mariadb", Cost("all", 0.2), False, number) for number in range(2))
    plan = plan_trial(kept, rounds=8)
    (arm,) = plan.protected
    ledgers, rows = Ledgers(tmp_path), Rows(tmp_path)
    ledgers.keep(kept.name, fake_run(tmp_path / "run", plan, Paying({("query", arm.protection): 1 + ADDED_MS})))
    before = [effect(kept), effect(kept, "replicate"), effect(missing)]
    rows.add(before)
    assert judge_again(rows, ledgers) == 0
    again = Rows(tmp_path).by_trial()
    paying, replicate = again[kept.name]
    assert (again[missing.name], [missing.name, kept.name]) == (before[2:], [*again])
    assert (paying.about, paying.long_run, replicate.arm) == (before[0].about, before[0].long_run, "replicate")
    assert (paying.truth, paying.verdict, paying.rounds) == (pytest.approx(ADDED_MS), Verdict.COSTS.value, 8)
    assert paying.low <= ADDED_MS <= paying.high
    assert paying.judged_anew


def test_coverage_and_shares_of_verdicts_leave_out_copies_of_the_control() -> None:
    cost = TENTH
    wrong, right = (Trial("effect", "mariadb", cost, False, number) for number in range(2))
    rows = [effect(wrong, error=0.002), effect(right, verdict=Verdict.COSTS), effect(right, "replicate", error=1.0)]
    (case,) = cases(rows)
    assert (case.covered, case.judged_costs) == (Proportion(1, 2), Proportion(1, 2))
    assert case.ratios_covered == Proportion(1, 2)
    assert case.half_width == pytest.approx(0.01)
    assert case.error == pytest.approx(0.01)


def test_share_of_detected_costs_excludes_runs_whose_slowest_queries_were_not_analysed() -> None:
    cost = TENTH
    reports = [{"verdict": Verdict.COSTS}, {"intermittent": True}, {"tail_told": True}, {"tail_told": False}, {}]
    # The last run has no field `tail_told`, as if its slowest queries had not been analysed.
    columns = [{"tail_told": False, **each} for each in reports[:-1]] + reports[-1:]
    (case,) = cases(
        effect(Trial("effect", "mariadb", cost, False, number), **each) for number, each in enumerate(columns)
    )
    counts = (case.judged_costs, case.noticed, case.noticed_at_all)
    assert counts == (Proportion(1, 5), Proportion(2, 5), Proportion(3, 4))


def test_runs_with_and_without_a_simulated_effect_of_the_previous_arm_are_counted_separately() -> None:
    plain, carried = (Trial("effect", "http", cost, False, 0) for cost in (NOTHING, CARRY_OVER[0]))
    rows = [effect(plain), effect(plain, "replicate"), effect(carried, order_told=True), effect(carried, "replicate")]
    found = cases(rows)
    assert [case.truth for case in found] == ["nothing", "nothing, with carry-over"]
    assert [case.carry_over_reported for case in found] == [Proportion(0, 1), Proportion(1, 1)]
    assert replicates(rows) == rows[1:2], "with carry-over the copy differs from its control"


def test_smallest_reliably_detected_cost_is_larger_than_every_undetected_cost() -> None:
    verdicts = {0.005: Verdict.COSTS, 0.02: Verdict.UNRESOLVED, 0.2: Verdict.COSTS}
    trials = {share: Trial("effect", "http", Cost("all", share), False, 0) for share in verdicts}
    rows = [effect(trials[share], verdict=verdict) for share, verdict in verdicts.items()]
    assert least_found(cases(rows), disturbed=False) == 0.2
    assert least_found(cases(rows[:2]), disturbed=False) is None


@pytest.mark.slow
def test_current_and_earlier_analysis_both_detect_a_large_cost(tmp_path: Path) -> None:
    trial = Trial("verdict", "mariadb", TENTH, False, 0, arms=2)
    plan = plan_trial(trial, rounds=8)
    truth = Paying({("query", arm.protection): 1 + ADDED_MS for arm in plan.protected})
    done = Judged(fake_run(tmp_path / "run", plan, truth))
    rows = timed(done, rows_of(done, describe(trial), ADDED_MS))
    found = {row.arm: (row.seconds_to_verdict is not None, row.seconds_earlier is not None) for row in rows}
    assert found == {"1": (True, True), "2": (True, True), "replicate": (False, False)}


@pytest.mark.parametrize(
    ("current", "earlier", "reached"),
    [(2.0, 4.0, "yes"), (2.1, 4.0, "no"), (9.0, None, "yes"), (None, 4.0, "no"), (None, None, "no")],
)
def test_goal_for_the_time_to_a_verdict_is_half_of_the_time_of_the_earlier_version(
    current: float | None, earlier: float | None, reached: str
) -> None:
    times = {"costof": {"seconds_to_verdict": current}, EARLIER: {"seconds_earlier": earlier}}
    rows = [
        effect(Trial("verdict", "mariadb", TENTH, False, 0, tool=tool, arms=6), **each) for tool, each in times.items()
    ]
    assert page.goal_of_speed(speeds(rows))[-1] == reached


def quick(number: int, arm: str, ratio: float, half: float, verdict: Verdict, seconds: float = 40.0) -> QuickRow:
    """Return an effect whose interval has the half-width `half` on a logarithmic scale."""
    return QuickRow(
        **dict(describe(Trial("quick", "redis-tls", NOTHING, False, number))),
        metric="wire.connect",
        arm=arm,
        ratio=ratio,
        ratio_low=ratio * math.exp(-half),
        ratio_high=ratio * math.exp(half),
        verdict=verdict.value,
        rounds=9,
        seconds=seconds,
    )


def pair(number: int, verdict: Verdict, peer_ratio: float, peer_error: float, cost: Cost | None = None) -> PairRow:
    """Return the comparison of a command with itself or, with a `cost`, of two commands."""
    trial = Trial("pair", IDENTICAL, NOTHING, False, number)
    truths = {}
    if cost is not None:
        trial = Trial("command", "http", cost, False, number, tool=BENCHMARKER)
        truths = dict.fromkeys(("truth_ratio", "peer_truth_ratio"), 1 + cost.share)
    both = {"peer_ratio": peer_ratio, "peer_error": peer_error, "seconds": 3.0, **truths}
    return PairRow(**dict(describe(trial)), ratio=1.0, ratio_low=0.9, ratio_high=1.1, verdict=verdict.value, **both)


def test_ratios_of_commands_with_a_known_cost_are_compared_with_the_true_ratio() -> None:
    rows = [pair(0, Verdict.COSTS, 1.1, 0.05, TENTH), pair(1, Verdict.UNRESOLVED, 1.21, 0.3, TENTH)]
    same = pair(0, Verdict.NO_DIFFERENCE, 1.0, 0.1)
    (found,) = commands([*rows, same])
    assert identical([*rows, same]) == [same]
    assert (found.covered, found.judged_costs, found.peer_slower) == (
        Proportion(2, 2),
        Proportion(1, 2),
        Proportion(1, 2),
    )
    assert (found.error, found.peer_error) == (pytest.approx(1 / 11), pytest.approx(0.05))


def test_share_of_resolved_effects_in_quick_runs_counts_only_large_effects() -> None:
    costs, unresolved = Verdict.COSTS, Verdict.UNRESOLVED
    rows = [quick(number, "large", 2.0, math.log(2) / 4, costs if number else unresolved) for number in range(10)]
    rows += [quick(number, "saves", 0.8, 0.1, costs if number > 1 else unresolved, 50.0) for number in range(10)]
    rows += [quick(number, "small", 1.05, 0.1, unresolved) for number in range(10)]
    (profile,) = quick_profiles(rows)
    assert (profile.study, len(profile.seconds)) == ("redis-tls", 10)
    large, saves = profile.large
    assert (large.arm, large.resolved, large.clearance) == ("large", Proportion(9, 10), pytest.approx(4))
    assert (saves.arm, saves.resolved) == ("saves", Proportion(8, 10))
    assert profile.resolved == Proportion(1, 2)


def test_wrong_verdicts_of_each_tool_about_identical_commands_are_counted() -> None:
    pairs = [
        pair(0, Verdict.COSTS, 1.02, 0.05),
        pair(1, Verdict.NO_DIFFERENCE, 1.06, 0.05),
        pair(2, Verdict.UNRESOLVED, 0.9, 0.05),
    ]
    assert (judged_different(pairs), peer_judged_different(pairs)) == (Proportion(1, 3), Proportion(2, 3))


def campaign(folder: Path) -> Rows:
    rows = Rows(folder / "rows")
    for trial in trials(QUICK):
        match trial.kind:
            case "peer":
                rows.add([peer(trial, 0.0)])
            case "tail":
                rows.add([tail(trial, 101.0), tail(trial, 101.0).model_copy(update={"percentile": 50.0})])
            case "effect":
                rows.add([effect(trial), effect(trial, "replicate")])
    return rows


@pytest.mark.slow
def test_page_of_a_quick_campaign_has_every_table_and_picture(tmp_path: Path) -> None:
    rows = campaign(tmp_path)
    for trial in trials(QUICK):
        if trial.kind == "verdict":
            rows.add([effect(trial, seconds_to_verdict=1.0, seconds_earlier=2.0), effect(trial, "replicate")])
        if trial.kind == "pair":
            rows.add([pair(trial.number, Verdict.NO_DIFFERENCE, 1.06, 0.05)])
        if trial.kind == "command" and not trial.disturbed:
            rows.add([pair(trial.number, Verdict.COSTS, 1.06, 0.05, trial.cost)])
    rows.add([quick(number, "tls", 2.0, 0.1, Verdict.COSTS) for number in range(2)])
    assert not page.write(campaign(tmp_path / "without commands"), tmp_path, QUICK)
    assert not (tmp_path / page.PAGE).exists()
    assert page.write(rows, tmp_path, QUICK)
    text = (tmp_path / page.PAGE).read_text()
    assert "| `redis-tls` | 2 | 40 s, at most 40 | 1 of 1 | 6.9 | – |" in text
    assert "In 5 trials, `costof versus` compares a command with itself" in text
    assert "| nothing, with carry-over | alone |" in text
    assert "half-width ±1.0%" in text
    assert {path.name for path in (tmp_path / page.FOLDER).iterdir()} == {
        *(f"{name}.parquet" for name in ("effects", "peers", "tails", "quick", "pairs")),
        *(f"{name}.svg" for name in ("coverage", "power", "errors", "seconds")),
    }
