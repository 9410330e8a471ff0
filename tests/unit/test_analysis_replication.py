"""The study of chained replication on runs whose truth is known: its advice, its tables, its trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from costof.report import analyse
from costof.report.blocks import Table
from costof.report.result import Result
from costof.report.sections.recommendations import SECTION as RECOMMENDATIONS
from costof.report.sections.sync_tree import Tree, followers_of, initials, places, shape
from costof.results.index import SAME_SET_UP, Index
from costof.results.ledger import Ledger, LostRecord
from costof.statistics.estimate import Verdict
from tests.fake_run import fake_run
from tests.support.small_plans import plan_of
from tests.truths.mongodb_chained_replication import CHANGED, ReplicationTruth, members


def ledger_of(folder: Path, profile: str = "quick", target: str | None = None) -> Ledger:
    return fake_run(folder / "run", plan_of("mongodb-chained-replication", profile, target=target), ReplicationTruth())


def result_of(folder: Path, profile: str, target: str | None = None) -> Result:
    return analyse(ledger_of(folder, profile, target))


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return result_of(tmp_path_factory.mktemp("quick"), "quick")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return result_of(tmp_path_factory.mktemp("published"), "published")


def tables(result: Result) -> list[Table]:
    blocks = RECOMMENDATIONS.blocks(Index(result), result.sections.recommendations)
    return [block for block in blocks if isinstance(block, Table)]


def answers(result: Result) -> list[str]:
    return [sentence.text.replace("\N{NO-BREAK SPACE}", " ") for sentence in result.answer if sentence.kind == "answer"]


def test_advice_follows_from_the_effects_of_the_run(quick: Result) -> None:
    one, majority = answers(quick)
    assert one.startswith("With w:1, use 'chain' from 7 nodes on: 'operations a second' +1")
    assert majority.startswith("With w:majority, do not use 'chain' from 7 nodes on: 'operations a second' −4")
    for text in (one, majority):
        assert text.endswith("it makes no difference above 5 % at 3 nodes.")
    # The published figures say +25.4 % and −30.3 % there.
    assert "25.4" not in one
    assert "30.3" not in majority


def test_a_choice_of_mongodb_that_is_the_control_is_no_difference(published: Result) -> None:
    natural = next(text for text in answers(published) if text.startswith("With w:1, use 'chaining allowed'"))
    assert "from 15 nodes on" in natural
    assert "makes no difference at 3 and 7 nodes, where its tree was the control's own" in natural
    same = {arm.name: arm.same_set_up for arm in published.arms}
    assert same["natural"] == ["star"]
    assert same["natural@nodes-15"] == []
    assert same["chain"] == []


def test_there_are_six_tables_with_the_published_figures_beside(published: Result) -> None:
    found = tables(published)
    titles = [f"{nodes} nodes, w:{concern}" for nodes in (3, 7, 15) for concern in ("1", "majority")]
    assert [table.title for table in found] == titles
    fifteen = found[4]
    rows = {row.cells[0].text: [cell.text for cell in row.cells] for row in fifteen.rows}
    assert rows["operations a second, chaining allowed"][-2:] == ["7,500", "14,093"]
    assert rows["CPU of the primary, chain"][-2:] == ["94.0", "90.0"]
    three = {row.cells[0].text: row.cells[4].text for row in found[0].rows}
    assert three["operations a second, chaining allowed"] == SAME_SET_UP
    assert "The series beside 'chain' is 'chaining on, tree unknown'." in found[-1].note


def test_a_slice_with_another_tree_is_in_no_figure_and_is_counted(quick: Result) -> None:
    thrown = {tree.arm: tree.discarded for tree in quick.sections.sync_tree}
    assert {name for name, count in thrown.items() if count} == {"chain@nodes-7"}
    assert thrown["chain@nodes-7"] == 1
    effect = next(e for e in quick.effects if (e.metric, e.arm) == ("wire.operations_per_second", "chain@nodes-7"))
    assert (effect.rounds, effect.verdict) == (7, Verdict.SAVES)
    assert any(CHANGED in warning for warning in quick.warnings)


def test_figures_of_the_servers_are_metrics(quick: Result) -> None:
    hops = next(v for v in quick.values if (v.metric, v.arm) == ("server.hops_to_majority", "chain@nodes-7"))
    assert (hops.mean.value, hops.percentiles["max"]) == (3.0, 3.0)
    assert {metric.view for metric in quick.metrics if metric.name.startswith("server.")} == {"server"}
    evidence = next(arm for arm in quick.arms if arm.name == "chain").evidence
    assert [item.facts for item in evidence if item.view == "server"] == [
        {"tree": "primary: secondary-1; secondary-1: hidden"}
    ]


def test_a_target_is_told_what_its_write_concerns_cost(tmp_path: Path) -> None:
    result = result_of(tmp_path, "quick", target="mongodb://h")
    (text,) = answers(result)
    assert "write concern majority" in text
    assert result.sections.recommendations is None
    assert {tree.arm for tree in result.sections.sync_tree} == {"1", "1-twin", "majority"}


def test_an_arm_that_is_lost_is_said_and_the_others_are_answered(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    ledger.append(LostRecord(arm="chain@nodes-7", detail="secondary-2 died"))
    result = analyse(ledger)
    assert next(arm.error for arm in result.arms if arm.name == "chain@nodes-7") == "secondary-2 died"
    assert "chain' makes no difference above 5 % at 3 nodes" in answers(result)[0]


def tree(told: str) -> Tree:
    return Tree(arm="natural", followers=followers_of(told), slices=1)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("primary: a, b", "all 2 follow primary"),
        ("primary: a; a: b", "primary → a → b"),
        ("primary: a, b; b: c", "primary: a, b; b: c"),
        ("10.0.0.1:27017: 10.0.0.2:27017", "10.0.0.1:27017 → 10.0.0.2:27017"),
        ("a: b; b: a", "a → b"),
    ],
)
def test_a_tree_in_words(told: str, words: str) -> None:
    assert shape(tree(told)) == words


def test_members_stand_beside_the_one_they_follow() -> None:
    found = places(tree("primary: a, b; b: c, d; x: y; y: x"))
    depths = {name: depth for name, (_, depth) in found.items()}
    assert {name: depths[name] for name in ("primary", "a", "b", "c", "d")} == {
        "primary": 0,
        "a": 1,
        "b": 1,
        "c": 2,
        "d": 2,
    }
    across = {name: x for name, (x, _) in found.items()}
    assert across["a"] < across["b"] == (across["c"] + across["d"]) / 2
    assert found.keys() == {"primary", "a", "b", "c", "d", "x", "y"}


def test_names_of_members_are_short_in_a_picture() -> None:
    told = [initials(name) for name in members(15)]
    assert told == ["P", "S1", "S2", "S3", "S4", "S5", "H", *(f"R{number}" for number in range(1, 9))]
    assert initials("10.0.0.2:27017") == "10.0.0.2:27017"
