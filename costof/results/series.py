"""What runs asked, and of what: costs of runs are of one series where this is the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from costof import format as fmt
from costof.results.ledger import EnvironmentRecord, Ledger
from costof.urls import without_password

QUESTION, LOAD, CLIENT, TARGET, PLAIN_TARGET, POOL = "question", "load", "client", "target", "plain target", "pool"
LAB = "a lab of costof's own"
AT_FULL_SPEED = "as much as it takes"
_VERSION = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True)
class Conditions:
    """What a run asked. `versions` are exact, `arms` are levels by arm and factor, `controls` by arm."""

    question: Mapping[str, str]
    versions: Mapping[str, str]
    arms: Mapping[str, Mapping[str, str]]
    controls: Mapping[str, str]
    records: int

    @property
    def series(self) -> frozenset[tuple[str, str]]:
        releases = {f"release of {name}": release_of(version) for name, version in self.versions.items()}
        levels = {f"{factor} of {arm}": level for arm, of in self.arms.items() for factor, level in of.items()}
        return frozenset({**self.question, **releases, **levels}.items())


def read_conditions(ledger: Ledger) -> Conditions:
    plan = ledger.plan()
    pooler = plan.target_options.pooler if plan.target_options else None
    started = next((record for record in ledger.records() if isinstance(record, EnvironmentRecord)), None)
    return Conditions(
        question={
            QUESTION: plan.study.question or plan.study.title,
            LOAD: plan.load.in_words if plan.load else AT_FULL_SPEED,
            CLIENT: plan.client or "",
            TARGET: without_password(plan.target) or LAB,
            PLAIN_TARGET: plan.plain_target or "",
            POOL: without_password(pooler) or "",
        },
        versions=versions_of(started) if started else {},
        arms={arm.name: arm.levels for arm in plan.arms if not arm.replicate},
        controls={arm.name: arm.baseline for arm in plan.protected if arm.baseline is not None},
        records=plan.records,
    )


def release_of(version: str) -> str:
    """'17' of '17.5 (Debian 17.5-1)', '11.4' of '11.4.5-MariaDB': all but the last number, which counts patches."""
    found = _VERSION.search(version)
    return found[0].rpartition(".")[0] if found else version


def versions_of(started: EnvironmentRecord) -> dict[str, str]:
    if started.versions is not None:
        return started.versions
    # Ledgers of before have them among their facts, between these two.
    names = [*started.facts]
    if not {"load before", "topology"} <= {*names}:
        return {}
    between = names[names.index("load before") + 1 : names.index("topology")]
    return {name: str(started.facts[name]) for name in between}


def incomparable(first: Conditions, second: Conditions) -> str | None:
    """Return why no cost of one run can be compared with the other's; None where some can."""
    for fact, reason in ((QUESTION, "the runs asked different questions"), (LOAD, "the runs had different loads")):
        if first.question[fact] != second.question[fact]:
            return reason
    return None


def unlike_arms(first: Conditions, second: Conditions) -> set[str]:
    """Return the arms of both runs that were something else in each, or had another control."""
    unlike = {arm for arm, levels in first.arms.items() if second.arms.get(arm, levels) != levels}
    return unlike | {arm for arm, control in first.controls.items() if control in unlike}


def differences(first: Conditions, second: Conditions) -> Iterator[str]:
    """Yield a sentence for each thing that the two runs do not have in common."""
    one, other = first.question, second.question
    if one[QUESTION] != other[QUESTION]:
        yield f"The first run asked “{one[QUESTION]}”, the second “{other[QUESTION]}”."
    if one[LOAD] != other[LOAD]:
        yield f"The first run asked for {one[LOAD]}; the second for {other[LOAD]}."
    if one[CLIENT] != other[CLIENT]:
        yield f"The first run had {_client(one)}, the second {_client(other)}."
    apart: dict[str, dict[tuple[str, str], list[str]]] = {}
    for arm, own in first.arms.items():
        for factor, level in own.items():
            now = second.arms.get(arm, own).get(factor, "none")
            if now != level:
                apart.setdefault(factor, {}).setdefault((level, now), []).append(arm)
    for factor, levels in apart.items():
        for (before, now), arms in levels.items():
            yield f"{fmt.listed(arms)}: {factor} is {before} in the first run and {now} in the second."
    for which, has, lacks in (("first", first, second), ("second", second, first)):
        if alone := [arm for arm in has.arms if arm not in lacks.arms]:
            yield f"Only the {which} run has {fmt.listed(alone)}."
    if (one[TARGET], one[PLAIN_TARGET], one[POOL]) != (other[TARGET], other[PLAIN_TARGET], other[POOL]):
        yield f"The first run asked {_place(one)}, the second {_place(other)}: costs may differ by that alone."
    for name in first.versions:
        version, other_version = first.versions[name], second.versions.get(name, first.versions[name])
        if version != other_version:
            patch = ", a patch of one release" if release_of(version) == release_of(other_version) else ""
            yield f"{_program(name)} is {version} in the first run and {other_version} in the second{patch}."
    if first.records != second.records:
        yield f"The first run loaded {first.records:,} records, the second {second.records:,}."


def titles(series: Sequence[Conditions]) -> list[str]:
    """Return what tells each of several series from the others."""
    facts = [_facts(each) for each in series]
    names = dict.fromkeys(name for each in facts for name in each)
    apart = [name for name in names if len({each.get(name) for each in facts}) > 1]
    return [" · ".join(dict.fromkeys(each[name] for name in apart if name in each)) for each in facts]


def changes_within(runs: Sequence[str], of: Sequence[Conditions]) -> Iterator[str]:
    """Yield a sentence for each change within one series that may explain a step: a patch, or the size of the data."""
    for name in of[0].versions:
        if told := _changes(runs, [each.versions[name] for each in of]):
            yield f"{_program(name)} was {told}."
    if told := _changes(runs, [f"{each.records:,}" for each in of]):
        yield f"Records loaded: {told}."


def _facts(of: Conditions) -> dict[str, str]:
    """Return the facts in which series may differ, each in words."""
    shown = {
        QUESTION: of.question[QUESTION],
        LOAD: of.question[LOAD],
        CLIENT: _client(of.question),
        TARGET: _place(of.question),
        **{f"release of {name}": f"{_program(name)} {release_of(each)}" for name, each in of.versions.items()},
    }
    levels = {
        f"{factor} of {arm}": f"{factor} {level}" for arm, each in of.arms.items() for factor, level in each.items()
    }
    return {**shown, "arms": f"arms {fmt.listed([*of.arms])}", **levels}


def _client(asked: Mapping[str, str]) -> str:
    return f"{asked[CLIENT]} as a client too" if asked[CLIENT] else "no client but costof's own"


def _place(asked: Mapping[str, str]) -> str:
    pool = f" through {asked[POOL]}" if asked[POOL] else ""
    return " and ".join(filter(None, [asked[TARGET], asked[PLAIN_TARGET]])) + pool


def _program(name: str) -> str:
    return "The server" if name == "server" else name


def _changes(runs: Iterable[str], values: Iterable[str]) -> str:
    """Return '17.5 at first and 17.6 from run-3 on'; '' where nothing changed."""
    steps: list[tuple[str, str]] = []
    for run, value in zip(runs, values, strict=True):
        if not steps or steps[-1][1] != value:
            steps.append((run, value))
    later = [f"{value} from {run} on" for run, value in steps[1:]]
    return fmt.listed([f"{steps[0][1]} at first", *later]) if later else ""
