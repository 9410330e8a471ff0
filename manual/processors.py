"""The page about two kinds of processor: the headline effects of every study, measured on both kinds.

When a study is measured again on another processor, `reports.measure` keeps its former run as well. This page compares
the two runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from costof import format as fmt
from costof.report.markdown import escape, pipe_table
from costof.report.result import Result
from costof.results.compare import Change, compare_runs
from costof.results.index import Index
from costof.results.models import Effect
from manual import glance

#: The share of effects that should agree.
GOAL = 0.9
HEAD = """# Does another processor give the same answer?

Each study's quick profile was run on two kinds of processor, with the same command. A cost in milliseconds depends on
the machine, so the page compares ratios: a figure with the protection divided by the figure without it. `make docs`
computes every figure from the raw results of both runs.

Two ratios agree if the 95 % interval of their quotient contains 1. The interval includes the uncertainty of both runs.
If processors made no difference, one ratio in 20 would not agree by chance.

"""
COLUMNS = ("effect", "first", "second", "quotient", "agrees", "time without", "time added")
#: Follows the number of effects that agree, if some do not.
ADVICE = (
    ": times and percentages depend on the processor, and counts of round trips do not, so repeat the run on a machine "
    "like yours"
)
NONE_KEPT = "There are no runs on two processors yet.\n"


@dataclass(frozen=True)
class Compared:
    """A study's runs on the first and on the second processor, and the headline effects that both runs have."""

    first: Result
    second: Result
    indexes: tuple[Index, Index]
    changes: list[Change]


def page(first: Mapping[str, Result], second: Mapping[str, Result]) -> str:
    """Return the page in Markdown, from the runs on the first and on the second processor, each by study."""
    pairs = [pair for study in first if study in second and (pair := _compared(first[study], second[study]))]
    if not pairs:
        return HEAD + NONE_KEPT
    texts = [HEAD, _summary(pairs), *(_section(pair) for pair in pairs)]
    return "\n".join(texts).replace(fmt.NBSP, " ")


def line(first: Result | None, second: Result) -> str:
    """Return the sentence with which a study's page links to the study's section of the page about processors.

    Return '' if the page about processors has no section about the study.
    """
    pair = _compared(first, second) if first is not None else None
    if pair is None:
        return ""
    differs = any(agrees(change) is False for change in pair.changes)
    text = f"Compared with a run on [another processor](../processors.md#{second.study}), {_counts(pair)}"
    return f"{text}{ADVICE if differs else ''}."


def processor(result: Result) -> str:
    return str(result.environment.get("CPU", "an unknown processor"))


def _compared(first: Result, second: Result) -> Compared | None:
    """Return the comparison of two runs; None if they are on the same processor or share no headline effect."""
    if processor(first) == processor(second):
        return None
    indexes = Index(first), Index(second)
    copies = {arm.name for arm in first.arms if arm.replicate}
    changes = [
        change
        for change in compare_runs(first, second)
        if change.arm not in copies and indexes[0].metrics[change.metric].headline
    ]
    return Compared(first, second, indexes, changes) if changes else None


def agrees(change: Change) -> bool | None:
    """Return whether the ratios on both processors agree.

    Return None if they cannot be compared, because an interval reaches 0.
    """
    return None if change.change is None else change.change.low <= 1 <= change.change.high


def _counts(pair: Compared) -> str:
    """Return text such as '4 of 5 main effects agree, and 1 more cannot be compared'."""
    found = [agrees(change) for change in pair.changes]
    unknown = found.count(None)
    text = f"{found.count(True)} of {fmt.plural(len(found) - unknown, 'main effect')} agree"
    return text + (f", and {unknown} more cannot be compared" if unknown else "")


def _summary(pairs: list[Compared]) -> str:
    found = [agrees(change) for pair in pairs for change in pair.changes]
    compared, same = len(found) - found.count(None), found.count(True)
    if not compared:
        return "No main effect can be compared, because in one of the two runs its interval reaches 0.\n"
    goal = "reached" if same >= GOAL * compared else "not reached"
    lines = [
        f"**{same} of {fmt.plural(compared, 'main effect')} agree** ({same / compared:.0%}). The goal, "
        f"{GOAL:.0%}, is {goal}.".replace("%", " %")
    ]
    if found.count(None):
        lines.append(f"{fmt.plural(found.count(None), 'further effect')} cannot be compared: an interval reaches 0.")
    factors = [_factors(pair, change) for pair in pairs for change in pair.changes if agrees(change) is False]
    plain, added = ([factor for each in factors if (factor := each[part])] for part in (0, 1))
    if plain and added:
        lines += [
            "",
            "**Why ratios differ:** a ratio stays the same only if a processor changes the time without the protection "
            "and the time that the protection adds by the same factor. For the effects that do not agree, the median "
            f"factor is {median(plain):.2f} for the time without the protection and {median(added):.2f} for the added "
            "time; the last two columns have both for each effect (for a rate, they are of the time of an operation). "
            "So from a run on another machine, take round trips, flushes and the time that a protection adds rather "
            "than a percentage, and measure on your own.",
        ]
    return "\n".join(lines) + "\n"


def _factors(pair: Compared, change: Change) -> tuple[float | None, float | None]:
    """Return by which factors the second processor changes the time without the protection, and the added time.

    For a rate, the times are those of an operation: 1 / rate. The second factor is None if the added time is unclear on
    either processor, because the interval of the difference includes 0.
    """
    before, after = (index.effect(change.metric, change.arm) for index in pair.indexes)
    assert before is not None
    assert after is not None
    if min(before.control_value, before.value, after.control_value, after.value) <= 0:
        return None, None
    clear = all(each.difference.low > 0 or each.difference.high < 0 for each in (before, after))
    (plain, added), (other_plain, other_added) = _times(before), _times(after)
    return other_plain / plain, other_added / added if clear and added else None


def _times(effect: Effect) -> tuple[float, float]:
    """Return the time without the protection and the time that the protection adds, in the same unit."""
    if effect.unit == "per_second":
        return 1 / effect.control_value, 1 / effect.value - 1 / effect.control_value
    return effect.control_value, effect.value - effect.control_value


def _name(pair: Compared, change: Change) -> str:
    index = pair.indexes[0]
    return f"{index.metric_in_view(change.metric)} with {index.label_at(change.arm)}"


def _section(pair: Compared) -> str:
    study = pair.first.study
    facts = [
        f"{each.started[:10]}, {each.environment.get('cores')} cores of {processor(each)}"
        for each in (pair.first, pair.second)
    ]
    return "\n\n".join(
        [
            f"## {escape(glance.title(study))} {{#{study}}}",
            f"**{_counts(pair)}** ([the study](studies/{study}.md)).",
            pipe_table(COLUMNS, ([*_cells(pair, change)] for change in pair.changes)),
            f"First: {facts[0]}. Second: {facts[1]}.\n",
        ]
    )


def _cells(pair: Compared, change: Change) -> Iterator[str]:
    yield escape(_name(pair, change))
    yield str(fmt.relative(change.first))
    yield str(fmt.relative(change.second))
    yield str(fmt.absolute(change.change, decimals=2)) if change.change is not None else fmt.NONE
    yield {True: "yes", False: "**no**", None: "not compared"}[agrees(change)]
    for factor in _factors(pair, change):
        yield f"×{factor:.2f}" if factor is not None else fmt.NONE
