"""Tests of --resume: which runs and options are refused before anything is started."""

from __future__ import annotations

import json
import socket
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from costof.cli.options import TargetArguments
from costof.cli.resume import Resumed, reopen
from costof.errors import CostofError, ErrorText
from costof.format import duration
from costof.lab.certificates import Authority
from costof.programs.access import Access, Password
from costof.programs.password_variable import VARIABLE
from costof.programs.reach import check_identity, read_certificate
from costof.report import analyse, document
from costof.results.ledger import PLAN, SLICES, EndRecord, EnvironmentRecord, Ledger, LookRecord, SliceRecord, now
from costof.results.run import read_run
from costof.run.schedule import Looks
from costof.services.open import offered_levels, shown_urls, target_options
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve
from tests.fake_run import Truth, fake_run
from tests.support.command import refusal
from tests.support.small_plans import plan_of

URL = "mysql://app:pass-word@db.example:3307/"
SHOWN = "mysql://app@db.example:3307/"
HTTPS, HTTP = "https://shop.example/?token=abc", "http://shop.example/"
NOTHING = TargetArguments(None, None, None, False, None, None, None, None)
PASSWORD = Password(SecretStr("pass-word"), explicit=False)
LAB = plan_of("redis-tls", "quick", "transport=plain,tls")


def interrupted(folder: Path, plan: Plan = LAB) -> Path:
    fake_run(folder / "run", plan, Truth(), rounds=2, partial="interrupted")
    return folder / "run"


def on_target(folder: Path, study: str, access: Access) -> Path:
    loaded = load_study(study)
    target, plain = shown_urls(loaded, access)
    options = {"target": target, "plain_target": plain, "target_options": target_options(loaded, access)}
    options["offered"] = offered_levels(loaded, access)
    return interrupted(folder, resolve(loaded, Options("quick", **options)))


def mysql_run(folder: Path, **options: Any) -> Path:
    return on_target(folder, "mysql-transport", replace(Access(URL, allow_plain=True), **options))


def reopened(run: Path, budget: str | None = None, **options: Any) -> Resumed:
    return reopen(run, [], budget, replace(NOTHING, **options), None)


def access_of(run: Path, **options: Any) -> Access:
    access = reopened(run, **options).access
    assert access is not None
    return access


def refused(run: Path, *arguments: str, password: str = "") -> str:
    """Resume a run, which must be refused without a change to its folder, and return the message."""
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    with pytest.MonkeyPatch.context() as environment:
        if password:
            environment.setenv(VARIABLE, password)
        error = refusal("run", "--resume", str(run), *arguments)
    assert error.exit_status == 2
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    assert before.keys() == {PLAN, SLICES}
    assert "pass-word" not in str(error)
    return str(error)


@pytest.mark.parametrize(
    ("original", "arguments", "change"),
    [
        ({}, ["--target", "mysql://app@other.example:3307/"], (f"with --target {SHOWN}", "with --target mysql://app")),
        ({}, ["--allow-plain", "--database", "shop"], ("without --database", "with --database shop")),
        ({"allow_plain": False}, ["--allow-plain"], ("without --allow-plain", "with --allow-plain")),
        ({"server_cpu": "cat a"}, ["--server-cpu", "cat b"], ("with --server-cpu cat a", "with --server-cpu cat b")),
        ({"ca_file": Path("/a.pem")}, ["--tls-ca", "/b.pem"], ("with --tls-ca /a.pem", "with --tls-ca /b.pem")),
    ],
)
def test_option_resume_refuses_changed_target_options(
    tmp_path: Path, original: dict[str, Any], arguments: list[str], change: tuple[str, str]
) -> None:
    line = refused(mysql_run(tmp_path, **original), *arguments, password="pass-word")
    assert "was started {}, and now it would continue {}".format(*change) in line
    *_, option = (each for each in arguments if each.startswith("--"))
    assert line.endswith(f"remove {option} to resume it unchanged, or start a new run")


def test_option_resume_refuses_another_pooler(tmp_path: Path) -> None:
    pool = "postgresql://app@pool.example:6432/shop"
    run = on_target(tmp_path, "postgres-pooling", Access("postgresql://app:pass-word@db.example/shop", pooler_url=pool))
    line = refused(run, "--pooler", "postgresql://app@other.example:6432/shop", password="pass-word")
    assert f"with --pooler {pool}, and now it would continue with --pooler" in line


def test_option_resume_refuses_a_target_or_password_that_the_first_command_did_not_have(tmp_path: Path) -> None:
    line = refused(interrupted(tmp_path / "lab"), "--target", "redis://db.example/", "--allow-plain")
    assert "was started without --target; remove --target and --allow-plain to resume it" in line
    without = on_target(tmp_path / "without", "redis-tls", Access("redis://db.example/"))
    (tmp_path / "password").write_text("pass-word\n")
    line = refused(without, "--password-file", str(tmp_path / "password"))
    assert "was started without a password, and now it would continue with a password" in line


def test_option_resume_requires_the_password_again(tmp_path: Path) -> None:
    line = refused(mysql_run(tmp_path))
    assert "was started with a password, which the run does not store" in line
    assert "give --password-file, --ask-password or COSTOF_PASSWORD again" in line


def test_option_resume_requires_the_target_url_again_if_its_query_string_was_not_stored(tmp_path: Path) -> None:
    run = on_target(tmp_path, "http-tls-termination", Access(HTTPS, plain_url=HTTP))
    hidden = (
        "with --target https://shop.example/?token=…, which the run does not store; give --target again to resume it"
    )
    assert hidden in refused(run)
    assert access_of(run, url=HTTPS) == Access(HTTPS, plain_url=HTTP)


def test_option_resume_requires_the_server_cpu_command_again_if_it_contains_a_password(tmp_path: Path) -> None:
    command = "curl -u app:pass-word http://db.example/cpu"
    run = mysql_run(tmp_path, server_cpu=command)
    assert "pass-word" not in (run / PLAN).read_text()
    assert "give --server-cpu again" in refused(run, password="pass-word")
    assert access_of(run, password=PASSWORD, server_cpu=command).server_cpu == command


def test_resuming_a_run_of_an_older_version_requires_the_target_again(tmp_path: Path) -> None:
    run = mysql_run(tmp_path)
    plan = json.loads((run / PLAN).read_text())
    del plan["target_options"]
    (run / PLAN).write_text(json.dumps({**plan, "ledger_version": 6}))
    assert "give --target and all its options again" in refused(run, password="pass-word")
    assert "would continue with --target" in refused(run, "--target", "mysql://app@other.example/")
    assert access_of(run, url=URL, allow_plain=True) == Access(URL, allow_plain=True)


def test_option_resume_refuses_options_that_would_change_the_plan(tmp_path: Path) -> None:
    options = ["--load", "5/s", "--out", "o", "--seed", "1", "--dry-run", "--profile", "quick", "--limit", "m", "+1%"]
    message = refused(interrupted(tmp_path), *options, "--rounds", "5", "--restarts", "5")
    named = "--rounds", "--restarts", "--limit", "--load", "--out", "--seed", "--dry-run", "--profile"
    assert message.endswith(f"remove {' and '.join(named)}")


@pytest.mark.parametrize("given", [{}, {"url": URL}, {"url": SHOWN}, {"allow_plain": True, "database": "shop"}])
def test_option_resume_uses_stored_target_options_unless_they_are_given_again(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    ca_file = Authority(tmp_path / "ca").ca_file
    options: dict[str, Any] = {"ca_file": ca_file, "database": "shop", "server_cpu": "cat  'a  b'"}
    access = access_of(mysql_run(tmp_path, **options), password=PASSWORD, **given)
    assert access.url == given.get("url", SHOWN)
    password = None if access.url == URL else PASSWORD
    original = Access(SHOWN, allow_plain=True, password=password)
    assert replace(access, url=SHOWN, password=password) == replace(original, **options)


@pytest.mark.parametrize(
    ("found", "fact"),
    [
        ({"version": "18.1", "server id": "1"}, "version was 17.5 and is now 18.1"),
        ({"version": "17.5", "server id": "2"}, "server id was 1 and is now 2"),
        ({"version": "17.5"}, None),
        ({"version": "17.5", "server id": "1", "TLS certificate": "SHA-256 ab"}, None),
    ],
)
def test_option_resume_refuses_a_server_whose_version_or_id_differs_from_the_recorded_one(
    found: dict[str, str], fact: str | None
) -> None:
    known = {"version": "17.5", "server id": "1"}
    if fact is None:
        check_identity(SHOWN, known, found)
        return
    with pytest.raises(CostofError, match=fact) as caught:
        check_identity(SHOWN, known, found)
    assert caught.value.message is ErrorText.OTHER_SERVER


def test_no_certificate_fingerprint_is_recorded_for_a_server_without_tls() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        # The server closes the first connection during the handshake, and accepts no second one.
        answering = threading.Thread(target=lambda: listener.accept()[0].close())
        answering.start()
        assert read_certificate("127.0.0.1", port) == {}
        answering.join()
    assert read_certificate("127.0.0.1", port) == {}


def complete(folder: Path, **options: Any) -> Path:
    plan = resolve(load_study("redis-tls"), Options("quick", ["transport=plain,tls"], **options))
    fake_run(folder / "run", plan, Truth(), rounds=4)
    return folder / "run"


def test_option_resume_refuses_a_complete_run_without_a_larger_budget(tmp_path: Path) -> None:
    run = complete(tmp_path, budget="60s")
    line = refused(run)
    assert f"{run} is complete (4 rounds); `costof show {run}` prints its answer" in line
    assert line.endswith("; to continue it, give a --budget above 60s")
    assert "is complete" in refused(run, "--budget", "60s")


@pytest.mark.parametrize("options", [{"rounds": "4"}, {"restarts": "2"}])
def test_larger_budget_does_not_extend_a_run_with_a_fixed_number_of_rounds_or_server_starts(
    tmp_path: Path, options: dict[str, str]
) -> None:
    run = complete(tmp_path, **options)
    assert "--budget" not in refused(run)
    line = refused(run, "--budget", "1h")
    assert "is complete" in line or "remove --budget" in line


def test_report_of_a_resumed_run_states_its_new_budget_and_whether_it_ended_early(tmp_path: Path) -> None:
    run = complete(tmp_path, budget="60s")
    ledger = Ledger.open(run)
    records = [*ledger.records()]
    look = reopened(run, "4m").before.look_at_end
    assert look is not None
    ledger.append(EnvironmentRecord(started=now(), facts={}, budget_seconds=240.0))
    ledger.append(look)
    for record in records:
        if isinstance(record, SliceRecord) and record.round == 3:
            ledger.append(record.model_copy(update={"round": 4}))
    ledger.append(EndRecord(partial=None, steal_share=0.0, error_rate=look.error_rate))
    result = analyse(ledger)
    assert (result.budget_seconds, result.resolved_early) == (240.0, False)
    measured = f"{duration(result.measured_seconds)} measured of a budget of {duration(240)}"
    assert document(result).subtitle.endswith(measured)
    assert "give a --budget above 240s" in refused(run, "--budget", "4m")
    # A run that was not interrupted has ended early if its last analysis was an interim one (a look).
    ledger.append(LookRecord(round=4, error_rate=0.006))
    ledger.append(EndRecord(partial=None, steal_share=0.0, error_rate=0.006))
    assert read_run(ledger).resolved_early
    ledger.append(EndRecord(partial="interrupted", steal_share=0.0, error_rate=0.006))
    assert not read_run(ledger).resolved_early
    assert reopened(run).plan.budget_seconds == 240


def test_each_extension_of_a_complete_run_uses_half_of_the_error_probability_that_is_left(tmp_path: Path) -> None:
    run = complete(tmp_path, budget="60s")
    ledger = Ledger.open(run)
    ledger.append(LookRecord(round=2, error_rate=0.006))
    resumed = reopened(run, "5m")
    assert resumed.plan.budget_seconds == 300
    assert (resumed.before.rounds, resumed.before.error_rate_spent) == (4, pytest.approx(0.006))
    look = resumed.before.look_at_end
    assert look is not None
    assert look.error_rate == pytest.approx(0.022)
    assert Looks(resumed.plan, 0.006 + look.error_rate).error_rate == pytest.approx(0.022)
    assert reopened(run, "5m").before.look_at_end == look, "nothing is written before the servers are known"
    ledger.append(look)
    ledger.append(EndRecord(partial="interrupted", steal_share=0.0, error_rate=0.022))
    assert read_run(ledger).error_rate_spent == pytest.approx(0.028)
    assert reopened(run).before.look_at_end is None
