"""Models of the core result: arms with their evidence, values, effects, noise, CPU time and errors.

The analysis fills these models from the ledger. A section of a report reads only these models and the section's own
data. `report/result.py` combines the core result with the data of all sections.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from costof.lab.round_trips import LinkEvidence
from costof.model import Finite, Model
from costof.statistics.estimate import Estimate, Verdict
from costof.statistics.uneven import UnevenRounds
from costof.study.schema import Published, PublishedFigure

SCHEMA_VERSION = 5


class Factor(Model):
    name: str
    level: str


class Evidence(Model):
    """Facts about an arm, as text, that one view (`wire`, `app`, `command`, `server` or `service`) observed."""

    view: str
    facts: dict[str, str]
    slices: int = Field(description="Slices with this evidence.")
    discarded: int = Field(
        default=0, description="Slices left out of all figures, because their evidence did not match the arm."
    )


class Arm(Model):
    name: str
    label: str = Field(description="The arm's name in reports, such as 'TLS 1.3 (ecdsa-p256)'.")
    control: bool
    replicate: bool = Field(default=False, description="Whether the arm is the second, identical copy of the control.")
    control_arm: str | None = Field(
        default=None, description="The control that the arm is compared with; None for a control."
    )
    context: str = Field(
        default="",
        description="The context that the arm shares with its control, such as 'us-us'; '' if there is only one.",
    )
    context_in_words: str = Field(
        default="",
        description="The context in words, such as 'with a balancer of 0.5 cores'; if '', use 'at <context>'.",
    )
    place: str = Field(
        default="",
        description="The context in words, with the round-trip time of a distance that has a name: 'at us-us (44 ms "
        "away)'.",
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
    def with_control(self) -> list[str]:
        return [self.name, *([self.control_arm] if self.control_arm else [])]

    @property
    def protection(self) -> str:
        """Return the arm's name without its context. It is the same for one protection at every distance."""
        return self.name.removesuffix(f"@{self.context}") if self.context else self.name

    @property
    def at(self) -> str:
        """Return the context as words to append to a sentence, such as ' at us-us'; '' for an unnamed context."""
        if not self.context:
            return ""
        return f" {self.context_in_words or f'at {self.context}'}"

    @property
    def at_place(self) -> str:
        """Return the words of `at`, with the round-trip time of a named distance: ' at us-us (44 ms away)'."""
        return f" {self.place}" if self.context and self.place else self.at

    @property
    def where(self) -> str:
        """Return the context's name as in `at`, or else its description, such as ' with 3 nodes'; '' without both."""
        return self.at or f" {self.context_in_words}".rstrip()

    @property
    def place_in_words(self) -> str:
        """Return the context as words: 'at us-us (44 ms away)' for a distance, otherwise its levels: 'with 3 nodes'."""
        return self.at_place.strip() or self.context_in_words

    @property
    def label_at_place(self) -> str:
        return f"{self.label} {self.place_in_words}".rstrip()


class Metric(Model):
    name: str = Field(description="The name in the study, such as 'wire.tls'; the part before the dot is the view.")
    label: str
    description: str
    view: str
    unit: str = Field(description="'ms', 'us' or 'per_second'.")
    headline: bool = Field(
        description="Whether the metric answers the study's question: a run measures until the effects in headline "
        "metrics reach the requested precision."
    )
    better: Literal["lower", "higher"]
    workload: str
    phase: str | None = Field(default=None, description="The phase of an operation that the metric measures.")
    margin: Finite = Field(description="Relative costs below this count as no cost; 0.05 is 5 %.")


class DistributionPoint(Model):
    value: Finite
    fraction: Finite = Field(description="Share of operations at or below `value`, 0 to 1.")


class Value(Model):
    """A metric on an arm: its mean over rounds or starts, and its distribution over all operations of all rounds."""

    metric: str
    arm: str
    mean: Estimate
    operations: int
    percentiles: dict[str, Finite] = Field(description="By name: p50, p90, p99, p99.9 and max.")
    distribution: list[DistributionPoint]
    round_trips: Finite | None = Field(default=None, description="Counted round trips of one operation.")
    bytes_sent: Finite | None = Field(default=None, description="Counted bytes of one operation.")
    bytes_received: Finite | None = Field(default=None, description="Counted bytes of one operation.")


#: Reports advise to measure longer only up to this multiple of the budget. Beyond that, reducing the noise is faster,
#: because the needed time grows with the square of the noise.
LONGEST_WAIT = 10


class Unresolved(Model):
    """Reasons why an effect is unresolved although the run has enough rounds for a verdict."""

    needed_seconds: Finite | None = Field(
        description=f"Estimated further seconds to resolve the effect; None beyond {LONGEST_WAIT} times the budget."
    )
    deviation_between_rounds: Finite | None = Field(
        description="Standard deviation of the relative effect between rounds or starts; 0.05 is 5 %. None if the "
        "effect has no ratio."
    )
    smallest_detectable: Finite | None = Field(description="The smallest relative effect that this run could detect.")
    within_noise: bool = Field(description="Whether control and control replicate may differ by as much as the effect.")


class Effect(Model):
    metric: str
    unit: str
    arm: str
    control_value: Finite
    value: Finite
    difference: Estimate = Field(description="Arm minus control, in `unit`.")
    ratio: Estimate | None = Field(
        description="Arm divided by control; None if the control does not have the phase and so is 0."
    )
    ratio_disagrees: bool = Field(
        default=False,
        description="Whether `ratio`, the mean ratio of the rounds, differs clearly from the quotient of `value` and "
        "`control_value`, or only the interval of `difference` includes 0. Reports then print `ratio_of_means`.",
    )
    ratio_of_means: Estimate | None = Field(
        default=None,
        description="`value` divided by `control_value`, if `ratio_disagrees`; None if its interval has no end.",
    )
    uneven: UnevenRounds | None = Field(
        default=None, description="The rounds that dominate the mean difference; None if none do."
    )
    typical_difference: Estimate = Field(
        description="The difference in a typical round: a trimmed mean with its interval."
    )
    verdict: Verdict
    rounds: int
    differences: list[Finite] = Field(description="The difference of arm and control in each round or start, in order.")
    unresolved: Unresolved | None = Field(
        default=None, description="Why the effect is unresolved; None if it is resolved, or has too few rounds to tell."
    )

    @property
    def printed_ratio(self) -> Estimate | None:
        """Return the ratio to print beside the difference and the two means; None if there is none.

        It is `ratio`, or the ratio of the means if `ratio` contradicts the difference or the means (`ratio_disagrees`).
        """
        return self.ratio_of_means if self.ratio_disagrees else self.ratio

    @property
    def needed_seconds(self) -> float | None:
        """Return the further seconds that would resolve the effect; None if it is resolved or the time is too long."""
        return self.unresolved.needed_seconds if self.unresolved else None

    @property
    def too_noisy(self) -> bool:
        """Return whether the effect is unresolved and no affordable number of rounds would resolve it."""
        return self.unresolved is not None and self.unresolved.needed_seconds is None


class NoiseFloor(Model):
    """The difference between the control and its identical copy.

    An effect that is not larger than this difference may be noise of the run.
    """

    metric: str
    context: str = ""
    difference: Estimate
    ratio: Estimate
    absolute: Finite = Field(
        description="The end of the difference's interval that is farther from 0, in the metric's unit."
    )
    relative: Finite = Field(description="By how much the larger copy may exceed the smaller one; 0.01 is 1 %.")
    differences: list[Finite] = Field(
        default=[], description="The difference of replicate and control in each round, in order."
    )


class CarryOver(Model):
    """The effect of the previous slice (measured window) on one of the study's headline (most important) metrics.

    Slices that follow a slice of another arm are compared with slices that follow a slice of the same arm.
    """

    metric: str
    ratio: Estimate = Field(
        description="Value after another arm's slice divided by value after the same arm's; 1.4 is 40 % more."
    )


class BetweenStarts(Model):
    """How much a metric varies between starts of the servers, beyond the variation that is due to single rounds."""

    metric: str
    share: Estimate = Field(
        description="Share of the variance between the means of starts that rounds do not explain, 0 to 1."
    )


class Cpu(Model):
    """CPU seconds per 1,000 operations of a workload on an arm, by role."""

    workload: str
    arm: str
    operations: int
    seconds_per_1000: dict[str, Finite]
    busiest: str | None = Field(description="The busiest role, if it used more than 80 % of one core.")
    throttled: dict[str, Finite] = Field(
        default={}, description="By role, the share of the time for which it was stopped by its CPU quota, 0 to 1."
    )
    steal: Finite = Field(
        default=0.0, description="Share of the machine's CPU time that the hypervisor used for others."
    )


class ErrorCount(Model):
    arm: str
    workload: str
    error_class: str
    count: int
    detail: str = Field(description="Text of the first error.")


class FailedOperations(Model):
    """Failed operations of a workload on an arm. A share is the number that failed divided by the number begun."""

    workload: str
    arm: str
    failed: int
    begun: int
    excess: Finite | None = Field(
        default=None, description="Failed share of the arm minus that of its control; None for a control."
    )
    excess_low: Finite | None = Field(default=None, description="Low end of the 95 % interval of `excess`.")
    excess_high: Finite | None = Field(default=None, description="High end of the 95 % interval of `excess`.")

    @property
    def share(self) -> float:
        return self.failed / self.begun

    @property
    def fails_more(self) -> bool:
        """Return whether the arm fails more often than its control: the whole interval of the difference is above 0."""
        return self.excess_low is not None and self.excess_low > 0


#: An arm carries a load if it serves at least this share of the offered load. The share is below 1, because the last
#: clients of a slice have not finished when the slice ends.
CARRIED = 0.95
#: An arm does not carry its load if the load needs at least this share of the machine's cores, even if all arrivals
#: were served. With hardly any free CPU time, the queue for a CPU grows, and times depend on the length of the slice.
MOST_CORES_NEEDED = 0.95


class Carried(Model):
    """The load that an arm was offered and served, in connections or operations per second, and the cores needed."""

    arm: str
    offered: Finite | None = Field(description="None if users send requests after a think time, not at a fixed rate.")
    served: Finite
    server_cores_needed: Finite | None = Field(
        default=None,
        description="Cores that servers need for the offered load: load × their CPU time for one operation. None if "
        "this time is unknown.",
    )
    client_cores_needed: Finite | None = Field(
        default=None, description="Cores that the client (the load generator) needs for the offered load."
    )
    link_cores_needed: Finite | None = Field(
        default=None, description="Cores that the lab's simulated links need for the offered load; None without links."
    )
    machine_share_needed: Finite | None = Field(
        default=None,
        description="Share of the measuring machine's cores that the offered load needs: for the client, and for "
        "servers and simulated links on the same machine. More than 1 if the machine has too few cores; None if "
        "unknown.",
    )
    servers: str = Field(
        default="servers", description="The servers in words, such as 'server', or 'servers' if there are several."
    )
    machine_busy: Finite | None = Field(
        default=None,
        description="Share of the measuring machine's CPU time in use during the arm's slices, 0 to 1; None if several "
        "hosts measured.",
    )

    queue_grows: bool = Field(
        default=False,
        description="Whether latencies show that the queue grew during the slices, in a run with several loads.",
    )

    @property
    def complete(self) -> bool:
        """Return whether the arm carried its load."""
        return self.serves_all and not self.queue_grows and (self.machine_share_needed or 0.0) < MOST_CORES_NEEDED

    @property
    def serves_all(self) -> bool:
        """Return whether the arm served nearly all arrivals (`CARRIED`) within its slices.

        Return True if the load has no fixed rate.
        """
        return self.offered is None or self.served >= CARRIED * self.offered


class MissingFigure(Model):
    """A metric that is missing in all or some slices of an arm."""

    metric: str
    arm: str
    missing_slices: int = Field(description="Slices without the figure.")
    total_slices: int
    reason: str = Field(description="Why the figure is missing, as a clause of a sentence.")

    @property
    def entirely(self) -> bool:
        """Return whether all slices of the arm lack the figure."""
        return self.missing_slices == self.total_slices


class Sentence(Model):
    """A sentence of the answer. `kind` decides its place and style:

    - `detail`: below the main sentences.
    - `verdict`, `limits`, `why` and `mitigation`: only in the summary.
    - `leading_warning`: before everything else, because it changes what the figures mean.
    """

    kind: Literal[
        "answer",
        "detail",
        "explanation",
        "break_even",
        "warning",
        "next",
        "verdict",
        "leading_warning",
        "limits",
        "why",
        "room",
        "mitigation",
    ]
    text: str
    metric: str = Field(default="", description="The metric that a sentence of the kind 'why' explains; empty: all.")


class HostStartSpread(Model):
    """The time between the beginnings of a slice on the first and on the last host.

    In milliseconds: median, p99 and maximum over all slices.
    """

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
        description="Number of rounds after each start of the servers (--restarts). If not empty, intervals are "
        "computed over starts, and `rounds` of an estimate is a number of starts.",
    )
    partial: str | None = Field(default=None, description="Why the run is incomplete, in one line.")
    widening: Finite = Field(
        default=1.0,
        description="How many times as wide as after a planned end the intervals of effects and of the noise floor "
        "are, because the run may have been interrupted or continued because of its figures; 1 after a planned end. Of "
        "several effects, the largest number.",
    )
    continued: bool = Field(
        default=False, description="Whether the run was continued (--resume) after it was complete."
    )
    seed: int
    budget_seconds: Finite | None = Field(
        default=None,
        description="The maximum time that the run was allowed to measure; of a resumed run the last --budget.",
    )
    resumed_with_budget: bool = Field(
        default=False, description="Whether the run was resumed (--resume), with `budget_seconds` as its whole budget."
    )
    resumable_rounds: int = Field(
        default=0, description="How many more rounds --resume with a larger --budget can measure; 0 if it cannot."
    )
    hosts: str | None = Field(default=None, description="The cluster (--hosts) whose hosts measured.")
    resolved_early: bool = Field(
        default=False,
        description="Whether the run ended before its budget because every headline effect had a verdict.",
    )
    target_precision: Finite | None = None
    requested_rounds: int | None = Field(
        default=None,
        description="The fixed number of rounds (--rounds) of the run or, with --restarts, after each start.",
    )
    slice_shares: dict[str, Finite] = Field(
        default={},
        description="Measured length of slices divided by the planned one, by the slice's name in the profile.",
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
        default=[], description="One entry for each headline metric of a run with --restarts."
    )
    carry_over: list[CarryOver] = Field(
        default=[], description="Headline metrics in which the previous slice has an effect on a slice."
    )
    published: Published | None = None
    links: list[LinkEvidence] = Field(default_factory=list)
    cpu: list[Cpu]
    errors: list[ErrorCount]
    failures: list[FailedOperations] = Field(
        default=[], description="One entry for each arm of every workload with failed operations."
    )
    missing: list[MissingFigure] = Field(default=[], description="Metrics that some arms or slices lack.")
    warnings: list[str]
    lost_hosts: list[str] = Field(
        default=[], description="The warnings about hosts that failed during the run; `warnings` has them too."
    )
    host_start_spread: HostStartSpread | None = Field(
        default=None, description="None unless several hosts measured at once."
    )
    environment: dict[str, Any]
    command: str = Field(default="", description="The command that repeats the run with as many rounds.")

    def published_for(self, metric: str, arm: Arm) -> list[PublishedFigure]:
        """Return the figures from the literature for this metric and arm, one for each series in the publication.

        If a figure fits arms in several contexts (such as distances), it is returned only for arms in the first of
        these contexts.
        """
        of_metric = [each for each in (self.published.figures if self.published else []) if each.metric == metric]
        figures = []
        for figure in of_metric:
            first = next((each.context for each in self.arms if figure.fits(each.levels)), None)
            if figure.fits(arm.levels) and first == arm.context:
                figures.append(figure)
        return figures
