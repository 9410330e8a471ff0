"""Pages quote the published runs as the current analysis reports them. `python -m manual quote` updates the pages."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from costof.cli.main import cli
from costof.format import NBSP
from costof.report.markdown import escape
from costof.report.result import Result
from costof.studies import study_names
from costof.study.library import load_study
from manual.__main__ import PICTURE, PICTURED
from manual.answers import EMBEDDED, answer
from manual.glance import overview
from manual.kept import KEPT, UPGRADES, of_studies
from manual.picture import picture
from manual.protections import StoredRun
from manual.published import page as published_page
from manual.reports import DOCS, QUOTED, pages_that_quote, stored_runs, update_quotes, write_pages


@cache
def runs() -> dict[str, StoredRun]:
    return stored_runs()


def kept() -> dict[str, Result]:
    return {name: stored.result for name, stored in runs().items()}


def test_each_study_and_each_listed_question_has_a_published_run_that_is_complete() -> None:
    assert set(kept()) == set(KEPT) > set(study_names())
    assert {name: result.study for name, result in kept().items()} == {name: run.study for name, run in KEPT.items()}
    assert [name for name, result in kept().items() if result.partial] == []


@pytest.mark.parametrize("page", pages_that_quote(), ids=lambda page: page.name)
def test_quotes_in_a_documentation_page_equal_the_current_analysis_of_the_published_runs(page: Path) -> None:
    assert page.read_text() == update_quotes(page.read_text(), runs())


def test_each_study_has_a_documentation_page_that_quotes_its_published_run() -> None:
    pages = {page.stem: page.read_text() for page in (DOCS / "studies").glob("*.md")}
    assert sorted(pages) == study_names()
    quoted = {name: [(kind, study) for _, kind, study, _ in QUOTED.findall(text)] for name, text in pages.items()}
    assert quoted == {name: [("answer", name), ("run", name), ("precision", name)] for name in study_names()}


def test_verdict_on_each_further_question_is_quoted_on_its_own_page_and_on_the_first_page() -> None:
    for run in (each for each in KEPT.values() if not each.is_of_study):
        page = (DOCS / run.page).read_text()
        section = page.partition(f"## {run.question} {{#{run.name}}}\n")[2]
        assert [(kind, name) for _, kind, name, _ in QUOTED.findall(section)][:2] == [
            ("answer", run.name),
            ("run", run.name),
        ]
        summary = kept()[run.name].summary
        verdict = escape(summary.verdict).replace(NBSP, " ")
        lines = [escape(line).replace(NBSP, " ") for line in summary.lines]
        assert "\n>\n".join(f"> **{line}**" for line in lines) in section
        assert f"- **[{run.question}]({run.page}#{run.name})** {verdict}" in overview([kept()[run.name]])


def test_condition_of_a_verdict_follows_it_on_pages_that_show_several_studies() -> None:
    name = "mongodb-chained-replication"
    chosen = {study: kept()[study] for study in (name, "mongodb-tls")}
    assert KEPT[name].condition
    for text in (overview([chosen[name]]), answer(chosen["mongodb-tls"], chosen, None), published_page({}, chosen)):
        assert escape(KEPT[name].condition) in text.replace(NBSP, " ")


def test_study_page_gives_a_command_that_measures_four_times_as_many_rounds() -> None:
    for name in ("mongodb-tls", "postgres-pooling"):
        text = update_quotes(f"<!-- precision {name} -->\n<!-- end -->", runs())
        words = shlex.split(text.split("`")[1])
        assert words[-2:] == ["--rounds", str(4 * kept()[name].rounds)]
        assert CliRunner().invoke(cli, [*words[1:], "--dry-run"]).exit_code == 0


def test_report_of_an_upgrade_embedded_in_a_page_has_no_calculator(tmp_path: Path) -> None:
    name = UPGRADES[0].name
    write_pages({name: kept()[name]}, tmp_path)
    assert "Computed for your load" in (tmp_path / f"{name}.html").read_text()
    assert "Computed for your load" not in (tmp_path / EMBEDDED.format(run=name)).read_text()


def test_each_study_has_exactly_one_published_run_of_its_own() -> None:
    assert sorted(of_studies(kept())) == study_names()


def test_title_of_each_study_page_is_the_question_of_the_study() -> None:
    titles = {page.stem: page.read_text().partition("\n")[0] for page in (DOCS / "studies").glob("*.md")}
    assert titles == {name: f"# {load_study(name).title}" for name in study_names()}


def test_published_picture_matches_the_published_run() -> None:
    assert PICTURE.read_text() == picture(kept()[PICTURED])


def test_published_results_contain_no_paths_of_the_measuring_machine() -> None:
    """Such a path would also contain the name of a user."""
    text = "".join(result.model_dump_json() for result in kept().values())
    assert re.findall(r"/(?:home|root|work)/[\w./-]*", text) == []
