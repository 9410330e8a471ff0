"""The judgement of a self-test: whether the verdicts and intervals of a run agree with costs that are known.

In a self-test, a relay between client and server delays requests, and records each delay. The known cost of an arm is
its mean delay minus the control's mean delay, over the rounds from which the arm's effect is computed. If an arm is
identical to its control, its known cost is 0. The self-test passes if the interval of each effect contains the known
cost, and if no verdict is wrong.

Verdicts are computed as in every run, but at a lower error rate. At the usual 5 %, one self-test in twenty would report
a difference between identical arms.
"""

from __future__ import annotations

import math
from enum import StrEnum
from itertools import pairwise
from statistics import fmean, median

from pydantic import Field

from costof.model import Finite, Model
from costof.results.changes import JudgedChange, judge_changes
from costof.results.run import Run
from costof.statistics.estimate import Estimate, Verdict
from costof.statistics.intervals import FEWEST_ROUNDS, differences
from costof.statistics.verdicts import extrapolated, is_detected_in, smallest_detectable

#: The permitted probability that a self-test fails by chance. One half is for wrong verdicts (corrected by Holm's
#: method), the other half for known costs outside of their intervals (Bonferroni's method). With the usual 5 % for all
#: verdicts together and 5 % for each interval, a quarter of all self-tests would fail.
FALSE_ALARMS = 0.01
ERROR_RATE = FALSE_ALARMS / 2
#: A self-test fails if it does not detect a known cost that at least this share of runs would detect.
SURELY = 0.99
#: A self-test reports the smallest effect that this share of runs would detect.
MOSTLY = 0.9
#: Run lengths in seconds. For each, a self-test reports the smallest effect that such a run would detect.
TIMES = (10, 60, 300)


class Outcome(StrEnum):
    """The correctness of a verdict on a known cost.

    `TOO_SMALL` is not an error: the machine's noise hides a cost of this size.
    """

    RIGHT = "right"
    TOO_SMALL = "too small to find"
    WRONG = "wrong"


class KnownCost(Model):
    """An arm whose cost is known, and the run's verdict on it. Costs are in ms for each request."""

    arm: str
    label: str
    identical: bool = Field(description="Whether the arm has the same settings as the control.")
    known: Finite
    estimate: Estimate = Field(description="The measured cost, with an interval of `confidence`.")
    confidence: Finite
    ratio: Finite = Field(description="The known cost relative to the control, as a geometric mean over rounds.")
    large: bool = Field(description=f"Whether {SURELY:.0%} of runs as noisy as this one find a cost of this size.")
    verdict: Verdict
    outcome: Outcome
    mistake: str = Field(default="", description="What is wrong; empty unless the outcome is 'wrong'.")


class SmallestEffect(Model):
    seconds: Finite
    smallest: Finite = Field(
        description=f"The smallest effect that {MOSTLY:.0%} of such runs find, relative to the time of a request "
        "without the time for which the relay held it."
    )


class Selftest(Model):
    """The result of a self-test: whether it passed, each known cost with its verdict, and what such runs can detect."""

    passed: bool = Field(description="Whether no verdict and no interval is wrong.")
    conclusion: str = ""
    known_costs: list[KnownCost]
    smallest_effects: list[SmallestEffect]
    request_ms: Finite = Field(description="Mean time of a request of the control.")
    held_ms: Finite = Field(description="Mean time for which the relay held it.")
    rounds: int
    discarded_rounds: int
    measured_seconds: Finite
    other_programs: Finite = Field(description="Share of the CPU that other programs and the hypervisor used, 0 to 1.")
    seed: int

    @property
    def wrong(self) -> list[KnownCost]:
        return [each for each in self.known_costs if each.outcome is Outcome.WRONG]

    @property
    def hidden(self) -> list[KnownCost]:
        """The known costs that the run did not detect, because they are too small for the machine's noise."""
        return [each for each in self.known_costs if each.outcome is Outcome.TOO_SMALL]

    def smallest_in(self, seconds: float) -> float:
        return next(each.smallest for each in self.smallest_effects if each.seconds == seconds)


def judge_selftest(run: Run, metric: str, held: str) -> Selftest | None:
    """Return the judgement of a run; None if it has too few rounds for a verdict.

    `metric` names the metric with the time of a request. `held` names the metric with the relay's delay, in the same
    unit.
    """
    judged = judge_changes(run.plan, run.changes, ERROR_RATE)
    effects = [each for each in judged if each.metric == metric]
    holding = {each.change.arm.name: each.change for each in judged if each.metric == held}
    if not effects or min(each.change.rounds for each in effects) < FEWEST_ROUNDS:
        return None
    confidence = 1 - ERROR_RATE / len(effects)
    costs = [_known_cost(each, held, confidence, len(effects), run) for each in effects]
    request_ms = fmean(effects[0].change.control)
    held_ms = fmean(holding[effects[0].change.arm.name].control)
    return Selftest(
        passed=all(each.outcome is not Outcome.WRONG for each in costs),
        known_costs=costs,
        smallest_effects=_smallest_effects(run, effects, request_ms / (request_ms - held_ms)),
        request_ms=request_ms,
        held_ms=held_ms,
        rounds=run.rounds,
        discarded_rounds=len(run.disturbances.discarded),
        measured_seconds=run.measured_seconds,
        other_programs=run.disturbances.typical_share,
        seed=run.plan.seed,
    )


def _known_cost(judged: JudgedChange, held: str, confidence: float, count: int, run: Run) -> KnownCost:
    change = judged.change
    arm, control = change.arm.name, change.arm.control_arm or ""
    pairs = [(judged.metric, arm), (held, control), (held, arm)]
    times, held_of_control, held_of_arm = run.samples.common_values((judged.metric, control), *pairs)[1:]
    known = fmean(differences(held_of_control, held_of_arm))
    ratio = _known_ratio(times, held_of_arm, median(held_of_control))
    estimate = change.difference.estimate(change.rounds, confidence)
    large = is_detected_in(SURELY, ratio, known, judged.contrast, count, ERROR_RATE)
    margin = judged.contrast.margin or 0.0
    identical = _is_identical(judged, run)
    outcome, mistake = outcome_of(identical, known, ratio, estimate, judged.verdict, large, margin)
    return KnownCost(
        arm=change.arm.name,
        label=change.arm.label,
        identical=identical,
        known=known,
        estimate=estimate,
        confidence=confidence,
        ratio=ratio,
        large=large,
        verdict=judged.verdict,
        outcome=outcome,
        mistake=mistake,
    )


def _known_ratio(times: list[float], held: list[float], usual: float) -> float:
    """Return the known cost relative to the control (0.05 is 5 %), as a geometric mean over rounds.

    `times` and `held` have the mean of each round: the time of the arm's requests, and the relay's delay of these
    requests. `usual` is the relay's delay of the control's requests in a typical round.
    """
    logs = [math.log(time / max(usual, time - max(0.0, hold - usual))) for time, hold in zip(times, held, strict=True)]
    return math.expm1(fmean(logs))


def _is_identical(judged: JudgedChange, run: Run) -> bool:
    arm = judged.change.arm
    return arm.settings == run.plan.arm(arm.control_arm or "").settings


def outcome_of(
    identical: bool, known: float, ratio: float, estimate: Estimate, verdict: Verdict, large: bool, margin: float
) -> tuple[Outcome, str]:
    """Return whether a verdict on a known cost is right, and what is wrong with it ('' if nothing)."""
    if identical and verdict in (Verdict.COSTS, Verdict.SAVES):
        return Outcome.WRONG, "identical arms were reported to differ"
    if not estimate.low <= known <= estimate.high:
        return Outcome.WRONG, "its interval does not contain the known cost"
    if identical or verdict is Verdict.COSTS:
        return Outcome.RIGHT, ""
    if verdict is Verdict.SAVES:
        return Outcome.WRONG, "it was reported to save time"
    if verdict is Verdict.UNRESOLVED:
        return (Outcome.WRONG, "it was not found") if large else (Outcome.TOO_SMALL, "")
    return (Outcome.WRONG, "a larger cost was ruled out") if ratio >= margin else (Outcome.TOO_SMALL, "")


def _smallest_effects(run: Run, effects: list[JudgedChange], times: float) -> list[SmallestEffect]:
    """Return, for each run length in `TIMES`, the smallest effect that such a run would detect.

    The result is in shares of the time of a request without the relay's delay. The run measures shares of the time with
    the delay, so they are multiplied by `times`: the time with the delay / the time without it. The noise is that of
    identical arms.
    """
    contrast = next((each.contrast for each in effects if _is_identical(each, run)), effects[0].contrast)
    seconds = _seconds_of_a_round(run)
    smallest = []
    for time in TIMES:
        then = extrapolated(contrast, max(FEWEST_ROUNDS, int(time / seconds)))
        least = smallest_detectable(then, len(effects), detected_in=MOSTLY)
        smallest.append(SmallestEffect(seconds=time, smallest=times * least))
    return smallest


def _seconds_of_a_round(run: Run) -> float:
    """Return how long a round typically takes, including the work between its slices."""
    began: dict[int, int] = {}
    for record in run.counted:
        began.setdefault(record.round, record.answer.started_unix_ns)
    spans = [(later - earlier) / 1e9 for earlier, later in pairwise(began.values())]
    return max(run.measured_seconds / run.rounds, median(spans) if spans else 0.0)
