"""A factor varies what it says: the evidence of runs with several levels."""

from __future__ import annotations

from pathlib import Path

import pytest

from costof.analysis import analyse
from costof.lab.lab import is_root
from costof.ledger import Ledger

from .conftest import SMALL, costof

pytestmark = [pytest.mark.servers, pytest.mark.timeout(180)]


def test_what_tls_negotiates_is_what_was_asked_for(tmp_path: Path) -> None:
    settings = ["--set", "tls_version=1.2,1.3", "--set", "key=rsa-2048,ecdsa-p256", "--set", "verify=none"]
    done = costof("run", "mongodb-tls", *SMALL, *settings, "--budget", "12s", "--out", "run", cwd=tmp_path)
    assert done.status == 0, done.err
    result = analyse(Ledger.open(tmp_path / "run"))
    seen = {arm.name: next(e.facts for e in arm.evidence if e.view == "wire") for arm in result.arms}
    assert seen["tls-1.2-rsa-2048"]["protocol"] == "TLSv1.2"
    assert seen["tls-1.2-ecdsa-p256"]["key"] == "ecdsa-p256"
    assert seen["tls-1.3-rsa-2048"]["protocol"] == "TLSv1.3"
    assert seen["tls-1.3-ecdsa-p256"]["key"] == "ecdsa-p256"
    assert seen["tls-1.3-ecdsa-p256"]["verified"] == "no"
    app = {arm.name: next(e.facts for e in arm.evidence if e.view == "app") for arm in result.arms}
    told = "TLS connections counted by the server"
    assert "TLSv1.2" in app["tls-1.2-rsa-2048"][told]
    assert "TLSv1.2" not in app["tls-1.3-rsa-2048"][told]
    trips = {v.arm: v.round_trips for v in result.values if v.metric == "wire.tls"}
    assert trips["tls-1.2-rsa-2048"] == pytest.approx(2)
    assert trips["tls-1.3-rsa-2048"] == pytest.approx(1)
    assert any("verify = none" in sentence.text for sentence in result.answer)


@pytest.mark.skipif(not is_root(), reason="hosts and links need root")
def test_a_larger_key_costs_more(tmp_path: Path) -> None:
    settings = ["--set", "distance=lan", "--set", "transport=tls", "--set", "key=rsa-2048,rsa-4096"]
    done = costof("run", "mysql-transport", *SMALL, *settings, "--budget", "10s", "--out", "run", cwd=tmp_path)
    assert done.status == 0, done.err
    result = analyse(Ledger.open(tmp_path / "run"))
    handshake = {v.arm: v.percentiles["p50"] for v in result.values if v.metric == "wire.tls"}
    assert handshake["tls-rsa-4096"] > 1.5 * handshake["tls-rsa-2048"]
