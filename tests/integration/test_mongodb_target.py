"""A user's own servers: somebody's data, and servers that refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from costof.lab.certificates import Authority
from costof.lab.lab import Lab
from costof.report.result import Result
from tests.support.command import Outcome, costof

from .conftest import PASSWORD, SMALL, Standalone

pytestmark = pytest.mark.servers
Start = Callable[..., Standalone]


@pytest.fixture(scope="module")
def healthy(standalone: Start) -> Standalone:
    return standalone(10)


def ask(folder: Path, url: str, ca_file: Path | None, *more: str) -> Outcome:
    trust = ["--tls-ca", str(ca_file), "--allow-plain"] if ca_file else []
    return costof("run", "mongodb-tls", *SMALL, "--rounds", "2", "--target", url, *trust, *more, cwd=folder)


def only_run(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


def test_a_target_is_answered_for_and_left_as_it_was(healthy: Standalone, tmp_path: Path) -> None:
    with healthy.client() as client:
        client["theirs"]["data"].insert_one({"_id": 1})
        before = set(client.list_database_names())
        done = ask(tmp_path, healthy.url, healthy.ca_file)
        assert done.status == 0, done.err
        assert set(client.list_database_names()) == before
        assert client["theirs"]["data"].count_documents({}) == 1
    result = Result.model_validate_json((only_run(tmp_path) / "result.json").read_bytes())
    assert {effect.metric for effect in result.effects} >= {"wire.tls", "app.reused_query"}
    for path in only_run(tmp_path).iterdir():
        assert PASSWORD not in path.read_text()
    assert PASSWORD not in done.out + done.err
    plan = json.loads((only_run(tmp_path) / "plan.json").read_text())
    assert plan["target"] == f"mongodb://tester:<redacted>@{healthy.address}/?authSource=admin"


def test_a_dry_run_prints_every_write_and_does_none(healthy: Standalone, tmp_path: Path) -> None:
    with healthy.client() as client:
        before = client.list_database_names()
        done = ask(tmp_path, healthy.url, healthy.ca_file, "--dry-run")
        assert client.list_database_names() == before
    assert done.status == 0
    assert "create database costof_" in done.out
    assert "drop database costof_" in done.out
    assert "500 records" in done.out
    assert PASSWORD not in done.out


def failed(done: Outcome, folder: Path, *told: str) -> None:
    """One clear line, exit 1, nothing left."""
    assert done.status == 1, done.err
    assert len(done.told) == 1
    for words in told:
        assert words in done.told[0]
    assert PASSWORD not in done.err
    assert not (folder / "runs").exists()


def test_a_wrong_password(healthy: Standalone, tmp_path: Path) -> None:
    url = healthy.url.replace(PASSWORD, "wrong-horse")
    done = ask(tmp_path, url, healthy.ca_file)
    failed(done, tmp_path, "refuses the user or the password")
    assert "wrong-horse" not in done.err


def test_nobody_there(lab: Lab, tmp_path: Path) -> None:
    failed(ask(tmp_path, f"mongodb://{lab.address(99)}:27017", None), tmp_path, "cannot reach", "refused")


def test_a_certificate_for_another_name(standalone: Start, tmp_path: Path) -> None:
    server = standalone(20, names=["db.example.org"])
    done = ask(tmp_path, server.url, server.ca_file)
    failed(done, tmp_path, "certificate is not valid for", server.address.split(":")[0])


def test_an_expired_certificate(standalone: Start, tmp_path: Path) -> None:
    server = standalone(21, expired=True)
    failed(ask(tmp_path, server.url, server.ca_file), tmp_path, "expired")


def test_a_ca_that_did_not_sign(healthy: Standalone, lab: Lab, tmp_path: Path) -> None:
    stranger = Authority(lab.folder / "stranger")
    failed(ask(tmp_path, healthy.url, stranger.ca_file), tmp_path, "certificate")


def test_a_ca_file_that_is_none(healthy: Standalone, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("not a certificate")
    failed(ask(tmp_path, healthy.url, tmp_path / "ca.pem"), tmp_path, "no CA file", "holds no certificate")


def test_a_server_without_tls_is_said_so_and_its_plain_arm_reported(standalone: Start, tmp_path: Path) -> None:
    server = standalone(22, tls="disabled")
    done = ask(tmp_path, server.url, None)
    assert done.status == 3, done.err
    result = Result.model_validate_json((only_run(tmp_path) / "result.json").read_bytes())
    errors = {arm.name: arm.error for arm in result.arms}
    assert errors["plain"] is None
    assert "TLS" in (errors["tls"] or "")
    assert any(value.arm == "plain" for value in result.values)
    assert not result.effects


def test_tls_asked_of_a_server_without_it(standalone: Start, tmp_path: Path) -> None:
    server = standalone(23, tls="disabled")
    done = ask(tmp_path, server.url, None, "--set", "transport=tls")
    failed(done, tmp_path, "no arm can run", "TLS")


def test_a_server_that_refuses_plain_is_said_so_and_its_tls_arm_reported(standalone: Start, tmp_path: Path) -> None:
    server = standalone(24, tls="requireTLS")
    done = ask(tmp_path, server.url, server.ca_file)
    assert done.status == 3, done.err
    result = Result.model_validate_json((only_run(tmp_path) / "result.json").read_bytes())
    errors = {arm.name: arm.error for arm in result.arms}
    assert errors["tls"] is None
    assert errors["plain"] is not None
    assert any(value.arm == "tls" for value in result.values)
    assert any("control cannot run" in warning for warning in result.warnings)


def test_a_url_that_is_none(tmp_path: Path) -> None:
    done = ask(tmp_path, "mongodb://u:p:q@@", None)
    assert done.status == 2
    assert "no target" in done.told[0]
