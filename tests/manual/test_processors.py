"""The page that compares runs on two processors: which ratios agree, and what the page says of other ratios."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from costof.report import analyse
from costof.report.result import Result
from costof.results.models import Effect
from manual.processors import NONE_KEPT, line, page
from manual.reports import RUNS, keep_if_of_another_processor, stored_runs
from tests.fake_run import fake_run
from tests.support.small_plans import plan_of
from tests.truths import TRUTHS

STUDY = "mongodb-tls"
FIRST, SECOND = "Processor One", "Processor Two"


def on(result: Result, processor: str) -> Result:
    return result.model_copy(update={"environment": {**result.environment, "CPU": processor}})


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Result:
    ledger = fake_run(tmp_path_factory.mktemp("ledger") / STUDY, plan_of(STUDY), TRUTHS[STUDY], rounds=6)
    return on(analyse(ledger), FIRST)


def with_twice_the_ratio(effect: Effect) -> Effect:
    if effect.ratio is None:
        return effect
    return effect.model_copy(update={"ratio": effect.ratio.through(lambda ratio: 2 * ratio)})


def test_effects_with_equal_ratios_on_both_processors_agree(first: Result) -> None:
    text = page({STUDY: first}, {STUDY: on(first, SECOND)})
    agreeing, compared = map(int, re.findall(r"\*\*(\d+) of (\d+) main effects agree\*\*", text)[0])
    assert agreeing == compared == text.count("| yes |") > 0
    assert FIRST in text
    assert SECOND in text


def test_effect_whose_ratio_doubles_on_another_processor_does_not_agree(first: Result) -> None:
    changed = [with_twice_the_ratio(each) if each.arm == "tls" else each for each in first.effects]
    text = page({STUDY: first}, {STUDY: on(first, SECOND).model_copy(update={"effects": changed})})
    assert text.count("| **no** |") > 0
    assert "is not reached" in text
    assert "**Why ratios differ:**" in text


def test_page_says_if_no_effect_can_be_compared_because_intervals_reach_0(first: Result) -> None:
    unknown = [
        each.model_copy(update={"ratio": each.ratio and each.ratio.model_copy(update={"low": 0.0})})
        for each in first.effects
    ]
    text = page({STUDY: first}, {STUDY: on(first, SECOND).model_copy(update={"effects": unknown})})
    assert "No main effect can be compared" in text


def test_runs_on_the_same_processor_are_not_compared(first: Result) -> None:
    assert page({STUDY: first}, {STUDY: first}).endswith(NONE_KEPT)
    assert line(first, first) == line(None, first) == ""


def test_study_page_links_to_its_section_with_the_number_of_effects_that_agree(first: Result) -> None:
    changed = [with_twice_the_ratio(each) if each.arm == "tls" else each for each in first.effects]
    second = on(first, SECOND).model_copy(update={"effects": changed})
    text, link = page({STUDY: first}, {STUDY: second}), line(first, second)
    assert f" {{#{STUDY}}}\n" in text
    assert f"(../processors.md#{STUDY})" in link
    (counts,) = re.findall(r"\d+ of \d+ main effects agree", link)
    assert f"**{counts}** ([the study](studies/{STUDY}.md))" in text


def test_each_compared_effect_has_a_label_of_its_own_that_names_the_view(first: Result) -> None:
    text = page({STUDY: first}, {STUDY: on(first, SECOND)})
    labels = [row.split(" | ")[0] for row in text.splitlines() if " | yes | " in row]
    assert len({*labels}) == len(labels)
    assert all(" on the wire with " in each or " in the application with " in each for each in labels)


def test_stored_run_is_kept_if_its_study_is_measured_on_another_processor(tmp_path: Path) -> None:
    study = "mongodb-chained-replication"
    runs, former = tmp_path / "runs", tmp_path / "former"
    runs.mkdir()
    archive = runs / f"{study}.tar.xz"
    archive.write_bytes((RUNS / archive.name).read_bytes())
    processor = str(stored_runs(runs)[study].result.environment["CPU"])
    keep_if_of_another_processor(study, processor, runs, former)
    assert archive.exists()
    keep_if_of_another_processor(study, "Another Processor", runs, former)
    assert not archive.exists()
    assert [*stored_runs(former)] == [study]
