"""The Markdown report."""

from __future__ import annotations

import re

import pytest
from report_sample import Golden, empty_result, make_arm, make_errors, make_result

from costof.document.markdown import escape
from costof.report import render_markdown


def test_looks_as_agreed(golden: Golden) -> None:
    golden("report.md", render_markdown(make_result(errors=make_errors(), warnings=["Steal time was 4 %."])))


def test_every_table_has_as_many_cells_in_each_row() -> None:
    text = render_markdown(make_result(arms=("tls", "tls-4096"), errors=make_errors()))
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
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


def test_edges() -> None:
    assert "No round was completed" in render_markdown(empty_result())
    assert "> **Partial run.** interrupted before the first round" in render_markdown(empty_result())
    assert "No arm could be compared" in render_markdown(make_result(effects=[]))
    assert "ublished" not in render_markdown(make_result(published=None))
    result = make_result()
    arms = [*result.arms, make_arm("tls-4096", error="refused")]
    assert "has no figures: refused" in render_markdown(result.model_copy(update={"arms": arms}))


def test_the_twin_is_no_row_of_costs() -> None:
    text = render_markdown(make_result())
    assert "plain-twin" not in text[: text.index("## Evidence")]
