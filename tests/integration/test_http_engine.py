"""The engine's HTTP client with the engine's own origin server: many connections, and shared TLS sessions."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from costof.lab.certificates import Authority
from costof.messages.plan import PLAIN, Arm, TlsFiles, Transport, Workload
from costof.messages.process import Instrument, engine
from costof.programs.http import HttpSettings
from costof.programs.origin import Listener, OriginProcess
from tests.support.engines import patient_plan
from tests.support.programs import HANGS_SECONDS

pytestmark = pytest.mark.servers
MANY = 10_000
MOST_MEMORY_BYTES = {"plain": 60e6, "tls": 300e6}
ADDRESS = "127.0.0.1"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certificates")


@pytest.fixture
def origin(authority: Authority) -> Iterator[list[str]]:
    """Start the origin server. Yield the 'address:port' of two listeners: plain, then TLS."""
    certificate = authority.issue("origin", "rsa-2048", [ADDRESS])
    with OriginProcess() as process:
        yield process.begin(
            [Listener(address=f"{ADDRESS}:0"), Listener(address=f"{ADDRESS}:0", tls=TlsFiles.of(certificate))]
        ).listeners


def arm(address: str, transport: Transport, requests_per_connection: int | None) -> Arm:
    service = HttpSettings(addresses=[address], path="/?wait=0", requests_per_connection=requests_per_connection)
    return Arm(name="arm", service=service, transport=transport)


def begin(instrument: Instrument, arm: Arm, workers: int) -> None:
    workload = Workload(name="request", kind="request", workers=workers)
    ready = instrument.plan(patient_plan([arm], [workload], threads=2))
    assert ready.arms[0].error is None


@pytest.mark.slow
@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_NOFILE)[1] < MANY + 100, reason="so many descriptors are not allowed here"
)
@pytest.mark.parametrize("kind", MOST_MEMORY_BYTES)
def test_ten_thousand_connections_need_little_memory(origin: list[str], authority: Authority, kind: str) -> None:
    # Ten thousand full TLS handshakes would take too long, so sessions are resumed.
    tls = Transport(kind="tls", ca_file=authority.ca_file, resumption=True)
    target_arm = arm(origin[0], PLAIN, None) if kind == "plain" else arm(origin[1], tls, None)
    with engine() as instrument:
        begin(instrument, target_arm, MANY)
        opened = 0
        # Measure until every worker has connected. Workers connect at their first request, and fast workers may make
        # all requests of a slice.
        while opened < MANY:
            answer = instrument.slice(1, "arm", "request", 2 * MANY, HANGS_SECONDS)
            assert answer.errors == []
            assert answer.operations == 2 * MANY
            assert answer.peak_memory_bytes < MOST_MEMORY_BYTES[kind]
            opened += answer.evidence["connections"]
    assert opened == MANY, "one for each worker, whatever the number of slices"


def test_all_workers_resume_one_tls_session(origin: list[str], authority: Authority) -> None:
    tls = Transport(kind="tls", ca_file=authority.ca_file, resumption=True)
    with engine() as instrument:
        begin(instrument, arm(origin[1], tls, 1), 50)
        answers = [instrument.slice(number, "arm", "request", 500, HANGS_SECONDS) for number in (1, 2)]
    for answer in answers:
        assert answer.errors == []
        # Even the first handshake is resumed, with a ticket from the engine's verification of the arm.
        assert answer.evidence["resumed"] == answer.evidence["handshakes"] == 500
