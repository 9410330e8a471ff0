"""The page Costs follows its rules: only verified arms, a reason for each gap, a mark on old figures."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from html import unescape
from pathlib import Path

import pytest

from costof.report import analyse
from costof.report.result import Result
from costof.results.index import Index
from costof.results.memory import connection_memory
from costof.results.models import Arm, MissingFigure
from costof.results.run import read_run
from manual.costs import FRESH_DAYS, configuration, page
from manual.glance import server
from manual.protections import StoredRun
from tests.fake_run import fake_run
from tests.report.results import spaced
from tests.support.memory_steps import memory_steps
from tests.support.small_plans import plan_of
from tests.truths import TRUTHS

STUDY = "mongodb-tls"
PROTECTED, METRIC = "tls", "wire.connect_and_first_query"
Change = Callable[[Result], Result]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StoredRun:
    ledger = fake_run(tmp_path_factory.mktemp("ledger") / STUDY, plan_of(STUDY), TRUTHS[STUDY], rounds=6)
    return StoredRun(read_run(ledger), analyse(ledger))


def measured(stored: StoredRun) -> date:
    return date.fromisoformat(stored.result.started[:10])


def text_of(stored: StoredRun, *, days: int = 0, change: Change | None = None) -> str:
    """Return the page as text without tags, `days` after the run was measured."""
    changed = replace(stored, result=change(stored.result)) if change else stored
    markup = page({STUDY: changed}, [STUDY, "redis-tls"], measured(stored) + timedelta(days=days))
    return unescape(re.sub(r"<[^>]+>", " ", markup.partition("## Rules")[0]))


def with_arm(**fields: object) -> Change:
    def change(result: Result) -> Result:
        arms: list[Arm] = [each.model_copy(update=fields) if each.name == PROTECTED else each for each in result.arms]
        return result.model_copy(update={"arms": arms})

    return change


def without_effect(result: Result) -> Result:
    effects = [each for each in result.effects if (each.metric, each.arm) != (METRIC, PROTECTED)]
    gap = MissingFigure(metric=METRIC, arm=PROTECTED, missing_slices=6, total_slices=6, reason="no slice has it")
    return result.model_copy(update={"effects": effects, "missing": [gap]})


def test_costs_page_lists_each_effect_on_a_headline_metric_under_the_heading_of_its_server(stored: StoredRun) -> None:
    text, index = text_of(stored), Index(stored.result)
    assert f"## {server(stored.result)}" in text
    effects = [index.effect(metric.name, PROTECTED) for metric in index.headline_metrics]
    assert len(re.findall(r"\[[^\]]+\]\s+(?:costs|saves|no|unresolved)", text)) == len([*filter(None, effects)])
    assert "no run of `redis-tls`" in text


def test_arm_without_evidence_has_no_figures(stored: StoredRun) -> None:
    text = text_of(stored, change=with_arm(evidence=[]))
    assert "Not shown: there is no evidence" in text
    table = text.replace(spaced(stored.result.summary.verdict), "")
    assert "connect and first query" not in table


def test_costs_page_gives_the_reason_for_a_missing_figure(stored: StoredRun) -> None:
    assert "Missing: no slice has it" in text_of(stored, change=without_effect)


def test_costs_page_shows_the_cpu_time_of_a_server_for_operations_that_have_evidence(
    tmp_path: Path,
) -> None:
    study = "http-firewall"
    ledger = fake_run(tmp_path / study, plan_of(study), TRUTHS[study], rounds=6)
    stored = StoredRun(read_run(ledger), analyse(ledger))
    text = unescape(re.sub(r"<[^>]+>", " ", page({study: stored}, [study], measured(stored))))
    assert re.search(r"nginx CPU time for a request\s+\S+\s+\S+\s+[+−]", text)


def test_costs_page_has_a_row_with_the_memory_of_a_connection_and_of_all_clients(stored: StoredRun) -> None:
    steps = [*memory_steps("plain", 4_000), *memory_steps(PROTECTED, 24_000)]

    def with_memory(result: Result) -> Result:
        memory = connection_memory(replace(stored.run, memory=steps))
        return result.model_copy(update={"sections": result.sections.model_copy(update={"memory": memory})})

    row = "server memory of an idle connection"
    assert row not in text_of(stored)
    assert re.search(rf"{row} .*\+20\.\d+.kB .*costs .*10,000 clients: \+200.MB", text_of(stored, change=with_memory))


def test_figures_of_an_old_run_or_an_older_version_are_marked_as_old(stored: StoredRun) -> None:
    def by_another_version(result: Result) -> Result:
        return result.model_copy(update={"environment": {**result.environment, "costof": "0.0.1"}})

    assert "Old:" not in text_of(stored, days=FRESH_DAYS)
    assert f"Old: measured {FRESH_DAYS + 1} days ago." in text_of(stored, days=FRESH_DAYS + 1)
    assert "Old: measured by costof 0.0.1." in text_of(stored, change=by_another_version)


def test_configuration_hash_covers_all_settings_except_the_seed() -> None:
    plan = plan_of(STUDY)
    assert configuration(plan) == configuration(plan_of(STUDY, seed=2))
    assert configuration(plan) != configuration(plan_of(STUDY, "quick", "key=ecdsa-p256"))
