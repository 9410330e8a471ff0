"""Whole reports: comparison with golden files, and rules that all reports follow.

The golden files together have every section: a whole report in Markdown, the additional sections of two other
studies, a run at a load as printed on a terminal, and the outline of a page. `pytest tests/report --update-golden`
writes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.cells import cell_len

from costof import format as fmt
from costof.report import render_markdown
from costof.report.canvas import WIDE
from costof.report.result import Result
from costof.report.sections.sync_tree import SECTION as SYNC_TREE
from costof.results.index import Index
from tests.report.results import (
    ALL_SECTIONS,
    ENCRYPTION,
    HTTP,
    POOLING,
    REPLICATION,
    SERVICE,
    TRANSPORT,
    Golden,
    Page,
    at_load,
    drawn,
    printed,
    restarted,
    result_of,
    small,
    spaced,
    transport,
    two_keys,
)
from tests.truths import TRUTHS

SCHEMA = Path(__file__).parents[2] / "docs" / "result.schema.json"
WIDEST = [
    pytest.param(two_keys, id="two keys"),
    pytest.param(lambda: transport(every=True), id="every transport"),
    pytest.param(lambda: result_of(SERVICE, "default"), id="every proxy"),
    pytest.param(lambda: result_of(REPLICATION, "published"), id="published trees", marks=pytest.mark.slow),
    pytest.param(lambda: result_of(ENCRYPTION, "published"), id="published encryption", marks=pytest.mark.slow),
    pytest.param(lambda: result_of(HTTP, "default"), id="every mitigation", marks=pytest.mark.slow),
    pytest.param(lambda: result_of(POOLING, "default"), id="every pool", marks=pytest.mark.slow),
]
#: The golden file of a run at a load. All other golden files are named after studies.
LOAD = "at-load"
WORDS_OF_DISTANCE = ("farther", "By distance", "distance", "calculator", "round-trip")


def additional_sections(markdown: str, other: str) -> str:
    head, *sections = markdown.split("\n## ")
    shared = {section.partition("\n")[0] for section in other.split("\n## ")[1:]}
    return "\n## ".join([head, *(each for each in sections if each.partition("\n")[0] not in shared)])


def test_markdown_matches_the_golden_files(golden: Golden) -> None:
    whole = render_markdown(small(TRANSPORT))
    golden(f"{TRANSPORT}.md", whole)
    for study in (HTTP, REPLICATION):
        golden(f"{study}.md", additional_sections(render_markdown(small(study)), whole))


@pytest.mark.parametrize("study", [*TRUTHS, LOAD])
def test_short_answer_matches_the_golden_file_and_fits_on_a_small_terminal(study: str, golden: Golden) -> None:
    text = printed(at_load() if study == LOAD else small(study), 80, full=False)
    golden(f"short/{study}.txt", text)
    assert len(text.splitlines()) <= 30
    assert max(map(len, text.splitlines())) <= 80


def test_terminal_report_of_a_run_at_a_load_matches_the_golden_file(golden: Golden) -> None:
    golden("load.txt", printed(at_load(), 80))


def test_outline_of_the_page_matches_the_golden_file(golden: Golden) -> None:
    golden("page.txt", "\n".join(Page(drawn(small(TRANSPORT))).outline) + "\n")


def shortened(data: Any) -> Any:
    """Return JSON data with at most three items in each list, because validating thousands of numbers takes seconds."""
    if isinstance(data, dict):
        return {name: shortened(value) for name, value in data.items()}
    return [*map(shortened, data[:3])] if isinstance(data, list) else data


def test_results_are_valid_under_the_committed_schema() -> None:
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    for study in ALL_SECTIONS:
        validator.validate(shortened(json.loads(small(study).model_dump_json())))


@pytest.mark.parametrize("result", WIDEST)
def test_terminal_report_breaks_no_name_and_has_no_line_wider_than_the_terminal(result: Callable[[], Result]) -> None:
    wide = result()
    texts = {width: printed(wide, width) for width in (50, 80)}
    assert [max(map(cell_len, text.splitlines())) <= width for width, text in texts.items()] == [True, True]
    table = texts[80][texts[80].index("CPU seconds") :].split("\n\n")[0]
    arms = [arm.name for arm in wide.arms if arm.context == wide.arms[0].context and not arm.replicate]
    parts = {part for arm in arms for part in re.split("[- @]", Index(wide).short(arm))}
    assert parts <= set(re.split(r"[\s@-]+", table)), "names are broken only after '-' and '@'"
    assert not re.search(r"\bunresolve\b", texts[80]), "a broken verdict"


def test_terminal_report_of_80_columns_shows_every_percentile_of_ab() -> None:
    text = printed(small(HTTP), 80)
    for figures in small(HTTP).sections.ab:
        for value in figures.percentiles.values():
            expected = fmt.number(value, min(2, fmt.significant_decimals(value)))
            assert re.search(rf"(?<![\d,.]){re.escape(expected)}\b", text)


def test_reports_of_a_run_with_server_restarts_say_how_intervals_are_computed() -> None:
    text = drawn(restarted()) + render_markdown(restarted()) + printed(restarted())
    assert "interval over starts" in text
    assert "Each dot is one start" in text
    assert "over rounds," not in text
    assert "over whole rounds" not in text
    assert not re.search(r"\b20 rounds", spaced(text))


def test_report_of_a_study_without_distances_has_no_sections_about_distance() -> None:
    result = small(REPLICATION)
    for text in (printed(result), render_markdown(result), Page(drawn(result)).text):
        assert not [word for word in WORDS_OF_DISTANCE if word in text]


def test_page_draws_each_different_replication_tree_once() -> None:
    result = result_of(REPLICATION, "published")
    figure, table, *_ = SYNC_TREE.blocks(Index(result), result.sections.sync_tree)
    picture = figure.draw(WIDE).svg("trees", "", "")
    # Trees: three sizes as a star, three as a chain, and the tree that MongoDB chose with 15 nodes.
    assert len(re.findall(r">\d+ members: [a-z ]+<", picture)) == 7
    assert len(re.findall(">R8<", picture)) == 3, "members of the three trees with 15 nodes"
    assert "as star: no difference: same tree" in {row.cells[-1].text for row in table.rows}
