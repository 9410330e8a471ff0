"""The sentence of a verdict, such as 'TLS adds 5.3 ms (+65 %) to a new connection'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from operator import neg

from costof import format as fmt
from costof.report.key_figures import CORES, KeyFigure
from costof.statistics.estimate import Verdict

MOST_IN_VERDICT = 3
MOST_ARMS = 4
"""If the verdict has a sentence for each arm, it has at most this many sentences."""
MOST_OF_TWO = 2
"""If the verdict has a sentence for each of two arms, each sentence has at most this many figures."""
HALVED = 0.5
"""The verdict names a rate if the protection lowers it to this share of the control's rate, or below."""
SAME_FACTOR = 1.25
"""A lower rate and a longer time count as one finding if they get worse by about the same factor.

For example, a halved rate (factor 2) and a time that is 1.8 times as long: 2 / 1.8 is less than SAME_FACTOR.
"""


def verdict_figures(group: Sequence[KeyFigure], most: int) -> list[KeyFigure]:
    """Return the figures that the verdict on an arm names, at most `most`.

    Resolved effects are preferred to unresolved ones. The last figure is the number of CPU cores (`CORES`), if the arm
    has this figure and `most` allows two. A rate that the protection lowers takes its place if one condition is true:

    - The study judges its mitigations by this rate (`KeyFigure.decides`).
    - The rate falls to half (`HALVED`) or less, or gets worse by a larger factor than all other figures in the verdict,
      and none of these figures says the same (`_say_the_same`).
    """
    cores = [figure for figure in group if figure.name == CORES][: most - 1]
    others = [figure for figure in group if figure.name != CORES]
    first = sorted(others, key=lambda figure: most > 1 and figure.verdict is Verdict.UNRESOLVED)[: most - len(cores)]
    shown: list[KeyFigure] = []
    rest: list[KeyFigure] = []
    for figure in others:
        (shown if any(figure is each for each in first) else rest).append(figure)
    largest = max((figure.factor or inf for figure in shown), default=inf)
    lowered = [
        figure
        for figure in rest
        if figure.better == "higher" and figure.verdict is Verdict.COSTS
        if figure.decides or figure.factor >= 1 / HALVED or figure.factor > largest
        if figure.decides or not any(_say_the_same(figure, each) for each in shown)
    ]
    if cores and lowered:
        return [*shown, max(lowered, key=lambda figure: (figure.decides, figure.factor))]
    return [*shown, *cores]


def _say_the_same(rate: KeyFigure, time: KeyFigure) -> bool:
    """Return whether a rate and a time are one finding, because they change by about the same factor.

    For example, if operations follow one another, twice the time means half the rate.
    """
    known = rate.ratio is not None and time.ratio is not None and rate.factor > 0 and time.factor > 0
    return known and 1 / SAME_FACTOR < rate.factor / time.factor < SAME_FACTOR


def verdict_sentence(figures: Sequence[KeyFigure]) -> str:
    """Return one sentence: about several figures if there is one arm, otherwise about the first figure of each arm.

    Arms whose figure has no verdict come last. Return '' if there are no figures.
    """
    return _sentence("; ".join(_statements(_by_arm(figures))))


def verdict_lines(figures: Sequence[KeyFigure]) -> list[str]:
    """Return the verdict: a sentence with intervals about each arm or, if there is one arm, its `verdict_sentence`.

    If there are two arms, each sentence has up to `MOST_OF_TWO` figures, otherwise one. If there are more than
    `MOST_ARMS` arms, the last sentence says how many others are in the tables.
    """
    groups = _by_arm(figures)
    if len(groups) < 2:
        return [*filter(None, [verdict_sentence(figures)])]
    shown = dict([*groups.items()][:MOST_ARMS])
    text = "\n".join(map(_sentence, _statements(shown, with_intervals=True)))
    # Only the first bracket says what it contains, so that the sentences are short.
    before, named, after = text.partition(f"({fmt.CONFIDENCE} ")
    lines = f"{before}{named}{after.replace(named, '(') if named else ''}".split("\n")
    if more := len(groups) - len(shown):
        are = "is" if more == 1 else "are"
        lines.append(f"{fmt.plural(more, 'more protection')} {are} in the tables of the report.")
    return lines


def _sentence(text: str) -> str:
    return f"{fmt.capital(text)}." if text else ""


def _by_arm(figures: Sequence[KeyFigure]) -> dict[str, list[KeyFigure]]:
    """Return the figures by label of their arm. Arms whose first figure is unresolved come last."""
    by_arm: dict[str, list[KeyFigure]] = {}
    for figure in figures:
        by_arm.setdefault(figure.arm_label, []).append(figure)
    return dict(sorted(by_arm.items(), key=lambda each: each[1][0].verdict is Verdict.UNRESOLVED))


def _without_shared_place(figures: Sequence[KeyFigure]) -> tuple[Sequence[KeyFigure], str]:
    """Return the figures without the context that all of them name, and this context, such as ', with one client'."""
    ends = [
        figure.words.rpartition("'")[2].removeprefix(" on the wire").removeprefix(" in the application")
        for figure in figures
    ]
    if len(figures) < 2 or len({*ends}) > 1 or not ends[0]:
        return figures, ""
    update = [figure.model_copy(update={"words": figure.words.removesuffix(ends[0])}) for figure in figures]
    return update, f",{ends[0]}"


def _statements(groups: Mapping[str, Sequence[KeyFigure]], *, with_intervals: bool = False) -> list[str]:
    """Return a sentence without capital and full stop about each arm; arms with the same effects share a sentence.

    Arms share the last sentence if they are unresolved in the same quantity: 'an audit of writes and an audit of all
    statements may change 'point select' by up to 0.06 ms (unresolved)'.
    """
    most = MOST_OF_TWO if with_intervals and len(groups) == 2 else 1
    first = {label: group[0] for label, group in groups.items()}
    unresolved = {label: each for label, each in first.items() if each.verdict is Verdict.UNRESOLVED}
    if len(unresolved) < 2 or len({each.words for each in unresolved.values()}) > 1:
        unresolved = {}
    subjects: dict[tuple[tuple[tuple[str, str], ...], str], list[str]] = {}
    for label, group in groups.items():
        if label not in unresolved:
            named = verdict_figures(group, MOST_IN_VERDICT) if len(groups) == 1 else _of_several(group)[:most]
            figures, place = _without_shared_place(named)
            clauses = tuple(_clause(figure, with_interval=with_intervals) for figure in figures)
            subjects.setdefault((clauses, place), []).append(label)
    texts = [
        f"{fmt.listed(labels)} {predicate(clauses, len(labels))}{place}"
        for (clauses, place), labels in subjects.items()
    ]
    if unresolved:
        widest = max(unresolved.values(), key=lambda each: max(abs(each.difference.low), abs(each.difference.high)))
        change = fmt.at_most(widest.difference, widest.shown_unit)
        texts.append(f"{fmt.listed([*unresolved])} may change {widest.object_words} by up to {change} (unresolved)")
    return texts


def _of_several(group: Sequence[KeyFigure]) -> list[KeyFigure]:
    """Return an arm's first figure and its other resolved figures, without CPU cores if the arm has others."""
    first, *others = [figure for figure in group if figure.name != CORES] or group
    return [first, *(figure for figure in others if figure.verdict is not Verdict.UNRESOLVED)]


def predicate(clauses: Sequence[tuple[str, str]], subjects: int) -> str:
    """Return the predicate of a verdict, such as 'adds 5.5 ms (+54 %) to a connection, and needs 0.65 more cores'.

    `clauses` has pairs such as ('adds', '5.5 ms (+54 %) to a connection'), with verbs in the singular. The verbs are
    put in the plural if there are several `subjects`.
    """
    objects: dict[str, list[str]] = {}
    for verb, words in clauses:
        if subjects > 1:
            singular, *after = verb.split(" ")
            verb = " ".join(["do" if singular == "does" else singular.removesuffix("s"), *after])
        objects.setdefault(verb, []).append(words)
    *first, last = [f"{verb} {fmt.listed(each)}".rstrip() for verb, each in objects.items()]
    return f"{', '.join(first)}, and {last}" if first else last


def _clause(figure: KeyFigure, *, with_interval: bool) -> tuple[str, str]:
    """Return the verb and the object of a clause about a figure, such as ('adds', '5.5 ms (+54 %) to a query').

    If `with_interval`, the brackets have the interval too: '5.5 ms (95 % interval 5.3 to 5.7, +54 %)'.
    """
    saves = figure.verdict is Verdict.SAVES
    if figure.verdict is Verdict.NO_DIFFERENCE:
        return f"makes no difference above {fmt.share(figure.margin)} to", figure.object_words
    if figure.verdict is Verdict.NO_COST:
        worse = "lower" if figure.better == "higher" else fmt.verbs(figure.unit).more.removesuffix("s")
        return f"does not {worse}", f"{figure.object_words} by more than {fmt.share(figure.margin)}"
    if figure.verdict is Verdict.UNRESOLVED:
        most = fmt.at_most(figure.difference, figure.shown_unit)
        return "may change", f"{figure.object_words} by up to {most} (unresolved)"
    size = figure.difference.through(neg) if figure.difference.value < 0 else figure.difference
    if figure.unit == CORES:
        change = f"{fmt.absolute(size).value} {'fewer' if saves else 'more'}"
        return "needs", f"{change} {figure.words}{figure.cores_in_brackets}"
    amount, share = fmt.absolute(size, figure.unit), figure.relative
    if figure.better == "higher":
        if figure.ratio is not None:
            amount, share = fmt.gain(figure.ratio) if saves else fmt.loss(figure.ratio), ""
        verb = "raises" if saves else "lowers"
    else:
        verb = fmt.verbs(figure.unit).less if saves else "adds"
    brackets = ", ".join(filter(None, [amount.interval_in_words if with_interval else "", share]))
    text = f"{amount.value} ({brackets})" if brackets else amount.value
    return verb, f"{text} to {figure.words}" if verb == "adds" else f"{figure.words} by {text}"
