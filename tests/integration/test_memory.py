"""The memory that a connection takes on a real server, measured as in a run."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from costof.lab.lab import Lab
from costof.lab.memory import PSS
from costof.report.result import Result
from costof.results.ledger import Ledger, MemoryRecord
from costof.results.memory import ConnectionMemory, connection_memory
from costof.results.run import read_run
from costof.run.memory import measure_memory, step_sizes
from costof.services.open import open_service
from costof.services.server.lab import ServerLab
from tests.support.command import costof
from tests.support.redis import users_redis
from tests.support.small_plans import plan_of
from tests.support.unwatched import Silent

from .conftest import SHORT

pytestmark = pytest.mark.servers
#: Plausible bounds for the memory of an idle connection of Redis, which includes a reply buffer of at least 1 KiB.
LEAST_BYTES, MOST_BYTES = 1_000, 100_000


class FullRedis(ServerLab):
    """A lab whose Redis accepts fewer connections than the run opens."""

    def _open(self, stack: ExitStack) -> None:
        super()._open(stack)
        self.server.ask("CONFIG", "SET", "maxclients", "90")  # type: ignore[attr-defined]


def measured(folder: Path, service: type[ServerLab] = ServerLab) -> ConnectionMemory:
    plan = plan_of("redis-tls", "quick", "records=1000", "transport=plain,tls").model_copy(update={"memory": 200})
    ledger = Ledger.create(plan, folder / "run")
    measure_memory(plan, service, ledger, Silent())
    memory = connection_memory(read_run(ledger))
    assert memory is not None
    return memory


def test_tls_connection_takes_more_memory_than_a_plain_one(tmp_path: Path) -> None:
    memory = measured(tmp_path)
    assert (memory.methods, [each.missing for each in memory.arms]) == ([PSS], [None, None])
    plain, tls = memory.arms
    assert plain.connections == tls.connections == sum(step_sizes(200))
    assert plain.bytes is not None
    assert tls.added is not None
    assert LEAST_BYTES < plain.bytes.value < MOST_BYTES
    assert tls.added.value > LEAST_BYTES
    assert set(tls.bytes_by_role) == {"server"}


@pytest.mark.slow
def test_memory_is_measured_for_as_many_connections_as_the_server_accepts(tmp_path: Path) -> None:
    for arm in measured(tmp_path, FullRedis).arms:
        assert 0 < arm.connections < 100
        assert arm.missing is not None


@pytest.mark.slow
def test_memory_of_an_encrypting_arm_is_measured_with_data_that_another_arm_loads(tmp_path: Path) -> None:
    plan = plan_of("mysql-column-encryption", "quick", "encrypted=0,20").model_copy(update={"memory": 20})
    ledger = Ledger.create(plan, tmp_path / "run")
    measure_memory(plan, lambda idle: open_service(idle, None, "run"), ledger, Silent())
    memory = connection_memory(read_run(ledger))
    assert memory is not None
    measured_arms = [arm.name for arm in plan.arms if not arm.replicate]
    assert {each.arm: each.missing for each in memory.arms} == dict.fromkeys(measured_arms)


def test_memory_already_recorded_in_the_results_of_a_run_is_not_measured_again(tmp_path: Path) -> None:
    plan = plan_of("redis-tls", "quick").model_copy(update={"memory": 200})
    ledger = Ledger.create(plan, tmp_path / "run")
    ledger.append(MemoryRecord(arm="plain", step=1, opened=10, connections=10, grown={"server": 1}))
    measure_memory(plan, ServerLab, ledger, Silent())
    assert len([*ledger.records()]) == 1


@pytest.mark.slow
def test_option_server_memory_is_used_to_read_the_memory_of_a_users_server(lab: Lab, tmp_path: Path) -> None:
    with users_redis(lab) as server:
        (pid,) = (process.pid for process in lab.processes.values() if process.role == "server")
        options = ["--target", server.url(), "--tls-ca", str(server.ca_file), "--allow-plain", "--rounds", "2"]
        reading = ["--server-memory", f"cat /proc/{pid}/smaps_rollup", "--memory", "300"]
        ended = costof("run", *SHORT, *options, *reading, "--json", cwd=tmp_path)
    assert ended.out, ended.err
    memory = Result.model_validate_json(ended.out).sections.memory
    assert memory is not None
    assert (memory.methods, memory.fresh, memory.steps) == (["--server-memory"], False, len(step_sizes(300)))
    plain, tls = memory.arms
    assert [plain.connections, tls.connections] == [300, 300]
    assert plain.bytes is not None
    assert tls.added is not None
    assert LEAST_BYTES < plain.bytes.value < MOST_BYTES
    assert tls.added.value > LEAST_BYTES
    assert set(tls.bytes_by_role) == {"server"}
