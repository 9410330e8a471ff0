"""The short answer on a study's page: the best mitigation, or a link to a study that measured mitigations."""

from __future__ import annotations

import pytest

from costof.format import capital
from costof.report import build_result
from costof.report.markdown import escape
from costof.report.result import Result
from costof.results.models import Core
from costof.statistics.estimate import Verdict
from manual.answers import answer
from manual.glance import cost, helps, lines, overview, server
from tests.report.results import result_of

TLS, POOLING = "postgres-tls", "postgres-pooling"


@pytest.fixture(scope="module")
def pooling() -> Result:
    """Return a result whose best mitigation leaves the clients' connections unencrypted."""
    result = result_of(POOLING)
    data = result.sections.mitigations
    assert data is not None
    kept = [each.model_copy(update={"verdict": Verdict.SAVES}) for each in data.mitigations]
    unencrypted = next(each for each in kept if each.gives_up == "the encryption of the clients' connections")
    kept = [unencrypted, *(each for each in kept if not each.gives_up)]
    sections = result.sections.model_copy(update={"mitigations": data.model_copy(update={"mitigations": kept})})
    return build_result(Core(**{name: getattr(result, name) for name in Core.model_fields}), sections)


def test_study_page_names_the_best_mitigation_that_keeps_client_connections_encrypted(pooling: Result) -> None:
    assert pooling.sections.mitigations is not None
    unencrypted, encrypted, *_ = pooling.sections.mitigations.mitigations
    assert helps(pooling).startswith(capital(encrypted.label))
    assert unencrypted.label not in helps(pooling)


def test_study_page_without_mitigations_links_to_a_study_of_mitigations_on_the_same_server(pooling: Result) -> None:
    result = result_of(TLS)
    assert server(result) == server(pooling)
    text = "\n".join(lines(result, {TLS: result, POOLING: pooling}))
    assert f"({POOLING}.md) {escape(helps(pooling))}" in text
    assert "- **Published:** " in text


def test_study_page_without_mitigations_says_how_to_measure_one() -> None:
    study = "postgres-encryption-at-rest"
    command = f"`costof run {study} --set storage=none,gocryptfs-aes-gcm,gocryptfs-xchacha20`"
    assert f"To measure one, vary the storage: {command}." in answer(result_of(study), {})


def test_first_page_states_the_cost_that_each_study_measured(pooling: Result) -> None:
    result = result_of(TLS)
    for each in (result, pooling):
        assert f"(studies/{each.study}.md)** {cost(each)}".replace("\xa0", " ") in overview([result, pooling])
