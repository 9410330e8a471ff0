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

COMMITS = """
label = "commits"
default = ["in-memory", "logged"]
levels.in-memory = {}
levels.logged.lab.server.settings = { appendonly = "yes" }
"""


def with_commits() -> Study:
    """Return the study redis-tls with another factor, whose levels set options of the server."""
    study = tomllib.loads(resources.files("costof.studies").joinpath("redis-tls.toml").read_text())
    study["factors"]["commits"] = tomllib.loads(COMMITS)
    return Study.model_validate({"name": "redis-tls", **study})


def connections(lab: ServerLab, engines: Engines, arm: PlannedArm) -> int:
    lab.arrange(arm)
    return lab.counters(engines.server(arm)).connections or 0


def test_lab_starts_a_separate_server_for_each_server_configuration() -> None:
    plan = resolve(with_commits(), Options("quick", ("transport=plain,tls", "distance=lan", "records=100")))
    usual, logged = (
        next(arm for arm in plan.arms if arm.levels.get("commits") == level) for level in ("in-memory", "logged")
    )
    arms = (usual, next(arm for arm in plan.arms if arm.replicate), logged)
    with ServerLab(plan) as lab, Engines(plan, lab) as engines:
        lab.prepare(plan.arms, engines.load)
        assert lab.collect_evidence(usual, "start").keys() == {"start of the server", "load of the data"}
        assert lab.collect_evidence(usual, "end") == {}
        assert lab.collect_evidence(logged, "end") == {"appendonly": "yes", "connected replicas": "0"}
        for arm in arms:
            before = [connections(lab, engines, each) for each in arms]
            assert engines.slice(arm, "connect", 20).operations == 20
            after = [connections(lab, engines, each) for each in arms]
            assert [now - was for was, now in zip(before, after, strict=True)] == [
                20 if each is arm else 0 for each in arms
            ]
        os.kill(lab.process_ids["redis-2"], signal.SIGKILL)
        eventually("notice of the server", lambda: lab.failure_reason(logged) is not None)
        assert "redis-2 ended" in (lab.failure_reason(logged) or "")
        assert lab.failure_reason(usual) is None
        assert lab.failure_reason() is None
