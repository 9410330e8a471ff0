"""Formatting of numbers: significant digits, units, percentages, durations.

All reports format numbers here, so a figure looks the same in the terminal, in Markdown and in HTML.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from costof.statistics.estimate import Estimate

MINUS = "\N{MINUS SIGN}"
NBSP = "\N{NO-BREAK SPACE}"
"""The no-break space that joins a number and its unit, so that no line breaks between them."""
NONE = "\N{EN DASH}"
TIMES = "\N{MULTIPLICATION SIGN}"
MULTIPLE_FROM = 2.0
"""The lowest ratio that is shown as a multiple ('×5.4') instead of a percentage ('+440 %')."""
MOST_DECIMALS = 6
CONFIDENCE = "95 % interval"
UNITS = {"per_second": "/s", "us": "µs", "percent": "%", "bytes": "B"}
"""The units that are printed as a symbol instead of by their name."""


class Verbs(NamedTuple):
    """The verbs for a decrease of a quantity, such as 'shortens', and for an increase, such as 'lengthens'."""

    less: str
    more: str


class Text(NamedTuple):
    """A formatted figure: the value with its unit, and the interval in brackets ('' if there is none)."""

    value: str
    interval: str = ""

    def __str__(self) -> str:
        return f"{self.value} {self.interval}".rstrip()

    @property
    def interval_in_words(self) -> str:
        """Return the interval for a sentence, '95 % interval 13.8 to 14.7'; '' if there is none."""
        low, comma, high = self.interval.strip("[]").partition(", ")
        return f"{CONFIDENCE} {low} to {high}" if comma else ""


def decimals_for(half_width: float) -> int:
    """Return the number of decimals to print for a value whose confidence interval has this half-width.

    The rule is that of the Particle Data Group: the half-width gets two significant digits if its first digit is 1 or
    2, else one. More digits would print noise as if it were measured. With fewer digits, two intervals that do not
    touch could look as if they did.
    """
    if half_width <= 0 or not math.isfinite(half_width):
        return 0
    exponent = math.floor(math.log10(half_width))
    leading = half_width / 10**exponent
    digits = 2 if leading < 2.95 else 1
    return min(MOST_DECIMALS, max(0, digits - 1 - exponent))


def significant_decimals(value: float, digits: int = 3) -> int:
    """Return the number of decimals that print `value` with `digits` significant digits."""
    if value == 0 or not math.isfinite(value):
        return 0
    return min(MOST_DECIMALS, max(0, digits - 1 - math.floor(math.log10(abs(value)))))


def estimate_decimals(estimate: Estimate) -> int:
    """Return the number of decimals for an estimate, by the width of its interval (`decimals_for`).

    Without an interval, the value gets three significant digits.
    """
    half_width = (estimate.high - estimate.low) / 2
    return decimals_for(half_width) if half_width > 0 else significant_decimals(estimate.value)


def number(value: float, decimals: int | None = None, *, signed: bool = False) -> str:
    """Format a number with thousands separators, a true minus sign, and no negative zero."""
    places = significant_decimals(value) if decimals is None else decimals
    rounded = round(value, places)
    text = f"{abs(rounded):,.{places}f}"
    if rounded < 0:
        return MINUS + text
    return "+" + text if signed and rounded > 0 else text


def with_unit(text: str, unit: str) -> str:
    """Return a number with its unit, '14.2 ms', joined by a no-break space; the number alone if there is no unit."""
    return f"{text}{NBSP}{UNITS.get(unit, unit)}" if unit else text


def verbs(unit: str) -> Verbs:
    """Return the verbs for changes of a quantity in this unit: a time is shortened, anything else is lowered."""
    return Verbs("shortens", "lengthens") if unit in ("ms", "us", "s") else Verbs("lowers", "raises")


def titled(label: str, unit: str) -> str:
    """Return a label with its unit, 'query, ms'; the label alone for a rate, such as 'queries a second'."""
    return label if unit == "per_second" else f"{label}, {UNITS.get(unit, unit)}"


def interval(low: float, high: float, decimals: int) -> str:
    """Return an interval as text, '[13.8, 14.7]'."""
    return f"[{number(low, decimals)}, {number(high, decimals)}]"


OPEN_INTERVAL = f"(95{NBSP}% interval from {{}}, with no upper end)"
"""The text of an interval without an upper end; '{}' stands for its lower end."""
INTERVAL = re.compile(
    rf" (?:\[(?:one round|[{MINUS}+]?[\d,.]+, [{MINUS}+]?[\d,.]+)\]|"
    rf"{re.escape(OPEN_INTERVAL).replace(re.escape('{}'), '[0-9,.]+')})"
)


def without_intervals(text: str) -> str:
    """Return a sentence without intervals such as '[13.8, 14.7]' and those with the text of `OPEN_INTERVAL`."""
    return INTERVAL.sub("", text)


def absolute(estimate: Estimate, unit: str = "", *, signed: bool = False, decimals: int | None = None) -> Text:
    """Return '14.2 ms [13.8, 14.7]', or '14.2 ms [one round]' if there is no interval."""
    places = estimate_decimals(estimate) if decimals is None else decimals
    value = with_unit(number(estimate.value, places, signed=signed), unit)
    if estimate.rounds < 2:
        return Text(value, "[one round]")
    return Text(value, interval(estimate.low, estimate.high, places))


def at_most(estimate: Estimate, unit: str) -> str:
    """Return the end of the interval that is farther from 0, without its sign, such as '0.058 ms'.

    If the interval contains 0, the effect is at most this large, whether it is a cost or a saving.
    """
    end = max(abs(estimate.low), abs(estimate.high))
    return with_unit(number(end, significant_decimals(end, 2)), unit)


def with_interval(estimate: Estimate, unit: str, ratio: Estimate | None = None) -> str:
    """Return text such as '5.1 ms (95 % interval 5.0 to 5.2, +66 %)'; without a `ratio`, it has no percentage."""
    text = absolute(estimate, unit)
    share = f", {relative(ratio).value}" if ratio is not None else ""
    return f"{text.value} ({text.interval_in_words}{share})"


def relative(ratio: Estimate) -> Text:
    """Return a ratio with its interval: '+3.1 % [2.0, 4.2]' if it is below 2, or else '×5.36 [5.2, 5.5]'."""
    if ratio.value >= MULTIPLE_FROM:
        places = min(2, max(1, estimate_decimals(ratio)))
        shown = Text(multiple(ratio.value, places), interval(ratio.low, ratio.high, places))
    else:
        percent = ratio.through(lambda each: (each - 1) * 100)
        places = min(2, estimate_decimals(percent))
        shown = absolute(percent, "%", signed=True, decimals=places)
    return shown if ratio.rounds >= 2 else Text(shown.value, "[one round]")


def multiple(ratio: float, decimals: int) -> str:
    """Return a ratio as a multiple, such as '×5.36'."""
    return TIMES + number(ratio, decimals)


def plain_ratio(control: float, value: float) -> str:
    """Return a ratio without an interval, '+1.8 %' or '×5.36'; a dash if the control is 0."""
    return NONE if control <= 0 else bare_ratio(value / control)


def bare_ratio(ratio: float) -> str:
    """Return a ratio as a percentage such as '+1.8 %' or '−34.4 %', or a large one as a multiple such as '×5.36'."""
    if ratio >= MULTIPLE_FROM:
        return multiple(ratio, 2)
    return with_unit(number((ratio - 1) * 100, 1, signed=True), "%")


def share(fraction: float) -> str:
    """Format a fraction as '5 %' or '0.5 %', without trailing zeros."""
    percent = round(fraction * 100, 2)
    return with_unit(f"{percent:g}", "%")


def loss(ratio: Estimate) -> Text:
    """Format a ratio below 1 as a loss, such as '24.1 % [23.5, 24.8]': the smaller loss is the first bound."""
    lost = ratio.through(lambda each: (1 - each) * 100)
    return absolute(lost, "%", decimals=min(2, estimate_decimals(lost)))


def gain(ratio: Estimate) -> Text:
    """Format a ratio above 1 as a gain in percent, '49.1 % [48.9, 49.4]', even if the gain exceeds 100 %."""
    won = ratio.through(lambda each: (each - 1) * 100)
    return absolute(won, "%", decimals=min(2, estimate_decimals(won)))


def milliseconds(value: float) -> str:
    """Format a distance (a round-trip time in ms) with at most three decimals, such as '44.648 ms' or '0 ms'."""
    return with_unit(f"{round(value, 3):,.3f}".rstrip("0").rstrip("."), "ms")


def away(value: float) -> str:
    """Format a distance (a round-trip time in ms) for a sentence: '4.5 ms', '45 ms', '145 ms'.

    Below 100 ms the number has two significant digits, from there on it is whole.
    """
    return with_unit(f"{round(value, significant_decimals(value, 2)):,g}", "ms")


def count(value: float) -> str:
    """Format a count or a mean of counts: '3' for a whole number, else '3.02'."""
    nearest = round(value)
    if abs(value - nearest) < 0.005:
        return number(nearest, 0)
    return number(value, 2 if abs(value) < 100 else 0)


def bytes_text(value: float) -> str:
    """Format a number of bytes as '812 B' or '3.4 kB', in decimal multiples as usual for networks."""
    for limit, unit in ((1e3, "B"), (1e6, "kB"), (1e9, "MB")):
        if value < limit:
            scaled = value / (limit / 1e3)
            return with_unit(count(scaled) if unit == "B" else number(scaled), unit)
    return with_unit(number(value / 1e9), "GB")


def duration(seconds: float) -> str:
    """Format seconds as '45 s', '4 min 10 s' or '1 h 5 min', with two units at most."""
    total = max(1, round(seconds)) if seconds > 0 else 0
    if total < 60:
        return with_unit(str(total), "s")
    if total < 3600:
        minutes, rest = divmod(total, 60)
        return with_unit(str(minutes), "min") + (f" {with_unit(str(rest), 's')}" if rest else "")
    hours, rest = divmod(total // 60, 60)
    return with_unit(f"{hours:,}", "h") + (f" {with_unit(str(rest), 'min')}" if rest else "")


def roughly(seconds: float) -> str:
    """Format an estimated time in one unit, '40 s', '4 min' or '2 h': more digits would be false precision."""
    if seconds < 90:
        return with_unit(str(max(1, round(seconds))), "s")
    if seconds < 5400:
        return with_unit(str(round(seconds / 60)), "min")
    return with_unit(f"{round(seconds / 3600):,}", "h")


def sent_and_received(sent: float | None, received: float | None) -> str:
    """Return text for bytes sent and received, '1,234 / 5,678', or '–' if they were not counted."""
    return NONE if sent is None or received is None else f"{count(sent)} / {count(received)}"


def in_quotes(label: str) -> str:
    """Return a label in quotes, so that a reader sees where it ends. A phrase such as 'a flush' stays unquoted."""
    return label if label.startswith(("a ", "an ")) and " and " not in label else f"'{label}'"


def with_aside(text: str, aside: str) -> str:
    """Return a text with an aside in brackets; in its own brackets if it ends with some: 'far (45 ms away; +3 %)'."""
    return f"{text.removesuffix(')')}; {aside})" if text.endswith(")") else f"{text} ({aside})".lstrip()


def with_article(label: str) -> str:
    """Return the label with an article, such as 'a query'. A label that already has an article is unchanged."""
    return label if label.startswith(("a ", "an ")) else f"{'an' if label[0] in 'aeiou' else 'a'} {label}"


def plural(quantity: int, word: str) -> str:
    """Return a number and its noun: '1 round' or '20 rounds'."""
    return f"{quantity:,} {word}" if quantity == 1 else f"{quantity:,} {word}s"


def plural_formatted(quantity: str, one: str, many: str) -> str:
    """Return the formatted number `quantity` with its noun, such as '1 query' or '20 queries'."""
    return f"{quantity} {one if quantity == '1' else many}"


def listed(parts: list[str], conjunction: str = "and") -> str:
    """Join texts into a list for a sentence: 'a', 'a and b' or 'a, b and c'."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {conjunction} {parts[-1]}"


def percent(relative: float, *, signed: bool = False) -> str:
    """Format a fraction in percent with two significant digits: 0.38 as '38 %', 0.0095 as '+0.95 %' if `signed`."""
    value = relative * 100
    return with_unit(number(value, min(2, significant_decimals(value, 2)), signed=signed), "%")


def percentage(part: Estimate) -> Text:
    """Format a fraction and its interval in percent: '93 % [90, 96]'."""
    scaled = part.through(lambda each: each * 100)
    return absolute(scaled, "%", decimals=min(1, estimate_decimals(scaled)))


def round_trips(counted: float) -> str:
    """Return '1 round trip' or '2.98 round trips'."""
    return plural_formatted(count(counted), "round trip", "round trips")


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]
