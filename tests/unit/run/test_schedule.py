"""Tests of the order and sizes of slices (measured windows), and of the rule by which a run ends."""

from __future__ import annotations

import functools
import math
import random
import re
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costof.results.metrics import SliceKey
from costof.run.machine import busy_warnings, cores_awake
from costof.run.schedule import LOOKS, BalancedOrders, Looks, Schedule, enough
from costof.run.sizes import MOST_START_UP, MeasuredSlice, choose_sizes
from costof.statistics.estimate import Verdict
from costof.statistics.intervals import mean_over_rounds
from costof.statistics.verdicts import Contrast, verdicts
from costof.study.library import load_study, read_study
from costof.study.options import MOST_ROUNDS, parse_duration
from costof.study.plan import Options, Plan, resolve
from costof.study.schema import SliceSize
from tests.fake_run import Slice, answer_of, phase_of
from tests.support.small_plans import plan_of

STUDY = load_study("mongodb-tls")
PLAN = plan_of("mongodb-tls")
QUICK = functools.partial(Options, "quick")
ARMS = [arm.name for arm in PLAN.arms]


def draw_orders(arms: int, rounds: int, seed: int) -> list[list[str]]:
    orders, names, rows, last = BalancedOrders(random.Random(seed)), [f"arm {n}" for n in range(arms)], [], None
    for _ in range(rounds):
        rows.append(orders.next(names, last))
        last = rows[-1][-1]
    return rows


@given(arms=st.integers(2, 20), rounds=st.integers(1, 60), seed=st.integers(0, 100))
def test_every_arm_is_measured_equally_often_after_every_other_arm(arms: int, rounds: int, seed: int) -> None:
    rows = draw_orders(arms, rounds, seed)
    assert all(len(set(order)) == len(order) == arms for order in rows)
    measured = [arm for order in rows for arm in order]
    follows = Counter(pairwise(measured))
    counts = [follows[one, other] for one in set(measured) for other in set(measured)]
    # With two arms, the previous round determines the order. With more arms, the choice between equally balanced orders
    # is random, so counts may differ more.
    assert max(counts) - min(counts) <= (1 if arms == 2 else 3)
    itself = [follows[arm, arm] for arm in set(measured)]
    # The counts may differ, because nothing comes before the first slice of the run and nothing after the last.
    assert max(itself) - min(itself) <= 2


@pytest.mark.parametrize("arms", [3, 4])
def test_first_order_of_arms_is_random_and_determined_by_the_seed(arms: int) -> None:
    first = {tuple(draw_orders(arms, 1, seed)[0]) for seed in range(400)}
    assert len(first) == {3: 6, 4: 24}[arms]
    assert draw_orders(arms, 20, 7) == draw_orders(arms, 20, 7)


def test_round_begins_with_the_last_arm_of_the_previous_round() -> None:
    orders = BalancedOrders(random.Random(3))
    assert orders.next(["a", "b", "c"], "b")[0] == "b"
    orders = BalancedOrders(random.Random(3))
    begun = Counter(orders.next(["a", "b", "c"], "another workload's arm")[0] for _ in range(30))
    assert max(begun.values()) - min(begun.values()) <= 1, "after another group all arms begin equally often"
    assert orders.next(["a"], None) == ["a"]


def test_round_measures_every_arm_once_in_an_order_determined_by_the_seed() -> None:
    workloads = dict.fromkeys(STUDY.workloads, ARMS)
    schedule, other = Schedule(PLAN), Schedule(PLAN)
    first, second = schedule.round(0, workloads), schedule.round(1, workloads)
    assert [other.round(number, workloads) for number in range(2)] == [first, second]
    assert first != second
    assert sorted(key[:2] for key in first) == sorted((workload, arm) for workload in workloads for arm in ARMS)
    # All arms of a workload are measured one after the other, so that the slices that are compared are close in time.
    assert [key.workload for key in first] == [w for w in dict.fromkeys(t.workload for t in first) for _ in ARMS]


def test_control_and_its_copy_are_measured_in_random_but_balanced_order() -> None:
    schedule, control = Schedule(PLAN), PLAN.controls[0]
    copies = [control.name, PLAN.replicate(control).name]
    first = []
    for number in range(-1, 40):
        slices = schedule.round(number, {"app_query": ARMS})
        one, other = (place for place, key in enumerate(slices) if key.arm in copies)
        assert other == one + 1, "the copies follow each other"
        assert [slices[one].owner, slices[other].owner] == copies
        assert all(key.owner == key.arm for key in slices if key.arm not in copies)
        first.append(slices[one].arm)
    assert all({one, other} == {*copies} for one, other in zip(first[1::2], first[2::2], strict=True))
    assert len(set(first[1::2])) == 2, "the order is random"


@pytest.mark.parametrize("workloads", [1, 3])
def test_every_protection_is_equally_often_measured_twice_in_a_row(workloads: int) -> None:
    schedule = Schedule(PLAN)
    slices = [
        key
        for number in range(60)
        for key in schedule.round(number, dict.fromkeys(list(STUDY.workloads)[:workloads], ARMS))
    ]
    # This test calls the identical copy of the control by the control's name, 'plain'.
    replicate = PLAN.replicate(PLAN.controls[0]).name
    kinds = [(key, "plain" if key.owner == replicate else PLAN.arm(key.owner).protection) for key in slices]
    own = Counter(kind for (_, before), (key, kind) in pairwise(kinds) if before == kind and key.owner != replicate)
    assert max(own.values()) - min(own.values()) <= workloads
    assert own.keys() == {arm.protection for arm in PLAN.arms if not arm.replicate}


@pytest.mark.parametrize("workloads", [1, 2, 3])
def test_each_of_two_protections_is_measured_first_in_one_of_two_rounds(workloads: int) -> None:
    plan = plan_of("mongodb-tls", "quick", "transport=plain,tls")
    measured = {name: [arm.name for arm in plan.arms] for name in list(plan.study.workloads)[:workloads]}
    schedule, tls = Schedule(plan), plan.protected[0].name
    for number in range(0, 40, 2):
        # In each, the workloads in which the protected arm is measured before the control.
        first, second = (
            {key.workload: key.arm == tls for key in reversed(schedule.round(each, measured))}
            for each in (number, number + 1)
        )
        assert all(first[name] != second[name] for name in measured)


@pytest.mark.parametrize("workloads", [1, 2, 3, 4])
def test_each_of_two_protections_follows_every_workload_equally_often(workloads: int) -> None:
    plan = plan_of("mongodb-tls", "quick", "transport=plain,tls")
    measured = {name: [arm.name for arm in plan.arms] for name in list(plan.study.workloads)[:workloads]}
    schedule, tls = Schedule(plan), plan.protected[0].name
    keys = [key for number in range(400) for key in schedule.round(number, measured)]
    # The control and its identical copy follow each other, and count as one slice here.
    replicate = plan.replicate(plan.controls[0]).name
    slices = [(key.workload, key.arm == tls) for key in keys if key.owner != replicate]
    steps = Counter(
        (before, key, of_tls == after_tls, of_tls) for (before, after_tls), (key, of_tls) in pairwise(slices)
    )
    for before, key, same in {step[:3] for step in steps}:
        with_tls, without = steps[before, key, same, True], steps[before, key, same, False]
        assert abs(with_tls - without) <= 0.1 * (with_tls + without), (before, key, same)
    assert all(steps[name, name, True, True] for name in measured), "also after a slice of the same workload"


def test_round_measures_all_arms_of_one_distance_before_the_next_distance() -> None:
    plan = plan_of("mysql-transport", "default", "distance=lan,us-us")
    slices = Schedule(plan).round(0, {"connect": [arm.name for arm in plan.arms]})
    contexts = [plan.arm(key.arm).context for key in slices]
    assert contexts in (["lan"] * 4 + ["us-us"] * 4, ["us-us"] * 4 + ["lan"] * 4)


def test_factor_whose_levels_take_long_to_change_is_changed_only_once_in_a_round() -> None:
    plan = plan_of("mongodb-chained-replication")
    schedule = Schedule(plan)
    for number in range(4):
        arms = [plan.arm(key.arm) for key in schedule.round(number, {"write": [arm.name for arm in plan.arms]})]
        assert len(arms) == len(plan.arms)
        assert sum(a.levels["sync"] != b.levels["sync"] for a, b in pairwise(arms)) == 1
        stars = [arm.context for arm in arms if arm.levels["sync"] == "star"]
        assert sum(a != b for a, b in pairwise(stars)) == len(plan.controls) - 1


def test_run_ends_as_soon_as_it_is_precise_enough_or_reaches_a_limit() -> None:
    plan = resolve(STUDY, QUICK(budget="50s", precision="5%"))
    good, bad = [0.05] * 3, [0.01, 0.06, 0.01]
    assert not enough(plan, 9, 10.0, good, 1.0), "fewer than the fewest rounds"
    assert enough(plan, 10, 10.0, good, 1.0), "precise enough"
    assert not enough(plan, 10, 10.0, bad, 1.0), "one precise round is not enough"
    assert not enough(plan, 10, 10.0, [None] * 3, 1.0)
    assert not enough(plan, 10, 10.0, good[:2], 1.0)
    assert enough(plan, 10, 49.5, bad, 1.0), "the next round would end after the budget"
    assert enough(plan, plan.most_rounds, 10.0, bad, 1.0)
    assert not enough(plan, 1, 49.5, bad, 49.5), "a single round has no interval"
    assert enough(plan, 2, 49.5, bad, 1.0)


def test_minimum_number_of_rounds_is_measured_even_beyond_the_budget() -> None:
    plan = resolve(STUDY, QUICK(budget="50s", at_least=20, at_most=30))
    assert (plan.fewest_rounds, plan.most_rounds) == (20, 30)
    assert [enough(plan, done, 100.0, [None] * done, 5.0) for done in (2, 19, 20)] == [False, False, True]
    assert (resolve(STUDY, QUICK(at_most=4)).fewest_rounds, resolve(STUDY, QUICK(at_least=4)).fewest_rounds) == (4, 4)


def test_budget_above_that_of_the_profile_raises_the_maximum_number_of_rounds() -> None:
    profile = STUDY.profiles["quick"]
    most, seconds = profile.rounds[1], int(3 * parse_duration(profile.budget))
    longer = resolve(STUDY, QUICK(budget=f"{seconds}s", precision="1%"))
    assert longer.most_rounds == 3 * most
    assert resolve(STUDY, QUICK(budget="10s")).most_rounds == most
    assert resolve(STUDY, QUICK(budget=f"{seconds}s", at_most=30)).most_rounds == 30
    assert resolve(STUDY, QUICK()).with_budget("1h").most_rounds == MOST_ROUNDS


def test_run_with_a_fixed_number_of_rounds_ends_only_after_these_rounds() -> None:
    plan = resolve(STUDY, QUICK(rounds="4"))
    assert (plan.budget_seconds, plan.precision) == (None, None)
    assert Plan.model_validate_json(plan.model_dump_json(by_alias=True)) == plan
    assert [enough(plan, done, 1e6, [0.0] * done, 1e6) for done in range(1, 5)] == [False, False, False, True]


BUDGET_ROUNDS = 60
RUNS = 300


@functools.cache
def budgeted(seconds: int = BUDGET_ROUNDS) -> Plan:
    return resolve(STUDY, QUICK(budget=f"{seconds}s"))


def simulate_with_looks(
    chance: np.random.Generator, cost: float, spread: float, arms: int = 4
) -> tuple[int, list[Contrast], float]:
    """Simulate a run with interim analyses, in which a round takes a second.

    Return the number of rounds, the effects (contrasts) at the end, and the error rate of their intervals.
    """
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


def test_interim_analyses_do_not_raise_the_rate_of_false_costs() -> None:
    chance, wrong = np.random.default_rng(41), 0
    for _ in range(RUNS):
        _, contrasts, rate = simulate_with_looks(chance, 1.0, 0.05)
        wrong += any(verdict in (Verdict.COSTS, Verdict.SAVES) for verdict in verdicts(contrasts, rate))
    assert wrong / RUNS <= 0.06


@pytest.mark.parametrize(("cost", "spread"), [(1.0, 0.1), (1.02, 0.03), (1.2, 0.1)])
def test_interval_of_a_run_ended_by_an_interim_analysis_contains_the_truth(cost: float, spread: float) -> None:
    chance, held = np.random.default_rng(43), 0
    for _ in range(RUNS):
        rounds, contrasts, _ = simulate_with_looks(chance, cost, spread, arms=1)
        interval = contrasts[0].change.estimate(rounds)
        held += interval.low <= math.log(cost) <= interval.high
    assert 0.92 <= held / RUNS <= 0.98


def test_large_cost_ends_a_run_at_its_first_interim_analysis() -> None:
    chance = np.random.default_rng(47)
    rounds = [simulate_with_looks(chance, 1.5, 0.05)[0] for _ in range(50)]
    assert set(rounds) == {math.ceil(LOOKS[0] * BUDGET_ROUNDS)}


def test_each_interim_analysis_is_due_once_and_spends_its_error_rate() -> None:
    looks = Looks(budgeted(100))
    assert looks.due(5, 99.0) is None, "fewer than the fewest rounds"
    rates = [looks.due(20, seconds) for seconds in (29.0, 30.0, 31.0, 50.0, 99.0)]
    assert [rate is not None for rate in rates] == [False, True, False, True, False]
    spent = sum(rate for rate in rates if rate is not None)
    assert spent + looks.error_rate == pytest.approx(0.05)
    resumed = Looks(budgeted(200), spent)
    assert resumed.due(20, 60.0) is None, "the error rate of the first look is spent"
    assert resumed.error_rate == pytest.approx(0.05 - spent)


@pytest.mark.parametrize("options", [QUICK(rounds="4"), QUICK(precision="2%")])
def test_run_with_a_fixed_number_of_rounds_or_requested_precision_has_no_interim_analyses(options: Options) -> None:
    assert Looks(resolve(STUDY, options)).due(1000, 1e6) is None


START_UP_SECONDS = 0.01


def measured_slice(
    plan: Plan, workload: str, arm: str, operations: int, seconds: float, phase: str, **times: float
) -> MeasuredSlice:
    phases = {phase: phase_of(seconds * 1e3 * plan.workers(workload, plan.arm(arm)) / operations, operations, **times)}
    answer = answer_of(Slice(operations, seconds, phases, {}, {}), workload, arm)
    return MeasuredSlice(SliceKey(workload, arm), answer, START_UP_SECONDS)


def warm_up(
    plan: Plan, operation_ms: float, *, spread: float = 0.05, operations: int | None = None
) -> list[MeasuredSlice]:
    """Return the slices of a warm-up round in which each operation takes `operation_ms`.

    The slices have as many operations as planned if `operations` is None.
    """
    slices = []
    for workload in plan.study.workloads:
        for arm in plan.arms:
            count = operations or plan.size(workload, arm).operations
            seconds = count * operation_ms / plan.workers(workload, arm) / 1e3
            slices.append(measured_slice(plan, workload, arm.name, count, seconds, "operation", spread=spread))
    return slices


def test_measurement_is_shortened_until_a_tenth_of_its_time_is_start_up() -> None:
    chosen = choose_sizes(PLAN, warm_up(PLAN, 1.0))["wire_query"]
    assert START_UP_SECONDS / (START_UP_SECONDS + chosen.operations * 0.001) == pytest.approx(MOST_START_UP)
    planned = PLAN.slices["wire_query"]
    assert chosen.seconds / planned.seconds == pytest.approx(chosen.operations / planned.operations, rel=0.05)
    mixed = [each for each in warm_up(PLAN, 10.0) if each.key.arm == "tls"]
    mixed += [each for each in warm_up(PLAN, 1.0) if each.key.arm != "tls"]
    assert choose_sizes(PLAN, mixed)["wire_query"] == chosen


def test_measurement_is_longer_if_the_durations_of_its_operations_vary_more() -> None:
    """Short slices bias the effect, because the logarithm of a noisy mean is too low on average.

    The bias is half the relative variance of the mean. Slices must be long enough to keep it below 0.5 %.
    """
    assert PLAN.precision == 0.05
    noisy = warm_up(PLAN, 1.0, spread=2.0)
    phase = next(each.answer.phases["operation"] for each in noisy if each.key.workload == "wire_query")
    variance = phase.sum_squares_ns2 * phase.count / phase.sum_ns**2 - 1
    chosen = choose_sizes(PLAN, noisy)["wire_query"]
    assert variance / chosen.operations / 2 == pytest.approx(0.005, rel=0.01)
    finer = PLAN.model_copy(update={"precision": 0.025})
    assert choose_sizes(finer, noisy)["wire_query"].operations == pytest.approx(2 * chosen.operations, abs=2)


def test_measurement_of_a_slow_arm_is_shortened_to_two_operations_of_each_worker() -> None:
    plan = plan_of("mysql-transport", "quick", "distance=us-us")
    chosen = choose_sizes(plan, warm_up(plan, 45.0))
    far = {name: size.operations for name, size in chosen.items() if name.endswith("@far")}
    assert far == {"connect@far": 10, "query_1@far": 2, "query_8@far": 16, "query_32@far": 64}
    assert chosen["connect@far"].workers == 5
    assert chosen["query_1"] == plan.slices["query_1"], "there is no near client"


def test_shortened_measurement_of_a_rate_has_a_hundred_operations_per_worker() -> None:
    plan = plan_of("mysql-column-encryption")
    planned = round(plan.slices["transactions"].seconds / 0.005 * plan.workers("transactions", plan.arms[0]))
    chosen = choose_sizes(plan, warm_up(plan, 5.0, operations=planned))
    assert chosen["transactions"].seconds == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("plan", "operation_ms", "spread"),
    [
        # In the first case, operations scatter so much that slices would have to be longer than planned. The other
        # cases have a fixed number of rounds.
        (PLAN, 0.001, 3.0),
        (resolve(STUDY, QUICK(rounds="5")), 1.0, 0.05),
        (resolve(STUDY, Options("published")), 1.0, 0.05),
    ],
)
def test_measurements_are_not_shortened_if_they_are_noisy_or_the_number_of_rounds_is_fixed(
    plan: Plan, operation_ms: float, spread: float
) -> None:
    assert choose_sizes(plan, warm_up(plan, operation_ms, spread=spread)) == plan.slices


def test_measurement_of_a_burst_of_connections_is_not_shortened_to_fit_the_budget() -> None:
    plan = plan_of("http-tls-termination")
    assert choose_sizes(plan, warm_up(plan, 200.0))["burst"] == plan.slices["burst"]


def test_measurements_are_shortened_only_until_the_maximum_number_of_rounds_fits_the_budget() -> None:
    few, slices = PLAN.model_copy(update={"most_rounds": PLAN.fewest_rounds + 1}), warm_up(PLAN, 1.0)
    whole_round = sum(each.seconds + each.start_up_seconds for each in slices)
    share = choose_sizes(few, slices)["wire_query"].seconds / PLAN.slices["wire_query"].seconds
    assert few.budget_seconds is not None
    assert share * whole_round * few.most_rounds == pytest.approx(few.budget_seconds)


def test_arm_without_operations_does_not_affect_sizes_of_measurements() -> None:
    silent = MeasuredSlice(
        SliceKey("wire_query", "tls"), answer_of(Slice(0, 1.0, {}, {}, {}), "wire_query", "tls"), START_UP_SECONDS
    )
    slices = warm_up(PLAN, 1.0)
    assert choose_sizes(PLAN, [*slices, silent]) == choose_sizes(PLAN, slices)
    assert choose_sizes(PLAN, []) == PLAN.slices


def test_shortened_measurement_has_at_least_one_operation() -> None:
    shortened = SliceSize(operations=3, seconds=3.0, workers=5).times(0.01)
    assert shortened == SliceSize(operations=1, seconds=0.03, workers=5)


def test_measurements_on_several_hosts_end_after_a_time_and_not_after_a_number_of_operations() -> None:
    """All slices last as long as the slowest arm needs, but at most ten times as long as the fastest arm needs."""
    slices = {"slices": {name: SliceSize(operations=100, seconds=60.0) for name in PLAN.slices}}
    exact = PLAN.model_copy(update={"hosts": "auto", "budget_seconds": None, **slices})
    size = choose_sizes(exact, warm_up(exact, 1.0))["wire_query"]
    assert size.seconds == pytest.approx(0.1)
    assert size.operations > 10**9
    others = [each for each in warm_up(exact, 1.0) if each.key.arm != "tls"]
    for milliseconds, seconds in ((5.0, 0.5), (50.0, 1.0)):
        slow = [each for each in warm_up(exact, milliseconds) if each.key.arm == "tls"]
        assert choose_sizes(exact, others + slow)["wire_query"].seconds == pytest.approx(seconds)


def test_program_of_fixed_duration_is_not_shortened_on_several_hosts() -> None:
    """Each of three hosts runs the program of the workload `once` a single time, because its duration is fixed.

    A host repeats the program of `again`, whose duration is not fixed.
    """
    content = {"title": "t", "service": "command", "control": {"it": "a"}, "factors": {"it": {"levels": ["a", "b"]}}}
    workloads = {"once": {"command": {"run": "x {seconds}"}}, "again": {"command": {"run": "x", "seconds": 1.0}}}
    plan = resolve(read_study("mine", {**content, "workloads": workloads}), QUICK(hosts="auto"))
    slices = [
        measured_slice(plan, workload, arm.name, operations, seconds, "command")
        for workload, operations, seconds in (("once", 3, 2.1), ("again", 300, 1.0))
        for arm in plan.arms
    ]
    chosen = choose_sizes(plan, slices)
    assert chosen["once"] == plan.slices["once"] == SliceSize(operations=1, seconds=2.0)
    assert chosen["again"].operations > 10**9
    assert chosen["again"].seconds <= 1.0


def spin(seconds: float) -> None:
    end = time.process_time() + 2 * seconds
    while time.process_time() < end:
        pass


def test_high_load_average_is_reported_only_if_the_cpu_is_in_use_now() -> None:
    (warning,) = busy_warnings(7.8, 1, spin)
    assert re.fullmatch(r"the machine was busy just .* used \d+% of its CPU time \(load 7\.8 on 1 cores\)", warning)
    assert busy_warnings(7800.0, 1000, spin) == [], "an earlier run raised the load"
    assert busy_warnings(0.9, 1, lambda _: pytest.fail("a low load needs no reading")) == []


def test_cpu_cores_are_kept_out_of_sleep_states_if_permitted(tmp_path: Path) -> None:
    request = tmp_path / "cpu_dma_latency"
    request.touch()
    with cores_awake(request) as text:
        assert request.read_bytes() == b"\0\0\0\0"
        assert text.startswith("kept awake")
    with cores_awake(tmp_path / "no" / "such" / "device") as text:
        assert text.startswith("may sleep")
