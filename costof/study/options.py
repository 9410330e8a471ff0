"""Parsing of command-line options that affect the plan."""

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
#: Limits of --restarts. A confidence interval needs at least two starts.
FEWEST_STARTS, MOST_STARTS = 2, 1000
_REUSED = re.compile(r"\breused (query|get|set)\b")
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def parse_assignment(text: str) -> tuple[str, str]:
    """Return name and value of 'name=value'. Raises `NOT_AN_ASSIGNMENT`."""
    name, equals, value = text.partition("=")
    if not (name.strip() and equals and value.strip()):
        raise CostofError(ErrorText.NOT_AN_ASSIGNMENT, text=text)
    return name.strip(), value.strip()


def parse_levels(study: Study, name: str, text: str, on_target: bool) -> list[str]:
    """Return the levels that `--set` gives. Raises `UNKNOWN_FACTOR`, `LAB_ONLY_FACTOR` and `UNKNOWN_LEVEL`."""
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
            if study.factors[name].paths:
                choices += ", or the absolute path of a folder"
            raise CostofError(ErrorText.UNKNOWN_LEVEL, level=level, factor=name, allowed=choices)
    return list(dict.fromkeys(levels))


def parse_distances_ms(study: Study, text: str) -> list[float]:
    """Return the round-trip times, in milliseconds, that `--set distance=…` names for the user's own servers.

    A study without a distance factor accepts only numbers of milliseconds, such as '20'. Raises `UNKNOWN_LEVEL`.
    """
    name = study.distance_factor
    if name is not None:
        return [study.round_trip_ms({name: level}) for level in parse_levels(study, name, text, on_target=False)]
    round_trips = {level: round_trip_ms(level.strip().removesuffix("ms").rstrip()) for level in text.split(",")}
    for level, milliseconds in round_trips.items():
        if milliseconds is None:
            choices = f"milliseconds from 0 to {LONGEST_ROUND_TRIP_MS:,.0f}"
            raise CostofError(ErrorText.UNKNOWN_LEVEL, level=level.strip(), factor="--distance", allowed=choices)
    return [milliseconds for milliseconds in round_trips.values() if milliseconds is not None]


def parse_whole_number(name: str, text: str, low: int, high: int) -> int:
    """Return the number in `text`. Raises `BAD_NUMBER` if it is not a whole number from `low` to `high`."""
    digits = text.replace("_", "").replace(",", "")
    if not digits.isascii() or not digits.isdigit() or not low <= int(digits) <= high:
        raise CostofError(ErrorText.BAD_NUMBER, name=name, text=text, low=low, high=high)
    return int(digits)


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as '45s', '5m' or '1h30m'. Raises `BAD_DURATION`."""
    match = _DURATION.fullmatch(text.strip())
    hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    total = hours * 3600 + minutes * 60 + seconds
    if total <= 0:
        raise CostofError(ErrorText.BAD_DURATION, text=text)
    return float(total)


def parse_precision(text: str) -> float:
    """Return a percentage as a fraction, such as 0.02 for '2%'. Raises `BAD_PRECISION`."""
    try:
        value = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        value = 0.0
    if not text.strip().endswith("%") or not 0 < value < 1:
        raise CostofError(ErrorText.BAD_PRECISION, text=text)
    return value


#: The units in which a limit may be written, for each unit of a metric. Each has a factor that converts it to the
#: metric's unit.
UNITS = {"ms": {"ms": 1.0, "us": 1e-3, "s": 1e3}, "us": {"us": 1.0, "ms": 1e3, "s": 1e6}, "per_second": {"/s": 1.0}}
PERCENT = "%"
_LIMIT = re.compile(r"([+-])(\d+(?:\.\d+)?)\s*(\S+)")


class Limit(Model):
    """The maximum by which an arm may be worse than its control in a metric.

    `text` is the limit as the user wrote it.
    """

    metric: str
    better: Literal["lower", "higher"]
    text: str
    worst: Finite = Field(
        description="The largest allowed change: a share of the control (0.1 is 10 %), or in the metric's unit."
    )
    relative: bool


def parse_limits(study: Study, limits: Iterable[tuple[str, str]]) -> list[Limit]:
    """Return the limits that the pairs describe: the name or label of a metric, and a text such as '+10%'.

    If a label belongs to several metrics, all of them get the limit. Raises `UNKNOWN_METRIC`, and `BAD_LIMIT` for a
    limit that is neither a percentage nor in the metric's unit, or whose sign means an improvement.
    """
    return [_limit(study, metric, text) for name, text in limits for metric in _metrics(study, name)]


def _metrics(study: Study, name_or_label: str) -> list[str]:
    wanted = _present_label(name_or_label.strip())
    names = [
        name for name, metric in study.metrics.items() if wanted in (name.casefold(), _present_label(metric.label))
    ]
    if not names:
        allowed = list(dict.fromkeys(metric.label for metric in study.metrics.values()))
        listed = ", ".join(f"'{label}'" for label in allowed)
        near = nearest(name_or_label, allowed)
        raise CostofError(ErrorText.UNKNOWN_METRIC, name=name_or_label, study=study.name, nearest=near, allowed=listed)
    return names


def _present_label(label: str) -> str:
    """Return a label in lower case, with old wording replaced by the present one.

    Older runs say 'reused query' for 'query on open connection'. Users may write either label, for any run.
    """
    return _REUSED.sub(r"\1 on open connection", label.casefold())


def _limit(study: Study, name: str, text: str) -> Limit:
    metric = study.metrics[name]
    sign, units = "+" if metric.better == "lower" else "-", UNITS.get(metric.unit, {})
    match = _LIMIT.fullmatch(text.strip())
    if match and match[1] == sign and match[3] in (PERCENT, *units):
        worst = float(f"{sign}{match[2]}") * units.get(match[3], 0.01)
        relative = match[3] == PERCENT
        return Limit(metric=name, better=metric.better, text=text.strip(), worst=worst, relative=relative)
    example = " or ".join(f"{sign}{number}" for number in ("10%", *(f"2{unit}" for unit in [*units][:1])))
    raise CostofError(ErrorText.BAD_LIMIT, text=text, metric=metric.label, example=example)
