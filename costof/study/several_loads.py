"""Several loads in one run: a study is measured at each load of a list or a range, such as `--load 100/s,300/s`.

The loads are levels of a context factor (a factor that applies to the control too). So each load has its own control
(the arm without the protection), and the measurements of all loads alternate in each round.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from costof.errors import CostofError, ErrorText
from costof.study.load import Arrivals, CommandRate, Load, RequestedLoad, parse_rate
from costof.study.schema import Factor, Level, Profile, SliceSize, Study
from costof.study.sweep import is_latency_limit, parse_range, split_range

#: The name of the factor whose levels are the loads.
LOAD = "load"
#: The number of loads that are measured for a range (`--load 100/s..300/s`) without a limit on latency.
LOADS_OF_A_RANGE = 5
MOST_LOADS = 12
#: The length of a slice (measured window): the time in which `OPERATIONS_IN_SLICE` connections or operations arrive on
#: average at the lowest load, but at least `SHORTEST_SECONDS` and at most `LONGEST_SECONDS`. The slices are shorter
#: than those of a run at a single load, because each round measures every arm at every load.
OPERATIONS_IN_SLICE, SHORTEST_SECONDS, LONGEST_SECONDS = 150, 1.0, 4.0
#: An estimate of the seconds that a slice (measured window) takes in addition to its measured time, for predicting how
#: long a verdict takes.
OVERHEAD_SECONDS = 0.5


def parse_loads(requested: RequestedLoad, limits: Iterable[tuple[str, str]]) -> list[float]:
    """Return the loads that --load lists, in ascending order; [] if --load is a single load.

    A range without a limit on latency stands for several loads at equal ratios, such as 100, 200 and 400. For a range
    with a limit on latency, return [], because such a run searches for the capacity (`sweep.py`).

    Raises `BAD_RATE`, `BAD_RANGE` and `TOO_MANY_LOADS`.
    """
    text = requested.rate or ""
    if split_range(text) is not None:
        return [] if any(map(is_latency_limit, limits)) else _spread(*parse_range(text))
    loads = sorted({parse_rate(each) for each in text.split(",")}) if "," in text else []
    if len(loads) > MOST_LOADS:
        raise CostofError(ErrorText.TOO_MANY_LOADS, count=len(loads), most=MOST_LOADS)
    return loads


def _spread(least: float, most: float) -> list[float]:
    """Return loads at equal ratios from `least` to `most`. The loads between these two are rounded to two digits."""
    step = math.log(most / least) / (LOADS_OF_A_RANGE - 1)
    between = (float(f"{least * math.exp(step * count):.2g}") for count in range(1, LOADS_OF_A_RANGE - 1))
    return sorted({least, most, *(each for each in between if least < each < most)})


def level_of(per_second: float) -> str:
    return f"{per_second:.10g}"


def at_loads(study: Study, load: Load, loads: list[float]) -> Study:
    """Return the study with a factor `load` whose levels are these `loads`. It applies to the control too.

    `study` must already be the study at the single load `load` (`at_load`). Raises `FACTOR_NAMED_LOAD`.
    """
    if LOAD in study.factors:
        raise CostofError(ErrorText.FACTOR_NAMED_LOAD, study=study.name, factor=LOAD)
    names = [level_of(each) for each in loads]
    phrases = {name: in_words(load, each) for name, each in zip(names, loads, strict=True)}
    factor = Factor(
        label="load", phrases=phrases, levels={name: Level() for name in names}, default=names, context=True
    )
    changes = {
        "factors": {**study.factors, LOAD: factor},
        "profiles": {name: _with_short_rounds(study, each, load, loads[0]) for name, each in study.profiles.items()},
    }
    # Drop the report sections that `at_load` has added, because they are made for a single load. For a study of
    # commands, `at_load` adds no sections, so keep the study's own.
    return study.model_copy(update=changes if isinstance(load, CommandRate) else {**changes, "sections": {}})


def _with_short_rounds(study: Study, profile: Profile, load: Load, lowest: float) -> Profile:
    """Return the profile with short slices. Of each factor except the main one, keep only the first level."""
    levels = {name: each if name == study.main_factor else each[:1] for name, each in profile.factors.items()}
    seconds = min(max(OPERATIONS_IN_SLICE / lowest, SHORTEST_SECONDS), LONGEST_SECONDS)
    slices = {name: SliceSize(operations=each.operations, seconds=seconds) for name, each in profile.slices.items()}
    kept = profile.slices if isinstance(load, CommandRate) else slices
    return profile.model_copy(update={"factors": levels, "also": [], "slices": kept})


def rate_in_words(per_second: float) -> str:
    return f"{per_second:,.6g}"


def in_words(load: Load, per_second: float) -> str:
    """Return the rate of one of several loads as text, such as '2,000 queries a second'."""
    rate = rate_in_words(per_second)
    return f"a rate of {rate}/s" if isinstance(load, CommandRate) else f"{rate} {unit_in_words(load, per_second)}"


def unit_in_words(load: Load, per_second: float = 2) -> str:
    """Return the unit of a load, such as 'queries a second', in the singular if `per_second` is 1.

    The unit of a load of commands is 'operations a second'.
    """
    one, several = load.operation
    new = "new " if isinstance(load, Arrivals) else ""
    return f"{new}{one if per_second == 1 else several} a second"
