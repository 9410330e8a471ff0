"""Conditions of a run. Runs under the same conditions form a series, in which costs can be compared over time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from costof import format as fmt
from costof.results.ledger import EnvironmentRecord, Ledger
from costof.urls import without_password

QUESTION, LOAD, CLIENT, TARGET, PLAIN_TARGET, POOL = "question", "load", "client", "target", "plain target", "pool"
LAB = "the lab"
AT_FULL_SPEED = "full speed"
_VERSION = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True)
class Conditions:
    """The conditions of a run, such as the servers' exact versions, and the levels and the control of each arm."""

    question: Mapping[str, str]
    versions: Mapping[str, str]
    arms: Mapping[str, Mapping[str, str]]
    controls: Mapping[str, str]
    records: int

    @property
    def series(self) -> frozenset[tuple[str, str]]:
        """Return the conditions that all runs of a series share. Patch versions and data size may differ."""
        releases = {f"release of {name}": release_number(version) for name, version in self.versions.items()}
        levels = {f"{factor} of {arm}": level for arm, each in self.arms.items() for factor, level in each.items()}
        return frozenset({**self.question, **releases, **levels}.items())


def read_conditions(ledger: Ledger) -> Conditions:
    plan = ledger.plan()
    pooler = plan.target_options.pooler if plan.target_options else None
    started = next((record for record in ledger.records() if isinstance(record, EnvironmentRecord)), None)
    return Conditions(
        question={
            QUESTION: plan.study.question or plan.study.title,
            LOAD: plan.load_in_words if plan.load else AT_FULL_SPEED,
            CLIENT: plan.client or "",
            TARGET: without_password(plan.target) or LAB,
            PLAIN_TARGET: plan.plain_target or "",
            POOL: without_password(pooler) or "",
        },
        versions=server_versions(started) if started else {},
        arms={arm.name: arm.levels for arm in plan.arms if not arm.replicate},
        controls={arm.name: arm.control_arm for arm in plan.protected if arm.control_arm is not None},
        records=plan.records,
    )


def release_number(version: str) -> str:
    """Return the version without its last number, the patch: '17' for '17.5 (Debian 17.5-1)'."""
    number = _VERSION.search(version)
    return number[0].rpartition(".")[0] if number else version


def server_versions(started: EnvironmentRecord) -> dict[str, str]:
    if started.versions is not None:
        return started.versions
    # Older ledgers have the versions among their facts: all facts between "load before" and "topology".
    names = [*started.facts]
    if not {"load before", "topology"} <= {*names}:
        return {}
    between = names[names.index("load before") + 1 : names.index("topology")]
    return {name: str(started.facts[name]) for name in between}


def incomparable(first: Conditions, second: Conditions) -> str | None:
    """Return why no costs of the two runs can be compared; None if some costs can."""
    for fact, reason in ((QUESTION, "the runs asked different questions"), (LOAD, "the runs had different loads")):
        if first.question[fact] != second.question[fact]:
            return reason
    return None


def changed_arms(first: Conditions, second: Conditions) -> set[str]:
    """Return the arms whose own levels, or whose control's levels, differ between the runs."""
    changed = {arm for arm, levels in first.arms.items() if second.arms.get(arm, levels) != levels}
    return changed | {arm for arm, control in first.controls.items() if control in changed}


def differences(first: Conditions, second: Conditions) -> Iterator[str]:
    """Yield a sentence for each difference between the conditions of the two runs."""
    one, other = first.question, second.question
    if one[QUESTION] != other[QUESTION]:
        yield f"The first run asked “{one[QUESTION]}”, the second “{other[QUESTION]}”."
    if one[LOAD] != other[LOAD]:
        yield f"Load: {one[LOAD]} (first run); {other[LOAD]} (second run)."
    if one[CLIENT] != other[CLIENT]:
        yield f"The first run measured {_client(one)}, the second {_client(other)}."
    changes: dict[str, dict[tuple[str, str], list[str]]] = {}
    for arm, levels in first.arms.items():
        for factor, before in levels.items():
            after = second.arms.get(arm, levels).get(factor, "none")
            if after != before:
                changes.setdefault(factor, {}).setdefault((before, after), []).append(arm)
    for factor, changed in changes.items():
        for (before, after), arms in changed.items():
            yield f"{fmt.listed(arms)}: {factor} is {before} in the first run and {after} in the second."
    for ordinal, run, other_run in (("first", first, second), ("second", second, first)):
        if additional := [arm for arm in run.arms if arm not in other_run.arms]:
            yield f"Only the {ordinal} run has {fmt.listed(additional)}."
    if (one[TARGET], one[PLAIN_TARGET], one[POOL]) != (other[TARGET], other[PLAIN_TARGET], other[POOL]):
        yield f"The first run measured {_place(one)}, the second {_place(other)}: costs may differ for that alone."
    for name in first.versions:
        version, other_version = first.versions[name], second.versions.get(name, first.versions[name])
        if version != other_version:
            patch = ", a patch of one release" if release_number(version) == release_number(other_version) else ""
            yield f"{_program(name)} is {version} in the first run and {other_version} in the second{patch}."
    if first.records != second.records:
        yield f"The first run loaded {first.records:,} records, the second {second.records:,}."


def titles(series: Sequence[Conditions]) -> list[str]:
    """Return a title for each series, made of the facts in which the series differ from each other."""
    facts = [_facts(each) for each in series]
    names = dict.fromkeys(name for each in facts for name in each)
    differing = [name for name in names if len({each.get(name) for each in facts}) > 1]
    return [" · ".join(dict.fromkeys(each[name] for name in differing if name in each)) for each in facts]


def changes_within(runs: Sequence[str], conditions: Sequence[Conditions]) -> Iterator[str]:
    """Yield a sentence for each change of patch version or data size in a series: it may explain why costs changed."""
    for name in conditions[0].versions:
        if changes := _changes(runs, [each.versions[name] for each in conditions]):
            yield f"{_program(name)} was {changes}."
    if changes := _changes(runs, [f"{each.records:,}" for each in conditions]):
        yield f"Records loaded: {changes}."


def _facts(conditions: Conditions) -> dict[str, str]:
    """Return the facts in which series may differ, in words, by the name of the fact."""
    shown = {
        QUESTION: conditions.question[QUESTION],
        LOAD: conditions.question[LOAD],
        CLIENT: _client(conditions.question),
        TARGET: _place(conditions.question),
        **{
            f"release of {name}": f"{_program(name)} {release_number(each)}"
            for name, each in conditions.versions.items()
        },
    }
    levels = {
        f"{factor} of {arm}": f"{factor} {level}"
        for arm, each in conditions.arms.items()
        for factor, level in each.items()
    }
    return {**shown, "arms": f"arms {fmt.listed([*conditions.arms])}", **levels}


def _client(question: Mapping[str, str]) -> str:
    return f"with {question[CLIENT]} as well" if question[CLIENT] else "with costof's own client alone"


def _place(question: Mapping[str, str]) -> str:
    pool = f" through {question[POOL]}" if question[POOL] else ""
    return " and ".join(filter(None, [question[TARGET], question[PLAIN_TARGET]])) + pool


def _program(name: str) -> str:
    return "The server" if name == "server" else name


def _changes(runs: Iterable[str], values: Iterable[str]) -> str:
    """Return the changes in words, such as '17.5 at first and 17.6 from run-3 on'; '' if there are none."""
    steps: list[tuple[str, str]] = []
    for run, value in zip(runs, values, strict=True):
        if not steps or steps[-1][1] != value:
            steps.append((run, value))
    later = [f"{value} from {run} on" for run, value in steps[1:]]
    return fmt.listed([f"{steps[0][1]} at first", *later]) if later else ""
