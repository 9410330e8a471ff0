"""The cost of durable commits on a user's own PostgreSQL that has a synchronous standby."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from costof.lab.lab import Lab
from tests.support.command import costof
from tests.support.postgres import RunningServer, users_postgres
from tests.support.small_plans import small_study

pytestmark = [pytest.mark.slow, pytest.mark.servers]
STUDY = "postgres-durability"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with Lab() as lab, users_postgres(lab, standby="on") as server:
        server.ask("GRANT pg_monitor TO maker")
        yield server


def test_synchronous_commit_off_local_and_on_are_verified_on_a_users_postgres_with_a_standby(
    server: RunningServer, tmp_path: Path
) -> None:
    before = server.places(), server.settings()
    study = small_study(STUDY, tmp_path, operations=300)
    chosen = ["--profile", "quick", "--rounds", "2", "--set", "clients=1,8", "--out", "run"]
    done = costof("run", study, *chosen, "--target", server.url("maker"), cwd=tmp_path)
    assert done.status in (0, 3), done.err
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    by_level = {arm["levels"]["commit"]: arm["name"] for arm in plan["arms"] if arm["levels"]["clients"] == "1"}
    assert {*by_level} == {"off", "local", "on"}
    text = json.dumps(result)
    assert all(f"synchronous_commit={level}" in text for level in by_level)
    assert "1 synchronous of 1" in text
    assert not any("discarded" in warning for warning in result["warnings"])
    values = [each for each in result["values"] if each["metric"] == "server.flushes"]
    flushes = {each["arm"]: each["mean"]["value"] for each in values}
    assert flushes[by_level["off"]] < 0.3
    assert all(flushes[by_level[level]] == pytest.approx(1, abs=0.3) for level in ("local", "on"))
    assert "not measured, because costof does not reach the server's disk" in text
    assert (server.places(), server.settings()) == before
