"""A plan that is sealed to an instrument's key: that one alone reads it."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from costof.messages.answers import PublicKey
from costof.messages.plan import Arm, Plan, Workload, line
from costof.messages.sealing import Opener, sealed
from costof.programs.mariadb.connection import MysqlSettings

SECRET = "hunter2-and-more"
VECTOR = json.loads((Path(__file__).parents[1] / "vectors" / "sealed-plan.json").read_text())


def test_an_instrument_reads_the_plan_and_no_other_does() -> None:
    service = MysqlSettings(addresses=["h:1"], username="u", password=SECRET, database="d")
    plan = Plan(arms=[Arm(name="arm", service=service)], workloads=[Workload(name="connect", kind="connect")])
    opener = Opener()
    written = sealed(plan, opener.public_key)
    assert written.count(b"\n") == 1
    assert SECRET.encode() not in written
    assert opener.opened(written) == line({"plan": plan})
    assert sealed(plan, opener.public_key) != written
    with pytest.raises(ValueError, match="sealed to this key"):
        Opener().opened(written)


def test_the_vector_is_of_the_same_form() -> None:
    opener = Opener(X25519PrivateKey.from_private_bytes(b64decode(VECTOR["private_key"])))
    assert opener.public_key.public_key == VECTOR["public_key"]
    assert json.loads(opener.opened(json.dumps(VECTOR["line"]))) == VECTOR["plan"]


@pytest.mark.parametrize("key", ["", "AAAA"])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    plan = Plan(arms=[], workloads=[])
    with pytest.raises(ValueError, match="32 bytes"):
        sealed(plan, PublicKey(public_key=key))


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        json.dumps([SECRET]),
        json.dumps({"plan": SECRET}),
        json.dumps({"sealed": SECRET}),
        json.dumps({"sealed": {"message": SECRET}}),
        json.dumps({"sealed": {"message": "AAAA"}}),
        json.dumps({"sealed": {"message": 7}}),
    ],
)
def test_what_was_not_sealed_is_refused_and_not_quoted(written: str) -> None:
    with pytest.raises(ValueError, match="sealed to this key") as caught:
        Opener().opened(written)
    assert SECRET not in str(caught.value)
