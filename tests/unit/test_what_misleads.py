"""What a mean alone would hide, each in a run whose truth is known: failures, costs that come and go, tails."""

from __future__ import annotations

from pathlib import Path

import pytest

from costof.report import analyse, render_markdown
from costof.report.result import Result
from costof.report.sections.intermittent import Intermittent
from costof.report.sections.tails import Tails
from costof.statistics.estimate import Verdict
from tests.fake_run import Truth, fake_run
from tests.noise import Noise
from tests.support.small_plans import plan_of
from tests.truths.misleading import Failing, LongTail, NeverPlain, Stalling

STUDY, QUERY = "mongodb-tls", "wire.reused_query"


def result_of(folder: Path, truth: Truth, rounds: int = 12) -> Result:
    return analyse(fake_run(folder / "run", plan_of(STUDY), truth, rounds=rounds, noise=Noise(0.02)))


def cautions(result: Result) -> str:
    return " ".join(sentence.text for sentence in result.answer if sentence.kind == "caution")


def test_an_arm_that_fails_more_than_its_control_is_named_in_the_answer(tmp_path: Path) -> None:
    result = result_of(tmp_path, Failing({"tls"}, 0.5))
    found = {each.arm: each for each in result.failures}
    assert found.keys() == {"plain", "plain-twin", "tls"}
    assert found["tls"].share == pytest.approx(1 / 3)
    assert found["tls"].fails_more
    assert not found["plain-twin"].fails_more
    assert "33\N{NO-BREAK SPACE}% of the operations of 'wire_query' failed with TLS" in cautions(result)
    assert "percentage points more than with its control" in cautions(result)
    assert "Failures" in render_markdown(result)


def test_errors_before_and_within_the_figures_are_counted_apart(tmp_path: Path) -> None:
    result = result_of(tmp_path, Failing({"tls"}, 0.5))
    (check,) = (each for each in result.sections.checks if each.label == "nothing failed")
    within = sum(each.failed for each in result.failures)
    before = sum(each.count for each in result.errors) - within
    assert before > 0
    assert check.but == f"{within:,} errors and {before:,} errors in warm-up or discarded slices"


def test_what_all_arms_fail_alike_is_said_without_a_difference(tmp_path: Path) -> None:
    text = cautions(result_of(tmp_path, Failing({"plain", "plain-twin", "tls"}, 0.05)))
    assert text.count("of the operations of 'wire_query' failed with") == 2
    assert "percentage points" not in text


def test_slices_without_a_success_end_no_analysis(tmp_path: Path) -> None:
    """One of them was a traceback of the cost model."""
    result = result_of(tmp_path, Failing({"tls"}, wholly=True))
    assert "failed with TLS" in cautions(result)
    effect = next(each for each in result.effects if (each.metric, each.arm) == (QUERY, "tls"))
    assert effect.rounds < result.rounds
    assert render_markdown(result)


def test_a_control_that_always_fails_is_no_base(tmp_path: Path) -> None:
    """It counted as 0, and every arm as an endless gain over it."""
    result = result_of(tmp_path, NeverPlain())
    assert not [effect for effect in result.effects if effect.metric == QUERY]
    assert "100\N{NO-BREAK SPACE}% of the operations of 'wire_query' failed with" in cautions(result)


def test_no_failures_no_section(tmp_path: Path) -> None:
    result = result_of(tmp_path, Truth())
    assert not result.failures
    assert "Failures" not in render_markdown(result)
    assert result.sections.intermittent is None  # type: ignore[attr-defined]


@pytest.mark.parametrize("times", [2.0, 50.0])
def test_a_cost_that_comes_and_goes_is_named_and_never_called_none(tmp_path: Path, times: float) -> None:
    """The trimmed mean called it no cost in three of four runs."""
    result = result_of(tmp_path, Stalling(times), rounds=60)
    effect = next(each for each in result.effects if (each.metric, each.arm) == (QUERY, "tls"))
    assert effect.verdict in (Verdict.COSTS, Verdict.UNRESOLVED)
    assert effect.difference.value == pytest.approx((times - 1) / 10, rel=0.1)
    assert effect.usual.high < 0.05
    found = result.sections.intermittent  # type: ignore[attr-defined]
    assert isinstance(found, Intermittent)
    (each,) = [each for each in found.found if each.metric == QUERY]
    assert (each.arm, each.slices, each.of, each.usual) == ("tls", 6, 60, 0)
    assert each.times == pytest.approx(times, rel=0.1)
    assert "comes and goes" in cautions(result)


def test_a_tail_is_told_beside_a_mean_that_knows_nothing_of_it(tmp_path: Path) -> None:
    result = result_of(tmp_path, LongTail(), rounds=30)
    tails = result.sections.tails  # type: ignore[attr-defined]
    assert isinstance(tails, Tails)
    of_query = {each.percentile: each for each in tails.found if (each.metric, each.arm) == (QUERY, "tls")}
    assert of_query.keys() == {50.0, 95.0, 99.0}
    assert of_query[50.0].ratio.high < 1
    assert of_query[99.0].ratio.low > 1.5
    assert [each.percentile for each in tails.untold if each.metric == QUERY] == [99.9]
    words = " ".join(sentence.text for sentence in result.answer if sentence.kind == "detail")
    assert "The p99 of 'reused query'" in words


def test_what_few_operations_pay_is_named_with_how_many_they_are(tmp_path: Path) -> None:
    result = result_of(tmp_path, LongTail(), rounds=30)
    found = result.sections.intermittent  # type: ignore[attr-defined]
    assert isinstance(found, Intermittent)
    assert found.found == []
    (slow,) = found.slow
    assert (slow.metric, slow.arm) == (QUERY, "tls")
    assert slow.share == pytest.approx(0.24, abs=0.01), "six of the 21 steps in which times are recorded"
    assert slow.usual < 0.05
    assert "Some operations pay far more for TLS 1.3" in cautions(result)
    assert "Slow operations" in render_markdown(result)
