"""Events of a run in progress. Displays draw them, and `--json-lines` prints them as one JSON object a line.

`seconds` is the time since the run began, by a monotonic clock. Other times are in seconds too.
Figures have the unit of their metric. Every run ends with an `answer` or an `error`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from costof.model import Finite, Model
from costof.results.tally import Discarded
from costof.statistics.estimate import Estimate


class EventArm(Model):
    name: str
    label: str
    control: str | None = Field(description="Name of the arm that it is compared with; None for a control.")
    replicate: bool = Field(description="True for the identical copy of the control.")


class EventMetric(Model):
    name: str
    label: str
    view: str = Field(description="Where it is measured: 'wire', 'app' (a driver) or 'command'.")
    unit: str = Field(description="ms, us, per_second, or the unit that a command's figure has.")
    better: Literal["lower", "higher"]


class StartedEvent(Model):
    """The beginning of a run: what it will measure, and where its results are."""

    event: Literal["started"] = "started"
    seconds: Finite
    study: str
    title: str
    folder: str
    seed: int
    arms: list[EventArm]
    metrics: list[EventMetric] = Field(description="Only headline metrics, whose effects the events contain.")
    fewest_rounds: int
    most_rounds: int
    budget_seconds: Finite | None = Field(description="Maximum measuring time; None if the number of rounds is fixed.")
    precision: Finite | None = Field(description="The run ends when all headline ratios are known to within this.")
    starts: int = Field(description="How often the run starts the servers; each start has its own rounds.")
    resumed: bool


class StageEvent(Model):
    """The beginning of a stage, such as 'loading 10,000 records'."""

    event: Literal["stage"] = "stage"
    seconds: Finite
    text: str


class RunningEffect(Model):
    """The effect so far of an arm (a compared configuration) on a metric that answers the study's question.

    It has no verdict. Otherwise users could end the run as soon as they like the verdict, and verdicts would be wrong
    more often.
    """

    metric: str
    arm: str
    control_value: Finite
    value: Finite
    difference: Estimate
    ratio: Estimate | None = Field(description="Arm divided by control; None if the control is 0.")
    needed_seconds: Finite | None = Field(
        description="Estimated time until further measuring resolves the effect, 0 if no more is needed; None if it "
        "is unknown, or longer than ten times the run."
    )


class RoundEvent(Model):
    """The figures after a complete round (one measured window of each workload on each arm)."""

    event: Literal["round"] = "round"
    seconds: Finite
    start: int = Field(description="Number of this start of the servers; the first one is 1.")
    round: int = Field(description="Number of complete rounds in this start.")
    measuring_seconds: Finite = Field(description="Time of measuring in this start.")
    seconds_left: Finite = Field(description="Time until the run ends by its budget or its number of rounds.")
    may_end_earlier: bool = Field(description="True if verdicts or precision may end the run before.")
    verdict_seconds: Finite | None = Field(
        description="Estimated time until the run ends with a verdict on every headline effect; None if there will "
        "be none on some, or it is too early to say."
    )
    precision: Finite | None = Field(description="The least precisely known headline ratio is known to within this.")
    effects: list[RunningEffect] = Field(description="Empty before the second round, or start, of the run.")
    discarded: int = Field(description="Number of discarded rounds and slices.")
    last_discarded: Discarded | None


class WarningEvent(Model):
    event: Literal["warning"] = "warning"
    seconds: Finite
    text: str


class InterruptedEvent(Model):
    """The run was interrupted by Ctrl-C or SIGTERM. The run then stops its servers and reports what it has measured."""

    event: Literal["interrupted"] = "interrupted"
    seconds: Finite
    rounds: int = Field(description="Number of complete rounds, which are kept.")
    text: str


class LimitOutcome(Model):
    metric: str
    arm: str
    limit: str
    state: Literal["within", "exceeded", "undecided"]
    change: Estimate | None = Field(
        description="The measured change: for a limit in percent relative to the control (0.1 is 10 %), else in the "
        "metric's unit. None if it was not measured."
    )
    measured: str = Field(description="The change in words, or why there is none or no decision.")


class AnswerEvent(Model):
    """The last event of a run that did not fail: the answer."""

    event: Literal["answer"] = "answer"
    seconds: Finite
    verdict: str = Field(description="The answer in one sentence; '' if too little was measured for one.")
    sentences: list[str] = Field(description="The verdicts with their intervals, as at the head of the report.")
    warnings: list[str]
    partial: str | None = Field(description="Why the run is incomplete; None if it is complete.")
    rounds: int
    limits: list[LimitOutcome]
    report: str = Field(description="Path of the HTML report.")
    result: str = Field(description="Path of result.json, with all figures and verdicts.")
    exit_status: int


class ErrorEvent(Model):
    """The last event of a run that failed: the error."""

    event: Literal["error"] = "error"
    seconds: Finite
    text: str
    exit_status: int


Event = StartedEvent | StageEvent | RoundEvent | WarningEvent | InterruptedEvent | AnswerEvent | ErrorEvent
EVENT: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="event")])
