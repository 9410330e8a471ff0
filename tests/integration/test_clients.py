"""Load generators (pgbench and others) as clients of a lab's servers: their figures, and evidence of TLS."""

from __future__ import annotations

from pathlib import Path

import pytest

from costof.errors import CostofError
from costof.instruments.clients import client
from costof.report import analyse
from costof.results.ledger import Ledger, SliceRecord
from costof.run.experiment import run
from costof.services.open import open_service
from costof.study.library import load_study
from costof.study.plan import WORKLOAD, Options, resolve
from costof.study.schema import SliceSize
from tests.support.programs import HANGS_SECONDS
from tests.support.unwatched import Silent

pytestmark = pytest.mark.servers
#: For each load generator: the study, its settings, a figure, and the error of an arm that the program cannot measure.
CLIENTS = {
    "pgbench": (
        "postgres-tls",
        ["transport=plain,tls", "group=first-choice,prime256v1"],
        "client.tps",
        "cannot offer one group alone",
    ),
    "wrk": ("http-tls-termination", ["termination=none,balancer", "keep_alive=1"], "client.requests_per_second", None),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CLIENTS)
def test_pgbench_or_wrk_and_the_engine_are_both_measured_in_each_round(name: str, tmp_path: Path) -> None:
    try:
        client(name).find()
    except CostofError as error:
        pytest.skip(str(error))
    study, settings, metric, cannot = CLIENTS[name]
    plan = resolve(load_study(study), Options("quick", settings, seed=1, client=name))
    # The client's slices have a fixed duration; the engine's end after their operations.
    size = SliceSize(operations=20, seconds=HANGS_SECONDS)
    few = {each: size for each in plan.slices if each != WORKLOAD}
    plan = plan.model_copy(
        update={"slices": plan.slices | few, "fewest_rounds": 2, "most_rounds": 2, "warm_up_rounds": 0}
    )
    ledger = Ledger.create(plan, tmp_path / "run")
    run(plan, open_service(plan, None, "run"), ledger, Silent())
    result = analyse(ledger)
    protected = {arm.name for arm in result.arms if not arm.control and not arm.replicate}
    effects = {each.arm: each for each in result.effects if each.metric == metric}
    assert all(min(each.control_value, each.value) > 0 for each in effects.values())
    assert not result.errors
    slices = [each for each in Ledger.open(tmp_path / "run").records() if isinstance(each, SliceRecord)]
    of_client = [each for each in slices if each.workload == "client"]
    assert {each.round for each in of_client} >= {0, 1}
    for record in of_client:
        assert record.mismatch is None
        assert record.answer.operations == 1
        if record.server_tls is not None:
            assert bool(sum(record.server_tls.values())) == (record.answer.arm in protected)
    without = protected - effects.keys()
    assert len(without) == (cannot is not None)
    for arm in without:
        assert f"{arm} was not measured with {name}, which {cannot}" in result.warnings
        assert any(each.arm == arm for each in result.effects), "and all of the engine's"
