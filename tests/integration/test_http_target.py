"""Whole runs of the HTTP study on a user's own balancer, including one that supports only TLS 1.2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from costof.errors import CostofError, ErrorText
from costof.lab.lab import Lab
from costof.programs.access import Access
from costof.programs.haproxy import Haproxy
from costof.programs.nginx import Nginx
from costof.programs.reach import CERTIFICATE
from costof.report import analyse
from costof.results.ledger import Ledger
from costof.results.run import Run, read_run
from costof.run.experiment import run
from costof.services.open import open_service
from costof.study.library import load_study
from costof.study.plan import Options, resolve
from tests.support.programs import RunningBalancer, running_balancer
from tests.support.small_plans import plan_of, two_rounds
from tests.support.unwatched import Silent

pytestmark = pytest.mark.servers

STUDY = "http-tls-termination"


@pytest.fixture(scope="module")
def users_server() -> Iterator[RunningBalancer]:
    with Lab() as lab, running_balancer(lab, Haproxy) as balancer:
        yield balancer


class OldNginx(Nginx):
    """The lab's nginx with only TLS 1.2, like the configuration shipped with nginx 1.22."""

    def configuration(self) -> str:
        configuration = super().configuration()
        assert "ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3;" in configuration
        return configuration.replace("ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3;", "ssl_protocols TLSv1.2;")


@pytest.fixture(scope="module")
def old() -> Iterator[RunningBalancer]:
    with Lab() as lab, running_balancer(lab, OldNginx) as balancer:
        yield balancer


def ask(balancer: RunningBalancer, folder: Path, *settings: str, trusted: bool = True) -> Run:
    """Run the study on a balancer with one request on each connection, and return the run."""
    ca_file = balancer.authority.ca_file if trusted else None
    settings = ("keep_alive=1", "termination=none,balancer", *settings)
    options = Options("quick", settings, target=balancer.url("tls"), plain_target=balancer.url("plain"))
    plan = resolve(load_study(STUDY), options)
    plan = two_rounds(plan, **dict.fromkeys(plan.study.workloads, 20))
    service = open_service(plan, Access(balancer.url("tls"), ca_file, balancer.url("plain")), "run")
    ledger = Ledger.create(plan, folder / "run")
    run(plan, service, ledger, Silent())
    return read_run(ledger)


def refused(balancer: RunningBalancer, folder: Path, words: str, *settings: str, trusted: bool = True) -> None:
    with pytest.raises(CostofError, match=words) as error:
        ask(balancer, folder, *settings, trusted=trusted)
    assert error.value.message is ErrorText.ARMS_CANNOT_RUN


@pytest.mark.parametrize("verify", ["full", "none"])
def test_report_warns_if_the_certificate_of_a_users_balancer_is_not_verified(
    users_server: RunningBalancer, tmp_path: Path, verify: str
) -> None:
    found = ask(users_server, tmp_path, f"verify={verify}", trusted=verify == "full")
    assert {record.answer.arm for record in found.slices} == {"none", "none-copy", "balancer"}
    assert all(record.answer.operations and not record.mismatch for record in found.slices)
    answer = [sentence.text for sentence in analyse(Ledger.open(tmp_path / "run")).answer]
    warned = [text for text in answer if "no certificate was verified" in text]
    assert len(warned) == (verify == "none")


def test_untrusted_certificate_ends_the_run(users_server: RunningBalancer, tmp_path: Path) -> None:
    refused(users_server, tmp_path, "certificate", trusted=False)


def test_users_balancer_is_measured_with_its_own_tls_version_by_default(old: RunningBalancer, tmp_path: Path) -> None:
    result = ask(old, tmp_path)
    assert not [record.mismatch for record in result.slices if record.mismatch]
    spoken = {
        (record.answer.arm, record.answer.evidence.get("protocol"))
        for record in result.slices
        if record.answer.operations
    }
    assert spoken == {("none", None), ("none-copy", None), ("balancer", "TLSv1.2")}


def test_unsupported_tls_version_is_an_error_only_of_the_arm_that_requires_it(
    old: RunningBalancer, tmp_path: Path
) -> None:
    for name in ("alone", "beside"):
        (tmp_path / name).mkdir()
    refused(old, tmp_path / "alone", "protocol version", "suite=tls1.3")
    result = ask(old, tmp_path / "beside", "suite=dhe-rsa-aes256-sha,tls1.3")
    assert {record.answer.arm for record in result.slices} == {"none", "none-copy", "balancer-dhe-rsa-aes256-sha"}
    errors = {arm.name: arm.error for arm in analyse(Ledger.open(tmp_path / "beside/run")).arms if arm.error}
    assert list(errors) == ["balancer-tls1.3"]
    assert "protocol version" in errors["balancer-tls1.3"]


def test_resumed_run_refuses_a_balancer_with_another_certificate(users_server: RunningBalancer) -> None:
    plan = plan_of(STUDY, "quick", "termination=none,balancer", target=users_server.url("tls"))
    access = Access(users_server.url("tls"), users_server.authority.ca_file, users_server.url("plain"))
    again = open_service(plan, access, "a-run")
    again.known_identity = {CERTIFICATE: "SHA-256 of another"}
    with pytest.raises(CostofError) as error, again:
        pass
    assert error.value.message is ErrorText.OTHER_SERVER
