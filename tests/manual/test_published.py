"""The page about five publications: all its figures are computed from stored runs and the studies' files."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from costof.format import NBSP
from costof.report.markdown import escape
from costof.report.result import Result
from costof.study.library import load_study
from manual import published_runs
from manual.claims import ANCHOR, TITLE, Agreement, claims_by_figure, summary
from manual.glance import cost
from manual.published import COLUMNS, NOT_YET, STUDIES, Statement, page, ratio_of_ratios, statements
from manual.published_runs import STORED, arguments, keep, stored
from manual.reports import DOCS, RUNS
from tests.fake_run import fake_run
from tests.manual.test_claims import judged
from tests.support.small_plans import plan_of
from tests.truths import TRUTHS

STUDY = "mysql-transport"
DIGITS = re.compile(r"\d+(?:[.,]\d+)*")


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Return the result of a study's real run, which measured some of the published settings."""
    folder = tmp_path_factory.mktemp("stored")
    (folder / f"{STUDY}.tar.xz").symlink_to(RUNS / f"{STUDY}.tar.xz")
    return stored(folder)[STUDY]


def test_page_shows_each_published_figure_beside_the_figure_of_a_real_run(real: Result) -> None:
    text = page({STUDY: real}, {})
    compared = [each for found in claims_by_figure(real) for each in found]
    assert compared
    rows = [line for line in text.splitlines() if line.count("|") > len(COLUMNS) and "a second" in line]
    assert len(rows) == len(compared)
    for row, claim in zip(rows, compared, strict=True):
        assert claim.effect.ratio is not None
        quotient = float(DIGITS.findall(row.split("|")[4])[0])
        assert quotient == pytest.approx(claim.ratio / claim.effect.ratio.value, abs=0.006)
        assert row.split("|")[5].strip() == claim.agreement.value
    assert f"nothing to compare with {18 - len(compared)} published figures" in text
    assert re.search(r"round trips instead of \d", text)
    assert "CPU time of an operation" in text
    assert text.count(f"{NOT_YET}.") == 2 * (len(STUDIES) - 1)


def test_page_shows_the_verdict_of_a_smaller_run_if_a_study_was_not_run_at_the_published_size(real: Result) -> None:
    text = page({}, {STUDY: real})
    verdict = escape(cost(real)).replace(NBSP, " ")
    found = f"{NOT_YET}; a [smaller run](studies/{STUDY}.md#{ANCHOR}) says: {verdict} {summary(real)}."
    assert text.count(found) == len(["what stands", "section"])
    assert f"## {TITLE}\n" in (DOCS / "studies" / f"{STUDY}.md").read_text()


def test_page_of_published_figures_without_runs_of_costof_has_only_published_numbers() -> None:
    text = page({}, {})
    known = {number for study in STUDIES for number in DIGITS.findall(" ".join(_texts(study)))}
    shown = set(DIGITS.findall(re.sub(r"\([^()]*[%]\)|\(×[\d.,]+\)|−?[\d.]+ %", "", text)))
    assert shown - known == set()


def _texts(study: str) -> list[str]:
    """Return the texts of a study that contain numbers: published figures (rounded in any way), names, and so on."""
    loaded = load_study(study)
    assert loaded.published is not None
    sides = [
        f"{value:,.{places}f}"
        for figure in loaded.published.figures
        for value in (figure.control_value, figure.value)
        if value is not None
        for places in range(5)
    ]
    names = [level for factor in loaded.factors.values() for level in (factor.label, *factor.levels)]
    metrics = [metric.label for metric in loaded.metrics.values()]
    series = [figure.series for figure in loaded.published.figures]
    return [loaded.title, loaded.published.cited, *arguments(study), *sides, *names, *metrics, *series]


def test_published_ratio_divided_by_the_measured_ratio_has_an_interval() -> None:
    ((claim,),) = claims_by_figure(judged(1.5))
    value, low, high = (float(each) for each in DIGITS.findall(str(ratio_of_ratios(claim))))
    ours = claim.effect.ratio
    assert ours is not None
    expected = (claim.ratio / ours.value, claim.ratio / ours.high, claim.ratio / ours.low)
    assert (value, low, high) == pytest.approx(expected, abs=0.006)


@pytest.mark.parametrize(
    ("agreements", "outcome"),
    [
        ([Agreement.YES], "Stands"),
        ([Agreement.YES, Agreement.IN_DIRECTION], "Stands in direction"),
        ([Agreement.YES, Agreement.NO], "Stands in part"),
        ([Agreement.NO, Agreement.UNDECIDED], "Does not stand"),
        ([Agreement.UNDECIDED], "Undecided"),
        ([], "Not measured"),
    ],
)
def test_published_statement_is_judged_by_how_many_of_its_figures_agree_with_a_run(
    agreements: list[Agreement], outcome: str
) -> None:
    ((claim,),) = claims_by_figure(judged(1.0))
    found = [[type(claim)(**{**vars(claim), "agreement": each})] for each in agreements]
    assert Statement("", found).outcome == outcome


def test_each_published_figure_is_compared_with_every_arm_that_has_its_settings(real: Result) -> None:
    assert sum(len(each.figures) for each in statements(real)) == sum(max(1, len(c)) for c in claims_by_figure(real))


def test_only_the_analysis_of_a_run_is_stored_if_its_raw_results_are_too_large(tmp_path: Path) -> None:
    run = fake_run(tmp_path / STUDIES[0], plan_of(STUDIES[0], "published"), TRUTHS[STUDIES[0]], rounds=6).folder
    keep(run, tmp_path / "whole")
    keep(run, tmp_path / "small", most_bytes=1)
    (whole,), (small,) = (stored(tmp_path / name).values() for name in ("whole", "small"))
    assert whole.effects == small.effects


def test_interrupted_run_continues_and_is_stored_once_it_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, called = STUDIES[0], list[list[str]]()
    monkeypatch.setattr(published_runs, "UNDER_WAY", tmp_path / "under-way")
    monkeypatch.setattr(published_runs, "STORED", tmp_path / "stored")

    def run(arguments: list[str]) -> None:
        called.append(arguments)
        shutil.rmtree(folder := Path(arguments[-1]), ignore_errors=True)
        partial = "interrupted" if len(called) == 1 else None
        fake_run(folder, plan_of(study, "published"), TRUTHS[study], rounds=6, partial=partial)

    monkeypatch.setattr(published_runs, "_run", run)
    assert published_runs.measure(study) is None
    for _ in range(2):
        assert published_runs.measure(study) == tmp_path / "stored" / f"{study}.tar.xz"
    assert [each[1] for each in called] == [study, "--resume"]
    assert [*stored(tmp_path / "stored")] == [study]


def test_every_stored_run_is_complete_and_uses_the_profile_named_published() -> None:
    results = stored(STORED)
    assert {each.profile for each in results.values()} <= {"published"}
    assert [each.study for each in results.values() if each.partial] == []
    assert (
        re.findall(r"/(?:home|root|work)/[\w./-]*", "".join(each.model_dump_json() for each in results.values())) == []
    )
