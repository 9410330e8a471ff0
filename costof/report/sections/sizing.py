"""Sizing: the number of cores that a role, such as the balancer, needs for a burst of new clients.

A burst is many clients that connect at the same time. The number of cores follows from the role's CPU time for one
client: cores = clients x CPU time of one client / seconds.

The model is checked against measured bursts. Predicted time of a burst = measured time without the protection on the
same cores + clients x added CPU time of one client / cores. The two times are added, because handshakes and the waits
for the service overlap little: the last client sends its request only after its handshake, and then waits.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from costof import format as fmt
from costof.format import Text
from costof.model import Finite, Model
from costof.report.blocks import FILES, Block, Paragraph, Table
from costof.report.sections import Section, sentences
from costof.results.index import Index
from costof.results.metrics import ByRound, in_common
from costof.results.models import Core, Sentence
from costof.results.run import Run
from costof.statistics.estimate import Estimate
from costof.statistics.intervals import ROUNDS_FOR_INTERVAL, difference, differences, estimate
from costof.study.arms import PlannedArm
from costof.study.schema import holds

EXAMPLES = [(clients, seconds) for clients in (1_000, 10_000) for seconds in (1.0, 10.0)]
SHOWN_EXAMPLE = (10_000, 10.0)
CHECKS = ["variant", "new clients", "cores", "predicted time", "measured time", "error of the prediction"]
MODEL = (
    "Cores = new clients × CPU time that one new client costs the {role} ÷ seconds in which all are served. Predicted "
    "time of a burst = time of the burst without the protection on the same cores + clients × CPU time that the "
    "protection adds ÷ cores."
)


class Spec(Model):
    """The role (such as the balancer) whose number of cores is computed, and the burst that measures its CPU time."""

    role: str
    workload: str = Field(description="A burst: all workers open one connection each at the same time.")
    elapsed: str = Field(description="The metric with the duration of the burst, to check the prediction.")
    cores_factor: str = Field(description="The factor whose levels are the numbers of cores of the role.")
    when: dict[str, list[str]] = Field(
        default={}, description="Levels, by factor, of the arms whose clients connect to the role; empty: all arms."
    )
    without: dict[str, str] = Field(
        default={}, description="Levels of the arm without the protection, if that is not the control."
    )
    process_of_one_core: bool = Field(default=False, description="Whether each further core needs a further process.")


class CoresFor(Model):
    """The cores that a burst of `clients` new clients within `seconds` needs."""

    clients: int
    seconds: Finite
    cores: Estimate


class BurstCheck(Model):
    """The predicted and the measured time of a burst."""

    arm: str
    clients: int
    cores: Finite
    predicted_seconds: Estimate = Field(
        description="Time of the burst without the protection on the same cores + clients x CPU time that the "
        "protection adds / cores."
    )
    measured_seconds: Estimate


class Sizing(Model):
    """How many new clients per second one core of the role serves on an arm, and how many cores bursts need."""

    role: str
    arm: str
    label: str
    cpu_ms: Estimate = Field(description="CPU time of the role for one new client.")
    added_cpu_ms: Estimate | None = Field(default=None, description="The part of cpu_ms that the protection adds.")
    process_of_one_core: bool = Field(default=False, description="Whether each further core needs a further process.")
    clients_per_core_second: Estimate
    examples: list[CoresFor]
    checks: list[BurstCheck]

    @property
    def example(self) -> CoresFor:
        return next(each for each in self.examples if (each.clients, each.seconds) == SHOWN_EXAMPLE)


class SizingSection(Section[Spec, list[Sizing]]):
    name, title, order = "sizing", "Cores for bursts of clients", 35
    spec, data = Spec, list[Sizing]

    def metrics(self, spec: Spec) -> list[str]:
        return [spec.elapsed]

    def compute(self, run: Run, core: Core, spec: Spec) -> list[Sizing]:
        first = run.plan.controls[0].context
        arms = [arm for arm in run.plan.protected if arm.context == first]
        loading = [arm for arm in arms if holds(spec.when, arm.levels)]
        return [sizing for arm in loading if (sizing := _sizing(run, spec, arm)) is not None]

    def answer(self, index: Index, data: list[Sizing]) -> list[Sentence]:
        return sentences("answer", [_sentence(data[0])]) if data else []

    def blocks(self, index: Index, data: list[Sizing]) -> Iterator[Block]:
        if not data:
            return
        rows = [
            [
                each.label,
                fmt.absolute(each.cpu_ms),
                fmt.absolute(each.added_cpu_ms) if each.added_cpu_ms else fmt.NONE,
                fmt.absolute(each.clients_per_core_second),
                fmt.absolute(each.example.cores),
            ]
            for each in data
        ]
        one = data[0].example
        cores = f"cores for {one.clients:,} clients in {fmt.with_unit(fmt.count(one.seconds), 's')}"
        head = [
            "variant",
            f"{data[0].role} CPU, ms a client",
            "added CPU, ms a client",
            "clients a second per core",
            cores,
        ]
        yield Table.of(head, rows, title="New clients that one core serves")
        checks: list[list[str | Text]] = []
        for check in (check for each in data for check in each.checks):
            off = (check.predicted_seconds.value / check.measured_seconds.value - 1) * 100
            error = fmt.with_unit(fmt.number(off, 0, signed=True), "%")
            measured, predicted = _both(check)
            checks.append([check.arm, f"{check.clients:,}", fmt.count(check.cores), predicted, measured, error])
        if checks:
            yield Table.of(CHECKS, checks, title="Bursts of clients: predicted and measured time")
        yield Paragraph(MODEL.format(role=data[0].role), "note", media=FILES)


def _sizing(run: Run, spec: Spec, arm: PlannedArm) -> Sizing | None:
    used, plain = _cpu_ms(run, spec, arm.name), _cpu_ms(run, spec, _without(run, spec, arm))
    means = run.samples.units.means(used)
    if len(means) < ROUNDS_FOR_INTERVAL:
        return None
    cpu = estimate(means)
    if cpu.low <= 0:
        return None  # The CPU counter is too coarse for this burst.
    of_control, of_arm = map(run.samples.units.means, in_common([plain, used]))
    # Check the bursts of this arm, and of all arms that differ from this arm only in the number of cores.
    levels = {**arm.levels, spec.cores_factor: ""}
    bursts = [each for each in run.plan.protected if {**each.levels, spec.cores_factor: ""} == levels]
    enough = len(of_arm) >= ROUNDS_FOR_INTERVAL
    return Sizing(
        role=spec.role,
        arm=arm.name,
        label=arm.label,
        cpu_ms=cpu,
        added_cpu_ms=difference(of_control, of_arm) if enough else None,
        process_of_one_core=spec.process_of_one_core,
        clients_per_core_second=cpu.through(lambda ms: 1e3 / ms),
        examples=[_example(cpu, clients, seconds) for clients, seconds in EXAMPLES],
        checks=[check for burst in bursts if (check := _check(run, spec, arm, burst))],
    )


def _example(cpu: Estimate, clients: int, seconds: float) -> CoresFor:
    return CoresFor(clients=clients, seconds=seconds, cores=cpu.through(lambda ms: ms * (clients / seconds / 1e3)))


def _without(run: Run, spec: Spec, arm: PlannedArm) -> str:
    """Return the name of the unprotected arm in the same context (such as a distance); '' if there is none."""
    if not spec.without:
        return arm.control_arm or ""
    same = (each for each in run.plan.protected if each.context == arm.context)
    return next((each.name for each in same if spec.without.items() <= each.levels.items()), "")


def _cpu_ms(run: Run, spec: Spec, arm: str) -> ByRound:
    """Return how many CPU milliseconds the role in `spec` used for each client of the burst, by round."""
    return {
        record.round: record.server_cpu_seconds[spec.role] * 1e3 / record.answer.operations
        for record in run.counted_slices(spec.workload, arm)
        if record.answer.operations and spec.role in record.server_cpu_seconds
    }


def _check(run: Run, spec: Spec, arm: PlannedArm, burst: PlannedArm) -> BurstCheck | None:
    try:
        cores = float(burst.levels.get(spec.cores_factor, ""))
    except ValueError:
        return None  # The cores of the user's own servers (a target) are unknown.
    used, plain = _cpu_ms(run, spec, arm.name), _cpu_ms(run, spec, _without(run, spec, arm))
    names = (burst.name, _without(run, spec, burst))
    elapsed, control = (
        {number: ms / 1e3 for number, ms in run.samples.by_round(spec.elapsed, name).items()} for name in names
    )
    common = in_common([used, plain, elapsed, control])
    cpu, cpu_without, measured, without = map(run.samples.units.means, common)
    if len(measured) < ROUNDS_FOR_INTERVAL:
        return None
    clients = run.plan.workers(spec.workload, burst)
    added = differences(cpu_without, cpu)
    predicted = [before + clients * each / 1e3 / cores for before, each in zip(without, added, strict=True)]
    return BurstCheck(
        arm=burst.name,
        clients=clients,
        cores=cores,
        predicted_seconds=estimate(predicted),
        measured_seconds=estimate(measured),
    )


def _sentence(sizing: Sizing) -> str:
    rate, one = fmt.absolute(sizing.clients_per_core_second), sizing.example
    cores = fmt.absolute(one.cores)
    within = fmt.with_unit(fmt.count(one.seconds), "s")
    text = (
        f"With {sizing.label}, one core of the {sizing.role} serves {rate} new clients a second. "
        f"With {sizing.label}, {one.clients:,} new clients within {within} need "
        f"{f'{cores.value} cores {cores.interval}'.rstrip()}"
        f"{' (one process for each core)' if sizing.process_of_one_core and one.cores.value > 1 else ''}"
    )
    if check := next((each for each in sizing.checks if each.arm == sizing.arm), None):
        measured, predicted = _both(check)
        text += (
            f". With {sizing.label}, a measured burst of {check.clients:,} new clients took {measured}. The predicted "
            f"time of this burst is {predicted}"
        )
    return f"{text}."


def _both(check: BurstCheck) -> tuple[Text, Text]:
    both = (check.measured_seconds, check.predicted_seconds)
    decimals = max(2, min(fmt.estimate_decimals(each) for each in both))
    measured, predicted = (fmt.absolute(each, "s", decimals=decimals) for each in both)
    return measured, predicted


SECTION = SizingSection()
