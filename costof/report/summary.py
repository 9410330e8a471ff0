"""The summary of a result: a verdict in one sentence, a few key figures, the reason, and the best mitigation.

A terminal, the head of a page, its card and its copy as Markdown all show this summary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from operator import neg

from pydantic import Field

from costof import format as fmt
from costof.model import Finite, Model
from costof.results.index import Index
from costof.results.metrics import NS_PER_UNIT
from costof.results.models import Effect, Metric
from costof.statistics.estimate import Estimate, Verdict
from costof.statistics.uneven import UnevenRounds
from costof.study.commands import COMMAND

MOST_FIGURES = 6
MOST_IN_VERDICT = 3
MOST_SENTENCES = 2
"""The verdict of a run without key figures has at most this many sentences of the answer."""
CONNECTION, OPERATION, CORES = "connection", "operation", "cores"
LEAST_MOVE = 0.1
"""If uneven rounds change a difference by at least this share, the summary says how far they change it.

If they change it less, the summary says how far they change the ratio of arm to control. Uneven rounds are a few rounds
that are far from the others.
"""
MOST_TILES = 4
HALVED = 0.5
"""A rate that the protection lowers to this share of the control's rate, or further, is named in the verdict."""
SAME_FACTOR = 1.25
"""A rate and a time count as one finding if the two factors by which they get worse differ by less than this factor."""
HOW_SURE, REDUCES_COST = "How sure", "What reduces the cost"
ROUNDS, BREAK_EVEN = "Rounds", "Break-even"
BESIDE_VERDICT = (HOW_SURE, REDUCES_COST)
NO_MITIGATION = "this run measured no mitigation"
NO_COST = "nothing, because this run found no cost"


class KeyFigure(Model):
    """The effect of one arm on one quantity, such as the time of a new connection."""

    name: str = Field(description="'connection', 'operation' or 'cores', or the name of a metric.")
    arm: str = Field(description="The arm's name without its context.")
    arm_label: str
    label: str = Field(description="The quantity as a title, such as 'a new connection'.")
    title: str = Field(
        default="", description="The label in more words, where there is room for them; '' if it is clear."
    )
    words: str = Field(
        description="The quantity as part of a sentence, such as \"'query on open connection' on the wire\"."
    )
    unit: str
    view: str = Field(default="wire", description="'app' for a figure of an application, 'wire' for one on the wire.")
    metrics: list[str] = Field(default=[], description="The metrics from which the figure is made.")
    arms: list[str] = Field(default=[], description="The arms from which the figure is made, with their contexts.")
    decides: bool = Field(default=False, description="Whether mitigations are judged by this figure.")
    note: str = Field(default="", description="How the figure was made, if it was not measured: 'computed from …'.")
    better: str = Field(default="lower", description="'lower' or 'higher'.")
    without: Finite | None = Field(default=None, description="Value of the control; None if it is unknown.")
    value: Finite | None = Field(default=None, description="Value of the arm; None if it is unknown.")
    difference: Estimate
    ratio: Estimate | None = Field(
        default=None, description="Arm divided by control; None if it is unknown or does not fit the other figures."
    )
    uneven: UnevenRounds | None = Field(
        default=None, description="The rounds that dominate the difference; None if none do."
    )
    control_label: str = Field(default="the control", description="The label of the control.")
    verdict: Verdict
    margin: Finite = Field(default=0.0, description="Relative costs below this count as no cost.")
    available: int | None = Field(
        default=None,
        description="Cores of the machine that the servers share with the client; None if unknown, and for other "
        "quantities.",
    )
    predicted: bool = Field(
        default=False, description="Whether it is predicted for the distance that the user gave, not measured."
    )

    @property
    def whole_label(self) -> str:
        """Return the label with the note, such as 'a new connection 1 ms away, computed from a run on one machine'."""
        return ", ".join(filter(None, [self.title or self.label, self.note]))

    @property
    def added(self) -> str:
        """Return the difference as text, such as '+5.5 ms'."""
        return fmt.absolute(self.difference, self.shown_unit, signed=True).value

    def one_side(self, value: float | None) -> str:
        """Return the control's or the arm's value as text, with the same number of decimals as the difference.

        The value has at least two and at most four significant digits.
        """
        if value is None:
            return fmt.NONE
        decimals = max(fmt.estimate_decimals(self.difference), fmt.significant_decimals(value, 2))
        decimals = min(decimals, fmt.significant_decimals(value, 4))
        return fmt.with_unit(fmt.number(value, decimals), self.shown_unit)

    @property
    def cores_in_brackets(self) -> str:
        """Return text such as ' (0.08 → 0.50 cores)' for the cores without and with the protection; '' if unknown.

        If servers and client share the machine, the text has the number of its cores.
        """
        if self.without is None or self.value is None:
            return ""
        of = "cores" if self.available is None else f"of this machine's {self.available} cores, shared with the client"
        return f" ({self.one_side(self.without)} → {self.one_side(self.value)} {of})"

    @property
    def object_words(self) -> str:
        """Return the quantity as the object of a sentence: 'a query', 'the cores of the server'."""
        return f"the {self.words}" if self.unit == CORES else self.words

    @property
    def shown_unit(self) -> str:
        """Return the unit, or '' if the label has it."""
        return "" if self.unit == CORES else self.unit

    @property
    def interval(self) -> str:
        """Return the 95 % interval of the difference, such as '4.5 to 6.5 ms'; 'one round' if there is none."""
        if self.difference.rounds < 2:
            return "one round"
        return self.ends(self.difference)

    def ends(self, difference: Estimate) -> str:
        places = fmt.estimate_decimals(difference)
        low, high = (fmt.number(end, places) for end in (difference.low, difference.high))
        return f"{low} to {fmt.with_unit(high, self.shown_unit)}"

    @property
    def verdict_word(self) -> str:
        """Return the verdict without the words 'above the margin', such as 'no difference'."""
        return self.verdict.words(self.better).removesuffix(" above the margin")

    @property
    def relative(self) -> str:
        return fmt.relative(self.ratio).value if self.ratio is not None else ""

    @property
    def factor(self) -> float:
        """Return the factor by which the quantity gets worse: 2 for a doubled time or a halved rate; 0 if unknown."""
        if self.ratio is not None:
            factor = self.ratio.value
        else:
            factor = self.value / self.without if self.value and self.without else 0.0
        return 1 / factor if self.better == "higher" and factor > 0 else factor


class Summary(Model):
    verdict: str
    limits: str = Field(default="", description="Whether the limits of the run are kept; '' without limits.")
    figures: list[KeyFigure]
    rounds: str = Field(
        default="", description="Which rounds dominate a figure, and how far; '' if every round counts alike."
    )
    why: str = Field(default="", description="The reason for the cost, such as round trips and CPU time.")
    sure: str = Field(
        default="", description="How sure the figures are, and what makes them less sure; '' without figures."
    )
    mitigation: str = Field(
        default="",
        description="How much of the cost the best mitigation saves, or that none saves any or that none was measured; "
        "'' if nothing was protected.",
    )
    room: str = Field(default="", description="How many of the machine's cores the load needs with the protection.")
    break_even: str = Field(default="", description="From how many queries a connection the cost is small.")

    @property
    def beside_verdict(self) -> list[tuple[str, str]]:
        """Return (label, text) of the lines below the verdict: how sure it is, and what reduces the cost."""
        texts = (self.sure, self.mitigation)
        return [(label, text) for label, text in zip(BESIDE_VERDICT, texts, strict=True) if text]

    @property
    def reasons(self) -> list[tuple[str, str]]:
        """Return (label, text) of the further lines: uneven rounds, cores, the reason and the break-even point.

        Lines that are empty for this run are left out.
        """
        texts = [
            (ROUNDS, self.rounds),
            ("Cores", self.room),
            ("Why", self.why),
            (BREAK_EVEN, self.break_even),
        ]
        return [(label, text) for label, text in texts if text]


def of_effect(index: Index, metric: Metric, effect: Effect) -> KeyFigure:
    arm = index.arm(effect.arm)
    assert arm is not None
    label = index.metric_title(metric.name) if index.many_views else metric.label
    words = index.metric_in_view(metric.name) if index.many_views else f"'{metric.label}'"
    near = metric.unit == "ms" and index.computed_away
    places = [arm.where, " on one machine" if near else ""]
    return KeyFigure(
        name=metric.name,
        arm=arm.protection,
        arm_label=arm.label,
        label=",".join(filter(None, [label, *places])),
        words=f"{words}{arm.at}",
        unit=metric.unit,
        view=metric.view,
        metrics=[metric.name],
        arms=arm.with_control,
        decides=metric.name in index.judged_by,
        better=metric.better,
        without=effect.control_value,
        value=effect.value,
        difference=effect.difference,
        ratio=effect.printed_ratio,
        uneven=effect.uneven,
        control_label=index.control_label,
        verdict=effect.verdict,
        margin=metric.margin,
    )


def uneven_lines(figures: Iterable[KeyFigure], unit: str) -> list[str]:
    """Return a sentence for each set of rounds that dominates the means of figures. `unit` is 'round' or 'start'.

    For example: 'Round 3 was far slower than the others (TLS: 151 ms instead of 14 to 20 ms): it raises the mean
    difference of a new connection from +15 ms to +24 ms.'
    """
    shown = [*figures]
    several = len({figure.arm for figure in shown}) > 1
    groups: dict[tuple[str, bool, tuple[int, ...]], list[tuple[KeyFigure, UnevenRounds]]] = {}
    for figure in shown:
        if (uneven := figure.uneven) is not None:
            groups.setdefault((figure.arm, uneven.in_control, tuple(uneven.rounds)), []).append((figure, uneven))
    return [_uneven_line(group, unit, several=several) for group in groups.values()]


def _uneven_line(group: Sequence[tuple[KeyFigure, UnevenRounds]], unit: str, *, several: bool) -> str:
    figure, uneven = group[0]
    side = f"{figure.control_label}: " if uneven.in_control else f"{figure.arm_label}: " if several else ""
    low, high = (_two_digits(each) for each in (uneven.low, uneven.high))
    usual = side + fmt.with_unit(low if low == high else f"{low} to {high}", figure.unit)
    if not uneven.rounds:
        effects = [
            f"{each.words} has a difference of {_signed(each, rounds.without)} in a typical {unit} and {each.added} on "
            "average"
            for each, rounds in group
        ]
        return f"The {unit}s differ widely ({usual}): {fmt.listed(effects)}."
    far = fmt.with_unit(fmt.listed([*map(_two_digits, uneven.far)]), figure.unit)
    one = len(uneven.rounds) == 1
    was, it, them = ("was", "it", "it") if one else ("were", "they", "them")
    text = (
        f"{fmt.capital(rounds_in_words(uneven, unit))} {was} {_how_far(figure, uneven)} "
        f"({side}{far} instead of {usual.removeprefix(side)}): {it} {_moves(group, one=one)}."
    )
    hidden = [
        (each, rounds.without)
        for each, rounds in group
        if each.difference.low <= 0 <= each.difference.high and not rounds.without.low <= 0 <= rounds.without.high
    ]
    if hidden:
        names = [f"{each.ends(without)}{f' for {each.words}' if len(group) > 1 else ''}" for each, without in hidden]
        intervals = "interval" if len(hidden) == 1 else "intervals"
        text += f" Without {them}, the 95 % {intervals} would be {fmt.listed(names)}."
    return text


def rounds_in_words(uneven: UnevenRounds, unit: str) -> str:
    """Return the numbers of uneven rounds in words, such as 'rounds 3 and 7'."""
    return f"{unit}{'' if len(uneven.rounds) == 1 else 's'} {fmt.listed([*map(str, uneven.rounds)])}"


def _how_far(figure: KeyFigure, uneven: UnevenRounds) -> str:
    above, below = min(uneven.far) > uneven.high, max(uneven.far) < uneven.low
    higher, lower = ("slower", "faster") if figure.unit in NS_PER_UNIT else ("higher", "lower")
    return f"far {higher if above else lower} than the others" if above or below else "far from the others"


def _moves(group: Sequence[tuple[KeyFigure, UnevenRounds]], *, one: bool) -> str:
    """Return in words how uneven rounds move figures: 'raises the mean difference of a query from +1 ms to +2 ms'."""
    objects: dict[str, list[str]] = {}
    for figure, uneven in group:
        before, after = uneven.without.value, figure.difference.value
        if abs(after - before) > LEAST_MOVE * abs(before) or not (uneven.quotient_without and figure.without):
            what = f"{'raise' if after > before else 'lower'}{'s' if one else ''} the mean difference of"
            texts = _signed(figure, uneven.without), figure.added
        else:
            what = f"change{'s' if one else ''} the ratio of the means of"
            texts = fmt.bare_ratio(uneven.quotient_without), fmt.bare_ratio((figure.value or 0.0) / figure.without)
        noun = "that of " if what in objects else ""
        objects.setdefault(what, []).append(f"{noun}{figure.words} from {texts[0]} to {texts[1]}")
    return fmt.listed([f"{what} {fmt.listed(each)}" for what, each in objects.items()])


def _signed(figure: KeyFigure, difference: Estimate) -> str:
    return fmt.with_unit(_two_digits(difference.value, signed=True), figure.shown_unit)


def _two_digits(value: float, *, signed: bool = False) -> str:
    return fmt.number(value, fmt.significant_decimals(value, 2), signed=signed)


def interval_verdict(difference: Estimate) -> Verdict:
    """Return the verdict on a difference that was computed and not measured: whether its interval contains 0."""
    if difference.low > 0:
        return Verdict.COSTS
    return Verdict.SAVES if difference.high < 0 else Verdict.UNRESOLVED


def summary(index: Index, figures: Iterable[KeyFigure]) -> Summary:
    """Return the summary of a result whose sections have these key figures, the most important ones first."""
    shown = first_of_each_arm(_by_importance(_at_the_distance(figures)), MOST_FIGURES)
    ready = [sentence.text for sentence in index.sentences("verdict")]
    if not ready and not shown:
        ready = [sentence.text for sentence in index.sentences("answer")][:MOST_SENTENCES]
    # The first warning is the most serious one. Further warnings would leave no room for the figures.
    first = [sentence.text for sentence in index.sentences("leading_warning")][:1]
    verdict = fmt.without_intervals(" ".join(ready)) or verdict_sentence(shown)
    return Summary(
        verdict=" ".join(filter(None, [*first, verdict])),
        figures=shown,
        limits=_first(index, "limits"),
        rounds=" ".join(uneven_lines(shown, index.unit)),
        why=" ".join(filter(None, [_first(index, "why"), _driver(shown)])),
        room=_first(index, "room"),
        mitigation=_mitigation(index, shown),
        break_even=_first(index, "break_even"),
    )


def _at_the_distance(figures: Iterable[KeyFigure]) -> list[KeyFigure]:
    """Return the figures predicted for the user's distance, followed by the other figures without the measured times.

    Readers would take a time that was measured at another distance for the answer. If no figure is predicted, return
    all figures.
    """
    every = [*figures]
    predicted = [figure for figure in every if figure.predicted]
    if not predicted:
        return every
    return [*predicted, *(figure for figure in every if not figure.predicted and figure.unit not in NS_PER_UNIT)]


def _mitigation(index: Index, figures: Sequence[KeyFigure]) -> str:
    """Return what reduces the cost.

    Return '' if there are no figures, or if the run measured only commands and no mitigation.
    """
    text = _first(index, "mitigation")
    measures_only_commands = all(metric.view == COMMAND for metric in index.core.metrics)
    if not figures or (measures_only_commands and text in {"", f"{NO_MITIGATION}."}):
        return ""
    verdicts = {figure.verdict for figure in figures}
    if text and not text.startswith(NO_MITIGATION):
        return text
    has_cost = Verdict.COSTS in verdicts or verdicts == {Verdict.UNRESOLVED}
    return text or f"{NO_MITIGATION}." if has_cost else f"{NO_COST}."


def _by_importance(figures: Iterable[KeyFigure]) -> list[KeyFigure]:
    """Return the figures, arm by arm, with the most important ones of each arm first.

    - If the largest time added in an application clearly exceeds the time added on the wire, it comes first, because
      users wait for the application.
    - In a run with one arm and several quantities, the figures that the verdict names come first.
    - In a run with several arms, the rest of the order is the same for all arms, so that readers can compare them.
    """
    by_arm: dict[str, list[KeyFigure]] = {}
    for figure in figures:
        by_arm.setdefault(figure.arm, []).append(figure)
    groups = _decided_first([_application_first(group) for group in by_arm.values()])
    if len(groups) == 1 and len({figure.name for figure in groups[0]}) > 1:
        shown = verdict_figures(groups[0], MOST_IN_VERDICT)
        return [*shown, *(figure for figure in groups[0] if not any(figure is each for each in shown))]
    return [figure for group in groups for figure in group]


def _decided_first(groups: list[list[KeyFigure]]) -> list[list[KeyFigure]]:
    """Return the figures of each arm, reordered so that all arms begin with the same quantity.

    It is the quantity in which most arms have a verdict, because the summary's sentence compares the first figures of
    the arms. If all of these have a verdict already, nothing is reordered.
    """
    if len(groups) < 2 or all(group[0].verdict is not Verdict.UNRESOLVED for group in groups):
        return groups
    decided: dict[str, int] = {}
    for figure in (each for group in groups for each in group if each.name != CORES):
        decided[figure.words] = decided.get(figure.words, 0) + (figure.verdict is not Verdict.UNRESOLVED)
    best = max(decided, key=lambda words: decided[words], default="")
    return [sorted(group, key=lambda figure: figure.words != best) for group in groups]


def _application_first(group: list[KeyFigure]) -> list[KeyFigure]:
    on_wire = next((figure for figure in group if figure.unit in NS_PER_UNIT and figure.view == "wire"), None)
    slower = [
        figure
        for figure in group
        if on_wire is not None and figure.view == "app" and figure.unit == on_wire.unit
        if figure.verdict is Verdict.COSTS and figure.difference.low > on_wire.difference.high
    ]
    if not slower:
        return group
    largest = max(slower, key=lambda figure: figure.difference.value)
    rest = [
        figure.model_copy(update={"words": f"{figure.words} on the wire"})
        if figure.view == "wire" and figure.name in (CONNECTION, OPERATION) and "on the wire" not in figure.words
        else figure
        for figure in group
        if figure is not largest
    ]
    return [largest, *rest]


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


def first_of_each_arm(figures: Iterable[KeyFigure], most: int) -> list[KeyFigure]:
    """Return the first figures of each arm: the same number for each arm, and at most `most` in total.

    If all figures of an arm are of one quantity in several contexts, such as distances, return its first and last ones.
    """
    by_arm: dict[str, list[KeyFigure]] = {}
    for figure in figures:
        by_arm.setdefault(figure.arm, []).append(figure)
    each = max(1, most // max(1, len(by_arm)))
    return [figure for group in by_arm.values() for figure in _some(group, each)][:most]


def _some(figures: Sequence[KeyFigure], most: int) -> Sequence[KeyFigure]:
    last = most // 2 if len({figure.name for figure in figures}) == 1 and len(figures) > most else 0
    return [*figures[: most - last], *figures[len(figures) - last :]]


def _driver(figures: Sequence[KeyFigure]) -> str:
    """Return a sentence about the time that an arm adds to a connection in the application but not on the wire.

    Return '' unless the time added in the application is clearly more than twice that on the wire.
    """
    wire = next((f for f in figures if f.name == CONNECTION and f.view == "wire"), None)
    app = figures[0] if figures else None
    if wire is None or app is None or app.view != "app" or app.verdict is not Verdict.COSTS:
        return ""
    rest = app.difference.value - wire.difference.value
    if app.arm != wire.arm or app.unit != wire.unit or app.difference.low <= 2 * wire.difference.high:
        return ""
    own = fmt.with_unit(_two_digits(rest), app.unit)
    return (
        f"{own} of the {app.added.lstrip('+')} come from the application's driver (on the wire: "
        f"{wire.added.lstrip('+')})."
    )


def _first(index: Index, kind: str) -> str:
    return next((fmt.without_intervals(sentence.text) for sentence in index.sentences(kind)), "")


def verdict_sentence(figures: Sequence[KeyFigure]) -> str:
    """Return one sentence about the first figures of one arm, or about the first figure of each of several arms.

    Arms whose figure is unresolved come last. Return '' if there are no figures.
    """
    by_arm: dict[str, list[KeyFigure]] = {}
    for figure in figures:
        by_arm.setdefault(figure.arm_label, []).append(figure)
    groups = dict(sorted(by_arm.items(), key=lambda each: each[1][0].verdict is Verdict.UNRESOLVED))
    most = MOST_IN_VERDICT if len(groups) == 1 else 1
    if most == 1 and (together := _unresolved_together(groups)):
        return together
    subjects: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for label, group in groups.items():
        subjects.setdefault(tuple(map(_clause, verdict_figures(group, most))), []).append(label)
    texts = [f"{fmt.listed(labels)} {_predicate(clauses, len(labels))}" for clauses, labels in subjects.items()]
    return f"{fmt.capital('; '.join(texts))}." if texts else ""


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


def _predicate(clauses: Sequence[tuple[str, str]], subjects: int) -> str:
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
    *first, last = [f"{verb} {fmt.listed(each)}" for verb, each in objects.items()]
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
