"""Limits: the most that a protection may cost, said before anything is measured."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from costof.errors import CostofError, Problem, nearest
from costof.model import Finite, Model
from costof.study.metric import Metric
from costof.study.schema import Study

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


def limits_of(study: Study, said: Iterable[tuple[str, str]]) -> list[Limit]:
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
        raise CostofError(Problem.UNKNOWN_METRIC, name=wanted, study=study.name, nearest=near, allowed=listed)
    return found


def _limit(study: Study, name: str, text: str) -> Limit:
    metric = study.metrics[name]
    sign, units = "+" if metric.better == "lower" else "-", UNITS.get(metric.unit, {})
    match = _LIMIT.fullmatch(text.strip())
    if match and match[1] == sign and match[3] in (PERCENT, *units):
        worst = float(f"{sign}{match[2]}") * units.get(match[3], 0.01)
        relative = match[3] == PERCENT
        return Limit(metric=name, better=metric.better, said=text.strip(), worst=worst, relative=relative)
    raise CostofError(Problem.BAD_LIMIT, text=text, metric=metric.label, example=_example(metric, sign, list(units)))


def _example(metric: Metric, sign: str, units: list[str]) -> str:
    """Such as '+10% or +2ms'."""
    return " or ".join(f"{sign}{number}" for number in ("10%", *(f"2{unit}" for unit in units[:1])))
