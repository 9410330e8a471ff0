"""At your load: what a new connection and a query take when clients ask as much as the user's do, the cores that takes,
and whether an arm can carry it at all.

Only of a run that was asked for a load (`--load`, `--pool`). Its costs are those of clients who come at random instants
and do not wait for each other, or who think before they ask again; what others say of capacity is none of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from pydantic import Field

from costof.analysis.cautions import NEIGHBOURS_WORTH_A_WORD
from costof.analysis.index import Index, Lead
from costof.analysis.load import CLIENT, carried_of
from costof.analysis.models import Arm, Carried, Core, Effect, Metric, Sentence
from costof.analysis.run import Run
from costof.analysis.section import Section, sentences
from costof.document import format as fmt
from costof.document.blocks import FILES, Block, Paragraph, Table
from costof.document.format import Text
from costof.lab.host import LINK_ROLE
from costof.ledger.ledger import SliceRecord
from costof.ledger.samples import in_common
from costof.model import Finite, Model
from costof.statistics.estimate import Estimate, Verdict
from costof.statistics.intervals import ROUNDS_OF_AN_INTERVAL, difference, estimate
from costof.study.arms import PlannedArm
from costof.study.load import CONNECTION, FIRST_QUERY, QUERY, WORKLOAD, Arrivals, Load, Pool, Told

#: Of what was served at too much of a load, a load that leaves servers some time.
SAFE = 0.85
VOWELS = "aeiou"
HEAD = ["", "without", "with", "difference", "relative"]
CORES = "Cores are CPU time of one {} times {} a second, without what carries the lab's links."
METHOD = {
    "arrivals": "Clients come at random instants (Poisson), the same for all arms, and wait for nobody. The time of a "
    "connection is counted from the instant at which its client came.",
    "paced": "Operations come at random instants (Poisson), the same for all arms, and go over whichever connection is "
    "free. The time of one is counted from its instant, so one that had to wait for a connection has waited.",
    "thinking": "Each connection has a user who thinks for a random time (negative exponential), the same for all "
    "arms, and then waits for the answer. So an arm that is slower is asked a little less.",
}


class Cores(Model):
    """Cores that an arm keeps busy at the load."""

    arm: str
    roles: list[str] = Field(description="Whose: the client's alone where the servers' CPU time is not known.")
    without: Estimate
    used: Estimate
    added: Estimate


class AtLoad(Model):
    load: Load
    connections: int | None = Field(description="That clients hold at once, at most; None of commands.")
    round_trips_ms: dict[str, Finite] = Field(description="By context.")
    machine_cores: int | None = Field(description="Of the machine that the servers share; None for a user's own.")
    others_share: Finite = Field(description="Of the machine's CPU time, that other programs had in the median round.")
    carried: list[Carried]
    cores: list[Cores]


class LoadSection(Section[None, AtLoad]):
    name, title, order = "load", "At your load", 5
    data = AtLoad

    def compute(self, run: Run, core: Core, spec: None) -> AtLoad | None:
        load = run.plan.load
        if load is None:
            return None
        machine: dict[str, Any] = {"machine_cores": None if run.plan.target else run.cores, "others_share": run.disturbances.usual}
        if isinstance(load, Told):
            return AtLoad(load=load, connections=None, round_trips_ms=core.distances, carried=[], cores=[], **machine)
        return AtLoad(
            load=load,
            connections=run.plan.study.workloads[WORKLOAD].workers,
            round_trips_ms=core.distances,
            carried=carried_of(run),
            cores=[own for arm in run.plan.protected if (own := _cores(run, load, arm)) is not None],
            **machine,
        )

    def lead(self, index: Index, data: AtLoad) -> Lead:
        told = {(metric.name, arm.name) for arm in index.answered for metric, _ in _effects(index, arm)}
        return Lead(leads=True, follow=frozenset(told))

    def answer(self, index: Index, data: AtLoad) -> list[Sentence]:
        told = [text for setting in index.settings for arm in setting.shown_arms if (text := _told(index, data, arm))]
        return sentences("answer", told)

    def blocks(self, index: Index, data: AtLoad) -> Iterator[Block]:
        yield Paragraph(f"{fmt.capital(data.load.in_words)}.", label="Load.")
        for setting in index.settings:
            for arm in setting.shown_arms:
                if rows := [*_rows(index, data, arm)]:
                    yield Table.of(HEAD, rows, title=f"{arm.label}{setting.suffix}")
        if not isinstance(data.load, Told):
            yield Paragraph(_method(data.load), "note", media=FILES)


def _method(load: Arrivals | Pool) -> str:
    how = "arrivals" if isinstance(load, Arrivals) else "paced" if load.per_second else "thinking"
    return f"{METHOD[how]} {CORES.format(*load.operation)}"


def _cores(run: Run, load: Arrivals | Pool, arm: PlannedArm) -> Cores | None:
    both = [run.of(WORKLOAD, name) for name in (arm.baseline or "", arm.name)]
    by_round = [{piece.round: _used(piece, load) for piece in pieces if piece.answer.operations} for pieces in both]
    control, own = map(run.samples.units.means, in_common(by_round))
    if len(own) < ROUNDS_OF_AN_INTERVAL:
        return None
    return Cores(
        arm=arm.name,
        roles=sorted({role for piece in both[1] for role in _roles(piece)}),
        without=estimate(control),
        used=estimate(own),
        added=difference(control, own),
    )


def _roles(piece: SliceRecord) -> dict[str, float]:
    """CPU seconds by role, of all that a user would have to run."""
    seconds = {role: nanoseconds / 1e9 for role, nanoseconds in piece.answer.cpu_ns.items()}
    return seconds | {role: used for role, used in piece.server_cpu_seconds.items() if role != LINK_ROLE}


def _used(piece: SliceRecord, load: Arrivals | Pool) -> float:
    """Cores of a slice, at the very rate that was asked for, or else at the one that users came at."""
    per_second = load.per_second or piece.answer.operations / piece.answer.elapsed_ns * 1e9
    return sum(_roles(piece).values()) / piece.answer.operations * per_second


def _told(index: Index, data: AtLoad, arm: Arm) -> str | None:
    """'At 300 new connections a second, 20 queries each, 2 ms away: with TLS a new connection takes 3.1 ms longer …'"""
    carried = next((each for each in data.carried if each.arm == arm.name), None)
    far = f", {fmt.milliseconds(away)} away" if (away := data.round_trips_ms.get(arm.context)) else ""
    label = f"{arm.label}{'' if far else arm.at}"
    if carried is not None and not carried.all_of_them:
        return f"At {data.load.in_words}{far}: {_overloaded(data, label, carried)}"
    clauses = [_clause(index, metric, effect, arm) for metric, effect in _effects(index, arm) if metric.headline]
    cores = next((each for each in data.cores if each.arm == arm.name), None)
    if cores is not None:
        clauses.append(_of_cores(cores))
    return f"At {data.load.in_words}{far}: with {label} {fmt.listed(clauses)}." if clauses else None


def _effects(index: Index, arm: Arm) -> Iterator[tuple[Metric, Effect]]:
    for name in (CONNECTION, FIRST_QUERY, QUERY):
        if (effect := index.effect(name, arm.name)) is not None:
            yield index.metrics[name], effect


def _clause(index: Index, metric: Metric, effect: Effect, arm: Arm) -> str:
    """'a new connection takes 15 ms longer (+86 %, 95 % interval 67 to 109 %), 99 of 100 within 40 ms …'."""
    what = f"{'an' if metric.label[0] in VOWELS else 'a'} {metric.label}"
    match effect.verdict:
        case Verdict.COSTS | Verdict.SAVES:
            sign = 1 if effect.verdict is Verdict.COSTS else -1
            word = "longer" if sign > 0 else "less"
            amount = fmt.absolute(effect.difference.through(lambda each: sign * each), effect.unit).value
            said = f"{what} takes {amount} {word}{_interval(effect)}"
        case Verdict.NO_DIFFERENCE:
            said = f"{what} takes as long within {fmt.share(metric.margin)}"
        case Verdict.NO_COST:
            said = f"{what} takes at most {fmt.share(metric.margin)} longer"
        case _:
            said = f"what {what} takes cannot be told yet{_interval(effect)}"
    return said + _tail(index, metric, arm)


def _interval(effect: Effect) -> str:
    if effect.ratio is None:
        return ""
    percent = effect.ratio.through(lambda each: (each - 1) * 100)
    decimals = min(1, fmt.decimals_of(percent))
    low, high = (fmt.number(each, decimals) for each in (percent.low, percent.high))
    value = fmt.with_unit(fmt.number(percent.value, decimals, signed=True), "%")
    return f" ({value}, 95 % interval {low} to {fmt.with_unit(high, '%')})"


def _tail(index: Index, metric: Metric, arm: Arm) -> str:
    """The slowest hundredth, as it was measured."""
    values = [index.value(metric.name, name) for name in (arm.name, arm.baseline or "")]
    slow, usual = (value.percentiles["p99"] if value else None for value in values)
    if slow is None or usual is None:
        return ""
    shown = fmt.with_unit(fmt.number(slow), metric.unit)
    return f", 99 of 100 within {shown} instead of {fmt.with_unit(fmt.number(usual), metric.unit)}"


def _of_cores(cores: Cores) -> str:
    decimals = max(2, fmt.decimals_of(cores.added))
    word, change = (
        ("fewer", cores.added.through(lambda each: -each)) if cores.added.value < 0 else ("more", cores.added)
    )
    used, without, added = (fmt.number(each.value, decimals) for each in (cores.used, cores.without, change))
    interval = fmt.interval(change.low, change.high, decimals)
    who = "the client alone keeps" if cores.roles == [CLIENT] else "client and servers keep"
    unknown = " (the servers' CPU time is not known here)" if cores.roles == [CLIENT] else ""
    return f"{who} {used} cores busy instead of {without}, {added} {interval} {word}{unknown}"


def _overloaded(data: AtLoad, label: str, carried: Carried) -> str:
    """Return what decides about an arm that could not serve all who came."""
    assert carried.offered is not None
    assert not isinstance(data.load, Told)
    served, offered = fmt.number(carried.served), fmt.number(carried.offered)
    parts = [
        f"{label} cannot carry this load: of {offered} {data.load.operation[1]} a second it served {served}, with "
        f"{data.connections:,} connections at once, which is all that clients hold."
    ]
    if carried.server_cores_needed is not None:
        needed = fmt.number(carried.server_cores_needed, 1)
        there = f"; this machine has {data.machine_cores}" if data.machine_cores is not None else ""
        parts.append(f"The servers would need {needed} cores for it{there}.")
    if data.others_share > NEIGHBOURS_WORTH_A_WORD:
        parts.append(f"Other programs took {fmt.percent(data.others_share)} of this machine's CPU time meanwhile.")
    least = min(each.served for each in data.carried if not each.all_of_them)
    parts.append(f"Its times say nothing; try a load of {_round_down(SAFE * least)} a second.")
    return " ".join(parts)


def _round_down(value: float) -> str:
    """Return two digits of it."""
    size = 10.0 ** (math.floor(math.log10(value)) - 1) if value > 0 else 1.0
    return fmt.number(math.floor(value / size) * size, 0 if value >= 10 else fmt.significant_decimals(value, 2))


def _rows(index: Index, data: AtLoad, arm: Arm) -> Iterator[list[str | Text]]:
    for metric, effect in _effects(index, arm):
        before, after = (fmt.number(each) for each in (effect.control_value, effect.value))
        more = fmt.absolute(effect.difference, signed=True)
        relative = fmt.relative(effect.ratio) if effect.ratio else fmt.NONE
        yield [fmt.titled(metric.label, metric.unit), before, after, more, relative]
        values = [index.value(metric.name, name) for name in (arm.baseline or "", arm.name)]
        for percentile in ("p50", "p99"):
            shown = [fmt.number(value.percentiles[percentile]) for value in values if value]
            if len(shown) == len(values):
                yield [fmt.titled(f"{metric.label}, {percentile}", metric.unit), *shown, fmt.NONE, fmt.NONE]
    if isinstance(data.load, Pool) and data.load.per_second is None:
        rates = {each.arm: fmt.number(each.served) for each in data.carried}
        if arm.name in rates:
            yield [
                f"{data.load.operation[1]} a second",
                rates.get(arm.baseline or "", ""),
                rates[arm.name],
                fmt.NONE,
                fmt.NONE,
            ]
    for each in data.cores:
        if each.arm == arm.name:
            whose = fmt.listed([f"the {role}'s" for role in each.roles])
            decimals = max(2, fmt.decimals_of(each.added))
            before, after = (fmt.number(value, decimals) for value in (each.without.value, each.used.value))
            added = fmt.absolute(each.added, signed=True, decimals=decimals)
            yield [f"cores ({whose})", before, after, added, fmt.NONE]


SECTION = LoadSection()
