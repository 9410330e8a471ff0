"""The line 'How sure' of a summary: high, limited or low, with the reasons and the affected figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field

from costof import format as fmt
from costof.model import Model
from costof.report.key_figures import CORES, KeyFigure, rounds_in_words
from costof.results.index import Index
from costof.statistics.estimate import Verdict

MARKS = {True: "✓", False: "✗", None: "–"}
MOST_DOUBTS = 2
MOST_NAMES = 3
HIGH, LIMITED, LOW = "high", "limited", "low"
EVERY, EVERY_KEY_FIGURE, FIGURES_FOR = "every figure", "every key figure", "the figures for "


class Check(Model):
    """A check of the conditions under which the figures can be trusted.

    `passed` is None if the run could not check the condition. `detail` says what is wrong or unknown.
    """

    passed: bool | None
    label: str
    detail: str = ""
    doubt: str = Field(default="", description="What is wrong, as a short clause, such as '2 operations failed'.")
    metrics: list[str] | None = Field(
        default=None, description="The metrics whose figures it makes less sure; None for those of all metrics."
    )
    arms: list[str] | None = Field(
        default=None, description="The arms whose figures it makes less sure; None for those of all arms."
    )

    @property
    def words(self) -> str:
        """Return the check as text, such as '✓ machine quiet'."""
        return f"{MARKS[self.passed]} {self.label}{f': {self.detail}' if self.detail else ''}"

    def affected(self, figures: Sequence[KeyFigure]) -> list[KeyFigure]:
        """Return the figures that are less certain if the check fails."""
        return [
            figure
            for figure in figures
            if self.metrics is None or not set(self.metrics).isdisjoint(figure.metrics)
            if self.arms is None or not set(self.arms).isdisjoint(figure.arms)
        ]


def how_sure(index: Index, figures: Sequence[KeyFigure], checks: Sequence[Check]) -> str:
    """Return text such as 'limited: the machine was 61 % busy with other programs, which affects every figure.'

    The level is 'high' if every figure has a verdict (CPU cores may lack one) and no failed check affects the figures.
    It is 'low' if no figure has a verdict, and otherwise 'limited'. Return '' if there are no figures.
    """
    if not figures:
        return ""
    failed = [check for check in checks if check.passed is False]
    doubts = [*_doubts(index, figures, failed)]
    unresolved = _unresolved(figures)
    if not doubts and not unresolved:
        return f"{HIGH}: {index.extent}{_passed(checks, failed)}."
    if unresolved:
        names = _names(unresolved, figures, every=EVERY_KEY_FIGURE)
        one = len(unresolved) == 1 or names == EVERY_KEY_FIGURE
        effects, are = ("the effect", "is") if one else ("the effects", "are")
        doubts.insert(0, f"after {index.extent}, {effects} on {names} {are} unresolved")
    more = f"; {fmt.plural(len(doubts) - MOST_DOUBTS, 'more doubt')} below" if len(doubts) > MOST_DOUBTS else ""
    level = LOW if len(unresolved) == len(figures) else LIMITED
    return f"{level}: {'; '.join(doubts[:MOST_DOUBTS])}{more}."


def _passed(checks: Sequence[Check], failed: Sequence[Check]) -> str:
    if failed:
        labels = fmt.listed([check.label for check in failed])
        noun, verb = ("check", "affects") if len(failed) == 1 else ("checks", "affect")
        return f"; the failed {noun} ({labels}) {verb} none of the figures in the short answer"
    if not checks:
        return ", all resolved"
    return ", all checks passed" if all(check.passed for check in checks) else ", no check failed"


def _unresolved(figures: Sequence[KeyFigure]) -> list[KeyFigure]:
    """Return the figures without a verdict; [] if only numbers of CPU cores have no verdict.

    A missing verdict on cores does not mean that the figures are uncertain. If a protection needs hardly any CPU time,
    the number of added cores is about 0, even in a good run.
    """
    unresolved = [figure for figure in figures if figure.verdict is Verdict.UNRESOLVED]
    return unresolved if any(figure.name != CORES for figure in unresolved) else []


def _doubts(index: Index, figures: Sequence[KeyFigure], failed: Sequence[Check]) -> Iterator[str]:
    """Yield each reason to doubt figures, with the names of the affected figures."""
    for check in failed:
        if check.doubt and (affected := check.affected(figures)):
            yield f"{check.doubt}, which affects {_names(affected, figures, before_names=FIGURES_FOR)}"
    uneven = [(figure, figure.uneven) for figure in figures if figure.uneven is not None and figure.uneven.rounds]
    if uneven:
        rounds = rounds_in_words(uneven[0][1], index.unit)
        differ = "differs" if len(uneven[0][1].rounds) == 1 else "differ"
        names = _names([figure for figure, _ in uneven], figures)
        yield f"{rounds} {differ} greatly from the others in {names}"
    shifted = {each.metric for each in index.core.carry_over}
    if affected := [figure for figure in figures if not shifted.isdisjoint(figure.metrics)]:
        yield f"the order of measurements changes {_names(affected, figures, before_names=FIGURES_FOR)}"


def _names(
    affected: Sequence[KeyFigure], figures: Sequence[KeyFigure], *, every: str = EVERY, before_names: str = ""
) -> str:
    """Return the affected quantities in words; if they are named, after the text `before_names`.

    A quantity that is not affected in all arms is followed by its arms if it is the only one, and otherwise by 'some
    variants'. If there are more than `MOST_NAMES` quantities, return the number of affected figures: '5 of the 8 key
    figures'.
    """
    if len(affected) == len(figures) > 1:
        return every
    quantities = _arms_by_quantity(affected)
    if len(quantities) > MOST_NAMES:
        return f"{len(affected)} of the {len(figures)} key figures"
    known = _arms_by_quantity(figures)
    partly = [words for words, labels in quantities.items() if labels != known[words]]
    if len(quantities) == 1 and partly:
        return f"{before_names}{partly[0]} for {fmt.listed(quantities[partly[0]])}"
    return before_names + fmt.listed([f"{words} (some variants)" if words in partly else words for words in quantities])


def _arms_by_quantity(figures: Sequence[KeyFigure]) -> dict[str, list[str]]:
    arms: dict[str, list[str]] = {}
    for figure in figures:
        arms.setdefault(figure.object_words, []).append(figure.arm_label)
    return arms
