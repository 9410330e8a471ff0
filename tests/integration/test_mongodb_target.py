"""A user's own MongoDB: what is so of no other server; `tests/contract/test_targets.py` has the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pymongo
import pytest

from costof.errors import CostofError, Problem
from costof.lab.certificates import Authority
from costof.lab.lab import Lab
from costof.programs.access import Access
from costof.programs.mongod.lab import find_mongod
from costof.programs.target_database import DEAD_AFTER_SECONDS, Maker
from costof.report.result import Result
from costof.services.open import open_service
from tests.support.command import Outcome, costof
from tests.support.programs import HANGS_SECONDS
from tests.support.small_plans import plan_of

from .conftest import PASSWORD, SMALL, Standalone

pytestmark = pytest.mark.servers
Start = Callable[..., Standalone]
USER = "bench-user"


@pytest.fixture(scope="module")
def healthy(standalone: Start) -> Standalone:
    return standalone(10)


def ask(folder: Path, url: str, ca_file: Path | None, *more: str) -> Outcome:
    trust = ["--tls-ca", str(ca_file), "--allow-plain"] if ca_file else []
    return costof("run", "mongodb-tls", *SMALL, "--rounds", "2", "--target", url, *trust, *more, cwd=folder)


def only_run(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


def failed(done: Outcome, folder: Path, *told: str) -> None:
    """One clear line, exit 1, nothing left."""
    assert done.status == 1, done.err
    assert len(done.told) == 1
    for words in told:
        assert words in done.told[0]
    assert PASSWORD not in done.err
    assert not (folder / "runs").exists()


def test_an_expired_certificate(standalone: Start, tmp_path: Path) -> None:
    server = standalone(21, expired=True)
    failed(ask(tmp_path, server.url, server.ca_file), tmp_path, "expired")


def test_a_ca_that_did_not_sign(healthy: Standalone, lab: Lab, tmp_path: Path) -> None:
    stranger = Authority(lab.folder / "stranger")
    failed(ask(tmp_path, healthy.url, stranger.ca_file), tmp_path, "certificate")


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


@contextmanager
def mongodb_user(server: Standalone, *roles: dict[str, str]) -> Iterator[str]:
    with server.client() as client:
        client.admin.command("createUser", USER, pwd=PASSWORD, roles=list(roles))
        yield f"mongodb://{USER}:{PASSWORD}@{server.address}/"
        client.admin.command("dropUser", USER)


def test_a_mongodb_action_granted_on_other_collections_is_not_ours(healthy: Standalone) -> None:
    actions = ["find", "insert", "update", "remove", "createCollection", "listCollections", "dropCollection"]
    with healthy.client() as client:
        for collection, enough in (("others", False), ("", True)):
            privilege = {"resource": {"db": "shop_bench", "collection": collection}, "actions": actions}
            listing = {"resource": {"db": "shop_bench", "collection": ""}, "actions": ["listCollections"]}
            client.admin.command("createRole", "bench", privileges=[privilege, listing], roles=[])
            with mongodb_user(healthy, {"role": "bench", "db": "admin"}) as url:
                plan = plan_of("mongodb-tls", "quick", "transport=plain,tls", target="shown")
                service = open_service(plan, Access(url, database="shop_bench"), "a-run")
                if enough:
                    with service:
                        pass
                else:
                    with pytest.raises(CostofError, match="may not find") as refused, service:
                        pass
                    assert refused.value.problem is Problem.PRIVILEGES_MISSING
            client.admin.command("dropRole", "bench")


def test_a_server_that_asks_nobody_who_he_is_lets_everybody(lab: Lab) -> None:
    host, folder = lab.address(61), lab.folder / "open-mongod"
    folder.mkdir()
    argv = [str(find_mongod()), "--dbpath", str(folder), "--bind_ip", host, "--port", "27017"]
    lab.spawn("open-mongod", "server", [*argv, "--nounixsocket", "--wiredTigerCacheSizeGB", "0.25"])
    client: pymongo.MongoClient[dict[str, object]]
    patience_ms = HANGS_SECONDS * 1000
    with pymongo.MongoClient(host, directConnection=True, serverSelectionTimeoutMS=patience_ms) as client:
        client.admin.command("ping")
        plan = plan_of("mongodb-tls", "quick", "transport=plain,tls", target="shown")
        with open_service(plan, Access(f"mongodb://{host}/"), "a-run") as service:
            service.prepare(plan.arms[0], lambda arm: None)
            assert service.needs() == []
            assert any(name.startswith("costof_") for name in client.list_database_names())
        assert not any(name.startswith("costof_") for name in client.list_database_names())


def test_a_run_that_has_long_shown_no_life_is_dead(
    healthy: Standalone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = Maker(host="elsewhere", machine="another", pid=1, started=1)
    monkeypatch.setattr(Maker, "this_process", lambda: maker)
    plan = plan_of("mongodb-tls", "quick", "transport=plain,tls", target="shown")
    with open_service(plan, Access(healthy.url, healthy.ca_file, allow_plain=True), "a-run") as service:
        service.prepare(plan.arms[0], lambda arm: None)
        service.server._heartbeat.stop()
        kept = service.server.session.client[service.server.database]["costof"]
        older = [{"$set": {"at": {"$subtract": ["$at", int(DEAD_AFTER_SECONDS * 1000)]}}}]
        kept.update_one({"_id": "alive"}, older)
        done = costof("clean", "--target", healthy.url, "--yes", cwd=tmp_path)
        assert f"removed {service.server.database}" in done.out
