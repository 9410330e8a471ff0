"""Saturation: closed loops whose workers are never idle, with their capacity and what limits it.

Of such a loop workers = rate x time (Little 1961, "A proof for the queuing formula L = λW"): its rate and its time are
one finding, which the answer tells once, as a rate.
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

#: Share of their time in which workers have an operation under way, from which on they are never idle. The rest is a
#: slice's beginning and end.
BUSY = 0.9
#: Operations a worker, on average, from which on a slice is a loop and no burst.
TURNS = 2
#: Share of the time in which a role's CPU share was used up, from which on that is the limit.
THROTTLED = 0.2
#: Share of the machine's cores that the run itself used, from which on they are the limit.
CORES_USED = 0.75
#: More arms than these are told by their range.
MOST_NAMED = 3

HEAD = ["workload", "arm", "workers", "rate × time", "capacity", "limit"]
METHOD = (
    "Workers of these closed loops are never idle, so rate × time is their number (Little's law), and more of them "
    "would add to the time and not to the rate. The limit is a role whose CPU share is used up, or the machine."
)


class Loop(Model):
    """A workload of an arm in which all workers have an operation under way all the time."""

    workload: str
    arm: str
    phase: str = Field(description="What the instrument times a whole operation under.")
    workers: int
    in_flight: Finite = Field(description="Rate × time of an operation: how many are under way on average.")
    per_second: Estimate = Field(description="Operations.")
    limit: str | None = Field(description="What is used up, in words. None where nothing is: the workers are too few.")


class SaturationSection(Section[None, list[Loop]]):
    name, title, order = "saturation", "Saturated loops", 22
    data = list[Loop]

    def compute(self, run: Run, core: Core, spec: None) -> list[Loop] | None:
        closed = [name for name, workload in run.plan.study.workloads.items() if workload.pace is None]
        pairs = [(workload, arm) for workload in closed for arm in run.plan.arms if not arm.replicate]
        found = [_loop(run, core, workload, arm) for workload, arm in pairs]
        return [each for each in found if each is not None] or None

    def lead(self, index: Index, data: list[Loop]) -> Lead:
        """The times that follow from a rate of the same loop are told once, as the rate."""
        return Lead(follow=frozenset((time.name, each.arm) for each in data for time in _times(index, data, each)))

    def answer(self, index: Index, data: list[Loop]) -> list[Sentence]:
        metrics = [metric for metric in index.headline_metrics if metric.unit == "per_second"]
        return sentences("detail", [text for metric in metrics for text in _texts(index, data, metric)])

    def blocks(self, index: Index, data: list[Loop]) -> Iterator[Block]:
        rows: list[list[str | fmt.Text]] = [
            [each.workload, each.arm, str(each.workers), fmt.number(each.in_flight, 1), _capacity(each), each.limit]
            for each in data
            if each.limit
        ]
        if rows:
            yield Table.of(HEAD, rows, title="Capacity of each arm", texts=(0, 1, 5), media=FILES)
            yield Paragraph(METHOD, "note", media=FILES)


def _loop(run: Run, core: Core, workload: str, arm: PlannedArm) -> Loop | None:
    """Return None where the workers wait for nothing at times, or do nothing twice."""
    pieces, workers = (
        [p for p in run.counted_slices(workload, arm.name) if p.answer.phases],
        run.plan.workers(workload, arm),
    )
    operations, seconds = sum(p.answer.operations for p in pieces), sum(p.answer.elapsed_ns for p in pieces) / 1e9
    rates = run.samples.units.means({p.round: p.answer.operations / p.answer.elapsed_ns * 1e9 for p in pieces})
    if len(rates) < ROUNDS_FOR_INTERVAL or operations < TURNS * workers * len(pieces):
        return None
    spent: dict[str, int] = {}
    for name, timed in (each for piece in pieces for each in piece.answer.phases.items()):
        spent[name] = spent.get(name, 0) + timed.sum_ns
    # The phase of the whole operation holds the others, and so lasts longest in all.
    phase = max(spent, key=spent.__getitem__)
    in_flight = sum(p.answer.phases[phase].sum_ns for p in pieces if phase in p.answer.phases) / 1e9 / seconds
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
    """Return the CPU share that is used up, or the machine's cores; None where neither is."""
    role = max(cpu.throttled, key=cpu.throttled.__getitem__, default="")
    if cpu.throttled.get(role, 0.0) >= THROTTLED:
        return f"the CPU share of {role} is used up"
    used = cpu.seconds_per_1000
    if sum(used.values()) * per_second / 1000 < CORES_USED * cores:
        return None
    return f"this machine's CPU is used up, most of it by {max(used, key=used.__getitem__)}"


def _times(index: Index, data: list[Loop], loop: Loop) -> list[Metric]:
    """Return headline metrics that are the time of the loop's operation, where a headline metric is its rate."""
    arm = index.arm(loop.arm)
    of = [metric for metric in index.headline_metrics if metric.workload == loop.workload]
    rates = [each for each in of if each.unit == "per_second" and each.phase in (WHOLE_SLICE, loop.phase)]
    both = any(each.arm == (arm and arm.baseline) for each in data if each.workload == loop.workload)
    return [each for each in of if each.unit != "per_second" and each.phase == loop.phase] if rates and both else []


def _texts(index: Index, data: list[Loop], metric: Metric) -> Iterator[str]:
    """Yield the capacity of a rate's workload under each limit, and what follows from it."""
    of = [each for each in data if each.workload == metric.workload]
    for limit in dict.fromkeys(each.limit for each in of if each.limit):
        loops = [each for each in of if each.limit == limit]
        workers = fmt.listed([*dict.fromkeys(str(each.workers) for each in loops)], "or")
        yield (
            f"The loop of '{metric.label}' is saturated: its {workers} workers are never idle, and {limit}. Its "
            f"capacity is {_capacities(index, loops)}."
        )
    for time in dict.fromkeys(time.label for each in of for time in _times(index, data, each)):
        yield (
            f"'{fmt.capital(time)}' is no finding beside '{metric.label}': where workers are never idle, it is their "
            "number over the rate (Little's law)."
        )


def _capacities(index: Index, loops: list[Loop]) -> str:
    """'586 /s [580, 592] with none and 131 /s [130, 132] with TLS at the balancer'."""
    if len(loops) <= MOST_NAMED:
        return fmt.listed([f"{_capacity(each)} with {index.label_at(each.arm)}" for each in loops])
    least, most = (choose(loops, key=lambda each: each.per_second.value) for choose in (min, max))
    return (
        f"{_capacity(least)} ({index.label_at(least.arm)}) to {_capacity(most)} ({index.label_at(most.arm)}) on "
        f"{len(loops)} arms"
    )


def _capacity(loop: Loop) -> fmt.Text:
    return fmt.absolute(loop.per_second, "per_second")


SECTION = SaturationSection()
