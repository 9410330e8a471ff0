"""What every section of a report reads of a run: arms with their evidence, values, effects, noise, CPU, errors.

The models are the contract between the analysis, which fills them from the ledger, and the sections, which read nothing
else but their own data. `report/result.py` puts both together.
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
    """What one view (`wire`, `app`, `server`) saw of an arm; `facts` are name -> value as printed."""

    view: str
    facts: dict[str, str]
    slices: int = Field(description="Slices that carried this evidence.")
    discarded: int = Field(default=0, description="Slices whose evidence was not the arm's; in no figure.")


class Arm(Model):
    name: str
    label: str = Field(description="For people, such as 'TLS 1.3, ecdsa-p256'.")
    control: bool
    replicate: bool = Field(default=False, description="The second copy of the control.")
    baseline: str | None = Field(default=None, description="The control it is compared with; None for a control.")
    context: str = Field(
        default="", description="The setting it shares with its control, such as 'us-us'; '' where the run has but one."
    )
    where: str = Field(
        default="",
        description="The context in words, such as 'with a balancer of 0.5 cores'; 'at <context>' where it is ''.",
    )
    factors: list[Factor]
    same_set_up: list[str] = Field(
        default=[],
        description="Arms of its setting whose servers were set up in all slices as this one's were: no difference.",
    )
    evidence: list[Evidence]
    error: str | None = Field(default=None, description="Why the arm has no figures, in one line.")

    @property
    def levels(self) -> dict[str, str]:
        return {factor.name: factor.level for factor in self.factors}

    @property
    def protection(self) -> str:
        """The arm's name without its context: the same at any distance."""
        return self.name.removesuffix(f"@{self.context}") if self.context else self.name

    @property
    def at(self) -> str:
        """' at us-us', ' with keep-alive, …' within a sentence; '' in the run's only, or first unnamed, context."""
        if not self.context:
            return ""
        return f" {self.where or f'at {self.context}'}"


class Metric(Model):
    name: str = Field(description="Such as 'wire.tls'; the part before the dot is the view.")
    label: str
    description: str
    view: str
    unit: str = Field(description="'ms', 'us' or 'per_second'.")
    headline: bool = Field(description="The run goes on until its effects are as precise as asked.")
    better: Literal["lower", "higher"]
    workload: str
    phase: str | None = Field(default=None, description="The instrument's phase, where the metric is one.")
    margin: Finite = Field(description="A relative cost below this counts as none (0.05 is 5 %).")


class DistributionPoint(Model):
    value: Finite
    fraction: Finite = Field(description="Share of operations at or below `value`, 0 to 1.")


class Value(Model):
    """One metric of one arm: the mean over rounds or starts, and the distribution over all operations of all rounds."""

    metric: str
    arm: str
    mean: Estimate
    operations: int
    percentiles: dict[str, Finite] = Field(description="p50, p90, p99, p99.9, max.")
    distribution: list[DistributionPoint]
    round_trips: Finite | None = Field(default=None, description="Counted, per operation.")
    bytes_sent: Finite | None = Field(default=None, description="Counted, per operation.")
    bytes_received: Finite | None = Field(default=None, description="Counted, per operation.")


#: No further rounds are advised beyond so many times the budget: the time needed grows with the square of the noise,
#: and less noise is had sooner.
LONGEST_WAIT = 10


class Open(Model):
    """What keeps an effect unresolved, of a run that has rounds enough to judge."""

    needed_seconds: Finite | None = Field(
        description=f"Measuring time it would still need, estimated; None beyond {LONGEST_WAIT} times the run's budget."
    )
    between_rounds: Finite | None = Field(
        description="Standard deviation of the relative effect between rounds, or starts; 0.05 is 5 %. None without a "
        "ratio."
    )
    smallest: Finite | None = Field(description="The smallest relative effect that this run would have seen.")
    within_noise: bool = Field(description="The control's replicate may differ from it by as much.")


class Effect(Model):
    metric: str
    unit: str
    arm: str
    control_value: Finite
    value: Finite
    difference: Estimate = Field(description="Arm minus control, in `unit`.")
    ratio: Estimate | None = Field(description="Arm over control; None where the control has no such phase (0).")
    usual: Estimate = Field(description="The difference in a usual round: a trimmed mean, with its interval.")
    verdict: Verdict
    rounds: int
    differences: list[Finite] = Field(description="The paired differences of rounds or starts, in order.")
    open: Open | None = Field(default=None, description="Why it is unresolved; None where it is not, or of few rounds.")

    @property
    def needed_seconds(self) -> float | None:
        """Unresolved, but further rounds of a bearable time would resolve it."""
        return self.open.needed_seconds if self.open else None

    @property
    def too_noisy(self) -> bool:
        """Unresolved, and no affordable number of rounds would resolve it."""
        return self.open is not None and self.open.needed_seconds is None


class NoiseFloor(Model):
    """The replicate against the control: a difference within it is the run's own noise."""

    metric: str
    context: str = ""
    difference: Estimate
    ratio: Estimate
    absolute: Finite = Field(description="The larger end of the difference's interval, in the metric's unit.")
    relative: Finite = Field(description="How much more the larger may be than the smaller; 0.01 is 1 %.")
    differences: list[Finite] = Field(default=[], description="The replicate's paired differences, in order.")


class CarryOver(Model):
    """How a headline metric differs in slices after another arm's slice from those after one of their own arm."""

    metric: str
    ratio: Estimate = Field(description="After another arm over after its own; 1.4 is 40 % more.")


class BetweenStarts(Model):
    """How far starts of the servers differ beyond what their rounds explain, in what arms change in a metric."""

    metric: str
    share: Estimate = Field(description="Of the variance of a start's mean, what is the start's own: 0 to 1.")


class Cpu(Model):
    """CPU seconds per 1,000 operations of a workload on an arm, by role."""

    workload: str
    arm: str
    operations: int
    seconds_per_1000: dict[str, Finite]
    busiest: str | None = Field(description="The role that used most of one core, where any was near it.")
    throttled: dict[str, Finite] = Field(
        default={}, description="Share of the time in which a role wanted to run and its CPU share was used up."
    )
    steal: Finite = Field(default=0.0, description="Share of the machine's time that the hypervisor took meanwhile.")


class ErrorCount(Model):
    arm: str
    workload: str
    error_class: str
    count: int
    detail: str = Field(description="The first one, in words.")


class Failing(Model):
    """Operations of a workload on an arm; shares are of all that were begun."""

    workload: str
    arm: str
    failed: int
    of: int
    more: Finite | None = Field(default=None, description="Share that failed, less the control's. None for a control.")
    more_low: Finite | None = Field(default=None, description="Its 95 % interval.")
    more_high: Finite | None = None

    @property
    def share(self) -> float:
        return self.failed / self.of

    @property
    def fails_more(self) -> bool:
        return self.more_low is not None and self.more_low > 0


#: The share of a load that an arm must serve: some of the last clients have no time to end in their slice.
CARRIED = 0.95


class Carried(Model):
    """Connections or operations a second that were to come, and that were served."""

    arm: str
    offered: Finite | None = Field(description="None where users come as often as they have thought.")
    served: Finite
    server_cores_needed: Finite | None = Field(
        default=None, description="By the servers' CPU time of an operation; None where it is not known."
    )
    machine_busy: Finite | None = Field(
        default=None,
        description="Share of the CPU time of the machine that measured, which was in use during the arm's slices, 0 "
        "to 1; None where several hosts measured.",
    )

    @property
    def complete(self) -> bool:
        return self.offered is None or self.served >= CARRIED * self.offered


class Missing(Model):
    """A figure that an arm lacks, or some of its slices, though other arms may have it."""

    metric: str
    arm: str
    slices: int = Field(description="Slices without it.")
    of: int
    reason: str = Field(description="Why, as a clause.")

    @property
    def wholly(self) -> bool:
        return self.slices == self.of


class Sentence(Model):
    """One statement of the answer. `kind` lets a report style it; a `detail` is an answer that is no headline."""

    kind: Literal["answer", "detail", "explanation", "break_even", "warning", "next"]
    text: str


class StartingTogether(Model):
    """How far apart the first operations of several hosts began, by slices, in milliseconds."""

    slices: int
    median_ms: Finite
    p99_ms: Finite
    most_ms: Finite
    clocks_ms: Finite = Field(description="What the hosts' clocks were known to within, in the worst slice.")


class Core(Model):
    """What is known of a run, whatever sections its study asks for."""

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
        description="Rounds of each start of the servers, where these were started anew (--restarts). Starts are what "
        "all intervals are over then, and what `rounds` of an estimate counts.",
    )
    partial: str | None = Field(default=None, description="Why the run did not end by itself, in one line.")
    seed: int
    budget_seconds: Finite | None = Field(default=None, description="The most that it was to measure.")
    resolved_early: bool = Field(
        default=False, description="It ended before its budget was spent: every headline effect had a verdict."
    )
    target_precision: Finite | None = None
    requested_rounds: int | None = Field(
        default=None, description="The run, or each start of it, was to take exactly so many (--rounds)."
    )
    slice_shares: dict[str, Finite] = Field(
        default={}, description="How much of its planned length was enough for a slice, by its name in the profile."
    )
    arms: list[Arm]
    workloads: dict[str, str] = Field(default={}, description="Labels of the workloads, by name.")
    distances: dict[str, Finite] = Field(
        default={}, description="Round-trip times that were asked for, ms, by context; empty without a distance."
    )
    metrics: list[Metric]
    values: list[Value]
    effects: list[Effect]
    noise_floor: list[NoiseFloor]
    between_starts: list[BetweenStarts] = Field(default=[], description="By headline metric, of a run with --restarts.")
    carry_over: list[CarryOver] = Field(
        default=[], description="Headline metrics in which the order of slices matters, by the run's own data."
    )
    published: Published | None = None
    links: list[LinkEvidence] = Field(default_factory=list)
    cpu: list[Cpu]
    errors: list[ErrorCount]
    failures: list[Failing] = Field(default=[], description="Of every workload in which any operation failed.")
    missing: list[Missing] = Field(default=[], description="Figures of commands that some arms or slices lack.")
    warnings: list[str]
    starting_together: StartingTogether | None = Field(default=None, description="Of a run from several hosts.")
    environment: dict[str, Any]

    def published_for(self, metric: str, arm: Arm) -> list[PublishedFigure]:
        """The figures of the literature for this metric and arm, one for each series.

        A figure that says nothing of the contexts fits arms in several of them; it is shown once, in the first.
        """
        of_metric = [each for each in (self.published.figures if self.published else []) if each.metric == metric]
        found = []
        for figure in of_metric:
            first = next((each.context for each in self.arms if figure.fits(each.levels)), None)
            if figure.fits(arm.levels) and first == arm.context:
                found.append(figure)
        return found
