"""Key figures: the few effects that a summary shows, each in words, with its interval and verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field

from costof import format as fmt
from costof.model import Finite, Model
from costof.results.index import Index
from costof.results.metrics import NS_PER_UNIT
from costof.results.models import Effect, Metric
from costof.statistics.estimate import Estimate, Verdict
from costof.statistics.uneven import UnevenRounds

CONNECTION, OPERATION, CORES = "connection", "operation", "cores"
LEAST_MOVE = 0.1
"""A limit for uneven rounds (a few rounds that are far from the others).

If uneven rounds change a mean difference by more than this share, the summary has the difference with and without these
rounds. Otherwise, the summary has the ratio of the means (arm to control) with and without these rounds.
"""
MOST_TILES = 4
#: Phases of a new connection, as the engine names them, and their labels, in the order they happen.
PHASES = {
    "resolve": "name resolution",
    "tcp": "TCP handshake",
    "greeting": "the server's greeting",
    "tls_request": "asking for TLS",
    "tls": "TLS handshake",
    "hello": "hello",
    "auth": "log-in",
    "first_operation": "first query",
}


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

        If servers and client share the machine, the text also has the machine's number of cores.
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
        """Return the 95 % interval of the difference, such as '4.5 to 6.5 ms'; 'one round' if only one was measured."""
        if self.difference.rounds < 2:
            return "one round"
        return self.ends(self.difference)

    def ends(self, difference: Estimate) -> str:
        places = fmt.estimate_decimals(difference)
        low, high = (fmt.number(end, places) for end in (difference.low, difference.high))
        return f"{low} to {fmt.with_unit(high, self.shown_unit)}"

    @property
    def verdict_word(self) -> str:
        """Return the verdict in short words: 'no difference' for 'no difference above the margin'."""
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


def of_effect(index: Index, metric: Metric, effect: Effect) -> KeyFigure:
    arm = index.arm(effect.arm)
    assert arm is not None
    label = index.metric_title(metric.name)
    words = index.metric_in_view(metric.name)
    near = metric.unit == "ms" and index.computed_away
    places = [arm.where, " on one machine" if near else ""]
    return KeyFigure(
        name=metric.name,
        arm=arm.protection,
        arm_label=arm.label,
        label=",".join(filter(None, [label, *places])),
        words=f"{words}{arm.where}",
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
    """Return sentences about rounds that dominate the mean of a figure. `unit` is 'round' or 'start' (of the servers).

    Figures that the same rounds dominate share a sentence. For example: 'For a new connection, round 3 was far slower
    than the others ('TLS': 151 ms, in the other rounds 14 to 20 ms). Round 3 alone changes the mean effect of TLS on a
    new connection from +15 ms to +24 ms.'
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
    label = figure.control_label if uneven.in_control else figure.arm_label if several else ""
    side = f"'{label}': " if label else ""
    low, high = (two_digits(each) for each in (uneven.low, uneven.high))
    usual = side + fmt.with_unit(low if low == high else f"{low} to {high}", figure.unit)
    if not uneven.rounds:
        effects = [
            f"{each.words} by {_signed(each, rounds.without)} in a typical {unit} and by {each.added} on average"
            for each, rounds in group
        ]
        subject = fmt.capital(figure.arm_label)
        return f"For {figure.words}, the {unit}s differ widely ({usual}). {subject} changes {fmt.listed(effects)}."
    far = fmt.with_unit(fmt.listed([*map(two_digits, uneven.far)]), figure.unit)
    one = len(uneven.rounds) == 1
    was, which = "was" if one else "were", fmt.capital(rounds_in_words(uneven, unit))
    text = (
        f"For {figure.words}, {rounds_in_words(uneven, unit)} {was} {_how_far(figure, uneven)} "
        f"({side}{far}, in the other {unit}s {usual.removeprefix(side)}). {which} alone {_moves(group, one=one)}."
    )
    hidden = [
        (each, rounds.without)
        for each, rounds in group
        if each.difference.low <= 0 <= each.difference.high and not rounds.without.low <= 0 <= rounds.without.high
    ]
    if hidden:
        names = [f"{each.ends(without)}{f' for {each.words}' if len(group) > 1 else ''}" for each, without in hidden]
        intervals = "interval" if len(hidden) == 1 else "intervals"
        without = f"Without {rounds_in_words(uneven, unit)}"
        of = f" of the mean effect on {hidden[0][0].words}" if len(group) == 1 else ""
        text += f" {without}, the 95 % {intervals}{of} {'is' if len(hidden) == 1 else 'are'} {fmt.listed(names)}."
    return text


def rounds_in_words(uneven: UnevenRounds, unit: str) -> str:
    """Return the numbers of uneven rounds in words, such as 'rounds 3 and 7'."""
    return f"{unit}{'' if len(uneven.rounds) == 1 else 's'} {fmt.listed([*map(str, uneven.rounds)])}"


def _how_far(figure: KeyFigure, uneven: UnevenRounds) -> str:
    above, below = min(uneven.far) > uneven.high, max(uneven.far) < uneven.low
    higher, lower = ("slower", "faster") if figure.unit in NS_PER_UNIT else ("higher", "lower")
    return f"far {higher if above else lower} than the others" if above or below else "far from the others"


def _moves(group: Sequence[tuple[KeyFigure, UnevenRounds]], *, one: bool) -> str:
    """Return in words how uneven rounds move figures: 'changes the mean effect on a query from +1 ms to +2 ms'."""
    objects: dict[str, list[str]] = {}
    for figure, uneven in group:
        before, after = uneven.without.value, figure.difference.value
        if abs(after - before) > LEAST_MOVE * abs(before) or not (uneven.quotient_without and figure.without):
            what = f"change{'s' if one else ''} the mean effect of {figure.arm_label} on"
            texts = _signed(figure, uneven.without), figure.added
        else:
            what = f"change{'s' if one else ''} the ratio of the means of"
            texts = fmt.bare_ratio(uneven.quotient_without), fmt.bare_ratio((figure.value or 0.0) / figure.without)
        noun = "that of " if what in objects else ""
        objects.setdefault(what, []).append(f"{noun}{figure.words} from {texts[0]} to {texts[1]}")
    return fmt.listed([f"{what} {fmt.listed(each)}" for what, each in objects.items()])


def _signed(figure: KeyFigure, difference: Estimate) -> str:
    return fmt.with_unit(two_digits(difference.value, signed=True), figure.shown_unit)


def two_digits(value: float, *, signed: bool = False) -> str:
    return fmt.number(value, fmt.significant_decimals(value, 2), signed=signed)


def interval_verdict(difference: Estimate) -> Verdict:
    """Return 'costs', 'saves' or 'unresolved' for a computed difference, by whether its interval contains 0."""
    if difference.low > 0:
        return Verdict.COSTS
    return Verdict.SAVES if difference.high < 0 else Verdict.UNRESOLVED


def first_of_each_arm(figures: Iterable[KeyFigure], most: int) -> list[KeyFigure]:
    """Return the first figures of each arm: the same number for each arm, and at most `most` in total.

    If all figures of an arm are of one quantity in several contexts, such as distances, return the arm's first and last
    figures instead.
    """
    by_arm: dict[str, list[KeyFigure]] = {}
    for figure in figures:
        by_arm.setdefault(figure.arm, []).append(figure)
    each = max(1, most // max(1, len(by_arm)))
    return [figure for group in by_arm.values() for figure in _some(group, each)][:most]


def _some(figures: Sequence[KeyFigure], most: int) -> Sequence[KeyFigure]:
    last = most // 2 if len({figure.name for figure in figures}) == 1 and len(figures) > most else 0
    return [*figures[: most - last], *figures[len(figures) - last :]]
