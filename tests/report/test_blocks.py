"""The parts of reports in Markdown and in the terminal, at the widths people have."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console

from costof import format as fmt
from costof.report import render_markdown
from costof.report.blocks import Cell, Column, Document, Part, Row, Table
from costof.report.markdown import escape
from costof.report.result import Result
from costof.report.terminal import render_terminal
from costof.results.models import Open, Sentence
from costof.statistics.estimate import Estimate, Verdict
from tests.fake_run import Truth, fake_result
from tests.report.results import (
    answered,
    empty,
    mongodb,
    printed,
    spaced,
    two_keys,
    with_error,
    with_sections,
    without_figures,
)
from tests.support.small_plans import plan_of
from tests.truths.mongodb_tls import PHASES

INTERVAL = re.compile(r"\[−?[\d.,]+, −?[\d.,]+\]")


def costs(markdown: str) -> str:
    return markdown[markdown.index("## What it costs") : markdown.index("## Why")]


@pytest.mark.parametrize("width", [76, 80, 100, 140])
def test_every_interval_is_whole(width: int) -> None:
    text = printed(mongodb(), width)
    intervals = INTERVAL.findall(costs(render_markdown(mongodb())))
    assert len(intervals) > 15
    assert not [each for each in intervals if each not in text]
    assert "…" not in text.replace("mongodb://…", "")


@pytest.mark.parametrize("width", [76, 77, 78, 80])
@pytest.mark.parametrize("digits", [4, 6, 8])
def test_a_heading_of_figures_is_folded_and_not_cut(width: int, digits: int) -> None:
    number = "1" * digits
    heads = ["PostgreSQL 17.5", "PostgreSQL 18.1", "difference", "relative"]
    columns = [Column("ms", "text"), *map(Column, heads), Column("verdict", "verdict")]
    figures = [Cell(number), Cell(number), Cell(f"+{number}", f"[{number}, {number}]"), Cell("+78 %", "[63, 95]")]
    row = Row([Cell("latency average"), *figures, Cell("costs", verdict=Verdict.COSTS)])
    console = Console(file=io.StringIO(), width=width)
    render_terminal(Document("", "", "", [Part("", "", [Table(columns, [row])])], ""), console)
    assert isinstance(console.file, io.StringIO)
    head = " ".join(console.file.getvalue().partition("──")[0].split())
    assert all(head.count(word) == 1 for word in ("17.5", "18.1", "difference", "relative"))
    assert head.count("PostgreSQL") == 2


def test_a_pipe_gets_neither_colours_nor_trailing_blanks() -> None:
    text = printed(mongodb())
    assert "\x1b" not in text
    assert not [line for line in text.splitlines() if line != line.rstrip()]
    assert "\x1b[" in printed(mongodb(), colour=True)


def test_a_console_without_unicode_gets_ascii() -> None:
    text = printed(mongodb(), 80, encoding="latin-1")
    assert text.isascii()
    assert re.search(r"\[-0\.\d+, 0\.\d+\]", text)
    assert re.search(r"3\.\d+x", text)


def test_partial_run_says_so_before_the_answer() -> None:
    text = printed(mongodb(partial="interrupted (Ctrl-C) in round 7"))
    assert text.index("PARTIAL RUN: interrupted (Ctrl-C) in round 7") < text.index("adds")
    assert "> **Partial run.** interrupted before the first round" in render_markdown(empty())


def test_runs_without_rounds_or_effects() -> None:
    assert "measured too little to answer the question" in printed(empty())
    for text in (printed(empty()), render_markdown(empty())):
        assert "No round was completed" in text
    for text in (printed(mongodb(effects=[])), render_markdown(mongodb(effects=[]))):
        assert "No arm could be compared" in text


def test_arm_in_error_is_named_with_its_reason() -> None:
    reason, arm = "tls_certificate_expired: valid until 2024-01-01", "tls-rsa-4096"
    result = with_error(two_keys(), arm, reason)
    assert f"TLS 1.3, rsa-4096 was measured in part only: {reason}" in printed(result, 140)
    nothing = without_figures(result, arm, reason)
    for text in (printed(nothing, 140), render_markdown(nothing)):
        assert f"TLS 1.3, rsa-4096 has no figures: {reason}" in text


def with_needed(seconds: float | None) -> Result:
    """All unresolved."""
    why = Open(needed_seconds=seconds, between_rounds=0.12, smallest=0.08, within_noise=False)
    return with_effects(verdict=Verdict.UNRESOLVED, open=why)


def with_effects(**changes: Any) -> Result:
    return mongodb(effects=[each.model_copy(update=changes) for each in mongodb().effects])


def test_unresolved_names_the_time_it_needs() -> None:
    assert "unresolved; about 10 min more" in spaced(printed(with_needed(600.0), 140))
    (advice,) = answered(with_needed(600.0), "next")
    assert advice.startswith("Measure for about 10 min more (--budget) to resolve ")


def test_what_cannot_be_resolved_says_why_and_what_would_help() -> None:
    noisy = with_needed(None)
    assert "unresolved; too noisy" in printed(noisy, 140)
    assert " h more" not in printed(noisy, 140)
    (advice,) = answered(noisy, "next")
    assert " would stay unresolved even with 10 times the budget." in advice
    assert "The smallest effect that this run could detect is 8.0 %" in advice
    assert "because rounds differ by 12 % (standard deviation)." in advice
    assert "Measure on an idle machine, or use longer slices (--profile default)." in advice
    headline = {metric.name for metric in noisy.metrics if metric.headline}
    worst = max(e.ratio.high for e in noisy.effects if e.ratio is not None and e.metric in headline)
    assert f"A cost above {100 * (worst - 1):.1f} % is unlikely" in advice


def test_an_effect_that_is_there_and_within_the_noise_is_said_to_be() -> None:
    why = Open(needed_seconds=60.0, between_rounds=0.12, smallest=0.08, within_noise=True)
    ratio = Estimate(value=1.05, low=1.02, high=1.08, rounds=10)
    text = printed(with_effects(verdict=Verdict.UNRESOLVED, open=why, ratio=ratio), 140)
    assert "unresolved; within the noise" in text
    told = answered(with_effects(verdict=Verdict.UNRESOLVED, open=why, ratio=ratio), "answer")
    _, *costs = told
    assert costs
    assert all("within this run's noise" in sentence for sentence in costs)
    wide = ratio.model_copy(update={"low": 0.98})
    text = printed(with_effects(verdict=Verdict.UNRESOLVED, open=why, ratio=wide), 140)
    assert "unresolved; about 60 s more" in spaced(text), "its own interval says why"


def test_without_published_figures() -> None:
    for text in (printed(mongodb(published=None)), render_markdown(mongodb(published=None))):
        assert "ublished" not in text


def test_errors_warnings_and_cautions() -> None:
    warnings = [Sentence(kind="warning", text="The load generator was the limit.")]
    text = printed(mongodb(warnings=["Steal was 4 %.", "a [bold red]not[/] b"], answer=warnings), 140)
    assert re.search(
        r"\d+ × timeout in '[^']+' with tls; the first: no answer within 10,000 ms in auth", " ".join(text.split())
    )
    assert "Steal was 4 %." in text
    assert "[bold red]not[/]" in text, "markup in words is printed as it stands"
    assert "Warning: The load generator was the limit." in text


def test_every_table_in_markdown_has_as_many_cells_in_each_row() -> None:
    tables = [block.splitlines() for block in render_markdown(two_keys()).split("\n\n") if block.startswith("|")]
    assert len(tables) >= 5
    for rows in tables:
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1, rows[0]


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a|b", "a\\|b"),
        ("<script>", "\\<script\\>"),
        ("two\nlines", "two lines"),
        ("*x* `y`", "\\*x\\* \\`y\\`"),
        ("[a](http://b)", "[a\\](http://b)"),
        ("1.9 ms [1.8, 2.0]", "1.9 ms [1.8, 2.0]"),
        ("snake_case _x_", "snake_case \\_x\\_"),
        ("# no heading", "\\# no heading"),
    ],
)
def test_words_of_others_are_no_markup(text: str, escaped: str) -> None:
    assert escape(text) == escaped
    assert fmt.NBSP not in render_markdown(mongodb())


def test_what_the_wire_explains_has_an_interval_or_is_said_not_to_be_known() -> None:
    (each,) = mongodb().sections.phases
    true = PHASES["wire_connect"]["connect_and_first_operation"].tls_ms
    true /= PHASES["app_connect"]["connect_and_first_operation"].tls_ms
    assert each.share is not None
    assert each.share.low <= true <= each.share.high
    (said,) = answered(mongodb(), "explanation")
    assert f"({spaced(fmt.percentage(each.share))})" in said
    unknown = with_sections(mongodb(), phases=[each.model_copy(update={"share": None})])
    (said,) = answered(unknown, "explanation")
    assert "share unresolved" in said


def test_a_budget_for_too_few_rounds_is_all_that_is_told() -> None:
    (said,) = fake_result(plan_of("mongodb-tls"), Truth(), rounds=3).answer
    assert said.text.startswith("Only 3 rounds fitted into the budget; an answer needs at least 5. Measure for ")
    asked = plan_of("mongodb-tls").model_copy(update={"most_rounds": 3, "precision": None})
    assert len(fake_result(asked, Truth(), rounds=3).answer) > 1
