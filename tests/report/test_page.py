"""Tests of the HTML report: complete, self-contained and safe to open."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from itertools import cycle

import pytest

from costof.report import render_html
from costof.report.palette import COLOURS
from costof.report.result import Result, Sections
from costof.results.models import Cpu, ErrorCount
from costof.statistics.estimate import Verdict
from tests.report.results import EVIL, MONGODB, Page, drawn, empty, mongodb, result_of, two_keys, without_figures
from tests.truths import TRUTHS


@cache
def page() -> str:
    return drawn(mongodb(warnings=["Steal time was 4 %."]))


def test_page_has_all_pictures_in_both_widths() -> None:
    tags = [attributes for tag, attributes in Page(page()).tags if tag == "svg"]
    card = [each for each in tags if each.get("aria-label")]
    pictures = [each for each in tags if each.get("aria-labelledby")]
    assert (len(card), len(pictures), len(tags)) == (1, 14, 15)
    assert all(each["role"] == "img" for each in tags)


@pytest.mark.parametrize("study", TRUTHS)
def test_every_page_is_well_formed_and_its_references_exist(study: str) -> None:
    read = Page(drawn(result_of(study)))
    assert not read.wrong
    assert not read.open
    ids = read.ids()
    assert len(ids) == len(set(ids))
    words = (f"{a.get('aria-labelledby') or ''} {a.get('aria-describedby') or ''}".split() for _, a in read.tags)
    targets = {name for named in words for name in named}
    labelled = {a.get("for") for tag, a in read.tags if tag == "label"}
    inner = {(a.get("href") or "")[1:] for _, a in read.tags if (a.get("href") or "").startswith("#")}
    clips = set(re.findall(r"url\(#([^)]+)\)", drawn(result_of(study))))
    assert (targets | labelled | inner | clips) <= set(ids)
    fields = {a["id"] for tag, a in read.tags if tag in {"input", "select"} and not a.get("aria-label")}
    assert fields <= targets | labelled, "a field without a label"


@pytest.mark.parametrize("study", TRUTHS)
def test_page_loads_no_other_file(study: str) -> None:
    text = drawn(result_of(study))
    for tag, attributes in Page(text).tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "image"}
        for name, value in attributes.items():
            if name in {"src", "srcset", "action", "data", "poster"} or (name.endswith("href") and tag != "a"):
                assert (value or "").startswith("#"), (tag, name, value)
    assert not re.search(r"@import|@font-face|url\((?!#)", text)
    assert "http:" not in (plain := re.sub(r'<a [^>]*href="[^"]*"', "", text))
    assert "https:" not in plain


def test_same_result_gives_the_same_page() -> None:
    assert render_html(mongodb(warnings=["Steal time was 4 %."])) == page()


def test_pictures_follow_the_colour_scheme_and_keep_their_text() -> None:
    svgs = " ".join(re.findall(r"<svg viewBox.*?</svg>", page(), flags=re.DOTALL))
    assert not re.search(r"(?<!, )#[0-9a-f]{6}\b", svgs), "a colour that no scheme changes"
    assert "prefers-color-scheme: dark" in page()
    assert ">2 round trips</text>" in svgs
    assert ">connect and first query, wire</text>" in svgs


def test_palette_has_no_duplicate_colour() -> None:
    lights = [light for light, _ in COLOURS.values()]
    assert len(set(lights)) == len(lights), "two names for one colour could not be distinguished in a picture"


def hostile() -> Result:
    """Return a result in which every text that comes from outside costof contains HTML for an attack."""
    result = mongodb()
    arms = [arm.model_copy(update={"label": EVIL + "$x_1$"}) for arm in result.arms]
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


def test_texts_from_outside_are_escaped_everywhere() -> None:
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


def test_every_verdict_is_shown_in_words() -> None:
    result = mongodb()
    verdicts = dict(zip([effect.metric for effect in result.effects], cycle(CHIPS)))
    assert set(verdicts.values()) == set(Verdict)
    effects = [effect.model_copy(update={"verdict": verdicts[effect.metric]}) for effect in result.effects]
    costs = drawn(result.model_copy(update={"effects": effects})).split('<section id="costs"')[1].split("</section>")[0]
    chips = re.findall(r'<span class="chip (\w+)"><span[^>]*>.</span> (.*?)</span>', costs)
    # One row for each metric, in the order of the effects.
    assert Counter(chips) == Counter(CHIPS[verdict] for verdict in verdicts.values())


def test_page_without_rounds_has_no_empty_pictures() -> None:
    text = drawn(empty())
    assert "No round was completed" in text
    assert "<figure" not in text
    assert "Partial run:" in text
    assert not Page(text).wrong


def test_page_of_a_run_without_effects_says_why_there_are_none() -> None:
    text = drawn(mongodb(effects=[], noise_floor=[], sections=Sections()))
    assert "No arm could be compared" in text
    assert "A new connection, phase by phase" in text
    assert "round&#39;s difference" not in text


def test_page_of_a_run_with_one_round_or_only_application_figures_is_complete() -> None:
    text = drawn(result_of(MONGODB, rounds=1))
    assert "No arm could be compared" in text
    assert not Page(text).wrong
    app = [metric for metric in mongodb().metrics if metric.view == "app"]
    only = drawn(mongodb(metrics=app))
    assert "On the wire</caption>" not in only
    assert "phase by phase" not in only


def test_page_without_published_figures_replicate_or_cpu_time_omits_their_sections() -> None:
    text = drawn(mongodb(published=None, noise_floor=[], cpu=[]))
    assert "published" not in Page(text).text
    assert "Noise floor" not in text
    assert 'id="cpu"' not in text


def test_page_shows_an_arm_in_error_with_its_reason() -> None:
    reason = "tls_certificate_name: the certificate is for another name"
    text = drawn(without_figures(two_keys(), "tls-rsa-4096", reason))
    assert "arm in error" in text
    assert text.count(reason) == 2, "in the answer and in evidence"


def test_table_headers_have_a_scope() -> None:
    headers = [attributes for tag, attributes in Page(page()).tags if tag == "th"]
    assert len(headers) > 40
    assert all(each.get("scope") in {"col", "row", "colgroup", "rowgroup"} for each in headers)
