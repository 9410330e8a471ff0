"""Plans of the study of chained replication, at sizes for tests."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

from costof.study.arms import PlannedArm
from costof.study.plan import Options, Plan, resolve
from costof.study.schema import Study

STUDY = "mongodb-chained-replication"


def study() -> Study:
    """The study's factors, with a profile of the tests' own and no metrics."""
    text = resources.files("costof.studies").joinpath(f"{STUDY}.toml").read_text()
    asked = tomllib.loads(text)
    known = {name: asked[name] for name in ("title", "question", "protection", "service", "control")}
    known |= {name: asked[name] for name in ("target_control", "factors")}
    size: dict[str, Any] = {"operations": 100, "seconds": 2}
    profile = {"description": "", "budget": "1m", "precision": 0.05, "rounds": [3, 9], "slices": {"write": size}}
    write = {"label": "", "view": "wire", "kind": "ycsb", "workers": 2}
    return Study.model_validate(
        {"name": STUDY, **known, "workloads": {"write": write}, "metrics": {}, "profiles": {"quick": profile}}
    )


def plan_for(*settings: str, target: str | None = None, records: int = 0) -> Plan:
    """`records` for tests that load some; the study itself loads nothing beforehand."""
    plan = resolve(study(), Options(profile="quick", settings=list(settings), target=target))
    return plan.model_copy(update={"records": records})


def arms_by_shape(plan: Plan) -> dict[str, PlannedArm]:
    """The control and its rivals by their level of `sync`, in a plan of one context."""
    return {arm.levels["sync"]: arm for arm in plan.arms if not arm.twin}
