"""Saturation: workloads whose workers are always busy, with their highest rate and the resource that limits it.

If the workers are always busy, workers = rate x time (Little 1961, "A proof for the queuing formula L = λW"). The time
then follows from the rate, so the answer has only the rate.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from costof import format as fmt
from costof.model import Finite, Model
from costof.report.blocks import FILES, Block, Paragraph, Table
from costof.report.sections import Section, sentences
from costof.results.index import Index, Lead
from costof.results.models import Core, Cpu, Metric, Sentence
from costof.results.run import Run
from costof.statistics.estimate import Estimate
from costof.statistics.intervals import ROUNDS_FOR_INTERVAL, estimate
from costof.study.arms import PlannedArm
from costof.study.schema import WHOLE_SLICE

#: Workers count as always busy if they spend at least this share of the time on operations. It is below 1, because
#: workers are idle at the beginning and the end of a slice.
BUSY = 0.9
#: A workload is left out if its workers have fewer operations in a slice than this, because such a workload is a burst:
#: each worker opens one connection, for example.
LEAST_OPERATIONS = 2
#: A role's CPU quota is reported as the limit of the rate if the role was throttled (had to wait because its quota was
#: used up) for at least this share of the time.
THROTTLED = 0.2
#: The machine's CPU is reported as the limit of the rate if client and servers used at least this share of its cores.
CORES_USED = 0.75
#: A sentence names the arms whose rate is limited if there are at most this many; otherwise, it has their number.
MOST_NAMED = 3

HEAD = ["workload", "variant", "workers", "rate × time", "capacity", "limit"]
METHOD = (
    "Workers are simultaneous clients that never pause, so the rate × the time of an operation is about the number of "
    "workers (Little's law). More workers lengthen each operation and do not raise the rate. The column 'limit' "
    "says what limits the rate: the CPU quota of a program, or this machine's CPU."
)


class Loop(Model):
    """A workload whose workers are always busy on an arm, and its rate, which is therefore the highest possible."""

    workload: str
    arm: str
    phase: str = Field(description="Name of the phase that times a whole operation.")
    workers: int
    in_flight: Finite = Field(description="Mean number of operations in progress: rate × time of an operation.")
    per_second: Estimate = Field(description="Operations per second.")
    limit: str | None = Field(
        description="The resource that limits the rate; None if none does, so that more workers raise the rate."
    )


class SaturationSection(Section[None, list[Loop]]):
    name, title, order = "saturation", "Capacity", 22
    data = list[Loop]

    def compute(self, run: Run, core: Core, spec: None) -> list[Loop] | None:
        closed = [name for name, workload in run.plan.study.workloads.items() if workload.pace is None]
        pairs = [(workload, arm) for workload in closed for arm in run.plan.arms if not arm.replicate]
        loops = [_loop(run, core, workload, arm) for workload, arm in pairs]
        return [each for each in loops if each is not None] or None

    def lead(self, index: Index, data: list[Loop]) -> Lead:
        """Omit times from the top of the report if workers are always busy, because then time = workers / rate."""
        return Lead(follow=frozenset((time.name, each.arm) for each in data for time in _times(index, data, each)))

    def answer(self, index: Index, data: list[Loop]) -> list[Sentence]:
        metrics = [metric for metric in index.headline_metrics if metric.unit == "per_second"]
        texts = [text for metric in metrics for text in _texts(index, data, metric)]
        limits = {each.workload: each.limit for each in reversed(data) if each.limit}
        reasons = [
            Sentence(kind="why", text=f"'{each.label}' is limited by {limits[each.workload]}.", metric=each.name)
            for each in metrics
            if each.workload in limits
        ]
        return [*sentences("detail", texts), *reasons]

    def blocks(self, index: Index, data: list[Loop]) -> Iterator[Block]:
        rows: list[list[str | fmt.Text]] = [
            [
                index.workload_label(each.workload),
                index.label_at(each.arm),
                str(each.workers),
                fmt.number(each.in_flight, 1),
                fmt.absolute(each.per_second, "per_second"),
                each.limit,
            ]
            for each in data
            if each.limit
        ]
        if rows:
            yield Table.of(HEAD, rows, title="Capacity of each variant", texts=(0, 1, 5), media=FILES)
            yield Paragraph(METHOD, "note", media=FILES)


def _loop(run: Run, core: Core, workload: str, arm: PlannedArm) -> Loop | None:
    """Return the figures of a workload on an arm; None if its workers are not always busy, or if rounds are too few.

    Return None for a burst too, in which each worker has only a few operations.
    """
    records, workers = (
        [r for r in run.counted_slices(workload, arm.name) if r.answer.phases],
        run.plan.workers(workload, arm),
    )
    operations, seconds = sum(r.answer.operations for r in records), sum(r.answer.elapsed_ns for r in records) / 1e9
    rates = run.samples.units.means({r.round: r.answer.operations / r.answer.elapsed_ns * 1e9 for r in records})
    if len(rates) < ROUNDS_FOR_INTERVAL or operations < LEAST_OPERATIONS * workers * len(records):
        return None
    spent: dict[str, int] = {}
    for name, timed in (each for record in records for each in record.answer.phases.items()):
        spent[name] = spent.get(name, 0) + timed.sum_ns
    # The phase that times the whole operation contains the other phases, so the sum of its times is the largest.
    phase = max(spent, key=spent.__getitem__)
    in_flight = sum(r.answer.phases[phase].sum_ns for r in records if phase in r.answer.phases) / 1e9 / seconds
    if in_flight < BUSY * workers:
        return None
    cpu = next(each for each in core.cpu if (each.workload, each.arm) == (workload, arm.name))
    return Loop(
        workload=workload,
        arm=arm.name,
        phase=phase,
        workers=workers,
        in_flight=in_flight,
        per_second=estimate(rates),
        limit=_limit(cpu, operations / seconds, run.cores),
    )


def _limit(cpu: Cpu, per_second: float, cores: int) -> str | None:
    """Return what limits the rate, in words: a role's CPU quota or the machine's CPU; None if neither is used up."""
    role = max(cpu.throttled, key=cpu.throttled.__getitem__, default="")
    if cpu.throttled.get(role, 0.0) >= THROTTLED:
        return f"the CPU quota of the {role}"
    used = cpu.seconds_per_1000
    if sum(used.values()) * per_second / 1000 < CORES_USED * cores:
        return None
    return f"this machine's CPU (largest user: {max(used, key=used.__getitem__)})"


def _times(index: Index, data: list[Loop], loop: Loop) -> list[Metric]:
    """Return the headline times that follow from the rate in `loop`: the times of the operations that the rate counts.

    Return [] if the rate is not a headline metric, or if the control's workers are not always busy.
    """
    arm = index.arm(loop.arm)
    metrics = [metric for metric in index.headline_metrics if metric.workload == loop.workload]
    rates = [each for each in metrics if each.unit == "per_second" and each.phase in (WHOLE_SLICE, loop.phase)]
    both = any(each.arm == (arm and arm.control_arm) for each in data if each.workload == loop.workload)
    times = [each for each in metrics if each.unit != "per_second" and each.phase == loop.phase]
    return times if rates and both else []


def _texts(index: Index, data: list[Loop], metric: Metric) -> Iterator[str]:
    """Yield a sentence for each resource that limits the rate, and one for each time that follows from the rate."""
    of_metric = [each for each in data if each.workload == metric.workload]
    measured = [arm.name for arm in index.shown_arms if index.value(metric.name, arm.name)]
    # The table has the program that uses most of the machine's CPU.
    limits = {each.arm: each.limit.partition(" (")[0] for each in of_metric if each.limit}
    for limit in dict.fromkeys(limits.values()):
        limited = [arm for arm, of_arm in limits.items() if of_arm == limit]
        yield f"{fmt.capital(limit)} limits '{metric.label}'{_where(index, limited, measured)}."
    for time in dict.fromkeys(time.label for each in of_metric for time in _times(index, data, each)):
        yield (
            f"The time of '{time}' is the number of simultaneous clients ÷ '{metric.label}', because these clients "
            "never pause (Little's law)."
        )


def _where(index: Index, limited: list[str], all_arms: list[str]) -> str:
    """Return which arms have a limit: ' on the LAN', " for 'plain'", ' for 4 of the 6 variants'; '' for all."""
    if len(limited) == len(all_arms):
        return ""
    if len(limited) == 1:
        return f" for {index.quoted(limited[0])}"
    places = {index.context(arm): index.label_at(arm).removeprefix(index.label(arm)) for arm in limited}
    if len(places) == 1 and len(limited) == sum(index.context(arm) in places for arm in all_arms):
        return next(iter(places.values()))
    labels = [*dict.fromkeys(map(index.label, limited))]
    if len(labels) > MOST_NAMED or len(limited) < sum(index.label(arm) in labels for arm in all_arms):
        return f" for {len(limited)} of the {len(all_arms)} variants"
    return f" for {fmt.listed([*map(fmt.in_quotes, labels)])}"


SECTION = SaturationSection()
