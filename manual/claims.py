"""Published figures beside ours: whether the two agree, and in what they differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from costof import format as fmt
from costof.report.markdown import escape
from costof.report.result import Result
from costof.results.index import Index
from costof.results.models import Effect, Metric
from costof.statistics.estimate import Verdict
from costof.study.schema import PublishedFigure

RULE = (
    "A published figure agrees if the published ratio is within our 95 % interval, or differs from our ratio by less "
    "than the metric's margin."
)
NO_EFFECT = (Verdict.NO_DIFFERENCE, Verdict.NO_COST)
#: Two times that differ by less than this factor count as about the same.
ABOUT_THE_SAME = 1.25


@dataclass(frozen=True)
class Claim:
    """A published figure with our effect of the same metric and protection. `agrees` is None if we cannot tell."""

    what: str
    published: str
    ours: str
    agrees: bool | None
    because: str

    @property
    def line(self) -> str:
        word = {True: "Agrees.", False: "Does not agree.", None: "Undecided."}[self.agrees]
        return f"**{word}** {escape(f'{self.what}: published {self.published}, here {self.ours}. {self.because}')}"


def claims(result: Result) -> list[Claim]:
    """Return the published figures that the run can be compared with."""
    return [claim for figure in _figures(result) if (claim := _claim(result, figure)) is not None]


def section(result: Result) -> Iterator[str]:
    """Yield the paragraphs about published figures; none if the study has no published figures."""
    if result.published is None:
        return
    compared = claims(result)
    if compared:
        yield "\n".join(f"- {each.line}" for each in compared)
    others = len(_figures(result)) - len(compared)
    if others:
        figures = fmt.plural(others, "other published figure" if compared else "published figure")
        yield f"This run did not measure the settings of {figures}."
    yield escape(result.published.cited)
    yield RULE


def summary(result: Result) -> str:
    """Return a sentence such as '1 of 4 published figures agrees.'; '' without comparable figures."""
    compared = claims(result)
    agreeing = sum(each.agrees is True for each in compared)
    figures = fmt.plural(len(compared), "published figure")
    return f"{agreeing} of {figures} {'agrees' if agreeing == 1 else 'agree'} with ours." if compared else ""


def _figures(result: Result) -> list[PublishedFigure]:
    return result.published.figures if result.published is not None else []


def _claim(result: Result, figure: PublishedFigure) -> Claim | None:
    index = Index(result)
    metric = index.metrics.get(figure.metric)
    effects = (index.effect(figure.metric, arm.name) for arm in index.arms if figure.fits(arm.levels))
    effect = next((each for each in effects if each is not None), None)
    ratio = _ratio(figure)
    if metric is None or effect is None or effect.ratio is None or ratio is None:
        return None
    series = f" ({figure.series})" if figure.series else ""
    agrees, because = _judge(figure, ratio, metric, effect)
    ours = f"{_sides(effect.control_value, effect.value, metric.unit)} ({fmt.relative(effect.ratio)})"
    published = fmt.bare_ratio(ratio)
    if figure.control_value is not None and figure.value is not None:
        published = f"{_sides(figure.control_value, figure.value, metric.unit)} ({published})"
    what = f"{index.metric_in_view(metric.name)} with {index.label_at(effect.arm)}{series}"
    return Claim(fmt.capital(what), published, ours, agrees, because)


def _ratio(figure: PublishedFigure) -> float | None:
    if figure.ratio is not None:
        return figure.ratio
    return figure.value / figure.control_value if figure.value is not None and figure.control_value else None


def _sides(control: float, value: float, unit: str) -> str:
    decimals = max(fmt.significant_decimals(control), fmt.significant_decimals(value))
    return f"{fmt.number(control, decimals)} → {fmt.with_unit(fmt.number(value, decimals), unit)}"


def _judge(figure: PublishedFigure, ratio: float, metric: Metric, effect: Effect) -> tuple[bool | None, str]:
    """Return whether the figures agree, and why, in a sentence."""
    assert effect.ratio is not None
    if effect.ratio.low <= ratio <= effect.ratio.high:
        if effect.verdict is Verdict.UNRESOLVED:
            return None, "Our interval includes the published ratio, but also no effect at all."
        return True, "Our interval includes the published ratio."
    if abs(ratio / effect.ratio.value - 1) <= metric.margin:
        return True, f"The ratios differ by less than {fmt.share(metric.margin)}."
    return False, _difference(figure, ratio, metric, effect)


def _difference(figure: PublishedFigure, ratio: float, metric: Metric, effect: Effect) -> str:
    """Return a sentence about the part in which the figures differ: the effect's direction or size, the unprotected
    side, or the amount that the protection adds."""
    assert effect.ratio is not None
    costs = ratio > 1 if metric.better == "lower" else ratio < 1
    direction = "a cost" if costs else "a gain"
    if effect.verdict in NO_EFFECT:
        return f"There it is {direction}, here there is none above {fmt.share(metric.margin)}."
    if effect.verdict is not Verdict.UNRESOLVED and costs != (effect.verdict is Verdict.COSTS):
        return f"There it is {direction}, here {'a cost' if effect.verdict is Verdict.COSTS else 'a gain'}."
    same = "both are costs" if costs else "both are gains"
    if effect.verdict is Verdict.UNRESOLVED:
        same = "our interval excludes the published ratio, but not that there is no effect"
    before, after = figure.control_value, figure.value
    if before is None or after is None or not effect.control_value or not effect.difference.value:
        return f"{fmt.capital(same)}, but of different sizes." if "both" in same else f"{fmt.capital(same)}."
    plain, added = before / effect.control_value, (after - before) / effect.difference.value
    parts = [
        _compared("the figure without the protection", plain),
        _compared("the change by the protection", added),
    ]
    return f"{fmt.capital(same)}; {fmt.listed(parts)}."


def _compared(what: str, factor: float) -> str:
    """Return text such as 'the figure without the protection is 2.1 times ours'."""
    if 1 / ABOUT_THE_SAME <= factor <= ABOUT_THE_SAME:
        return f"{what} is about the same"
    return f"{what} is {fmt.number(factor, fmt.significant_decimals(factor, 2))} times ours"
