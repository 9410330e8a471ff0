"""Tests for every load generator that can measure a lab.

The load generator's rates are like those of costof's own engine. Evidence from the client and from the server confirms
the settings that were measured.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from costof.errors import CostofError
from costof.instruments.clients import client, client_names
from costof.report import analyse
from costof.results.ledger import Ledger
from costof.results.metrics import SliceKey
from costof.run.experiment import run
from costof.run.instruments import Instruments
from costof.run.rounds import measure_slice
from costof.services.open import open_service
from costof.studies import study_names
from costof.study.arms import PlannedArm
from costof.study.commands import COMMAND
from costof.study.library import load_study
from costof.study.plan import WORKLOAD, Options, Plan, resolve
from costof.study.schema import SliceSize
from tests.support.programs import HANGS_SECONDS, eventually
from tests.support.unwatched import Silent

pytestmark = pytest.mark.servers
SETTINGS = {
    "http-firewall": ("firewall=off,on", "request=no-body,json-1kb"),
    "http-tls-termination": ("termination=none,balancer", "keep_alive=1"),
    "mariadb-audit-logging": ("audit=off,all,writes", "records=500"),
    "mariadb-durability": ("commit=0-0,1-1", "clients=1,8"),
    "mariadb-encryption-at-rest": ("encryption=none,everything", "data=in-memory", "records=500"),
    "mysql-transport": ("transport=plain,tls", "client_certificate=on", "distance=lan", "records=500"),
    "postgres-audit-logging": ("audit=off,all,writes", "records=500"),
    "postgres-durability": ("commit=off,on", "clients=8"),
    "postgres-encryption-at-rest": ("storage=none,gocryptfs-aes-gcm", "data=in-memory", "records=500"),
    "postgres-pooling": ("path=plain,tls,transaction-both", "records=500"),
    "postgres-tls": ("transport=plain,tls", "distance=lan", "records=500"),
    "redis-durability": ("log=memory-only,each-answer", "clients=8", "records=500"),
    "redis-tls": ("transport=plain,tls,pair-mtls", "distance=lan", "records=500"),
    "service-mtls": ("path=direct,pair-mtls", "program=haproxy", "distance=lan"),
}
CASES = [(study, name) for study in study_names() for name in load_study(study).clients]
QUICK = {("mysql-transport", "sysbench"), ("redis-durability", "redis-benchmark")}
#: The duration of a load generator's slice. Some programs accept only whole seconds.
SECONDS = 1.0
#: Slices of this study are longer, because they open 200 TLS connections, which takes a while on a busy machine.
LONGER = {"http-tls-termination": 4.0}
#: Two rates agree if neither is ten times the other. Programs differ, but an error of units would be larger.
MAGNITUDE = 10.0


def needs(name: str) -> None:
    try:
        client(name).find()
    except CostofError as error:
        pytest.skip(str(error))


def plan_with(study: str, name: str) -> Plan:
    """Return a plan with short slices of a load generator, and of the engine's workload that is most like it."""
    plan = resolve(load_study(study), Options("quick", SETTINGS[study], seed=1, client=name))
    like = plan.study.clients[name].like
    workloads = {each: plan.study.workloads[each] for each in (like, WORKLOAD)}
    slices = {
        each: size.model_copy(update={"seconds": LONGER.get(study, SECONDS)})
        for each, size in plan.slices.items()
        if each.split("@")[0] in workloads
    }
    return plan.model_copy(update={"study": plan.study.model_copy(update={"workloads": workloads}), "slices": slices})


def test_every_load_generator_that_a_study_can_use_is_tested() -> None:
    assert {name for _, name in CASES} == set(client_names())
    assert set(CASES) >= QUICK


@pytest.mark.parametrize(
    ("study", "name"), [pytest.param(*case, marks=[pytest.mark.slow] * (case not in QUICK)) for case in CASES]
)
def test_rate_measured_by_a_load_generator_is_within_a_factor_of_ten_of_the_engines_rate(
    study: str, name: str, tmp_path: Path
) -> None:
    needs(name)
    plan = plan_with(study, name)
    use = plan.study.clients[name]
    (figure,) = client(name).test(use.test).headline
    assert client(name).figures(use.test)[figure].unit == "per_second"
    instruments = Instruments(plan, service := open_service(plan, None, "run"), Ledger.create(plan, tmp_path / "run"))
    with service, ExitStack() as stack:
        instruments.start(stack)
        service.prepare(instruments.able, instruments.load)
        arms = [arm for arm in plan.arms if not arm.replicate]
        for arm in arms:
            assert instruments.measures(COMMAND, arm.name)
            service.collect_evidence(arm, "start")
            assert service.failure_reason(arm) is None
        for arm in arms:

            def agree(arm: PlannedArm = arm) -> bool:
                of_client, of_engine = (
                    measure_slice(plan, service, instruments, SliceKey(each, arm.name), 0, 1)[0]
                    for each in (WORKLOAD, use.like)
                )
                assert (of_client.mismatch, of_engine.mismatch) == (None, None)
                if of_client.answer.errors:
                    # On a busy machine the slice may end before the first answer. Then measure again.
                    return False
                if of_client.server_tls is not None:
                    assert bool(sum(of_client.server_tls.values())) == arm.settings.speaks_tls
                rate = of_engine.answer.operations / of_engine.answer.elapsed_ns * 1e9
                return rate / MAGNITUDE < of_client.answer.figures[figure] < rate * MAGNITUDE

            eventually(f"agreement on {arm.name}", agree)
    assert not instruments._output.parent.exists(), "it had files with passwords"


@pytest.mark.slow
def test_report_lacks_costs_only_for_the_arm_that_pgbench_cannot_measure(
    tmp_path: Path,
) -> None:
    needs("pgbench")
    settings = ["transport=plain,tls", "group=first-choice,prime256v1"]
    plan = resolve(load_study("postgres-tls"), Options("quick", settings, seed=1, client="pgbench"))
    # The engine's slices end after 20 operations, however slow the machine is. Slices of pgbench stay as planned,
    # because they have a fixed duration.
    size = SliceSize(operations=20, seconds=HANGS_SECONDS)
    few = {each: size for each in plan.slices if each != WORKLOAD}
    plan = plan.model_copy(
        update={"slices": plan.slices | few, "fewest_rounds": 2, "most_rounds": 2, "warm_up_rounds": 0}
    )
    ledger = Ledger.create(plan, tmp_path / "run")
    run(plan, open_service(plan, None, "run"), ledger, Silent())
    result = analyse(ledger)
    assert not result.errors
    protected = {arm.name for arm in result.arms if not arm.control and not arm.replicate}
    effects = {each.arm: each for each in result.effects if each.metric == "client.tps"}
    assert all(min(each.control_value, each.value) > 0 for each in effects.values())
    (without,) = protected - effects.keys()
    assert f"{without} was not measured with pgbench, which cannot offer one group alone" in result.warnings
    assert any(each.arm == without for each in result.effects), "and all of the engine's"
