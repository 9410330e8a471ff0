"""Sweeps (searches for the capacity within a latency limit) on a server whose capacity is known by construction."""

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
from costof.study.load import QUERY, RequestedLoad
from costof.study.plan import Options, resolve
from costof.study.sweep import CAPACITY
from tests.support import queue_command, queue_server
from tests.support.programs import get
from tests.support.unwatched import Silent

pytestmark = [pytest.mark.servers, pytest.mark.slow, pytest.mark.alone]

#: The latency limit in seconds, and a share of the requests. The capacity is the rate at which this share of the
#: requests exceeds the limit. The limit is so long that the delays of a busy machine hardly matter.
LIMIT_SECONDS, SHARE = 0.02, 0.01
ATTEMPTS = 3
PLAIN, TLS = 0.002, 0.0025


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Access]:
    with queues(tmp_path, PLAIN, TLS) as access:
        yield access


@contextlib.contextmanager
def queues(tmp_path: Path, plain: float, tls: float) -> Iterator[Access]:
    """Run the server with the simulated queues on loopback, with these service times. Yield how to reach it."""
    with Lab() as lab:
        authority, address = Authority(tmp_path / "certificates"), lab.address(1)
        certificate = authority.issue("queue", "ecdsa-p256", [address])
        arguments = [address, str(plain), str(tls), "1", str(certificate)]
        lab.spawn("queue", "server", [sys.executable, "-m", queue_server.__name__, *arguments])
        lab.wait_until("starting the server", lambda: answers(f"http://{address}:8080/"))
        yield Access(f"https://{address}:8443/", authority.ca_file, f"http://{address}:8080/")


def answers(url: str) -> bool:
    with contextlib.suppress(OSError):
        return get(url) == "OK"
    return False


def sweep(access: Access, folder: Path, load: str, limit_seconds: float | None = LIMIT_SECONDS) -> Result:
    """Run the study over 50 open connections, at the loads that `load` names, and return the result.

    With a limit this is a sweep (a search for the capacity) in a range of loads, such as "50/s..1000/s". Without a
    limit the loads are a list, such as "100/s,300/s".
    """
    assert access.plain_url is not None
    options = Options(
        "quick",
        ("termination=none,balancer",),
        rounds="8",
        target=access.url,
        plain_target=access.plain_url,
        load=RequestedLoad(load, pool="50"),
        limits=[("p99 of a request", f"{limit_seconds * 1000:g}ms")] if limit_seconds else [],
    )
    plan = resolve(load_study("http-tls-termination"), options)
    ledger = Ledger.create(plan, folder / "run")
    run(plan, open_service(plan, access, "run"), ledger, Silent())
    return analyse(ledger)


def test_measured_capacity_of_each_server_equals_its_computed_capacity(server: Access, tmp_path: Path) -> None:
    # A busy machine may disturb a run so much that it finds no capacities. Then another run is made.
    runs = (sweep(server, tmp_path / str(attempt), "50/s..1000/s") for attempt in range(ATTEMPTS))
    effect = next(each for result in runs for each in result.effects if each.metric == CAPACITY)
    plain, tls = (queue_server.capacity(service, 1, LIMIT_SECONDS, SHARE) for service in (PLAIN, TLS))
    # Allow a margin of 10 % instead of the run's own interval, which misses the truth in 5 % of runs.
    assert effect.control_value == pytest.approx(plain, rel=0.1)
    assert effect.value == pytest.approx(tls, rel=0.1)
    assert effect.verdict is Verdict.COSTS


def test_report_has_costs_at_each_listed_load_that_both_variants_can_serve(server: Access, tmp_path: Path) -> None:
    # The queue with TLS serves 400 requests a second, and the queue without TLS 500.
    runs = (sweep(server, tmp_path / str(attempt), "100/s,300/s,440/s", None) for attempt in range(ATTEMPTS))
    highest = "at 300 requests a second, the highest load that every variant carries"
    result = next(each for each in runs if highest in each.summary.verdict)
    effects = {each.arm: each for each in result.effects if each.metric == QUERY}
    assert effects["balancer"].verdict is effects["balancer@load-300"].verdict is Verdict.COSTS
    assert "balancer@load-440" not in effects


COMMANDS = """
title = "What does a slower queue cost?"
service = "command"
control.service = "fast"
factors.service.levels = {{ fast = {{ set.time = "{fast}" }}, slow = {{ set.time = "{slow}" }} }}
[workloads.queue.command]
run = "{python} -S {program} {{rate}} {{time}} {{seconds}}"
# Simulated seconds, which pass at once.
seconds = 20
[workloads.queue.command.figures]
rate = {{ regex = "rate (.*)", unit = "per_second", better = "higher" }}
p50_ms = {{ regex = "p50 (.*)", unit = "ms" }}
p99_ms = {{ regex = "p99 (.*)", unit = "ms" }}
"""


def commands(folder: Path, load: str, *limits: tuple[str, str], slow: float = TLS) -> Result:
    """Run the simulated queue as a command, with a service time of `PLAIN` and with `slow`."""
    text = COMMANDS.format(fast=PLAIN, slow=slow, python=sys.executable, program=queue_command.__file__)
    path = folder / "queue.toml"
    path.write_text(text)
    plan = resolve(load_study(str(path)), Options("quick", rounds="8", load=RequestedLoad(load), limits=limits, seed=1))
    ledger = Ledger.create(plan, folder / "run")
    run(plan, open_service(plan, None, "run"), ledger, Silent())
    return analyse(ledger)


LIMIT = "p99 of a request", f"{LIMIT_SECONDS * 1000:g}ms"


def test_equal_capacities_of_two_commands_have_the_verdict_no_difference(tmp_path: Path) -> None:
    (effect,) = commands(tmp_path, "50/s..1000/s", LIMIT, slow=PLAIN).effects
    assert effect.verdict is Verdict.NO_DIFFERENCE


def test_measured_capacity_of_each_command_equals_its_computed_capacity(tmp_path: Path) -> None:
    (effect,) = commands(tmp_path, "50/s..1000/s", LIMIT).effects
    plain, tls = (queue_server.capacity(service, 1, LIMIT_SECONDS, SHARE) for service in (PLAIN, TLS))
    assert effect.control_value == pytest.approx(plain, rel=0.05)
    assert effect.value == pytest.approx(tls, rel=0.05)
    assert effect.verdict is Verdict.COSTS


def test_report_names_a_load_that_is_too_high_for_a_command(tmp_path: Path) -> None:
    result = commands(tmp_path, "100/s,300/s,450/s")
    assert "Slow cannot carry a rate of 450/s (it served " in result.summary.verdict
    effects = {each.arm for each in result.effects if each.metric == "queue.p99_ms"}
    assert effects == {"slow", "slow@load-300"}
