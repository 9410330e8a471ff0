"""A sweep on a real MariaDB behind a relay, which lets it serve one query at a time, so that its capacity is known."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from costof.lab.lab import Lab
from costof.programs.access import Access
from costof.programs.mariadb.lab import greets
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
from tests.support import queue_relay, queue_server
from tests.support.programs import url_of, users_mariadb
from tests.support.unwatched import Silent

pytestmark = [pytest.mark.servers, pytest.mark.slow, pytest.mark.alone]

#: The time in seconds that a query takes without TLS and with it, the latency limit in seconds, and the share of
#: queries that may exceed it. The limit is so long that the delays of a busy machine hardly matter.
PLAIN, TLS, LIMIT_SECONDS, SHARE = 0.008, 0.01, 0.1, 0.01
ENTRANCE = 3307
ATTEMPTS = 3


def test_measured_capacity_with_and_without_tls_equals_the_computed_capacity(tmp_path: Path) -> None:
    with Lab() as lab, users_mariadb(lab) as server:
        arguments = [server.address, str(ENTRANCE), str(server.port), str(PLAIN), str(TLS)]
        lab.spawn("relay", "relay", [sys.executable, "-m", queue_relay.__name__, *arguments])
        lab.wait_until("starting the relay", lambda: greets(server.address, ENTRANCE))
        url = url_of(server).replace(f":{server.port}/", f":{ENTRANCE}/")
        access = Access(url, server.ca_file, allow_plain=True)
        # If a busy machine disturbs a run so much that it finds no capacities, or cannot compare them, repeat it.
        runs = (sweep(access, tmp_path / str(attempt)) for attempt in range(ATTEMPTS))
        effects = (each for result in runs for each in result.effects if each.metric == CAPACITY)
        effect = next(each for each in effects if each.verdict is not Verdict.UNRESOLVED)
    plain, tls = (queue_server.capacity(service, 1, LIMIT_SECONDS, SHARE) for service in (PLAIN, TLS))
    # Allow a margin of 10 % instead of the run's own interval, which misses the truth in 5 % of runs.
    assert effect.control_value == pytest.approx(plain, rel=0.1)
    assert effect.value == pytest.approx(tls, rel=0.1)
    assert effect.verdict is Verdict.COSTS


def sweep(access: Access, folder: Path) -> Result:
    options = Options(
        "quick",
        ("transport=plain,tls", "records=200"),
        rounds="8",
        target="mysql://shown",
        load=RequestedLoad("20/s..400/s", pool="20"),
        limits=[("p99 of a query", f"{LIMIT_SECONDS * 1000:g}ms")],
    )
    plan = resolve(load_study("mysql-transport"), options)
    ledger = Ledger.create(plan, folder)
    run(plan, open_service(plan, access, "run"), ledger, Silent())
    return analyse(ledger)
