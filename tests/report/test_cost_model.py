"""The cost model: its predictions, and the functions that the report's calculator repeats in JavaScript."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costof.lab.host import LINK_ROLE
from costof.report.blocks import Interactive
from costof.report.sections.cost_model import figure
from costof.report.sections.cost_model.calculator import (
    HOURS_A_MONTH,
    USUAL_DISKS,
    Extras,
    Load,
    added,
    calculator,
    default_load,
    extras,
    fixed_rows,
)
from costof.report.sections.cost_model.model import ExtraCost
from costof.results.index import Index
from costof.statistics.estimate import Estimate
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.fake_run import Slice, fake_result
from tests.noise import Chance, Noise
from tests.report.results import mongodb, result_of, transport
from tests.support.small_plans import plan_of
from tests.truths import TRUTHS
from tests.truths.durability import FLUSH_MS, DurabilityTruth
from tests.truths.mysql_transport import CONNECTION_CPU_MS, TransportTruth


def extra(operation: str, own: tuple[float, float, float], trips: float, cpu: tuple[float, float, float]) -> ExtraCost:
    return ExtraCost.model_validate(
        {
            "protection": "tls",
            "label": "TLS",
            "operation": operation,
            "own_ms": Estimate(value=own[0], low=own[1], high=own[2], rounds=10),
            "round_trips": trips,
            "bytes": 2500.0,
            "cpu_ms": Estimate(value=cpu[0], low=cpu[1], high=cpu[2], rounds=10),
            "roles": ["client"],
        }
    )


def tls(inside: int = 0) -> Extras:
    connection = extra("connection", (1.0, 0.9, 1.2), 1, (2.0, 1.8, 2.2))
    return Extras("tls", "TLS", connection, extra("operation", (0.1, 0.0, 0.2), 0, (0.05, 0.04, 0.06)), inside)


def ends(estimate: Estimate) -> tuple[float, float, float]:
    return estimate.value, estimate.low, estimate.high


def test_predicted_cost_is_the_added_processing_time_plus_the_added_round_trips() -> None:
    costs = added(tls(), Load(40, operations=10, connections_per_second=50, price=0.1))
    assert ends(costs.connection_ms) == pytest.approx((41.0, 40.9, 41.2))
    assert ends(costs.operation_ms) == pytest.approx((0.1, 0.0, 0.2))
    assert ends(costs.request_ms) == pytest.approx((4.2, 4.09, 4.32))
    assert ends(costs.cores) == pytest.approx((0.125, 0.11, 0.14))
    assert ends(costs.money) == pytest.approx(tuple(each * HOURS_A_MONTH * 0.1 for each in (0.125, 0.11, 0.14)))


def test_limited_bandwidth_adds_the_transmission_time_of_additional_bytes() -> None:
    costs = added(tls(), Load(0, bandwidth_mbit=10))
    assert ends(costs.connection_ms) == pytest.approx((3.0, 2.9, 3.2)), "2,500 bytes at 10 Mbit/s are 2 ms"


def test_first_operation_is_not_counted_twice_if_the_connection_metric_includes_it() -> None:
    load = Load(40, operations=1)
    assert added(tls(inside=1), load).request_ms == added(tls(inside=1), load).connection_ms
    assert added(tls(), load).request_ms.value == pytest.approx(41.1)


def test_connection_cost_includes_the_first_operation_only_if_the_connection_metric_does() -> None:
    for result, inside in ((transport(), 0), (mongodb(), 1)):
        assert {each.inside for each in extras(Index(result), result.sections.cost_model)} == {inside}


def test_default_distance_of_the_calculator_is_the_shortest_of_at_least_1_ms() -> None:
    result = transport()
    model = result.sections.cost_model
    assert default_load(Index(result), model).round_trip_ms == 44.648
    near = result.model_copy(update={"distances": {"": 0.05}})
    assert default_load(Index(near), model).round_trip_ms == 0.05


def test_cost_on_another_disk_is_predicted_from_the_flushes_of_an_operation() -> None:
    study, level, flushes = "mariadb-durability", "1-1", 2
    plan, truth = plan_of(study, "quick", "clients=1"), TRUTHS[study]
    assert isinstance(truth, DurabilityTruth)
    result = fake_result(plan, truth, noise=Noise(0.01))
    model = result.sections.cost_model
    assert ends(model.flush_ms)[1] < FLUSH_MS < ends(model.flush_ms)[2]
    (extra,) = (each for each in extras(Index(result), model) if each.protection == level)
    assert extra.operation.flushes == pytest.approx(flushes, abs=0.01)
    # On an infinitely fast disk only the protection's own time is left.
    for disk_ms in (0.0, 8.0):
        load = replace(default_load(Index(result), model), flush_ms=disk_ms)
        value, low, high = ends(added(extra, load).operation_ms)
        assert low < truth.costs[level][1] + flushes * disk_ms < high
        assert value - low < 0.03 * flushes


@pytest.mark.parametrize(("own_ms", "rate"), [(0.1, 1000), (2.0, 100), (20.0, 10)])
def test_default_rate_in_the_calculator_does_not_exceed_the_rate_of_a_single_client(own_ms: float, rate: float) -> None:
    truth = DurabilityTruth({"0-0": (0, 0.0), "1-1": (0, own_ms)})
    result = fake_result(plan_of("mariadb-durability", "quick", "clients=1", "commit=0-0,1-1"), truth)
    assert default_load(Index(result), result.sections.cost_model).connections_per_second == rate


def test_calculator_without_javascript_has_a_row_for_each_protection_and_distance() -> None:
    rows = fixed_rows(Index(transport()), transport().sections.cost_model)
    assert [(where.split(",")[0], label.split(" (")[0]) for where, label, _ in rows] == [
        (where, label) for where in ("lan", "us-us", "us-eu") for label in ("TLS", "an SSH tunnel")
    ]
    assert all(figure.interval for *_, figures in rows for figure in figures)
    commits = result_of("postgres-durability")
    disks = {where for where, _, _ in fixed_rows(Index(commits), commits.sections.cost_model)}
    assert disks == {"this run's disk", *USUAL_DISKS}


class Carried(TransportTruth):
    """Simulated slices with CPU times: of all roles and the links in a lab, and only of the client on a target."""

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        slice_ = super().slice(plan, workload, arm, chance)
        used = {"client": slice_.cpu_seconds["client"]} if plan.target else {**slice_.cpu_seconds, LINK_ROLE: 5.0}
        return replace(slice_, cpu_seconds=used)


@pytest.mark.parametrize(
    ("target", "roles", "sentence"),
    [
        (None, {"client", "mariadbd", "ssh", "sshd"}, "Cores are those of client, mariadbd, ssh and sshd."),
        (
            "mysql://root@db.example/",
            {"client"},
            "Cores are those of client only; the servers' CPU time is unknown.",
        ),
    ],
)
def test_cost_model_counts_only_the_cpu_time_of_programs_named_in_the_report(
    target: str | None, roles: set[str], sentence: str
) -> None:
    plan = plan_of("mysql-transport", "quick", target=target)
    result = fake_result(plan, Carried())
    model = result.sections.cost_model
    assert {role for extra in model.extras for role in extra.roles} == roles
    true = sum(cpu for role, cpu in CONNECTION_CPU_MS["tls"].items() if role in roles)
    true -= sum(cpu for role, cpu in CONNECTION_CPU_MS["plain"].items() if role in roles)
    found = next(e.cpu_ms for e in model.extras if (e.protection, e.operation) == ("tls", "connection"))
    assert found.value == pytest.approx(true, rel=0.05)
    (form,) = (block for block in calculator(Index(result), model) if isinstance(block, Interactive))
    assert sentence in " ".join(form.notes)


def test_cost_model_makes_no_predictions_for_arms_with_a_second_tls_library() -> None:
    plan = plan_of("mysql-transport", "quick", "distance=lan", "tls_library=installed,aws-lc")
    result = fake_result(plan, TransportTruth())
    assert {each.arm for each in result.sections.cost_model.predictions} == {"plain", "tls", "ssh-aes256-ctr"}
    assert figure(Index(result), result.sections.cost_model) is None
    assert any("with TLS library aws-lc" in arm.at for arm in result.arms)
