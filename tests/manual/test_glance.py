"""The short answer on a study's page: the best mitigation, or a link to a study that measured mitigations."""

from __future__ import annotations

import pytest

from costof.format import NBSP
from costof.report import build_result
from costof.report.markdown import escape
from costof.report.result import Result
from costof.results.memory import ArmMemory, ConnectionMemory
from costof.results.models import Core
from costof.statistics.estimate import Estimate, Verdict
from manual.answers import answer
from manual.glance import cost, helps, lines, memory, overview, server
from tests.report.results import result_of, with_sections

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
    assert helps(pooling).startswith(f"With TLS, {encrypted.label} raises")
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
    assert f"To measure one, vary the storage: {command}." in answer(result_of(study), {}, None)


def test_first_page_states_the_cost_that_each_study_measured(pooling: Result) -> None:
    result = result_of(TLS)
    for each in (result, pooling):
        assert f"(studies/{each.study}.md)** {cost(each)}".replace("\xa0", " ") in overview([result, pooling])


def test_study_page_says_how_much_memory_the_protection_adds_to_each_connection_if_it_was_measured() -> None:
    added = Estimate(value=205_000, low=201_000, high=209_000, rounds=10)
    growth = ArmMemory(arm="tls", connections=1000, growth=[], bytes_by_role={}, bytes=None, added=added, missing=None)
    data = ConnectionMemory(planned=1000, methods=[], steps=11, fresh=True, lead_in=1, arms=[growth])
    (text,) = memory(with_sections(result_of(TLS), memory=data))
    assert text.startswith("- **Memory of an idle connection:** TLS 1.3 ")
    assert "adds 205 kB [201, 209] to the servers' memory for each connection" in text.replace(NBSP, " ")
    assert [*memory(result_of(TLS))] == []


def test_first_page_links_to_the_run_of_the_published_size_if_there_is_one(pooling: Result) -> None:
    assert f"published.md#{POOLING}" in overview([pooling], [POOLING])
    assert f"published.md#{POOLING}" not in overview([pooling])
