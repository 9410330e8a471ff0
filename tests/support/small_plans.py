"""Plans at sizes for tests."""

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
#: Of TPC-C, for an engine.
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


def two_rounds(plan: Plan, **operations: int) -> Plan:
    """The plan with slices of so few operations, by workload, and neither warm-up nor budget."""
    sizes = {name: SliceSize(operations=count, seconds=HANGS_SECONDS) for name, count in operations.items()}
    counts = {"fewest_rounds": 2, "most_rounds": 2, "warm_up_rounds": 0}
    return plan.model_copy(update={"slices": sizes, **counts})


def ended_by_operations(plan: Plan, **operations: int) -> Plan:
    """The plan with slices that no time ends: a busy machine makes them longer, and neither empties one nor abandons
    an operation. `operations` of workloads that plan too many for that."""
    sizes = {
        name: size.model_copy(
            update={"operations": operations.get(name, size.operations), "seconds": float(HANGS_SECONDS)}
        )
        for name, size in plan.slices.items()
    }
    return plan.model_copy(update={"slices": sizes})


def small_study(study: str, folder: Path, operations: int = 8) -> str:
    """A file of the study for the command, with slices of so few operations that no time ends."""
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
    """The factors of chained replication, with a profile of the tests' own and no metrics."""
    text = resources.files("costof.studies").joinpath(f"{REPLICATION}.toml").read_text()
    asked = tomllib.loads(text)
    known = {name: asked[name] for name in ("title", "question", "protection", "service", "control")}
    known |= {name: asked[name] for name in ("target_control", "factors")}
    size: dict[str, Any] = {"operations": 100, "seconds": 2}
    profile = {"description": "", "budget": "1m", "precision": 0.05, "rounds": [3, 9], "slices": {"write": size}}
    write = {"label": "", "view": "wire", "kind": "ycsb", "workers": 2}
    return Study.model_validate(
        {"name": REPLICATION, **known, "workloads": {"write": write}, "metrics": {}, "profiles": {"quick": profile}}
    )


def replication_plan(*settings: str, target: str | None = None, records: int = 0) -> Plan:
    """`records` for tests that load some; the study itself loads nothing beforehand."""
    plan = resolve(_replication(), Options(profile="quick", settings=list(settings), target=target))
    return plan.model_copy(update={"records": records})


def arms_by_shape(plan: Plan) -> dict[str, PlannedArm]:
    """The control and its rivals by their level of `sync`, in a plan of one context."""
    return {arm.levels["sync"]: arm for arm in plan.arms if not arm.replicate}
