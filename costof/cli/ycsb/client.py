"""Execution of one YCSB command by costof's load generator, the engine.

The engine performs all operations in one measurement (a slice) or, if the user wants status lines, in several.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from costof.cli.ycsb.job import Job
from costof.errors import CostofError, ErrorText
from costof.messages.answers import SliceAnswer
from costof.messages.plan import Data, Endpoint, Pace, Plan, Workload
from costof.messages.process import Instrument
from costof.statistics.histogram import LONGEST_NS, Counts, merged

ARM = "ycsb"
#: The number of operations of each worker in the first slice (measurement). It is small, because the speed of the
#: workers is still unknown.
FIRST_OPERATIONS = 100


@dataclass
class Times:
    count: int = 0
    sum_ns: int = 0
    min_ns: int = LONGEST_NS
    max_ns: int = 0
    histogram: Counts = field(default_factory=lambda: Counts.from_values([]))

    def percentile_ns(self, percentile: float) -> float:
        """Return a percentile in ns, limited to the exact maximum, because the histogram may round a value up."""
        return min(*self.histogram.at_percentiles([percentile]), self.max_ns)


@dataclass
class Tally:
    """The results of a YCSB command so far.

    The keys of `times` and `failed_by_phase` are the load generator's names of operations, such as 'read'. The keys of
    `failed` and `first_failures` are error classes.
    """

    operations: int = 0
    elapsed_ns: int = 0
    times: dict[str, Times] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    failed_by_phase: dict[str, int] = field(default_factory=dict)
    first_failures: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def attempts(self) -> int:
        return self.operations + sum(self.failed.values())

    def add(self, answer: SliceAnswer) -> None:
        self.operations += answer.operations
        self.elapsed_ns += answer.elapsed_ns
        for name, phase in answer.phases.items():
            times = self.times.setdefault(name, Times())
            times.count += phase.count
            times.sum_ns += phase.sum_ns
            times.min_ns, times.max_ns = min(times.min_ns, phase.min_ns), max(times.max_ns, phase.max_ns)
            times.histogram += merged([phase.histogram])
        for error in answer.errors:
            self.failed[error.error_class] = self.failed.get(error.error_class, 0) + error.count
            if error.phase is not None:
                self.failed_by_phase[error.phase] = self.failed_by_phase.get(error.phase, 0) + error.count
            self.first_failures.setdefault(error.error_class, error.detail)


Status = Callable[[Tally, SliceAnswer], None]


def execute(job: Job, endpoint: Endpoint, instrument: Instrument, status: Status | None) -> Tally:
    """Execute the job in slices (measurements), and call `status` after each of them.

    A slice ends after a fixed number of operations. If it ended after a fixed time, unfinished operations would be
    abandoned, and a load would lack records. After Ctrl-C, the result has only the completed slices.

    Raises `INSTRUMENT_FAILED`, or `ARMS_CANNOT_RUN` if the database cannot be reached.
    """
    tally = Tally()
    with instrument:
        ready = instrument.plan(make_plan(job, endpoint))
        refused = [arm.error.detail for arm in ready.arms if arm.error is not None]
        if refused:
            raise CostofError(ErrorText.ARMS_CANNOT_RUN, detail=refused[0])
        number, seconds = 0, job.seconds
        while tally.attempts < job.operations and (seconds := job.seconds - tally.elapsed_ns / 1e9) > 0:
            number += 1
            size = job.operations - tally.attempts
            size = min(size, slice_size(job, tally)) if status else size
            try:
                answer = instrument.slice(number, ARM, job.phase, size, seconds)
            except KeyboardInterrupt:
                tally.interrupted = True
                break
            tally.add(answer)
            if status:
                status(tally, answer)
    return tally


def slice_size(job: Job, tally: Tally) -> int:
    """Return the number of operations for the next slice (measurement): as many as fit between two status lines."""
    if tally.elapsed_ns == 0:
        return max(1, round(job.per_second * job.status_seconds) if job.per_second else FIRST_OPERATIONS * job.workers)
    return max(1, round(tally.attempts / tally.elapsed_ns * 1e9 * job.status_seconds))


def make_plan(job: Job, endpoint: Endpoint) -> Plan:
    pace = Pace(per_second=job.per_second, arrivals="constant") if job.per_second else None
    return Plan(
        seed=secrets.randbelow(2**31),
        threads=os.cpu_count() or 1,
        data=Data(records=int(job.ycsb["record_count"])),
        arms=[endpoint.named(ARM)],
        workloads=[Workload(name=job.phase, kind="ycsb", workers=job.workers, pace=pace, ycsb=job.ycsb)],
    )


NAMES = {
    "read": "READ",
    "update": "UPDATE",
    "insert": "INSERT",
    "scan": "SCAN",
    "read_modify_write": "READ-MODIFY-WRITE",
}
PERCENTILES = {95: "95thPercentileLatency(us)", 99: "99thPercentileLatency(us)"}
STATUS_PERCENTILES = (90, 99, 99.9, 99.99)


def results(tally: Tally) -> list[str]:
    """Return the lines of standard output in YCSB's layout (TextMeasurementsExporter, OneMeasurementHdrHistogram).

    A failed read-modify-write is counted as a failed read or as a failed update.
    """
    runtime = tally.elapsed_ns / 1e6
    throughput = tally.operations * 1000 / runtime if runtime else 0.0
    lines = [f"[OVERALL], RunTime(ms), {round(runtime)}", f"[OVERALL], Throughput(ops/sec), {throughput!r}"]
    for name, line in NAMES.items():
        if name in tally.times:
            lines += _operation_lines(line, tally.times[name])
        if failed := tally.failed_by_phase.get(name):
            lines += [f"[{line}], Return=ERROR, {failed}", f"[{line}-FAILED], Operations, {failed}"]
    return lines


def _operation_lines(name: str, times: Times) -> list[str]:
    return [
        f"[{name}], Operations, {times.count}",
        f"[{name}], AverageLatency(us), {times.sum_ns / times.count / 1000!r}",
        f"[{name}], MinLatency(us), {times.min_ns // 1000}",
        f"[{name}], MaxLatency(us), {times.max_ns // 1000}",
        *(f"[{name}], {percentile}, {int(times.percentile_ns(at) // 1000)}" for at, percentile in PERCENTILES.items()),
        f"[{name}], Return=OK, {times.count}",
    ]


def status_line(job: Job, tally: Tally, answer: SliceAnswer, now: datetime) -> str:
    """Return a line in the layout of YCSB's status thread (site.ycsb.StatusThread) for one slice (measurement)."""
    recent = Tally()
    recent.add(answer)
    seconds, rate = tally.elapsed_ns / 1e9, recent.operations / max(answer.elapsed_ns, 1) * 1e9
    left = (job.operations - tally.attempts) / (tally.attempts / seconds) if tally.attempts and seconds else 0.0
    parts = [
        f"{now:%Y-%m-%d %H:%M:%S}:{now.microsecond // 1000:03d} {seconds:.0f} sec: {tally.operations} operations; "
        f"{rate:.2f} current ops/sec;"
    ]
    if left:
        parts.append(f"est completion in {min(left, job.seconds - seconds):.0f} seconds")
    return " ".join([*parts, *(_summary(NAMES[name], recent.times[name]) for name in NAMES if name in recent.times)])


def _summary(name: str, times: Times) -> str:
    ends = f"Max={times.max_ns // 1000}, Min={times.min_ns // 1000}, Avg={times.sum_ns / times.count / 1000:.2f}"
    shown = ", ".join(f"{at:g}={times.percentile_ns(at) // 1000:.0f}" for at in STATUS_PERCENTILES)
    return f"[{name}: Count={times.count}, {ends}, {shown}]"
