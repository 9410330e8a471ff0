"""Tests that every server program of a lab must pass."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import listening_addresses
from tests.support.programs import PROGRAMS, RunningServer

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module", params=sorted(PROGRAMS))
def program(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def running(program: str) -> Iterator[RunningServer]:
    with PROGRAMS[program]() as running:
        yield running


def test_program_answers_clients_and_listens_only_on_addresses_of_the_lab(running: RunningServer) -> None:
    assert running.answers()
    assert running.lab.dead() == []
    addresses = listening_addresses(running.pids)
    assert addresses
    assert all(ipaddress.ip_address(address).is_loopback for address in addresses)
    assert not addresses & {"127.0.0.1", "::1"}, "the machine's own servers use these"


def test_no_secret_is_in_command_lines_environments_or_logs(running: RunningServer) -> None:
    visible = ""
    for pid in running.pids:
        for file in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                visible += Path(f"/proc/{pid}/{file}").read_text(errors="replace")
    logs = "".join(process.log.read_text(errors="replace") for process in running.lab.processes.values())
    assert visible
    assert not [secret for secret in running.secrets if secret in visible + logs]


def test_only_the_owner_can_read_folders_with_secrets(running: RunningServer) -> None:
    for folder in running.folders:
        assert folder.stat().st_mode & 0o077 == 0


def test_lab_counts_cpu_time_by_the_role_of_each_process(running: RunningServer) -> None:
    before = running.lab.cpu_seconds()
    assert set(before) == {process.role for process in running.lab.processes.values()}
    for _ in range(20):
        running.answers()
    after = running.lab.cpu_seconds()
    assert sum(after.values()) > sum(before.values())
    assert all(after[role] >= before[role] for role in before)
