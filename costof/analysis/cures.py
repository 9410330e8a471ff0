"""Cures: what one change gives back of what the protection costs.

A share given back is a ratio of two paired differences, gain over loss. Its interval is Fieller's (1954), on the same
trimmed means as every other interval of a run: all shares s for which the interval of the rounds' `gain - s * loss`
holds 0. It needs no resampling, is as sound at six rounds as the effects are, and widens as the loss gets small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from costof.analysis.result import Cure, Effect, NoiseFloor
from costof.analysis.run_record import Run
from costof.statistics.effects import FEWEST_ROUNDS, ROUNDS_OF_AN_INTERVAL, Comparisons, estimate, ratio, verdict
from costof.statistics.estimate import Estimate, Verdict
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from costof.study.schema import Cures, Study

#: No cure is asked for more than this many times the loss, either way.
FARTHEST = 1e4
SEEN_FROM_THE_CURE = {Verdict.COSTS: Verdict.SAVES, Verdict.SAVES: Verdict.COSTS}


@dataclass(frozen=True)
class Candidate:
    """An arm that differs from the reference in one factor."""

    factor: str
    level: str
    arm: PlannedArm
    reference: PlannedArm


def reference_of(plan: Plan) -> PlannedArm | None:
    """The protected arm at the first levels, in the first context: what a cure is held against.

    An arm that some factor of the cures does not apply to (plain, without a balancer) is no protected one.
    """
    cures = plan.study.cures
    if cures is None:
        return None
    first = plan.controls[0].context
    fitting = (arm for arm in plan.protected if arm.context == first and set(cures.factors) <= set(arm.levels))
    return next(fitting, None)


def candidates(run: Run) -> list[Candidate]:
    """Every cure of the run that was measured beside its reference."""
    cures, reference = run.plan.study.cures, reference_of(run.plan)
    if cures is None or reference is None:
        return []
    found = []
    for arm in run.plan.protected:
        changed = [name for name in {**reference.levels, **arm.levels} if _changed(name, reference, arm)]
        alone = len(changed) == 1 and changed[0] in cures.factors and changed[0] in arm.levels
        if alone and len(_both(run, cures, reference, arm)) >= ROUNDS_OF_AN_INTERVAL:
            found.append(Candidate(changed[0], arm.levels[changed[0]], arm, reference))
    return found


def _both(run: Run, cures: Cures, reference: PlannedArm, arm: PlannedArm) -> set[int]:
    """Rounds that have both."""
    return set(run.samples.rounds(cures.metric, reference.name)) & set(run.samples.rounds(cures.metric, arm.name))


def _changed(name: str, reference: PlannedArm, arm: PlannedArm) -> bool:
    return reference.levels.get(name) != arm.levels.get(name)


def cures_of(run: Run, effects: Sequence[Effect], floors: Sequence[NoiseFloor], comparisons: Comparisons) -> list[Cure]:
    """The cures, the one with the largest gain first."""
    cures = run.plan.study.cures
    if cures is None:
        return []
    made = [_cure(run, cures, each, effects, floors, comparisons) for each in candidates(run)]
    higher = run.plan.study.metrics[cures.metric].better == "higher"
    found = [each for each in made if each is not None]
    return sorted(found, key=lambda each: each.gain.value, reverse=higher)


def _cure(
    run: Run,
    cures: Cures,
    candidate: Candidate,
    effects: Sequence[Effect],
    floors: Sequence[NoiseFloor],
    comparisons: Comparisons,
) -> Cure | None:
    metric, (arm, reference) = run.plan.study.metrics[cures.metric], (candidate.arm, candidate.reference)
    without, cured = run.samples.pairs(cures.metric, reference.name, arm.name)
    gain = ratio(without, cured)
    if gain is None:
        return None
    contexts = (reference.context, arm.context)
    noise = max((f.relative for f in floors if f.metric == cures.metric and f.context in contexts), default=0.0)
    # To go without the cure is judged, as a protection is: so "no cost above the margin" says that nothing is lost.
    found = verdict(cured, without, metric.margin, comparisons.of_kind(headline=metric.headline), noise, metric.better)
    lost = any((e.metric, e.arm, e.verdict) == (cures.metric, reference.name, Verdict.COSTS) for e in effects)
    return Cure(
        factor=candidate.factor,
        level=candidate.level,
        label=cure_label(run.plan.study, candidate.factor, candidate.level),
        arm=arm.name,
        reference=reference.name,
        control=reference.baseline or "",
        metric=cures.metric,
        gain=gain,
        given_back=_given_back(run, cures.metric, candidate) if lost else None,
        verdict=SEEN_FROM_THE_CURE.get(found, found),
    )


def cure_label(study: Study, factor: str, level: str) -> str:
    """'keep-alive, 100 requests a connection', or the factor's own words, or its label and level."""
    labels = study.cures.labels if study.cures else {}
    own = study.factors[factor].words.format(level=level) or f"{study.factors[factor].label} {level}"
    return labels.get(f"{factor}={level}", own)


def _given_back(run: Run, metric: str, candidate: Candidate) -> Estimate | None:
    names = (candidate.reference.baseline or "", candidate.reference.name, candidate.arm.name)
    common = set.intersection(*(set(run.samples.rounds(metric, name)) for name in names))
    if len(common) < FEWEST_ROUNDS:
        return None
    control, without, cured = ([run.samples.at(metric, name, n) for n in sorted(common)] for name in names)
    gains = [b - a for a, b in zip(without, cured, strict=True)]
    losses = [b - a for a, b in zip(without, control, strict=True)]
    return share_given_back(gains, losses)


def share_given_back(gains: Sequence[float], losses: Sequence[float]) -> Estimate | None:
    """Gain over loss, both against the protected arm and paired by round; None where a share has no bounded interval.

    Both have the sign of the loss for a cure that helps, whichever way is better.
    """

    def left(share: float) -> Estimate:
        return estimate([gain - share * loss for gain, loss in zip(gains, losses, strict=True)])

    value, one, other = (_crossing(left, of) for of in ("value", "low", "high"))
    if value is None or one is None or other is None:
        return None
    return Estimate(value=value, low=min(value, one, other), high=max(value, one, other), rounds=len(gains))


def _crossing(left: Callable[[float], Estimate], end: str) -> float | None:
    """The share at which this end of the interval of `gain - share * loss` is 0; None where it never is.

    Halved rather than by scipy's `brentq`, whose import takes longer than a page.
    """

    def at(share: float) -> float:
        return float(getattr(left(share), end))

    reach = 2.0
    while at(-reach) * at(reach) > 0:
        reach *= 4
        if reach > FARTHEST:
            return None
    rising, low, high = at(reach) > 0, -reach, reach
    while high - low > 1e-7:
        middle = (low + high) / 2
        low, high = (low, middle) if (at(middle) > 0) == rising else (middle, high)
    return low
