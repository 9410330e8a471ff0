"""A plan that is sealed to an engine's key: that one alone reads it."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from costof.ipc.answers import PublicKey
from costof.ipc.plan import Arm, Plan, Workload, line
from costof.ipc.sealing import INFO, SUITE, sealed
from costof.programs.mariadb.settings import MysqlSettings

SECRET = "hunter2-and-more"
VECTOR = json.loads((Path(__file__).parents[1] / "vectors" / "sealed-plan.json").read_text())


def opened(written: bytes, key: X25519PrivateKey) -> bytes:
    message = b64decode(json.loads(written)["sealed"]["message"], validate=True)
    return bytes(SUITE.decrypt(message, key, info=INFO))


def told(key: X25519PrivateKey) -> PublicKey:
    return PublicKey(public_key=b64encode(key.public_key().public_bytes_raw()).decode())


def test_an_engine_reads_the_plan_and_no_other_does() -> None:
    service = MysqlSettings(addresses=["h:1"], username="u", password=SECRET, database="d")
    plan = Plan(arms=[Arm(name="arm", service=service)], workloads=[Workload(name="connect", kind="connect")])
    key = X25519PrivateKey.generate()
    written = sealed(plan, told(key))
    assert written.count(b"\n") == 1
    assert SECRET.encode() not in written
    assert opened(written, key) == line({"plan": plan})
    assert sealed(plan, told(key)) != written
    with pytest.raises(InvalidTag):
        opened(written, X25519PrivateKey.generate())


def test_the_vector_is_of_the_same_form() -> None:
    key = X25519PrivateKey.from_private_bytes(b64decode(VECTOR["private_key"]))
    assert told(key).public_key == VECTOR["public_key"]
    assert json.loads(opened(json.dumps(VECTOR["line"]).encode(), key)) == VECTOR["plan"]


@pytest.mark.parametrize("key", ["", "AAAA"])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    plan = Plan(arms=[], workloads=[])
    with pytest.raises(ValueError, match="32 bytes"):
        sealed(plan, PublicKey(public_key=key))
