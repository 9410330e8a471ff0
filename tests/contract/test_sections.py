"""Rules that every section of the report follows. The tests find all sections, so a new one needs no change here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costof.errors import CostofError, ErrorText
from costof.report import analyse, render_markdown
from costof.report.blocks import Block
from costof.report.result import Result
from costof.report.sections import Section, check, every_section
from costof.results.index import Index
from costof.results.models import CarryOver
from costof.statistics.estimate import Estimate
from costof.study.library import load_study
from costof.study.load import RequestedLoad
from tests.fake_hosts import fake_run_of_hosts
from tests.fake_run import Truth, fake_result, fake_run
from tests.noise import Noise
from tests.report.results import ALL_SECTIONS, at_load, mongodb, small
from tests.support.memory_steps import CONNECTIONS, memory_steps
from tests.support.small_plans import plan_of
from tests.support.sweeps import fake_sweep
from tests.truths.at_load import AtLoad
from tests.truths.misleading import Stalling
from tests.truths.postgres_tls import PostgresTruth


def test_committed_schema_matches_the_result_model() -> None:
    schema = json.loads((Path(__file__).parents[2] / "docs" / "result.schema.json").read_text())
    assert schema == Result.model_json_schema(), "stale: python -m costof.report > docs/result.schema.json"


def test_no_two_report_sections_have_the_same_name_or_position() -> None:
    sections = every_section()
    assert len({section.name for section in sections}) == len({section.order for section in sections}) == len(sections)


def test_every_report_section_appears_in_the_report_of_some_test_run(unusual_results: list[Result]) -> None:
    results = [*map(small, ALL_SECTIONS), *unusual_results]
    sections = every_section()
    assert [each.name for each in sections if not any(blocks_of(each, result) for result in results)] == []


@pytest.mark.parametrize("study", ALL_SECTIONS)
def test_report_can_be_rebuilt_from_result_json(study: str) -> None:
    result = small(study)
    again = Result.model_validate_json(result.model_dump_json())
    assert render_markdown(again) == render_markdown(result)


@pytest.fixture
def unusual_results(tmp_path: Path) -> list[Result]:
    """Return results whose reports have sections that no ordinary run has, such as "memory" or "carry-over"."""
    plan = plan_of("mongodb-tls", limits=[("query on open connection", "+10%")])
    noisy = fake_run(tmp_path / "noisy", plan.model_copy(update={"memory": CONNECTIONS}), Truth(), noise=Noise(0.1))
    for record in memory_steps("plain", 4_000) + memory_steps("tls", 20_000):
        noisy.append(record)
    carried = CarryOver(metric="wire.reused_query", ratio=Estimate(value=1.4, low=1.3, high=1.5, rounds=8))
    refused = dict.fromkeys(("plain", "plain-copy"), "the server requires TLS")
    two_handshakes = plan_of("postgres-tls", "quick", "transport=plain,tls", "group=first-choice")
    loads = plan_of("postgres-tls", load=RequestedLoad("100/s,300/s", pool="8"))
    versions = plan_of("postgres-tls", "quick", "server_version=15,18")
    return [
        analyse(noisy).model_copy(update={"carry_over": [carried]}),
        fake_result(plan_of("mongodb-tls"), Stalling(5.0), rounds=60),
        fake_result(plan_of("redis-tls", "quick", "distance=2", target="shown"), Truth()),
        fake_result(two_handshakes, PostgresTruth(), refused=refused),
        fake_result(versions, Truth(), rounds=6),
        fake_result(loads, AtLoad()),
        at_load(),
        mongodb(),
        analyse(fake_sweep(tmp_path / "sweep", {"plain": 500.0, "tls": 400.0})),
        analyse(fake_run_of_hosts(tmp_path, plan_of("redis-tls"), {"load-2": 1.2})),
    ]


def blocks_of(section: Section[Any, Any], result: Result) -> list[Block]:
    data = getattr(result.sections, section.name, None)
    if section.data is not None and data is None:
        return []
    return [block for part in section.parts(Index(result, answer=result.answer), data) for block in part.blocks]


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"mitigation": {}}, "unknown sections ['mitigation']"),
        (
            {"mitigations": {"metric": "wire.speed", "factors": ["key"]}},
            "sections.mitigations: unknown metrics ['wire.speed']",
        ),
        (
            {"mitigations": {"metric": "wire.request", "factor": ["key"]}},
            "sections.mitigations.factors: Field required",
        ),
        ({"break_even": [{"view": "wire"}]}, "sections.break_even.0.connection: Field required"),
    ],
)
def test_study_with_invalid_settings_of_a_report_section_is_rejected(sections: dict[str, object], message: str) -> None:
    study = load_study("http-tls-termination").model_copy(update={"sections": sections})
    with pytest.raises(CostofError) as caught:
        check(study)
    assert caught.value.message is ErrorText.BROKEN_STUDY
    assert message in str(caught.value)
