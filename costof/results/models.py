"""Models of the core result: arms with their evidence, values, effects, noise, CPU time and errors.

The analysis fills them from the ledger. A section of a report reads them and its own data, and nothing else.
`report/result.py` puts both together.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from costof.lab.round_trips import LinkEvidence
from costof.model import Finite, Model
from costof.statistics.estimate import Estimate, Verdict
from costof.study.schema import Published, PublishedFigure

SCHEMA_VERSION = 4


class Factor(Model):
    name: str
    level: str


class Evidence(Model):
    """Facts by name that one view (`wire`, `app`, `command`, `server`, `service`) observed on an arm, as printed."""

    view: str
    facts: dict[str, str]
    slices: int = Field(description="Slices with this evidence.")
    discarded: int = Field(
        default=0, description="Slices left out of all figures, because their evidence was not the arm's."
    )


class Arm(Model):
    name: str
    label: str = Field(description="The arm's name in reports, such as 'TLS 1.3, ecdsa-p256'.")
    control: bool
    replicate: bool = Field(default=False, description="The second copy of the control.")
    baseline: str | None = Field(
        default=None, description="The control that the arm is compared with; None for a control."
    )
    context: str = Field(
        default="", description="The context shared with its control, such as 'us-us'; '' if the run has only one."
    )
    context_in_words: str = Field(
        default="",
        description="The context in words, such as 'with a balancer of 0.5 cores'; '' for 'at <context>'.",
    )
    factors: list[Factor]
    same_set_up: list[str] = Field(
        default=[],
        description="Arms of the same context whose servers were set up identically in all slices.",
    )
    evidence: list[Evidence]
    error: str | None = Field(default=None, description="Why the arm has no figures, or not all of them, in one line.")

    @property
    def levels(self) -> dict[str, str]:
        return {factor.name: factor.level for factor in self.factors}

    @property
    def protection(self) -> str:
        """Return the arm's name without its context, which is the same at every distance."""
        return self.name.removesuffix(f"@{self.context}") if self.context else self.name

    @property
    def at(self) -> str:
        """Return the context as part of a sentence: ' at us-us', ' with keep-alive'; '' for an unnamed context."""
        if not self.context:
            return ""
        return f" {self.context_in_words or f'at {self.context}'}"


class Metric(Model):
    name: str = Field(description="The name in the study, such as 'wire.tls'; the part before the dot is the view.")
    label: str
    description: str
    view: str
    unit: str = Field(description="'ms', 'us' or 'per_second'.")
    headline: bool = Field(
        description="The metric answers the question: the run measures until its effects reach the requested precision."
    )
    better: Literal["lower", "higher"]
    workload: str
    phase: str | None = Field(default=None, description="The instrument's phase that the metric measures.")
    margin: Finite = Field(description="A relative cost below this counts as none (0.05 is 5 %).")


class DistributionPoint(Model):
    value: Finite
    fraction: Finite = Field(description="Share of operations at or below `value`, 0 to 1.")


class Value(Model):
    """A metric on an arm: its mean over rounds or starts, and its distribution over all operations of all rounds."""

    metric: str
    arm: str
    mean: Estimate
    operations: int
    percentiles: dict[str, Finite] = Field(description="p50, p90, p99, p99.9, max.")
    distribution: list[DistributionPoint]
    round_trips: Finite | None = Field(default=None, description="Counted round trips of one operation.")
    bytes_sent: Finite | None = Field(default=None, description="Counted bytes of one operation.")
    bytes_received: Finite | None = Field(default=None, description="Counted bytes of one operation.")


#: Reports advise more rounds up to so many times the budget. Beyond that, reducing the noise is faster, since the time
#: needed grows with the square of the noise.
LONGEST_WAIT = 10


class Unresolved(Model):
    """Reasons why an effect is unresolved although the run has enough rounds for a verdict."""

    needed_seconds: Finite | None = Field(
        description=f"Estimated further time to resolve it; None beyond {LONGEST_WAIT} times the run's budget."
    )
    deviation_between_rounds: Finite | None = Field(
        description="Standard deviation of the relative effect between rounds, or starts; 0.05 is 5 %. None without a "
        "ratio."
    )
    smallest_detectable: Finite | None = Field(description="The smallest relative effect that this run could detect.")
    within_noise: bool = Field(description="The control replicate may differ from the control by as much.")


class Effect(Model):
    metric: str
    unit: str
    arm: str
    control_value: Finite
    value: Finite
    difference: Estimate = Field(description="Arm minus control, in `unit`.")
    ratio: Estimate | None = Field(description="Arm over control; None if the control does not have the phase (0).")
    typical_difference: Estimate = Field(
        description="The difference in a typical round: a trimmed mean with its interval."
    )
    verdict: Verdict
    rounds: int
    differences: list[Finite] = Field(description="The paired differences of rounds or starts, in order.")
    unresolved: Unresolved | None = Field(
        default=None, description="Why the verdict is unresolved; None for other verdicts and for too few rounds."
    )

    @property
    def needed_seconds(self) -> float | None:
        """Return the further measuring time that would resolve the effect; None if resolved or not affordable."""
        return self.unresolved.needed_seconds if self.unresolved else None

    @property
    def too_noisy(self) -> bool:
        """Return whether the effect is unresolved and no affordable number of rounds would resolve it."""
        return self.unresolved is not None and self.unresolved.needed_seconds is None


class NoiseFloor(Model):
    """The difference between control replicate and control: effects below it may be noise of the run."""

    metric: str
    context: str = ""
    difference: Estimate
    ratio: Estimate
    absolute: Finite = Field(
        description="The end of the difference's interval that is farther from 0, in the metric's unit."
    )
    relative: Finite = Field(description="By how much the larger of the two may exceed the smaller; 0.01 is 1 %.")
    differences: list[Finite] = Field(default=[], description="The replicate's paired differences, in order.")


class CarryOver(Model):
    """The effect of the previous slice on a headline metric: after another arm's slice against after the same arm's."""

    metric: str
    ratio: Estimate = Field(
        description="Value after another arm's slice over value after the same arm's; 1.4 is 40 % more."
    )


class BetweenStarts(Model):
    """Variation of a metric's effects between starts of the servers, beyond what their rounds explain."""

    metric: str
    share: Estimate = Field(description="Share of the variance of a start's mean that rounds do not explain, 0 to 1.")


class Cpu(Model):
    """CPU seconds per 1,000 operations of a workload on an arm, by role."""

    workload: str
    arm: str
    operations: int
    seconds_per_1000: dict[str, Finite]
    busiest: str | None = Field(description="The busiest role, if it used more than 80 % of one core.")
    throttled: dict[str, Finite] = Field(
        default={}, description="Share of the time, by role, in which it was stopped because its CPU quota was used up."
    )
    steal: Finite = Field(
        default=0.0, description="Share of the machine's CPU time that the hypervisor used for others."
    )


class ErrorCount(Model):
    arm: str
    workload: str
    error_class: str
    count: int
    detail: str = Field(description="The first error in words.")


class FailedOperations(Model):
    """Failed operations of a workload on an arm. Shares are of the operations begun."""

    workload: str
    arm: str
    failed: int
    begun: int
    excess: Finite | None = Field(
        default=None, description="Share that failed minus the control's share; None for a control."
    )
    excess_low: Finite | None = Field(default=None, description="Low end of the 95 % interval of `excess`.")
    excess_high: Finite | None = Field(default=None, description="High end of that interval.")

    @property
    def share(self) -> float:
        return self.failed / self.begun

    @property
    def fails_more(self) -> bool:
        return self.excess_low is not None and self.excess_low > 0


#: The share of a load that an arm must serve to carry it. Less than 1: the slice ends before the last clients do.
CARRIED = 0.95


class Carried(Model):
    """Load of an arm, offered and served, in connections or operations a second."""

    arm: str
    offered: Finite | None = Field(description="None if users come after a think time, not at a fixed rate.")
    served: Finite
    server_cores_needed: Finite | None = Field(
        default=None,
        description="Offered load times the servers' CPU time of an operation; None if that time is unknown.",
    )
    machine_busy: Finite | None = Field(
        default=None,
        description="Share of the measuring machine's CPU time in use during the arm's slices, 0 to 1; None if several "
        "hosts measured.",
    )

    @property
    def complete(self) -> bool:
        return self.offered is None or self.served >= CARRIED * self.offered


class MissingFigure(Model):
    """A metric that all or some slices of an arm lack, though other arms may have it."""

    metric: str
    arm: str
    missing_slices: int = Field(description="Slices without the figure.")
    total_slices: int
    reason: str = Field(description="The reason, as a clause of a sentence.")

    @property
    def entirely(self) -> bool:
        return self.missing_slices == self.total_slices


class Sentence(Model):
    """A sentence of the answer. `kind` decides its place and style; a `detail` is an answer outside the headline."""

    kind: Literal["answer", "detail", "explanation", "break_even", "warning", "next"]
    text: str


class HostStartSpread(Model):
    """Time between the first operations of several hosts in a slice, in milliseconds, over all slices."""

    slices: int
    median_ms: Finite
    p99_ms: Finite
    max_ms: Finite
    clock_error_ms: Finite = Field(description="Largest uncertainty of the hosts' clocks in any slice.")


class Core(Model):
    """The result of a run without the data of the report's sections."""

    schema_version: int = SCHEMA_VERSION
    study: str
    question: str
    profile: str
    run: str = Field(description="Name of the run's folder.")
    started: str = Field(description="ISO 8601, UTC.")
    measured_seconds: Finite
    rounds: int
    starts: list[int] = Field(
        default=[],
        description="Rounds of each start of the servers (--restarts). If not empty, intervals are over starts, and "
        "`rounds` of an estimate counts starts.",
    )
    partial: str | None = Field(default=None, description="Why the run is incomplete, in one line.")
    seed: int
    budget_seconds: Finite | None = Field(
        default=None, description="The longest time that the run was allowed to measure."
    )
    resolved_early: bool = Field(
        default=False,
        description="The run ended before its budget was spent, because every headline effect had a verdict.",
    )
    target_precision: Finite | None = None
    requested_rounds: int | None = Field(
        default=None, description="The fixed number of rounds of the run or of each start (--rounds)."
    )
    slice_shares: dict[str, Finite] = Field(
        default={}, description="Share of its planned length that each slice used, by the slice's name in the profile."
    )
    arms: list[Arm]
    workloads: dict[str, str] = Field(default={}, description="Labels of the workloads, by name.")
    distances: dict[str, Finite] = Field(
        default={}, description="Configured round-trip times in ms by context; empty without a distance."
    )
    metrics: list[Metric]
    values: list[Value]
    effects: list[Effect]
    noise_floor: list[NoiseFloor]
    between_starts: list[BetweenStarts] = Field(
        default=[], description="One for each headline metric of a run with --restarts."
    )
    carry_over: list[CarryOver] = Field(
        default=[], description="Headline metrics on which this run shows an effect of the previous slice."
    )
    published: Published | None = None
    links: list[LinkEvidence] = Field(default_factory=list)
    cpu: list[Cpu]
    errors: list[ErrorCount]
    failures: list[FailedOperations] = Field(
        default=[], description="One for each arm of every workload with failed operations."
    )
    missing: list[MissingFigure] = Field(default=[], description="Metrics that some arms or slices lack.")
    warnings: list[str]
    host_start_spread: HostStartSpread | None = Field(
        default=None, description="None unless several hosts measured at once."
    )
    environment: dict[str, Any]

    def published_for(self, metric: str, arm: Arm) -> list[PublishedFigure]:
        """Return the figures of the literature for this metric and arm, one for each series.

        A figure without a context fits arms of several contexts; it is returned for the first of them only.
        """
        of_metric = [each for each in (self.published.figures if self.published else []) if each.metric == metric]
        figures = []
        for figure in of_metric:
            first = next((each.context for each in self.arms if figure.fits(each.levels)), None)
            if figure.fits(arm.levels) and first == arm.context:
                figures.append(figure)
        return figures
