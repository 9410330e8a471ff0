"""Column encryption on its own lab and on somebody's server: whole runs, what proves arms, what is left behind."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from pymysql.err import MySQLError

from costof.analysis import read_run
from costof.analysis.run import Run
from costof.datasets.tpcc_database import ALL_HELD, FACT, TpccDatabase
from costof.errors import CostofError, Problem
from costof.lab import network
from costof.lab.certificates import write_private
from costof.lab.lab import Lab
from costof.lab.program import Counters
from costof.ledger.ledger import Ledger
from costof.programs.access import Access
from costof.programs.mariadb.server import DATABASE, MariadbServer
from costof.report import analyse
from costof.report.result import Result
from costof.run.experiment import run
from costof.services.gateway import lab as gateway_lab
from costof.services.gateway.gateway import Rules
from costof.services.gateway.lab import ADMINISTRATOR, STRANGER, GatewayLab
from costof.services.gateway.own import GatewayTarget
from costof.services.gateway.rules import encrypted_columns, rules_text
from costof.services.gateway.sample import Login, compare, read_recorded, read_rows
from costof.services.gateway.sample import log_in as log_in_raw
from costof.services.open import open_service
from costof.study.arms import PlannedArm
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve
from costof.study.schema import SliceSize
from tests.support.engines import Engines
from tests.support.kill_9 import left_by_kill_9
from tests.support.programs import ADMIN, HANGS_SECONDS, alive, eventually, running_mariadb, user_of_many_databases

from .conftest import Silent, costof

pytestmark = pytest.mark.servers

STUDY = "mysql-column-encryption"
SMALL = {"transactions": SliceSize(operations=400, seconds=HANGS_SECONDS)}
TRANSACTIONS = ({"name": "transactions", "kind": "tpcc", "workers": 1, "tpcc": {}},)


def small(*settings: str, target: str | None = None) -> Plan:
    """Two rounds at 8 terminals, of enough transactions for some of each kind."""
    sizes = {"slices": SMALL, "fewest_rounds": 2, "most_rounds": 2, "warm_up_rounds": 0}
    options = Options(profile="quick", settings=settings, target=target)
    return resolve(load_study(STUDY), options).model_copy(update=sizes)


def facts_of(result: Result, arm: str) -> dict[str, str]:
    found = next(each for each in result.arms if each.name == arm)
    return {name: fact for evidence in found.evidence for name, fact in evidence.facts.items()}


def values(result: Result, arm: str) -> tuple[str, str]:
    facts = facts_of(result, arm)
    return facts["values encrypted by the gateway"], facts["values decrypted by the driver"]


class Finished:
    """A run on the lab, and the secrets that it had."""

    def __init__(self, folder: Path) -> None:
        self.plan = small("encrypted=direct,0,20,50,100", "algorithm=aes-128-gcm,sm4-cbc")
        self.ledger = Ledger.create(self.plan, folder)
        lab = GatewayLab(self.plan)
        run(self.plan, lab, self.ledger, Silent())
        self.secrets = [lab._server.password, *lab._front._master_keys.values()]

    @property
    def run(self) -> Run:
        return read_run(self.ledger)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return Finished(tmp_path_factory.mktemp("encryption") / "run")


@pytest.fixture(scope="module")
def result(finished: Finished) -> Result:
    return analyse(finished.ledger)


def test_every_arm_is_measured_to_the_end(finished: Finished) -> None:
    found = finished.run
    assert found.end is not None
    assert found.end.partial is None
    assert not found.lost_arms
    assert [piece.mismatch for piece in found.slices if piece.mismatch] == []
    assert [piece.answer.errors for piece in found.slices if piece.answer.errors] == []
    measured = {(piece.answer.arm, piece.round) for piece in found.slices}
    assert measured == {(arm.name, number) for arm in finished.plan.arms for number in (0, 1)}


def test_both_ends_count_the_same_values_and_none_without_rules(result: Result, finished: Finished) -> None:
    for arm in finished.plan.arms:
        if Rules.of(arm).direct:
            assert "values encrypted by the gateway" not in facts_of(result, arm.name)
            continue
        encrypted, decrypted = values(result, arm.name)
        assert encrypted == decrypted
        assert (encrypted == "0") == (not Rules.of(arm).encrypts)
        assert (
            facts_of(result, arm.name)["connections counted by the server"]
            == facts_of(result, arm.name)["connections counted by the gateway"]
        )


def test_the_evidence_says_which_share_what_was_seen_and_that_the_data_is_sound(result: Result) -> None:
    shares = {"direct": "0 of 92 (0.0%)", "0": "0 of 92 (0.0%)", "20-sm4-cbc": "18 of 92 (19.6%)"}
    shares |= {"50-aes-128-gcm": "46 of 92 (50.0%)", "100-aes-128-gcm": "92 of 92 (100.0%)"}
    for arm, share in shares.items():
        facts = facts_of(result, arm)
        assert facts["columns encrypted"] == share
        sampled = facts["row sample of 9 tables"]
        assert ("no plaintext in" in sampled) == (arm not in ("direct", "0"))
        assert ("plain values: all in" in sampled) == (not arm.startswith("100"))
        assert facts[FACT] == ALL_HELD


def test_every_metric_has_figures_on_every_arm(result: Result, finished: Finished) -> None:
    found = {(value.metric, value.arm): value.mean.value for value in result.values}
    for metric in finished.plan.study.metrics:
        for arm in finished.plan.arms:
            assert (metric, arm.name) in found
    for arm in finished.plan.arms:
        assert found["wire.transactions_per_second", arm.name] > 0
        idle = found["cpu.gateway", arm.name] < 0.1 * found["cpu.gateway", "0"]
        assert idle == Rules.of(arm).direct
    # What is encrypted is longer on the client's side of the gateway, and nowhere else.
    assert found["wire.bytes", "100-aes-128-gcm"] > 1.2 * found["wire.bytes", "0"]


def test_no_secret_is_in_what_a_run_leaves(finished: Finished) -> None:
    left = b"".join(path.read_bytes() for path in finished.ledger.folder.iterdir())
    assert not [secret for secret in finished.secrets if secret.encode() in left]


@pytest.fixture(scope="module")
def lab() -> Iterator[GatewayLab]:
    """Not loaded: one customer, one order, an item."""
    with GatewayLab(small("encrypted=direct,0,20,100")) as standing:
        for table, columns in ROWS.items():
            names, told = ", ".join(columns), ", ".join(map(repr, columns.values()))
            standing._server.ask(f"INSERT INTO {DATABASE}.{table} ({names}) VALUES ({told})")  # noqa: S608
        yield standing


ROWS: dict[str, dict[str, object]] = {
    "new_order": {"no_o_id": 2101, "no_d_id": 3, "no_w_id": 1},
    "item": {"i_id": 70_001, "i_im_id": 4711, "i_name": "a-telling-name", "i_price": 9.99, "i_data": "ORIGINAL-data"},
}


def arm_of(lab: GatewayLab, level: str) -> PlannedArm:
    return next(arm for arm in lab._plan.arms if arm.levels["encrypted"] == level)


def login(lab: GatewayLab, level: str, account: str) -> Login:
    arm = arm_of(lab, level)
    return Login(lab._site.addresses["gateway"], lab._front.port(arm), account, lab._server.password, lab._site.client)


def test_an_account_gets_what_its_role_says(lab: GatewayLab) -> None:
    kept = lab._rows()
    with log_in_raw(login(lab, "100", ADMINISTRATOR)) as administrator:
        assert read_rows(administrator, DATABASE) == kept
    rows, received = read_recorded(login(lab, "100", STRANGER), DATABASE)
    assert compare(kept, rows, received, encrypted_columns("mysql-column-encryption/100.toml")).wrong is None
    # The measured one, without the word that it decrypts.
    with pytest.raises(MySQLError), log_in_raw(login(lab, "100", lab._server.endpoint()["username"])) as stock:
        read_rows(stock, DATABASE)


def test_rules_are_their_owners_alone_and_go_with_the_lab(lab: GatewayLab) -> None:
    files = sorted(lab._lab.folder.glob("rules-*.toml"))
    assert [path.name for path in files] == [
        "rules-100-aes-128-gcm.toml",
        "rules-20-aes-128-gcm.toml",
        "rules-none.toml",
    ]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_an_arm_that_sends_plaintext_is_lost_alone(lab: GatewayLab) -> None:
    arm = arm_of(lab, "20")
    path = lab._lab.folder / "rules-20-aes-128-gcm.toml"
    text, front = path.read_text(), lab._front
    spoiled = rules_text(None, DATABASE, None, front._accounts, front._master_keys, front._position.catalogue)
    write_private(path, spoiled.encode())
    assert set(front._process.reload().values()) == {None}
    try:
        assert "row sample of 9 tables" not in lab.proofs(arm)
        assert (lab.lost_arm(arm) or "").endswith("came in plaintext")
        assert all(lab.lost_arm(each) is None for each in lab._plan.arms if each is not arm)
        assert lab.lost() is None
    finally:
        front._sampled.clear()
        front._contradicted.clear()
        write_private(path, text.encode())
        front._process.reload()
    assert "row sample of 9 tables" in lab.proofs(arm)


def test_data_that_is_not_sound_ends_the_run_in_one_line(lab: GatewayLab) -> None:
    server = lab._server
    server.ask(f"INSERT INTO {DATABASE}.new_order VALUES (2103, 3, 1)")  # noqa: S608  # our own name
    try:
        with pytest.raises(CostofError) as refused:
            TpccDatabase(server.ask, DATABASE, "mariadb").fill(lambda: None)
        assert refused.value.problem is Problem.TPCC_UNSOUND
        assert "condition 3 " in str(refused.value)
        assert "\n" not in str(refused.value)
        (caution,) = TpccDatabase(server.ask, DATABASE, "mariadb").cautions()
        assert "condition 3 " in caution
    finally:
        server.ask(f"DELETE FROM {DATABASE}.new_order WHERE no_o_id = 2103")  # noqa: S608  # our own name


def test_tables_that_have_grown_are_filled_anew(lab: GatewayLab) -> None:
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


def test_a_gateway_or_server_that_ends_is_the_runs_end() -> None:
    with GatewayLab(small("encrypted=direct,0,20")) as lab:
        (address,) = lab.endpoint(lab._plan.controls[0])["service"]["addresses"]
        assert lab.counters(address) != Counters()
        lab._front._process._process.kill()
        eventually("the notice", lambda: lab.lost() is not None)
        assert "gateway ended in the middle of the run" in (lab.lost() or "")
        assert lab.counters(address) == Counters()
        assert lab.cautions() == []
        assert lab.last_proofs(lab._plan.controls[0]) == {}
        lab._lab.kill("mariadb")
        eventually("the notice", lambda: bool(lab._lab.dead()))
        assert "mariadb ended in the middle of the run" in (lab.lost() or "")


def test_without_root_it_stands_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (network, gateway_lab):
        monkeypatch.setattr(module, "is_root", lambda: False)
    plan = small("encrypted=direct,0,20")
    with GatewayLab(plan) as lab:
        assert "loopback" in lab.describe().topology
        assert any("no CPU share" in caution for caution in lab.cautions())
        with Engines(plan, lab, TRANSACTIONS) as engines:
            assert [ready.error for ready in engines.ready.values()] == [None] * len(plan.arms)
        assert all(lab.proofs(arm) for arm in plan.arms)
        assert not any(lab.lost_arm(arm) for arm in plan.arms)


RUN = """
import json, sys
from costof.services.gateway.lab import GatewayLab
from costof.study.plan import Options, resolve
from costof.study.library import load_study
from costof.programs.access import Access
plan = resolve(load_study("mysql-column-encryption"), Options(profile="quick"))
with GatewayLab(plan) as lab:
    hosts = [lab._site.client, lab._site.last, *lab._site.middle.values()]
    paths = [f"/run/netns/{host.namespace}" for host in hosts if host.namespace]
    told = {"pids": list(lab.process_ids.values()), "paths": [str(lab._lab.folder), *paths]}
    print(json.dumps(told), flush=True)
    sys.stdin.read()
"""


def test_nothing_is_left_after_kill_9() -> None:
    assert len(left_by_kill_9("-c", RUN)["pids"]) == 2


@pytest.fixture(scope="module")
def somebodys() -> Iterator[MariadbServer]:
    """A server with other data, and an account that may make costof's databases and nothing else."""
    with Lab() as lab, running_mariadb(lab) as server:
        user_of_many_databases(server)
        server.ask("CREATE DATABASE theirs")
        server.ask("CREATE TABLE theirs.data (id INT PRIMARY KEY)")
        server.ask("INSERT INTO theirs.data VALUES (1)")
        yield server


def url_of(server: MariadbServer) -> str:
    return f"mysql://{ADMIN}:{server.password}@{server.address}:{server.port}/"


def databases(server: MariadbServer) -> set[str]:
    return {row[0] for row in server.ask("SHOW DATABASES")}


def target_of(plan: Plan, server: MariadbServer, ca_file: Path | None = None) -> GatewayTarget:
    service = open_service(plan, Access(url_of(server), ca_file), "a-run")
    assert isinstance(service, GatewayTarget)
    return service


def test_somebodys_server_is_measured_behind_a_gateway_and_left_as_it_was(
    somebodys: MariadbServer, tmp_path: Path
) -> None:
    before, plan = databases(somebodys), small("encrypted=direct,0,100", target="mysql://shown")
    service, ledger = target_of(plan, somebodys), Ledger.create(plan, tmp_path / "run")
    run(plan, service, ledger, Silent())
    found = read_run(ledger)
    assert found.end is not None
    assert found.end.partial is None
    assert [piece.mismatch for piece in found.slices if piece.mismatch] == []
    assert all(piece.answer.operations for piece in found.slices)
    result = analyse(ledger)
    encrypted, decrypted = values(result, "100")
    assert encrypted == decrypted != "0"
    assert facts_of(result, "100")[FACT] == ALL_HELD
    assert not alive(service._front.pid)
    assert databases(somebodys) == before
    assert somebodys.ask("SELECT * FROM theirs.data") == ((1,),)


def test_an_account_that_must_speak_tls_speaks_it_on_both_sides(somebodys: MariadbServer) -> None:
    somebodys.ask(f"ALTER USER {ADMIN} REQUIRE SSL")
    before, plan = databases(somebodys), small("encrypted=direct,0,100", target="mysql://shown")
    try:
        with target_of(plan, somebodys, somebodys.ca_file) as service, Engines(plan, service, TRANSACTIONS) as engines:
            assert [ready.error for ready in engines.ready.values()] == [None] * len(plan.arms)
            assert {service.endpoint(arm)["transport"]["kind"] for arm in plan.arms} == {"tls"}
            assert all(service.proofs(arm) for arm in plan.arms)
            assert not any(service.lost_arm(arm) for arm in plan.arms)
    finally:
        somebodys.ask(f"ALTER USER {ADMIN} REQUIRE NONE")
    assert databases(somebodys) == before


def test_every_write_on_a_target_is_told_and_none_is_done_before(somebodys: MariadbServer, tmp_path: Path) -> None:
    before = databases(somebodys)
    done = costof("run", STUDY, "--profile", "quick", "--dry-run", "--target", url_of(somebodys), cwd=tmp_path)
    assert done.status == 0, done.err
    told = [line.split()[1] for line in done.out.splitlines() if line.startswith("write")]
    assert told == ["create", "insert", "create", "insert,", "drop"]
    assert somebodys.password not in done.out + done.err
    assert databases(somebodys) == before
