"""A run as read from its ledger: its slices, the samples computed from them, and how it ended."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from statistics import fmean

from costof.lab.flushes import FlushEvidence
from costof.lab.round_trips import LinkEvidence
from costof.messages.answers import sums_by_name
from costof.results.capacity import add_capacities, observation
from costof.results.changes import Changes, every_change
from costof.results.disturbances import NO_DISTURBANCES, Disturbances, disturbances
from costof.results.ledger import (
    INTERRUPTED,
    AnyRecord,
    EndRecord,
    EnvironmentRecord,
    EvidenceRecord,
    FlushRecord,
    Ledger,
    LinksRecord,
    LookRecord,
    LostRecord,
    MemoryRecord,
    ReadyRecord,
    SizesRecord,
    SliceRecord,
    WarningRecord,
)
from costof.results.metrics import ByRound, Samples, add_samples
from costof.statistics.any_end import widening, widening_to
from costof.statistics.intervals import ROUNDS_FOR_INTERVAL, log_ratios
from costof.statistics.units import Units
from costof.statistics.verdicts import ERROR_RATE
from costof.study.arms import PlannedArm
from costof.study.options import MOST_ROUNDS
from costof.study.plan import Plan
from costof.study.schema import SliceSize
from costof.study.sweep import CAPACITY

UNFINISHED = "the process was killed, or is still running"


@dataclass
class Run:
    """Everything that a ledger holds about a run. All figures of the result are computed from it.

    If the run was resumed, `plan` has the budget of the last command that resumed it.
    """

    plan: Plan
    resumed_with_budget: bool = False
    sizes: dict[str, SliceSize] | None = None
    samples: Samples = field(default_factory=Samples)
    slices: list[SliceRecord] = field(default_factory=list)
    ready: list[ReadyRecord] = field(default_factory=list)
    environment: EnvironmentRecord | None = None
    warnings: list[str] = field(default_factory=list)
    service_evidence: dict[str, dict[str, str]] = field(default_factory=dict)
    links_by_start: dict[int, list[LinkEvidence]] = field(default_factory=dict)
    flushes: list[FlushEvidence] = field(default_factory=list)
    loss_reason: str | None = None
    lost_arms: dict[str, str] = field(default_factory=dict)
    lost_hosts: list[LostRecord] = field(default_factory=list)
    end: EndRecord | None = None
    ends: list[EndRecord] = field(default_factory=list)
    looks: list[LookRecord] = field(default_factory=list)
    error_rate_spent: float = 0.0
    memory: list[MemoryRecord] = field(default_factory=list)
    disturbances: Disturbances = NO_DISTURBANCES
    dropped: dict[str, list[str]] = field(default_factory=dict)
    """By arm, the metrics that are left out of all figures because the arm could not carry the load."""

    @cached_property
    def _slices_by_arm(self) -> dict[str, list[SliceRecord]]:
        by_arm: dict[str, list[SliceRecord]] = {}
        for record in self.slices:
            by_arm.setdefault(record.answer.arm, []).append(record)
        return by_arm

    def all_slices(self, arm: str) -> list[SliceRecord]:
        """Return every slice of the arm, including warm-up and discarded slices."""
        return self._slices_by_arm.get(arm, [])

    @cached_property
    def counted(self) -> list[SliceRecord]:
        return [record for record in self.slices if self.counts(record)]

    def counts(self, record: SliceRecord) -> bool:
        return not record.warm_up and record.mismatch is None and record.round not in self.disturbances.discarded

    @cached_property
    def _counted_by_key(self) -> dict[tuple[str, str], list[SliceRecord]]:
        by_key: dict[tuple[str, str], list[SliceRecord]] = {}
        for record in self.counted:
            by_key.setdefault((record.workload, record.key.owner), []).append(record)
        return by_key

    def counted_slices(self, workload: str, arm: str) -> list[SliceRecord]:
        return self._counted_by_key.get((workload, arm), [])

    def drop(self, metric: str, arm: str) -> None:
        """Remove an arm's numbers of a metric, so that no figure uses them."""
        self.samples.drop(metric, arm)
        self.dropped.setdefault(arm, []).append(metric)

    def histograms(self, metric: str, arm: str) -> dict[int, list[str]]:
        """Return the encoded histograms of the metric's phase (a timed part of an operation) on an arm, by round."""
        if metric in self.dropped.get(arm, []):
            return {}
        definition = self.plan.study.metrics[metric]
        by_round: dict[int, list[str]] = {}
        for record in self.counted_slices(definition.workload, arm):
            if (phase := record.answer.phases.get(definition.phase)) is not None:
                by_round.setdefault(record.round, []).append(phase.histogram)
        return by_round

    def refusal_reason(self, arm: PlannedArm) -> str | None:
        """Return why an instrument (a measuring process) refused the arm before the first slice; None if none did."""
        # Ignore refusals in optional views, such as the application's: the arm still has figures in the other views.
        optional = {"app", "command"} if self.plan.client else {"app"}
        for record in self.ready:
            for ready in record.ready.arms:
                if record.view not in optional and ready.name == arm.name and ready.error is not None:
                    return ready.error.detail
        return None

    def tls_library(self, arm: PlannedArm | None = None) -> str:
        """Return the TLS libraries of the engine (costof's own client), such as 'OpenSSL 3.0.19'.

        These are the libraries used for `arm`, or for any arm if `arm` is None.
        """
        libraries = [
            record.ready.tls_library
            for record in self.ready
            if record.view == "wire" and (arm is None or arm.name in {ready.name for ready in record.ready.arms})
        ]
        return ", ".join(dict.fromkeys(libraries))

    def has_enough_rounds(self, metric: str, arm: PlannedArm) -> bool:
        return len(self.samples.means(metric, arm.name)) >= ROUNDS_FOR_INTERVAL

    def pairs(self, metric: str, arm: PlannedArm) -> tuple[list[float], list[float]] | None:
        return self.samples.comparable_pairs(self.plan, metric, arm)

    def log_ratios_by_round(self, metric: str, arm: PlannedArm) -> ByRound:
        """Return the log ratio of arm to control for each round; empty if a number is 0 or the metric is missing."""
        control, values = self.samples.paired_rounds(metric, arm.control_arm or "", arm.name)
        logs = log_ratios([*control.values()], [*values.values()])
        return {} if logs is None else dict(zip(control, logs, strict=True))

    @cached_property
    def changes(self) -> Changes:
        """Return how each arm differs from its control, with the standard errors of the report's intervals.

        The standard errors are those of `planned_changes`, except in two cases, in which they are larger:

        - Someone may have ended the run because of its figures. The intervals must be valid for any time of ending
          (`statistics/any_end.py`).
        - The run was continued after its planned end. Its verdicts then have a lower error rate, such as 2.5 % instead
          of 5 %, and the intervals get the same error rate.
        """
        if self.end_was_chosen:
            return every_change(self.plan, self.samples, widen=widening)
        if self.continued:
            return every_change(self.plan, self.samples, widen=partial(widening_to, 1 - self.error_rate))
        return self.planned_changes

    @cached_property
    def planned_changes(self) -> Changes:
        """Return how each arm differs from its control.

        The standard errors are those for a run that ends as planned, even if this run did not.
        """
        return every_change(self.plan, self.samples)

    @property
    def judged_changes(self) -> Changes:
        """Return how each arm differs from its control, with the standard errors from which verdicts are computed.

        If someone may have ended the run because of its figures, the standard errors are the larger ones of `changes`.
        Otherwise, they are those of `planned_changes`. This includes a run that was continued after its planned end,
        because its verdicts have a lower error rate (`error_rate`) instead.
        """
        return self.changes if self.end_was_chosen else self.planned_changes

    def common_values(self, *pairs: tuple[str, str], fewest: int) -> list[list[float]] | None:
        """Return the values of each (metric, arm) in `pairs`, over the rounds in which all of them have a number.

        There is one value for each round or, if the run restarted its servers, for each start of the servers. Return
        None if there are fewer than `fewest` values.
        """
        values = self.samples.common_values(*pairs)
        return values if len(values[0]) >= fewest else None

    @property
    def starts(self) -> list[int]:
        """Return the number of rounds after each start of the servers; [] if the plan starts the servers only once."""
        return list(Counter(self.samples.units.starts.values()).values())

    @property
    def units(self) -> int:
        return len(self.starts) or self.rounds

    @property
    def links(self) -> list[LinkEvidence]:
        return next(reversed(self.links_by_start.values()), [])

    @property
    def rounds(self) -> int:
        return len({record.round for record in self.slices if not record.warm_up})

    @property
    def whole_rounds(self) -> int:
        """Return how many rounds a resumed run need not repeat. The last round may be incomplete and is not counted."""
        return max((record.round for record in self.slices), default=0) if self.rounds else 0

    @property
    def whole_starts(self) -> int:
        """Return how many starts of the servers were measured completely. A resumed run need not repeat them."""
        return sum(end.partial is None for end in self.ends)

    @property
    def measured_seconds(self) -> float:
        return sum(record.answer.elapsed_ns for record in self.slices if not record.warm_up) / 1e9

    @property
    def error_rate(self) -> float:
        """Return the permitted rate of wrong verdicts among the final verdicts.

        It is 5 % minus the rates that analyses during the run (looks, `run/schedule.py`) have used up.
        """
        return self.end.error_rate if self.end else ERROR_RATE - self.error_rate_spent

    @property
    def resolved_early(self) -> bool:
        """Return whether an analysis during the run (a look) ended it, because every headline effect had a verdict.

        The ledger does not record why a run ended. A look counts as the reason if it follows the last round and has the
        same error rate as the final verdicts. By chance, this may also be true of a complete run that was resumed.
        """
        if self.end is None or self.end.partial is not None or not self.looks:
            return False
        last, last_round = self.looks[-1], max((record.round for record in self.slices), default=None)
        return (last.round, last.error_rate) == (last_round, self.end.error_rate)

    @property
    def resumable_rounds(self) -> int:
        """Return how many more rounds the run can measure with `--resume` and a larger budget."""
        plan = self.plan
        can_resume = plan.budget_seconds is not None and plan.starts == 1 and not plan.has_fixed_rounds
        return max(0, MOST_ROUNDS - self.rounds) if can_resume else 0

    @property
    def error_rate_if_resumed(self) -> float:
        """Return the permitted rate of wrong verdicts among the final verdicts if the run is resumed.

        The looks (analyses during the run) have used up a part of the 5 %. If the run is incomplete, the final verdicts
        get the rest. If the run is complete, its verdicts have already had the rest, and new verdicts get half of the
        rest again. So the wrong verdicts of all continuations together stay below twice the permitted rate.
        """
        left = ERROR_RATE - self.error_rate_spent
        return left / 2 if self.partial is None else left

    @property
    def steal_share(self) -> float | None:
        """Return the share of time that the hypervisor gave to other machines; None if the run has no recorded end."""
        ends = self.ends if self.starts else self.ends[-1:]
        return fmean(end.steal_share for end in ends) if self.end else None

    @property
    def cores(self) -> int:
        return int(self.environment.facts.get("cores", 1)) if self.environment else 1

    @property
    def hosts(self) -> int | None:
        """Return the number of hosts at the start of the run; None if this machine measured."""
        return len(self.environment.facts["hosts"]) if self.plan.hosts and self.environment else None

    @property
    def end_was_chosen(self) -> bool:
        """Return whether someone may have ended the run, or read its results early, because of the figures.

        This is true after Ctrl-C and if the run has not ended. It is false if servers failed, because their failure
        does not depend on the figures.
        """
        return self.partial in (INTERRUPTED, UNFINISHED)

    @property
    def continued(self) -> bool:
        """Return whether the run was continued (--resume) after it was complete, so that its user had seen verdicts."""
        return not self.starts and any(end.partial is None for end in self.ends[:-1])

    @property
    def partial(self) -> str | None:
        """Return why the run is incomplete; None if it is complete."""
        if self.end is None:
            return UNFINISHED
        missing = bool(self.starts) and self.whole_starts < self.plan.starts
        return self.end.partial or self.loss_reason or (UNFINISHED if missing else None)


def read_run(ledger: Ledger) -> Run:
    """Read a ledger. Raises `NOT_A_RUN`.

    If the plan has several starts of the servers, intervals are computed over starts, and resuming the run adds a
    start. Otherwise, intervals are computed over rounds, even if the run was resumed.
    """
    run, start = Run(plan=ledger.plan()), 0
    starts: dict[int, int] = {}
    for record in _all_of(ledger):
        match record:
            case SliceRecord():
                run.slices.append(record)
                if run.plan.starts > 1 and not record.warm_up:
                    starts[record.round] = start
            case SizesRecord():
                run.sizes = record.slices
            case ReadyRecord():
                run.ready.append(record)
            case EnvironmentRecord():
                run.environment, start = run.environment or record, record.start
                # The run was resumed, so forget why it ended earlier.
                run.loss_reason = run.end = None
                if run.plan.starts == 1:
                    run.lost_arms.clear()
                if record.budget_seconds is not None:
                    run.resumed_with_budget = True
                    run.plan = run.plan.with_budget_seconds(record.budget_seconds)
            case WarningRecord():
                run.warnings.append(record.text)
            case EvidenceRecord():
                # Services give evidence at the start and at the end of a run. Merge both.
                run.service_evidence[record.arm] = {**run.service_evidence.get(record.arm, {}), **record.facts}
            case LinksRecord():
                run.links_by_start[start] = record.links
            case FlushRecord():
                run.flushes.append(record.flush)
            case LostRecord(host=str() as host):
                run.lost_hosts.append(record)
                run.slices = [each for each in run.slices if each.round != record.round]
                run.loss_reason = f"host {host} was lost: {record.detail}" if record.rest is None else run.loss_reason
            case LostRecord(arm=None):
                run.loss_reason = record.detail
            case LostRecord(arm=str() as arm):
                run.lost_arms[arm] = record.detail
            case MemoryRecord():
                run.memory.append(record)
            case LookRecord():
                run.error_rate_spent += record.error_rate
                run.looks.append(record)
            case EndRecord():
                run.end = record
                run.ends.append(record)
    run.samples = Samples(Units(starts))
    run.disturbances = disturbances(run.slices, run.cores)
    for record in run.counted:
        add_samples(run.plan, run.samples, record)
        if run.plan.sweep is not None and record.per_second is not None:
            observed = observation(run.plan.sweep, record.round, record.per_second, record.answer)
            if observed is not None:
                run.samples.observe(CAPACITY, record.key, observed)
    if run.plan.sweep is not None:
        add_capacities(run.plan, run.samples)
    return run


def _all_of(ledger: Ledger) -> list[AnyRecord]:
    """Return all records, and exempt them from garbage collection.

    Records have no reference cycles. Repeated searches for cycles took a quarter of the time to analyse a long run.
    """
    gc.disable()
    try:
        records = [*ledger.records()]
        gc.freeze()
    finally:
        gc.enable()
    return records


def cpu_by_role(record: SliceRecord) -> dict[str, float]:
    """Return the CPU seconds of a slice by role. The instrument (client) and the servers have roles."""
    instrument = {role: nanoseconds / 1e9 for role, nanoseconds in record.answer.cpu_ns.items()}
    return sums_by_name([instrument, record.server_cpu_seconds])


def slices_with_cpu(records: Sequence[SliceRecord]) -> dict[str, list[SliceRecord]]:
    """Return for each role the slices with a reading of its CPU time. Without a reading, CPU time is unknown, not 0."""
    by_role: dict[str, list[SliceRecord]] = {}
    for record in records:
        for role in cpu_by_role(record):
            by_role.setdefault(role, []).append(record)
    return by_role


def cpu_seconds_per_operation(records: Sequence[SliceRecord]) -> dict[str, float]:
    """Return the CPU seconds of one operation by role. For each role, slices without a reading are left out."""
    return {
        role: sum(cpu_by_role(record)[role] for record in read)
        / max(1, sum(record.answer.operations for record in read))
        for role, read in slices_with_cpu(records).items()
    }
