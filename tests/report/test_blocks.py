"""Reports in Markdown and on terminals of common widths, and reports about unusual runs."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from costof import format as fmt
from costof.report import render_markdown
from costof.report.blocks import Cell, Column, Document, Part, Row, Table
from costof.report.markdown import escape
from costof.report.result import Result, Sections
from costof.report.sections.next_steps import next_lines
from costof.report.terminal import render_terminal
from costof.results.index import Index
from costof.results.models import Sentence, Unresolved
from costof.statistics.estimate import Estimate, Verdict
from tests.fake_run import Truth, fake_result
from tests.report.results import (
    HTTP,
    SERVICE,
    Page,
    answer_texts,
    drawn,
    empty,
    mongodb,
    printed,
    small,
    spaced,
    transport,
    two_keys,
    with_error,
    with_sections,
    without_figures,
)
from tests.support.small_plans import plan_of
from tests.truths.mongodb_tls import PHASES

INTERVAL = re.compile(r"\[−?[\d.,]+, −?[\d.,]+\]")


def costs(markdown: str) -> str:
    """Return the tables of costs from a report in Markdown. Lists are left out, as on a terminal."""
    part = markdown.split("## What it costs")[1].split("\n## ")[0]
    return "\n".join(line for line in part.splitlines() if not line.startswith("- "))


@pytest.mark.parametrize(
    ("result", "widths"), [(mongodb, (76, 100, 140)), (lambda: small(HTTP), (80,)), (lambda: small(SERVICE), (80,))]
)
def test_terminal_never_breaks_an_interval_across_lines(result: Callable[[], Result], widths: Sequence[int]) -> None:
    intervals = INTERVAL.findall(costs(render_markdown(result())))
    assert len(intervals) > 15
    for width in widths:
        text = printed(result(), width)
        assert not [each for each in intervals if each not in text]
        assert "…" not in text.replace("mongodb://…", "")


@pytest.mark.parametrize("width", [76, 80])
@pytest.mark.parametrize("digits", [4, 8])
def test_headings_of_figures_are_wrapped_and_not_cut_off(width: int, digits: int) -> None:
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


def test_output_to_a_pipe_has_no_colours_and_no_trailing_blanks() -> None:
    text = printed(mongodb())
    assert "\x1b" not in text
    assert not [line for line in text.splitlines() if line != line.rstrip()]
    assert "\x1b[" in printed(mongodb(), colour=True)


def test_terminal_without_unicode_gets_ascii() -> None:
    text = printed(mongodb(), 80, encoding="latin-1")
    assert text.isascii()
    assert re.search(r"\[-0\.\d+, 0\.\d+\]", text)
    assert re.search(r"x3\.\d+", text)


def test_report_says_that_a_run_is_partial_before_it_states_costs() -> None:
    text = printed(mongodb(partial="interrupted (Ctrl-C) in round 7"))
    assert text.index("PARTIAL RUN: interrupted (Ctrl-C) in round 7") < text.index("adds")
    assert "> **Partial run.** interrupted before the first round" in render_markdown(empty())
    assert "Partial run:" in drawn(empty())


def test_report_of_a_run_without_rounds_or_effects_says_why_there_are_no_costs() -> None:
    assert "measured too little to answer the question" in printed(empty())
    for text in (printed(empty()), render_markdown(empty()), drawn(empty())):
        assert "No round was completed" in text
    alone = mongodb(effects=[], noise_floor=[], published=None, sections=Sections())
    for text in (printed(alone), render_markdown(alone), Page(drawn(alone)).text):
        assert "No variant could be compared" in text
        assert "ublished" not in text, "a mention of figures from the literature, of which this result has none"


def test_error_of_an_arm_is_reported_with_its_distance_and_reason() -> None:
    reason, arm = "tls_certificate_expired: valid until 2024-01-01", "tls@us-eu"
    label = "TLS (modern suite, rsa-2048) between the US and Europe"
    partly = " ".join(printed(with_error(transport(), arm, reason)).split())
    assert f"{label} was only partly measured: {reason}" in partly
    nothing = without_figures(transport(), arm, reason)
    for text in (printed(nothing), render_markdown(nothing), drawn(nothing)):
        assert f"{label} has no figures: {reason}" in " ".join(text.split())


def with_needed(seconds: float | None) -> Result:
    """Return a result without any verdict. `seconds` is the additional time that a verdict needs; None if unknown."""
    why = Unresolved(
        needed_seconds=seconds, deviation_between_rounds=0.12, smallest_detectable=0.08, within_noise=False
    )
    return with_effects(verdict=Verdict.UNRESOLVED, unresolved=why)


def with_effects(**changes: Any) -> Result:
    return mongodb(effects=[each.model_copy(update=changes) for each in mongodb().effects])


def test_report_says_how_long_to_measure_to_resolve_an_effect() -> None:
    assert "unresolved; about 10 min more" in spaced(printed(with_needed(600.0), 140))
    (advice,) = answer_texts(with_needed(600.0), "next")
    longer = "--resume … --budget 20m, which includes the time so far"
    assert advice.startswith(f"Measure for about 10 min more ({longer}) to get a verdict on ")
    # A run with a fixed number of rounds cannot be resumed.
    (advice,) = answer_texts(with_needed(600.0).model_copy(update={"resumable_rounds": 0}), "next")
    assert advice.startswith("Measure for about 10 min more (--rounds 370) to get a verdict on ")


@pytest.mark.parametrize(
    ("seconds", "changes", "command"),
    [
        (50.0, {}, "costof run --resume 'runs/a b' --budget 2m"),
        (20.0, {"budget_seconds": 45.0, "hosts": "db:1"}, "costof run --resume 'runs/a b' --budget 1m --hosts db:1"),
        (50.0, {"budget_seconds": 600.0}, "costof run --resume 'runs/a b' --budget 15m"),
        (50.0, {"budget_seconds": 600.0, "partial": "interrupted"}, "costof run --resume 'runs/a b'"),
        (None, {}, "Measure on a quieter machine, or with longer windows"),
    ],
)
def test_short_answer_with_unresolved_effects_ends_with_a_next_step(
    seconds: float | None, changes: dict[str, Any], command: str
) -> None:
    result = with_needed(seconds).model_copy(update=changes)
    figures = result.summary.figures
    unresolved = [each.model_copy(update={"verdict": Verdict.UNRESOLVED}) for each in figures]
    result = result.model_copy(update={"summary": result.summary.model_copy(update={"figures": unresolved})})
    (line,) = next_lines(Index(result), Path("runs/a b"), unresolved)
    assert line.startswith(command)
    *_, last = spaced(printed(result, 200, full=False)).split("Next")
    assert command.split("'")[0] in last
    assert bool(next_lines(Index(result), Path("run"), figures)) == (seconds is not None), "nothing unresolved in sight"


def test_advice_on_a_noisy_run_says_why_no_budget_resolves_its_effects() -> None:
    noisy = with_needed(None)
    assert "unresolved; too noisy" in printed(noisy, 140)
    assert " h more" not in printed(noisy, 140)
    (advice,) = answer_texts(noisy, "next")
    assert "Even 10 times the measuring time would not resolve the effects on " in advice
    assert re.search(
        r"In '.+, noise hides effects of up to 8.0 %: rounds differ by (up to )?12 % \(standard deviation\)\.", advice
    )
    assert "Measure on an idle machine, or use longer windows (--profile default)." in advice
    headline = {metric.name for metric in noisy.metrics if metric.headline}
    worst = max(e.ratio.high for e in noisy.effects if e.ratio is not None and e.metric in headline)
    assert re.search(rf"intervals exclude a cost above {100 * (worst - 1):.1f} %\.", advice)
    assert re.search(r"raise the 'margin' of '.+' in the study's file\. .+\. The margin is now \d+ % for '", advice)


def test_effect_as_small_as_the_noise_is_reported_as_unresolved() -> None:
    why = Unresolved(needed_seconds=60.0, deviation_between_rounds=0.12, smallest_detectable=0.08, within_noise=True)
    ratio = Estimate(value=1.05, low=1.02, high=1.08, rounds=10)
    text = printed(with_effects(verdict=Verdict.UNRESOLVED, unresolved=why, ratio=ratio), 140)
    assert "unresolved; within the noise" in text
    _, *costs = answer_texts(with_effects(verdict=Verdict.UNRESOLVED, unresolved=why, ratio=ratio), "answer")
    assert costs
    assert all("identical copies of the control differ as much" in each for each in costs)
    wide = ratio.model_copy(update={"low": 0.98})
    text = printed(with_effects(verdict=Verdict.UNRESOLVED, unresolved=why, ratio=wide), 140)
    assert "unresolved; about 60 s more" in spaced(text), "the interval includes 'no effect'"


def test_report_says_why_an_effect_is_unresolved_although_its_interval_excludes_0() -> None:
    why = Unresolved(needed_seconds=60.0, deviation_between_rounds=0.12, smallest_detectable=0.08, within_noise=False)
    ratio = Estimate(value=1.05, low=1.02, high=1.08, rounds=10)
    difference = Estimate(value=0.5, low=0.2, high=0.8, rounds=10)
    update = {"verdict": Verdict.UNRESOLVED, "unresolved": why, "ratio": ratio, "difference": difference}
    _, *costs = answer_texts(with_effects(**update), "answer")
    assert all("; not significant after the correction for several effects)" in each for each in costs)
    wide = ratio.model_copy(update={"low": 0.98})
    _, *costs = answer_texts(with_effects(**{**update, "ratio": wide}), "answer")
    assert not [each for each in costs if "not significant" in each]


def test_errors_and_warnings_are_printed_without_interpreting_markup() -> None:
    warnings = [Sentence(kind="warning", text="The load generator was the limit.")]
    text = printed(mongodb(warnings=["Steal was 4 %.", "a [bold red]not[/] b"], answer=warnings), 140)
    assert re.search(
        r"\d+ operations? of '[^']+' with TLS 1\.3 \(rsa-2048\) failed \(timeout\), including those of the warm-up; "
        r"the first error: no answer within 10,000 ms in auth",
        " ".join(text.split()),
    )
    assert "Steal was 4 %." in text
    assert "[bold red]not[/]" in text, "markup is printed, not interpreted"
    assert "Warning: The load generator was the limit." in text
    assert "<strong>Warning:</strong> The load generator was the limit." in drawn(mongodb(answer=warnings))


def test_all_rows_of_a_markdown_table_have_the_same_number_of_cells() -> None:
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
def test_markup_in_a_text_is_escaped_in_markdown(text: str, escaped: str) -> None:
    assert escape(text) == escaped


def test_report_states_which_share_of_the_added_time_is_spent_on_the_wire() -> None:
    (each,) = mongodb().sections.phases
    true = PHASES["wire_connect"]["connect_and_first_operation"].tls_ms
    true /= PHASES["app_connect"]["connect_and_first_operation"].tls_ms
    assert each.share is not None
    assert each.share.low <= true <= each.share.high
    (sentence,) = answer_texts(mongodb(), "explanation")
    assert f": {spaced(fmt.percentage(each.share))} of the " in sentence
    unknown = with_sections(mongodb(), phases=[each.model_copy(update={"share": None})])
    (sentence,) = answer_texts(unknown, "explanation")
    assert " with pymongo is unresolved" in sentence


def test_report_summary_of_a_run_with_too_few_rounds_says_only_that_the_budget_was_too_short() -> None:
    (sentence,) = fake_result(plan_of("mongodb-tls"), Truth(), rounds=3).answer
    assert sentence.text.startswith("Only 3 rounds fitted into the budget; an answer needs at least 5. Measure for ")
    plan = plan_of("mongodb-tls").model_copy(update={"most_rounds": 3, "precision": None})
    assert len(fake_result(plan, Truth(), rounds=3).answer) > 1
