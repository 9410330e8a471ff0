"""The page about two kinds of processor: the headline effects of every study, measured on each of them.

When a study is measured again on another processor, `reports.measure` keeps its former run as well. This page compares
the two runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from costof import format as fmt
from costof.report.markdown import escape, pipe_table
from costof.report.result import Result
from costof.results.compare import Change, compare_runs
from costof.results.index import Index
from costof.statistics.estimate import Estimate
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
COLUMNS = ("effect", "first processor", "second processor", "quotient of the ratios", "agrees")
NONE_KEPT = "There are no runs on two processors yet.\n"


@dataclass(frozen=True)
class Compared:
    """A study's run on the first processor and on the second, and the headline effects that both have."""

    first: Result
    second: Result
    changes: list[Change]


def page(first: Mapping[str, Result], second: Mapping[str, Result]) -> str:
    """Return the page in Markdown, from the runs on each processor by study."""
    pairs = [_compared(first[study], second[study]) for study in first if study in second]
    pairs = [pair for pair in pairs if pair.changes and processor(pair.first) != processor(pair.second)]
    if not pairs:
        return HEAD + NONE_KEPT
    texts = [HEAD, _summary(pairs), *(_section(pair) for pair in pairs)]
    return "\n".join(texts).replace(fmt.NBSP, " ")


def processor(result: Result) -> str:
    return str(result.environment.get("CPU", "an unknown processor"))


def _compared(first: Result, second: Result) -> Compared:
    index = Index(first)
    copies = {arm.name for arm in first.arms if arm.replicate}
    changes = (change for change in compare_runs(first, second) if change.arm not in copies)
    return Compared(first, second, [change for change in changes if index.metrics[change.metric].headline])


def agrees(change: Change) -> bool | None:
    """Return whether the ratios agree; None if they cannot be compared, because an interval reaches 0."""
    return None if change.change is None else change.change.low <= 1 <= change.change.high


def _summary(pairs: list[Compared]) -> str:
    found = [agrees(change) for pair in pairs for change in pair.changes]
    compared, same = len(found) - found.count(None), found.count(True)
    goal = "reached" if same >= GOAL * compared else "not reached"
    lines = [
        f"**{same} of {fmt.plural(compared, 'headline effect')} agree** ({fmt.share(same / compared)}). The goal, "
        f"{fmt.share(GOAL)}, is {goal}."
    ]
    if found.count(None):
        lines.append(f"{fmt.plural(found.count(None), 'further effect')} cannot be compared: an interval reaches 0.")
    different = list(chain.from_iterable(map(_differences, pairs)))
    if different:
        lines += ["", "What does not agree, and which part of the figure changed:", "", *different]
    return "\n".join(lines) + "\n"


def _differences(pair: Compared) -> Iterator[str]:
    for change in pair.changes:
        if agrees(change) is False:
            yield f"- {escape(_difference(pair, change))}"


def _difference(pair: Compared, change: Change) -> str:
    """Return a sentence that says how much the figure without the protection and the protection's part changed."""
    before, after = (Index(each).effect(change.metric, change.arm) for each in (pair.first, pair.second))
    assert before is not None
    assert after is not None
    unit = before.unit
    plain = [fmt.absolute(_exact(each.control_value), unit).value for each in (before, after)]
    added = [str(fmt.absolute(each.difference, unit, signed=True)) for each in (before, after)]
    return (
        f"{glance.title(pair.first.study)} {fmt.capital(_name(pair, change))}: without the protection {plain[0]} on "
        f"the first processor and {plain[1]} on the second; the protection changes this by {added[0]} and {added[1]}."
    )


def _exact(value: float) -> Estimate:
    return Estimate(value=value, low=value, high=value, rounds=0)


def _name(pair: Compared, change: Change) -> str:
    index = Index(pair.first)
    return f"{index.metric_words(change.metric)} with {index.label_at(change.arm)}"


def _section(pair: Compared) -> str:
    study = pair.first.study
    facts = [
        f"{each.started[:10]}, {each.environment.get('cores')} cores of {processor(each)}"
        for each in (pair.first, pair.second)
    ]
    return "\n\n".join(
        [
            f"## [{escape(glance.title(study))}](studies/{study}.md)",
            pipe_table(COLUMNS, ([*map(escape, _cells(pair, change))] for change in pair.changes)),
            f"First: {facts[0]}. Second: {facts[1]}.\n",
        ]
    )


def _cells(pair: Compared, change: Change) -> Iterator[str]:
    yield _name(pair, change)
    yield str(fmt.relative(change.first))
    yield str(fmt.relative(change.second))
    yield str(fmt.absolute(change.change, decimals=2)) if change.change is not None else fmt.NONE
    yield {True: "yes", False: "no", None: "not compared"}[agrees(change)]
