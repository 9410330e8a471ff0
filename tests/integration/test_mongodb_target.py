"""Runs on a user's own MongoDB. `tests/contract/test_targets.py` tests what all such runs have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pymongo
import pytest

from costof.errors import CostofError, ErrorText
from costof.lab.certificates import Authority
from costof.lab.lab import Lab
from costof.programs.access import Access
from costof.programs.mongod.connection import Client
from costof.programs.mongod.lab import find_mongod
from costof.programs.mongod.target import MongodbTarget
from costof.programs.reach import CERTIFICATE, VERSION
from costof.programs.target_database import DEAD_AFTER_SECONDS, MARKER_NAME, Maker
from costof.report.result import Result
from costof.services.open import open_service
from costof.services.server.target import lacking_levels
from costof.study.library import load_study
from tests.support.command import Outcome, costof
from tests.support.programs import HANGS_SECONDS
from tests.support.services import user_of_a_set
from tests.support.small_plans import plan_of, replication_plan, small_study

from .conftest import PASSWORD, SMALL, Standalone

pytestmark = pytest.mark.servers
Start = Callable[..., Standalone]
USER = "bench-user"


@pytest.fixture(scope="module")
def healthy(standalone: Start) -> Standalone:
    return standalone(10)


def ask(folder: Path, url: str, ca_file: Path | None, *more: str) -> Outcome:
    trust = ["--tls-ca", str(ca_file), "--allow-plain"] if ca_file else []
    study = small_study("mongodb-tls", folder)
    return costof("run", study, *SMALL, "--rounds", "2", "--target", url, *trust, *more, cwd=folder)


def failed(done: Outcome, folder: Path, *texts: str) -> None:
    """Check that the command failed with status 1 and one line that contains all of `texts`, and left no run folder."""
    assert done.status == 1, done.err
    assert len(done.error_lines) == 1
    for words in texts:
        assert words in done.error_lines[0]
    assert PASSWORD not in done.err
    assert not (folder / "runs").exists()


def test_expired_and_untrusted_certificates_are_rejected(
    standalone: Start, healthy: Standalone, lab: Lab, tmp_path: Path
) -> None:
    server, stranger = standalone(21, expired=True), Authority(lab.folder / "stranger")
    failed(ask(tmp_path, server.url, server.ca_file), tmp_path, "expired")
    failed(ask(tmp_path, healthy.url, stranger.ca_file), tmp_path, "certificate")


@pytest.mark.parametrize(
    ("mode", "stands", "refused"),
    [("disabled", "plain", "tls"), pytest.param("requireTLS", "tls", "plain", marks=pytest.mark.slow)],
)
def test_server_that_accepts_only_plaintext_or_only_tls_is_measured_in_the_accepted_mode(
    standalone: Start, tmp_path: Path, mode: str, stands: str, refused: str
) -> None:
    server = standalone(22 if mode == "disabled" else 24, tls=mode)
    done = ask(tmp_path, server.url, server.ca_file if mode == "requireTLS" else None)
    assert done.status == 3, done.err
    (run,) = (tmp_path / "runs").iterdir()
    result = Result.model_validate_json((run / "result.json").read_bytes())
    errors = {arm.name: arm.error for arm in result.arms}
    assert (errors[stands], bool(errors[refused])) == (None, True)
    assert any(value.arm == stands for value in result.values)
    assert not result.effects
    if mode == "requireTLS":
        assert any("control cannot run" in warning for warning in result.warnings)
    else:
        assert "TLS" in (errors[refused] or "")
        (tmp_path / "alone").mkdir()
        done = ask(tmp_path / "alone", server.url, None, "--set", "transport=tls")
        failed(done, tmp_path / "alone", "no arm can run", "TLS")


@contextmanager
def mongodb_user(server: Standalone, *roles: dict[str, str]) -> Iterator[str]:
    with server.client() as client:
        client.admin.command("createUser", USER, pwd=PASSWORD, roles=list(roles))
        yield f"mongodb://{USER}:{PASSWORD}@{server.address}/"
        client.admin.command("dropUser", USER)


def test_mongodb_user_whose_privileges_are_for_another_collection_is_refused(healthy: Standalone) -> None:
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
                    assert refused.value.message is ErrorText.PRIVILEGES_MISSING
            client.admin.command("dropRole", "bench")


def test_single_server_is_rejected_as_a_replica_set(healthy: Standalone) -> None:
    target = open_service(replication_plan(target="mongodb://a-user"), Access(healthy.url, healthy.ca_file), "run")
    with pytest.raises(CostofError, match="not a replica set") as refused, target:
        pass
    assert refused.value.message is ErrorText.NO_REPLICA_SET
    assert PASSWORD not in str(refused.value)


def test_server_without_authentication_is_measured_without_a_check_of_privileges(lab: Lab) -> None:
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
            service.prepare(plan.arms[:1], lambda arm: None)
            assert service.needs() == []
            assert any(name.startswith("costof_") for name in client.list_database_names())
        assert not any(name.startswith("costof_") for name in client.list_database_names())


def test_costof_clean_removes_data_of_a_run_without_a_recent_heartbeat(
    healthy: Standalone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = Maker(host="elsewhere", machine="another", pid=1, started=1)
    monkeypatch.setattr(Maker, "this_process", lambda: maker)
    plan = plan_of("mongodb-tls", "quick", "transport=plain,tls", target="shown")
    with open_service(plan, Access(healthy.url, healthy.ca_file, allow_plain=True), "a-run") as service:
        service.prepare(plan.arms[:1], lambda arm: None)
        service.server._heartbeat.stop()
        kept = service.server.session.client[service.server.database]["costof"]
        older = [{"$set": {"at": {"$subtract": ["$at", int(DEAD_AFTER_SECONDS * 1000)]}}}]
        kept.update_one({"_id": "alive"}, older)
        done = costof("clean", "--target", healthy.url, "--yes", cwd=tmp_path)
        assert f"removed {service.server.database}" in done.out


def waits_for_the_last_write(member: Client) -> bool:
    query: dict[str, Any] = {"command.find": MARKER_NAME, "command.readConcern.afterClusterTime": {"$exists": True}}
    return bool(member.admin.command({"currentOp": 1, **query})["inprog"])


@pytest.mark.slow
def test_loading_records_waits_for_all_visible_members_but_not_for_hidden_ones() -> None:
    with user_of_a_set() as (url, ca_file):
        target = MongodbTarget(Access(url, ca_file, allow_plain=True), "mongodb-tls", "run", records=1)
        target.reach()
        identity = target.identity()
        assert {VERSION, CERTIFICATE, "replica set", "members"} <= {*identity}
        assert identity["members"].count(":27017") == 2, "a hidden member is not listed"
        target.claim()
        (late,) = (target.session.member(host) for host in target.hello["hosts"] if host != target.hello["primary"])
        asked_of, over = Event(), Event()

        def let_it_catch_up() -> None:
            while not waits_for_the_last_write(late) and not over.is_set():
                pass
            if not over.is_set():
                asked_of.set()
            late.admin.command("fsyncUnlock")

        catching_up = Thread(target=let_it_catch_up)

        def load() -> None:
            late.admin.command("fsync", lock=True)
            catching_up.start()
            target.session.client[target.database]["data"].insert_one({"_id": 1})

        try:
            target.prepare(load)
            assert asked_of.is_set(), "it was not waited for"
            assert late[target.database]["data"].find_one({"_id": 1}) is not None
        finally:
            over.set()
            catching_up.join()
            target.remove_created()
            target.close()


def test_single_mongodb_server_supports_no_write_concern_that_needs_a_replica_set(healthy: Standalone) -> None:
    access = Access(healthy.url, healthy.ca_file)
    lacking = lacking_levels(load_study("mongodb-durability"), access, connect=True)
    assert {*lacking} == {"majority", "w2", "majority-no-j"}
    assert all("not a replica set" in reason for reason in lacking.values())
    plan = plan_of("mongodb-durability", "quick", "write_concern=w1,majority", target="mongodb://a-user")
    with pytest.raises(CostofError) as raised, open_service(plan, access, "run"):
        pass
    assert raised.value.message is ErrorText.LEVELS_UNSUPPORTED
