"""Tests of runs at several loads: parsing of lists and ranges, and the resulting plan."""

from __future__ import annotations

import pytest

from costof.errors import CostofError
from costof.study.load import WORKLOAD, Arrivals, RequestedLoad
from costof.study.plan import Options, Plan, resolve
from costof.study.several_loads import LOAD
from tests.support.small_plans import plan_of
from tests.unit.study.test_load import study_of_commands


def at(rate: str, *, study: str = "postgres-tls", limits: tuple[tuple[str, str], ...] = ()) -> Plan:
    return plan_of(study, "quick", load=RequestedLoad(rate, "20"), limits=limits)


@pytest.mark.parametrize(
    ("rate", "rates"),
    [
        ("300/s,100/s,60000/min,100/s", [100, 300, 1000]),
        ("100/s..3000/s", [100, 230, 550, 1300, 3000]),
        ("1/s..2/s", [1, 1.2, 1.4, 1.7, 2]),
        ("300/s", []),
    ],
)
def test_list_or_range_of_loads_gives_ascending_loads(rate: str, rates: list[float]) -> None:
    plan = at(rate)
    assert plan.rates == rates
    assert isinstance(plan.load, Arrivals)
    assert plan.load.connections_per_second == (rates[0] if rates else 300)


def test_each_load_has_a_control_of_its_own() -> None:
    plan = at("100/s,300/s", limits=(("query", "+10%"),))
    assert [arm.levels[LOAD] for arm in plan.controls] == ["100", "300"]
    loads = {arm.name: plan.load_of(arm) for arm in plan.arms}
    assert all(isinstance(load, Arrivals) and load.queries_per_connection == 20 for load in loads.values())
    assert [load.per_second for load in loads.values() if load] == [100] * 3 + [300] * 3
    assert plan.arm("tls@load-300").control_arm == "plain@load-300"
    assert (len(plan.limits), plan.load_in_words) == (1, "100 and 300 new connections a second, 20 queries each")
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


def test_quick_profile_measures_five_loads_within_four_minutes() -> None:
    plan = at("100/s..3000/s")
    assert plan.budget_seconds is not None
    slice_seconds = plan.slices[WORKLOAD].seconds
    warm_up = plan.warm_up_rounds * len(plan.arms) * (slice_seconds + 0.5)
    assert plan.budget_seconds + warm_up < 240


def test_rate_of_each_load_replaces_the_placeholder_in_its_commands() -> None:
    plan = resolve(study_of_commands("wrk2 -R {rate}"), Options(load=RequestedLoad("90/min,3/s")))
    rates = [words["rate"] for arm in plan.arms for _, words in plan.programs(arm, hosts=2).values()]
    assert rates == [0.75] * 3 + [1.5] * 3


@pytest.mark.parametrize(
    ("rate", "limits", "message"),
    [
        ("100/s,200", (), "'200' is not a valid load"),
        (",".join(f"{each}/s" for each in range(1, 14)), (), "lists 13 loads"),
        ("100/s..120/s", (), "too narrow a range"),
        ("100/s,300/s", (("p99 of a query", "10ms"),), "needs a range of loads"),
    ],
)
def test_loads_that_cannot_be_measured_are_refused(
    rate: str, limits: tuple[tuple[str, str], ...], message: str
) -> None:
    with pytest.raises(CostofError, match=message):
        at(rate, limits=limits)


def test_several_loads_are_refused_for_a_study_with_a_factor_named_load() -> None:
    study = study_of_commands("wrk2 -R {rate}")
    study = study.model_copy(update={"factors": {**study.factors, LOAD: study.factors["kind"]}})
    with pytest.raises(CostofError, match="factor 'load' of its own"):
        resolve(study, Options(load=RequestedLoad("1/s,2/s")))
