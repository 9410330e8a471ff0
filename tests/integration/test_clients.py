"""Load generators as clients of a lab's servers: what they tell, and that the servers saw TLS."""

from __future__ import annotations

from pathlib import Path

import pytest

from costof.clients import client
from costof.errors import CostofError
from costof.ledger.ledger import Ledger, SliceRecord
from costof.report.result import Result
from tests.support.command import costof

pytestmark = pytest.mark.servers
STUDIES = {
    "pgbench": ("postgres-tls", ["transport=plain,tls"], "client.tps"),
    "wrk": ("http-tls-termination", ["termination=none,balancer"], "client.requests_per_second"),
}


@pytest.mark.parametrize("name", STUDIES)
def test_a_client_asks_in_the_rounds_of_the_others(name: str, tmp_path: Path) -> None:
    try:
        client(name).found()
    except CostofError as error:
        pytest.skip(str(error))
    study, settings, metric = STUDIES[name]
    asked = [word for each in settings for word in ("--set", each)]
    options = ["--profile", "quick", "--rounds", "2", "--seed", "1", "--out", "run", "--client", name]
    ended = costof("run", study, *options, *asked, cwd=tmp_path)
    assert ended.status == 0, ended.err
    result = Result.model_validate_json((tmp_path / "run" / "result.json").read_bytes())
    (effect,) = (each for each in result.effects if each.metric == metric)
    assert effect.control_value > 0
    assert effect.value > 0
    assert not result.errors
    slices = [each for each in Ledger.open(tmp_path / "run").records() if isinstance(each, SliceRecord)]
    of_client = [each for each in slices if each.workload == "client"]
    assert {each.round for each in of_client} >= {0, 1}
    for record in of_client:
        assert record.mismatch is None
        assert record.answer.operations == 1
        if record.server_tls is not None:
            protected = record.answer.arm in {arm.name for arm in result.arms if not arm.control and not arm.twin}
            assert bool(sum(record.server_tls.values())) == protected


def test_an_arm_that_a_client_cannot_be_told_of_goes_without(tmp_path: Path) -> None:
    asked = ["--set", "transport=plain,tls", "--set", "group=first-choice,prime256v1", "--client", "pgbench"]
    ended = costof("run", "postgres-tls", "--profile", "quick", "--rounds", "2", *asked, "--out", "run", cwd=tmp_path)
    assert ended.status == 0, ended.err
    result = Result.model_validate_json((tmp_path / "run" / "result.json").read_bytes())
    measured = {each.arm for each in result.effects if each.metric == "client.tps"}
    protected = {arm.name for arm in result.arms if not arm.control and not arm.twin}
    (without,) = protected - measured
    assert f"{without} has no figures of pgbench, which cannot offer one group alone" in result.warnings
    assert any(each.arm == without for each in result.effects), "and all of the engine's"
