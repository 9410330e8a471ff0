"""Mutual TLS and certificate chains: servers that require client certificates refuse clients without one."""

from __future__ import annotations

import pytest

from costof.messages.process import engine
from costof.services.server.lab import ServerLab
from costof.study.plan import Plan
from tests.support.engines import Engines, refusals
from tests.support.small_plans import plan_of

pytestmark = pytest.mark.servers

SLOW = [pytest.param(study, marks=pytest.mark.slow) for study in ("postgres-tls", "mysql-transport")]


def plan(study: str) -> Plan:
    levels = ("transport=tls", "client_certificate=off,on", "chain=3", "key=ecdsa-p256", "distance=lan")
    return plan_of(study, "quick", *levels, "records=100")


@pytest.mark.parametrize("study", ["redis-tls", *SLOW])
def test_server_that_requires_mutual_tls_refuses_clients_without_a_certificate(study: str) -> None:
    planned = plan(study)
    usual, mutual = planned.protected
    with ServerLab(planned) as lab, Engines(planned, lab) as engines:
        lab.prepare(planned.arms, engines.load)
        for arm in (usual, mutual):
            lab.arrange(arm)
            answer = engines.slice(arm, "connect", 5)
            assert answer.operations == 5, answer.errors
            assert answer.evidence["chain"] == "3", "the server sent its certificate and two intermediate ones"
        assert lab.collect_evidence(mutual, "start").keys() > lab.collect_evidence(usual, "start").keys()
        endpoint = lab.endpoint(mutual)
        assert endpoint.transport.certificate_file is not None
        without = endpoint.transport.model_copy(update={"certificate_file": None})
        assert refusals(engine(lab.prefix(mutual)), {"without": (endpoint.service, without)}).keys() == {"without"}


@pytest.mark.slow
def test_evidence_has_the_scram_iterations_and_data_checksums_of_postgres() -> None:
    settings = ("scram_iterations=4096,16384", "data_checksums=on", "transport=tls", "records=100")
    planned = plan_of("postgres-tls", "quick", *settings)
    usual, more = planned.protected
    with ServerLab(planned) as lab, Engines(planned, lab) as engines:
        of_usual, of_more = (lab.collect_evidence(arm, "start") for arm in (usual, more))
        assert (of_usual["data_checksums"], of_more["data_checksums"]) == ("on", "on")
        assert (of_usual.get("SCRAM iterations"), of_more["SCRAM iterations"]) == (None, "16384")
        assert engines.ready[more.name].error is None, "the client can log in"
