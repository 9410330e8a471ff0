"""The summary at the top of a report: verdict, certainty, best mitigation, and key figures.

The golden files of the short answers in `golden/short` have the summaries of all studies.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

from costof import format as fmt
from costof.report import document, render_markdown
from costof.report.handout import card
from costof.report.how_sure import Check, how_sure
from costof.report.key_figures import CORES, KeyFigure, first_of_each_arm
from costof.report.sections import section_spec
from costof.report.sections.mitigations import SECTION as MITIGATIONS
from costof.report.summary import NO_MITIGATION, REDUCES_COST, summary
from costof.report.verdict_sentence import verdict_figures, verdict_lines, verdict_sentence
from costof.results.index import Index
from costof.results.models import Sentence
from costof.statistics.estimate import Estimate, Verdict
from costof.studies import study_names
from costof.study.library import load_study
from tests.report.results import (
    DURABILITY,
    HTTP,
    at_load,
    drawn,
    mongodb,
    printed,
    result_of,
    small,
    spaced,
    stalled,
)
from tests.support.small_plans import plan_of


def estimate(value: float, half: float = 0.1) -> Estimate:
    return Estimate(value=value, low=value - half, high=value + half, rounds=9)


def figure(
    words: str, change: float = 5.0, verdict: Verdict = Verdict.COSTS, arm: str = "TLS", **changes: Any
) -> KeyFigure:
    names = dict.fromkeys(("name", "label", "words"), words) | dict.fromkeys(("arm", "arm_label"), arm)
    values = {**names, "unit": "ms", "metrics": [words], "margin": 0.05, **changes}
    return KeyFigure(difference=estimate(change), verdict=verdict, **values)


def text(*figures: KeyFigure) -> str:
    return spaced(verdict_sentence(figures))


def test_verdict_says_that_a_time_is_shortened_or_a_rate_is_lowered_or_raised() -> None:
    rate = {"unit": "per_second", "better": "higher"}
    assert text(figure("a connection", -3.0, Verdict.SAVES, "a pool")) == "A pool shortens a connection by 3.00 ms."
    slower = figure("'queries a second'", -30.0, ratio=estimate(0.7, 0.01), **rate)
    assert text(slower) == "TLS lowers 'queries a second' by 30.0 %."
    faster = figure("'queries a second'", 30.0, Verdict.SAVES, ratio=estimate(1.3, 0.01), **rate)
    assert text(faster) == "TLS raises 'queries a second' by 30.0 %."


def test_verdict_states_how_many_more_cores_the_server_uses_with_a_protection() -> None:
    cores = figure("cores of the server", 0.4, unit=CORES, without=1.05, value=1.45)
    assert text(cores) == "TLS needs 0.40 more cores of the server (1.05 → 1.45 cores)."


def test_arms_with_equal_effects_share_one_clause_of_the_verdict() -> None:
    same = [figure("a query", 0.0, Verdict.NO_DIFFERENCE, arm) for arm in ("one", "two")]
    other = figure("a query", 2.0, arm="three")
    assert text(*same, other) == "One and two make no difference above 5 % to a query; three adds 2.00 ms to a query."


def test_verdict_states_the_rate_instead_of_the_used_cores_if_the_rate_fell_by_half() -> None:
    ratio = Estimate(value=0.4, low=0.39, high=0.41, rounds=9)
    times, cores = [figure("a connection"), figure("a read")], figure(CORES, unit=CORES)
    rate = figure("reads a second", -90.0, unit="per_second", better="higher", ratio=ratio)
    small_loss = rate.model_copy(update={"ratio": ratio.through(lambda each: each * 2)})
    assert verdict_figures([*times, cores, rate], 3) == [*times, rate]
    assert verdict_figures([*times, cores, small_loss], 3) == [*times, cores]


def test_verdict_on_several_protections_has_a_line_with_an_interval_for_each() -> None:
    lines = verdict_lines([figure("a query", float(change), arm=f"arm {change}") for change in range(1, 7)])
    assert [*map(spaced, lines)] == [
        "Arm 1 adds 1.00 ms (95 % interval 0.90 to 1.10) to a query.",
        "Arm 2 adds 2.00 ms (1.90 to 2.10) to a query.",
        "Arm 3 adds 3.00 ms (2.90 to 3.10) to a query.",
        "Arm 4 adds 4.00 ms (3.90 to 4.10) to a query.",
        "2 more protections are in the tables of the report.",
    ]


def test_verdict_on_two_protections_has_a_second_figure_of_each_unless_it_is_unresolved() -> None:
    rate = {"unit": "per_second", "better": "higher", "ratio": estimate(0.7, 0.01)}
    verdicts = {"a flush": Verdict.COSTS, "a copy": Verdict.UNRESOLVED}
    figures = [
        each
        for arm, verdict in verdicts.items()
        for each in (figure("a write", arm=arm), figure("'writes a second'", -30.0, verdict, arm, **rate))
    ]
    assert [*map(spaced, verdict_lines(figures))] == [
        "A flush adds 5.00 ms (95 % interval 4.90 to 5.10) to a write, and lowers 'writes a second' by 30.0 % (29.0 to "
        "31.0).",
        "A copy adds 5.00 ms (4.90 to 5.10) to a write.",
    ]


@pytest.mark.parametrize("study", DURABILITY)
def test_answer_of_a_durability_study_names_the_cost_of_each_protection_on_a_small_terminal(study: str) -> None:
    result = result_of(study, "default")
    labels = [*Index(result).protections.values()]
    lines = result.summary.lines
    assert [line.partition(" adds ")[0] for line in lines] == [*map(fmt.capital, labels)]
    assert len(labels) > 2
    short, page = printed(result, 80, full=False), unescape(drawn(result))
    assert len(short.splitlines()) <= 30
    for line in lines:
        assert spaced(line) in " ".join(short.split())
        assert f"**{spaced(line)}**" in render_markdown(result).replace("\\", "")
        assert f"<p>{line}</p>" in page
    assert result.summary.verdict == " ".join(lines)


def test_each_quantity_has_a_table_if_there_are_more_protections_than_quantities() -> None:
    result = result_of("mongodb-durability", "default")
    rows = [line.strip() for line in printed(result, 80, full=False).splitlines() if line.endswith("costs")]
    assert len(rows) == len(result.summary.lines)
    assert "an operation" not in " ".join(rows)


def test_key_figures_of_many_replica_set_sizes_include_the_largest_and_half_of_it() -> None:
    sizes = [figure("'operations a second'", value, arm="chain") for value in (3.0, 7.0, 11.0, 15.0, 31.0)]
    shown = first_of_each_arm(sizes, 4)
    assert [each.difference.value for each in shown] == [3.0, 7.0, 15.0, 31.0]


def test_summary_names_an_outlying_round_and_gives_the_interval_without_it() -> None:
    result = stalled()
    figure = result.summary.figures[0]
    assert spaced(result.summary.rounds) == (
        "For a new connection, round 3 was far slower than the others (60 ms, in the other rounds 1.4 to 1.6 ms). "
        "Round 3 alone changes the mean effect of TLS (modern suite, rsa-2048) on a new connection from +1.3 ms to "
        "+9 ms. Without round 3, the 95 % interval of the mean effect on a new connection is 1.24 to 1.33 ms."
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


@pytest.mark.parametrize(
    ("mitigation", "is_shown"), [(f"{NO_MITIGATION}; to measure one, vary the pool.", False), ("a pool: −80 %.", True)]
)
def test_shortened_answer_mentions_mitigations_only_if_one_was_measured(mitigation: str, is_shown: bool) -> None:
    result = mongodb()
    changes = {"mitigation": mitigation, "sure": "limited: a doubt."}
    short = result.model_copy(update={"summary": result.summary.model_copy(update=changes)})
    doubts = {"sure": f"limited: {'a doubt; ' * 200}"}
    long = short.model_copy(update={"summary": short.summary.model_copy(update=doubts)})
    assert REDUCES_COST in printed(short, 80, full=False)
    assert (REDUCES_COST in printed(long, 80, full=False)) is is_shown


def test_report_calls_its_certainty_limited_if_a_failed_check_affects_a_figure() -> None:
    index, figures = Index(mongodb()), [figure("a read"), figure("a write")]
    failed = Check(passed=False, label="busy", doubt="the machine was 61 % busy", metrics=["a read"])
    assert (
        how_sure(index, figures, [failed])
        == "limited: the machine was 61 % busy, which affects the figures for a read."
    )
    every = failed.model_copy(update={"metrics": None})
    assert how_sure(index, figures, [every]) == "limited: the machine was 61 % busy, which affects every figure."
    other = failed.model_copy(update={"metrics": ["a third one"]})
    assert how_sure(index, figures, [other]).startswith("high: 10 rounds; the failed check (busy) affects none of")
    assert how_sure(index, figures, [Check(passed=True, label="quiet")]) == "high: 10 rounds, all checks passed."


def test_report_calls_its_certainty_low_if_all_key_figures_are_unresolved() -> None:
    index, unresolved = Index(mongodb()), figure("a read", verdict=Verdict.UNRESOLVED)
    low = how_sure(index, [unresolved, unresolved], [])
    assert low == "low: after 10 rounds, the effect on every key figure is unresolved."
    limited = how_sure(index, [unresolved, figure("a write")], [])
    assert limited == "limited: after 10 rounds, the effect on a read is unresolved."


def test_summary_names_arms_with_a_cost_before_unresolved_arms() -> None:
    index, rate = Index(mongodb()), {"unit": "per_second", "better": "higher", "ratio": estimate(0.9, 0.01)}
    arms = [
        figure(words, -30.0, verdict, arm, **changes)
        for arm, resolved in (("silent", Verdict.UNRESOLVED), ("all", Verdict.COSTS), ("writes", Verdict.UNRESOLVED))
        for words, verdict, changes in (("a read", Verdict.UNRESOLVED, {}), ("'reads a second'", resolved, rate))
    ]
    brief = summary(index, arms)
    assert spaced(brief.verdict) == (
        "All lowers 'reads a second' by 10.0 % (95 % interval 9.0 to 11.0). Silent and writes may change 'reads a "
        "second' by up to 30 /s (unresolved)."
    )
    assert how_sure(index, brief.figures, []) == (
        "limited: after 10 rounds, the effects on 'reads a second' (some variants) and a read are unresolved."
    )


@pytest.mark.parametrize("study", study_names())
def test_reports_recommend_a_valid_option_to_measure_mitigations(study: str) -> None:
    spec = section_spec(MITIGATIONS, load_study(study))
    if spec is not None:
        factor, _, levels = spec.measure.partition("=")
        assert factor in spec.factors
        plan = plan_of(study, "quick", spec.measure)
        assert {arm.levels[factor] for arm in plan.arms if factor in arm.levels} == set(levels.split(","))


def has_open_leg(study: str, levels: dict[str, str]) -> bool:
    """Return whether an arm with these levels sends plaintext between two hosts, such as pooler and server."""
    settings = load_study(study).arm_settings(levels)
    pool, proxies, balanced = (
        settings.lab.get("pool"),
        settings.lab.get("sidecars"),
        settings.lab.get("tls_at_balancer"),
    )
    encrypted = settings.speaks_tls or settings.lab.get("tunnel") or settings.lab.get("stunnel")
    encrypted = encrypted or (proxies or {}).get("mutual_tls")
    to_server = not settings.target.get("pooler") and (pool is None or pool.get("server_tls"))
    return not (encrypted and to_server and (not balanced or settings.lab.get("tls_at_origin")))


TLS_STUDIES = [name for name in study_names() if "TLS" in load_study(name).protection]


@pytest.mark.parametrize("study", TLS_STUDIES)
def test_study_marks_each_mitigation_that_leaves_traffic_between_hosts_unencrypted(study: str) -> None:
    loaded = load_study(study)
    spec = section_spec(MITIGATIONS, loaded)
    assert spec is not None
    main = loaded.main_factor
    if main not in spec.factors:
        return
    declared = {*spec.unprotected.get(main, []), *spec.gives_up.get(main, {})}
    for level in loaded.factors[main].levels:
        # The report itself detects levels without encryption at the clients. A study must declare other open legs.
        if level != loaded.control[main] and has_open_leg(study, {main: level}):
            settings = loaded.arm_settings({main: level})
            assert level in declared or (not settings.speaks_tls and "sidecars" not in settings.lab), level
    assert not [level for level in declared if not has_open_leg(study, {main: level})]


def test_report_says_which_connections_a_pooler_without_tls_on_both_sides_leaves_unencrypted() -> None:
    data = result_of("postgres-pooling").sections.mitigations
    assert data is not None
    parts = {each.arm.split("@")[0]: each.gives_up for each in data.mitigations}
    assert parts["transaction-both"] == ""
    assert parts["transaction-client"] == "TLS between the pooler and the server"
    assert parts["transaction-server"] == "the encryption of the clients' connections"


def test_summary_says_how_much_of_the_added_time_the_database_driver_takes() -> None:
    times = [figure("connect and first GET", 39.0, view="app"), figure("connection", 2.2, view="wire")]
    reason = spaced(summary(Index(mongodb()), times).why)
    assert reason == "37 ms of the 39.00 ms come from the application's driver; without it, 2.20 ms are added."


def test_summary_leaves_out_what_limits_a_rate_that_is_not_among_its_figures() -> None:
    limits = {rate: f"'{rate}' is limited by this machine's CPU." for rate in ("selects a second", "commits a second")}
    index = Index(mongodb())
    index.answer = [Sentence(kind="why", text=text, metric=rate) for rate, text in limits.items()]
    assert summary(index, [figure("commits a second")]).why == limits["commits a second"]
    assert not summary(index, [figure("a read")]).why


def test_page_and_markdown_and_terminal_show_the_same_lines_below_the_verdict() -> None:
    result = small(HTTP)
    handout = document(result).handout
    assert handout is not None
    page, markdown, short = drawn(result), render_markdown(result), printed(result, 80, full=False)
    words = re.sub(r"<[^>]+>", " ", card(handout))
    for label, line in result.summary.beside_verdict:
        assert f"<strong>{label}:</strong> {line}" in unescape(page)
        assert f"**{label}:** {spaced(line)}" in markdown.replace("\\", "")
        for shown in (short, unescape(words)):
            assert f"{label}: {spaced(line)}" in " ".join(spaced(shown).split())
