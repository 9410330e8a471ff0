"""The lines below the verdict: how sure it is, and what wins the cost back. They are the same wherever it is shown."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

from costof.report import document, render_markdown
from costof.report.handout import card
from costof.report.how_sure import Check, how_sure
from costof.report.sections import every_section, section_spec
from costof.report.summary import CORES, KeyFigure, verdict_figures
from costof.results.index import Index
from costof.statistics.estimate import Estimate, Verdict
from costof.studies import study_names
from costof.study.library import load_study
from tests.report.results import HTTP, POSTGRES, REPLICATION, TRANSPORT, drawn, mongodb, printed, result_of, spaced
from tests.report.test_reports import small
from tests.support.small_plans import plan_of
from tests.truths import TRUTHS


def figure(name: str, value: float = 5.0, verdict: Verdict = Verdict.COSTS, **changes: Any) -> KeyFigure:
    difference = Estimate(value=value, low=value - 0.1, high=value + 0.1, rounds=9)
    values = {"arm": "tls", "arm_label": "TLS", "unit": "ms", "metrics": [name], **changes}
    return KeyFigure(name=name, label=name, words=name, difference=difference, verdict=verdict, **values)


def flat(text: str) -> str:
    return " ".join(spaced(text).split())


@pytest.mark.parametrize("study", TRUTHS)
def test_each_study_says_how_sure_its_answer_is_and_what_wins_the_cost_back(study: str) -> None:
    labels, texts = zip(*small(study).summary.beside_verdict, strict=True)
    assert labels == ("How sure", "What wins it back")
    assert re.match("(high|limited|low): ", texts[0])
    assert all(
        text.endswith(".") and len(text) <= 200 and ";" not in text.partition("; to measure")[0] for text in texts[1:]
    )


@pytest.mark.parametrize("study", [HTTP, POSTGRES, REPLICATION])
def test_page_card_markdown_and_terminal_have_the_same_lines(study: str) -> None:
    result = small(study)
    handout = document(result).handout
    assert handout is not None
    page, markdown, short = drawn(result), render_markdown(result), printed(result, 80, full=False)
    words = flat(unescape(re.sub(r"<[^>]+>", " ", card(handout))))
    for label, text in result.summary.beside_verdict:
        assert f"<strong>{label}:</strong> {text}" in unescape(page)
        assert f"**{label}:** {spaced(text)}" in markdown.replace("\\", "")
        assert all(f"{label}: {flat(text)}" in shown for shown in (flat(short), words))


@pytest.mark.parametrize("study", study_names())
def test_option_that_measures_a_mitigation_is_valid(study: str) -> None:
    mitigations = next(section for section in every_section() if section.name == "mitigations")
    spec = section_spec(mitigations, load_study(study))
    if spec is not None:
        assert spec.measure
        factor, _, levels = spec.measure.partition("=")
        assert factor in spec.factors
        plan = plan_of(study, "quick", spec.measure)
        assert {arm.levels[factor] for arm in plan.arms if factor in arm.levels} == set(levels.split(","))


def test_run_without_a_mitigation_names_the_option_that_measures_one() -> None:
    text = "this run measured no mitigation; to measure one (server's key), add --set key=rsa-2048,ecdsa-p256."
    assert mongodb().summary.mitigation == text
    with_key = result_of("mongodb-tls", "quick", "key=rsa-2048,ecdsa-p256").summary.mitigation
    assert re.fullmatch(r"an ECDSA key saves \S+ ms of the \S+ ms added to a new connection\.", spaced(with_key))


def test_time_at_a_distance_that_was_measured_is_the_measured_one() -> None:
    result = small(TRANSPORT)
    shown = result.summary.figures[0]
    effect = next(each for each in result.effects if (each.metric, each.arm) == ("wire.connect", "tls@us-us"))
    assert (shown.words, shown.difference, shown.note) == (
        "a new connection 45\N{NO-BREAK SPACE}ms away",
        effect.difference,
        "",
    )


def test_certainty_is_limited_by_a_failed_check_that_touches_a_figure() -> None:
    index, figures = Index(mongodb()), [figure("a read"), figure("a write")]
    failed = Check(passed=False, label="busy", doubt="the machine was 61 % busy", metrics=["a read"])
    assert how_sure(index, figures, [failed]) == "limited: the machine was 61 % busy, which affects a read."
    every = failed.model_copy(update={"metrics": None})
    assert how_sure(index, figures, [every]) == "limited: the machine was 61 % busy, which affects every figure."
    other = failed.model_copy(update={"metrics": ["a third one"]})
    assert how_sure(index, figures, [other]).startswith("high: 10 rounds; the failed check (busy) affects none of")
    assert how_sure(index, figures, [Check(passed=True, label="quiet")]) == "high: 10 rounds, all checks passed."


def test_certainty_is_low_if_no_figure_has_a_verdict() -> None:
    index, unresolved = Index(mongodb()), figure("a read", verdict=Verdict.UNRESOLVED)
    assert how_sure(index, [unresolved, unresolved], []) == "low: 10 rounds leave every figure unresolved."
    assert how_sure(index, [unresolved, figure("a write")], []) == "limited: 10 rounds leave a read unresolved."


def test_verdict_names_a_halved_rate_before_the_cores() -> None:
    ratio = Estimate(value=0.4, low=0.39, high=0.41, rounds=9)
    times, cores = [figure("a connection"), figure("a read")], figure(CORES, unit=CORES)
    rate = figure("reads a second", -90.0, unit="per_second", better="higher", ratio=ratio)
    small_loss = rate.model_copy(update={"ratio": ratio.through(lambda each: each * 2)})
    assert verdict_figures([*times, cores, rate], 3) == [*times, rate]
    assert verdict_figures([*times, cores, small_loss], 3) == [*times, cores]


def test_time_in_the_application_leads_if_it_is_larger() -> None:
    result = mongodb()
    application, wire = result.summary.figures[:2]
    assert (application.view, wire.view) == ("app", "wire")
    assert application.difference.low > wire.difference.high
    assert "in the application and" in result.summary.verdict
    assert "a new connection on the wire" in result.summary.verdict
