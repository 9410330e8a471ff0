"""Audit logging in a lab: each audited statement of a slice has exactly one entry, wherever the log goes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from costof.errors import CostofError
from costof.lab.log_file import LogFile
from costof.messages.answers import SliceAnswer
from costof.messages.plan import Workload
from costof.programs.mariadb.audit import Audit, find_server_audit
from costof.programs.mariadb.lab import SysbenchServer
from costof.programs.mariadb.versions import base_folder, find_mariadbd
from costof.programs.postgres.audit import find_pgaudit
from costof.programs.postgres.lab import PostgresServer
from costof.programs.postgres.versions import find_postgres
from costof.run.instruments import LOAD
from costof.services import Judgement
from costof.services.server.lab import Readings, ServerLab
from costof.study.arms import PlannedArm
from tests.support.engines import Engines
from tests.support.programs import eventually
from tests.support.small_plans import plan_of

pytestmark = pytest.mark.servers

OPERATIONS = 40
YCSB = {"read_proportion": 0.5, "update_proportion": 0.5, "insert_order": "ordered", "record_count": 100}
WORKLOADS = {
    "postgres": (
        Workload(name="connect", kind="connect"),
        Workload(name="select_8", kind="query", workers=2),
        Workload(name="ycsb_a", kind="ycsb", workers=2, ycsb=YCSB),
        Workload(name="transactions", kind="tpcb", workers=2),
        Workload(name=LOAD, kind="load", workers=2),
    ),
    "mariadb": (
        Workload(name="connect", kind="connect"),
        Workload(name="select_8", kind="query", workers=2),
        Workload(name=LOAD, kind="load", workers=2),
    ),
}


def is_there(program: str) -> bool:
    try:
        if program == "postgres":
            find_pgaudit(find_postgres())
        else:
            find_server_audit(base_folder(find_mariadbd()))
    except CostofError:
        return False
    return True


class Audited:
    """A running lab whose servers write audit logs, with engines that measure its arms."""

    def __init__(self, lab: ServerLab, engines: Engines, arms: list[PlannedArm]) -> None:
        self.lab, self._engines = lab, engines
        self.arms = {arm.name: arm for arm in arms if not arm.replicate}

    def measure(self, arm: str, workload: str) -> tuple[SliceAnswer, Judgement]:
        """Measure a slice on new connections. Return the engine's answer, and whether the lab discards the slice."""
        planned = self.arms[arm]
        self.lab.arrange(planned)
        if workload != "connect":
            self._engines.slice(planned, workload, 2, reconnect=True)
        before = self.lab.observe(planned)
        answer = self._engines.slice(planned, workload, OPERATIONS)
        after = self.lab.observe(planned)
        assert answer.errors == []
        assert isinstance(before, Readings)
        assert isinstance(after, Readings)
        return answer, self.lab.judge(planned, before, after, answer)

    def server(self, arm: str) -> PostgresServer | SysbenchServer:
        server = self.lab._configured(self.arms[arm]).server
        assert isinstance(server, PostgresServer | SysbenchServer)
        return server


@contextmanager
def audited(program: str, *settings: str) -> Iterator[Audited]:
    if not is_there(program):
        pytest.skip(f"{program} has no audit extension here")
    plan = plan_of(f"{program}-audit-logging", "quick", "records=100", *settings)
    kinds = {name: each for name, each in plan.study.workloads.items() if each.kind != "tpcc"}
    plan = plan.model_copy(update={"study": plan.study.model_copy(update={"workloads": kinds})})
    with ServerLab(plan) as lab, Engines(plan, lab, WORKLOADS[program]) as engines:
        lab.prepare([arm for arm in plan.arms if not arm.replicate], engines.load)
        yield Audited(lab, engines, plan.arms)


def entries(judgement: Judgement) -> float:
    assert judgement.mismatch is None
    return judgement.figures["audit_entries"]


def test_each_postgres_statement_has_one_audit_log_entry_unless_audit_is_off() -> None:
    with audited("postgres", "audit=off,all", "log=syslog") as run:
        assert entries(run.measure("off", "transactions")[1]) == 0
        for workload, expected in {"select_8": 1, "ycsb_a": 1, "transactions": 7, "connect": 1}.items():
            _, judgement = run.measure("all", workload)
            assert entries(judgement) == expected
            assert judgement.figures["audit_bytes"] > 100 * expected
        planned = run.arms["all"]
        observed = run.lab.observe(planned)
        answer, _ = run.measure("all", "select_8")
        missing = run.lab.judge(planned, observed, observed, answer)
        assert missing.mismatch == "the audit log got 0 entries of class read for 40 audited statements"
        assert run.lab.collect_evidence(planned, "start")["pgaudit.log"] == "all"


def test_mariadb_and_its_audit_log_count_the_same_statements() -> None:
    with audited("mariadb", "audit=off,all", "log=own-file") as run:
        assert entries(run.measure("off", "select_8")[1]) == 0
        _, judgement = run.measure("all", "select_8")
        assert entries(judgement) == 1
        assert judgement.figures["audit_bytes"] > 60


@pytest.mark.slow
def test_pgaudit_logs_exactly_the_statements_that_each_audit_setting_selects() -> None:
    expected = {"off": 0, "silent": 0, "ddl": 0, "writes": 4, "reads-and-writes": 5, "all": 7}
    levels = ",".join(expected)
    with audited("postgres", f"audit={levels}", "log=stderr,collector") as run:
        for name, arm in run.arms.items():
            assert entries(run.measure(name, "transactions")[1]) == expected[arm.levels["audit"]], name
    forms = "parameters=off,on", "entries=statement,relation,relation-once"
    with audited("postgres", "audit=off,all", "log=stderr", *forms) as run:
        size = {name: run.measure(name, "ycsb_a")[1].figures["audit_bytes"] for name in run.arms if name != "off"}
        assert all(entries(run.measure(name, "ycsb_a")[1]) == 1 for name in size)
        for form in ("statement", "relation", "relation-once"):
            assert size[f"all-parameters-on-{form}"] > size[f"all-parameters-off-{form}"] + 40


@pytest.mark.slow
def test_mariadb_audit_plugin_logs_exactly_the_statements_that_each_audit_setting_selects() -> None:
    expected = {"off": 0, "silent": 0, "ddl": 0, "writes": 0, "reads-and-writes": 1, "all": 1}
    with audited("mariadb", f"audit={','.join(expected)}", "tables=off,on") as run:
        for name, arm in run.arms.items():
            tables = 1 if arm.levels.get("tables") == "on" else 0
            assert entries(run.measure(name, "select_8")[1]) == expected[arm.levels["audit"]] + tables, name
    with audited("mariadb", "audit=off,all", "log=syslog") as run:
        assert entries(run.measure("all", "select_8")[1]) == 1


@contextmanager
def small_disk(place: Path) -> Iterator[None]:
    place.mkdir(exist_ok=True)
    owner = place.stat()
    options = f"size=128k,uid={owner.st_uid},gid={owner.st_gid}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "costof", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk")
def test_full_disk_of_an_audit_log_is_reported_and_does_not_stop_the_server(tmp_path: Path) -> None:
    with audited("postgres", "audit=off,all", "log=collector") as run:
        server = run.server("all")
        assert isinstance(server, PostgresServer)
        path = server.log.file.path
        with small_disk(path.parent):
            server.ask("SELECT pg_rotate_logfile()")
            eventually("the new file", path.exists)
            server.log.file = LogFile(path)
            check_full_disk(run, "transactions")
    with audited("mariadb", "audit=off,all") as run, small_disk(tmp_path / "disk"):
        server = run.server("all")
        (audit,) = (part for part in server.parts if isinstance(part, Audit))
        audit.log.file = LogFile(tmp_path / "disk" / "audit.log")
        server.ask(f"SET GLOBAL server_audit_file_path = '{audit.log.file.path}'")
        check_full_disk(run, "select_8")


def check_full_disk(run: Audited, workload: str) -> None:
    """Measure until the disk is full and a slice is discarded for missing entries. No operation may fail before."""
    for _ in range(60):
        mismatch = run.measure("all", workload)[1].mismatch
        if mismatch is not None:
            break
    assert mismatch is not None
    assert mismatch.startswith("the audit log got ")
    assert mismatch.endswith("; the disk of the log is full")
