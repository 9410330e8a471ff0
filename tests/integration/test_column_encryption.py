"""Whole runs of column encryption, on servers that the run starts (a lab) and on a user's own server (a target)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from costof.datasets.tpcc_database import ALL_HELD, FACT
from costof.lab.lab import Lab
from costof.programs.access import Access
from costof.programs.mariadb.lab import MariadbServer
from costof.report import analyse
from costof.report.result import Result
from costof.results.ledger import Ledger
from costof.run.experiment import run
from costof.services.encryption.gateway import Rules
from costof.services.encryption.lab import EncryptionLab
from costof.services.open import open_service
from costof.study.plan import Plan
from tests.support.command import costof
from tests.support.engines import Engines
from tests.support.programs import ADMIN, databases, url_of, users_mariadb
from tests.support.small_plans import ONE_TERMINAL, plan_of, two_rounds
from tests.support.unwatched import Silent

pytestmark = pytest.mark.servers

STUDY = "mysql-column-encryption"


def small(*settings: str, target: str | None = None) -> Plan:
    """Return a plan with 8 terminals and enough transactions that each of TPC-C's five kinds occurs."""
    return two_rounds(plan_of(STUDY, "quick", *settings, target=target), transactions=250)


def facts_of(result: Result, arm: str) -> dict[str, str]:
    found = next(each for each in result.arms if each.name == arm)
    return {name: fact for evidence in found.evidence for name, fact in evidence.facts.items()}


def values(result: Result, arm: str) -> tuple[str, str]:
    facts = facts_of(result, arm)
    return facts["values encrypted by the gateway"], facts["values decrypted by the driver"]


class Finished:
    def __init__(self, folder: Path) -> None:
        self.plan = small("encrypted=direct,0,20,100", "algorithm=aes-128-gcm,sm4-cbc")
        self.ledger = Ledger.create(self.plan, folder)
        lab = EncryptionLab(self.plan)
        run(self.plan, lab, self.ledger, Silent())
        self.secrets = [each.get_secret_value() for each in (lab._server.password, *lab._front._master_keys.values())]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return Finished(tmp_path_factory.mktemp("encryption") / "run")


@pytest.fixture(scope="module")
def result(finished: Finished) -> Result:
    return analyse(finished.ledger)


@pytest.mark.slow
def test_client_and_gateway_count_the_same_encrypted_values(result: Result, finished: Finished) -> None:
    for arm in finished.plan.arms:
        if Rules.from_arm(arm).direct:
            assert "values encrypted by the gateway" not in facts_of(result, arm.name)
            continue
        encrypted, decrypted = values(result, arm.name)
        assert encrypted == decrypted
        assert (encrypted == "0") == (not Rules.from_arm(arm).encrypts)
        assert (
            facts_of(result, arm.name)["connections counted by the server"]
            == facts_of(result, arm.name)["connections counted by the gateway"]
        )


@pytest.mark.slow
def test_evidence_states_how_many_columns_each_arm_encrypts(result: Result) -> None:
    shares = {"direct": "0 of 92 (0.0%)", "0": "0 of 92 (0.0%)", "20-sm4-cbc": "18 of 92 (19.6%)"}
    shares |= {"100-aes-128-gcm": "92 of 92 (100.0%)"}
    for arm, share in shares.items():
        facts = facts_of(result, arm)
        assert facts["columns encrypted"] == share
        sampled = facts["row sample of 9 tables"]
        assert ("no plaintext in" in sampled) == (arm not in ("direct", "0"))
        assert ("plain values: all in" in sampled) == (not arm.startswith("100"))
        assert facts[FACT] == ALL_HELD


@pytest.mark.slow
def test_every_metric_has_a_value_on_every_arm(result: Result, finished: Finished) -> None:
    means = {(value.metric, value.arm): value.mean.value for value in result.values}
    for metric in finished.plan.study.metrics:
        for arm in finished.plan.arms:
            assert (metric, arm.name) in means
    for arm in finished.plan.arms:
        assert means["wire.transactions_per_second", arm.name] > 0
        idle = means["cpu.gateway", arm.name] < 0.1 * means["cpu.gateway", "0"]
        assert idle == Rules.from_arm(arm).direct
    # Only the client receives ciphertexts, which are longer than plaintext.
    assert means["wire.bytes", "100-aes-128-gcm"] > 1.2 * means["wire.bytes", "0"]


@pytest.mark.slow
def test_run_folder_holds_no_secrets(finished: Finished) -> None:
    left = b"".join(path.read_bytes() for path in finished.ledger.folder.iterdir())
    assert not [secret for secret in finished.secrets if secret.encode() in left]


@pytest.fixture(scope="module")
def users_server() -> Iterator[MariadbServer]:
    with Lab() as lab, users_mariadb(lab) as server:
        yield server


def test_account_that_requires_tls_has_tls_on_both_sides_of_the_gateway(users_server: MariadbServer) -> None:
    users_server.ask(f"ALTER USER {ADMIN} REQUIRE SSL")
    before, plan = databases(users_server), small("encrypted=direct,0,100", target="mysql://shown")
    try:
        with (
            open_service(plan, Access(url_of(users_server), users_server.ca_file), "a-run") as service,
            Engines(plan, service, ONE_TERMINAL) as engines,
        ):
            assert [ready.error for ready in engines.ready.values()] == [None] * len(plan.arms)
            assert {service.endpoint(arm).transport.kind for arm in plan.arms} == {"tls"}
            assert all(service.collect_evidence(arm, "start") for arm in plan.arms)
            assert not any(service.failure_reason(arm) for arm in plan.arms)
    finally:
        users_server.ask(f"ALTER USER {ADMIN} REQUIRE NONE")
    assert databases(users_server) == before


def test_dry_run_lists_every_write_on_a_target_and_writes_nothing(users_server: MariadbServer, tmp_path: Path) -> None:
    before = databases(users_server)
    done = costof("run", STUDY, "--profile", "quick", "--dry-run", "--target", url_of(users_server), cwd=tmp_path)
    assert done.status == 0, done.err
    writes = [line.split()[1] for line in done.out.splitlines() if line.startswith("write")]
    assert writes == ["create", "insert", "create", "insert,", "drop"]
    assert users_server.password.get_secret_value() not in done.out + done.err
    assert databases(users_server) == before
