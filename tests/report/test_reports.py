"""Tests of whole reports: comparison with golden files, and rules that all reports follow.

The golden files together have every section: a whole report in Markdown, the additional sections of two other
studies, a run at a load as printed on a terminal, and the outline of a page. `pytest tests/report --update-golden`
writes them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
from rich.cells import cell_len

from costof import format as fmt
from costof.report import render_markdown
from costof.report.result import Result
from costof.report.sections.load import SECTION
from costof.report.summary import CORES, verdict_sentence
from costof.results.index import Index
from costof.results.limits import State, outcomes
from costof.statistics.estimate import Verdict
from costof.study.load import CONNECTION, FIRST_QUERY, QUERY, RequestedLoad
from costof.study.options import Limit
from tests.report.results import (
    ENCRYPTION,
    HTTP,
    POOLING,
    POSTGRES_AUDIT,
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
    sentence_texts,
    spaced,
    transport,
    two_keys,
    with_sections,
)
from tests.truths import SMALL, TRUTHS

SCHEMA = Path(__file__).parents[2] / "docs" / "result.schema.json"
#: Studies whose runs together have every section.
ALL_SECTIONS = (ENCRYPTION, HTTP, POSTGRES_AUDIT, REPLICATION, SERVICE, TRANSPORT)
#: Results with the widest tables.
WIDE = {
    "two keys": two_keys,
    "every transport": lambda: transport(every=True),
    "published trees": lambda: result_of(REPLICATION, "published"),
    "published encryption": lambda: result_of(ENCRYPTION, "published"),
    "every mitigation": lambda: result_of(HTTP, "default"),
    "every pool": lambda: result_of(POOLING, "default"),
    "every proxy": lambda: result_of(SERVICE, "default"),
}
#: The run at a load, which is of no study.
LOAD = "at-load"
WORDS_OF_DISTANCE = ("farther", "By distance", "distance", "calculator", "round-trip")


def small(study: str) -> Result:
    return result_of(study, "quick", *SMALL.get(study, ()))


def additional_sections(markdown: str, other: str) -> str:
    """Return the report without the sections that the other report has too."""
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


def test_terminal_report_of_a_run_that_was_given_a_load_matches_the_golden_file(golden: Golden) -> None:
    golden("load.txt", printed(at_load(), 80))


@pytest.mark.parametrize(
    ("load", "start"),
    [
        (RequestedLoad("400/s", pool="50"), "at 400 queries a second over 50 open connections, 2"),
        (
            RequestedLoad(pool="50", think_time="20ms"),
            "at 50 open connections whose users think for 20 ms before each query",
        ),
    ],
)
def test_answer_about_a_load_on_pooled_connections_names_their_number_and_think_time(
    load: RequestedLoad, start: str
) -> None:
    answer = [sentence.text for sentence in at_load(load=load).answer if start in sentence.text]
    assert len(answer) == 1
    assert "changes a query by less than 5" in answer[0]
    assert " cores busy instead of " in answer[0]
    assert "a new connection" not in answer[0]
    page = render_markdown(at_load(load=load))
    # With a think time, the rate is measured for each arm. Otherwise the load determines it.
    assert ("queries a second |" in page) == (load.think_time is not None)


def test_answer_names_an_arm_that_cannot_serve_the_load() -> None:
    assert not any("cannot carry" in sentence.text for sentence in at_load().answer)
    assert not any("cannot carry" in sentence.text for sentence in at_load(come=0.9).answer), "fewer came, by chance"
    overloaded = at_load(0.5)
    (text,) = (text for text in sentence_texts(overloaded.answer, "answer") if "cannot carry" in text)
    assert "It served 150 of the 300 connections a second that arrived; the others waited." in text
    assert "try a load of 120 a second" in text
    assert spaced(overloaded.summary.verdict) == text


def test_busy_machine_is_the_first_thing_that_the_answer_says() -> None:
    result = at_load(load=RequestedLoad("430/s", "20"))
    warning, costs = spaced(result.summary.verdict).split(". ", 1)
    assert warning == (
        "With TLS (modern suite, rsa-2048), this machine was 86 % busy, so the times are mostly waits for a CPU and "
        "hold for no other machine: try a load of 250 a second, or measure from another machine"
    )
    assert costs.startswith("TLS (modern suite, rsa-2048) adds ")
    assert "more cores of the server (0.263 → 0.803 of this machine's 2, which the client shares)." in costs
    assert [each.name for each in result.summary.figures] == [CONNECTION, QUERY, CORES]
    assert "need 1.71 of this machine's 2 cores at this load" in spaced(result.summary.room)
    assert at_load(0.5).summary.room == "", "an arm that cannot carry the load has no room"
    answer = spaced(printed(result)).split()
    assert answer.index("busy,") < answer.index("adds")


def test_busiest_of_several_arms_on_a_busy_machine_comes_first() -> None:
    result = at_load()
    data = result.sections.load
    busy = [each.model_copy(update={"machine_busy": 0.93 if each.arm == "tls" else 0.82}) for each in data.carried]
    answer = SECTION.answer(Index(result), data.model_copy(update={"carried": busy}))
    warnings = [spaced(text) for text in sentence_texts(answer, "leading_warning")]
    assert ["93 %" in text for text in warnings] == [True, False]


def test_load_that_needs_the_whole_machine_is_not_carried_even_if_all_arrivals_were_served() -> None:
    result = at_load(load=RequestedLoad("490/s", "20"))
    assert spaced(result.summary.verdict) == (
        "TLS (modern suite, rsa-2048) cannot carry 490 new connections a second, 20 queries each, 2 ms away. For this "
        "load the server needs 0.91 cores, the client 0.54 and the lab's simulated links 0.49, together 97 % of this "
        "machine's 2 cores. The queue grows as long as the load lasts, so its times have no meaning: try a load of 250 "
        "a second, or measure from another machine."
    )
    assert [each.name for each in result.summary.figures] == [CORES]
    assert {each.label for each in result.sections.checks if not each.passed} == {"load not carried"}


def test_cores_and_cpu_time_of_the_same_server_have_the_same_verdict() -> None:
    result = at_load()
    effects = [each.model_copy(update={"verdict": Verdict.UNRESOLVED}) for each in result.effects]
    changed = result.model_copy(update={"effects": effects})
    (cores,) = (each for each in SECTION.key_figures(Index(changed), result.sections.load) if each.name == CORES)
    assert cores.verdict is Verdict.UNRESOLVED
    assert "an unresolved effect of at most 0.38 on the cores of the server" in verdict_sentence([cores])


def test_overloaded_arm_has_no_costs_and_leaves_its_limits_undecided() -> None:
    result = at_load(0.5)
    assert not [each for each in result.effects if each.metric in (CONNECTION, FIRST_QUERY, QUERY)]
    assert {(each.metric, each.arm) for each in result.missing} >= {(CONNECTION, "tls"), (QUERY, "tls")}
    limits = [Limit(metric=CONNECTION, worst=500.0, relative=False, better="lower", said="+500ms")]
    (outcome,) = outcomes(Index(result), limits)
    assert (outcome.state, outcome.reason) == (
        State.OPEN,
        "TLS (modern suite, rsa-2048) cannot carry this load, so its times mean nothing",
    )


def test_reports_of_several_server_starts_say_that_intervals_are_over_starts() -> None:
    text = drawn(restarted()) + render_markdown(restarted()) + printed(restarted())
    assert "interval over starts" in text
    assert "Each dot is one start" in text
    assert "over rounds," not in text
    assert "over whole rounds" not in text
    assert not re.search(r"\b20 rounds", spaced(text))


def test_outline_of_the_page_matches_the_golden_file(golden: Golden) -> None:
    golden("page.txt", "\n".join(Page(drawn(small(TRANSPORT))).outline) + "\n")


@pytest.mark.parametrize("study", ALL_SECTIONS)
def test_result_is_valid_under_its_schema(study: str) -> None:
    jsonschema.validate(json.loads(small(study).model_dump_json()), json.loads(SCHEMA.read_text()))


@pytest.mark.parametrize("width", [50, 100])
@pytest.mark.parametrize("name", WIDE)
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    assert max(map(cell_len, printed(WIDE[name](), width).splitlines())) <= width


def test_every_percentile_of_ab_fits_into_80_columns() -> None:
    result = WIDE["every mitigation"]()
    text = printed(result, 80)
    for figures in result.sections.ab:
        for value in figures.percentiles.values():
            expected = fmt.number(value, min(2, fmt.significant_decimals(value)))
            assert re.search(rf"(?<![\d,.]){re.escape(expected)}\b", text)


@pytest.mark.parametrize("study", ALL_SECTIONS)
def test_no_interval_or_metric_is_broken_at_80_columns(study: str) -> None:
    text = printed(small(study), 80)
    tables = [part.split("\n\n")[0] for part in re.split(r"─\n", text)[1:]]
    lines = [line for table in tables for line in table.split("\n  Brackets:")[0].splitlines()]
    assert [line for line in lines if line.count("[") != line.count("]")] == []
    for table in re.findall(r"\n  metric +percentile.*?\n\n", text, flags=re.DOTALL):
        assert {line.split()[-1] for line in table.splitlines() if re.match(r"  \w", line)} <= {"relative", "ms"}


@pytest.mark.parametrize("name", WIDE)
def test_no_word_of_a_name_is_broken_at_80_columns(name: str) -> None:
    """Names of arms are broken only after '-' or '@', and verdicts are not broken."""
    result = WIDE[name]()
    text = printed(result, 80)
    table = text[text.index("CPU seconds") :].split("\n\n")[0]
    index = Index(result)
    arms = [arm.name for arm in result.arms if arm.context == result.arms[0].context and not arm.replicate]
    parts = {part for arm in arms for part in re.split("[- @]", index.short(arm))}
    assert parts <= set(re.split(r"[\s@-]+", table))
    assert not re.search(r"\bunresolve\b", text)


def test_study_without_distances_has_no_sections_on_distance() -> None:
    result = small(REPLICATION)
    for text in (printed(result), render_markdown(result), Page(drawn(result)).text):
        assert not [word for word in WORDS_OF_DISTANCE if word in text]


def test_page_of_http_study_has_ab_tables_and_mitigations() -> None:
    result = small(HTTP)
    page = drawn(result)
    assert '<section id="mitigations"' in page
    assert "What each mitigation recovers" in page
    for figures in result.sections.ab:
        assert f"({figures.arm})" not in page
    assert page.count(": connection times</caption>") == len(result.sections.ab)


def test_page_of_column_encryption_study_has_a_breakdown() -> None:
    result = result_of(ENCRYPTION)
    page = drawn(result)
    section = re.search(r'<section id="breakdown".*?</section>', page, flags=re.DOTALL)
    assert section is not None
    assert "driver (client)" in section[0]
    assert "the gateway&#39;s presence" in section[0]
    assert page.count("by number of terminals</caption>") == 3
    assert 'id="breakdown"' not in drawn(with_sections(result, breakdown=None))


def test_every_replication_tree_is_drawn_once() -> None:
    result = WIDE["published trees"]()
    section = drawn(result).split('<section id="sync_tree"')[1].split("</section>")[0]
    wide, _ = re.findall(r"<svg.*?</svg>", section, flags=re.DOTALL)
    # Trees: three sizes as a star, three as a chain, and the tree that MongoDB chose with 15 nodes.
    assert len(re.findall(r">\s*\d+ members: [a-z ]+<", wide)) == 7
    assert len(re.findall(r">\s*R8\s*<", wide)) == 3
    assert "as star: no difference: same tree" in section
