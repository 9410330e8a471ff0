"""Plans that are small enough for tests."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from costof.messages.plan import Workload
from costof.study.arms import PlannedArm
from costof.study.library import load_study
from costof.study.load import RequestedLoad
from costof.study.plan import Options, Plan, resolve
from costof.study.schema import SliceSize, Study
from tests.support.programs import HANGS_SECONDS

REPLICATION = "mongodb-chained-replication"
ONE_TERMINAL = (Workload(name="transactions", kind="tpcc", tpcc={}),)


def plan_of(
    study: str,
    profile: str = "quick",
    *settings: str,
    target: str | None = None,
    seed: int = 1,
    restarts: str | None = None,
    load: RequestedLoad | None = None,
    limits: Sequence[tuple[str, str]] = (),
) -> Plan:
    options = Options(
        profile,
        settings,
        target=target,
        seed=seed,
        restarts=restarts,
        load=load or RequestedLoad(),
        limits=limits,
    )
    return resolve(load_study(study), options)


def with_only(plan: Plan, workload: str) -> Plan:
    """Return the plan with only this workload and its metrics, so that its runs are analysed quickly."""
    study = plan.study
    profiles = {
        name: profile.model_copy(update={"slices": {workload: profile.slices[workload]}})
        for name, profile in study.profiles.items()
    }
    changes: dict[str, Any] = {
        "workloads": {workload: study.workloads[workload]},
        "metrics": {name: metric for name, metric in study.metrics.items() if metric.workload == workload},
        "profiles": profiles,
        "clients": {name: use for name, use in study.clients.items() if use.like == workload},
        "sections": {},
        "published": None,
    }
    changed = {"study": study.model_copy(update=changes), "slices": {workload: plan.slices[workload]}}
    return plan.model_copy(update=changed)


def two_rounds(plan: Plan, **operations: int) -> Plan:
    """Return the plan with two rounds, no warm-up, and slices with these numbers of operations, by workload."""
    sizes = {name: SliceSize(operations=count, seconds=HANGS_SECONDS) for name, count in operations.items()}
    counts = {"fewest_rounds": 2, "most_rounds": 2, "warm_up_rounds": 0}
    return plan.model_copy(update={"slices": sizes, **counts})


def ended_by_operations(plan: Plan, **operations: int) -> Plan:
    """Return the plan with slices that end by their number of operations and not by time.

    On a busy machine, a slice that ends by time could have no operation. `operations` are smaller numbers for workloads
    whose planned number takes too long.
    """
    sizes = {
        name: size.model_copy(
            update={"operations": operations.get(name, size.operations), "seconds": float(HANGS_SECONDS)}
        )
        for name, size in plan.slices.items()
    }
    return plan.model_copy(update={"slices": sizes})


def small_study(study: str, folder: Path, operations: int = 8) -> str:
    """Write a copy of the study whose slices end after at most `operations`, and return its path."""
    text = resources.files("costof.studies").joinpath(f"{study}.toml").read_text()
    path = folder / f"{study}.toml"

    def smaller(match: re.Match[str]) -> str:
        few = min(operations, int(match[1].replace("_", "")))
        return f"operations = {few}, seconds = {HANGS_SECONDS}.0"

    text, slices = re.subn(r"operations = ([\d_]+), seconds = [\d.]+", smaller, text)
    assert slices
    path.write_text(text)
    return str(path)


def _replication() -> Study:
    """Return the study of chained replication with its factors, a small profile and no metrics."""
    text = resources.files("costof.studies").joinpath(f"{REPLICATION}.toml").read_text()
    study = tomllib.loads(text)
    known = {name: study[name] for name in ("title", "question", "protection", "service", "control")}
    known |= {name: study[name] for name in ("target_control", "factors")}
    size: dict[str, Any] = {"operations": 100, "seconds": 2}
    profile = {"description": "", "budget": "1m", "precision": 0.05, "rounds": [3, 9], "slices": {"write": size}}
    write = {"label": "", "view": "wire", "kind": "ycsb", "workers": 2}
    return Study.model_validate(
        {"name": REPLICATION, **known, "workloads": {"write": write}, "metrics": {}, "profiles": {"quick": profile}}
    )


def replication_plan(*settings: str, target: str | None = None, records: int = 0) -> Plan:
    """Return a small plan of chained replication. It loads `records`, although the study itself loads none."""
    plan = resolve(_replication(), Options(profile="quick", settings=list(settings), target=target))
    return plan.model_copy(update={"records": records})


def arms_by_shape(plan: Plan) -> dict[str, PlannedArm]:
    """Return the arms of a plan, except the control's copy, by their level of the factor `sync`, such as "chain".

    All arms of the plan must be at the same distance.
    """
    return {arm.levels["sync"]: arm for arm in plan.arms if not arm.replicate}
