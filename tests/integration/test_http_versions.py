"""A balancer of somebody's own that has TLS 1.2 alone, as nginx 1.22 is shipped: taken as it is, or refused at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from costof.errors import CostofError, Problem
from costof.lab.lab import Lab
from costof.programs.nginx import Nginx
from costof.report import analyse
from costof.results.ledger import Ledger
from tests.integration.test_http_run import ask
from tests.support.programs import RunningBalancer, running_balancer

pytestmark = pytest.mark.servers


class OldNginx(Nginx):
    """The lab's, with TLS 1.2 and nothing else."""

    def configuration(self) -> str:
        found = super().configuration()
        assert "ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3;" in found
        return found.replace("ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3;", "ssl_protocols TLSv1.2;")


@pytest.fixture(scope="module")
def old() -> Iterator[RunningBalancer]:
    with Lab() as lab, running_balancer(lab, OldNginx) as balancer:
        yield balancer


def test_where_nobody_asks_for_a_version_it_is_taken_as_served(old: RunningBalancer, tmp_path: Path) -> None:
    found = ask(old, tmp_path / "run", old.authority.ca_file, "termination=none,balancer")
    assert not [piece.mismatch for piece in found.slices if piece.mismatch]
    spoken = {
        (piece.answer.arm, piece.answer.evidence.get("protocol")) for piece in found.slices if piece.answer.operations
    }
    assert spoken == {("none", None), ("none-twin", None), ("balancer", "TLSv1.2")}


def test_a_version_that_was_asked_for_is_refused_before_anything_is_measured(
    old: RunningBalancer, tmp_path: Path
) -> None:
    with pytest.raises(CostofError, match="protocol version") as refused:
        ask(old, tmp_path / "run", old.authority.ca_file, "termination=none,balancer", "suite=tls1.3")
    assert refused.value.problem is Problem.ARMS_CANNOT_RUN


def test_beside_a_suite_that_it_has_the_version_is_an_error_of_its_arm(old: RunningBalancer, tmp_path: Path) -> None:
    suites = "suite=dhe-rsa-aes256-sha,tls1.3"
    found = ask(old, tmp_path / "run", old.authority.ca_file, "termination=none,balancer", suites)
    assert {piece.answer.arm for piece in found.slices} == {"none", "none-twin", "balancer-dhe-rsa-aes256-sha"}
    errors = {arm.name: arm.error for arm in analyse(Ledger.open(tmp_path / "run")).arms if arm.error}
    assert list(errors) == ["balancer-tls1.3"]
    assert "protocol version" in errors["balancer-tls1.3"]
