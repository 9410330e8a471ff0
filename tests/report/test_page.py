"""The HTML report is complete, self-contained and safe to open."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from itertools import cycle

import pytest

from costof.report import render_html
from costof.report.result import Result
from costof.results.models import Cpu, ErrorCount
from costof.statistics.estimate import Verdict
from tests.report.results import (
    ALL_SECTIONS,
    EVIL,
    MONGODB,
    Page,
    drawn,
    empty,
    mongodb,
    result_of,
    small,
    with_sections,
)


@cache
def page() -> str:
    return drawn(mongodb(warnings=["Steal time was 4 %."]))


@pytest.mark.parametrize("study", ALL_SECTIONS)
def test_page_is_well_formed_and_its_references_exist(study: str) -> None:
    read = Page(drawn(small(study)))
    assert not read.wrong
    assert not read.open
    ids = read.ids()
    assert len(ids) == len(set(ids))
    words = (f"{a.get('aria-labelledby') or ''} {a.get('aria-describedby') or ''}".split() for _, a in read.tags)
    targets = {name for named in words for name in named}
    labelled = {a.get("for") for tag, a in read.tags if tag == "label"}
    inner = {(a.get("href") or "")[1:] for _, a in read.tags if (a.get("href") or "").startswith("#")}
    clips = set(re.findall(r"url\(#([^)]+)\)", drawn(small(study))))
    assert (targets | labelled | inner | clips) <= set(ids)
    fields = {a["id"] for tag, a in read.tags if tag in {"input", "select"} and not a.get("aria-label")}
    assert fields <= targets | labelled, "a field without a label"
    scopes = {a.get("scope") for tag, a in read.tags if tag == "th"}
    assert scopes <= {"col", "row", "colgroup", "rowgroup"}


@pytest.mark.parametrize("study", ALL_SECTIONS)
def test_page_loads_no_other_file(study: str) -> None:
    text = drawn(small(study))
    for tag, attributes in Page(text).tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "image"}
        for name, value in attributes.items():
            if name in {"src", "srcset", "action", "data", "poster"} or (name.endswith("href") and tag != "a"):
                assert (value or "").startswith("#"), (tag, name, value)
    assert not re.search(r"@import|@font-face|url\((?!#)", text)
    assert "http:" not in (plain := re.sub(r'<a [^>]*href="[^"]*"', "", text))
    assert "https:" not in plain


def test_page_rendered_twice_from_one_result_is_identical() -> None:
    assert render_html(mongodb(warnings=["Steal time was 4 %."])) == page()


def test_pictures_follow_the_colour_scheme_and_keep_their_text() -> None:
    svgs = " ".join(re.findall(r"<svg viewBox.*?</svg>", page(), flags=re.DOTALL))
    assert not re.search(r"(?<!, )#[0-9a-f]{6}\b", svgs), "a colour that no scheme changes"
    assert "prefers-color-scheme: dark" in page()
    assert ">2 round trips</text>" in svgs
    assert ">connect and first query, wire</text>" in svgs


def hostile() -> Result:
    """Return a result in which every text that comes from outside costof contains HTML for an attack."""
    result = mongodb()
    arms = [arm.model_copy(update={"label": EVIL + "$x_1$"}) for arm in result.arms]
    model, evil = result.sections.cost_model, "</script>" + EVIL
    extras = [extra.model_copy(update={"label": evil, "protection": evil}) for extra in model.extras]
    result = with_sections(result, cost_model=model.model_copy(update={"extras": extras}))
    return result.model_copy(
        update={
            "question": EVIL,
            "arms": arms,
            "metrics": [metric.model_copy(update={"label": EVIL}) for metric in result.metrics],
            "cpu": [
                Cpu(workload=EVIL, arm="tls", operations=1, seconds_per_1000={EVIL: 1.0, "client": 1.0}, busiest=EVIL)
            ],
            "errors": [ErrorCount(arm=EVIL, workload=EVIL, error_class=EVIL, count=1, detail=EVIL)],
            "warnings": [EVIL],
            "partial": EVIL,
            "environment": {EVIL: {EVIL: [EVIL]}},
        }
    )


def test_page_escapes_all_texts_that_come_from_outside() -> None:
    text = drawn(hostile())
    assert len(re.findall(r"<script\b", text)) == 3, "those of the calculator and of the page"
    assert text.count("&lt;script&gt;") > 30
    assert not Page(text).wrong


CHIPS = {
    Verdict.COSTS: ("costs", "costs"),
    Verdict.SAVES: ("saves", "saves"),
    Verdict.NO_DIFFERENCE: ("none", "no difference above 5\N{NO-BREAK SPACE}%"),
    Verdict.NO_COST: ("none", "no cost above 5\N{NO-BREAK SPACE}%"),
    Verdict.UNRESOLVED: ("unresolved", "unresolved"),
}


def test_page_shows_every_verdict_in_words() -> None:
    result = mongodb()
    verdicts = dict(zip([effect.metric for effect in result.effects], cycle(CHIPS)))
    assert set(verdicts.values()) == set(Verdict)
    effects = [effect.model_copy(update={"verdict": verdicts[effect.metric]}) for effect in result.effects]
    costs = drawn(result.model_copy(update={"effects": effects})).split('<section id="costs"')[1].split("</section>")[0]
    chips = re.findall(r'<span class="chip (\w+)"><span[^>]*>.</span> (.*?)</span>', costs)
    # The table has one row for each metric.
    assert Counter(chips) == Counter(CHIPS[verdict] for verdict in verdicts.values())


def test_page_of_a_run_with_at_most_one_round_is_well_formed() -> None:
    for text in (drawn(empty()), drawn(result_of(MONGODB, rounds=1))):
        assert not Page(text).wrong
        assert "<figure" not in text


def test_page_of_a_run_measured_only_by_drivers_has_no_table_of_the_engines_metrics() -> None:
    app = [metric for metric in mongodb().metrics if metric.view == "app"]
    only = drawn(mongodb(metrics=app))
    assert "On the wire</caption>" not in only
    assert "phase by phase" not in only


def test_page_omits_sections_for_which_the_run_has_no_data() -> None:
    text = drawn(mongodb(published=None, noise_floor=[], cpu=[]))
    assert "published" not in Page(text).text
    assert "Noise floor" not in text
    assert 'id="cpu"' not in text
