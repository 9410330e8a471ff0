"""A lab with one server for each configuration that its arms require."""

from __future__ import annotations

import os
import signal
import tomllib
from importlib import resources

import pytest

from costof.services.server.lab import ServerLab
from costof.study.arms import PlannedArm
from costof.study.plan import Options, resolve
from costof.study.schema import Study
from tests.support.engines import Engines
from tests.support.programs import eventually

pytestmark = pytest.mark.servers

FACTOR = """
label = "commits"
default = ["immediate", "delayed"]
levels.immediate = {}
levels.delayed.lab.server.settings = { synchronous_commit = "off" }
"""
CONFIGURATIONS = {
    "postgres": FACTOR,
    "mariadb": FACTOR.replace("synchronous_commit", "innodb-flush-log-at-trx-commit").replace('"off"', '"2"'),
    "redis": FACTOR.replace("synchronous_commit", "appendonly").replace('"off"', '"yes"'),
}
STUDIES = {"postgres": "postgres-tls", "mariadb": "mysql-transport", "redis": "redis-tls"}


def with_commits(program: str) -> Study:
    """Return the program's TLS study with a factor that configures the server."""
    name = STUDIES[program]
    study = tomllib.loads(resources.files("costof.studies").joinpath(f"{name}.toml").read_text())
    study["factors"]["commits"] = tomllib.loads(CONFIGURATIONS[program])
    return Study.model_validate({"name": name, **study})


def connections(lab: ServerLab, engines: Engines, arm: PlannedArm) -> int:
    """Return the number of connections that the arm's server has counted."""
    lab.arrange(arm)
    return lab.counters(engines.server(arm)).connections or 0


@pytest.mark.parametrize("program", CONFIGURATIONS)
def test_each_configuration_and_the_controls_copy_have_their_own_server(program: str) -> None:
    options = Options("quick", ("transport=plain,tls", "distance=lan", "records=100"))
    plan = resolve(with_commits(program), options)
    usual, delayed = (
        next(arm for arm in plan.arms if arm.levels.get("commits") == level) for level in ("immediate", "delayed")
    )
    copy = next(arm for arm in plan.arms if arm.replicate)
    with ServerLab(plan) as lab, Engines(plan, lab) as engines:
        lab.prepare(plan.arms, engines.load)
        assert lab.collect_evidence(usual, "start").keys() == {"start of the server", "load of the data"}
        assert lab.collect_evidence(usual, "end") == {}
        (fact,) = lab.collect_evidence(delayed, "end").values()
        assert fact in {"off", "2", "yes"}
        arms = (usual, copy, delayed)
        for arm in arms:
            before = [connections(lab, engines, each) for each in arms]
            assert engines.slice(arm, "connect", 20).operations == 20
            after = [connections(lab, engines, each) for each in arms]
            assert [now - was for was, now in zip(before, after, strict=True)] == [
                20 if each is arm else 0 for each in arms
            ]
        os.kill(lab.process_ids[f"{program}-2"], signal.SIGKILL)
        eventually("notice of the server", lambda: lab.failure_reason(delayed) is not None)
        assert f"{program}-2 ended" in (lab.failure_reason(delayed) or "")
        assert lab.failure_reason(usual) is None
        assert lab.failure_reason() is None
