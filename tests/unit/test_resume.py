"""What --resume refuses before anything is started: a complete run, another target, options that change the plan."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from costof.cli.options import GivenTarget
from costof.cli.resume import Resumed, reopen
from costof.errors import CostofError, Problem
from costof.lab.certificates import Authority
from costof.programs.access import Access, Password
from costof.programs.reach import certificate_of, check_identity
from costof.results.ledger import PLAN, SLICES, EndRecord, Ledger, LookRecord
from costof.results.run import read_run
from costof.run.schedule import Looks
from costof.services.open import offered_levels, shown_urls, target_options
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve
from tests.fake_run import Truth, fake_run
from tests.support.command import Outcome, costof
from tests.support.small_plans import plan_of

URL = "mysql://app:pass-word@db.example:3307/"
SHOWN = "mysql://app@db.example:3307/"
HTTPS, HTTP = "https://shop.example/?token=abc", "http://shop.example/"
NOTHING = GivenTarget(None, None, None, False, None, None, None, None)
PASSWORD = Password(SecretStr("pass-word"), said=False)


def target_plan(study: str, access: Access, *settings: str) -> Plan:
    asked = load_study(study)
    target, plain = shown_urls(asked, access)
    options = Options(
        "quick",
        settings,
        target=target,
        plain_target=plain,
        target_options=target_options(asked, access),
        offered=offered_levels(asked, access),
    )
    return resolve(asked, options)


def interrupted(folder: Path, plan: Plan) -> Path:
    fake_run(folder / "run", plan, Truth(), rounds=2, partial="interrupted")
    return folder / "run"


def mysql_run(folder: Path, **options: object) -> Path:
    access = replace(Access(URL, allow_plain=True), **options)  # type: ignore[arg-type]
    return interrupted(folder, target_plan("mysql-transport", access))


def content(run: Path) -> list[bytes]:
    return [(run / name).read_bytes() for name in (PLAN, SLICES)]


def refused(run: Path, *arguments: str, env: Mapping[str, str] | None = None) -> str:
    """The one line that a run is not resumed with; its folder stays as it is."""
    before = content(run)
    ended: Outcome = costof("run", "--resume", str(run), *arguments, cwd=run.parent, **(env or {}))
    assert ended.status == 2, ended.err
    (line,) = ended.told
    assert content(run) == before
    assert sorted(path.name for path in run.iterdir()) == sorted([PLAN, SLICES])
    assert "pass-word" not in line
    return line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--target", "mysql://app@other.example:3307/"], f"was begun with --target {SHOWN} and would go on with"),
        (["--allow-plain", "--database", "shop"], "was begun without --database and would go on with --database shop"),
        (["--server-cpu", "cat told"], "was begun without --server-cpu and would go on with --server-cpu cat told"),
    ],
)
def test_another_target_is_refused(tmp_path: Path, arguments: list[str], said: str) -> None:
    line = refused(mysql_run(tmp_path), *arguments, env={"COSTOF_PASSWORD": "pass-word"})
    assert said in line
    assert line.endswith(f"leave out {arguments[-2]} to resume it as it was begun, or begin a new run")


@pytest.mark.parametrize(
    ("options", "arguments", "said"),
    [
        (
            {"allow_plain": False},
            ["--allow-plain"],
            "was begun without --allow-plain and would go on with --allow-plain",
        ),
        ({"database": "shop"}, ["--database", "other"], "with --database shop and would go on with --database other"),
        (
            {"server_cpu": "cat a"},
            ["--server-cpu", "cat b"],
            "--server-cpu cat a and would go on with --server-cpu cat b",
        ),
    ],
)
def test_another_option_of_the_target_is_refused(
    tmp_path: Path, options: dict[str, object], arguments: list[str], said: str
) -> None:
    assert said in refused(mysql_run(tmp_path, **options), *arguments, env={"COSTOF_PASSWORD": "pass-word"})


def test_another_ca_file_is_refused(tmp_path: Path) -> None:
    run = mysql_run(tmp_path, ca_file=tmp_path / "first.pem")
    line = refused(run, "--tls-ca", "second.pem", env={"COSTOF_PASSWORD": "pass-word"})
    assert f"with --tls-ca {tmp_path}/first.pem and would go on with --tls-ca {tmp_path}/second.pem" in line


def test_another_pool_is_refused(tmp_path: Path) -> None:
    pool = "postgresql://app@pool.example:6432/shop"
    access = Access("postgresql://app:pass-word@db.example/shop", pooler_url=pool)
    run = interrupted(tmp_path, target_plan("postgres-pooling", access))
    other = ["--pooler", "postgresql://app@other.example:6432/shop"]
    assert f"with --pooler {pool} and would go on with --pooler" in refused(
        run, *other, env={"COSTOF_PASSWORD": "pass-word"}
    )


def test_a_target_for_a_run_in_a_lab_is_refused(tmp_path: Path) -> None:
    run = interrupted(tmp_path, plan_of("redis-tls", "quick", "transport=plain,tls"))
    line = refused(run, "--target", "redis://db.example/", "--allow-plain")
    assert "was begun without --target; leave out --target and --allow-plain to resume it" in line


def test_a_password_has_to_be_given_again(tmp_path: Path) -> None:
    line = refused(mysql_run(tmp_path))
    assert "was begun with a password, which it does not keep" in line
    assert "give --password-file, --ask-password or COSTOF_PASSWORD again" in line


def test_a_password_that_was_not_given_before_is_refused(tmp_path: Path) -> None:
    run = interrupted(tmp_path, target_plan("redis-tls", Access("redis://db.example/")))
    (tmp_path / "password").write_text("pass-word\n")
    assert "was begun without a password and would go on with a password" in refused(run, "--password-file", "password")


def test_a_url_whose_query_is_hidden_has_to_be_given_again(tmp_path: Path) -> None:
    run = interrupted(tmp_path, target_plan("http-tls-termination", Access(HTTPS, plain_url=HTTP)))
    line = refused(run)
    assert (
        "with --target https://shop.example/?token=…, which it does not keep; to resume it, give --target again" in line
    )
    assert reopened(run, replace(NOTHING, url=HTTPS)).access == Access(HTTPS, plain_url=HTTP)


def test_a_command_with_a_password_has_to_be_given_again(tmp_path: Path) -> None:
    command = "curl -u app:pass-word http://db.example/cpu"
    run = mysql_run(tmp_path, server_cpu=command)
    assert "pass-word" not in (run / PLAN).read_text()
    assert "give --server-cpu again" in refused(run, env={"COSTOF_PASSWORD": "pass-word"})
    given = replace(NOTHING, password=PASSWORD, server_cpu=command)
    access = reopened(run, given).access
    assert access is not None
    assert access.server_cpu == command


def test_the_target_of_a_ledger_that_kept_its_url_alone_has_to_be_given_again(tmp_path: Path) -> None:
    run = mysql_run(tmp_path)
    plan = json.loads((run / PLAN).read_text())
    del plan["target_options"]
    (run / PLAN).write_text(json.dumps({**plan, "ledger_version": 6}))
    assert "give --target and all its options again" in refused(run, env={"COSTOF_PASSWORD": "pass-word"})
    assert "would go on with --target" in refused(run, "--target", "mysql://app@other.example/")
    given = replace(NOTHING, url=URL, allow_plain=True)
    assert reopened(run, given).access == Access(URL, allow_plain=True)


def test_options_that_would_change_the_plan_are_refused(tmp_path: Path) -> None:
    run = interrupted(tmp_path, plan_of("redis-tls", "quick", "transport=plain,tls"))
    for arguments in (
        ["--dry-run"],
        ["--out", "other"],
        ["--seed", "1"],
        ["--profile", "quick"],
        ["--distance", "2ms"],
        ["--load", "5/s"],
        ["--limit", "reused query", "+1%"],
    ):
        assert f"leave out {arguments[0]}" in refused(run, *arguments)


def reopened(run: Path, given: GivenTarget = NOTHING, budget: str | None = None) -> Resumed:
    return reopen(run, [], budget, given, None)


@pytest.mark.parametrize("given", [{}, {"url": URL}, {"url": SHOWN}, {"allow_plain": True, "database": "shop"}])
def test_a_target_is_reached_as_the_plan_says(tmp_path: Path, given: dict[str, object]) -> None:
    options: dict[str, object] = {
        "ca_file": Authority(tmp_path / "ca").ca_file,
        "database": "shop",
        "server_cpu": "cat  'a  b'",
    }
    run = mysql_run(tmp_path, **options)
    access = reopened(run, replace(NOTHING, password=PASSWORD, **given)).access  # type: ignore[arg-type]
    assert access is not None
    assert access.url == given.get("url", SHOWN)
    password = None if access.url == URL else PASSWORD
    assert replace(access, url=SHOWN, password=password) == replace(
        Access(SHOWN, allow_plain=True, password=password),
        **options,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("found", "fact"),
    [
        ({"version": "18.1", "server id": "1"}, "version was 17.5 and is now 18.1"),
        ({"version": "17.5", "server id": "2"}, "server id was 1 and is now 2"),
        ({"version": "17.5"}, None),
        ({"version": "17.5", "server id": "1", "TLS certificate": "SHA-256 ab"}, None),
    ],
)
def test_a_fact_of_a_server_that_one_of_two_readings_lacks_is_not_compared(
    found: dict[str, str], fact: str | None
) -> None:
    known = {"version": "17.5", "server id": "1"}
    if fact is None:
        check_identity(SHOWN, known, found)
        return
    with pytest.raises(CostofError, match=fact) as refused:
        check_identity(SHOWN, known, found)
    assert refused.value.problem is Problem.OTHER_SERVER


def test_a_server_that_shows_no_certificate_has_none_to_compare() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        # It hangs up on the handshake, and later nobody is there.
        answering = threading.Thread(target=lambda: listener.accept()[0].close())
        answering.start()
        assert certificate_of("127.0.0.1", port) == {}
        answering.join()
    assert certificate_of("127.0.0.1", port) == {}


def complete(folder: Path, **options: object) -> Path:
    plan = resolve(load_study("redis-tls"), Options("quick", ["transport=plain,tls"], **options))  # type: ignore[arg-type]
    fake_run(folder / "run", plan, Truth(), rounds=4)
    return folder / "run"


def test_a_complete_run_is_refused(tmp_path: Path) -> None:
    run = complete(tmp_path, budget="60s")
    line = refused(run)
    assert f"{run} is complete (4 rounds); `costof show {run}` prints its answer" in line
    assert line.endswith("; to measure further, give a --budget above 60s")
    assert "is complete" in refused(run, "--budget", "60s")


@pytest.mark.parametrize("options", [{"rounds": "4"}, {"restarts": "2"}])
def test_no_budget_extends_a_run_of_so_many_rounds_or_starts(tmp_path: Path, options: dict[str, object]) -> None:
    run = complete(tmp_path, **options)
    assert "--budget" not in refused(run)
    said = refused(run, "--budget", "1h")
    assert "is complete" in said or "leave out --budget" in said


def test_a_complete_run_goes_on_for_a_larger_budget_with_half_of_the_error_rate(tmp_path: Path) -> None:
    run = complete(tmp_path, budget="60s")
    ledger = Ledger.open(run)
    ledger.append(LookRecord(round=2, error_rate=0.006))
    resumed = reopened(run, budget="5m")
    assert resumed.plan.budget_seconds == 300
    assert (resumed.before.rounds, resumed.before.error_rate_spent) == (4, pytest.approx(0.006))
    look = resumed.before.look_at_end
    assert look is not None
    assert look.error_rate == pytest.approx(0.022)
    assert Looks(resumed.plan, 0.006 + look.error_rate).error_rate == pytest.approx(0.022)
    assert reopened(run, budget="5m").before.look_at_end == look, "nothing is written before the servers are known"
    # What the run would write.
    ledger.append(look)
    ledger.append(EndRecord(partial="interrupted", steal_share=0.0, error_rate=0.022))
    assert read_run(ledger).error_rate_spent == pytest.approx(0.028)
    assert reopened(run).before.look_at_end is None
