"""Tests, without servers, of the campaign that measures how often `costof` is wrong: its design, rows and page."""

from __future__ import annotations

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
from truth.campaign import FAILURES_IN_A_ROW, check_commit, check_machine, describe, judge_again, run_campaign
from truth.design import (
    BENCHMARKER,
    CARRY_OVER,
    CELLS,
    DISTURBED,
    DOUBLED,
    FULL,
    IDENTICAL,
    MAIN,
    NOTHING,
    QUICK,
    SERVICES,
    SLICE_NS,
    TENTH,
    Cost,
    Trial,
    trials,
)
from truth.early_ends import EarlyEnd, Replay, replay
from truth.figures import (
    Proportion,
    cases,
    commands,
    identical,
    judged_different,
    least_found,
    peer_judged_different,
    replicates,
)
from truth.goals import COVERAGE, FALSE, goals
from truth.judged import Judged, rows_of
from truth.ledgers import Ledgers, Measured
from truth.rows import ROWS, AnyRow, EffectRow, FailureRow, PairRow, PeerRow, Rows, TailRow
from truth.runs import plan_trial

COMMIT = "abc1234"
CONTROL_MS = 0.1
ADDED_MS = 0.2
OVERSHOOT_MS = 0.05


@pytest.fixture(autouse=True)
def commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truth.campaign.read_commit", lambda: COMMIT)
    monkeypatch.setattr("truth.campaign.wait_until_idle", lambda: 0.0)


def effect(
    trial: Trial, arm: str = "some", error: float = 0.0, verdict: Verdict | None = None, **more: Any
) -> EffectRow:
    """Return an effect whose estimate is wrong by `error` ms and has an interval of ±1 % of the control's time."""
    truth = 0.0 if arm == "replicate" else trial.cost.share * CONTROL_MS
    middle, half = truth + error, 0.01 * CONTROL_MS
    return EffectRow(
        **dict(describe(trial, COMMIT)),
        arm=arm,
        added=truth,
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
        **dict(describe(trial, COMMIT)), truth=truth, control=CONTROL_MS, value=CONTROL_MS + truth + error, seconds=10.0
    )


def tail(trial: Trial, engine: float) -> TailRow:
    return TailRow(**dict(describe(trial, COMMIT)), percentile=99.0, operations=100, engine=engine, captured=100.0)


@pytest.mark.parametrize(
    ("proportion", "reaches"),
    [
        (Proportion(950, 1000), "yes"),
        (Proportion(965, 1000), "yes"),
        (Proportion(425, 450), "too few runs"),
        (Proportion(100, 100), "no, but too few runs to be sure"),
        (Proportion(80, 100), "no"),
        (Proportion(1000, 1000), "no"),
    ],
)
def test_coverage_is_as_it_should_be_if_its_interval_is_narrow_too(proportion: Proportion, reaches: str) -> None:
    assert COVERAGE.is_met_by(proportion) == reaches


@pytest.mark.parametrize(("false", "reaches"), [(45, "yes"), (46, "no, but too few runs to be sure"), (70, "no")])
def test_at_most_one_verdict_in_twenty_may_be_false(false: int, reaches: str) -> None:
    assert FALSE.is_met_by(Proportion(false, 900)) == reaches


def test_full_campaign_has_the_planned_number_of_runs_for_each_known_cost() -> None:
    all_trials = trials(FULL)
    assert max(Counter(trial.name for trial in all_trials).values()) == 1
    assert max(Counter(trial.seed for trial in all_trials).values()) == 1
    cells = Counter((trial.cost, trial.disturbed) for trial in all_trials if trial.kind == "effect")
    assert cells == {(cost, disturbed): runs // 2 for cost, runs in CELLS.items() for disturbed in DISTURBED}
    assert min(CELLS[cost] for cost in MAIN) >= 450


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
        monkeypatch.setattr("truth.campaign.read_commit", lambda commit=commit: commit)
        with pytest.raises(ClickException, match=message):
            check_commit(rows)


def test_campaign_does_not_begin_without_the_other_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ClickException, match="ab, wrk, hyperfine not found"):
        check_machine()


def test_length_of_slices_is_that_of_which_the_cost_of_spells_is_computed() -> None:
    plan = plan_trial(Trial("effect", "http", DOUBLED[1], False, 0), budget_seconds=10)
    assert plan.slices["query"].seconds * 1e9 == SLICE_NS
    # 0.16 s of each 2 s begin slices within a spell, and 0.08 s slices across its ends, of which 0.386 pay.
    assert DOUBLED[1].paying == pytest.approx((0.16 + 0.08 * 0.386) / 2, rel=0.001)


@pytest.mark.parametrize("cost", CARRY_OVER)
def test_slices_with_carry_over_have_equally_many_requests_and_cold_ones(cost: Cost) -> None:
    size = plan_trial(Trial("effect", "http", cost, False, 0), budget_seconds=10).slices["query"]
    assert size.operations < 1000
    warming = cost.at(service_ms=0.1).warming
    assert warming is not None
    assert warming.added_ns == 100_000


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


def test_trial_is_repeated_if_only_its_first_row_was_written(tmp_path: Path) -> None:
    done, cut = trials(QUICK)[:2]
    rows = Rows(tmp_path)
    rows.add([effect(done), effect(done, "replicate"), effect(cut)])
    with (tmp_path / ROWS).open("a") as file:
        file.write(effect(cut, "replicate").model_dump_json()[:100])
    assert (Rows(tmp_path).has(done), Rows(tmp_path).has(cut)) == (True, False)
    assert (Rows(tmp_path).has(done), Rows(tmp_path).has(cut)) == (True, False), "also after the file was mended"


def test_torn_first_line_of_a_campaign_is_dropped(tmp_path: Path) -> None:
    (tmp_path / ROWS).write_text(effect(trials(QUICK)[0]).model_dump_json()[:100])
    Rows(tmp_path).add([effect(trials(QUICK)[0])])
    assert Rows(tmp_path).has(trials(QUICK)[0])


def test_truth_campaign_continues_from_the_trials_stored_in_docs(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "before")
    one, other = trials(QUICK)[:2]
    rows.add([effect(one), tail(other, 1.0)])
    rows.write_parquet(tmp_path / "published")
    after = Rows(tmp_path / "after", tmp_path / "published")
    assert (after.effects, after.tails, after.peers) == (rows.effects, rows.tails, [])
    after.add([effect(other)])
    assert len(Rows(tmp_path / "after", tmp_path / "published").effects) == 2


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[Trial]:
    """Return the list of trials that a campaign runs. Instead of a measurement, each has a row."""
    trials_run: list[Trial] = []

    def run_trial(trial: Trial, *_: object) -> list[AnyRow]:
        trials_run.append(trial)
        return [effect(trial)]

    monkeypatch.setattr("truth.campaign._run_trial", run_trial)
    return trials_run


def test_first_runs_of_a_campaign_after_each_boot_measure_the_service_times(tmp_path: Path, done: list[Trial]) -> None:
    rows, ledgers = Rows(tmp_path / "one"), Ledgers(tmp_path)
    run_campaign(QUICK, rows, ledgers)
    assert sorted(trial.name for trial in done) == sorted(trial.name for trial in trials(QUICK))
    assert [trial.cost for trial in done[:6]] == [NOTHING] * 6
    assert {(trial.service, trial.disturbed) for trial in done[:6]} == set(product(SERVICES, DISTURBED))
    before = {trial.name for trial in done}
    done.clear()
    missing = next(trial for trial in trials(QUICK) if trial.cost != NOTHING)
    of_another_boot = Rows(tmp_path / "another")
    others = [row.model_copy(update={"boot": "another"}) for row in rows.effects if row.trial != missing.name]
    of_another_boot.add(others)
    run_campaign(QUICK, of_another_boot, ledgers)
    assert ([trial.cost for trial in done[:6]], done[6:]) == ([NOTHING] * 6, [missing])
    assert not before & {trial.name for trial in done[:6]}
    done.clear()
    of_another_boot.replace([row.model_copy(update={"boot": "a third"}) for row in of_another_boot.effects])
    run_campaign(QUICK, of_another_boot, ledgers)
    assert done == [], "if no trial remains, no service time is needed"


def test_campaign_ends_when_the_sources_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: list[Trial]
) -> None:
    monkeypatch.setattr("truth.campaign.read_commit", lambda: "def5678" if len(done) == 2 else COMMIT)
    with pytest.raises(ClickException, match="the sources have changed"):
        run_campaign(QUICK, Rows(tmp_path), Ledgers(tmp_path))
    assert len(done) == 2


@pytest.mark.parametrize(
    ("succeed", "failures"), [(len(SERVICES) * len(DISTURBED), FAILURES_IN_A_ROW), (1, 1)], ids=["any", "service time"]
)
def test_campaign_ends_when_many_trials_fail_or_one_that_others_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, succeed: int, failures: int
) -> None:
    tried = []

    def fail_later(trial: Trial, *_: object) -> list[AnyRow]:
        tried.append(trial)
        if len(tried) > succeed:
            raise OSError("no server")
        return [effect(trial)]

    monkeypatch.setattr("truth.campaign._run_trial", fail_later)
    rows = Rows(tmp_path)
    with pytest.raises(ClickException, match="in a row failed"):
        run_campaign(QUICK, rows, Ledgers(tmp_path))
    assert [row.trial for row in rows.failures] == [trial.name for trial in tried[succeed:]]
    assert len(rows.failures) == failures
    assert not any(rows.has(trial) for trial in tried[succeed:])


class Paying(Truth):
    """A simulated run in which the relay reports that it has added `ADDED_MS` to operations of protected arms.

    It has also delayed all operations, of all arms, by `OVERSHOOT_MS` more than it should.
    """

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        measured = super().slice(plan, workload, arm, chance)
        return replace(measured, figures={"added": OVERSHOOT_MS + ADDED_MS * (arm in plan.protected)})


def test_results_of_the_campaign_are_recomputed_for_runs_with_archived_raw_results(tmp_path: Path) -> None:
    kept, missing = (Trial("effect", "mariadb", Cost("all", 0.2), False, number) for number in range(2))
    plan = plan_trial(kept, rounds=8)
    (arm,) = plan.protected
    ledgers, rows = Ledgers(tmp_path), Rows(tmp_path)
    measured = Measured(about=describe(kept, COMMIT), long_run_ms=ADDED_MS)
    ledgers.keep(measured, fake_run(tmp_path / "run", plan, Paying({("query", arm.protection): 1 + ADDED_MS})))
    assert (ledgers.trials(), ledgers.has(kept.name), ledgers.has(missing.name)) == ([kept.name], True, False)
    before = [effect(kept), effect(kept, "replicate"), effect(missing)]
    rows.add(before)
    assert judge_again(rows, ledgers) == 0
    other, paying, replicate = Rows(tmp_path).effects
    assert other == before[2]
    assert (paying.trial, paying.started, paying.long_run) == (kept.name, measured.about.started, ADDED_MS)
    assert replicate.arm == "replicate"
    assert (paying.truth, paying.verdict, paying.rounds) == (pytest.approx(ADDED_MS), Verdict.COSTS.value, 8)
    assert paying.low <= ADDED_MS <= paying.high
    assert paying.judged_anew
    assert paying.truth_ratio == pytest.approx(1 + ADDED_MS, rel=0.02)
    assert paying.replay.always_holds


def test_run_in_which_only_some_queries_pay_is_compared_with_an_endless_run(tmp_path: Path) -> None:
    trial = Trial("effect", "mariadb", DOUBLED[0], False, 0)
    plan = plan_trial(trial, rounds=8)
    (arm,) = plan.protected
    done = Judged(fake_run(tmp_path / "run", plan, Paying({("query", arm.protection): 1 + ADDED_MS})))
    row = next(row for row in rows_of(done, describe(trial, COMMIT), 2 * ADDED_MS) if row.arm == arm.name)
    assert (row.truth, row.added) == (2 * ADDED_MS, pytest.approx(ADDED_MS))
    assert row.truth_ratio == pytest.approx(1 + 2 * ADDED_MS, rel=0.02)
    assert row.replay.when_precise is not None
    assert row.replay.when_precise.truth == 2 * ADDED_MS
    assert not row.replay.always_holds


def test_measured_run_is_analysed_from_its_archive_if_its_rows_are_missing(tmp_path: Path) -> None:
    trial = trials(QUICK)[0]
    plan = plan_trial(trial, rounds=8)
    ledgers, rows = Ledgers(tmp_path), Rows(tmp_path)
    ledgers.keep(Measured(about=describe(trial, COMMIT), long_run_ms=0.0), fake_run(tmp_path / "run", plan, Paying({})))
    rows.add([effect(each) for each in trials(QUICK) if each != trial])
    assert run_campaign(QUICK, rows, ledgers) == 0
    assert [row.arm for row in rows.effects if row.trial == trial.name] == ["some", "replicate"]


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


@pytest.mark.parametrize("cost", DOUBLED)
def test_true_cost_of_what_only_some_queries_pay_is_that_of_an_endless_run(cost: Cost) -> None:
    row = effect(Trial("effect", "http", cost, False, 0)).model_copy(update={"long_run": 0.05})
    (case,) = cases([row])
    assert (case.covered, case.covered_as_added) == (Proportion(0, 1), Proportion(1, 1))


@pytest.mark.parametrize(("partial", "widened"), [(None, False), ("interrupted", True)])
def test_run_replayed_to_its_end_has_the_interval_that_its_report_has(
    tmp_path: Path, partial: str | None, widened: bool
) -> None:
    plan = plan_trial(Trial("effect", "mariadb", NOTHING, False, 0), budget_seconds=10)
    done = Judged(fake_run(tmp_path / "run", plan, Paying({}), rounds=12, partial=partial))
    (arm,) = plan.protected
    end, effect = replay(done.run, arm, endless_ms=None).when_convincing, done.effect("wire.query", arm.name)
    assert end is not None
    assert (end.rounds, end.estimate, end.truth) == (12, effect.difference.value, pytest.approx(ADDED_MS))
    assert end.estimate + end.reported_half_width(widened) == pytest.approx(effect.difference.high)


def test_convincing_run_ends_early_and_a_precise_one_does_too(tmp_path: Path) -> None:
    plan = plan_trial(Trial("effect", "mariadb", TENTH, False, 0), budget_seconds=10)
    (arm,) = plan.protected
    run = Judged(fake_run(tmp_path / "run", plan, Paying({("query", arm.protection): 1 + ADDED_MS}), rounds=60)).run
    replayed = replay(run, arm, endless_ms=ADDED_MS)
    convincing, precise = replayed.when_convincing, replayed.when_precise
    assert convincing is not None
    assert precise is not None
    assert convincing.rounds < precise.rounds < 60
    assert convincing.excludes_zero(widened=False)
    assert convincing.holds(widened=True)


def pair(number: int, verdict: Verdict, peer_ratio: float, peer_error: float, cost: Cost | None = None) -> PairRow:
    """Return the comparison of a command with itself or, with a `cost`, of two commands of 1 ms."""
    trial = Trial("pair", IDENTICAL, NOTHING, False, number)
    if cost is not None:
        trial = Trial("command", "http", cost, False, number, tool=BENCHMARKER)
    truth = cost.share if cost else 0.0
    return PairRow(
        **dict(describe(trial, COMMIT)),
        truth=truth,
        control=1.0,
        estimate=0.0,
        low=-0.1,
        high=0.1,
        verdict=verdict.value,
        peer_truth=truth,
        peer_control=1.0,
        peer_estimate=peer_ratio - 1,
        peer_ratio=peer_ratio,
        peer_error=peer_error,
        seconds=3.0,
    )


def test_differences_of_commands_with_a_known_cost_are_compared_with_the_true_cost() -> None:
    rows = [pair(0, Verdict.COSTS, 1.1, 0.05, TENTH), pair(1, Verdict.UNRESOLVED, 1.2, 0.3, TENTH)]
    same = pair(0, Verdict.NO_DIFFERENCE, 1.0, 0.1)
    (found,) = commands([*rows, same])
    assert identical([*rows, same]) == [same]
    assert (found.covered, found.judged_costs, found.peer_slower) == (
        Proportion(2, 2),
        Proportion(1, 2),
        Proportion(1, 2),
    )
    assert (found.error, found.peer_error) == (pytest.approx(0.1), pytest.approx(0.05))


def test_wrong_verdicts_of_each_tool_about_identical_commands_are_counted() -> None:
    pairs = [
        pair(0, Verdict.COSTS, 1.02, 0.05),
        pair(1, Verdict.NO_DIFFERENCE, 1.06, 0.05),
        pair(2, Verdict.UNRESOLVED, 0.9, 0.05),
    ]
    assert (judged_different(pairs), peer_judged_different(pairs)) == (Proportion(1, 3), Proportion(2, 3))


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [{"effect"}, {"effect", "peer", "command", "tail", "pair"}])
def test_page_of_a_campaign_shows_what_was_measured(tmp_path: Path, kinds: set[str]) -> None:
    rows = Rows(tmp_path / "rows")
    for trial in trials(QUICK):
        if trial.kind not in kinds:
            continue
        match trial.kind:
            case "peer":
                rows.add([peer(trial, 0.0)])
            case "tail":
                rows.add([tail(trial, 101.0), tail(trial, 101.0).model_copy(update={"percentile": 50.0})])
            case "effect":
                end = EarlyEnd(rounds=8, truth=0.0, estimate=0.01, half_width=0.02, wider=1.7)
                ends = Replay(when_convincing=end, when_precise=end, always_holds=True)
                rows.add([effect(trial, replay=ends), effect(trial, "replicate")])
            case "pair":
                rows.add([pair(trial.number, Verdict.NO_DIFFERENCE, 1.06, 0.05)])
            case "command":
                rows.add([pair(trial.number, Verdict.COSTS, 1.06, 0.05, trial.cost)])
    rows.add([FailureRow(**dict(describe(trials(QUICK)[0], COMMIT)), reason="no server")])
    assert page.write(rows, tmp_path, QUICK)
    text = (tmp_path / page.PAGE).read_text()
    assert f"- {trials(QUICK)[0].name}: no server" in text
    assert len(goals(rows)) == (14 if kinds == {"effect"} else 17)
    assert "| nothing, with carry-over | alone |" in text
    assert "| ±1.0% |" in text
    assert ("In 5 trials, `costof versus` compares a command with itself" in text) == ("pair" in kinds)
    files = {path.name for path in (tmp_path / page.FOLDER).iterdir()}
    assert files >= {"effects.parquet", "coverage.svg", "power.svg", "errors.svg"}
    if len(kinds) > 1:
        assert files >= {f"{name}.parquet" for name in ("effects", "peers", "tails", "pairs", "failures")}


def test_page_is_not_written_before_each_true_cost_has_a_run(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "rows")
    rows.add([effect(next(trial for trial in trials(QUICK) if trial.kind == "effect"))])
    assert not page.write(rows, tmp_path, QUICK)
    assert not (tmp_path / page.PAGE).exists()
