"""YCSB's own layout of results and of status lines (TextMeasurementsExporter, OneMeasurementHdrHistogram)."""

from __future__ import annotations

from datetime import datetime

from costof.cli.ycsb.client import Tally, Times
from costof.cli.ycsb.job import Job
from costof.messages.answers import SliceAnswer

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
    """The lines of standard output. One half of a read-modify-write fails, so its failures are reads' or updates'."""
    runtime = tally.elapsed_ns / 1e6
    throughput = tally.operations * 1000 / runtime if runtime else 0.0
    lines = [f"[OVERALL], RunTime(ms), {round(runtime)}", f"[OVERALL], Throughput(ops/sec), {throughput!r}"]
    for name, line in NAMES.items():
        if name in tally.times:
            lines += _of_operation(line, tally.times[name])
        if failed := tally.failed_of.get(name):
            lines += [f"[{line}], Return=ERROR, {failed}", f"[{line}-FAILED], Operations, {failed}"]
    return lines


def _of_operation(name: str, times: Times) -> list[str]:
    return [
        f"[{name}], Operations, {times.count}",
        f"[{name}], AverageLatency(us), {times.sum_ns / times.count / 1000!r}",
        f"[{name}], MinLatency(us), {times.min_ns // 1000}",
        f"[{name}], MaxLatency(us), {times.max_ns // 1000}",
        *(f"[{name}], {percentile}, {int(times.percentile_ns(at) // 1000)}" for at, percentile in PERCENTILES.items()),
        f"[{name}], Return=OK, {times.count}",
    ]


def status_line(job: Job, tally: Tally, answer: SliceAnswer, now: datetime) -> str:
    """One line of the status thread (site.ycsb.StatusThread), on what one slice did."""
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
