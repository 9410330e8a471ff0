"""The first study on its own lab, as a user runs it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from costof.analysis import analyse
from costof.lab.mongodb import MongodbLab
from costof.ledger import Ledger
from costof.plan import Options, resolve
from costof.result import Result, Verdict
from costof.services import open_service
from costof.study import load_study

from .conftest import SMALL, costof, costof_running, eventually, processes_of, slices_measured

pytestmark = [pytest.mark.servers, pytest.mark.quiet, pytest.mark.timeout(180)]
SCHEMA = Path(__file__).parents[2] / "docs" / "result.schema.json"
STUDY = "mongodb-tls"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quick run that went through, with two TLS arms."""
    folder = tmp_path_factory.mktemp("quick")
    done = costof("run", STUDY, *SMALL, "--budget", "25s", "--seed", "1", "--out", "run", cwd=folder)
    assert done.status == 0, done.err
    return folder / "run"


@pytest.fixture(scope="module")
def result(finished: Path) -> Result:
    return Result.model_validate_json((finished / "result.json").read_bytes())


def test_the_result_is_as_its_schema_says(finished: Path) -> None:
    schema = json.loads(SCHEMA.read_text())
    jsonschema.validate(json.loads((finished / "result.json").read_text()), schema)
    assert schema == Result.model_json_schema(), "stale: python -m costof.result > docs/result.schema.json"


def test_tls_costs_where_it_must(result: Result) -> None:
    verdicts = {effect.metric: effect.verdict for effect in result.effects if effect.arm == "tls"}
    for metric in ("wire.tls", "wire.connect_and_first_query", "app.connect_and_first_query"):
        assert verdicts[metric] is Verdict.COSTS, metric


def test_the_twin_is_no_cost(result: Result) -> None:
    assert {floor.metric for floor in result.noise_floor} >= {"app.reused_query", "wire.reused_query"}
    assert all(effect.arm != "plain-twin" for effect in result.effects)


def test_phases_add_up_to_the_total(result: Result) -> None:
    phases = ["wire.tcp", "wire.tls", "wire.hello", "wire.auth", "wire.first_query"]
    for arm in ("plain", "tls"):
        rounds = {value.metric: value for value in result.values if value.arm == arm}
        total = rounds["wire.connect_and_first_query"]
        parts = [rounds[name] for name in phases if name in rounds]
        assert sum(part.round_trips or 0 for part in parts) == pytest.approx(total.round_trips)
        assert sum(part.bytes_sent or 0 for part in parts) == pytest.approx(total.bytes_sent)


def test_the_exact_sums_of_the_phases_add_up(finished: Path) -> None:
    parts = ("resolve", "tcp", "tls", "hello", "auth", "first_operation")
    for line in (finished / "slices.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["record"] == "slice" and record["answer"]["workload"] == "wire_connect":
            phases = record["answer"]["phases"]
            spent = sum(phases[name]["sum_ns"] for name in parts if name in phases)
            assert spent == phases["connect_and_first_operation"]["sum_ns"]


def test_the_engines_memory_does_not_grow_with_the_run(finished: Path) -> None:
    records = [json.loads(line) for line in (finished / "slices.jsonl").read_text().splitlines()]
    slices = [r for r in records if r["record"] == "slice" and r["view"] == "wire"]
    peaks = [r["answer"]["peak_memory_bytes"] for r in slices]
    assert len(peaks) > 20
    assert peaks[-1] - peaks[len(peaks) // 4] < 2 * 2**20


def test_tls_1_3_takes_one_round_trip_more_than_plain(result: Result) -> None:
    trips = {v.arm: v.round_trips for v in result.values if v.metric == "wire.connect_and_first_query"}
    assert trips["plain"] is not None
    assert trips["tls"] == pytest.approx(trips["plain"] + 1)


def test_evidence_comes_from_both_ends(result: Result) -> None:
    facts = {(arm.name, e.view): e.facts for arm in result.arms for e in arm.evidence}
    wire = facts["tls", "wire"]
    assert wire["protocol"] == "TLSv1.3"
    assert wire["key"] == "rsa-2048"
    assert wire["verified"] == "yes"
    assert wire["resumed"] == "0"
    assert int(wire["connections counted by the server"]) >= int(wire["connections"])
    assert "TLSv1.3" in facts["tls", "app"]["TLS connections counted by the server"]
    assert "protocol" not in facts["plain", "wire"]


def test_published_figures_stand_beside_ours(result: Result) -> None:
    assert result.published is not None
    assert {figure.metric for figure in result.published.figures} == {
        "app.connect",
        "app.first_query",
        "app.connect_and_first_query",
        "app.reused_query",
    }


def test_every_report_can_be_made_again_from_the_ledger(finished: Path) -> None:
    before = (finished / "report.md").read_text()
    for name in ("result.json", "report.html", "report.md"):
        (finished / name).unlink()
    assert costof("report", str(finished), cwd=finished.parent).status == 0
    assert (finished / "report.md").read_text() == before
    assert (finished / "report.html").stat().st_size > 10_000
    shown = costof("show", str(finished), cwd=finished.parent)
    assert shown.status == 0
    assert "connect and first query" in shown.out


def test_a_run_compares_with_itself_as_unchanged(finished: Path) -> None:
    done = costof("compare", str(finished), str(finished), cwd=finished.parent)
    assert done.status == 0
    assert "no change seen" in done.out
    assert "\nchanged" not in done.out


def test_no_secret_is_written(finished: Path) -> None:
    for path in finished.iterdir():
        text = path.read_text()
        assert '"password": "<redacted>"' not in text, "the border's plan does not belong in the ledger"
        assert "password" not in text.replace("user and password", "")


def test_factors_vary_what_they_say(tmp_path: Path) -> None:
    settings = ["--set", "tls_version=1.2,1.3", "--set", "key=rsa-2048,ecdsa-p256", "--set", "verify=none"]
    done = costof("run", STUDY, *SMALL, *settings, "--budget", "12s", "--out", "run", cwd=tmp_path)
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


def wait_for_slices(run: Path, count: int) -> None:
    eventually("measuring", lambda: slices_measured(run) >= count)


def test_a_ctrl_c_ends_with_what_was_measured_and_it_can_be_resumed(tmp_path: Path, temporary: Path) -> None:
    run = tmp_path / "run"
    with costof_running(run, temporary, STUDY, *SMALL, "--budget", "26s") as process:
        wait_for_slices(run, 40)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "Traceback" not in err
    partial = Result.model_validate_json((run / "result.json").read_bytes())
    assert partial.partial == "interrupted"
    assert partial.rounds >= 2
    assert not processes_of(temporary)
    done = costof("run", "--resume", str(run), cwd=tmp_path)
    assert done.status == 0, done.err
    whole = analyse(Ledger.open(run))
    assert whole.partial is None
    assert whole.rounds > partial.rounds
    assert whole.seed == partial.seed


def test_a_kill_9_leaves_nothing_behind(tmp_path: Path, temporary: Path) -> None:
    run = tmp_path / "run"
    with costof_running(run, temporary, STUDY, *SMALL) as process:
        wait_for_slices(run, 2)
        lab = processes_of(temporary)
        assert sum(words[0].endswith("mongod") for words in lab.values()) == 3
        process.send_signal(signal.SIGKILL)
        process.wait()
        eventually("the teardown", lambda: not processes_of(temporary), seconds=20)
        eventually("the removal", lambda: not list((temporary).iterdir()), seconds=20)
    assert costof("show", str(run), cwd=tmp_path).status in (0, 1)


def test_a_member_killed_in_the_middle_ends_the_run_in_part(tmp_path: Path, temporary: Path) -> None:
    run = tmp_path / "run"
    with costof_running(run, temporary, STUDY, *SMALL, "--budget", "90s") as process:
        wait_for_slices(run, 30)
        members = processes_of(temporary)
        secondary = next(pid for pid, words in members.items() if any("/secondary" in word for word in words))
        os.kill(secondary, signal.SIGKILL)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "Traceback" not in err
    result = Result.model_validate_json((run / "result.json").read_bytes())
    assert result.partial is not None
    assert "secondary" in result.partial


def test_every_member_knows_the_labs_users_before_they_log_in() -> None:
    """A login that comes too early fails, and pymongo tries again only at its next heartbeat: the lab then hung."""
    plan = resolve(load_study(STUDY), Options(profile="quick"))
    with open_service(plan, None, None, "run") as service:
        assert isinstance(service, MongodbLab)
        for role in service.process_ids:
            assert "Authentication failed" not in service.log(role)


def test_two_runs_at_the_same_time_do_not_collide(tmp_path: Path, temporary: Path) -> None:
    first, second = tmp_path / "a" / "run", tmp_path / "b" / "run"
    first.parent.mkdir()
    second.parent.mkdir()
    with (
        costof_running(first, temporary, STUDY, *SMALL, "--budget", "5s") as one,
        costof_running(second, temporary, STUDY, *SMALL, "--budget", "5s") as two,
    ):
        for process in (one, two):
            _, err = process.communicate(timeout=100)
            assert process.returncode in (0, 1), err
    assert slices_measured(first) >= 12
    assert slices_measured(second) >= 12


def environment_without_mongod(tmp_path: Path) -> dict[str, Any]:
    return {"COSTOF_MONGOD": str(tmp_path / "nowhere")}


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["run", "mongo-tls"], 2, "did you mean 'mongodb-tls'"),
        (["run", STUDY, "--set", "transprt=tls"], 2, "did you mean 'transport'"),
        (["run", STUDY, "--set", "key=rsa-1"], 2, "rsa-2048, rsa-4096, ecdsa-p256"),
        (["run", STUDY, "--budget", "soon"], 2, "no duration"),
        (["run", STUDY, "--profile", "slow"], 2, "quick, default, published"),
        (["run", STUDY, "--no-such-option"], 2, "No such option"),
        (["run"], 2, "which study?"),
        (["run", STUDY, "--out", "/proc/costof/run"], 1, "choose another folder"),
        (["run", STUDY, "--target", "mysql://h"], 2, "no target"),
        (["show", "nowhere"], 2, "not the folder of a run"),
    ],
)
def test_bad_input_ends_in_one_clear_line(tmp_path: Path, arguments: list[str], status: int, told: str) -> None:
    done = costof(*arguments, cwd=tmp_path)
    assert done.status == status
    assert len(done.told) == 1
    assert told in done.told[0]
    assert not list(tmp_path.iterdir())


def test_no_mongod_says_what_to_do(tmp_path: Path) -> None:
    done = costof("run", STUDY, cwd=tmp_path, **environment_without_mongod(tmp_path))
    assert done.status == 1
    assert "COSTOF_MONGOD" in done.told[0]
    assert not list(tmp_path.iterdir())


def test_a_dry_run_does_nothing(tmp_path: Path) -> None:
    done = costof("run", STUDY, "--dry-run", cwd=tmp_path)
    assert done.status == 0
    assert "write     the lab's own replica set" in done.out
    assert not list(tmp_path.iterdir())


def test_list_and_doctor(tmp_path: Path) -> None:
    listed = costof("list", cwd=tmp_path)
    assert listed.status == 0
    assert "mongodb-tls" in listed.out
    assert "costof-engine" in costof("doctor", cwd=tmp_path).out
