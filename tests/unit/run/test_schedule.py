"""The order of a round's slices, how long they last, and when a run has enough of them."""

from __future__ import annotations

import functools
import math
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costof.results.samples import SliceKey
from costof.run.machine import cores_awake
from costof.run.schedule import LOOKS, BalancedOrders, Looks, Schedule, enough
from costof.run.sizes import MOST_START_UP, MeasuredSlice, choose_sizes
from costof.statistics.estimate import Verdict
from costof.statistics.intervals import mean_over_rounds
from costof.statistics.verdicts import Contrast, verdicts
from costof.study.library import load_study, read_study
from costof.study.plan import Options, Plan, resolve
from costof.study.schema import SliceSize
from tests.fake_run import Slice, answer_of, phase_of
from tests.support.small_plans import plan_of

STUDY = load_study("mongodb-tls")
PLAN = plan_of("mongodb-tls")
QUICK = functools.partial(Options, "quick")
ARMS = [arm.name for arm in PLAN.arms]


def orders_of(arms: int, rounds: int, seed: int) -> list[list[str]]:
    orders, names, found, last = BalancedOrders(random.Random(seed)), [f"arm {n}" for n in range(arms)], [], None
    for _ in range(rounds):
        found.append(orders.next(names, last))
        last = found[-1][-1]
    return found


@given(arms=st.integers(2, 20), rounds=st.integers(1, 60), seed=st.integers(0, 100))
def test_every_arm_follows_every_arm_equally_often_itself_too(arms: int, rounds: int, seed: int) -> None:
    found = orders_of(arms, rounds, seed)
    assert all(len(set(order)) == len(order) == arms for order in found)
    measured = [arm for order in found for arm in order]
    follows = Counter(pairwise(measured))
    of_each = [follows[one, other] for one in set(measured) for other in set(measured)]
    # A round of two arms has one order, which the round before decides; of more arms several are as good.
    assert max(of_each) - min(of_each) <= (1 if arms == 2 else 3)
    itself = [follows[arm, arm] for arm in set(measured)]
    # The arm that began the first round had none before it, and the last one will have itself.
    assert max(itself) - min(itself) <= 2


@pytest.mark.parametrize("arms", [3, 4])
def test_any_order_may_be_the_first_and_the_seed_decides(arms: int) -> None:
    first = {tuple(orders_of(arms, 1, seed)[0]) for seed in range(400)}
    assert len(first) == {3: 6, 4: 24}[arms]
    assert orders_of(arms, 20, 7) == orders_of(arms, 20, 7)


def test_a_round_goes_on_with_what_was_measured_last() -> None:
    orders = BalancedOrders(random.Random(3))
    assert orders.next(["a", "b", "c"], "b")[0] == "b"
    orders = BalancedOrders(random.Random(3))
    begun = Counter(orders.next(["a", "b", "c"], "another workload's arm")[0] for _ in range(30))
    assert max(begun.values()) - min(begun.values()) <= 1, "where it cannot, all arms begin equally often"
    assert orders.next(["a"], None) == ["a"]


def test_a_round_has_one_slice_of_every_arm_and_its_order_is_the_seeds() -> None:
    workloads = dict.fromkeys(STUDY.workloads, ARMS)
    schedule, other = Schedule(PLAN), Schedule(PLAN)
    first, second = schedule.round(0, workloads), schedule.round(1, workloads)
    assert [other.round(number, workloads) for number in range(2)] == [first, second]
    assert first != second
    assert sorted(turn[:2] for turn in first) == sorted((workload, arm) for workload in workloads for arm in ARMS)
    # The arms of a workload follow each other: a pair is as close in time as it can be.
    assert [turn.workload for turn in first] == [w for w in dict.fromkeys(t.workload for t in first) for _ in ARMS]


def test_the_controls_copies_take_turns_in_standing_for_the_control() -> None:
    schedule, control = Schedule(PLAN), PLAN.controls[0]
    copies = [control.name, PLAN.replicate(control).name]
    first = []
    for number in range(-1, 40):
        turns = schedule.round(number, {"app_query": ARMS})
        one, other = (place for place, turn in enumerate(turns) if turn.arm in copies)
        assert other == one + 1, "the second copy finds what the first one has left"
        assert [turns[one].role, turns[other].role] == copies
        assert all(turn.role == turn.arm for turn in turns if turn.arm not in copies)
        first.append(turns[one].arm)
    assert all({one, other} == {*copies} for one, other in zip(first[1::2], first[2::2], strict=True))
    assert len(set(first[1::2])) == 2, "by lot"


@pytest.mark.parametrize("workloads", [1, 3])
def test_no_arm_follows_other_protections_more_often_than_another(workloads: int) -> None:
    schedule = Schedule(PLAN)
    turns = [
        turn
        for number in range(60)
        for turn in schedule.round(number, dict.fromkeys(list(STUDY.workloads)[:workloads], ARMS))
    ]
    # The replicate is the control again, and what follows it finds what the control has left.
    replicate = PLAN.replicate(PLAN.controls[0]).name
    kinds = [(turn, "plain" if turn.role == replicate else PLAN.arm(turn.role).protection) for turn in turns]
    own = Counter(kind for (_, before), (turn, kind) in pairwise(kinds) if before == kind and turn.role != replicate)
    assert max(own.values()) - min(own.values()) <= workloads
    assert own.keys() == {arm.protection for arm in PLAN.arms if not arm.replicate}


def test_the_arms_of_a_distance_follow_each_other() -> None:
    plan = plan_of("mysql-transport", "default", "distance=lan,us-us")
    turns = Schedule(plan).round(0, {"connect": [arm.name for arm in plan.arms]})
    contexts = [plan.arm(turn.arm).context for turn in turns]
    assert contexts in (["lan"] * 4 + ["us-us"] * 4, ["us-us"] * 4 + ["lan"] * 4)


def test_a_slow_factor_changes_once_in_a_round() -> None:
    plan = plan_of("mongodb-chained-replication")
    schedule = Schedule(plan)
    for number in range(4):
        arms = [plan.arm(turn.arm) for turn in schedule.round(number, {"write": [arm.name for arm in plan.arms]})]
        assert len(arms) == len(plan.arms)
        assert sum(a.levels["sync"] != b.levels["sync"] for a, b in pairwise(arms)) == 1
        stars = [arm.context for arm in arms if arm.levels["sync"] == "star"]
        assert sum(a != b for a, b in pairwise(stars)) == len(plan.controls) - 1


def test_the_stop_rule() -> None:
    plan = resolve(STUDY, QUICK(budget="50s", precision="5%"))
    good, bad = [0.05] * 3, [0.01, 0.06, 0.01]
    assert not enough(plan, 9, 10.0, good, 1.0), "the fewest rounds are not there yet"
    assert enough(plan, 10, 10.0, good, 1.0), "precise enough"
    assert not enough(plan, 10, 10.0, bad, 1.0), "one lucky round is not enough"
    assert not enough(plan, 10, 10.0, [None] * 3, 1.0)
    assert not enough(plan, 10, 10.0, good[:2], 1.0)
    assert enough(plan, 10, 49.5, bad, 1.0), "the next round would end after the budget"
    assert enough(plan, plan.most_rounds, 10.0, bad, 1.0)
    assert not enough(plan, 1, 49.5, bad, 49.5), "one round alone would be a run that tells nothing"
    assert enough(plan, 2, 49.5, bad, 1.0)


def test_rounds_alone_end_a_run_that_has_a_number_of_them() -> None:
    plan = resolve(STUDY, QUICK(rounds="4"))
    assert (plan.budget_seconds, plan.precision) == (None, None)
    assert Plan.model_validate_json(plan.model_dump_json(by_alias=True)) == plan
    assert [enough(plan, done, 1e6, [0.0] * done, 1e6) for done in range(1, 5)] == [False, False, False, True]


BUDGET_ROUNDS = 60
RUNS = 300


@functools.cache
def budgeted(seconds: int = BUDGET_ROUNDS) -> Plan:
    return resolve(STUDY, QUICK(budget=f"{seconds}s"))


def looked_at(
    chance: np.random.Generator, cost: float, spread: float, arms: int = 4
) -> tuple[int, list[Contrast], float]:
    """A run of rounds of a second each, ended as a run is: its rounds, what was judged last, and the error rate."""
    looks, logs = Looks(budgeted()), chance.normal(math.log(cost), spread, (arms, BUDGET_ROUNDS))
    for rounds in range(2, BUDGET_ROUNDS + 1):
        rate = looks.due(rounds, float(rounds))
        if rate is None and rounds < BUDGET_ROUNDS:
            continue
        contrasts = [Contrast(mean_over_rounds(list(row[:rounds])), rounds, 0.05) for row in logs]
        if rounds == BUDGET_ROUNDS:
            break
        assert rate is not None
        if Verdict.UNRESOLVED not in verdicts(contrasts, rate):
            looks.end(rate)
            break
    return rounds, contrasts, looks.error_rate


def test_a_run_that_may_end_at_looks_finds_a_cost_that_is_none_no_more_often() -> None:
    chance, wrong = np.random.default_rng(41), 0
    for _ in range(RUNS):
        _, contrasts, rate = looked_at(chance, 1.0, 0.05)
        wrong += any(verdict in (Verdict.COSTS, Verdict.SAVES) for verdict in verdicts(contrasts, rate))
    assert wrong / RUNS <= 0.06


@pytest.mark.parametrize(("cost", "spread"), [(1.0, 0.1), (1.02, 0.03), (1.2, 0.1)])
def test_the_interval_of_a_run_that_ended_at_a_look_holds_the_truth(cost: float, spread: float) -> None:
    chance, held = np.random.default_rng(43), 0
    for _ in range(RUNS):
        rounds, contrasts, _ = looked_at(chance, cost, spread, arms=1)
        interval = contrasts[0].change.estimate(rounds)
        held += interval.low <= math.log(cost) <= interval.high
    assert 0.92 <= held / RUNS <= 0.98


def test_a_large_cost_ends_a_run_at_its_first_look() -> None:
    chance = np.random.default_rng(47)
    rounds = [looked_at(chance, 1.5, 0.05)[0] for _ in range(50)]
    assert set(rounds) == {math.ceil(LOOKS[0] * BUDGET_ROUNDS)}


def test_looks_are_had_once_and_spend_what_there_is() -> None:
    looks = Looks(budgeted(100))
    assert looks.due(5, 99.0) is None, "the fewest rounds are not there yet"
    rates = [looks.due(20, seconds) for seconds in (29.0, 30.0, 31.0, 50.0, 99.0)]
    assert [rate is not None for rate in rates] == [False, True, False, True, False]
    spent = sum(rate for rate in rates if rate is not None)
    assert spent + looks.error_rate == pytest.approx(0.05)
    resumed = Looks(budgeted(200), spent)
    assert resumed.due(20, 60.0) is None, "what is spent is not to be had again"
    assert resumed.error_rate == pytest.approx(0.05 - spent)


@pytest.mark.parametrize("options", [QUICK(rounds="4"), QUICK(precision="2%")])
def test_who_asks_for_rounds_or_precision_gets_them(options: Options) -> None:
    assert Looks(resolve(STUDY, options)).due(1000, 1e6) is None


START_UP_SECONDS = 0.01


def taken(
    plan: Plan, workload: str, arm: str, operations: int, seconds: float, phase: str, **times: float
) -> MeasuredSlice:
    """A slice of the warm-up."""
    phases = {phase: phase_of(seconds * 1e3 * plan.workers(workload, plan.arm(arm)) / operations, operations, **times)}
    answer = answer_of(Slice(operations, seconds, phases, {}, {}), workload, arm)
    return MeasuredSlice(SliceKey(workload, arm), answer, START_UP_SECONDS)


def warm_up(
    plan: Plan, operation_ms: float, *, spread: float = 0.05, operations: int | None = None
) -> list[MeasuredSlice]:
    """A round whose operations take so long each and make up all of a slice; as many as planned where not said."""
    found = []
    for workload in plan.study.workloads:
        for arm in plan.arms:
            count = operations or plan.size(workload, arm).operations
            seconds = count * operation_ms / plan.workers(workload, arm) / 1e3
            found.append(taken(plan, workload, arm.name, count, seconds, "operation", spread=spread))
    return found


def test_start_up_takes_a_tenth_of_a_slice_and_the_fastest_arm_decides_for_all() -> None:
    chosen = choose_sizes(PLAN, warm_up(PLAN, 1.0))["wire_query"]
    assert START_UP_SECONDS / (START_UP_SECONDS + chosen.operations * 0.001) == pytest.approx(MOST_START_UP)
    planned = PLAN.slices["wire_query"]
    assert chosen.seconds / planned.seconds == pytest.approx(chosen.operations / planned.operations, rel=0.05)
    mixed = [each for each in warm_up(PLAN, 10.0) if each.key.arm == "tls"]
    mixed += [each for each in warm_up(PLAN, 1.0) if each.key.arm != "tls"]
    assert choose_sizes(PLAN, mixed)["wire_query"] == chosen


def test_noisy_operations_make_a_slice_longer() -> None:
    """So that the logarithm of its mean, which is too low by half the relative variance, is off by 0.5 %."""
    assert PLAN.precision == 0.05
    noisy = warm_up(PLAN, 1.0, spread=2.0)
    phase = next(each.answer.phases["operation"] for each in noisy if each.key.workload == "wire_query")
    variance = phase.sum_squares_ns2 * phase.count / phase.sum_ns**2 - 1
    chosen = choose_sizes(PLAN, noisy)["wire_query"]
    assert variance / chosen.operations / 2 == pytest.approx(0.005, rel=0.01)
    finer = PLAN.model_copy(update={"precision": 0.025})
    assert choose_sizes(finer, noisy)["wire_query"].operations == pytest.approx(2 * chosen.operations, abs=2)


def test_a_slow_arm_has_two_operations_of_each_worker() -> None:
    plan = plan_of("mysql-transport", "quick", "distance=us-us")
    chosen = choose_sizes(plan, warm_up(plan, 45.0))
    far = {name: size.operations for name, size in chosen.items() if name.endswith("@far")}
    assert far == {"connect@far": 10, "query_1@far": 2, "query_8@far": 16, "query_32@far": 64}
    assert chosen["connect@far"].workers == 5
    assert chosen["query_1"] == plan.slices["query_1"], "nobody was near"


def test_a_rate_of_whole_slices_has_a_hundred_operations_of_each_worker() -> None:
    plan = plan_of("mysql-column-encryption")
    planned = round(plan.slices["transactions"].seconds / 0.005 * plan.workers("transactions", plan.arms[0]))
    chosen = choose_sizes(plan, warm_up(plan, 5.0, operations=planned))
    assert chosen["transactions"].seconds == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("plan", "operation_ms", "spread"),
    [
        # None is longer than planned, and those of exact rounds are as planned.
        (PLAN, 0.001, 3.0),
        (resolve(STUDY, QUICK(rounds="5")), 1.0, 0.05),
        (resolve(STUDY, Options("published")), 1.0, 0.05),
    ],
)
def test_slices_stay_as_planned(plan: Plan, operation_ms: float, spread: float) -> None:
    assert choose_sizes(plan, warm_up(plan, operation_ms, spread=spread)) == plan.slices


def test_a_burst_stays_what_it_is() -> None:
    plan = plan_of("http-tls-termination")
    assert choose_sizes(plan, warm_up(plan, 200.0))["burst"] == plan.slices["burst"]


def test_the_most_rounds_fill_the_budget() -> None:
    few, slices = PLAN.model_copy(update={"most_rounds": PLAN.fewest_rounds + 1}), warm_up(PLAN, 1.0)
    whole_round = sum(each.seconds + each.start_up_seconds for each in slices)
    share = choose_sizes(few, slices)["wire_query"].seconds / PLAN.slices["wire_query"].seconds
    assert few.budget_seconds is not None
    assert share * whole_round * few.most_rounds == pytest.approx(few.budget_seconds)


def test_an_arm_that_does_nothing_changes_nothing() -> None:
    silent = MeasuredSlice(
        SliceKey("wire_query", "tls"), answer_of(Slice(0, 1.0, {}, {}, {}), "wire_query", "tls"), START_UP_SECONDS
    )
    slices = warm_up(PLAN, 1.0)
    assert choose_sizes(PLAN, [*slices, silent]) == choose_sizes(PLAN, slices)
    assert choose_sizes(PLAN, []) == PLAN.slices


def test_a_size_that_is_shortened_keeps_an_operation() -> None:
    shortened = SliceSize(operations=3, seconds=3.0, workers=5).times(0.01)
    assert shortened == SliceSize(operations=1, seconds=0.03, workers=5)


def test_slices_of_several_hosts_end_by_time() -> None:
    """As long as the slowest arm takes, unless the fastest would do more than ten times as much by then."""
    slices = {"slices": {name: SliceSize(operations=100, seconds=60.0) for name in PLAN.slices}}
    exact = PLAN.model_copy(update={"hosts": "auto", "budget_seconds": None, **slices})
    size = choose_sizes(exact, warm_up(exact, 1.0))["wire_query"]
    assert size.seconds == pytest.approx(0.1)
    assert size.operations > 10**9
    others = [each for each in warm_up(exact, 1.0) if each.key.arm != "tls"]
    for milliseconds, seconds in ((5.0, 0.5), (50.0, 1.0)):
        slow = [each for each in warm_up(exact, milliseconds) if each.key.arm == "tls"]
        assert choose_sizes(exact, others + slow)["wire_query"].seconds == pytest.approx(seconds)


def test_a_program_that_is_told_how_long_keeps_its_length_on_hosts() -> None:
    """Where three do it at once, each to its end; what is run again and again ends by time."""
    told = {"title": "t", "service": "command", "control": {"it": "a"}, "factors": {"it": {"levels": ["a", "b"]}}}
    workloads = {"once": {"command": {"run": "x {seconds}"}}, "again": {"command": {"run": "x", "seconds": 1.0}}}
    plan = resolve(read_study("mine", {**told, "workloads": workloads}), QUICK(hosts="auto"))
    slices = [
        taken(plan, workload, arm.name, operations, seconds, "command")
        for workload, operations, seconds in (("once", 3, 2.1), ("again", 300, 1.0))
        for arm in plan.arms
    ]
    chosen = choose_sizes(plan, slices)
    assert chosen["once"] == plan.slices["once"] == SliceSize(operations=1, seconds=2.0)
    assert chosen["again"].operations > 10**9
    assert chosen["again"].seconds <= 1.0


def test_cores_are_kept_awake_where_that_is_allowed_and_the_run_says_so(tmp_path: Path) -> None:
    request = tmp_path / "cpu_dma_latency"
    request.touch()
    with cores_awake(request) as said:
        assert request.read_bytes() == b"\0\0\0\0"
        assert said.startswith("kept awake")
    with cores_awake(tmp_path / "no" / "such" / "device") as said:
        assert said.startswith("may sleep")
