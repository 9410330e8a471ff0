"""What every server program of the lab holds to, whatever it serves."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import listening_addresses
from tests.support.programs import PROGRAMS, Standing

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module", params=sorted(PROGRAMS))
def program(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def standing(program: str) -> Iterator[Standing]:
    """One for all tests that leave it standing."""
    with PROGRAMS[program]() as standing:
        yield standing


def test_it_answers_its_clients_and_listens_to_the_lab_alone(standing: Standing) -> None:
    assert standing.answers()
    assert standing.lab.dead() == []
    addresses = listening_addresses(standing.pids)
    assert addresses
    assert all(ipaddress.ip_address(address).is_loopback for address in addresses)
    assert not addresses & {"127.0.0.1", "::1"}, "where a server of the machine's own would be"


def test_no_secret_can_be_seen_from_outside(standing: Standing) -> None:
    seen = ""
    for pid in standing.pids:
        for file in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                seen += Path(f"/proc/{pid}/{file}").read_text(errors="replace")
    logs = "".join(process.log.read_text(errors="replace") for process in standing.lab.processes.values())
    assert seen
    assert not [secret for secret in standing.secrets if secret in seen + logs]


def test_only_its_owner_can_read_what_it_keeps_secret(standing: Standing) -> None:
    for folder in standing.folders:
        assert folder.stat().st_mode & 0o077 == 0


def test_its_cpu_time_is_counted_under_its_roles(standing: Standing) -> None:
    before = standing.lab.cpu_seconds()
    assert set(before) == {process.role for process in standing.lab.processes.values()}
    for _ in range(20):
        standing.answers()
    after = standing.lab.cpu_seconds()
    assert sum(after.values()) > sum(before.values())
    assert all(after[role] >= before[role] for role in before)
