"""A run: its ledger, read once."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean

from costof.lab.round_trips import LinkEvidence
from costof.results.changes import Changes, every_change
from costof.results.disturbances import NO_DISTURBANCES, Disturbances, disturbances
from costof.results.ledger import (
    AnyRecord,
    EndRecord,
    EnvironmentRecord,
    EvidenceRecord,
    Ledger,
    LinksRecord,
    LookRecord,
    LostRecord,
    ReadyRecord,
    SizesRecord,
    SliceRecord,
    WarningRecord,
)
from costof.results.samples import ByRound, Samples, ServersSide, add_samples
from costof.statistics.intervals import ROUNDS_FOR_INTERVAL, log_ratios
from costof.statistics.units import Units
from costof.statistics.verdicts import ERROR_RATE
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from costof.study.schema import SliceSize

ENDED_FROM_OUTSIDE = "it was ended from outside"


@dataclass
class Run:
    plan: Plan
    sizes: dict[str, SliceSize] | None = None
    samples: Samples = field(default_factory=Samples)
    slices: list[SliceRecord] = field(default_factory=list)
    ready: list[ReadyRecord] = field(default_factory=list)
    environment: EnvironmentRecord | None = None
    warnings: list[str] = field(default_factory=list)
    proofs: dict[str, dict[str, str]] = field(default_factory=dict)
    links_by_start: dict[int, list[LinkEvidence]] = field(default_factory=dict)
    lost: str | None = None
    lost_arms: dict[str, str] = field(default_factory=dict)
    lost_hosts: list[LostRecord] = field(default_factory=list)
    end: EndRecord | None = None
    ends: list[EndRecord] = field(default_factory=list)
    looks: list[LookRecord] = field(default_factory=list)
    error_rate_spent: float = 0.0
    disturbances: Disturbances = NO_DISTURBANCES
    dropped: dict[str, list[str]] = field(default_factory=dict)
    """Metrics that are in no figure of an arm, by arm."""

    @cached_property
    def _slices_of(self) -> dict[str, list[SliceRecord]]:
        found: dict[str, list[SliceRecord]] = {}
        for piece in self.slices:
            found.setdefault(piece.answer.arm, []).append(piece)
        return found

    def slices_of(self, arm: str) -> list[SliceRecord]:
        """Return every slice of the arm, warm-up and discarded ones too."""
        return self._slices_of.get(arm, [])

    @cached_property
    def counted(self) -> list[SliceRecord]:
        return [piece for piece in self.slices if self.counts(piece)]

    def counts(self, piece: SliceRecord) -> bool:
        return not piece.warm_up and piece.mismatch is None and piece.round not in self.disturbances.discarded

    @cached_property
    def _counted_of(self) -> dict[tuple[str, str], list[SliceRecord]]:
        found: dict[tuple[str, str], list[SliceRecord]] = {}
        for piece in self.counted:
            found.setdefault((piece.workload, piece.turn.role), []).append(piece)
        return found

    def of(self, workload: str, arm: str) -> list[SliceRecord]:
        return self._counted_of.get((workload, arm), [])

    def drop(self, metric: str, arm: str) -> None:
        """Leave a metric of an arm out of all figures."""
        self.samples.drop(metric, arm)
        self.dropped.setdefault(arm, []).append(metric)

    def histograms(self, metric: str, arm: str) -> dict[int, list[str]]:
        """Return the encoded histograms of the metric's phase on an arm, by round."""
        if metric in self.dropped.get(arm, []):
            return {}
        asked = self.plan.study.metrics[metric]
        found: dict[int, list[str]] = {}
        for piece in self.of(asked.workload, arm):
            if (phase := piece.answer.phases.get(asked.phase)) is not None:
                found.setdefault(piece.round, []).append(phase.histogram)
        return found

    def refused(self, arm: PlannedArm) -> str | None:
        beside = {"app", "command"} if self.plan.client else {"app"}
        for record in self.ready:
            for ready in record.ready.arms:
                if record.view not in beside and ready.name == arm.name and ready.error is not None:
                    return ready.error.detail
        return None

    def tls_library(self, arm: PlannedArm | None = None) -> str:
        """Return the engine's TLS library, on an arm or on any: 'OpenSSL 3.0.19'; several where there were."""
        found = [
            record.ready.tls_library
            for record in self.ready
            if record.view == "wire" and (arm is None or arm.name in {told.name for told in record.ready.arms})
        ]
        return ", ".join(dict.fromkeys(found))

    def has(self, metric: str, arm: PlannedArm) -> bool:
        return len(self.samples.of(metric, arm.name)) >= ROUNDS_FOR_INTERVAL

    def pairs(self, metric: str, arm: PlannedArm) -> tuple[list[float], list[float]] | None:
        """Return the rounds' pairs of an arm and its control, where they can be compared at all."""
        return self.samples.compared(self.plan, metric, arm)

    def log_ratios_by_round(self, metric: str, arm: PlannedArm) -> ByRound:
        """Return log ratios of the arm to its control; empty where either has nothing of the metric in any round."""
        control, values = self.samples.paired_rounds(metric, arm.baseline or "", arm.name)
        logs = log_ratios([*control.values()], [*values.values()])
        return {} if logs is None else dict(zip(control, logs, strict=True))

    @cached_property
    def changes(self) -> Changes:
        return every_change(self.plan, self.samples)

    def together(self, *pairs: tuple[str, str], fewest: int) -> list[list[float]] | None:
        """Return the numbers of each metric and arm in the rounds that have all of them; None of too few."""
        found = self.samples.together(*pairs)
        return found if len(found[0]) >= fewest else None

    @property
    def starts(self) -> list[int]:
        """Rounds of each start of the servers, where starts are the units; empty where rounds are."""
        return list(Counter(self.samples.units.starts.values()).values())

    @property
    def units(self) -> int:
        return len(self.starts) or self.rounds

    @property
    def links(self) -> list[LinkEvidence]:
        return next(reversed(self.links_by_start.values()), [])

    @property
    def rounds(self) -> int:
        return len({piece.round for piece in self.slices if not piece.warm_up})

    @property
    def whole_rounds(self) -> int:
        """Rounds that a resumed run need not measure again; the last one may have been cut off."""
        return max((piece.round for piece in self.slices), default=0) if self.rounds else 0

    @property
    def whole_starts(self) -> int:
        """Starts of the servers that a resumed run need not repeat."""
        return sum(end.partial is None for end in self.ends)

    @property
    def measured_seconds(self) -> float:
        return sum(piece.answer.elapsed_ns for piece in self.slices if not piece.warm_up) / 1e9

    @property
    def error_rate(self) -> float:
        """How often the run's verdicts may be wrong: what its looks have left of it (`run/schedule.py`)."""
        return self.end.error_rate if self.end else ERROR_RATE - self.error_rate_spent

    @property
    def resolved_early(self) -> bool:
        """Return whether its last look ended the run, since every headline effect had a verdict."""
        return self.end is not None and bool(self.looks) and self.end.error_rate == self.looks[-1].error_rate

    @property
    def steal_share(self) -> float | None:
        """Share of the machine's time, in all starts of the servers; None of a run that did not end."""
        ends = self.ends if self.starts else self.ends[-1:]
        return fmean(end.steal_share for end in ends) if self.end else None

    @property
    def cores(self) -> int:
        return int(self.environment.facts.get("cores", 1)) if self.environment else 1

    @property
    def hosts(self) -> int | None:
        """The number of hosts at the start of the run; None where this machine measured."""
        return len(self.environment.facts["hosts"]) if self.plan.hosts and self.environment else None

    @property
    def partial(self) -> str | None:
        if self.end is None:
            return ENDED_FROM_OUTSIDE
        missing = bool(self.starts) and self.whole_starts < self.plan.starts
        return self.end.partial or self.lost or (ENDED_FROM_OUTSIDE if missing else None)


def read_run(ledger: Ledger) -> Run:
    """Everything in a ledger. Raises `NOT_A_RUN`.

    Of a plan that has several starts of the servers these are the units, and a resumed run has one more. Of any other
    plan rounds are, whether it was resumed or not.
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
                # A resumed run starts over: what ended it before no longer counts.
                run.lost = run.end = None
                if run.plan.starts == 1:
                    run.lost_arms.clear()
            case WarningRecord():
                run.warnings.append(record.text)
            case EvidenceRecord():
                # What is proved once the run is over stands beside what was proved before it.
                run.proofs[record.arm] = {**run.proofs.get(record.arm, {}), **record.facts}
            case LinksRecord():
                run.links_by_start[start] = record.links
            case LostRecord(host=str() as host):
                run.lost_hosts.append(record)
                run.slices = [piece for piece in run.slices if piece.round != record.round]
                run.lost = f"{host} was lost: {record.detail}" if record.rest is None else run.lost
            case LostRecord(arm=None):
                run.lost = record.detail
            case LostRecord(arm=str() as arm):
                run.lost_arms[arm] = record.detail
            case LookRecord():
                run.error_rate_spent += record.error_rate
                run.looks.append(record)
            case EndRecord():
                run.end = record
                run.ends.append(record)
    run.samples = Samples(Units(starts))
    run.disturbances = disturbances(run.slices, run.cores)
    for piece in run.counted:
        add_samples(run.plan, run.samples, piece.round, piece.turn, piece.answer, servers_side(piece))
    return run


def _all_of(ledger: Ledger) -> list[AnyRecord]:
    """The records, kept from the garbage collector: they hold no cycles, and to search those of a long run for some,
    again and again, takes a quarter of its analysis."""
    gc.disable()
    try:
        records = [*ledger.records()]
        gc.freeze()
    finally:
        gc.enable()
    return records


def servers_side(piece: SliceRecord) -> ServersSide:
    return ServersSide(piece.server_figures, piece.server_cpu_seconds)


def cpu_by_role(piece: SliceRecord) -> dict[str, float]:
    """Return CPU seconds of a slice by role: the instrument's own and the servers'."""
    seconds = {role: nanoseconds / 1e9 for role, nanoseconds in piece.answer.cpu_ns.items()}
    for role, used in piece.server_cpu_seconds.items():
        seconds[role] = seconds.get(role, 0.0) + used
    return seconds


def read_in(pieces: Sequence[SliceRecord]) -> dict[str, list[SliceRecord]]:
    """Return by role the slices that have a reading of its CPU time: one without is unknown, and not 0."""
    found: dict[str, list[SliceRecord]] = {}
    for piece in pieces:
        for role in cpu_by_role(piece):
            found.setdefault(role, []).append(piece)
    return found


def cpu_seconds_each(pieces: Sequence[SliceRecord]) -> dict[str, float]:
    """Return CPU seconds of one operation by role, each over the slices that have a reading of it."""
    return {
        role: sum(cpu_by_role(piece)[role] for piece in read) / max(1, sum(piece.answer.operations for piece in read))
        for role, read in read_in(pieces).items()
    }
