"""What an instrument is told, and that nobody else is told its secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from costof.messages.plan import PLAIN, Arm, Plan, Transport, Workload, line
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
SETTINGS = [MYSQL, MONGODB, HTTP]


def plan_of(settings: MysqlSettings | MongodbSettings | HttpSettings) -> Plan:
    return Plan(arms=[Arm(name="arm", service=settings)], workloads=[Workload(name="connect", kind="connect")])


@pytest.mark.parametrize("settings", SETTINGS)
def test_an_instrument_alone_is_told_a_secret(settings: MysqlSettings | MongodbSettings | HttpSettings) -> None:
    plan = plan_of(settings)
    assert SECRET in line({"plan": plan}).decode()
    shown = [plan.model_dump_json(), str(plan.model_dump()), str(plan.model_dump(mode="json")), repr(plan), str(plan)]
    assert not [text for text in shown if SECRET in text]
    assert "<redacted>" in plan.model_dump_json()


def test_a_record_hides_what_it_should_never_hold(tmp_path: Path) -> None:
    record = EnvironmentRecord(started="now", facts={"service": MYSQL, "password": SecretStr(SECRET)})
    ledger = Ledger(tmp_path)
    ledger.append(record)
    assert SECRET not in (tmp_path / "slices.jsonl").read_text() + repr(record)


@pytest.mark.parametrize("settings", SETTINGS)
def test_an_error_quotes_nothing_of_what_was_read(settings: MysqlSettings | MongodbSettings | HttpSettings) -> None:
    content = sent(settings)
    for wrong in ({**content, "surprise": SECRET}, {**content, "addresses": SECRET}, {"password": SECRET}):
        with pytest.raises(ValidationError) as caught:
            type(settings).model_validate(wrong)
        assert SECRET not in str(caught.value) + repr(caught.value)


def test_where_a_password_is_read_it_is_a_secret_already() -> None:
    for read in (
        parse_mysql_url(Access(f"mysql://u:{SECRET}@h/"), "a-study"),
        parse_mongodb_url(Access(f"mongodb://u:{SECRET}@h/"), "a-study"),
        Access(f"mysql://u:{SECRET}@h/", password=Password(SecretStr(SECRET), said=True)),
    ):
        assert SECRET not in repr(read) + str(read)


def test_what_is_not_asked_for_is_left_to_the_instrument() -> None:
    plan = sent(plan_of(MysqlSettings(addresses=[], database="d")))
    assert plan["arms"] == [
        {
            "name": "arm",
            "service": {"protocol": "mysql", "addresses": [], "database": "d", "statements": "prepared"},
            "transport": {"kind": "plain"},
        }
    ]
    assert plan["workloads"] == [{"name": "connect", "kind": "connect", "workers": 1}]
    assert plan["data"] == {"records": 0, "fields": 10, "field_length": 100}


def test_authorities_are_a_matter_of_tls_alone() -> None:
    assert PLAIN.trusting(Path("/ca.pem")) == PLAIN
    tls = Transport(kind="tls", version="1.3").trusting(Path("/ca.pem"))
    expected = {"kind": "tls", "ca_file": "/ca.pem", "version": "1.3", "verify": "full", "resumption": False}
    assert sent(tls) == expected
