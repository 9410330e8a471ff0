"""The summary's verdict: one sentence about the key figures of each arm."""

from __future__ import annotations

from typing import Any

import pytest

from costof import format as fmt
from costof.report.summary import CORES, KeyFigure, first_of_each_arm, verdict_sentence
from costof.statistics.estimate import Estimate, Verdict
from costof.study.load import CONNECTION, FIRST_QUERY, RequestedLoad
from tests.report.results import at_load, printed, spaced, stalled


def estimate(value: float, half: float = 0.1) -> Estimate:
    return Estimate(value=value, low=value - half, high=value + half, rounds=9)


def figure(arm: str, words: str, value: float, verdict: Verdict = Verdict.COSTS, **changes: Any) -> KeyFigure:
    changes = {"unit": "ms", "margin": 0.05, **changes}
    return KeyFigure(
        name=words,
        arm=arm,
        arm_label=arm,
        label=words,
        words=words,
        difference=estimate(value),
        verdict=verdict,
        **changes,
    )


def text(*figures: KeyFigure) -> str:
    return verdict_sentence(figures).replace("\N{NO-BREAK SPACE}", " ")


def test_verdict_on_a_single_arm_names_the_first_three_figures() -> None:
    figures = [
        figure("TLS", "a connection", 5.5, ratio=estimate(1.54, 0.02)),
        figure("TLS", "a query", 0.5),
        figure("TLS", "cores at 100 connections a second", 0.6, unit=CORES),
        figure("TLS", "a fourth figure", 9.0),
    ]
    expected = "TLS adds 5.50 ms (+54.0 %) to a connection and 0.50 ms to a query, and needs 0.60 more cores at 100 "
    assert text(*figures) == f"{expected}connections a second."


def test_verdict_on_savings_and_rates_has_the_direction_in_its_verb() -> None:
    rate = {"unit": "per_second", "better": "higher"}
    assert text(figure("a pool", "a connection", -3.0, Verdict.SAVES)) == "A pool shortens a connection by 3.00 ms."
    slower = figure("TLS", "'queries a second'", -30.0, ratio=estimate(0.7, 0.01), **rate)
    assert text(slower) == "TLS lowers 'queries a second' by 30.0 %."
    faster = figure("TLS", "'queries a second'", 30.0, Verdict.SAVES, ratio=estimate(1.3, 0.01), **rate)
    assert text(faster) == "TLS raises 'queries a second' by 30.0 %."


def test_verdict_names_the_cores_before_and_after_and_those_of_a_shared_machine() -> None:
    cores = figure("TLS", "cores of the server", 0.4, unit=CORES).model_copy(update={"without": 1.05, "value": 1.45})
    assert text(cores) == "TLS needs 0.40 more cores of the server (1.05 → 1.45 cores)."
    shared = cores.model_copy(update={"available": 2})
    of = "1.05 → 1.45 of this machine's 2, which the client shares"
    assert text(shared) == f"TLS needs 0.40 more cores of the server ({of})."


def test_verdict_calls_an_unresolved_effect_unresolved_and_gives_an_upper_bound() -> None:
    unresolved = figure("TLS", "a query", 0.05, Verdict.UNRESOLVED)
    assert text(unresolved) == "TLS has an unresolved effect of at most 0.15 ms on a query."


def test_arms_with_equal_effects_share_one_clause_of_the_verdict() -> None:
    same = [figure(arm, "a query", 0.0, Verdict.NO_DIFFERENCE) for arm in ("one", "two")]
    other = figure("three", "a query", 2.0)
    assert text(*same, other) == "One and two make no difference above 5 % to a query; three adds 2.00 ms to a query."


def test_increase_of_a_rate_is_called_a_gain_and_not_a_saving() -> None:
    faster = figure("TLS", "'queries a second'", 30.0, Verdict.SAVES, unit="per_second", better="higher")
    assert faster.verdict_word == "gains"
    assert figure("a pool", "a connection", -3.0, Verdict.SAVES).verdict_word == "saves"


def test_first_figures_of_one_metric_at_many_sizes_include_those_of_the_largest_sizes() -> None:
    sizes = [figure("chain", "'operations a second'", value) for value in (3.0, 7.0, 11.0, 15.0, 31.0)]
    shown = first_of_each_arm(sizes, 4)
    assert [each.difference.value for each in shown] == [3.0, 7.0, 15.0, 31.0]


def test_load_of_one_query_per_connection_has_the_time_of_the_first_query_as_a_key_figure() -> None:
    names = [figure.name for figure in at_load(load=RequestedLoad("300/s", "1")).summary.figures]
    assert names == [CONNECTION, FIRST_QUERY, CORES]


def test_answer_names_the_round_that_dominates_a_mean_and_its_figures_fit_each_other() -> None:
    result = stalled()
    figure = result.summary.figures[0]
    assert spaced(result.summary.rounds) == (
        "Round 3 was far slower than the others (60 ms instead of 1.4 to 1.6 ms): it raises the mean of a new "
        "connection from +1.3 ms to +9 ms. Without it, the 95 % interval would be 1.24 to 1.33 ms."
    )
    assert figure.verdict is Verdict.UNRESOLVED
    assert figure.ratio is not None
    assert figure.without is not None
    assert figure.value == pytest.approx(figure.ratio.value * figure.without)
    assert "because round 3 makes the interval include 0" in " ".join(printed(result).split())


def test_wide_terminal_prints_the_ends_of_intervals_beside_their_bars() -> None:
    result = at_load()
    wide, narrow = (printed(result, width, full=False) for width in (96, 80))
    ends = [fmt.absolute(figure.difference).interval for figure in result.summary.figures]
    assert [end in wide for end in ends] == [True] * len(ends)
    assert not [end for end in ends if end in narrow]
    assert max(map(len, wide.splitlines())) <= 96
