"""How long slices last after the warm-up."""

from __future__ import annotations

import pytest

from costof.results.samples import Turn
from costof.run.sizes import MOST_START_UP, Taken, chosen_sizes
from costof.study.library import load_study, study_of
from costof.study.plan import Options, Plan, resolve
from costof.study.schema import SliceSize
from tests.fake_run import Slice, answer_of, phase_of
from tests.support.small_plans import plan_of

START_UP_SECONDS = 0.01


def warm_up(plan: Plan, operation_ms: float, *, spread: float = 0.05, operations: int | None = None) -> list[Taken]:
    """A round whose operations take so long each and make up all of a slice; as many as planned where not said."""
    taken = []
    for workload in plan.study.workloads:
        for arm in plan.arms:
            count = operations or plan.size(workload, arm).operations
            phases = {"operation": phase_of(operation_ms, count, spread=spread)}
            seconds = count * operation_ms / plan.workers(workload, arm) / 1e3
            answer = answer_of(Slice(count, seconds, phases, {}, {}), workload, arm.name)
            taken.append(Taken(Turn(workload, arm.name), answer, START_UP_SECONDS))
    return taken


@pytest.fixture
def plan() -> Plan:
    return plan_of("mongodb-tls")


def test_start_up_takes_a_tenth_of_a_slice(plan: Plan) -> None:
    chosen = chosen_sizes(plan, warm_up(plan, 1.0))["wire_query"]
    assert START_UP_SECONDS / (START_UP_SECONDS + chosen.operations * 0.001) == pytest.approx(MOST_START_UP)
    planned = plan.slices["wire_query"]
    assert chosen.seconds / planned.seconds == pytest.approx(chosen.operations / planned.operations, rel=0.05)


def test_the_fastest_arm_decides_for_all(plan: Plan) -> None:
    taken = [each for each in warm_up(plan, 10.0) if each.turn.arm == "tls"]
    taken += [each for each in warm_up(plan, 1.0) if each.turn.arm != "tls"]
    assert chosen_sizes(plan, taken)["wire_query"] == chosen_sizes(plan, warm_up(plan, 1.0))["wire_query"]


def test_noisy_operations_make_a_slice_longer(plan: Plan) -> None:
    """So that the logarithm of its mean, which is too low by half the relative variance, is off by 0.5 %."""
    assert plan.precision == 0.05
    taken = warm_up(plan, 1.0, spread=2.0)
    phase = next(each.answer.phases["operation"] for each in taken if each.turn.workload == "wire_query")
    variance = phase.sum_squares_ns2 * phase.count / phase.sum_ns**2 - 1
    chosen = chosen_sizes(plan, taken)["wire_query"]
    assert variance / chosen.operations / 2 == pytest.approx(0.005, rel=0.01)
    finer = plan.model_copy(update={"precision": 0.025})
    assert chosen_sizes(finer, taken)["wire_query"].operations == pytest.approx(2 * chosen.operations, abs=2)


def test_no_slice_is_longer_than_planned(plan: Plan) -> None:
    assert chosen_sizes(plan, warm_up(plan, 0.001, spread=3.0)) == plan.slices


def test_a_slow_arm_has_two_operations_of_each_worker() -> None:
    plan = plan_of("mysql-transport", "quick", "distance=us-us")
    chosen = chosen_sizes(plan, warm_up(plan, 45.0))
    far = {name: size.operations for name, size in chosen.items() if name.endswith("@far")}
    assert far == {"connect@far": 10, "query_1@far": 2, "query_8@far": 16, "query_32@far": 64}
    assert chosen["connect@far"].workers == 5
    assert chosen["query_1"] == plan.slices["query_1"], "nobody was near"


def test_a_rate_of_whole_slices_has_a_hundred_operations_of_each_worker() -> None:
    plan = plan_of("mysql-column-encryption")
    in_a_row = plan.slices["transactions"].seconds / 0.005
    planned = round(in_a_row * plan.workers("transactions", plan.arms[0]))
    chosen = chosen_sizes(plan, warm_up(plan, 5.0, operations=planned))
    assert chosen["transactions"].seconds == pytest.approx(0.5)


def test_a_burst_stays_what_it_is() -> None:
    plan = plan_of("http-tls-termination")
    assert chosen_sizes(plan, warm_up(plan, 200.0))["burst"] == plan.slices["burst"]


@pytest.mark.parametrize("options", [Options(profile="quick", rounds="5"), Options(profile="published")])
def test_slices_of_exact_rounds_are_as_planned(options: Options) -> None:
    plan = resolve(load_study("mongodb-tls"), options)
    assert chosen_sizes(plan, warm_up(plan, 1.0)) == plan.slices


def test_the_most_rounds_fill_the_budget(plan: Plan) -> None:
    few = plan.model_copy(update={"most_rounds": plan.fewest_rounds + 1})
    taken = warm_up(plan, 1.0)
    whole_round = sum(each.seconds + each.start_up_seconds for each in taken)
    share = chosen_sizes(few, taken)["wire_query"].seconds / plan.slices["wire_query"].seconds
    assert few.budget_seconds is not None
    assert share * whole_round * few.most_rounds == pytest.approx(few.budget_seconds)


def test_an_arm_that_does_nothing_changes_nothing(plan: Plan) -> None:
    silent = answer_of(Slice(0, 1.0, {}, {}, {}), "wire_query", "tls")
    taken = warm_up(plan, 1.0)
    with_silent = [*taken, Taken(Turn("wire_query", "tls"), silent, START_UP_SECONDS)]
    assert chosen_sizes(plan, with_silent) == chosen_sizes(plan, taken)
    assert chosen_sizes(plan, []) == plan.slices


@pytest.mark.parametrize("between", [0.0, 0.01, 0.1, 1.0])
@pytest.mark.parametrize("within", [0.05, 0.5, 3.0])
def test_no_longer_slice_is_worth_much(within: float, between: float) -> None:
    """The variance of an estimate in a second, by Kalibera & Jones' costs and variances of the two levels."""
    operation = 0.001
    shortest = START_UP_SECONDS / operation * (1 / MOST_START_UP - 1)

    def variance(operations: float) -> float:
        return (between**2 + within**2 / operations) * (START_UP_SECONDS + operations * operation)

    assert all(variance(shortest) <= variance(shortest * times) / 0.9 for times in (1.1, 2, 10, 1e3, 1e6))


def test_a_size_that_is_shortened_keeps_an_operation() -> None:
    assert SliceSize(operations=3, seconds=3.0, workers=5).times(0.01) == SliceSize(
        operations=1, seconds=0.03, workers=5
    )


def test_slices_of_several_hosts_end_by_time(plan: Plan) -> None:
    """As long as the slowest arm takes, unless the fastest would do more than ten times as much by then."""
    slices = {"slices": {name: SliceSize(operations=100, seconds=60.0) for name in plan.slices}}
    exact = plan.model_copy(update={"hosts": "auto", "budget_seconds": None, **slices})
    size = chosen_sizes(exact, warm_up(exact, 1.0))["wire_query"]
    assert size.seconds == pytest.approx(0.1)
    assert size.operations > 10**9
    others = [each for each in warm_up(exact, 1.0) if each.turn.arm != "tls"]
    for milliseconds, seconds in ((5.0, 0.5), (50.0, 1.0)):
        slow = [each for each in warm_up(exact, milliseconds) if each.turn.arm == "tls"]
        assert chosen_sizes(exact, others + slow)["wire_query"].seconds == pytest.approx(seconds)


def test_a_program_that_is_told_how_long_keeps_its_length_on_hosts() -> None:
    """Where three do it at once, each to its end; what is run again and again ends by time."""
    told = {"title": "t", "service": "command", "control": {"it": "a"}, "factors": {"it": {"levels": ["a", "b"]}}}
    workloads = {"once": {"command": {"run": "x {seconds}"}}, "again": {"command": {"run": "x", "seconds": 1.0}}}
    plan = resolve(study_of("mine", {**told, "workloads": workloads}), Options(profile="quick", hosts="auto"))
    taken = []
    for workload, operations, seconds in (("once", 3, 2.1), ("again", 300, 1.0)):
        for arm in plan.arms:
            phases = {"command": phase_of(seconds / operations * 3e3, operations)}
            answer = answer_of(Slice(operations, seconds, phases, {}, {}), workload, arm.name)
            taken.append(Taken(Turn(workload, arm.name), answer, START_UP_SECONDS))
    chosen = chosen_sizes(plan, taken)
    assert chosen["once"] == plan.slices["once"] == SliceSize(operations=1, seconds=2.0)
    assert chosen["again"].operations > 10**9
    assert chosen["again"].seconds <= 1.0
