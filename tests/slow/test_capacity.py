"""Sweeps on a server whose capacity within a latency limit is known by construction."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from costof.lab.certificates import Authority
from costof.lab.lab import Lab
from costof.programs.access import Access
from costof.report import analyse
from costof.report.result import Result
from costof.results.ledger import Ledger
from costof.run.experiment import run
from costof.services.open import open_service
from costof.statistics.estimate import Verdict
from costof.study.library import load_study
from costof.study.load import RequestedLoad
from costof.study.plan import Options, resolve
from costof.study.sweep import CAPACITY
from tests.support import queue_server
from tests.support.programs import get
from tests.support.unwatched import Silent

pytestmark = [pytest.mark.servers, pytest.mark.slow]

#: The limit is so long that the delays of a busy machine hardly matter.
LIMIT_SECONDS, SHARE = 0.02, 0.01
ATTEMPTS = 3
#: Service times without and with TLS in seconds.
PLAIN, TLS = 0.002, 0.0025


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Access]:
    """Run the server on loopback, and yield how to reach it."""
    with Lab() as lab:
        authority, address = Authority(tmp_path / "certificates"), lab.address(1)
        certificate = authority.issue("queue", "ecdsa-p256", [address])
        arguments = [address, str(PLAIN), str(TLS), "1", str(certificate)]
        lab.spawn("queue", "server", [sys.executable, "-m", queue_server.__name__, *arguments])
        lab.wait_until("starting the server", lambda: answers(f"http://{address}:8080/"))
        yield Access(f"https://{address}:8443/", authority.ca_file, f"http://{address}:8080/")


def answers(url: str) -> bool:
    with contextlib.suppress(OSError):
        return get(url) == "OK"
    return False


def sweep(access: Access, folder: Path, load: str, limit_seconds: float = LIMIT_SECONDS) -> Result:
    """Run a sweep with 50 open connections."""
    assert access.plain_url is not None
    options = Options(
        "quick",
        ("termination=none,balancer",),
        rounds="8",
        target=access.url,
        plain_target=access.plain_url,
        load=RequestedLoad(load, pool="50"),
        limits=[("p99 of a request", f"{limit_seconds * 1000:g}ms")],
    )
    plan = resolve(load_study("http-tls-termination"), options)
    ledger = Ledger.create(plan, folder / "run")
    run(plan, open_service(plan, access, "run"), ledger, Silent())
    return analyse(ledger)


def test_capacities_and_their_ratio_are_those_of_the_queues(server: Access, tmp_path: Path) -> None:
    # On a busy machine a run may be too disturbed to find the capacities, and says so.
    runs = (sweep(server, tmp_path / str(attempt), "50/s..1000/s") for attempt in range(ATTEMPTS))
    effect = next(each for result in runs for each in result.effects if each.metric == CAPACITY)
    plain, tls = (queue_server.capacity(service, 1, LIMIT_SECONDS, SHARE) for service in (PLAIN, TLS))
    # Intervals of single runs miss the truth in 5 % of runs, so a run is compared with a margin.
    assert effect.control_value == pytest.approx(plain, rel=0.1)
    assert effect.value == pytest.approx(tls, rel=0.1)
    assert effect.verdict is Verdict.COSTS


def test_server_that_keeps_the_limit_over_the_whole_range_is_said_to(server: Access, tmp_path: Path) -> None:
    result = sweep(server, tmp_path, "20/s..60/s", limit_seconds=5)
    assert not [each for each in result.effects if each.metric == CAPACITY]
    assert "even at 60 requests a second: raise the upper end of --load" in result.summary.verdict
