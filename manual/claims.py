"""Comparison of published figures with the figures of our runs: whether they agree, and how they differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from costof import format as fmt
from costof.report import document, handout
from costof.report.markdown import escape
from costof.report.result import Result
from costof.results.index import Index
from costof.results.models import Arm, Effect, Metric
from costof.statistics.estimate import Estimate, Verdict
from costof.study.library import load_study
from costof.study.plan import Options, resolve
from costof.study.schema import PublishedFigure, Study
from manual.kept import has_published_run

TITLE = "Published figures beside ours"
ANCHOR = TITLE.lower().replace(" ", "-")
RULE = (
    "A published figure agrees if its ratio is within our 95 % interval, or differs from our ratio by less than the "
    "metric's margin. It agrees in direction only if both are costs or both are gains. Differences in a unit are the "
    "figure with the protection minus the one without it; a change in percent is this difference divided by the one "
    "without it."
)
#: The profile of a study that repeats a published measurement at its original scale.
PROFILE = "published"
#: If a run did not measure the settings of more published figures, a page names only so many of them.
MOST_NAMED = 3
#: Five studies that repeat a publication's measurement. The page `published.md` compares the published figures with our
#: runs at the publication's scale.
PUBLICATIONS = (
    "mongodb-tls",
    "mysql-transport",
    "http-tls-termination",
    "mongodb-chained-replication",
    "mysql-column-encryption",
)
#: Figures that differ by less than this factor count as about the same.
ABOUT_THE_SAME = 1.25


class Agreement(Enum):
    YES = "agrees"
    IN_DIRECTION = "agrees in direction only"
    NO = "does not agree"
    UNDECIDED = "undecided"


class Direction(Enum):
    COST = "a cost"
    GAIN = "a gain"
    NONE = "no difference"


@dataclass(frozen=True)
class Claim:
    """A published figure, and the effect that our run measured in the same metric.

    `headline` says whether the metric is one of those that answer the study's question. `direction` says whether the
    published figure is a cost or a gain.
    """

    figure: PublishedFigure
    effect: Effect
    headline: bool
    what: str
    published: str
    ours: str
    ratio: float
    direction: Direction
    agreement: Agreement
    because: str

    @property
    def line(self) -> str:
        text = escape(f"{self.what}: published {self.published}, here {self.ours}.")
        return f"{text} **{fmt.capital(self.agreement.value)}.** {escape(self.because)}".rstrip()


def claims(result: Result) -> list[Claim]:
    """Compare each published figure with our run. Return a claim (the comparison) for each figure.

    Several arms of the run may have the settings of a figure; the first of them is compared. Figures without such an
    arm are left out.
    """
    return [each[0] for each in claims_by_figure(result) if each]


def claims_by_figure(result: Result) -> list[list[Claim]]:
    """Return, for each published figure, a claim (a comparison) for each arm of our run with the figure's settings."""
    index = Index(result)
    return [[*_claims(index, figure)] for figure in _figures(result)]


def paragraphs(result: Result) -> Iterator[str]:
    """Yield paragraphs that compare the study's published figures, if it has any, with the run."""
    if result.published is None:
        return
    study, index, larger = load_study(result.study), Index(result), larger_run(result.study)
    shown: list[str] = []
    missing: list[PublishedFigure] = []
    for figure, found in zip(_figures(result), claims_by_figure(result), strict=True):
        if line := found[0].line if found else _without_ratio(index, figure):
            shown.append(f"- {line}")
        else:
            missing.append(figure)
    if shown:
        yield "\n".join(shown)
    if missing:
        figures = fmt.plural(len(missing), "other published figure" if shown else "published figure")
        names = [named(study, each) for each in missing]
        more = [f"and {len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
        text = f"This run did not measure the settings of {figures}: {'; '.join([*names[:MOST_NAMED], *more])}."
        yield escape(text) + (f" {larger} measured more of them." if larger else _to_measure(study, missing))
    if result.study in PUBLICATIONS and not larger:
        yield f"This run is smaller than the publication's: [how to make one of its size]({_page(study.name)})."
    yield escape(result.published.cited)
    yield escape(our_setting(result))
    yield RULE


def larger_run(study: str) -> str:
    """Return, in Markdown, a link to the figures of our run of the published size; '' without such a run."""
    return f"[Our run of the published size]({_page(study)})" if has_published_run(study) else ""


def _page(study: str) -> str:
    return f"../published.md#{study}"


def _without_ratio(index: Index, figure: PublishedFigure) -> str:
    """Return, in Markdown, a published figure without a ratio beside ours, such as a count of flushes; '' without ours.

    The source has no figure without the protection, or this figure is 0.
    """
    arms = (each for each in index.arms if figure.fits(each.levels) and index.value(figure.metric, each.name))
    arm = next(arms, None)
    if ratio_of(figure) is not None or figure.value is None or arm is None:
        return ""
    metric, ours = index.metrics[figure.metric], index.value(figure.metric, arm.name)
    assert ours is not None
    published = fmt.with_unit(f"{figure.value:g}", metric.unit)
    text = f"{_what(index, figure, metric, arm)}: published {published}, here {fmt.absolute(ours.mean, metric.unit)}."
    return f"{escape(text)} **Not judged**, because the source has no ratio to a figure without the protection."


def _to_measure(study: Study, figures: Sequence[PublishedFigure]) -> str:
    """Return, in Markdown, a sentence with the command that measures the settings of `figures`; '' if none does."""
    if PROFILE in study.profiles:
        words, options = f"--profile {PROFILE}", Options(PROFILE)
    else:
        main = study.main_factor
        protected = dict.fromkeys(each.levels[main] for each in figures if main in each.levels)
        setting = f"{main}={','.join([study.control[main], *protected])}"
        words, options = f"--profile quick --set {setting}", Options("quick", [setting])
    arms = resolve(study, options).arms
    measured = sum(any(each.fits(arm.levels) for arm in arms) for each in figures)
    if not measured:
        return ""
    what = f"{measured} of them" if measured < len(figures) else "them" if measured > 1 else "it"
    return f" `costof run {study.name} {words}` measures {what}, with this study's own load."


def named(study: Study, figure: PublishedFigure) -> str:
    """Return the metric and the settings of a published figure, such as "'queries a second', transport tls"."""
    series = f" ({figure.series})" if figure.series else ""
    return f"'{study.metrics[figure.metric].label}', {levels(study, figure)}{series}"


def levels(study: Study, figure: PublishedFigure, *, context: bool = True) -> str:
    chosen = ((study.factors[name], level) for name, level in figure.levels.items())
    return fmt.listed([f"{factor.label} {level}" for factor, level in chosen if context or not factor.context])


def our_setting(result: Result) -> str:
    """Return date, versions and machine of the run, to compare with the setting of the published figures."""
    shared, facts = document(result).handout, result.environment
    assert shared is not None
    machine = f"{facts.get('cores', 'unknown')} cores of {facts.get('CPU', 'an unknown CPU')}"
    topology = f"; {facts['topology']}" if "topology" in facts else ""
    return f"Here: {shared.started}. {handout.versions(shared)}; {machine}{topology}."


def summary(result: Result) -> str:
    """Return text such as 'Published figures: 1 agrees, 3 agree in direction only'; '' if none can be compared."""
    found = claims(result)
    return f"Published figures: {counts(found)}" if found else ""


def counts(compared: Sequence[Claim]) -> str:
    """Return text such as '1 agrees, 3 agree in direction only'."""
    found = [each.agreement for each in compared]
    return fmt.listed([_counted(found.count(each), each.value) for each in Agreement if each in found])


def lead(result: Result) -> str:
    """Return, in Markdown, the most important published figure and ours, the source, and how many figures agree.

    Return '' if no published figure can be compared with the run.
    """
    found = claims(result)
    if not found or result.published is None:
        return ""
    first = next((each for each in found if each.headline), found[0])
    more = f" {summary(result)}." if len(found) > 1 else ""
    return f"{first.line} {escape(f'Source: {result.published.source}, {result.published.date}.')}{more}"


def _counted(number: int, words: str) -> str:
    plural = words.replace("agrees", "agree").replace("does", "do")
    return f"{number} {words if number == 1 else plural}"


def _figures(result: Result) -> list[PublishedFigure]:
    return result.published.figures if result.published is not None else []


def _claims(index: Index, figure: PublishedFigure) -> Iterator[Claim]:
    metric, ratio = index.metrics.get(figure.metric), ratio_of(figure)
    if metric is None or ratio is None:
        return
    for arm in (each for each in index.arms if figure.fits(each.levels)):
        effect = index.effect(figure.metric, arm.name)
        if effect is not None and effect.printed_ratio is not None:
            yield _claim(index, figure, ratio, metric, effect, effect.printed_ratio, arm)


def _claim(
    index: Index, figure: PublishedFigure, ratio: float, metric: Metric, effect: Effect, our_ratio: Estimate, arm: Arm
) -> Claim:
    agreement, because = _judge(figure, ratio, metric, effect)
    return Claim(
        figure=figure,
        effect=effect,
        headline=metric.headline,
        what=_what(index, figure, metric, arm),
        published=published_text(figure, metric.unit),
        ours=f"{_sides(effect.control_value, effect.value, metric.unit)} ({fmt.relative(our_ratio)})",
        ratio=ratio,
        direction=direction(ratio, metric.margin, metric.better),
        agreement=agreement,
        because=because,
    )


def _what(index: Index, figure: PublishedFigure, metric: Metric, arm: Arm) -> str:
    series = f" ({figure.series})" if figure.series else ""
    return fmt.capital(f"{index.metric_in_view(metric.name)} with {arm.label_at_place}{series}")


def published_text(figure: PublishedFigure, unit: str) -> str:
    """Return the published figure with its ratio, such as '24.4 → 63.4 ms (×2.60)', or the ratio alone."""
    ratio = ratio_of(figure)
    assert ratio is not None, "a published figure has a ratio or two values"
    if figure.control_value is None or figure.value is None:
        return change(ratio)
    return f"{_sides(figure.control_value, figure.value, unit)} ({change(ratio)})"


def ratio_of(figure: PublishedFigure) -> float | None:
    if figure.ratio is not None:
        return figure.ratio
    return figure.value / figure.control_value if figure.value is not None and figure.control_value else None


def change(ratio: float) -> str:
    """Return a published ratio as a change, such as '+1.8 %', '×14.2' or '×1,008'."""
    if ratio < fmt.MULTIPLE_FROM:
        return fmt.bare_ratio(ratio)
    return fmt.multiple(ratio, fmt.significant_decimals(ratio))


def _sides(control: float, value: float, unit: str) -> str:
    before, after = (fmt.number(each, fmt.significant_decimals(each)) for each in (control, value))
    return f"{before} → {fmt.with_unit(after, unit)}"


def _judge(figure: PublishedFigure, ratio: float, metric: Metric, effect: Effect) -> tuple[Agreement, str]:
    """Return whether the published figure agrees with our effect, and the reason in a sentence."""
    assert effect.printed_ratio is not None
    ours, margin = effect.printed_ratio, fmt.share(metric.margin)
    here, there = _our_direction(effect), direction(ratio, metric.margin, metric.better)
    if ours.low <= ratio <= ours.high:
        if here is None:
            return Agreement.UNDECIDED, "Our interval includes the published ratio, but also that there is no effect."
        return Agreement.YES, "Our interval includes the published ratio."
    if abs(ratio - ours.value) <= metric.margin * max(1.0, ratio, ours.value):
        return Agreement.YES, f"Both ratios are the same within the margin of {margin}."
    if here is None:
        return Agreement.UNDECIDED, "Our interval excludes the published ratio, but not that there is no effect."
    if here is there:
        return Agreement.IN_DIRECTION, _difference_in_size(figure, ratio, effect)
    return Agreement.NO, f"There it is {there.value}, here it is {here.value}{_above(margin, here, there)}."


def _above(margin: str, *directions: Direction) -> str:
    return f" (above {margin})" if Direction.NONE in directions else ""


def _our_direction(effect: Effect) -> Direction | None:
    """Return the direction of our effect: cost, gain or none. Return None if its verdict is 'unresolved'."""
    known = {Verdict.COSTS: Direction.COST, Verdict.SAVES: Direction.GAIN, Verdict.UNRESOLVED: None}
    return known.get(effect.verdict, Direction.NONE)


def direction(ratio: float, margin: float, better: str) -> Direction:
    if abs(ratio - 1) <= margin:
        return Direction.NONE
    return Direction.COST if (ratio > 1) == (better == "lower") else Direction.GAIN


def _difference_in_size(figure: PublishedFigure, ratio: float, effect: Effect) -> str:
    """Return a sentence that says how many times as large the published figures are as ours.

    It compares two figures: the value without the protection, and the difference that the protection makes. If only the
    ratio was published, it compares the change in percent.
    """
    before, after = figure.control_value, figure.value
    if before is None or after is None or not effect.control_value or not effect.difference.value:
        assert effect.printed_ratio is not None
        return f"The published change in percent is {_times((ratio - 1) / (effect.printed_ratio.value - 1))} ours."
    plain, changed = before / effect.control_value, (after - before) / effect.difference.value
    unit = fmt.UNITS.get(effect.unit, effect.unit)
    return (
        f"The published figure without the protection is {_times(plain)} ours, and the published difference in {unit} "
        f"is {_times(changed)} ours."
    )


def _times(factor: float) -> str:
    """Return the words before 'ours' in a sentence: such as '2.1 times', or 'about' for a factor close to 1."""
    if 1 / ABOUT_THE_SAME <= factor <= ABOUT_THE_SAME:
        return "about"
    return f"{fmt.number(factor, fmt.significant_decimals(factor, 2))} times"
