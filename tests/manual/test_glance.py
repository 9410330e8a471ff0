"""The short answer on a study's page: the best mitigation, or a link to a study that measured mitigations."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from costof.format import NBSP
from costof.report import analyse, build_result
from costof.report.markdown import escape
from costof.report.result import Result
from costof.results.index import Index
from costof.results.memory import ArmMemory, ConnectionMemory
from costof.results.models import Core
from costof.results.run import read_run
from costof.statistics.estimate import Estimate, Verdict
from manual.answers import answer
from manual.glance import break_even, control, cost, costs_elsewhere, helps, lines, memory, overview, server, sure
from manual.protections import StoredRun, needs_in_verdict
from tests.fake_run import fake_run
from tests.report.results import ENCRYPTION, result_of, spaced, with_sections
from tests.support.small_plans import plan_of
from tests.truths import TRUTHS

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
    assert helps(pooling).startswith(f"Compared with TLS, {encrypted.label} raises")
    assert unencrypted.label not in helps(pooling)


def test_study_page_without_mitigations_links_to_a_study_of_mitigations_on_the_same_server(pooling: Result) -> None:
    result = result_of(TLS)
    assert server(result) == server(pooling)
    text = "\n".join(lines(result, {TLS: result, POOLING: pooling}))
    assert f"({POOLING}.md) {escape(helps(pooling))}" in text
    assert "- **Published:** " in text


def test_study_page_without_mitigations_says_how_to_measure_one() -> None:
    study = "postgres-encryption-at-rest"
    command = f"`costof run {study} --profile quick --set storage=none,gocryptfs-aes-gcm,gocryptfs-xchacha20`"
    assert f"To measure one, vary the storage: {command}." in answer(result_of(study), {}, None)


def test_study_page_says_what_the_best_mitigation_gives_each_protection_of_the_verdict() -> None:
    result = result_of("mariadb-durability")
    protections = dict.fromkeys(figure.arm_label for figure in result.summary.figures)
    assert len(protections) > 1
    for label in protections:
        assert re.search(
            rf"Compared with {re.escape(label)}, .+ raises 'commits a second' from ", spaced(helps(result))
        )


def test_study_page_says_what_an_operation_needs_with_each_protection_that_the_verdict_names(tmp_path: Path) -> None:
    study = "postgres-durability"
    ledger = fake_run(tmp_path / study, plan_of(study), TRUTHS[study], rounds=6)
    stored = StoredRun(read_run(ledger), analyse(ledger))
    needed = needs_in_verdict(stored)
    labels = dict.fromkeys(figure.arm_label for figure in stored.result.summary.figures)
    assert len(labels) > 1
    for label, sentence in zip(labels, needed, strict=True):
        assert sentence.startswith(f"With {label}, a commit needs ")
        assert re.search(r" more flush(es)?\b", sentence)
    (why,) = (line for line in lines(stored.result, {}, needed) if line.startswith("- **Why:**"))
    assert why == f"- **Why:** {escape(' '.join(needed))}"


@pytest.mark.parametrize("text", ["limited: round 5 differs greatly from the others in an insert.", "low: no verdict."])
def test_study_page_says_what_makes_figures_less_sure(text: str) -> None:
    result = result_of(TLS)
    doubted = result.model_copy(update={"summary": result.summary.model_copy(update={"sure": text})})
    assert [*sure(doubted)] == [f"- **How sure:** {escape(text)}"]
    certain = result.summary.model_copy(update={"sure": "high: 12 rounds, all checks passed."})
    assert [*sure(result.model_copy(update={"summary": certain}))] == []


def test_study_page_names_a_control_that_has_a_cost_of_its_own() -> None:
    result = result_of(ENCRYPTION)
    (line,) = control(result)
    assert line.startswith(f"- **Compared with:** {Index(result).control_label}. The gateway's presence ")
    assert [*control(result_of(TLS))] == []


def test_cost_of_a_mitigation_is_left_out_where_the_protection_alone_costs_as_much(pooling: Result) -> None:
    data = pooling.sections.mitigations
    assert data is not None
    best = data.best
    assert best is not None
    query = "wire.reused_query"
    others = [each for each in pooling.effects if (each.metric, each.arm) != (query, data.reference)]
    (of_pool,) = (each for each in others if (each.metric, each.arm) == (query, best.arm))
    for change, listed in ((0.5, True), (1.0, False)):
        assert of_pool.ratio is not None
        ratio = of_pool.ratio.model_copy(update={"value": of_pool.ratio.value * change})
        alone = of_pool.model_copy(update={"arm": data.reference, "ratio": ratio, "ratio_disagrees": False})
        costs = [*costs_elsewhere(Index(pooling.model_copy(update={"effects": [*others, alone]})), data, best)]
        assert any("query on open connection" in each for each in costs) == listed


def test_study_page_says_below_how_many_queries_a_connection_a_pool_saves_time(pooling: Result) -> None:
    data = pooling.sections.break_even
    assert data is not None
    saving = {point.arm for point in data if point.saves}
    assert saving
    (line,) = break_even(pooling)
    assert 0 < line.count(" saves time ") <= len(saving)
    assert "'plain'" in line
    assert [*break_even(result_of(TLS))] == []


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


def test_largest_change_of_memory_that_is_possible_has_two_digits() -> None:
    unresolved = Estimate(value=-13.7, low=-97.67, high=70.1, rounds=10)
    growth = ArmMemory(
        arm="tls", connections=1000, growth=[], bytes_by_role={}, bytes=None, added=unresolved, missing=None
    )
    data = ConnectionMemory(planned=1000, methods=[], steps=11, fresh=True, lead_in=1, arms=[growth])
    (text,) = memory(with_sections(result_of(TLS), memory=data))
    assert "by up to 98 B." in text.replace(NBSP, " ")


def test_first_page_links_to_the_run_of_the_published_size_if_there_is_one(pooling: Result) -> None:
    assert f"published.md#{POOLING}" in overview([pooling], [POOLING])
    assert f"published.md#{POOLING}" not in overview([pooling])
