"""The MySQL study on its lab: hosts, links, tunnels, and the accuracy of measurements over them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from benches.distances import FAR_MS, delayed_plan, far_plan
from costof.report import analyse
from costof.results.ledger import Ledger
from costof.results.run import read_run
from costof.run.experiment import run as carry_out
from costof.services.open import open_service
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve
from tests.support.programs import SHORTER_MS
from tests.support.small_plans import ended_by_operations
from tests.support.unwatched import Silent

from .conftest import eventually

pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(os.geteuid() != 0, reason="hosts and links need root"),
]
STUDY = "mysql-transport"


def carried_out(planned: Plan, folder: Path) -> Ledger:
    few = {name: min(size.operations, 16) for name, size in planned.slices.items()}
    plan = ended_by_operations(planned, **few)
    ledger = Ledger.create(plan, folder)
    carry_out(plan, open_service(plan, None, "run"), ledger, Silent())
    return ledger


def quickest_ms(ledgers: Iterable[Ledger], workload: str, arm: str) -> float:
    """Return the shortest time in ms of an arm's operations (for `connect`, of a new connection) in these runs."""
    name = "connect" if workload == "connect" else "operation"
    slices = [each for ledger in ledgers for each in read_run(ledger).counted_slices(workload, arm)]
    return min(each.answer.phases[name].min_ns for each in slices) / 1e6


@pytest.mark.slow
def test_connection_at_a_distance_takes_as_long_as_its_round_trips(tmp_path: Path) -> None:
    """The run has arms without TLS, with TLS and with a tunnel, each on a LAN and at a round trip of 20 ms.

    The run is repeated if the machine delayed it.
    """
    finished = carried_out(far_plan(rounds="2"), tmp_path / "run")
    trips = {v.arm: v.round_trips for v in analyse(finished).values if v.metric == "wire.connect"}
    # Round trips over the far link. A tunnel accepts TCP at the client's end, so the TCP handshake crosses no link.
    crossing = {"plain@20": 3, "tls@20": 4, "ssh-aes256-ctr@20": 2}
    assert (trips["plain@20"], trips["tls@20"]) == (crossing["plain@20"], crossing["tls@20"])
    for arm, expected in crossing.items():
        assert quickest_ms([finished], "connect", arm) >= expected * (FAR_MS - SHORTER_MS), arm
    runs = [finished]

    def takes_no_trip_more() -> bool:
        if all(quickest_ms(runs, "connect", arm) < (trips + 1) * FAR_MS for arm, trips in crossing.items()):
            return True
        runs.append(carried_out(far_plan(rounds="2"), tmp_path / f"run{len(runs)}"))
        return False

    eventually("a connection that nothing held up", takes_no_trip_more)


@pytest.mark.slow
def test_delay_of_5_ms_is_measured_as_5_ms(tmp_path: Path) -> None:
    """Two arms differ only in the link of their clients, which is 5 ms longer in one arm.

    The shortest times are compared. On a busy machine the run is repeated. `make bench` (`distances`) tests means and
    intervals.
    """
    runs: list[Ledger] = []

    def comes_back(workload: str, trips: int) -> bool:
        plain, delayed = (quickest_ms(runs, workload, arm) for arm in ("plain", "delayed"))
        return delayed - plain == pytest.approx(trips * 5.0, abs=2.5)

    def both_come_back() -> bool:
        runs.append(carried_out(delayed_plan(rounds="2"), tmp_path / f"run{len(runs)}"))
        effects = {effect.metric: effect for effect in analyse(runs[-1]).effects if effect.arm == "delayed"}
        assert effects["wire.query_1"].rounds == effects["wire.connect"].rounds == 2
        return comes_back("query_1", 1) and comes_back("connect", 3)

    eventually("5 ms for each round trip", both_come_back)


@pytest.mark.slow
def test_five_workers_connect_over_a_far_link_as_fast_as_one_worker(tmp_path: Path) -> None:
    settings = ["records=500", "distance=20", "transport=tls"]
    runs: dict[int, list[Ledger]] = {1: [], 5: []}

    def carry_out_again(workers: int) -> None:
        plan = resolve(load_study(STUDY), Options(profile="quick", settings=settings, rounds="2"))
        far = plan.slices["connect@far"].model_copy(update={"operations": 8 * workers, "workers": workers})
        # Only connections are compared here, so one query per worker keeps the run short.
        queries = {
            f"query_{n}@far": plan.slices[f"query_{n}@far"].model_copy(update={"operations": n}) for n in (1, 8, 32)
        }
        sized = plan.model_copy(update={"slices": {**plan.slices, **queries, "connect@far": far}})
        runs[workers].append(carried_out(sized, tmp_path / f"run{workers}-{len(runs[workers])}"))

    def is_as_quick() -> bool:
        carry_out_again(5)
        return all(
            quickest_ms(runs[5], "connect", arm) < quickest_ms(runs[1], "connect", arm) + FAR_MS
            for arm in ("plain", "tls")
        )

    carry_out_again(1)
    # The run is repeated if a busy machine delayed one of the five workers.
    eventually("a sequence among five as quick as one alone", is_as_quick)
