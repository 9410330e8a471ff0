"""Arms: the configurations that a run compares. Each is a combination of levels, such as TLS 1.3 with an RSA key.

The levels come from a study, a profile and the user's options.
"""

from __future__ import annotations

import itertools

from pydantic import Field

from costof.errors import CostofError, ErrorText
from costof.model import Model
from costof.study.schema import AS_SERVED, ArmSettings, Profile, Study, holds

REPLICATE_SUFFIX = "-copy"
CONTEXT_SIGN = "@"


class PlannedArm(Model):
    """A configuration that a run compares. `control_arm` is the name of the control to which its cost is relative.

    `control_arm` is None for a control.
    """

    name: str
    label: str
    levels: dict[str, str]
    settings: ArmSettings = Field(default_factory=ArmSettings, description="What its levels require, merged.")
    control: bool = False
    replicate: bool = False
    control_arm: str | None = None
    context: str = ""

    @property
    def protection(self) -> str:
        """The arm's name without its context (such as a distance): 'tls' for the name 'tls@us-eu'."""
        return self.name.split(CONTEXT_SIGN)[0]


def plan_arms(study: Study, profile: Profile, chosen: dict[str, list[str]]) -> list[PlannedArm]:
    """Return the arms of a run: in each context the control, its identical copy (replicate), and the protected arms.

    A context is a level of a factor that applies to all arms alike, such as a distance. There is a protected arm for
    each valid combination of the chosen levels. The control is always included, because every cost is relative to it.
    If a factor does not apply to an arm, such as a key size without TLS, the arm has no level of this factor.

    An arm's name consists of its protection, its levels of all factors that vary in this run, and its context if there
    are several.

    Raises `LEVEL_APPLIES_NOWHERE` for a chosen level that no arm can have.
    """
    levels = {
        name: chosen.get(name) or profile.factors.get(name) or factor.default for name, factor in study.factors.items()
    }
    contexts = {name: levels[name] for name, factor in study.factors.items() if factor.context}
    combinations = _combinations(study, {name: each for name, each in levels.items() if name not in contexts})
    for name in chosen:
        if chosen[name] != [AS_SERVED] and study.factors[name].when and not any(name in c for c in combinations):
            conditions = study.factors[name].when.items()
            condition = " and ".join(f"{other} = {' or '.join(needed)}" for other, needed in conditions)
            raise CostofError(ErrorText.LEVEL_APPLIES_NOWHERE, factor=name, condition=condition)
    varied = [name for name in levels if name != study.main_factor and name not in contexts and len(levels[name]) > 1]
    labelled = [*varied, *(name for name in chosen if _is_unusual(study, profile, name, chosen[name]))]
    groups: dict[tuple[str, ...], list[PlannedArm]] = {}
    for context in itertools.product(*contexts.values()):
        groups[context] = [_arm(study, combination, varied, labelled) for combination in combinations]
    first = next(iter(groups))
    usual = dict(zip(contexts, first, strict=True))
    for change in profile.also if combinations else []:
        if not change.keys() & chosen.keys():
            context = tuple(change.get(name, level) for name, level in usual.items())
            changed_levels = {name: level for name, level in change.items() if name not in contexts}
            first_levels = {name: each[0] for name, each in levels.items() if name not in contexts}
            changed = _applicable(study, {**first_levels, **combinations[0], **changed_levels})
            more = [name for name in changed_levels if name != study.main_factor]
            arm = _arm(study, changed, [*varied, *more], [*labelled, *more])
            if arm not in groups.setdefault(context, []):
                groups[context].append(arm)
    arms = []
    for context, planned in groups.items():
        shared = dict(zip(contexts, context, strict=True))
        arms += _arms_of_context(study, planned, shared, _context(study, shared, usual, contexts))
    return [arm.model_copy(update={"settings": study.arm_settings(arm.levels)}) for arm in arms]


def _applicable(study: Study, every: dict[str, str]) -> dict[str, str]:
    """Return the levels of those factors whose condition `when` is fulfilled, in the study's order of factors."""
    return {name: every[name] for name, factor in study.factors.items() if name in every and holds(factor.when, every)}


def _context(study: Study, shared: dict[str, str], first: dict[str, str], contexts: dict[str, list[str]]) -> str:
    """Return a context's name, such as 'us-eu' or 'us-eu, data-on-disk'.

    'us-eu' is a distance, which is named only if the run has several distances. 'data-on-disk' is a factor ('data') and
    its level. It is named only if the run's first context has another level of this factor.
    """
    parts = []
    for name, level in shared.items():
        if study.factors[name].milliseconds:
            parts += [level] if len(contexts[name]) > 1 else []
        elif level != first[name]:
            parts.append(f"{name}-{level}")
    return ", ".join(parts)


def _combinations(study: Study, levels: dict[str, list[str]]) -> list[dict[str, str]]:
    """Return all combinations of levels, except those of the control and those that the study excludes.

    In each combination, factors that do not apply are left out.
    """
    combinations: list[dict[str, str]] = []
    for combination in itertools.product(*levels.values()):
        every = dict(zip(levels, combination, strict=True))
        applicable = _applicable(study, every)
        excluded = any(all(applicable.get(n) == level for n, level in pair.items()) for pair in study.excludes)
        is_control = all(applicable.get(name) == level for name, level in study.control.items())
        if applicable not in combinations and not excluded and not is_control:
            combinations.append(applicable)
    return combinations


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
            "control_arm": control.name,
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
                    "control_arm": control.name,
                    "context": context,
                }
            )
            for arm in arms
        ),
    ]


def _is_unusual(study: Study, profile: Profile, name: str, levels: list[str]) -> bool:
    """Return whether the labels of arms must name the factor `name`, for which the user chose `levels`.

    A label names the factor if the user chose exactly one level, and this level is not the first of the default levels.
    Labels never name the main factor (the protection), a context factor (such as the distance), or the level
    `AS_SERVED`.
    """
    factor = study.factors[name]
    already_named = factor.context or name == study.main_factor or levels == [AS_SERVED]
    usual = profile.factors.get(name) or factor.default
    return not already_named and len(levels) == 1 and levels != usual[:1]


def _arm(study: Study, levels: dict[str, str], varied: list[str], labelled: list[str]) -> PlannedArm:
    """Return the arm with these levels. Its name contains the `varied` factors, its label the `labelled` ones."""
    parts = [levels[study.main_factor]]
    for name in varied:
        if name in levels:
            # The levels 'on' and 'off' can be understood only with the factor's name.
            parts.append(f"{name}-{levels[name]}" if levels[name] in ("on", "off") else levels[name])
    label_of_level = study.labels[levels[study.main_factor]]
    label = label_of_level.format(**levels)
    unnamed = [name for name in labelled if name in levels and f"{{{name}}}" not in label_of_level]
    if unnamed:
        details = ", ".join(f"{study.factors[name].label} {levels[name]}" for name in unnamed)
        # Put all details into one pair of parentheses, as in 'TLS (1.3, ECDSA key)'. If the details followed
        # without parentheses, a sentence that lists labels would be ambiguous.
        label = f"{label.removesuffix(')')}, {details})" if label.endswith(")") else f"{label} ({details})"
    return PlannedArm(name="-".join(parts), label=label, levels=levels)
