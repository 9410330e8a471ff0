"""The HTML report: whole, self-contained, and safe to open."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from itertools import cycle
from pathlib import Path

from report_sample import Golden, drawn, empty_result, make_arm, make_errors, make_metric, make_result

from costof.analysis.models import Cpu, ErrorCount
from costof.document.palette import COLOURS
from costof.report import render_html, write_reports
from costof.report.result import Result
from costof.statistics.estimate import Verdict

VOID = {"meta", "br", "col", "link", "img", "input", "hr"}
EVIL = "<script>alert('x')</script>"


class Page(HTMLParser):
    """Tags with their attributes, and every tag that was not closed where it should have been."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


@cache
def page() -> str:
    return drawn(make_result(errors=make_errors(), warnings=["Steal time was 4 %."]))


def without_pictures(text: str) -> str:
    return re.sub(r"<svg.*?</svg>", "<svg></svg>", text, flags=re.DOTALL)


def test_looks_as_agreed(golden: Golden) -> None:
    text = without_pictures(page())
    golden("report.html", re.sub(r"<style>.*?</style>", "<style></style>", text, flags=re.DOTALL))


def test_all_pictures_are_there_in_both_widths() -> None:
    tags = [attributes for tag, attributes in Page(page()).tags if tag == "svg"]
    assert len(tags) == 10
    assert all(each["role"] == "img" and each["aria-labelledby"] for each in tags)


def test_the_page_is_well_formed_and_its_ids_are_unique() -> None:
    read = Page(page())
    assert not read.wrong
    assert not read.open
    ids = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {name for _, attributes in read.tags for name in (attributes.get("aria-labelledby") or "").split()}
    inner = {(a.get("href") or "")[1:] for _, a in read.tags if (a.get("href") or "").startswith("#")}
    clips = set(re.findall(r"url\(#([^)]+)\)", page()))
    assert (targets | inner | clips) <= set(ids)


def test_nothing_is_fetched() -> None:
    for tag, attributes in Page(page()).tags:
        assert tag not in {"script", "link", "img", "iframe", "object", "embed", "base", "image"}
        for name, value in attributes.items():
            if name in {"src", "srcset", "action", "data", "poster"} or (name.endswith("href") and tag != "a"):
                assert (value or "").startswith("#"), (tag, name, value)
    assert not re.search(r"@import|@font-face|url\((?!#)", page())
    assert "http" not in re.sub(r'<a [^>]*href="[^"]*"', "", page())


def test_the_same_result_gives_the_same_page() -> None:
    assert render_html(make_result(errors=make_errors(), warnings=["Steal time was 4 %."])) == page()


def test_pictures_follow_the_scheme_and_keep_their_text() -> None:
    svgs = " ".join(re.findall(r"<svg.*?</svg>", page(), flags=re.DOTALL))
    assert not re.search(r"(?<!, )#[0-9a-f]{6}\b", svgs), "a colour that no scheme changes"
    assert "prefers-color-scheme: dark" in page()
    assert ">2 round trips</text>" in svgs
    assert ">connect and first query, wire</text>" in svgs


def test_the_palette_names_each_colour_once() -> None:
    lights = [light for light, _ in COLOURS.values()]
    assert len(set(lights)) == len(lights), "two names for one colour could not be told apart in a drawing"


def hostile() -> Result:
    """A result in which everything that somebody else words is an attack."""
    result = make_result()
    arms = [arm.model_copy(update={"label": EVIL + "$x_1$"}) for arm in result.arms]
    return result.model_copy(
        update={
            "question": EVIL,
            "arms": arms,
            "metrics": [make_metric(metric.name).model_copy(update={"label": EVIL}) for metric in result.metrics],
            "cpu": [
                Cpu(workload=EVIL, arm="tls", operations=1, seconds_per_1000={EVIL: 1.0, "client": 1.0}, busiest=EVIL)
            ],
            "errors": [ErrorCount(arm=EVIL, workload=EVIL, error_class=EVIL, count=1, detail=EVIL)],
            "warnings": [EVIL],
            "partial": EVIL,
            "environment": {EVIL: {EVIL: [EVIL]}},
        }
    )


def test_other_peoples_words_are_escaped_everywhere() -> None:
    text = drawn(hostile())
    assert "<script" not in text
    assert text.count("&lt;script&gt;") > 30
    assert not Page(text).wrong


CHIPS = {
    Verdict.COSTS: ("costs", "costs"),
    Verdict.SAVES: ("saves", "saves"),
    Verdict.NO_COST: ("none", "no cost above 5\N{NO-BREAK SPACE}%"),
    Verdict.UNRESOLVED: ("unresolved", "unresolved"),
}


def test_every_verdict_is_said_in_words() -> None:
    result = make_result()
    given = dict(zip([effect.metric for effect in result.effects], cycle(CHIPS)))
    assert set(given.values()) == set(Verdict)
    effects = [effect.model_copy(update={"verdict": given[effect.metric]}) for effect in result.effects]
    costs = drawn(result.model_copy(update={"effects": effects})).split('<section id="costs"')[1].split("</section>")[0]
    chips = re.findall(r'<span class="chip (\w+)"><span[^>]*>.</span> (.*?)</span>', costs)
    # A row for each metric, in the order in which they are told.
    assert Counter(chips) == Counter(CHIPS[verdict] for verdict in given.values())


def test_no_rounds_gives_words_and_no_empty_axes() -> None:
    text = drawn(empty_result())
    assert "No round was completed" in text
    assert "<svg" not in text
    assert "Partial run:" in text
    assert not Page(text).wrong


def test_rounds_without_effects() -> None:
    text = drawn(make_result(effects=[], noise_floor=[], sections={}))
    assert "No arm could be compared" in text
    assert "A new connection, phase by phase" in text
    assert "round&#39;s difference" not in text


def test_a_run_of_one_round_and_of_one_view() -> None:
    text = drawn(make_result(rounds=1))
    assert "[one round]" in text
    result = make_result()
    app = [metric for metric in result.metrics if metric.view == "app"]
    only = drawn(result.model_copy(update={"metrics": app}))
    assert "On the wire</caption>" not in only
    assert "phase by phase" not in only


def test_without_published_figures_twin_or_cpu() -> None:
    text = drawn(make_result(published=None, noise_floor=[], cpu=[]))
    assert "published" not in without_pictures(text).split("</style>")[1]
    assert "Noise floor" not in text
    assert 'id="cpu"' not in text


def test_arm_in_error_stands_with_its_reason() -> None:
    result = make_result()
    arms = [*result.arms, make_arm("tls-4096", error="tls_certificate_name: the certificate is for another name")]
    text = drawn(result.model_copy(update={"arms": arms}))
    assert "arm in error" in text
    assert text.count("tls_certificate_name: the certificate is for another name") == 2, "in the answer and in evidence"


def test_the_twin_is_no_row_of_costs() -> None:
    costs = page().split('<section id="costs"')[1].split("</section>")[0]
    assert "twin" not in costs
    assert "Noise floor." in costs


def test_headers_of_tables_have_a_scope() -> None:
    headers = [attributes for tag, attributes in Page(page()).tags if tag == "th"]
    assert len(headers) > 40
    assert all(each.get("scope") in {"col", "row", "colgroup", "rowgroup"} for each in headers)


def test_files_are_written_where_asked(tmp_path: Path) -> None:
    paths = write_reports(make_result(), tmp_path)
    assert [path.name for path in paths] == ["report.html", "report.md"]
    assert all(path.stat().st_size > 1000 for path in paths)
