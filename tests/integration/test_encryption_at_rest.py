"""Labs whose servers encrypt their files: a known text is readable only in the control's files."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from costof.errors import CostofError
from costof.programs.mariadb.encryption_at_rest import FILES, EncryptionAtRest
from costof.programs.mariadb.lab import SysbenchServer
from costof.programs.postgres.file_system import DEVICE, find_bindfs, find_gocryptfs
from costof.programs.postgres.lab import PostgresServer
from costof.services.server.lab import ServerLab
from costof.study.arms import PlannedArm
from tests.support.engines import Engines
from tests.support.kill_9 import lab_process
from tests.support.programs import eventually
from tests.support.small_plans import plan_of

pytestmark = pytest.mark.servers

MARIADB, POSTGRES = "mariadb-encryption-at-rest", "postgres-encryption-at-rest"


@contextmanager
def lab_of(study: str, *settings: str) -> Iterator[tuple[ServerLab, dict[str, PlannedArm]]]:
    """Start a study's lab with a few rows. Yield the lab, and its arms by their level of the main factor."""
    plan = plan_of(study, "quick", *settings, "records=300")
    with ServerLab(plan) as lab, Engines(plan, lab) as engines:
        lab.prepare(plan.arms, engines.load)
        yield lab, {arm.levels[plan.study.main_factor]: arm for arm in plan.arms if not arm.replicate}


def server_of(lab: ServerLab, arm: PlannedArm) -> SysbenchServer | PostgresServer:
    server = lab._configured(arm).server
    assert isinstance(server, SysbenchServer | PostgresServer)
    return server


def encryption_of(lab: ServerLab, arm: PlannedArm) -> EncryptionAtRest:
    (found,) = (part for part in server_of(lab, arm).parts if isinstance(part, EncryptionAtRest))
    return found


def test_stored_value_is_readable_in_files_of_mariadb_only_without_encryption() -> None:
    with lab_of(MARIADB, "data=on-disk", "encryption=everything") as (lab, arms):
        everywhere = "tablespaces' files, redo log, temporary files and binary log"
        facts = lab.collect_evidence(arms["none"], "start")
        assert facts["canary"] == f"readable in the {everywhere}"
        encrypted = lab.collect_evidence(arms["everything"], "start")
        assert encrypted["canary"].startswith("in none of the server's ")
        assert encrypted["innodb-encrypt-tables"] == "FORCE"
        control, encryption = encryption_of(lab, arms["none"]), encryption_of(lab, arms["everything"])
        assert (control.leak, encryption.leak) == (None, None)
        command_line = Path(f"/proc/{lab.process_ids['mariadb-2']}/cmdline").read_text()
        assert "keys.txt" in command_line
        key = (encryption.server.folder / "keys.txt").read_text().strip().removeprefix("1;")
        assert key not in command_line + str(encrypted) + str(lab.describe())
        # The search must detect a leak: act as if the unencrypted control had to encrypt its files.
        control.configuration = encryption.configuration
        control._search_for_canary()
        mismatch = control.server.mismatch({}, None)  # type: ignore[arg-type]  # it does not depend on the answer
        assert "although the server encrypts its tablespaces' files" in (mismatch or "")


@pytest.mark.slow
def test_each_encryption_setting_of_mariadb_encrypts_only_its_own_kind_of_file() -> None:
    levels = "tablespaces,redo-log,temporary-files,binary-log"
    with lab_of(MARIADB, "data=in-memory", f"encryption={levels}", "cipher=aes-256-ctr") as (lab, arms):
        for store, level in zip(FILES, levels.split(","), strict=True):
            assert store not in lab.collect_evidence(arms[level], "start")["canary"]
            assert encryption_of(lab, arms[level]).leak is None


def without_fuse() -> str:
    """Return why this machine cannot test file systems in user space; '' if it can."""
    try:
        find_bindfs(), find_gocryptfs()
    except CostofError as error:
        return str(error)
    return "" if DEVICE.exists() else f"no {DEVICE}"


needs_fuse = pytest.mark.skipif(bool(without_fuse()), reason=without_fuse())


@needs_fuse
@pytest.mark.slow
def test_stored_value_is_readable_in_files_of_postgres_only_without_encryption() -> None:
    with lab_of(POSTGRES) as (lab, arms):
        facts = {level: lab.collect_evidence(arm, "start") for level, arm in arms.items()}
        for level, file_system, canary in (
            ("none", "", "readable in "),
            ("pass-through", "fuse", "readable in "),
            ("gocryptfs-aes-gcm", "fuse.gocryptfs", "in none of the "),
        ):
            assert facts[level]["canary"].startswith(canary)
            assert facts[level]["file system"].startswith(file_system)
            server = server_of(lab, arms[level])
            assert isinstance(server, PostgresServer)
            assert server.mismatch({}, None) is None  # type: ignore[arg-type]  # it does not depend on the answer
        assert not facts["none"]["file system"].startswith("fuse")
        encrypted = arms["gocryptfs-aes-gcm"]
        os.kill(lab.process_ids["postgres-2-gocryptfs"], signal.SIGKILL)
        eventually("notice of the file system", lambda: lab.failure_reason(encrypted) is not None)
        assert "postgres-2-gocryptfs ended" in (lab.failure_reason(encrypted) or "")
        assert lab.failure_reason(arms["pass-through"]) is None
        assert lab.failure_reason() is None


@needs_fuse
@pytest.mark.slow
def test_encrypted_file_systems_of_a_lab_are_unmounted_after_kill_9() -> None:
    before = fuse_mounts()
    with lab_process("-m", "tests.support.services", POSTGRES) as lab:
        made = fuse_mounts() - before
        assert len(made) >= 2
        lab.process.kill()
        lab.assert_gone()
        eventually("the end of its mounts", lambda: not made & fuse_mounts())


def fuse_mounts() -> set[str]:
    fields = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    return {point for _, point, kind, *_ in fields if kind.startswith("fuse") and point.endswith("/mounted")}
