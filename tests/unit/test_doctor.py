"""What the doctor says of a machine that lacks something."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from costof.cli import doctor
from costof.cli.fetch import sources
from costof.lab import network
from costof.programs.server import programs_needed


def found(what: str) -> doctor.Finding:
    return next(finding for finding in doctor.examine() if finding.what == what)


@pytest.mark.parametrize(
    ("what", "package"),
    [
        ("mariadbd", "mariadb-server-core"),
        ("postgres", "postgresql"),
        ("redis-server", "redis-server"),
        ("stunnel", "stunnel4"),
        ("ssh", "openssh-client"),
        ("sshd", "openssh-server"),
        ("haproxy", "haproxy"),
        ("nginx", "nginx"),
        ("pgbouncer", "pgbouncer"),
        ("ip", "iproute2"),
    ],
)
def test_a_missing_program_is_named_with_its_package(what: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variable = f"COSTOF_{what.upper().replace('-', '_')}"
    monkeypatch.setenv(variable, "/no/such/program")
    monkeypatch.setattr(doctor, "can_make_hosts", lambda: True)
    finding = found(what)
    assert not finding.good
    assert f"apt-get install {package}" in finding.detail
    assert variable in finding.detail


def test_one_command_fetches_all_that_is_missing_and_can_be_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    there = [doctor.Finding(what, False, "gone") for what in ("nginx", "ip", "mongod")]
    monkeypatch.setattr(doctor, "examine", lambda: there)
    told = CliRunner().invoke(doctor.doctor)
    assert told.output.splitlines()[-1] == "To have what is missing, without root: costof fetch nginx mongod"
    assert told.exit_code != 0


def test_without_netem_and_tun_far_links_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "can_make_hosts", lambda: True)
    monkeypatch.setattr(doctor, "_kernel_has", lambda module: False)
    monkeypatch.setattr(network, "TUN", Path("/no/such/device"))
    finding = found("far links")
    assert not finding.good
    assert "modprobe" in finding.detail


def test_without_namespaces_hosts_are_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "can_make_hosts", lambda: False)
    monkeypatch.setattr(doctor, "why_forbidden", lambda: "user.max_user_namespaces is 0")
    findings = {finding.what: finding for finding in doctor.examine()}
    assert not findings.keys() & {"ip", "nsenter", "far links"}
    assert findings["user"].good
    assert "far distance is refused: user.max_user_namespaces is 0" in findings["user"].detail


def test_an_ordinary_user_who_may_make_namespaces_is_told_what_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "can_make_hosts", lambda: False)
    monkeypatch.setattr(doctor, "why_forbidden", lambda: None)
    findings = {finding.what: finding for finding in doctor.examine()}
    assert findings.keys() >= {"ip", "nsenter", "far links"}
    assert "not root: hosts are made in a user namespace" in findings["user"].detail


def test_every_program_of_a_lab_can_be_fetched() -> None:
    assert sources().keys() == programs_needed().keys()
