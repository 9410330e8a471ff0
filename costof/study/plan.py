"""A plan: everything a run will do, resolved once from study, profile and options, and kept in the ledger.

Nothing downstream looks at the study file, the profile or the command line again.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from costof.errors import CostofError, Problem, nearest
from costof.model import Model
from costof.study.asked import Asked
from costof.study.published import Published, load_published
from costof.study.schema import AS_SERVED, FAR, LONGEST_ROUND_TRIP_MS, Level, Profile, SliceSize, Study

TWIN_SUFFIX = "-twin"
CONTEXT_SIGN = "@"
#: Round trips from which slices are sized for a far client.
FAR_FROM_MS = 5.0
MOST_RECORDS = 100_000_000
MOST_ROUNDS = 100_000
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


class PlannedArm(Model):
    name: str
    label: str
    levels: dict[str, str]
    asked: Asked = Field(default_factory=Asked, description="What its levels ask for.")
    control: bool = False
    twin: bool = False
    baseline: str | None = None
    context: str = ""

    @property
    def protection(self) -> str:
        """The arm's name without its context."""
        return self.name.split(CONTEXT_SIGN)[0]


class Plan(Model):
    """`study` is the whole study as it was, so that a run can be reported when the study has changed since.

    `protection_asked`: the user named levels of the main factor, so a run without them is no answer.
    `budget_seconds` and `precision` are None where the user said how many rounds: those alone end the run.
    `protection_alone`: the control's level was not among them.
    """

    study: Study
    profile: str
    seed: int
    arms: list[PlannedArm]
    slices: dict[str, SliceSize]
    budget_seconds: float | None
    precision: float | None
    fewest_rounds: int
    most_rounds: int
    warm_up_rounds: int
    records: int
    target: str | None = None
    plain_target: str | None = None
    protection_asked: bool = False
    protection_alone: bool = False
    published: Published | None = None

    @property
    def controls(self) -> list[PlannedArm]:
        """One for each context."""
        return [arm for arm in self.arms if arm.control]

    @property
    def protected(self) -> list[PlannedArm]:
        """The arms whose cost is asked for."""
        return [arm for arm in self.arms if not arm.control and not arm.twin]

    @property
    def loads(self) -> str:
        """The data that goes into the servers before the first slice, in words; '' where there is none."""
        if warehouses := self.study.warehouses:
            return f"{warehouses:,} warehouse{'s' if warehouses > 1 else ''}"
        return f"{self.records:,} records" if self.records else ""

    def arm(self, name: str) -> PlannedArm:
        return next(arm for arm in self.arms if arm.name == name)

    def twin_of(self, control: PlannedArm) -> PlannedArm:
        return next(arm for arm in self.arms if arm.twin and arm.baseline == control.name)

    def size(self, workload: str, arm: PlannedArm) -> SliceSize:
        """The slice of a workload on an arm: a far client does less in it, or side by side."""
        far = self.slices.get(workload + FAR)
        return far if far and self.study.round_trip_ms(arm.levels) >= FAR_FROM_MS else self.slices[workload]

    def workers(self, workload: str, arm: PlannedArm) -> int:
        of_levels = arm.asked.workload.get(workload, {}).get("workers")
        return self.size(workload, arm).workers or int(of_levels or self.study.workloads[workload].workers)


@dataclass(frozen=True)
class Options:
    """What a user may say on the command line; None leaves it to the profile."""

    profile: str = "default"
    settings: Sequence[str] = ()
    budget: str | None = None
    precision: str | None = None
    rounds: str | None = None
    seed: int | None = None
    target: str | None = None
    plain_target: str | None = None


def resolve(study: Study, options: Options) -> Plan:
    """The plan of a run. Raises `CostofError` with exit status 2 for whatever the user got wrong."""
    profile = study.profiles.get(options.profile)
    if profile is None:
        allowed = ", ".join(study.profiles)
        raise CostofError(Problem.UNKNOWN_PROFILE, study=study.name, name=options.profile, allowed=allowed)
    if options.target is not None:
        study = as_served(study)
    settings = [_assignment(text) for text in options.settings]
    records = profile.records
    chosen: dict[str, list[str]] = {}
    for name, text in settings:
        if name == "records" and profile.records:
            records = _whole_number(name, text, 1, MOST_RECORDS)
        else:
            chosen[name] = _levels(study, name, text, options.target is not None)
    if options.target is not None:
        chosen |= {name: [AS_SERVED] for name, factor in study.factors.items() if factor.lab_only}
    budget_seconds, precision, rounds = _stop_rule(profile, options)
    return Plan(
        study=study,
        profile=options.profile,
        seed=options.seed if options.seed is not None else secrets.randbelow(2**31),
        arms=plan_arms(study, profile, chosen),
        slices=profile.slices,
        budget_seconds=budget_seconds,
        precision=precision,
        fewest_rounds=rounds[0],
        most_rounds=rounds[1],
        warm_up_rounds=profile.warm_up_rounds,
        records=records,
        target=options.target,
        plain_target=options.plain_target,
        protection_asked=study.main_factor in chosen,
        protection_alone=study.control[study.main_factor] not in chosen.get(study.main_factor, study.control.values()),
        published=load_published(study.published) if study.published else None,
    )


def _stop_rule(profile: Profile, options: Options) -> tuple[float | None, float | None, tuple[int, int]]:
    """Budget in seconds, precision, fewest and most rounds. Raises `ROUNDS_ARE_EXACT` for rounds beside the others."""
    if options.rounds is None:
        precision = parse_precision(options.precision) if options.precision else profile.precision
        return parse_duration(options.budget or profile.budget), precision, profile.rounds
    others = {"--budget": options.budget, "--precision": options.precision}
    if told := [name for name, value in others.items() if value is not None]:
        raise CostofError(Problem.ROUNDS_ARE_EXACT, options=" and ".join(told))
    # Imported here: numpy would be a third of the time of a mistyped option.
    from costof.statistics.effects import ROUNDS_OF_AN_INTERVAL

    rounds = _whole_number("--rounds", options.rounds, ROUNDS_OF_AN_INTERVAL, MOST_ROUNDS)
    return None, None, (rounds, rounds)


def as_served(study: Study) -> Study:
    """The study as a target can be asked it: where its main factor is the lab's alone, another one is varied.

    The first factor that is not the lab's makes the arms then, against `target_control`; what the servers are is a
    setting that all arms share. A factor that a target is taken with as it is has that as its first level.
    """
    taken = {
        name: factor.model_copy(update={"levels": {AS_SERVED: Level(), **factor.levels}, "default": [AS_SERVED]})
        for name, factor in study.factors.items()
        if factor.as_served
    }
    study = study.model_copy(update={"factors": study.factors | taken})
    if not study.target_control:
        return study
    main = next(name for name, factor in study.factors.items() if not factor.lab_only)
    varied = study.factors[main]
    labelled = {
        name: level.model_copy(update={"label": level.label or f"{varied.label} {name}"})
        for name, level in varied.levels.items()
    }
    factors = {main: varied.model_copy(update={"context": False, "levels": labelled})}
    for name, factor in study.factors.items():
        if name != main:
            factors[name] = factor.model_copy(update={"context": factor.context or factor.lab_only})
    update = {"factors": factors, "control": study.target_control, "protection": varied.label}
    return study.model_copy(update=update)


def plan_arms(study: Study, profile: Profile, chosen: dict[str, list[str]]) -> list[PlannedArm]:
    """The control, its twin, and one arm for each combination of the chosen levels that makes sense; all of it once
    for each context (a distance).

    The control is always there: without it nothing has a cost. A factor that does not apply to an arm (a key size
    without TLS) is left out of its levels. An arm's name is its main level and every level that varies in this run,
    and its context where there are several.
    """
    levels = {
        name: chosen.get(name) or profile.factors.get(name) or factor.default for name, factor in study.factors.items()
    }
    settings = {name: levels[name] for name, factor in study.factors.items() if factor.context}
    combinations = _combinations(study, {name: each for name, each in levels.items() if name not in settings})
    for name in chosen:
        if chosen[name] != [AS_SERVED] and study.factors[name].when and not any(name in c for c in combinations):
            conditions = study.factors[name].when.items()
            condition = " and ".join(f"{other} = {' or '.join(wanted)}" for other, wanted in conditions)
            raise CostofError(Problem.LEVEL_APPLIES_NOWHERE, factor=name, condition=condition)
    varied = [name for name in levels if name != study.main_factor and name not in settings and len(levels[name]) > 1]
    groups: dict[tuple[str, ...], list[PlannedArm]] = {}
    for setting in itertools.product(*settings.values()):
        groups[setting] = [_arm(study, combination, varied) for combination in combinations]
    first = next(iter(groups))
    usual = dict(zip(settings, first, strict=True))
    for change in profile.also if combinations else []:
        if not change.keys() & chosen.keys():
            setting = tuple(change.get(name, level) for name, level in usual.items())
            own = {name: level for name, level in change.items() if name not in settings}
            changed = _applying(study, {**_everywhere(study, levels), **combinations[0], **own})
            arm = _arm(study, changed, [*varied, *(name for name in own if name != study.main_factor)])
            if arm not in groups.setdefault(setting, []):
                groups[setting].append(arm)
    arms = []
    for setting, planned in groups.items():
        shared = dict(zip(settings, setting, strict=True))
        arms += _arms_of_context(study, planned, shared, _context(study, shared, usual, settings))
    return [arm.model_copy(update={"asked": study.asked(arm.levels)}) for arm in arms]


def _everywhere(study: Study, levels: dict[str, list[str]]) -> dict[str, str]:
    """The first level of every factor that is not a context."""
    return {name: each[0] for name, each in levels.items() if not study.factors[name].context}


def _applying(study: Study, every: dict[str, str]) -> dict[str, str]:
    """Those of the levels that apply beside the others, in the study's order."""
    return {
        name: every[name]
        for name, factor in study.factors.items()
        if name in every and all(every[other] in wanted for other, wanted in factor.when.items())
    }


def _context(study: Study, shared: dict[str, str], first: dict[str, str], settings: dict[str, list[str]]) -> str:
    """The name of a setting: every distance where there are several, and whatever else is not as in the first."""
    told = []
    for name, level in shared.items():
        if study.factors[name].milliseconds:
            told += [level] if len(settings[name]) > 1 else []
        elif level != first[name]:
            told.append(f"{name}-{level}")
    return ", ".join(told)


def _combinations(study: Study, levels: dict[str, list[str]]) -> list[dict[str, str]]:
    """Every set of levels that applies and is not excluded, the control's left out."""
    found: list[dict[str, str]] = []
    for combination in itertools.product(*levels.values()):
        every = dict(zip(levels, combination, strict=True))
        applying = _applying(study, every)
        excluded = any(all(applying.get(n) == level for n, level in pair.items()) for pair in study.excludes)
        if applying not in found and not excluded and not _is_control(study, applying):
            found.append(applying)
    return found


def _arms_of_context(study: Study, arms: list[PlannedArm], shared: dict[str, str], context: str) -> list[PlannedArm]:
    where = CONTEXT_SIGN + context if context else ""
    plain = study.control[study.main_factor]
    control = PlannedArm(
        name=plain + where,
        label=study.labels[plain].format(**study.control),
        levels={**study.control, **shared},
        control=True,
        context=context,
    )
    twin = control.model_copy(
        update={
            "name": plain + TWIN_SUFFIX + where,
            "label": f"{control.label} (twin)",
            "control": False,
            "twin": True,
            "baseline": control.name,
        }
    )
    return [
        control,
        twin,
        *(
            arm.model_copy(
                update={
                    "name": arm.name + where,
                    "levels": {**arm.levels, **shared},
                    "baseline": control.name,
                    "context": context,
                }
            )
            for arm in arms
        ),
    ]


def _is_control(study: Study, levels: dict[str, str]) -> bool:
    return all(levels.get(name) == level for name, level in study.control.items())


def _arm(study: Study, levels: dict[str, str], varied: list[str]) -> PlannedArm:
    parts = [levels[study.main_factor]]
    for name in varied:
        if name in levels:
            # 'on' and 'off' say nothing by themselves; other levels do.
            parts.append(f"{name}-{levels[name]}" if levels[name] in ("on", "off") else levels[name])
    label = _label(study, levels)
    told = study.labels[levels[study.main_factor]]
    untold = [name for name in varied if name in levels and f"{{{name}}}" not in told]
    if untold:
        label += ", " + ", ".join(f"{study.factors[name].label} {levels[name]}" for name in untold)
    return PlannedArm(name="-".join(parts), label=label, levels=levels)


def _label(study: Study, levels: dict[str, str]) -> str:
    return study.labels[levels[study.main_factor]].format(**levels)


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name.strip() and equals and value.strip()):
        raise CostofError(Problem.NOT_AN_ASSIGNMENT, text=text)
    return name.strip(), value.strip()


def _levels(study: Study, name: str, text: str, on_target: bool) -> list[str]:
    if name not in study.factors:
        allowed = [*study.factors, *(["records"] if any(each.records for each in study.profiles.values()) else [])]
        raise CostofError(
            Problem.UNKNOWN_FACTOR,
            name=name,
            study=study.name,
            nearest=nearest(name, allowed),
            allowed=", ".join(allowed),
        )
    if on_target and study.factors[name].lab_only:
        raise CostofError(Problem.LAB_ONLY_FACTOR, factor=name)
    known = study.factors[name].levels
    levels = [level.strip() for level in text.split(",")]
    for level in levels:
        if not study.factors[name].allows(level):
            choices = ", ".join(known)
            if study.factors[name].milliseconds:
                choices += f", or milliseconds from 0 to {LONGEST_ROUND_TRIP_MS:,.0f}"
            raise CostofError(Problem.UNKNOWN_LEVEL, level=level, factor=name, allowed=choices)
    return list(dict.fromkeys(levels))


def _whole_number(name: str, text: str, low: int, high: int) -> int:
    digits = text.replace("_", "").replace(",", "")
    if not digits.isascii() or not digits.isdigit() or not low <= int(digits) <= high:
        raise CostofError(Problem.BAD_NUMBER, name=name, text=text, low=low, high=high)
    return int(digits)


def parse_duration(text: str) -> float:
    """Seconds of '45s', '5m' or '1h30m'. Raises `BAD_DURATION`."""
    match = _DURATION.fullmatch(text.strip())
    hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    total = hours * 3600 + minutes * 60 + seconds
    if total <= 0:
        raise CostofError(Problem.BAD_DURATION, text=text)
    return float(total)


def parse_precision(text: str) -> float:
    """0.02 of '2%'. Raises `BAD_PRECISION`."""
    try:
        value = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        value = 0.0
    if not text.strip().endswith("%") or not 0 < value < 1:
        raise CostofError(Problem.BAD_PRECISION, text=text)
    return value
