"""Reports of runs at several distances, each with its own control."""

from __future__ import annotations

import re

from costof.report.blocks import FILES, Table
from costof.report.palette import colour_of
from costof.report.result import Result
from costof.report.sections.break_even import SECTION as BREAK_EVEN
from costof.report.sections.costs import table, views
from costof.results.index import Index
from costof.results.models import Effect
from costof.statistics.estimate import Verdict
from tests.fake_run import fake_result
from tests.report.results import (
    DISTANCES,
    answer_texts,
    mongodb,
    printed,
    sentence_texts,
    spaced,
    transport,
    with_sections,
)
from tests.support.small_plans import plan_of
from tests.truths.mysql_transport import TransportTruth


def test_terminal_shows_only_headline_metrics_at_far_distances() -> None:
    near, *far = re.split(r"On the wire, .*ms\)\n", printed(transport(), 100))[1:]
    assert "authentication, ms" in near
    assert len(far) == 2
    for part in far:
        assert "connections a second" in part.split("Brackets")[0]
        assert "authentication, ms" not in part.split("Brackets")[0]


def test_arms_are_grouped_with_the_control_at_the_same_distance() -> None:
    result = transport()
    reversed_arms = result.model_copy(update={"arms": result.arms[::-1]})
    contexts = Index(reversed_arms).contexts
    assert [context.name for context in contexts] == [*DISTANCES]
    for context in contexts:
        assert context.control is not None
        assert {arm.control_arm for arm in context.arms} == {context.control.name}
    unknown = result.model_copy(update={"distances": {}})
    assert [context.title for context in Index(unknown).contexts] == [
        "on the LAN",
        "across the US",
        "between the US and Europe",
    ]


def test_each_protection_has_its_own_colour_at_all_distances() -> None:
    index = Index(transport())
    colours = {(arm.protection, colour_of(index, arm)) for arm in index.arms}
    assert len({colour for _, colour in colours}) == len(colours) == len(index.protections)


def test_published_figures_are_shown_only_beside_the_same_protection_at_the_same_distance() -> None:
    index = Index(transport())
    near, far, _ = ([row for row in table(index, view, FILES).rows if row.kind == "published"] for view in views(index))
    assert not near
    assert [row.cells[0].text for row in far] == [
        "published, MySQL 5.6.13",
        "published, Percona Server 5.6.13",
        "published, Percona Server 5.6.13, static",
    ]
    assert [spaced(row.cells[4].text) for row in far] == ["−45.1 %", "−38.3 %", "−35.4 %"]
    assert {cell.text for row in far for cell in row.cells[1:4]} == {""}
    rows = [(row.cells[0].text, row.kind) for row in table(index, views(index)[1], FILES).rows]
    assert rows[1:5] == [("tls", "headline"), *((row.cells[0].text, "published") for row in far)]


def test_report_summary_of_many_protections_names_only_the_most_expensive_and_the_cheapest() -> None:
    service, most, least, _ = sentence_texts(transport(every=True).answer, "answer")
    assert "At 100 new connections a second with 10 operations each, TLS " in service
    assert most.startswith("TLS (modern suite, rsa-2048) is the most expensive of 5 protections. TLS ")
    assert "is one of the cheapest" in least, "the tunnels cannot be told apart"


def with_effects(change: dict[str, object], metrics: set[str]) -> Result:
    """Return a result in which all effects on these metrics have the fields in `change`.

    The result has no cost model, because the answer would otherwise begin with the model's predictions.
    """
    result = with_sections(transport(), cost_model=None)

    def changed(effect: Effect) -> Effect:
        return effect.model_copy(update=change) if effect.metric in metrics else effect

    return result.model_copy(update={"effects": [changed(effect) for effect in result.effects]})


def test_report_says_which_metrics_have_no_cost_and_how_many_effects_are_unresolved() -> None:
    others = {metric.name for metric in transport().metrics if metric.name != "wire.connections_per_second"}
    none = answer_texts(with_effects({"verdict": Verdict.NO_COST}, others), "answer")[2]
    assert none == "The run found no cost in 'query, 1 connection' and 'queries a second, 32 connections'."
    unknown = answer_texts(with_effects({"verdict": Verdict.UNRESOLVED}, others), "answer")[2]
    assert unknown.endswith(". 12 of 12 effects are unresolved.")


def test_report_summary_of_one_arm_at_one_distance_is_a_single_sentence() -> None:
    assert not sentence_texts(mongodb().answer, "detail")
    near = [arm.model_copy(update={"context": "", "name": arm.protection}) for arm in transport().arms[:3]]
    effects = [e.model_copy(update={"arm": "tls"}) for e in transport().effects if e.arm == "tls@lan"]
    alone = with_sections(transport(), cost_model=None).model_copy(update={"arms": near, "effects": effects})
    headlines = answer_texts(alone, "answer")
    assert len(headlines) == 1
    assert headlines[0].startswith("TLS (modern suite, rsa-2048) lowers ")


def test_break_even_table_says_always_for_a_protection_without_cost() -> None:
    result = transport()
    nothing = {"operations": 0.0, "low": 0.0, "high": 0.0}
    points = [point.model_copy(update=nothing) for point in result.sections.break_even]
    free = with_sections(result, break_even=points)
    (table,) = (block for block in BREAK_EVEN.blocks(Index(free), points) if isinstance(block, Table))
    assert {cell.text for row in table.rows for cell in row.cells[1:]} == {"always"}
    text = answer_texts(free, "break_even")[0]
    assert "adds less than 5 % to the time of a connection on the LAN even with a single query" in text


def test_uncertain_break_even_point_is_reported_as_the_lower_end_of_its_interval() -> None:
    result = transport()
    late = {"operations": None, "low": 843.2, "high": None}
    points = [point.model_copy(update=late) for point in result.sections.break_even]
    unsure = with_sections(result, break_even=points)
    expected = "to the time of a connection on the LAN with fewer than about 844 queries. With more queries, this run"
    assert expected in answer_texts(unsure, "break_even")[0]


def test_distance_in_milliseconds_is_shown_with_its_unit() -> None:
    result = fake_result(plan_of("mysql-transport", "quick", "distance=lan,25ms"), TransportTruth(), rounds=2)
    places = {spaced(arm.at) for arm in result.arms}
    assert places == {" on the LAN", " at 25 ms"}
