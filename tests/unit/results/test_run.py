"""What a run's slices come to: rounds left out, readings that are missing, starts of the servers, and what misleads."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costof.report import analyse, render_markdown
from costof.report.result import Result
from costof.results.changes import every_change, judged
from costof.results.disturbances import FEWEST_ROUNDS, MOST_DISCARDED, disturbances
from costof.results.ledger import SLICES, EndRecord, EnvironmentRecord, Ledger, SliceRecord
from costof.results.run import read_run
from costof.results.samples import Samples, ServersSide, SliceKey, of_slice
from costof.statistics.estimate import Estimate, Verdict
from costof.statistics.units import Units, own_share
from costof.studies import study_names
from costof.study.load import RequestedLoad
from costof.study.schema import Metric
from tests.fake_run import STARTED, Slice, Truth, answer_of, fake_result, fake_run, fake_start
from tests.noise import Noise
from tests.report.results import MONGODB, effect_of, told
from tests.support.small_plans import plan_of
from tests.truths import TRUTHS
from tests.truths.at_load import AtLoad
from tests.truths.misleading import Failing, LongTail, NeverPlain, Stalling
from tests.truths.mongodb_tls import MongodbTruth

QUERY = "wire.reused_query"
PLAN = plan_of(MONGODB)
(TLS,) = PLAN.protected
ROUNDS = 8


@pytest.mark.parametrize("study", study_names())
def test_a_cost_that_went_in_comes_out_of_any_study(study: str) -> None:
    plan = plan_of(study)
    costly = plan.protected[0].protection
    truth = Truth({(workload, costly): 1.5 for workload in plan.study.workloads})
    result = fake_result(plan, truth, noise=Noise(0.02, drift=0.05))
    found = {(effect.metric, effect.arm): effect for effect in result.effects}
    assert {metric for metric, _ in found} == plan.study.metrics.keys()
    for (name, arm), effect in found.items():
        if plan.study.metrics[name].unit == "ms" and not plan.study.round_trip_ms(plan.arm(arm).levels):
            mine = plan.arm(arm).protection == costly
            assert effect.ratio is not None
            assert effect.ratio.value == pytest.approx(1.5 if mine else 1.0, abs=0.1), (name, arm)
            assert (effect.verdict is Verdict.COSTS) == mine


@pytest.mark.parametrize(("value", "verdict"), [(0.0, Verdict.NO_DIFFERENCE), (1.0, Verdict.COSTS)])
def test_nothing_against_nothing_is_no_difference(value: float, verdict: Verdict) -> None:
    """Such as failed transactions, of which neither arm has any."""
    samples, control = Samples(), PLAN.controls[0]
    for each in (control, PLAN.replicate_of(control), TLS):
        samples.succeeded(SliceKey(PLAN.study.metrics[QUERY].workload, each.name))
        for number in range(6):
            samples.add(QUERY, each.name, number, value if each is TLS else 0.0)
    (found,) = (each for each in judged(PLAN, every_change(PLAN, samples)) if each.metric == QUERY)
    assert found.verdict is verdict
    assert (found.change.relative() is None) == bool(value), "nothing is no share of nothing"


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
def test_a_count_is_a_second_s_and_that_of_all_below_its_name(phase: str, per_second: float | None) -> None:
    counts = {"tpcc.committed.payment": 40, "tpcc.committed.delivery": 4, "tpcc.committed_late": 1, "tpcc.deadlocks": 0}
    metric = Metric(label="", description="", workload="w", phase=phase, unit="per_second", margin=0.1)
    answer = answer_of(Slice(50, 2.0, {}, {}, {}, counts=counts), "w", "arm")
    assert of_slice(metric, answer, ServersSide({}, {})) == per_second


QUIET_ROUNDS = 20
Slices = list[SliceRecord]


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Slices:
    """Of a run on a machine that nobody else used."""
    ledger = fake_run(tmp_path_factory.mktemp("quiet") / "run", PLAN, Truth(), rounds=QUIET_ROUNDS)
    return [record for record in ledger.records() if isinstance(record, SliceRecord)]


def with_load(slices: Slices, rounds: set[int], **load: float) -> Slices:
    """The same slices, in these rounds with so much a second."""

    def changed(piece: SliceRecord) -> SliceRecord:
        seconds = piece.answer.elapsed_ns / 1e9 if piece.round in rounds else 0.0
        return piece.model_copy(update={name: each * seconds for name, each in load.items()})

    return [changed(piece) for piece in slices]


discarded = partial(disturbances, cores=2)
EVERY = set(range(QUIET_ROUNDS))


@pytest.mark.parametrize("kind", ["foreign_cpu_seconds", "steal_seconds"])
def test_a_round_in_which_others_had_the_machine_is_left_out(quiet: Slices, kind: str) -> None:
    found = discarded(with_load(quiet, {3, 11}, **{kind: 0.5}))
    assert (found.discarded, found.usual) == ({3, 11}, 0.0)


def test_what_others_always_have_disturbs_no_round_and_is_a_share_of_the_time_that_was_watched(quiet: Slices) -> None:
    found = discarded(with_load(quiet, EVERY, foreign_cpu_seconds=0.6))
    assert (found.discarded, found.usual) == (frozenset(), pytest.approx(0.3))
    # The readings lie around a slice, which may be short beside what gets it ready.
    watched = [piece.model_copy(update={"observed_seconds": 4 * piece.answer.elapsed_ns / 1e9}) for piece in quiet]
    assert discarded(with_load(watched, EVERY, foreign_cpu_seconds=2.0)).usual == pytest.approx(0.25)


def test_rounds_stay_where_most_would_go_or_few_are_there_or_a_slice_was_slow_alone(quiet: Slices) -> None:
    many = set(range(int(MOST_DISCARDED * QUIET_ROUNDS) + 1))
    few = [piece for piece in quiet if piece.round < FEWEST_ROUNDS - 1]
    # It may be the cost that was asked for.
    slow = [
        piece.model_copy(update={"answer": piece.answer.model_copy(update={"elapsed_ns": 10**11})})
        if piece.round == 5
        else piece
        for piece in quiet
    ]
    busy = with_load(quiet, many, foreign_cpu_seconds=1.0), with_load(few, {0}, foreign_cpu_seconds=1.5)
    assert [discarded(slices).discarded for slices in (*busy, slow)] == [frozenset()] * 3


def test_a_machine_that_stood_still_spoils_the_round(quiet: Slices) -> None:
    stood = [*quiet]
    stood[40] = quiet[40].model_copy(update={"clock_jump_seconds": -4.0})
    assert discarded(stood).discarded == {quiet[40].round}


def test_a_round_is_left_out_for_all_arms_alike(quiet: Slices, tmp_path: Path) -> None:
    ledger = Ledger.create(PLAN, tmp_path / "run")
    for piece in with_load(quiet, {7}, foreign_cpu_seconds=1.5):
        ledger.append(piece)
    samples = read_run(ledger).samples
    for arm in PLAN.arms:
        assert [*samples.by_round(QUERY, arm.name)] == [each for each in range(QUIET_ROUNDS) if each != 7]


def without_servers_cpu(ledger: Ledger, rounds: int) -> Ledger:
    """As if the first rounds had been measured without --server-cpu."""
    path = ledger.folder / SLICES
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        if record["record"] == "slice" and record["round"] < rounds:
            record["server_cpu_seconds"] = {}
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return ledger


def at_load(folder: Path, lacking: int, carried: float = 1.0) -> Result:
    plan = plan_of("postgres-tls", "quick", "transport=plain,tls", load=RequestedLoad("300/s", "20"))
    return analyse(without_servers_cpu(fake_run(folder / "run", plan, AtLoad(carried), rounds=ROUNDS), lacking))


@pytest.mark.parametrize("lacking", [0, 6])
def test_cores_of_servers_are_of_the_rounds_that_have_them(tmp_path: Path, lacking: int) -> None:
    found = {each.who: each for each in at_load(tmp_path, lacking).sections.load.cores}
    # 300 connections a second, of 0.61 and 1.86 ms of the servers' CPU time.
    assert found["servers"].without.value == pytest.approx(0.183, rel=0.05)
    assert found["servers"].used.value == pytest.approx(0.558, rel=0.05)
    assert (found["servers"].used.rounds, found["client"].used.rounds) == (ROUNDS - lacking, ROUNDS)


def test_cores_of_servers_are_unknown_where_one_round_has_them(tmp_path: Path) -> None:
    result = at_load(tmp_path, ROUNDS - 1)
    assert {each.who for each in result.sections.load.cores} == {"client"}
    assert "the servers' CPU time is unknown" in " ".join(sentence.text for sentence in result.answer)


@pytest.mark.parametrize("lacking", [3, 7, 8])
def test_the_servers_that_a_load_needs_are_of_the_rounds_that_have_them(tmp_path: Path, lacking: int) -> None:
    found = at_load(tmp_path, lacking, carried=0.5).sections.load.carried
    needed = [each.server_cores_needed for each in found if not each.complete]
    assert needed == [None if lacking == ROUNDS else pytest.approx(0.558, rel=0.05)]


@pytest.mark.parametrize("lacking", [3, 7, 8])
def test_no_operation_and_no_model_takes_a_missing_reading_for_nothing(tmp_path: Path, lacking: int) -> None:
    ledger = fake_run(tmp_path / "run", plan_of(MONGODB, "quick"), MongodbTruth(), rounds=ROUNDS)
    whole = analyse(ledger)
    result = analyse(without_servers_cpu(ledger, lacking))
    used = {(each.workload, each.arm): each.seconds_per_1000 for each in whole.cpu}
    for cpu in result.cpu:
        if "server" in cpu.seconds_per_1000:
            true = used[cpu.workload, cpu.arm]["server"]
            assert cpu.seconds_per_1000["server"] == pytest.approx(true, rel=0.05)
    costs = {(each.protection, each.operation): each.cpu_ms for each in whole.sections.cost_model.extras}
    for each in result.sections.cost_model.extras:
        assert each.cpu_ms.low <= each.cpu_ms.value <= each.cpu_ms.high
        if lacking == 3:
            assert each.cpu_ms.rounds == ROUNDS - lacking
            assert each.cpu_ms.low <= costs[each.protection, each.operation].value <= each.cpu_ms.high


TIMES = 1.1
#: Standard deviations of logarithms: of what an arm draws in a start, and of a round.
LUCK, OF_ROUND = 0.005, 0.01


def coverage(starts: int, rounds: int, *, over_starts: bool = True) -> float:
    """The share of simulated runs whose interval of the ratio holds it."""
    chance, runs, held = np.random.default_rng(100 * starts + rounds), 500, 0
    units = Units({number: number // rounds for number in range(starts * rounds)} if over_starts else {})
    for _ in range(runs):
        samples = Samples(units)
        samples.succeeded(SliceKey(PLAN.study.metrics[QUERY].workload, TLS.baseline or ""))
        luck = np.repeat(chance.normal(0, LUCK, starts), rounds)
        logs = math.log(TIMES) + luck + chance.normal(0, OF_ROUND, starts * rounds)
        for number, each in enumerate(np.exp(logs)):
            samples.add(QUERY, TLS.baseline or "", number, 1.0)
            samples.add(QUERY, TLS.name, number, float(each))
        found = every_change(PLAN, samples)[QUERY][0].relative()
        assert found is not None
        held += found.low <= TIMES <= found.high
    return held / runs


@pytest.mark.parametrize(("starts", "rounds"), [(5, 6), (10, 12)])
def test_an_interval_over_starts_holds_the_truth_in_95_of_100_runs(starts: int, rounds: int) -> None:
    assert coverage(starts, rounds) == pytest.approx(0.95, abs=0.025)


def test_one_over_their_rounds_would_not() -> None:
    assert coverage(5, 30, over_starts=False) < 0.7


def test_a_start_has_the_mean_of_the_rounds_that_both_arms_have() -> None:
    samples = Samples(Units({0: 0, 1: 0, 2: 1, 3: 1}))
    for number, (control, arm) in enumerate([(1.0, 2.0), (3.0, 5.0), (1.0, None), (2.0, 4.0)]):
        samples.add(QUERY, "plain", number, control)
        if arm is not None:
            samples.add(QUERY, "tls", number, arm)
    assert samples.of(QUERY, "plain") == [2.0, 1.5]
    assert samples.pairs(QUERY, "plain", "tls") == ([2.0, 2.0], [3.5, 4.0])
    assert samples.together((QUERY, "plain"), (QUERY, "tls")) == [[2.0, 2.0], [3.5, 4.0]]


@pytest.mark.parametrize("luck", [0.0, 0.004, 0.02])
def test_the_share_of_starts_is_known_with_its_interval_and_none_is_shown_without_luck(luck: float) -> None:
    chance, shares = np.random.default_rng(7), []
    for _ in range(200):
        logs = chance.normal(0, luck, (1, 8, 1)) + chance.normal(0, OF_ROUND, (1, 8, 6))
        share = own_share(logs.tolist())
        assert share is not None
        shares.append(share)
    truth = luck**2 / (luck**2 + OF_ROUND**2 / 6)
    assert own_share([[[0.1], [0.2], [0.3]]]) is None, "one round a start does not tell"
    if not luck:
        assert np.mean([share.low > 0 for share in shares]) <= 0.05
        return
    assert np.median([share.value for share in shares]) == pytest.approx(truth, abs=0.06)
    assert np.mean([share.low <= truth <= share.high for share in shares]) == pytest.approx(0.95, abs=0.04)


def restarted(starts: int, luck: float, rounds: int = 4) -> Result:
    plan = plan_of(MONGODB, restarts=str(starts))
    return fake_result(plan, Truth({("wire_query", "tls"): TIMES}), rounds=rounds, noise=Noise(0.01, luck=luck))


def test_starts_are_told_and_counted() -> None:
    result = restarted(6, luck=0.03)
    assert (result.starts, result.rounds, result.partial) == ([4] * 6, 24, None)
    effect = effect_of(result, QUERY, "tls")
    assert effect.rounds == len(effect.differences) == 6
    assert effect.ratio is not None
    assert effect.ratio.low <= TIMES <= effect.ratio.high
    assert {each.metric: each.share for each in result.between_starts}[QUERY].low > 0


def estimates(found: Any) -> Iterator[dict[str, Any]]:
    """Every one in a result's JSON."""
    if isinstance(found, dict):
        if found.keys() == Estimate.model_fields.keys():
            yield found
        found = [*found.values()]
    for each in found if isinstance(found, list) else []:
        yield from estimates(each)


@pytest.mark.parametrize("study", study_names())
def test_no_section_of_any_study_takes_rounds_for_independent(study: str) -> None:
    plan = plan_of(study, restarts="5")
    result = fake_result(plan, TRUTHS.get(study, Truth()), rounds=3, noise=Noise(0.01))
    assert {each["rounds"] for each in estimates(json.loads(result.model_dump_json()))} == {5}
    assert "5 starts of 3 rounds" in render_markdown(result)


def test_fewer_starts_than_verdicts_need_give_intervals() -> None:
    result = restarted(3, luck=0.0, rounds=20)
    assert {effect.verdict for effect in result.effects} == {Verdict.UNRESOLVED}
    assert any(warning.startswith("only 3 starts") for warning in result.warnings)


def test_a_start_that_is_missing_makes_a_run_partial(tmp_path: Path) -> None:
    plan = plan_of(MONGODB, restarts="3")
    ledger, source = Ledger.create(plan, tmp_path / "run"), np.random.default_rng(1)

    def start(number: int) -> None:
        fake_start(ledger, plan, Truth(), number, rounds=3, source=source)

    for number in range(2):
        start(number)
        ledger.append(EndRecord(partial=None, steal_share=0.0))
    assert analyse(ledger).partial == "it was ended from outside"
    start(2)
    assert read_run(ledger).whole_starts == 2
    ledger.append(EndRecord(partial="interrupted", steal_share=0.0))
    assert analyse(ledger).partial == "interrupted"
    assert read_run(ledger).whole_starts == 2, "it counts with its rounds, and a resumed run has another"
    start(3)
    ledger.append(EndRecord(partial=None, steal_share=0.0))
    result = analyse(ledger)
    assert (result.starts, result.partial) == ([3] * 4, None)


def test_a_resumed_run_without_restarts_has_rounds_for_units(tmp_path: Path) -> None:
    ledger = fake_run(tmp_path / "run", PLAN, Truth(), rounds=6)
    once = analyse(ledger)
    ledger.append(EnvironmentRecord(started=STARTED, facts={}))
    ledger.append(EndRecord(partial=None, steal_share=0.01))
    resumed = analyse(ledger)
    assert (resumed.starts, resumed.effects, resumed.values) == ([], once.effects, once.values)


@cache
def misleading(truth: Truth, rounds: int = 12) -> Result:
    return fake_result(PLAN, truth, rounds=rounds, noise=Noise(0.02))


def warnings(result: Result) -> str:
    return " ".join(told(result.answer, "warning"))


HALF_FAILS, LONG_TAIL = Failing({"tls"}, 0.5), LongTail()


def test_an_arm_that_fails_more_than_its_control_is_named_in_the_answer() -> None:
    result = misleading(HALF_FAILS)
    found = {each.arm: each for each in result.failures}
    assert found.keys() == {"plain", "plain-copy", "tls"}
    assert found["tls"].share == pytest.approx(1 / 3)
    assert (found["tls"].fails_more, found["plain-copy"].fails_more) == (True, False)
    assert "33 % of operations failed with TLS" in warnings(result)
    assert "percentage points more than with the control" in warnings(result)
    assert "Failures" in render_markdown(result)


def test_errors_before_and_within_the_figures_are_counted_apart() -> None:
    result = misleading(HALF_FAILS)
    (check,) = (each for each in result.sections.checks if each.label == "nothing failed")
    within = sum(each.failed for each in result.failures)
    before = sum(each.count for each in result.errors) - within
    assert before > 0
    assert check.but == f"{within:,} errors and {before:,} errors in warm-up or discarded slices"


def test_what_all_arms_fail_alike_is_said_without_a_difference() -> None:
    text = warnings(misleading(Failing({"plain", "plain-copy", "tls"}, 0.05)))
    assert text.count("of operations failed with") == 2
    assert "percentage points" not in text


def test_slices_without_a_success_end_no_analysis() -> None:
    """One of them was a traceback of the cost model."""
    result = misleading(Failing({"tls"}, wholly=True))
    assert "failed with TLS" in warnings(result)
    assert effect_of(result, QUERY, "tls").rounds < result.rounds
    assert render_markdown(result)


def test_a_control_that_always_fails_is_no_base() -> None:
    """It counted as 0, and every arm as an endless gain over it."""
    result = misleading(NeverPlain())
    assert not [effect for effect in result.effects if effect.metric == QUERY]
    assert "100 % of operations failed with" in warnings(result)


def test_no_failures_no_section() -> None:
    result = misleading(Truth())
    assert (result.failures, result.sections.intermittent) == ([], None)
    assert "Failures" not in render_markdown(result)


@pytest.mark.parametrize("times", [2.0, 50.0])
def test_a_cost_that_comes_and_goes_is_named_and_never_called_none(times: float) -> None:
    """The trimmed mean called it no cost in three of four runs."""
    result = misleading(Stalling(times), rounds=60)
    effect = effect_of(result, QUERY, "tls")
    assert effect.verdict in (Verdict.COSTS, Verdict.UNRESOLVED)
    assert effect.difference.value == pytest.approx((times - 1) / 10, rel=0.1)
    assert effect.usual.high < 0.05
    (each,) = (each for each in result.sections.intermittent.outlying_slices if each.metric == QUERY)
    assert (each.arm, each.slices, each.of, each.usual) == ("tls", 6, 60, 0)
    assert each.times == pytest.approx(times, rel=0.1)
    assert "has an intermittent cost" in warnings(result)


def test_a_tail_is_told_beside_a_mean_that_knows_nothing_of_it() -> None:
    result = misleading(LONG_TAIL, rounds=30)
    tails = result.sections.tails
    of_query = {each.percentile: each for each in tails.percentiles if (each.metric, each.arm) == (QUERY, "tls")}
    assert of_query.keys() == {50.0, 95.0, 99.0}
    assert of_query[50.0].ratio.high < 1 < 1.5 < of_query[99.0].ratio.low
    assert [each.percentile for each in tails.undetermined if each.metric == QUERY] == [99.9]
    assert "raises the p99 of 'reused query' to " in " ".join(told(result.answer, "detail"))


def test_what_few_operations_pay_is_named_with_how_many_they_are() -> None:
    result = misleading(LONG_TAIL, rounds=30)
    assert result.sections.intermittent.outlying_slices == []
    (slow,) = result.sections.intermittent.slow_operations
    assert (slow.metric, slow.arm) == (QUERY, "tls")
    assert slow.share == pytest.approx(0.24, abs=0.01), "six of the 21 steps in which times are recorded"
    assert slow.usual < 0.05
    assert "slows some operations far more than others" in warnings(result)
    assert "Slow operations" in render_markdown(result)
