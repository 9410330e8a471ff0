"""The process that runs commands on one of several load hosts. Tests start it in the same way as Ray."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from costof import __version__
from costof.instruments.commands.settings import (
    CommandSettings,
    FigureSource,
    Program,
    SecretSource,
    VerificationCommand,
    new_output,
)
from costof.instruments.hosts.actor import HostActor
from costof.lab.supervisor import parents
from costof.messages.answers import PublicKey, Ready, SliceAnswer
from costof.messages.plan import Arm, Plan, PrepareOrder, Share, SliceOrder, line
from costof.messages.sealing import sealed
from tests.support.programs import eventually

SECRET = "hunter2-and-more"
SECONDS = 60.0
AHEAD_NS = 100_000_000


@pytest.fixture
def host() -> Iterator[HostActor]:
    actor = HostActor()
    yield actor
    actor.stop()


def plan_of(command: str, verify: str = "true", secret: Path | None = None, output: Path | None = None) -> Plan:
    rate = FigureSource(regex="rate: ([0-9]+)", unit="per_second", better="higher")
    tail = FigureSource(regex="p99: ([0-9]+)", unit="ms")
    service = CommandSettings(
        programs={
            "load": Program(
                argv=["sh", "-c", command],
                once=True,
                timeout_seconds=10,
                figures={"rate": rate, "p99": tail} if "rate" in command else {},
            )
        },
        environment={"PASSWORD": SECRET},
        verify=[VerificationCommand(argv=["sh", "-c", verify], matches="")],
        secrets={"OF_FILE": SecretSource(file=secret)} if secret else {},
        output=output or new_output(),
    )
    return Plan(share=Share(host=0, hosts=2), arms=[Arm(name="arm", service=service)], workloads=[])


def handed(host: HostActor, plan: Plan) -> Ready:
    key = PublicKey.model_validate_json(host.start_runner()["line"])
    written = sealed(plan, key)
    assert SECRET.encode() not in written
    return Ready.model_validate(parsed(host.ask(written, SECONDS))["ready"])


def parsed(reply: dict[str, Any]) -> dict[str, Any]:
    assert "line" in reply, reply
    return dict(json.loads(reply["line"]))


def prepared(host: HostActor, number: int = 1) -> dict[str, Any]:
    return parsed(host.ask(line({"prepare": PrepareOrder(id=number, arm="arm", workload="load")}), SECONDS))


def measured(host: HostActor, number: int = 1, ahead_ns: int = AHEAD_NS) -> dict[str, Any]:
    opens = time.monotonic_ns() + ahead_ns
    order = SliceOrder(id=number, arm="arm", workload="load", operations=1, seconds=1, opens_ns=opens)
    return {"opens": opens, **parsed(host.ask(line({"slice": order}), SECONDS))}


def test_measurement_starts_at_its_scheduled_time_and_returns_no_secret(
    monkeypatch: pytest.MonkeyPatch, host: HostActor, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of-a-file\n")
    # costof hides the values of variables whose names suggest passwords. PWD, the working directory, is no such name.
    for name, value in {"PWD": str(tmp_path), "MYSQL_PWD": "of-mysql", "Some_Token": "of-some"}.items():
        monkeypatch.setenv(name, value)
    command = f'echo "rate: 300 p99: 7 $PASSWORD $OF_FILE of-mysql of-some {tmp_path}"'
    ready = handed(host, plan_of(command, secret=secret))
    assert [(arm.name, arm.error) for arm in ready.arms] == [("arm", None)]
    assert prepared(host) == {"prepared": {"id": 1, "errors": []}}
    slice_reply = measured(host)
    answer = SliceAnswer.model_validate(slice_reply["slice"])
    window = answer.window
    assert window is not None
    assert window.first_began_ns is not None
    assert slice_reply["opens"] <= window.opened_ns <= window.first_began_ns
    assert window.last_ended_ns == window.first_began_ns + answer.elapsed_ns
    assert (answer.operations, answer.rates) == (1, ["rate"])
    assert {name: answer.figures[name] for name in ("rate", "p99")} == {"rate": 300, "p99": 7}
    hidden = " ".join(["<redacted>"] * 4)
    assert answer.evidence["output"] == f"rate: 300 p99: 7 {hidden} {tmp_path}\n"


def test_command_is_not_measured_if_the_command_that_verifies_its_arm_fails(host: HostActor, tmp_path: Path) -> None:
    state, ran = tmp_path / "state", tmp_path / "ran"
    state.touch()
    handed(host, plan_of(f"touch {ran}", verify=f"test -e {state}"))
    state.unlink()
    prepared(host)
    answer = SliceAnswer.model_validate(measured(host)["slice"])
    assert answer.operations == 0
    assert "ended with status 1" in answer.evidence["mismatch"]
    assert not ran.exists()
    state.touch()
    prepared(host, 2)
    assert SliceAnswer.model_validate(measured(host, 2)["slice"]).operations == 1
    assert ran.exists()


def test_missing_secret_file_is_an_error_of_the_arm(host: HostActor, tmp_path: Path) -> None:
    (arm,) = handed(host, plan_of("true", secret=tmp_path / "nowhere")).arms
    assert arm.error is not None
    assert arm.error.error_class == "no_secret"


@pytest.mark.parametrize(("number", "ahead_ns"), [(2, AHEAD_NS), (1, 3600 * 10**9)])
def test_measurement_is_refused_if_it_was_not_prepared_or_starts_an_hour_later(
    host: HostActor, number: int, ahead_ns: int
) -> None:
    handed(host, plan_of("true"))
    prepared(host)
    assert measured(host, number, ahead_ns)["error"]["class"] == "plan"


def test_error_suggests_that_hosts_share_a_file_system_if_the_output_folder_exists(
    host: HostActor, tmp_path: Path
) -> None:
    key = PublicKey.model_validate_json(host.start_runner()["line"])
    written = sealed(plan_of("true", output=tmp_path / "output"), key)
    assert "the same file system" in parsed(host.ask(written, SECONDS))["error"]["detail"]


def test_unencrypted_plan_is_refused_and_not_quoted_in_the_error(host: HostActor) -> None:
    host.start_runner()
    error = parsed(host.ask(line({"plan": plan_of("true")}), SECONDS))["error"]
    assert error == {"class": "plan", "detail": "it is not a plan that was encrypted for this key"}


def test_error_about_an_invalid_encrypted_plan_does_not_quote_its_secrets(host: HostActor) -> None:
    key = PublicKey.model_validate_json(host.start_runner()["line"])
    plan = plan_of("true")
    service = plan.arms[0].service.model_copy(update={"environment": [SECRET], "verify": SECRET})
    wrong = plan.model_copy(update={"arms": [plan.arms[0].model_copy(update={"service": service})]})
    error = parsed(host.ask(sealed(wrong, key), SECONDS))["error"]
    assert error["class"] == "plan"
    assert "environment" in error["detail"]
    assert SECRET not in error["detail"]


def test_measured_command_is_ended_when_the_ray_actor_of_its_host_ends(host: HostActor, tmp_path: Path) -> None:
    started = tmp_path / "started"
    handed(host, plan_of(f"echo $$ > {started}; sleep 1000"))
    process = host._process
    assert process is not None
    prepared(host)
    opens = time.monotonic_ns() + AHEAD_NS
    order = SliceOrder(id=1, arm="arm", workload="load", operations=1, seconds=1, opens_ns=opens)
    assert process.stdin is not None
    process.stdin.write(line({"slice": order}))
    process.stdin.flush()
    eventually("the command", lambda: started.exists() and started.read_text().strip() != "")
    command = Path("/proc", started.read_text().strip())
    assert command.exists()
    assert process.pid not in parents().values(), "Ray kills the children of an actor that ends"
    process.stdin.close()
    process.stdin = None
    eventually("the end of the command", lambda: not command.exists())


def test_host_reports_its_version_of_costof_or_that_it_has_none(
    host: HostActor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert host.facts()["costof"] == __version__
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {os.path.realpath(sys.executable)} -S "$@"\n')
    bare.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(bare))
    assert host.facts()["costof"] == ""
    assert "No module named" in host.start_runner()["failed"]
