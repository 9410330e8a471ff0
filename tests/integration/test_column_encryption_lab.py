"""Tests of the lab for column encryption.

They check that evidence confirms or contradicts an arm's settings, and that a run ends if its gateway or server dies.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator

import pytest
from pymysql.err import MySQLError

from costof.datasets.tpcc_database import TpccDatabase
from costof.errors import CostofError, ErrorText
from costof.lab.certificates import write_private
from costof.lab.program import Counters
from costof.programs.mariadb.lab import DATABASE, USER
from costof.services.encryption.lab import ADMINISTRATOR, STRANGER, EncryptionLab
from costof.services.encryption.rules import encrypted_columns, rules_text
from costof.services.encryption.sample import Login, compare, read_recorded, read_rows
from costof.services.encryption.sample import log_in as log_in_raw
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.support.engines import Engines
from tests.support.programs import eventually
from tests.support.small_plans import ONE_TERMINAL, plan_of

pytestmark = pytest.mark.servers


def small(*settings: str) -> Plan:
    return plan_of("mysql-column-encryption", "quick", *settings)


@pytest.fixture(scope="module")
def lab() -> Iterator[EncryptionLab]:
    """Start the lab with one customer, one order and one item instead of TPC-C's data, which takes long to load."""
    with EncryptionLab(small("encrypted=direct,0,20,100")) as running:
        for table, columns in ROWS.items():
            names, literals = ", ".join(columns), ", ".join(map(repr, columns.values()))
            running._server.ask(f"INSERT INTO {DATABASE}.{table} ({names}) VALUES ({literals})")  # noqa: S608
        yield running


ROWS: dict[str, dict[str, object]] = {
    "new_order": {"no_o_id": 2101, "no_d_id": 3, "no_w_id": 1},
    "item": {"i_id": 70_001, "i_im_id": 4711, "i_name": "a-telling-name", "i_price": 9.99, "i_data": "ORIGINAL-data"},
}


def arm_of(lab: EncryptionLab, level: str) -> PlannedArm:
    return next(arm for arm in lab._plan.arms if arm.levels["encrypted"] == level)


def login(lab: EncryptionLab, level: str, account: str) -> Login:
    arm = arm_of(lab, level)
    return Login(
        lab._chain.addresses["gateway"], lab._front.port(arm), account, lab._server.password, lab._chain.client
    )


def test_role_of_an_account_determines_whether_it_gets_plaintext_or_ciphertext(lab: EncryptionLab) -> None:
    kept = lab._rows()
    with log_in_raw(login(lab, "100", ADMINISTRATOR)) as administrator:
        assert read_rows(administrator, DATABASE) == kept
    rows, received = read_recorded(login(lab, "100", STRANGER), DATABASE)
    assert compare(kept, rows, received, encrypted_columns("mysql-column-encryption/100.toml")).mismatch is None
    # An ordinary client does not announce in the handshake that it can decrypt.
    with pytest.raises(MySQLError), log_in_raw(login(lab, "100", USER)) as stock:
        read_rows(stock, DATABASE)


def test_file_of_gateway_rules_is_private_and_removed_with_the_lab(lab: EncryptionLab) -> None:
    files = sorted(lab._lab.folder.glob("rules-*.toml"))
    assert [path.name for path in files] == [
        "rules-100-aes-128-gcm.toml",
        "rules-20-aes-128-gcm.toml",
        "rules-none.toml",
    ]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_only_the_arm_whose_gateway_sends_plaintext_fails(lab: EncryptionLab) -> None:
    arm = arm_of(lab, "20")
    path = lab._lab.folder / "rules-20-aes-128-gcm.toml"
    text, front = path.read_text(), lab._front
    spoiled = rules_text(None, DATABASE, None, front._accounts, front._master_keys, front._position.catalogue)
    write_private(path, spoiled.encode())
    assert set(front._process.reload().values()) == {None}
    try:
        assert "row sample of 9 tables" not in lab.collect_evidence(arm, "start")
        assert (lab.failure_reason(arm) or "").endswith("came in plaintext")
        assert all(lab.failure_reason(each) is None for each in lab._plan.arms if each is not arm)
        assert lab.failure_reason() is None
    finally:
        front._samples.clear()
        front._mismatches.clear()
        write_private(path, text.encode())
        front._process.reload()
    assert "row sample of 9 tables" in lab.collect_evidence(arm, "start")


def test_inconsistent_tpcc_data_ends_the_run_with_a_one_line_error(lab: EncryptionLab) -> None:
    server = lab._server
    server.ask(f"INSERT INTO {DATABASE}.new_order VALUES (2103, 3, 1)")  # noqa: S608  # our own name
    try:
        with pytest.raises(CostofError) as refused:
            TpccDatabase(server.ask, DATABASE, "mariadb").fill(lambda: None)
        assert refused.value.message is ErrorText.TPCC_UNSOUND
        assert "condition 3 " in str(refused.value)
        assert "\n" not in str(refused.value)
        (warning,) = TpccDatabase(server.ask, DATABASE, "mariadb").warnings()
        assert "condition 3 " in warning
    finally:
        server.ask(f"DELETE FROM {DATABASE}.new_order WHERE no_o_id = 2103")  # noqa: S608  # our own name


def test_tpcc_tables_are_emptied_and_reloaded_once_they_have_grown(lab: EncryptionLab) -> None:
    filled: list[int] = []
    tables = TpccDatabase(lab._server.ask, "grown", "mariadb")
    lab._server.ask("CREATE DATABASE grown")
    try:
        tables.make()
        tables.fill(lambda: filled.append(1))
        tables.renew()
        assert len(filled) == 1
        lab._server.ask("INSERT INTO grown.district VALUES (1, 1, '', '', '', '', '', '', 0, 0, 500001)")
        tables.renew()
        assert len(filled) == 2
        assert lab._server.ask("SELECT COUNT(*) FROM grown.district") == ((0,),)
    finally:
        lab._server.ask("DROP DATABASE grown")


@pytest.mark.usefixtures("no_hosts")
def test_encryption_lab_without_namespaces_runs_on_loopback() -> None:
    plan = small("encrypted=direct,0,20")
    with EncryptionLab(plan) as lab:
        assert "loopback" in lab.describe().topology
        assert any("no CPU limit" in warning for warning in lab.warnings())
        with Engines(plan, lab, ONE_TERMINAL) as engines:
            assert [ready.error for ready in engines.ready.values()] == [None] * len(plan.arms)
        assert all(lab.collect_evidence(arm, "start") for arm in plan.arms)
        assert not any(lab.failure_reason(arm) for arm in plan.arms)


def test_death_of_gateway_or_server_ends_the_run(lab: EncryptionLab) -> None:
    """This test must be the last one, since it ends the lab's gateway and server."""
    (address,) = lab.endpoint(arm_of(lab, "20")).service.addresses
    assert lab.counters(address) != Counters()
    lab._front._process._process.kill()
    eventually("the notice", lambda: lab.failure_reason() is not None)
    assert "gateway ended in the middle of the run" in (lab.failure_reason() or "")
    assert lab.counters(address) == Counters()
    lab._lab.kill("mariadb")
    eventually("the notice", lambda: bool(lab._lab.dead()))
    assert "mariadb ended in the middle of the run" in (lab.failure_reason() or "")
