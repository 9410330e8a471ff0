"""The memory of a connection, from the steps in which idle connections were opened."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costof.results.ledger import MemoryRecord
from costof.results.memory import added_bytes, connection_memory
from costof.results.run import Run
from costof.run.memory import idle_plan, step_sizes
from tests.support.memory_steps import STEPS, memory_steps
from tests.support.small_plans import plan_of


def run_with(*records: MemoryRecord) -> Run:
    plan = plan_of("redis-tls", "quick", "transport=plain,tls").model_copy(update={"memory": 1_000})
    return replace(Run(plan=plan), memory=[*records])


def test_memory_is_measured_after_opening_10_then_90_then_100_more_connections() -> None:
    assert [10, 90, *[100] * 9] == STEPS
    assert sum(step_sizes(100)) == 100


def test_memory_of_a_connection_is_estimated_without_the_first_ten_connections() -> None:
    memory = connection_memory(run_with(*memory_steps("plain", 4_000), *memory_steps("tls", 20_000, pooler=1_000)))
    assert memory is not None
    plain, tls = memory.arms
    assert plain.added is None
    assert plain.bytes is not None
    assert plain.bytes.value == pytest.approx(4_000)
    # 129 is the half-width of Student's interval for ten values with a standard deviation of 180.
    assert plain.bytes.high - plain.bytes.value == pytest.approx(129, rel=0.02)
    assert tls.bytes is not None
    assert tls.bytes.value == pytest.approx(21_000)
    assert tls.bytes_by_role == {"server": pytest.approx(20_000, rel=0.01), "pooler": 1_000}
    # Both arms have the same noise in the same step, so it cancels out in their difference.
    assert tls.added is not None
    assert (tls.added.value, tls.added.high) == pytest.approx((17_000, 17_000))
    assert [growth.connections for growth in tls.growth] == [10, 100, 1_000]
    assert tls.growth[-1].bytes == sum(
        step.grown["server"] + step.grown["pooler"] for step in memory_steps("tls", 20_000, 1_000)
    )


def test_added_memory_is_computed_over_connections_that_were_measured_on_both_arms() -> None:
    refused = MemoryRecord(arm="tls", missing="too many connections")
    run = run_with(*memory_steps("plain", 4_000), *memory_steps("tls", 20_000, count=7), refused)
    memory = connection_memory(run)
    assert memory is not None
    tls = memory.arms[1]
    assert (tls.connections, tls.missing) == (600, "too many connections")
    assert memory.steps == len(STEPS)
    assert added_bytes(run)["tls"].rounds == 6


def test_arm_with_too_few_memory_readings_has_a_reason_instead_of_a_figure() -> None:
    memory = connection_memory(run_with(*memory_steps("plain", 4_000), *memory_steps("tls", 20_000, count=3)))
    assert memory is not None
    assert (memory.arms[1].bytes, memory.arms[1].added) == (None, None)
    assert memory.arms[1].missing == "an interval needs 5 steps after the first ones, and there are 2"


def test_idle_connections_are_opened_only_at_the_nearest_distance() -> None:
    plan = plan_of("redis-tls", "quick", "transport=plain,tls", "distance=lan,us-eu")
    idle = idle_plan(plan.model_copy(update={"memory": 1_000}))
    assert {arm.levels["distance"] for arm in idle.arms} == {"lan"}
    assert not any(arm.replicate for arm in idle.arms)
    assert sum(workload.workers for workload in idle.study.workloads.values()) == 1_000
    assert max(workload.workers for workload in idle.study.workloads.values()) == 10
