"""The answer of a run, as data: what `result.json` holds and what every report renders.

The models are the contract between the analysis, which fills them from the ledger, and the reports, which read
nothing else. Their JSON Schema is committed as `docs/result.schema.json` and checked against real output in the tests.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from costof.lab.round_trips import LinkEvidence
from costof.model import Finite, Model
from costof.statistics.estimate import Estimate, Verdict
from costof.study.published import Published, PublishedFigure

SCHEMA_VERSION = 1


class Factor(Model):
    name: str
    level: str


class Evidence(Model):
    """What one view (`wire`, `app`, `server`) saw of an arm; `facts` are name -> value as printed."""

    view: str
    facts: dict[str, str]
    slices: int = Field(description="Slices that carried this evidence.")
    thrown_out: int = Field(default=0, description="Slices whose evidence was not the arm's; in no figure.")


class Arm(Model):
    name: str
    label: str = Field(description="For people, such as 'TLS 1.3, ecdsa-p256'.")
    control: bool
    twin: bool = Field(default=False, description="The second copy of the control.")
    baseline: str | None = Field(default=None, description="The control it is compared with; None for a control.")
    context: str = Field(
        default="", description="The setting it shares with its control, such as 'us-us'; '' where the run has but one."
    )
    where: str = Field(
        default="",
        description="The context in words, such as 'with a balancer of 0.5 cores'; 'at <context>' where it is ''.",
    )
    factors: list[Factor]
    evidence: list[Evidence]
    error: str | None = Field(default=None, description="Why the arm has no figures, in one line.")

    @property
    def levels(self) -> dict[str, str]:
        """By factor."""
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
    margin: Finite = Field(description="A relative cost below this is none worth naming (0.05 is 5 %).")


class DistributionPoint(Model):
    value: Finite
    fraction: Finite = Field(description="Share of operations at or below `value`, 0 to 1.")


class Value(Model):
    """One metric of one arm: the mean over rounds, and the distribution over all operations of all rounds."""

    metric: str
    arm: str
    mean: Estimate
    operations: int
    percentiles: dict[str, Finite] = Field(description="p50, p90, p99, p99.9, max.")
    distribution: list[DistributionPoint]
    round_trips: Finite | None = Field(default=None, description="Counted, per operation.")
    bytes_sent: Finite | None = Field(default=None, description="Counted, per operation.")
    bytes_received: Finite | None = Field(default=None, description="Counted, per operation.")


#: No further rounds are advised beyond this: the time needed grows with the square of the noise, and less noise is had
#: sooner.
LONGEST_WAIT_SECONDS = 4 * 3600


class Effect(Model):
    metric: str
    unit: str
    arm: str
    control_value: Finite
    value: Finite
    difference: Estimate = Field(description="Arm minus control, in `unit`.")
    ratio: Estimate | None = Field(description="Arm over control; None where the control has no such phase (0).")
    verdict: Verdict
    rounds: int
    differences: list[Finite] = Field(description="The rounds' paired differences, in order.")
    needed_seconds: Finite | None = Field(
        default=None, description="Unresolved: measuring time it would still need, estimated."
    )

    @property
    def waits_for_rounds(self) -> bool:
        """Unresolved, but further rounds of a bearable time would resolve it."""
        return self.verdict is Verdict.UNRESOLVED and 0 < (self.needed_seconds or 0) <= LONGEST_WAIT_SECONDS

    @property
    def too_noisy(self) -> bool:
        """Unresolved, and by further rounds not in any time that somebody would wait."""
        return self.verdict is Verdict.UNRESOLVED and (self.needed_seconds or 0) > LONGEST_WAIT_SECONDS


class BreakEven(Model):
    """From how many operations a connection the arm costs less than `share` of the control's time."""

    view: str
    arm: str
    share: Finite
    operations: Finite | None = Field(description="Estimate; None: never, as measured.")
    low: Finite | None
    high: Finite | None = Field(description="None: the interval has no upper end in this run.")


class NoiseFloor(Model):
    """The twin against the control: a difference within it is the run's own noise."""

    metric: str
    context: str = ""
    difference: Estimate
    ratio: Estimate
    absolute: Finite = Field(description="The larger end of the difference's interval, in the metric's unit.")
    relative: Finite = Field(description="The same of the ratio; 0.01 is 1 %.")
    differences: list[Finite] = Field(default=[], description="The rounds' paired differences of the twin, in order.")


class Cpu(Model):
    """CPU seconds per 1,000 operations of a workload on an arm, by role."""

    workload: str
    arm: str
    operations: int
    seconds_per_1000: dict[str, Finite]
    busiest: str | None = Field(description="The role that used most of one core, where any was near it.")
    held_back: dict[str, Finite] = Field(
        default={},
        description="Share of the time in which a role wanted to run and its CPU share was used up.",
    )
    steal: Finite = Field(default=0.0, description="Share of the machine's time that the hypervisor took meanwhile.")


class OperationCost(Model):
    """What one operation of an arm takes by itself: the cost model's parameters, from the arm's local rounds.

    Time of an operation = own time + round trips x round-trip time (+ bytes / bandwidth).
    """

    protection: str = Field(description="The arm's name without its context: the same protection at any distance.")
    label: str
    control: bool
    operation: Literal["connection", "operation"]
    metric: str
    own_ms: Estimate
    round_trips: Finite = Field(description="Over the link, for each operation; counted.")
    bytes: Finite = Field(description="Both directions, for each operation; counted.")
    cpu_ms: dict[str, Finite] = Field(description="CPU time for each operation, by role.")


class ExtraCost(Model):
    """What a protection adds to one operation, with its uncertainty: what the calculator multiplies."""

    protection: str
    label: str
    operation: Literal["connection", "operation"]
    own_ms: Estimate
    round_trips: Finite
    bytes: Finite
    cpu_ms: Estimate = Field(description="CPU time of all roles together.")


class Prediction(Model):
    """The cost model's answer for a distance, beside what was measured there."""

    arm: str
    metric: str
    unit: str
    round_trip_ms: Finite
    predicted: Estimate
    measured: Estimate | None = None
    error: Finite | None = Field(default=None, description="Predicted over measured, minus 1; 0.01 is 1 %.")
    local: bool = Field(default=False, description="The model's parameters come from this very arm.")


class CostModel(Model):
    """Time and CPU of an operation as a function of the distance, and how well it predicts what was measured."""

    operations: list[OperationCost]
    extras: list[ExtraCost]
    predictions: list[Prediction]
    distances: dict[str, Finite] = Field(description="Round-trip times the run measured at, ms, by context.")


class Cure(Model):
    """What one change gives back of what the protection costs, in the study's metric; both ends of the same run."""

    factor: str
    level: str
    label: str
    arm: str
    reference: str = Field(description="The protected arm without the cure.")
    control: str = Field(description="The reference's control.")
    metric: str
    gain: Estimate = Field(description="The cured arm over the reference, as a ratio, paired by round.")
    given_back: Estimate | None = Field(
        description="Share of the reference's loss against its control that is won back; 1 is all of it. None where "
        "that loss is not resolved: a share of it would be a share of nothing."
    )
    verdict: Verdict = Field(
        description="saves: it gives something back; costs: it takes more; no cost above the margin: to go without it "
        "costs nothing above the margin."
    )


class SplitPart(Model):
    """One part of an operation's cost, such as the CPU time of a role, and what a step adds to it, in `unit`."""

    metric: str
    label: str
    unit: str
    before: Finite = Field(description="Mean over the rounds, before the step.")
    added: Estimate
    share: Estimate | None = Field(
        description="Of what the step adds in all, 1 is all of it. None where that is not resolved, or no part of it."
    )


class SplitStep(Model):
    """What one step along a chain of roles costs, and where: paired by round."""

    start: str = Field(description="The arm before it.")
    end: str = Field(description="The arm after it.")
    label: str = Field(description="What the step is, in words.")
    what: str = Field(description="What its parts are of, in words.")
    context: str
    metric: str
    ratio: Estimate = Field(description="The metric after the step over before it.")
    total: Estimate = Field(description="What all parts add together, in their unit.")
    parts: list[SplitPart]
    beside: list[SplitPart] = Field(description="Told with them, and no part of the total.")


class CoresFor(Model):
    """A burst of `clients` new clients within `seconds`, and the cores it takes."""

    clients: int
    seconds: Finite
    cores: Estimate


class BurstCheck(Model):
    """The sizing's answer for a burst that was measured, beside it."""

    arm: str
    clients: int
    cores: Finite
    predicted_seconds: Estimate = Field(
        description="The control's burst on as many cores + clients x the CPU time that the protection adds / cores."
    )
    measured_seconds: Estimate


class Sizing(Model):
    """New clients a second that a core of the role takes, so the cores that a burst of them needs."""

    role: str
    arm: str
    label: str
    cpu_ms: Estimate = Field(description="CPU time of the role for one new client.")
    added_cpu_ms: Estimate | None = Field(default=None, description="What of it the control does not take.")
    clients_per_core_second: Estimate
    examples: list[CoresFor]
    checks: list[BurstCheck] = Field(default_factory=list)


class AbTimes(Model):
    """A line of ab's connection times, milliseconds."""

    min: Finite
    mean: Finite
    sd: Finite
    median: Finite
    max: Finite


class AbFigures(Model):
    """What ab tells of an arm, counted as ab counts: over all requests, a reused connection as a connect of 0.

    Point figures of all slices together; what a protection costs is in the effects, which have intervals.
    """

    arm: str
    workload: str
    concurrency: int
    seconds: Finite
    complete: int = Field(description="Requests that were answered.")
    failed: dict[str, int] = Field(description="By ab's words: connect, receive, length, exceptions.")
    not_2xx: int
    keep_alive: int = Field(description="Requests after which the connection stood.")
    transferred_bytes: int = Field(description="Headers and bodies, as they are inside TLS.")
    html_bytes: int = Field(description="Bodies alone.")
    document_bytes: int | None = Field(description="Body of the first response.")
    requests_per_second: Finite
    ms_per_request: Finite = Field(description="Of one worker.")
    ms_across_all: Finite = Field(description="Across all concurrent requests.")
    kbytes_per_second: Finite
    times: dict[str, AbTimes] = Field(description="connect, processing, waiting and total.")
    percentiles: dict[str, Finite] = Field(description="Total time in ms within which so many percent were served.")


class Tree(Model):
    """Who followed whom in slices of an arm, read from every member before and after each of them."""

    arm: str
    followers: dict[str, list[str]] = Field(description="Members by the one they follow; the primary comes first.")
    slices: int
    thrown_out: int = Field(default=0, description="Slices of the arm whose tree was not its own; in no figure.")
    same_as: list[str] = Field(
        default=[], description="Arms of the same setting that had this very tree in all their slices, as this one had."
    )


class ErrorCount(Model):
    arm: str
    workload: str
    error_class: str
    count: int
    detail: str = Field(description="The first one, in words.")


class Cell(Model):
    """A table's cell: text for people, and the number it shows where it shows one."""

    text: str
    estimate: Estimate | None = None


class Table(Model):
    name: str
    title: str
    columns: list[str]
    rows: list[list[Cell]]
    note: str | None = None


class Sentence(Model):
    """One statement of the answer. `kind` lets a report style it; a `detail` is an answer that is no headline."""

    kind: Literal["answer", "detail", "explanation", "break_even", "caution", "next"]
    text: str


class Result(Model):
    schema_version: int = SCHEMA_VERSION
    study: str
    question: str
    profile: str
    run: str = Field(description="Name of the run's folder.")
    started: str = Field(description="ISO 8601, UTC.")
    measured_seconds: Finite
    rounds: int
    partial: str | None = Field(default=None, description="Why the run did not end by itself, in one line.")
    seed: int
    precision_asked: Finite | None = None
    rounds_asked: int | None = Field(default=None, description="The run was to take exactly so many (--rounds).")
    answer: list[Sentence]
    arms: list[Arm]
    metrics: list[Metric]
    values: list[Value]
    effects: list[Effect]
    tables: list[Table]
    break_even: list[BreakEven]
    cost_model: CostModel | None = None
    links: list[LinkEvidence] = Field(default_factory=list)
    cures: list[Cure] = Field(default_factory=list)
    sizing: list[Sizing] = Field(default_factory=list)
    trees: list[Tree] = Field(default_factory=list)
    split: list[SplitStep] = Field(default_factory=list)
    ab: list[AbFigures] = Field(default_factory=list)
    published: Published | None = None
    noise_floor: list[NoiseFloor]
    cpu: list[Cpu]
    errors: list[ErrorCount]
    warnings: list[str]
    environment: dict[str, Any]

    def published_for(self, metric: str, arm: Arm) -> list[PublishedFigure]:
        """The figures of the literature for this metric and arm, one for each series.

        A figure that says nothing of the contexts fits arms in several of them; it is shown once, in the first.
        """
        of_metric = [each for each in (self.published.figures if self.published else []) if each.metric == metric]
        return [
            figure for figure in of_metric if figure.fits(arm.levels) and self._first_that_fits(figure) == arm.context
        ]

    def _first_that_fits(self, figure: PublishedFigure) -> str | None:
        return next((arm.context for arm in self.arms if figure.fits(arm.levels)), None)


if __name__ == "__main__":
    import json
    import sys

    json.dump(Result.model_json_schema(), sys.stdout, indent=2)
    sys.stdout.write("\n")
