"""Reports as a person last read and agreed to them (`pytest tests/report --update-golden`), and rules for all of them.

Three studies in Markdown have every section between them: one whole, of the others what it has not. A load is as the
terminal prints it, a page as its outline.
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
from costof.results.index import Index
from costof.results.limits import State, outcomes
from costof.study.load import CONNECTION, FIRST_QUERY, QUERY, RequestedLoad
from costof.study.options import Limit
from tests.report.results import (
    ENCRYPTION,
    HTTP,
    MONGODB,
    POOLING,
    POSTGRES,
    REDIS,
    REPLICATION,
    TRANSPORT,
    Golden,
    Page,
    at_load,
    drawn,
    printed,
    restarted,
    result_of,
    spaced,
    transport,
    two_keys,
    with_sections,
)

SCHEMA = Path(__file__).parents[2] / "docs" / "result.schema.json"
#: The smallest runs in which every section of a study has something to say.
SMALL = {
    ENCRYPTION: ("encrypted=direct,0,100",),
    HTTP: ("keep_alive=1", "key=rsa-2048,ecdsa-p256"),
    MONGODB: (),
    POOLING: (),
    POSTGRES: ("key=rsa-2048,ecdsa-p256",),
    REDIS: ("key=rsa-2048,ecdsa-p256",),
    REPLICATION: (),
    TRANSPORT: (),
}
#: Those with the widest tables.
WIDE = {
    "two keys": two_keys,
    "every transport": lambda: transport(every=True),
    "published trees": lambda: result_of(REPLICATION, "published"),
    "published encryption": lambda: result_of(ENCRYPTION, "published"),
    "every mitigation": lambda: result_of(HTTP, "default"),
    "every pool": lambda: result_of(POOLING, "default"),
}
WORDS_OF_DISTANCE = ("farther", "Near and far", "distance", "calculator", "round-trip")


def small(study: str) -> Result:
    return result_of(study, "quick", *SMALL[study])


def own_sections(markdown: str, others: str) -> str:
    """A report without the sections that another study's report has too."""
    head, *sections = markdown.split("\n## ")
    shared = {section.partition("\n")[0] for section in others.split("\n## ")[1:]}
    return "\n## ".join([head, *(each for each in sections if each.partition("\n")[0] not in shared)])


def test_markdown_looks_as_agreed(golden: Golden) -> None:
    whole = render_markdown(small(TRANSPORT))
    golden(f"{TRANSPORT}.md", whole)
    for study in (HTTP, REPLICATION):
        golden(f"{study}.md", own_sections(render_markdown(small(study)), whole))


def test_a_run_at_a_load_looks_as_agreed_in_the_terminal(golden: Golden) -> None:
    golden("load.txt", printed(at_load(), 80))


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (RequestedLoad("2000/s", pool="50"), "at 2,000 queries a second over 50 standing connections, 2"),
        (
            RequestedLoad(pool="50", think_time="20ms"),
            "at 50 standing connections whose users think for 20 ms before each query",
        ),
    ],
)
def test_a_pool_is_told_in_its_own_words(asked: RequestedLoad, told: str) -> None:
    answer = [sentence.text for sentence in at_load(load=asked).answer if told in sentence.text]
    assert len(answer) == 1
    assert "changes a query by less than 5" in answer[0]
    assert " cores busy instead of " in answer[0]
    assert "a new connection" not in answer[0]
    page = render_markdown(at_load(load=asked))
    # They ask as often as they have thought; a rate is no figure of an arm.
    assert ("queries a second |" in page) == (asked.think_time is not None)


def test_an_arm_that_cannot_carry_the_load_is_told_of() -> None:
    assert not any("cannot carry" in sentence.text for sentence in at_load().answer)
    assert not any("cannot carry" in sentence.text for sentence in at_load(come=0.9).answer), "fewer came, by chance"
    (said,) = (sentence for sentence in at_load(0.5).answer if "cannot carry" in sentence.text)
    assert said.kind == "answer"
    assert "It served 150 of 300 connections a second" in said.text
    assert "try a load of 120 a second" in said.text


def test_a_machine_without_cpu_time_to_spare_is_warned_of() -> None:
    result = at_load()
    data = result.sections.load
    busy = [each.model_copy(update={"machine_busy": 0.93 if each.arm == "tls" else 0.4}) for each in data.carried]
    data = data.model_copy(update={"carried": busy, "servers_here": True})
    (warning,) = (each.text for each in SECTION.answer(Index(result), data) if each.kind == "warning")
    assert warning.startswith("This machine was 93")
    assert (
        "with TLS, modern suite, rsa-2048 (clients and servers together): operations mostly waited for a CPU" in warning
    )
    assert "Try a load of 160 a second, or measure from another machine." in warning


def test_times_of_an_arm_that_cannot_carry_the_load_are_no_cost_and_keep_no_limit() -> None:
    result = at_load(0.5)
    assert not [each for each in result.effects if each.metric in (CONNECTION, FIRST_QUERY, QUERY)]
    assert {(each.metric, each.arm) for each in result.missing} >= {(CONNECTION, "tls"), (QUERY, "tls")}
    limits = [Limit(metric=CONNECTION, worst=500.0, relative=False, better="lower", said="+500ms")]
    (outcome,) = outcomes(Index(result), limits)
    assert (outcome.state, outcome.reason) == (
        State.OPEN,
        "TLS, modern suite, rsa-2048 cannot carry this load, so its times mean nothing",
    )


def test_no_word_of_a_run_of_several_starts_takes_rounds_for_what_intervals_are_over() -> None:
    text = drawn(restarted()) + render_markdown(restarted()) + printed(restarted())
    assert "interval over starts" in text
    assert "Each dot is one start" in text
    assert "over rounds," not in text
    assert "over whole rounds" not in text
    assert not re.search(r"\b20 rounds", spaced(text))


def test_the_page_is_laid_out_as_agreed(golden: Golden) -> None:
    golden("page.txt", "\n".join(Page(drawn(small(TRANSPORT))).outline) + "\n")


@pytest.mark.parametrize("study", SMALL)
def test_a_result_is_what_its_schema_says(study: str) -> None:
    jsonschema.validate(json.loads(small(study).model_dump_json()), json.loads(SCHEMA.read_text()))


@pytest.mark.parametrize("width", [50, 80, 100, 140])
@pytest.mark.parametrize("name", WIDE)
def test_no_line_is_wider_than_the_console(name: str, width: int) -> None:
    assert max(map(cell_len, printed(WIDE[name](), width).splitlines())) <= width


def test_no_figure_of_abs_list_is_broken() -> None:
    """A console of 80 columns holds every percentile of every arm whole."""
    result = WIDE["every mitigation"]()
    text = printed(result, 80)
    for figures in result.sections.ab:
        for value in figures.percentiles.values():
            wanted = fmt.number(value, min(2, fmt.significant_decimals(value)))
            assert re.search(rf"(?<![\d,.]){re.escape(wanted)}\b", text)


@pytest.mark.parametrize("study", SMALL)
def test_80_columns_hold_every_interval_and_the_name_of_every_metric_on_one_line(study: str) -> None:
    text = printed(small(study), 80)
    tables = [part.split("\n\n")[0] for part in re.split(r"─\n", text)[1:]]
    lines = [line for table in tables for line in table.split("\n  Brackets:")[0].splitlines()]
    assert [line for line in lines if line.count("[") != line.count("]")] == []
    for table in re.findall(r"\n  metric +percentile.*?\n\n", text, flags=re.DOTALL):
        assert {line.split()[-1] for line in table.splitlines() if re.match(r"  \w", line)} <= {"relative", "ms"}


@pytest.mark.parametrize("name", WIDE)
def test_no_name_is_broken_within_a_word(name: str) -> None:
    """On 80 columns an arm's name goes on after '-' or '@', and a verdict is whole."""
    result = WIDE[name]()
    text = printed(result, 80)
    table = text[text.index("CPU seconds") :].split("\n\n")[0]
    arms = [arm.name for arm in result.arms if arm.context == result.arms[0].context and not arm.replicate]
    parts = {part for arm in arms for part in re.split("[-@]", arm)}
    assert parts <= set(re.split(r"[\s@-]+", table))
    assert not re.search(r"\bunresolve\b", text)


def test_sections_of_distance_are_not_in_a_study_without_one() -> None:
    result = small(REPLICATION)
    for text in (printed(result), render_markdown(result), Page(drawn(result)).text):
        assert not [word for word in WORDS_OF_DISTANCE if word in text]


def test_the_page_shows_every_arm_as_ab_prints_it_and_what_each_mitigation_recovers() -> None:
    result = small(HTTP)
    page = drawn(result)
    assert '<section id="mitigations"' in page
    assert "What each mitigation recovers" in page
    for figures in result.sections.ab:
        assert f"({figures.arm})" in page
    assert page.count(": connection times</caption>") == len(result.sections.ab)


def test_the_page_says_where_the_loss_goes_in_the_study_that_asks() -> None:
    result = result_of(ENCRYPTION)
    page = drawn(result)
    section = re.search(r'<section id="breakdown".*?</section>', page, flags=re.DOTALL)
    assert section is not None
    assert "driver (client)" in section[0]
    assert "the gateway&#39;s presence" in section[0]
    assert page.count("by terminals</caption>") == 3
    assert 'id="breakdown"' not in drawn(with_sections(result, breakdown=None))


def test_every_tree_is_drawn_once_and_named_by_arm() -> None:
    result = WIDE["published trees"]()
    section = drawn(result).split('<section id="sync_tree"')[1].split("</section>")[0]
    wide, _ = re.findall(r"<svg.*?</svg>", section, flags=re.DOTALL)
    # Three sizes as a star, three as a chain, and what MongoDB chose at 15 nodes.
    assert len(re.findall(r">\s*\d+ members: [a-z ]+<", wide)) == 7
    assert len(re.findall(r">\s*R8\s*<", wide)) == 3
    assert "as star: no difference: same tree" in section
