"""Tests of plans for instruments (processes that measure), of hiding passwords in plans, and of finding the engine."""

from __future__ import annotations

import json
import sys
from base64 import b64decode
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from pydantic import SecretStr, ValidationError

from costof.errors import CostofError, ErrorText
from costof.messages.answers import PublicKey
from costof.messages.plan import PLAIN, Arm, Plan, ServiceSettings, Transport, Workload, line
from costof.messages.process import engine_path
from costof.messages.sealing import Opener, sealed
from costof.programs.access import Access, Password
from costof.programs.http import HttpSettings
from costof.programs.mariadb.connection import Decryption, MysqlSettings, parse_mysql_url
from costof.programs.mongod.connection import MongodbSettings, parse_mongodb_url
from costof.results.ledger import EnvironmentRecord, Ledger
from tests.support.engines import sent

SECRET = "hunter2-and-more"
KEYS = Decryption(master_keys={"app": SECRET})
MYSQL = MysqlSettings(addresses=["h:1"], username="u", password=SECRET, database="d", decryption=KEYS)
MONGODB = MongodbSettings(addresses=["h:1"], username="u", password=SECRET, database="d", collection="c")
HTTP = HttpSettings(addresses=["h:1"], path="/", headers=[f"Authorization: {SECRET}"])
VECTOR = json.loads((Path(__file__).parents[2] / "vectors" / "sealed-plan.json").read_text())


def plan_of(settings: ServiceSettings) -> Plan:
    return Plan(arms=[Arm(name="arm", service=settings)], workloads=[Workload(name="connect", kind="connect")])


@pytest.mark.parametrize("settings", [MYSQL, MONGODB, HTTP])
def test_secrets_appear_only_in_messages_to_measuring_processes_and_never_in_errors(settings: ServiceSettings) -> None:
    plan = plan_of(settings)
    assert SECRET in line({"plan": plan}).decode()
    shown = [plan.model_dump_json(), str(plan.model_dump()), str(plan.model_dump(mode="json")), repr(plan), str(plan)]
    assert not [text for text in shown if SECRET in text]
    assert "<redacted>" in plan.model_dump_json()
    content = sent(settings)
    for invalid in ({**content, "surprise": SECRET}, {**content, "addresses": SECRET}, {"password": SECRET}):
        with pytest.raises(ValidationError) as caught:
            type(settings).model_validate(invalid)
        assert SECRET not in str(caught.value) + repr(caught.value)


def test_raw_results_of_a_run_contain_no_secrets(tmp_path: Path) -> None:
    record = EnvironmentRecord(started="now", facts={"service": MYSQL, "password": SecretStr(SECRET)})
    Ledger(tmp_path).append(record)
    assert SECRET not in (tmp_path / "slices.jsonl").read_text() + repr(record)


def test_printed_form_of_a_parsed_url_contains_no_password() -> None:
    for parsed in (
        parse_mysql_url(Access(f"mysql://u:{SECRET}@h/"), "a-study"),
        parse_mongodb_url(Access(f"mongodb://u:{SECRET}@h/"), "a-study"),
        Access(f"mysql://u:{SECRET}@h/", password=Password(SecretStr(SECRET), explicit=True)),
    ):
        assert SECRET not in repr(parsed) + str(parsed)


def test_message_to_a_measuring_process_omits_settings_without_a_value() -> None:
    plan = sent(plan_of(MysqlSettings(addresses=[], database="d")))
    service = {"protocol": "mysql", "addresses": [], "database": "d", "statements": "prepared"}
    assert plan["arms"] == [{"name": "arm", "service": service, "transport": {"kind": "plain"}}]
    assert plan["workloads"] == [{"name": "connect", "kind": "connect", "workers": 1}]
    assert plan["data"] == {"records": 0, "fields": 10, "field_length": 100}


def test_ca_file_is_added_to_client_settings_only_if_they_use_tls() -> None:
    assert PLAIN.trusting(Path("/ca.pem")) == PLAIN
    tls = Transport(kind="tls", version="1.3").trusting(Path("/ca.pem"))
    expected = {"kind": "tls", "ca_file": "/ca.pem", "version": "1.3", "verify": "full", "resumption": False}
    assert sent(tls) == expected


def test_encrypted_plan_can_be_decrypted_only_with_the_key_of_its_receiver() -> None:
    plan, opener = plan_of(MYSQL), Opener()
    written = sealed(plan, opener.public_key)
    assert written.count(b"\n") == 1
    assert SECRET.encode() not in written
    assert opener.opened(written) == line({"plan": plan})
    assert sealed(plan, opener.public_key) != written
    with pytest.raises(ValueError, match="encrypted for this key"):
        Opener().opened(written)


def test_encrypted_plan_of_the_shared_test_vector_is_decrypted() -> None:
    opener = Opener(X25519PrivateKey.from_private_bytes(b64decode(VECTOR["private_key"])))
    assert opener.public_key.public_key == VECTOR["public_key"]
    assert json.loads(opener.opened(json.dumps(VECTOR["line"]))) == VECTOR["plan"]


@pytest.mark.parametrize("key", ["", "AAAA"])
def test_invalid_public_key_is_rejected(key: str) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        sealed(Plan(arms=[], workloads=[]), PublicKey(public_key=key))


@pytest.mark.parametrize(
    "content",
    [[SECRET], {"plan": SECRET}, {"sealed": SECRET}, *({"sealed": {"message": m}} for m in (SECRET, "AAAA", 7))],
)
def test_malformed_encrypted_plan_is_rejected_without_quoting_it(content: object) -> None:
    for written in (SECRET, json.dumps(content)):
        with pytest.raises(ValueError, match="encrypted for this key") as caught:
            Opener().opened(written)
        assert SECRET not in str(caught.value)


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with an interpreter's path and without an engine, and unset COSTOF_ENGINE."""
    monkeypatch.delenv("COSTOF_ENGINE", raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "interpreter" / "python"))
    return tmp_path


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o755)
    return path


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, record: str) -> None:
    """Install a package named costof, first on Python's path, with this RECORD."""
    info = folder / "costof-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: costof\nVersion: 1\n")
    (info / "RECORD").write_text(record)
    monkeypatch.syspath_prepend(folder)


@pytest.mark.parametrize(
    ("record", "engine"),
    [
        # `pip install --user` puts the engine into the folder of scripts, which has no interpreter.
        ("../../../bin/costof-engine,,\n", "bin/costof-engine"),
        # `pip install --target` moves the engine, but RECORD has its path before the move.
        ("../../bin/costof-engine,,\n", "lib/python3/site/bin/costof-engine"),
    ],
)
def test_engine_is_located_where_pip_installed_it(
    record: str, engine: str, alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(alone / "lib" / "python3" / "site", monkeypatch, record)
    path = program(alone / engine)
    assert engine_path() == path


def test_environment_variable_costof_engine_has_precedence_over_the_installed_engine(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, installed = program(alone / "another"), program(alone / "interpreter" / "costof-engine")
    install(alone / "site", monkeypatch, "")
    assert engine_path() == installed
    monkeypatch.setenv("COSTOF_ENGINE", str(other))
    assert engine_path() == other
    other.unlink()
    with pytest.raises(CostofError, match=r"COSTOF_ENGINE=.*another is not a program") as caught:
        engine_path()
    assert caught.value.message is ErrorText.ENGINE_MISSING
