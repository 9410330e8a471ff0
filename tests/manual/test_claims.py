"""The comparison of published figures with the intervals and verdicts of a run."""

from __future__ import annotations

from typing import Any

import pytest

from costof.format import NBSP
from costof.report.result import Result
from costof.statistics.estimate import Verdict
from costof.study.library import load_study
from costof.study.schema import Published, PublishedFigure
from manual.claims import Agreement, claims, paragraphs
from tests.report.results import POSTGRES_AUDIT, mongodb, result_of

METRIC, PROTECTED = "wire.connect_and_first_query", "tls"


def judged(ratio_to_ours: float | None = None, verdict: Verdict | None = None, ratio: float = 1.0) -> Result:
    """Return a result with one published ratio: `ratio`, or `ratio_to_ours` times the ratio that was measured."""
    result = mongodb()
    effects = [
        each.model_copy(update={"verdict": verdict})
        if verdict and (each.metric, each.arm) == (METRIC, PROTECTED)
        else each
        for each in result.effects
    ]
    ours = next(each.ratio for each in effects if (each.metric, each.arm) == (METRIC, PROTECTED))
    assert ours is not None
    figure = PublishedFigure(
        metric=METRIC,
        levels={"transport": "tls"},
        control_value=10.0,
        value=10.0 * (ratio if ratio_to_ours is None else ours.value * ratio_to_ours),
    )
    published = Published(source="a blog", date="2020-01-01", setting="a laptop", figures=[figure])
    return result.model_copy(update={"effects": effects, "published": published})


@pytest.mark.parametrize(
    ("published", "agreement", "because"),
    [
        ({"ratio_to_ours": 1.0}, Agreement.YES, "interval includes"),
        ({"ratio_to_ours": 1.045}, Agreement.YES, "within the margin of 5"),
        ({"ratio_to_ours": 3.0}, Agreement.IN_DIRECTION, "without the protection"),
        ({"ratio": 0.5}, Agreement.NO, "There it is a gain, here it is a cost."),
        ({"ratio": 1.01}, Agreement.NO, "There it is no difference, here it is a cost (above 5"),
        ({"ratio_to_ours": 1.0, "verdict": Verdict.UNRESOLVED}, Agreement.UNDECIDED, "also that there is no effect"),
    ],
    ids=["equal", "within the margin", "larger", "opposite", "none published", "unresolved"],
)
def test_judgement_of_a_published_figure_has_a_reason(
    published: dict[str, Any], agreement: Agreement, because: str
) -> None:
    (claim,) = claims(judged(**published))
    assert claim.agreement is agreement
    assert because in claim.because


def test_published_figure_whose_settings_were_not_measured_is_not_judged() -> None:
    result = judged(1.0)
    assert result.published is not None
    figure = result.published.figures[0].model_copy(update={"levels": {"transport": "carrier pigeon"}})
    published = result.published.model_copy(update={"figures": [figure]})
    other = result.model_copy(update={"published": published})
    assert claims(other) == []
    text = " ".join(paragraphs(other))
    assert "This run did not measure the settings of 1 published figure: " in text
    assert "transport carrier pigeon." in text


def test_page_gives_the_command_that_measures_the_settings_of_a_published_figure() -> None:
    study = load_study(POSTGRES_AUDIT)
    result = result_of(POSTGRES_AUDIT).model_copy(update={"published": study.published})
    text = " ".join(paragraphs(result))
    assert "'transactions a second', audit ddl (COPY into TimescaleDB)." in text
    assert (
        f"`costof run {POSTGRES_AUDIT} --profile quick --set audit=off,ddl` measures it, with this study's own load."
        in text
    )


def test_published_figure_without_a_ratio_is_shown_beside_ours_without_a_judgement() -> None:
    result = judged(1.0)
    assert result.published is not None
    (figure,) = result.published.figures
    alone = figure.model_copy(update={"control_value": None, "value": 2.0})
    published = result.published.model_copy(update={"figures": [alone]})
    text = " ".join(paragraphs(result.model_copy(update={"published": published}))).replace(NBSP, " ")
    assert "published 2 ms, here " in text
    assert "**Not judged**" in text
    assert "did not measure" not in text
