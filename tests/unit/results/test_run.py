"""Tests of the analysis of a run: discarded rounds, missing readings, starts of the servers, misleading costs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costof.report import analyse, render_markdown
from costof.report.result import Result
from costof.results.changes import every_change, judge_changes
from costof.results.core import build_core
from costof.results.disturbances import FEWEST_ROUNDS, MOST_DISCARDED, disturbances
from costof.results.ledger import SLICES, EndRecord, EnvironmentRecord, Ledger, LookRecord, SliceRecord
from costof.results.metrics import Samples, SliceKey, slice_figure
from costof.results.run import read_run
from costof.statistics.estimate import Estimate, Verdict
from costof.statistics.units import Units, variance_share_of_starts
from costof.studies import study_names
from costof.study.load import RequestedLoad
from costof.study.schema import Metric
from tests.fake_run import STARTED, Slice, Truth, answer_of, fake_result, fake_run, fake_start
from tests.noise import Noise
from tests.report.results import ENCRYPTION, HTTP, MONGODB, REPLICATION, effect_of, printed, sentence_texts, spaced
from tests.support.small_plans import plan_of, with_only
from tests.truths import TRUTHS
from tests.truths.at_load import AtLoad
from tests.truths.misleading import EveryQueryPays, Failing, FewPay, FewQueries, LongTail, NeverPlain, Stalling
from tests.truths.mongodb_tls import MongodbTruth

QUERY = "wire.reused_query"
#: A plan that measures only queries on the wire, so that its runs are analysed quickly.
PLAN = with_only(plan_of(MONGODB), "wire_query")
(TLS,) = PLAN.protected
ROUNDS = 8


EVERY_SECTION = (HTTP, ENCRYPTION, REPLICATION)


@pytest.mark.parametrize(
    "study",
    [pytest.param(name, marks=[] if name in EVERY_SECTION else pytest.mark.slow) for name in study_names()],
)
def test_analysis_detects_a_cost_only_for_the_protection_with_a_simulated_cost(study: str) -> None:
    plan = plan_of(study)
    costly = plan.protected[0].protection
    truth = Truth({(workload, costly): 1.5 for workload in plan.study.workloads})
    result = fake_result(plan, truth, noise=Noise(0.02, drift=0.05))
    effects = {(effect.metric, effect.arm): effect for effect in result.effects}
    assert {metric for metric, _ in effects} == plan.study.metrics.keys()
    for (name, arm), effect in effects.items():
        if plan.study.metrics[name].unit == "ms" and not plan.study.round_trip_ms(plan.arm(arm).levels):
            is_costly = plan.arm(arm).protection == costly
            assert effect.ratio is not None
            assert effect.ratio.value == pytest.approx(1.5 if is_costly else 1.0, abs=0.1), (name, arm)
            assert (effect.verdict is Verdict.COSTS) == is_costly


@pytest.mark.parametrize(("value", "verdict"), [(0.0, Verdict.NO_DIFFERENCE), (1.0, Verdict.COSTS)])
def test_metric_that_is_always_0_on_the_control_has_a_verdict(value: float, verdict: Verdict) -> None:
    """Such a metric is, for example, the rate of failed transactions."""
    samples, control = Samples(), PLAN.controls[0]
    for each in (control, PLAN.replicate(control), TLS):
        samples.mark_succeeded(SliceKey(PLAN.study.metrics[QUERY].workload, each.name))
        for number in range(6):
            samples.add(QUERY, each.name, number, value if each is TLS else 0.0)
    (found,) = (each for each in judge_changes(PLAN, every_change(PLAN, samples)) if each.metric == QUERY)
    assert found.verdict is verdict
    assert (found.change.relative() is None) == bool(value), "without any value on the control there is no ratio"


@pytest.mark.parametrize(
    ("phase", "per_second"),
    [
        ("tpcc.committed.payment", 20.0),
        ("tpcc.committed", 22.0),
        ("tpcc.deadlocks", 0.0),
        ("tpcc.rolled_back", None),
        ("http", None),
    ],
)
def test_rate_of_committed_transactions_sums_all_kinds_of_committed_transactions(
    phase: str, per_second: float | None
) -> None:
    counts = {"tpcc.committed.payment": 40, "tpcc.committed.delivery": 4, "tpcc.committed_late": 1, "tpcc.deadlocks": 0}
    metric = Metric(label="", description="", workload="w", phase=phase, unit="per_second", margin=0.1)
    answer = answer_of(Slice(50, 2.0, {}, {}, {}, counts=counts), "w", "arm")
    record = SliceRecord.model_construct(answer=answer, server_figures={}, server_cpu_seconds={})
    assert slice_figure(metric, record) == per_second


QUIET_ROUNDS = 20
Slices = list[SliceRecord]


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Slices:
    ledger = fake_run(tmp_path_factory.mktemp("quiet") / "run", PLAN, Truth(), rounds=QUIET_ROUNDS)
    return [record for record in ledger.records() if isinstance(record, SliceRecord)]


def with_load(slices: Slices, rounds: set[int], **load: float) -> Slices:
    """Return the slices as if the machine had other load in these rounds, and none in other rounds.

    `load` is for each second: with `foreign_cpu_seconds=0.5`, other programs use half a core.
    """

    def changed(record: SliceRecord) -> SliceRecord:
        seconds = record.answer.elapsed_ns / 1e9 if record.round in rounds else 0.0
        return record.model_copy(update={name: each * seconds for name, each in load.items()})

    return [changed(record) for record in slices]


discarded = partial(disturbances, cores=2)
EVERY_ROUND = set(range(QUIET_ROUNDS))


@pytest.mark.parametrize("kind", ["foreign_cpu_seconds", "steal_seconds"])
def test_round_disturbed_by_other_programs_is_discarded(quiet: Slices, kind: str) -> None:
    disturbed = discarded(with_load(quiet, {3, 11}, **{kind: 0.5}))
    assert (disturbed.discarded, disturbed.typical_share) == ({3, 11}, 0.0)


def test_constant_load_of_other_programs_disturbs_no_round(quiet: Slices) -> None:
    disturbed = discarded(with_load(quiet, EVERY_ROUND, foreign_cpu_seconds=0.6))
    assert (disturbed.discarded, disturbed.typical_share) == (frozenset(), pytest.approx(0.3))
    # The load is read before the slice is prepared and again after the slice, so a reading may cover much more time.
    with_longer_readings = [
        record.model_copy(update={"observed_seconds": 4 * record.answer.elapsed_ns / 1e9}) for record in quiet
    ]
    assert discarded(
        with_load(with_longer_readings, EVERY_ROUND, foreign_cpu_seconds=2.0)
    ).typical_share == pytest.approx(0.25)


def test_disturbed_rounds_are_kept_if_they_are_many_or_the_run_is_short(quiet: Slices) -> None:
    many = set(range(int(MOST_DISCARDED * QUIET_ROUNDS) + 1))
    few = [record for record in quiet if record.round < FEWEST_ROUNDS - 1]
    busy = with_load(quiet, many, foreign_cpu_seconds=1.0), with_load(few, {0}, foreign_cpu_seconds=1.5)
    assert [discarded(slices).discarded for slices in busy] == [frozenset()] * 2


def test_slow_round_is_kept_if_no_other_program_disturbed_it(quiet: Slices) -> None:
    """The slice may be slow because of the protection, and that is what the study measures."""
    slow = [
        record.model_copy(update={"answer": record.answer.model_copy(update={"elapsed_ns": 10**11})})
        if record.round == 5
        else record
        for record in quiet
    ]
    assert discarded(slow).discarded == frozenset()


def test_round_with_a_clock_jump_is_discarded(quiet: Slices) -> None:
    records = [*quiet]
    records[40] = quiet[40].model_copy(update={"clock_jump_seconds": -4.0})
    assert discarded(records).discarded == {quiet[40].round}


@pytest.mark.parametrize(
    ("rounds", "words"), [(FEWEST_ROUNDS, "discarded"), (FEWEST_ROUNDS - 1, "disturbed"), (None, "")]
)
def test_report_of_a_quiet_machine_says_how_many_rounds_were_disturbed(
    quiet: Slices, tmp_path: Path, rounds: int | None, words: str
) -> None:
    ledger = fake_run(tmp_path / "run", PLAN, Truth(), rounds=1)
    for record in with_load(quiet, set() if rounds is None else {3}, foreign_cpu_seconds=1.02):
        if 0 < record.round < (rounds or QUIET_ROUNDS):
            ledger.append(record)
    (check,) = (each for each in analyse(ledger).sections.checks if each.label.startswith("machine quiet"))
    others = "other programs or the hypervisor used 51 % of the machine's CPU time"
    disturbed = f", except that 1 round was {words}: {others}"
    assert check.words.replace("\N{NO-BREAK SPACE}", " ") == f"✓ machine quiet{disturbed if words else ''}"


def test_disturbed_round_is_discarded_for_all_arms(quiet: Slices, tmp_path: Path) -> None:
    ledger = Ledger.create(PLAN, tmp_path / "run")
    for record in with_load(quiet, {7}, foreign_cpu_seconds=1.5):
        ledger.append(record)
    samples = read_run(ledger).samples
    for arm in PLAN.arms:
        assert [*samples.by_round(QUERY, arm.name)] == [each for each in range(QUIET_ROUNDS) if each != 7]


def without_servers_cpu(ledger: Ledger, rounds: int) -> Ledger:
    """Return the ledger without the servers' CPU time in its first `rounds`.

    A run that was started without --server-cpu, and resumed with it, writes such a ledger.
    """
    path = ledger.folder / SLICES
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        if record["record"] == "slice" and record["round"] < rounds:
            record["server_cpu_seconds"] = {}
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return ledger


def at_load(folder: Path, rounds_without: int) -> Result:
    plan = plan_of("postgres-tls", "quick", "transport=plain,tls", load=RequestedLoad("300/s", "20"))
    return analyse(without_servers_cpu(fake_run(folder / "run", plan, AtLoad(), rounds=ROUNDS), rounds_without))


@pytest.mark.parametrize("rounds_without", [0, 6])
def test_number_of_cores_that_a_server_uses_is_computed_only_from_rounds_with_a_cpu_reading(
    tmp_path: Path, rounds_without: int
) -> None:
    cores = {each.who: each for each in at_load(tmp_path, rounds_without).sections.load.cores}
    # 300 connections a second are expected. Each takes 0.61 ms of the servers' CPU time, or 1.86 ms with TLS.
    assert cores["servers"].without.value == pytest.approx(0.183, rel=0.05)
    assert cores["servers"].used.value == pytest.approx(0.558, rel=0.05)
    assert (cores["servers"].used.rounds, cores["client"].used.rounds) == (ROUNDS - rounds_without, ROUNDS)


def test_number_of_cores_that_a_server_uses_is_unknown_with_only_one_cpu_reading(tmp_path: Path) -> None:
    result = at_load(tmp_path, ROUNDS - 1)
    assert {each.who for each in result.sections.load.cores} == {"client"}
    assert "the servers' CPU time is unknown" in " ".join(sentence.text for sentence in result.answer)


@pytest.mark.parametrize(("per_second", "complete"), [(1500, True), (1800, False)])
def test_load_beyond_the_cores_of_the_client_machine_is_reported_as_too_high(per_second: int, complete: bool) -> None:
    load = RequestedLoad(f"{per_second}/s", "20")
    plan = plan_of("mysql-transport", "quick", "transport=plain,tls", target="mysql://app@db/", load=load)
    result = fake_result(plan, AtLoad())
    (carried,) = (each for each in result.sections.load.carried if each.arm == "tls")
    # The client needs 1.12 ms of CPU time for each connection; the servers run on other machines.
    assert carried.machine_share_needed == pytest.approx(per_second * 1.12e-3 / 2, rel=0.05)
    assert carried.complete == complete
    if not complete:
        assert "of this machine's 2 cores. The queue grows" in result.summary.verdict.replace("\N{NO-BREAK SPACE}", " ")


def test_missing_cpu_reading_never_counts_as_zero(tmp_path: Path) -> None:
    ledger = fake_run(tmp_path / "run", plan_of(MONGODB, "quick"), MongodbTruth(), rounds=ROUNDS)
    whole = analyse(ledger)
    result = analyse(without_servers_cpu(ledger, 3))
    used = {(each.workload, each.arm): each.seconds_per_1000 for each in whole.cpu}
    for cpu in result.cpu:
        if "server" in cpu.seconds_per_1000:
            true = used[cpu.workload, cpu.arm]["server"]
            assert cpu.seconds_per_1000["server"] == pytest.approx(true, rel=0.05)
    costs = {(each.protection, each.operation): each.cpu_ms for each in whole.sections.cost_model.extras}
    for each in result.sections.cost_model.extras:
        assert each.cpu_ms.rounds == ROUNDS - 3
        assert each.cpu_ms.low <= costs[each.protection, each.operation].value <= each.cpu_ms.high


TIMES = 1.1
#: Standard deviations of the logarithm of the ratio: from start to start of the servers, and from round to round.
START_DEVIATION, ROUND_DEVIATION = 0.005, 0.01


def coverage(starts: int, rounds: int, *, over_starts: bool = True) -> float:
    """Return the share of simulated runs whose interval covers the true ratio."""
    chance, runs, covered = np.random.default_rng(100 * starts + rounds), 500, 0
    units = Units({number: number // rounds for number in range(starts * rounds)} if over_starts else {})
    for _ in range(runs):
        samples = Samples(units)
        samples.mark_succeeded(SliceKey(PLAN.study.metrics[QUERY].workload, TLS.control_arm or ""))
        luck = np.repeat(chance.normal(0, START_DEVIATION, starts), rounds)
        logs = math.log(TIMES) + luck + chance.normal(0, ROUND_DEVIATION, starts * rounds)
        for number, each in enumerate(np.exp(logs)):
            samples.add(QUERY, TLS.control_arm or "", number, 1.0)
            samples.add(QUERY, TLS.name, number, float(each))
        ratio = every_change(PLAN, samples)[QUERY][0].relative()
        assert ratio is not None
        covered += ratio.low <= TIMES <= ratio.high
    return covered / runs


@pytest.mark.parametrize(("starts", "rounds"), [(5, 6), pytest.param(10, 12, marks=pytest.mark.slow)])
def test_interval_over_server_starts_contains_the_truth_in_95_percent_of_runs(starts: int, rounds: int) -> None:
    assert coverage(starts, rounds) == pytest.approx(0.95, abs=0.025)


def test_interval_computed_over_rounds_is_too_narrow_for_a_run_with_restarts() -> None:
    """This shows that the test of coverage above can detect wrong intervals."""
    assert coverage(5, 30, over_starts=False) < 0.7


def test_mean_of_the_rounds_after_a_server_start_uses_only_rounds_measured_on_both_arms() -> None:
    samples = Samples(Units({0: 0, 1: 0, 2: 1, 3: 1}))
    for number, (control, arm) in enumerate([(1.0, 2.0), (3.0, 5.0), (1.0, None), (2.0, 4.0)]):
        samples.add(QUERY, "plain", number, control)
        if arm is not None:
            samples.add(QUERY, "tls", number, arm)
    assert samples.means(QUERY, "plain") == [2.0, 1.5]
    assert samples.pairs(QUERY, "plain", "tls") == ([2.0, 2.0], [3.5, 4.0])
    assert samples.common_values((QUERY, "plain"), (QUERY, "tls")) == [[2.0, 2.0], [3.5, 4.0]]


@pytest.mark.parametrize("luck", [0.0, 0.004, 0.02])
def test_interval_of_the_share_of_variance_between_server_starts_contains_the_truth(luck: float) -> None:
    chance, shares = np.random.default_rng(7), []
    for _ in range(200):
        logs = chance.normal(0, luck, (1, 8, 1)) + chance.normal(0, ROUND_DEVIATION, (1, 8, 6))
        share = variance_share_of_starts(logs.tolist())
        assert share is not None
        shares.append(share)
    truth = luck**2 / (luck**2 + ROUND_DEVIATION**2 / 6)
    assert variance_share_of_starts([[[0.1], [0.2], [0.3]]]) is None, "one round a start does not suffice"
    if not luck:
        assert np.mean([share.low > 0 for share in shares]) <= 0.05
        return
    assert np.median([share.value for share in shares]) == pytest.approx(truth, abs=0.06)
    assert np.mean([share.low <= truth <= share.high for share in shares]) == pytest.approx(0.95, abs=0.04)


def restarted(starts: int, luck: float, rounds: int = 4) -> Result:
    plan = with_only(plan_of(MONGODB, restarts=str(starts)), "wire_query")
    return fake_result(plan, Truth({("wire_query", "tls"): TIMES}), rounds=rounds, noise=Noise(0.01, luck=luck))


def test_effect_in_a_run_with_restarts_has_one_difference_for_each_start_of_the_servers() -> None:
    result = restarted(6, luck=0.03)
    assert (result.starts, result.rounds, result.partial) == ([4] * 6, 24, None)
    effect = effect_of(result, QUERY, "tls")
    assert effect.rounds == len(effect.differences) == 6
    assert effect.ratio is not None
    assert effect.ratio.low <= TIMES <= effect.ratio.high
    assert {each.metric: each.share for each in result.between_starts}[QUERY].low > 0


def estimates(found: Any) -> Iterator[dict[str, Any]]:
    if isinstance(found, dict):
        if found.keys() == Estimate.model_fields.keys():
            yield found
        found = [*found.values()]
    for each in found if isinstance(found, list) else []:
        yield from estimates(each)


@pytest.mark.parametrize("study", EVERY_SECTION)
def test_estimates_of_a_run_with_restarts_use_one_value_for_each_start_of_the_servers(study: str) -> None:
    plan = plan_of(study, restarts="5")
    result = fake_result(plan, TRUTHS.get(study, Truth()), rounds=3, noise=Noise(0.01))
    assert {each["rounds"] for each in estimates(json.loads(result.model_dump_json()))} == {5}
    assert "5 starts of 3 rounds" in render_markdown(result)


def test_too_few_server_starts_give_intervals_without_verdicts() -> None:
    result = restarted(3, luck=0.0)
    assert {effect.verdict for effect in result.effects} == {Verdict.UNRESOLVED}
    assert any(warning.startswith("only 3 starts") for warning in result.warnings)


def test_run_with_fewer_server_starts_than_planned_is_partial(tmp_path: Path) -> None:
    plan = with_only(plan_of(MONGODB, restarts="3"), "wire_query")
    ledger, source = Ledger.create(plan, tmp_path / "run"), np.random.default_rng(1)

    def start(number: int) -> None:
        fake_start(ledger, plan, Truth(), number, rounds=3, source=source)

    for number in range(2):
        start(number)
        ledger.append(EndRecord(partial=None, steal_share=0.0))
    assert read_run(ledger).partial == "the process was killed, or is still running"
    start(2)
    assert read_run(ledger).whole_starts == 2
    ledger.append(EndRecord(partial="interrupted", steal_share=0.0))
    interrupted = read_run(ledger)
    assert (interrupted.partial, interrupted.whole_starts) == ("interrupted", 2), "a resumed run repeats the start"
    start(3)
    ledger.append(EndRecord(partial=None, steal_share=0.0))
    complete = read_run(ledger)
    assert (complete.starts, complete.partial) == ([3] * 4, None)


def test_resuming_a_run_does_not_count_as_a_restart_of_its_servers(tmp_path: Path) -> None:
    ledger = fake_run(tmp_path / "run", PLAN, Truth(), rounds=6)
    once = build_core(read_run(ledger), "run")
    ledger.append(EnvironmentRecord(started=STARTED, facts={}))
    ledger.append(EndRecord(partial=None, steal_share=0.01))
    resumed = build_core(read_run(ledger), "run")
    assert (resumed.starts, resumed.effects, resumed.values) == ([], once.effects, once.values)


def test_intervals_of_an_interrupted_run_are_wider() -> None:
    planned, stopped, failed = (
        fake_result(PLAN, Truth(), rounds=8, partial=partial) for partial in (None, "interrupted", "mongod was lost")
    )
    assert planned.widening == failed.widening == 1
    assert planned.effects == failed.effects
    assert stopped.widening > 1.4
    for before, after in zip(planned.effects, stopped.effects, strict=True):
        assert after.difference.value == before.difference.value
        times = (after.difference.high - after.difference.low) / (before.difference.high - before.difference.low)
        assert 1.4 < times <= stopped.widening + 1e-9
    warning = f"Intervals of costs are {stopped.widening:.1f} times as wide as after a planned end"
    for text in (printed(stopped, full=False), render_markdown(stopped)):
        assert warning in " ".join(text.split())
    assert "times as wide" not in render_markdown(failed)


def test_intervals_are_wider_if_a_completed_run_was_extended(tmp_path: Path) -> None:
    ledger = fake_run(tmp_path / "run", PLAN, Truth(), rounds=20)
    once = build_core(read_run(ledger), "run")
    ledger.append(EnvironmentRecord(started=STARTED, facts={}, budget_seconds=200))
    ledger.append(LookRecord(round=19, error_rate=0.028))
    ledger.append(EndRecord(partial=None, steal_share=0.01, error_rate=0.022))
    longer = analyse(ledger)
    assert (once.continued, longer.continued) == (False, True)
    for before, after in zip(once.effects, longer.effects, strict=True):
        times = (after.difference.high - after.difference.low) / (before.difference.high - before.difference.low)
        assert times == pytest.approx(longer.widening, abs=0.01)
    assert longer.widening == pytest.approx(1.17, abs=0.02)
    assert (
        f"intervals of costs are {longer.widening:.2f} times as wide as those of a run that ends once"
        in render_markdown(longer)
    )


def test_intervals_of_an_unfinished_run_are_wider(tmp_path: Path) -> None:
    ledger, source = Ledger.create(PLAN, tmp_path / "run"), np.random.default_rng(1)
    fake_start(ledger, PLAN, Truth(), 0, rounds=8, source=source)
    assert build_core(read_run(ledger), "run").widening > 1.4
    ledger.append(EndRecord(partial=None, steal_share=0.0))
    assert build_core(read_run(ledger), "run").widening == 1


@cache
def misleading(truth: Truth, rounds: int = 12) -> Result:
    return fake_result(PLAN, truth, rounds=rounds, noise=Noise(0.02))


def warnings(result: Result) -> str:
    return " ".join(sentence_texts(result.answer, "warning"))


HALF_FAILS, LONG_TAIL = Failing({"tls"}, 0.5), LongTail()


def test_report_names_the_arm_on_which_more_operations_fail_than_on_its_control() -> None:
    result = misleading(HALF_FAILS)
    failures = {each.arm: each for each in result.failures}
    assert failures.keys() == {"plain", "plain-copy", "tls"}
    assert failures["tls"].share == pytest.approx(1 / 3)
    assert (failures["tls"].fails_more, failures["plain-copy"].fails_more) == (True, False)
    assert "33 % of operations failed with TLS" in warnings(result)
    assert "percentage points more than with the control" in warnings(result)
    assert "Failures" in render_markdown(result)


def test_check_of_failed_operations_leaves_out_errors_of_the_warm_up() -> None:
    result = misleading(HALF_FAILS)
    (check,) = (each for each in result.sections.checks if each.label == "operations failed")
    within = sum(each.failed for each in result.failures)
    before = sum(each.count for each in result.errors) - within
    assert before > 0
    errors = f"{within:,} errors in 'queries on one connection, on the wire'"
    assert check.detail == f"{errors}, whose figures count only successes"


def test_equal_failure_rates_are_reported_without_a_difference() -> None:
    text = warnings(misleading(Failing({"plain", "plain-copy", "tls"}, 0.05)))
    assert text.count("of operations failed with") == 2
    assert "percentage points" not in text


def test_measurements_without_any_success_do_not_stop_the_analysis() -> None:
    """Regression: a slice without a success raised an exception in the cost model."""
    result = misleading(Failing({"tls"}, wholly=True))
    assert "failed with TLS" in warnings(result)
    assert effect_of(result, QUERY, "tls").rounds < result.rounds
    assert render_markdown(result)


def test_control_that_always_fails_gives_no_effects() -> None:
    """Regression: the control counted as 0, so every arm seemed infinitely better."""
    result = misleading(NeverPlain())
    assert not [effect for effect in result.effects if effect.metric == QUERY]
    assert "100 % of operations failed with" in warnings(result)


def test_report_of_a_run_without_failed_operations_has_no_section_about_failures() -> None:
    result = misleading(Truth())
    assert (result.failures, result.sections.intermittent) == ([], None)
    assert "Failures" not in render_markdown(result)


def test_intermittent_cost_is_reported_and_never_called_no_cost() -> None:
    """Regression: with the trimmed mean, three of four runs judged it no cost."""
    times = 2.0
    result = misleading(Stalling(times), rounds=60)
    effect = effect_of(result, QUERY, "tls")
    assert effect.verdict in (Verdict.COSTS, Verdict.UNRESOLVED)
    assert effect.difference.value == pytest.approx((times - 1) / 10, rel=0.1)
    assert effect.typical_difference.high < 0.05
    (each,) = (each for each in result.sections.intermittent.outlying_slices if each.metric == QUERY)
    assert (each.arm, each.slices, each.of, each.usual) == ("tls", 6, 60, 0)
    assert each.times == pytest.approx(times, rel=0.1)
    assert "has an intermittent cost" in warnings(result)


def test_longer_tail_of_latencies_is_reported_even_if_the_means_are_equal() -> None:
    result = misleading(LONG_TAIL, rounds=30)
    tails = result.sections.tails
    of_query = {each.percentile: each for each in tails.percentiles if (each.metric, each.arm) == (QUERY, "tls")}
    assert of_query.keys() == {50.0, 95.0, 99.0}
    assert of_query[50.0].ratio.high < 1 < 1.5 < of_query[99.0].ratio.low
    assert [each.percentile for each in tails.undetermined if each.metric == QUERY] == [99.9]
    assert "raises the p99 of 'query on open connection' to " in " ".join(sentence_texts(result.answer, "detail"))


def curve_sentence(result: Result) -> str:
    """Return the report's sentence about the cost of a query, measured by the engine, at each percentile."""
    lines = spaced(render_markdown(result)).splitlines()
    (text,) = (
        line for line in lines if line.startswith("- ") and re.search(r"'query on open connection'.* p\d+\b", line)
    )
    return text


def test_cost_that_affects_few_operations_appears_only_at_high_percentiles_of_the_curve() -> None:
    result = misleading(FewPay(), rounds=30)
    (curve,) = (each for each in result.sections.tails.curves if (each.metric, each.arm) == (QUERY, "tls"))
    at = {point.percentile: point for point in curve.points}
    assert (min(at), max(at)) == (1, 99.3), "20 of 3,000 operations are below or above"
    assert all(point.low <= point.difference <= point.high for point in curve.points)
    assert at[50].low < 0.02 < at[50].high < 0.1
    assert 0.1 < at[95].low < at[95].high < 0.5
    pattern = r" adds about 0\.0\d+ ms to .* up to p(\d+), and more above p\1: \+0\.\d+ ms \[.*\] at p99\.3\.$"
    assert re.search(pattern, curve_sentence(result))


@pytest.mark.parametrize(
    ("truth", "text"),
    [
        (
            Truth(),
            "shows no clear difference in 'query on open connection' at any percentile from p1 to p99.3",
        ),
        (
            EveryQueryPays(),
            "'query on open connection', whether an operation is fast or slow: this cost fits every percentile",
        ),
        (LONG_TAIL, "by an amount that depends on the percentile: "),
    ],
)
def test_sentence_about_a_percentile_curve_says_whether_all_operations_have_the_same_cost(
    truth: Truth, text: str
) -> None:
    assert text in curve_sentence(misleading(truth, rounds=30))


def test_percentile_curve_of_too_few_operations_is_left_out_with_the_reason() -> None:
    text = render_markdown(misleading(FewQueries(), rounds=6))
    reason = "A curve is left out if the variant or the control has fewer than 200 operations."
    assert f"{reason} In this run, this leaves out curves of " in spaced(text)


def test_report_states_the_share_of_operations_that_a_protection_slows_far_more_than_others() -> None:
    result = misleading(LONG_TAIL, rounds=30)
    assert result.sections.intermittent.outlying_slices == []
    (slow,) = result.sections.intermittent.slow_operations
    assert (slow.metric, slow.arm) == (QUERY, "tls")
    assert slow.share == pytest.approx(0.24, abs=0.01), "six of the 21 steps of the simulated times"
    assert slow.usual < 0.05
    slows = "slows some operations far more than others. In the measurements of 'query on open connection', "
    assert slows in warnings(result)
    assert "Slow operations" in render_markdown(result)
