"""Arms: the combinations of levels that a run compares, from a study, a profile and what the user chose."""

from __future__ import annotations

import itertools

from pydantic import Field

from costof.errors import CostofError, ErrorText
from costof.model import Model
from costof.study.schema import AS_SERVED, ArmSettings, Profile, Study, holds

REPLICATE_SUFFIX = "-copy"
CONTEXT_SIGN = "@"


class PlannedArm(Model):
    name: str
    label: str
    levels: dict[str, str]
    settings: ArmSettings = Field(default_factory=ArmSettings, description="What its levels ask for.")
    control: bool = False
    replicate: bool = False
    baseline: str | None = None
    context: str = ""

    @property
    def protection(self) -> str:
        """The arm's name without its context."""
        return self.name.split(CONTEXT_SIGN)[0]


def plan_arms(study: Study, profile: Profile, chosen: dict[str, list[str]]) -> list[PlannedArm]:
    """The control, its replicate, and one arm for each combination of the chosen levels that makes sense; all of it once
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
            raise CostofError(ErrorText.LEVEL_APPLIES_NOWHERE, factor=name, condition=condition)
    varied = [name for name in levels if name != study.main_factor and name not in settings and len(levels[name]) > 1]
    told = [*varied, *(name for name in chosen if _is_unusual(study, profile, name, chosen[name]))]
    groups: dict[tuple[str, ...], list[PlannedArm]] = {}
    for setting in itertools.product(*settings.values()):
        groups[setting] = [_arm(study, combination, varied, told) for combination in combinations]
    first = next(iter(groups))
    usual = dict(zip(settings, first, strict=True))
    for change in profile.also if combinations else []:
        if not change.keys() & chosen.keys():
            setting = tuple(change.get(name, level) for name, level in usual.items())
            own = {name: level for name, level in change.items() if name not in settings}
            first_levels = {name: each[0] for name, each in levels.items() if name not in settings}
            changed = _applying(study, {**first_levels, **combinations[0], **own})
            more = [name for name in own if name != study.main_factor]
            arm = _arm(study, changed, [*varied, *more], [*told, *more])
            if arm not in groups.setdefault(setting, []):
                groups[setting].append(arm)
    arms = []
    for setting, planned in groups.items():
        shared = dict(zip(settings, setting, strict=True))
        arms += _arms_of_context(study, planned, shared, _context(study, shared, usual, settings))
    return [arm.model_copy(update={"settings": study.arm_settings(arm.levels)}) for arm in arms]


def _applying(study: Study, every: dict[str, str]) -> dict[str, str]:
    """Those of the levels that apply beside the others, in the study's order."""
    return {name: every[name] for name, factor in study.factors.items() if name in every and holds(factor.when, every)}


def _context(study: Study, shared: dict[str, str], first: dict[str, str], settings: dict[str, list[str]]) -> str:
    """The name of a setting: every distance where there are several, and whatever else is not as in the first."""
    parts = []
    for name, level in shared.items():
        if study.factors[name].milliseconds:
            parts += [level] if len(settings[name]) > 1 else []
        elif level != first[name]:
            parts.append(f"{name}-{level}")
    return ", ".join(parts)


def _combinations(study: Study, levels: dict[str, list[str]]) -> list[dict[str, str]]:
    """Every set of levels that applies and is not excluded, the control's left out."""
    found: list[dict[str, str]] = []
    for combination in itertools.product(*levels.values()):
        every = dict(zip(levels, combination, strict=True))
        applying = _applying(study, every)
        excluded = any(all(applying.get(n) == level for n, level in pair.items()) for pair in study.excludes)
        is_control = all(applying.get(name) == level for name, level in study.control.items())
        if applying not in found and not excluded and not is_control:
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
    replicate = control.model_copy(
        update={
            "name": plain + REPLICATE_SUFFIX + where,
            "label": f"{control.label} (identical copy)",
            "control": False,
            "replicate": True,
            "baseline": control.name,
        }
    )
    return [
        control,
        replicate,
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


def _is_unusual(study: Study, profile: Profile, name: str, levels: list[str]) -> bool:
    """Whether the user has set a factor to one level that it does not have by itself."""
    factor = study.factors[name]
    aside = factor.context or name == study.main_factor or levels == [AS_SERVED]
    usual = profile.factors.get(name) or factor.default
    return not aside and len(levels) == 1 and levels != usual[:1]


def _arm(study: Study, levels: dict[str, str], varied: list[str], told: list[str]) -> PlannedArm:
    """`varied` factors are in its name, and those that are `told` in its label."""
    parts = [levels[study.main_factor]]
    for name in varied:
        if name in levels:
            # 'on' and 'off' say nothing by themselves; other levels do.
            parts.append(f"{name}-{levels[name]}" if levels[name] in ("on", "off") else levels[name])
    label_of_level = study.labels[levels[study.main_factor]]
    label = label_of_level.format(**levels)
    unnamed = [name for name in told if name in levels and f"{{{name}}}" not in label_of_level]
    if unnamed:
        label += ", " + ", ".join(f"{study.factors[name].label} {levels[name]}" for name in unnamed)
    return PlannedArm(name="-".join(parts), label=label, levels=levels)
