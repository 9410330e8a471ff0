"""The sentence of a verdict, such as 'TLS adds 5.3 ms (+65 %) to a new connection'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from operator import neg

from costof import format as fmt
from costof.report.key_figures import CORES, KeyFigure
from costof.statistics.estimate import Verdict

MOST_IN_VERDICT = 3
HALVED = 0.5
"""The verdict names a rate if the protection lowers it to this share of the control's rate, or below."""
SAME_FACTOR = 1.25
"""A lower rate and a longer time count as one finding if they get worse by about the same factor.

For example, a halved rate (factor 2) and a time that is 1.8 times as long: 2 / 1.8 is less than SAME_FACTOR.
"""


def verdict_figures(group: Sequence[KeyFigure], most: int) -> list[KeyFigure]:
    """Return the figures that the verdict on an arm names: at most `most`, with the cores last.

    Resolved effects are preferred to unresolved ones. A rate that the protection lowers replaces the cores in three
    cases:

    - Mitigations are judged by this rate.
    - The rate falls to half (`HALVED`) or less.
    - The rate gets worse by a larger factor than the other figures in the verdict.
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
    by_arm: dict[str, list[KeyFigure]] = {}
    for figure in figures:
        by_arm.setdefault(figure.arm_label, []).append(figure)
    groups = dict(sorted(by_arm.items(), key=lambda each: each[1][0].verdict is Verdict.UNRESOLVED))
    most = MOST_IN_VERDICT if len(groups) == 1 else 1
    if most == 1 and (together := _unresolved_together(groups)):
        return together
    subjects: dict[tuple[tuple[tuple[str, str], ...], str], list[str]] = {}
    for label, group in groups.items():
        shown, place = _without_shared_place(verdict_figures(group, most))
        subjects.setdefault((tuple(map(_clause, shown)), place), []).append(label)
    texts = [
        f"{fmt.listed(labels)} {predicate(clauses, len(labels))}{place}"
        for (clauses, place), labels in subjects.items()
    ]
    return f"{fmt.capital('; '.join(texts))}." if texts else ""


def _without_shared_place(figures: Sequence[KeyFigure]) -> tuple[Sequence[KeyFigure], str]:
    """Return several figures without the context that all of them end with, and the context: ', with one client'."""
    ends = [
        figure.words.rpartition("'")[2].removeprefix(" on the wire").removeprefix(" in the application")
        for figure in figures
    ]
    if len(figures) < 2 or len({*ends}) > 1 or not ends[0]:
        return figures, ""
    update = [figure.model_copy(update={"words": figure.words.removesuffix(ends[0])}) for figure in figures]
    return update, f",{ends[0]}"


def _unresolved_together(groups: Mapping[str, Sequence[KeyFigure]]) -> str:
    """Return one sentence about the first figure of each arm, with all unresolved arms named together at its end.

    For example: 'An audit of writes and an audit of all statements change 'point select' by at most 0.06 ms
    (unresolved).' Return '' if fewer than two arms are unresolved, or if they are unresolved in different quantities.
    """
    first = {label: group[0] for label, group in groups.items()}
    unresolved = {label: each for label, each in first.items() if each.verdict is Verdict.UNRESOLVED}
    if len(unresolved) < 2 or len({each.words for each in unresolved.values()}) > 1:
        return ""
    rest = [figure for label, figure in first.items() if label not in unresolved]
    widest = max(unresolved.values(), key=lambda each: max(abs(each.difference.low), abs(each.difference.high)))
    most = fmt.at_most(widest.difference, widest.shown_unit)
    last = f"{fmt.listed([*unresolved])} change {widest.object_words} by at most {most} (unresolved)"
    return f"{verdict_sentence(rest).rstrip('.')}; {last}." if rest else f"{fmt.capital(last)}."


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


def _clause(figure: KeyFigure) -> tuple[str, str]:
    """Return the verb and the object of a clause about a figure, such as ('adds', '5.5 ms (+54 %) to a query')."""
    saves = figure.verdict is Verdict.SAVES
    if figure.verdict is Verdict.NO_DIFFERENCE:
        return f"makes no difference above {fmt.share(figure.margin)} to", figure.object_words
    if figure.verdict is Verdict.NO_COST:
        worse = "lower" if figure.better == "higher" else fmt.verbs(figure.unit).more.removesuffix("s")
        return f"does not {worse}", f"{figure.object_words} by more than {fmt.share(figure.margin)}"
    if figure.verdict is Verdict.UNRESOLVED:
        most = fmt.at_most(figure.difference, figure.shown_unit)
        return "changes", f"{figure.object_words} by at most {most} (unresolved)"
    size = figure.difference.through(neg) if figure.difference.value < 0 else figure.difference
    amount = fmt.absolute(size, figure.unit).value
    if figure.unit == CORES:
        change = f"{fmt.absolute(size).value} {'fewer' if saves else 'more'}"
        return "needs", f"{change} {figure.words}{figure.cores_in_brackets}"
    if figure.better == "higher":
        if figure.ratio is not None:
            amount = (fmt.gain(figure.ratio) if saves else fmt.loss(figure.ratio)).value
        return "raises" if saves else "lowers", f"{figure.words} by {amount}"
    share = f" ({figure.relative})" if figure.ratio is not None else ""
    if saves:
        return fmt.verbs(figure.unit).less, f"{figure.words} by {amount}{share}"
    return "adds", f"{amount}{share} to {figure.words}"
