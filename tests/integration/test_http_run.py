"""Whole runs of the HTTP study on a balancer of somebody's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from costof.errors import CostofError, Problem
from costof.lab.lab import Lab
from costof.programs.access import Access
from costof.programs.haproxy import Haproxy
from costof.report import analyse
from costof.results.ledger import Ledger
from costof.results.run import Run, read_run
from costof.run.experiment import run
from costof.services.open import open_service
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve
from tests.support.programs import RunningBalancer, running_balancer
from tests.support.small_plans import two_rounds
from tests.support.unwatched import Silent

pytestmark = pytest.mark.servers

STUDY = "http-tls-termination"


def small(*settings: str, target: str | None = None, plain_target: str | None = None) -> Plan:
    """At one number of requests a connection."""
    options = Options("quick", ["keep_alive=1", *settings], target=target, plain_target=plain_target)
    plan = resolve(load_study(STUDY), options)
    return two_rounds(plan, **dict.fromkeys(plan.study.workloads, 20))


@pytest.fixture(scope="module")
def somebodys() -> Iterator[RunningBalancer]:
    with Lab() as lab, running_balancer(lab, Haproxy) as balancer:
        yield balancer


def ask(balancer: RunningBalancer, ledger_at: Path, ca_file: Path | None, *settings: str) -> Run:
    plan = small(*settings, target=balancer.url("tls"), plain_target=balancer.url("plain"))
    service = open_service(plan, Access(balancer.url("tls"), ca_file, balancer.url("plain")), "run")
    ledger = Ledger.create(plan, ledger_at)
    run(plan, service, ledger, Silent())
    return read_run(ledger)


@pytest.mark.parametrize("verify", ["full", "none"])
def test_somebodys_balancer_is_measured_and_unverified_only_when_told_so(
    somebodys: RunningBalancer, tmp_path: Path, verify: str
) -> None:
    ca_file = somebodys.authority.ca_file if verify == "full" else None
    found = ask(somebodys, tmp_path / "run", ca_file, "termination=none,balancer", f"verify={verify}")
    assert {piece.answer.arm for piece in found.slices} == {"none", "none-twin", "balancer"}
    assert all(piece.answer.operations for piece in found.slices)
    assert not [piece.mismatch for piece in found.slices if piece.mismatch]
    told = [sentence.text for sentence in analyse(Ledger.open(tmp_path / "run")).answer]
    warned = [text for text in told if "no certificate was verified" in text]
    assert len(warned) == (verify == "none")


def test_a_certificate_that_nobody_trusts_is_no_run(somebodys: RunningBalancer, tmp_path: Path) -> None:
    with pytest.raises(CostofError, match="certificate") as refused:
        ask(somebodys, tmp_path / "run", None, "termination=none,balancer")
    assert refused.value.problem is Problem.ARMS_CANNOT_RUN
