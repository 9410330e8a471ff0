"""Options: what a command line may say of a plan, read and checked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from costof.errors import CostofError, ErrorText, nearest
from costof.model import Finite, Model
from costof.study.schema import LONGEST_ROUND_TRIP_MS, Study, round_trip_ms

MOST_RECORDS = 100_000_000
MOST_ROUNDS = 100_000
#: Of the servers: two have an interval, and nobody would wait for more.
FEWEST_STARTS, MOST_STARTS = 2, 1000
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def parse_assignment(text: str) -> tuple[str, str]:
    """Name and value of 'name=value'. Raises `NOT_AN_ASSIGNMENT`."""
    name, equals, value = text.partition("=")
    if not (name.strip() and equals and value.strip()):
        raise CostofError(ErrorText.NOT_AN_ASSIGNMENT, text=text)
    return name.strip(), value.strip()


def chosen_levels(study: Study, name: str, text: str, on_target: bool) -> list[str]:
    """Of a factor, as `--set` names them. Raises `UNKNOWN_FACTOR`, `LAB_ONLY_FACTOR` and `UNKNOWN_LEVEL`."""
    if name not in study.factors:
        allowed = [*study.factors, *(["records"] if any(each.records for each in study.profiles.values()) else [])]
        raise CostofError(
            ErrorText.UNKNOWN_FACTOR,
            name=name,
            study=study.name,
            nearest=nearest(name, allowed),
            allowed=", ".join(allowed),
        )
    if on_target and study.factors[name].lab_only:
        raise CostofError(ErrorText.LAB_ONLY_FACTOR, factor=name)
    known = study.factors[name].levels
    levels = [level.strip() for level in text.split(",")]
    if study.factors[name].milliseconds:
        levels = [level if level in known else level.removesuffix("ms").rstrip() for level in levels]
    for level in levels:
        if not study.factors[name].allows(level):
            choices = ", ".join(known)
            if study.factors[name].milliseconds:
                choices += f", or milliseconds from 0 to {LONGEST_ROUND_TRIP_MS:,.0f}"
            raise CostofError(ErrorText.UNKNOWN_LEVEL, level=level, factor=name, allowed=choices)
    return list(dict.fromkeys(levels))


def distances_ms(study: Study, text: str) -> list[float]:
    """Return the round trips that `--distance` names for a target, in milliseconds.

    A study without a distance of its own takes numbers of milliseconds. Raises `UNKNOWN_LEVEL`.
    """
    name = study.distance_factor
    if name is not None:
        return [study.round_trip_ms({name: level}) for level in chosen_levels(study, name, text, on_target=False)]
    found = {level: round_trip_ms(level.strip().removesuffix("ms").rstrip()) for level in text.split(",")}
    for level, milliseconds in found.items():
        if milliseconds is None:
            choices = f"milliseconds from 0 to {LONGEST_ROUND_TRIP_MS:,.0f}"
            raise CostofError(ErrorText.UNKNOWN_LEVEL, level=level.strip(), factor="--distance", allowed=choices)
    return [milliseconds for milliseconds in found.values() if milliseconds is not None]


def whole_number(name: str, text: str, low: int, high: int) -> int:
    """Raises `BAD_NUMBER` beyond the bounds."""
    digits = text.replace("_", "").replace(",", "")
    if not digits.isascii() or not digits.isdigit() or not low <= int(digits) <= high:
        raise CostofError(ErrorText.BAD_NUMBER, name=name, text=text, low=low, high=high)
    return int(digits)


def parse_duration(text: str) -> float:
    """Seconds of '45s', '5m' or '1h30m'. Raises `BAD_DURATION`."""
    match = _DURATION.fullmatch(text.strip())
    hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    total = hours * 3600 + minutes * 60 + seconds
    if total <= 0:
        raise CostofError(ErrorText.BAD_DURATION, text=text)
    return float(total)


def parse_precision(text: str) -> float:
    """0.02 of '2%'. Raises `BAD_PRECISION`."""
    try:
        value = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        value = 0.0
    if not text.strip().endswith("%") or not 0 < value < 1:
        raise CostofError(ErrorText.BAD_PRECISION, text=text)
    return value


#: How a limit's unit is written, and what one of it is in the unit of a metric.
UNITS = {"ms": {"ms": 1.0, "us": 1e-3, "s": 1e3}, "us": {"us": 1.0, "ms": 1e3, "s": 1e6}, "per_second": {"/s": 1.0}}
PERCENT = "%"
_LIMIT = re.compile(r"([+-])(\d+(?:\.\d+)?)\s*(\S+)")


class Limit(Model):
    """How far an arm may change a metric for the worse, against its control."""

    metric: str
    better: Literal["lower", "higher"]
    said: str
    worst: Finite = Field(description="The change: a share of the control (0.1 is 10 %), or in the metric's unit.")
    relative: bool


def parse_limits(study: Study, said: Iterable[tuple[str, str]]) -> list[Limit]:
    """Each limit for each metric that has the name, or the label, that it is said for.

    Raises `UNKNOWN_METRIC`, and `BAD_LIMIT` for one that is not a percentage or in the metric's unit, for the worse.
    """
    return [_limit(study, name, text) for wanted, text in said for name in _metrics(study, wanted)]


def _metrics(study: Study, wanted: str) -> list[str]:
    named = wanted.strip().casefold()
    found = [name for name, metric in study.metrics.items() if named in (name.casefold(), metric.label.casefold())]
    if not found:
        allowed = list(dict.fromkeys(metric.label for metric in study.metrics.values()))
        listed = ", ".join(f"'{label}'" for label in allowed)
        near = nearest(wanted, allowed)
        raise CostofError(ErrorText.UNKNOWN_METRIC, name=wanted, study=study.name, nearest=near, allowed=listed)
    return found


def _limit(study: Study, name: str, text: str) -> Limit:
    metric = study.metrics[name]
    sign, units = "+" if metric.better == "lower" else "-", UNITS.get(metric.unit, {})
    match = _LIMIT.fullmatch(text.strip())
    if match and match[1] == sign and match[3] in (PERCENT, *units):
        worst = float(f"{sign}{match[2]}") * units.get(match[3], 0.01)
        relative = match[3] == PERCENT
        return Limit(metric=name, better=metric.better, said=text.strip(), worst=worst, relative=relative)
    example = " or ".join(f"{sign}{number}" for number in ("10%", *(f"2{unit}" for unit in [*units][:1])))
    raise CostofError(ErrorText.BAD_LIMIT, text=text, metric=metric.label, example=example)
