"""At your load: times of connections and queries, and the CPU cores in use, at a load that the user chose.

Only runs with a load have this section. With `--load`, clients arrive at random times and do not wait for each other.
With `--pool`, connections stay open, and their users may pause between two requests. Without a load, a run measures the
highest possible rates instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from costof import format as fmt
from costof.format import Text
from costof.lab.host import LINK_ROLE
from costof.model import Finite, Model
from costof.report.blocks import FILES, Block, Paragraph, Table
from costof.report.key_figures import CORES, KeyFigure, interval_verdict, of_effect, rounds_in_words
from costof.report.sections import Section, sentences
from costof.results.disturbances import NOTABLE_SHARE_OF_OTHERS
from costof.results.index import Index, Lead, hidden_by_noise
from costof.results.ledger import SliceRecord
from costof.results.load import CLIENT, carried_loads, servers_are_here, servers_in_words
from costof.results.metrics import in_common
from costof.results.models import Arm, Carried, Core, Effect, Metric, Sentence
from costof.results.run import Run
from costof.statistics.estimate import Estimate, Verdict
from costof.statistics.intervals import FEWEST_ROUNDS, ROUNDS_FOR_INTERVAL, difference, estimate
from costof.statistics.tails import operations_needed
from costof.statistics.uneven import UnevenRounds, uneven_rounds
from costof.study.arms import PlannedArm
from costof.study.load import CONNECTION, FIRST_QUERY, QUERY, WORKLOAD, Arrivals, CommandRate, Load, Pool
from costof.study.schema import CPU_PREFIX

#: If at least this share of the machine's CPU time is in use, operations mostly wait for a CPU.
SATURATED = 0.8
#: A suggested load should use this share of the machine's CPU time, so that queues are short.
COMFORTABLE = 0.5
#: A suggested load is at most this share of the rate that an overloaded arm served.
MOST_OF_SERVED = 0.8
SATURATION = (
    "With {arm}, this machine was {busy} busy, so the times are mostly waits for a CPU and hold for no other machine. "
    "Try a load of {load} a second{elsewhere}."
)
ELSEWHERE = ", or measure from another machine"
HEAD = ["", "without", "with", "difference", "relative"]
CORES_IN_USE = "Cores in use = CPU time of one {} × {} a second, without the CPU time of the lab's simulated links."
METHOD = {
    "arrivals": "Clients arrive at random times (Poisson), the same for all variants, and do not wait for each other. "
    "The time of a connection starts when its client arrives.",
    "paced": "Operations arrive at random times (Poisson), the same for all variants, and use any free connection. The "
    "time of an operation starts when it arrives and includes waiting for a connection.",
    "thinking": "Each connection has a user who pauses for a random time (exponential), the same for all variants, "
    "then sends a request and waits for the answer. A slower variant therefore gets slightly fewer requests.",
}


class Cores(Model):
    """CPU cores that the servers, or the client (the load generator), use at the load with an arm and its control."""

    arm: str
    who: Literal["servers", "client"]
    name: str = Field(description="The servers or the client in words, such as 'server'.")
    roles: list[str]
    available: int | None = Field(
        description="Cores of the machine that the servers share with the client; None for the client, for servers on "
        "other machines, and for servers that may use only a part of the machine."
    )
    without: Estimate
    used: Estimate
    added: Estimate
    uneven: UnevenRounds | None = Field(
        default=None, description="The rounds that dominate the added cores; None if none do."
    )


class AtLoad(Model):
    """The load of the run and, for each arm, how much of it was served and how many cores were used."""

    load: Load
    connections: int | None = Field(
        description="Maximum number of connections that clients hold at once; None for commands."
    )
    round_trips_ms: dict[str, Finite] = Field(description="Configured round-trip time of each context.")
    machine_cores: int | None = Field(
        description="Cores of the servers' machine; None if the servers run on other machines."
    )
    client_machine_cores: int | None = Field(
        default=None, description="Cores of the measuring machine; None if several hosts measured."
    )
    servers_here: bool = Field(
        default=False,
        description="Whether the servers run on the measuring machine and share its CPUs with the client.",
    )
    others_share: Finite = Field(description="Share of CPU time that other programs used in the median round.")
    carried: list[Carried]
    cores: list[Cores]


class LoadSection(Section[None, AtLoad]):
    name, title, order = "load", "At your load", 5
    data = AtLoad

    def compute(self, run: Run, core: Core, spec: None) -> AtLoad | None:
        load = run.plan.load
        if load is None or run.plan.rates or run.plan.sweep is not None:
            return None
        here, cores = servers_are_here(run), []
        if not isinstance(load, CommandRate):
            cores = [each for arm in run.plan.protected for each in _cores(run, load, arm)]
        return AtLoad(
            load=load,
            connections=None if isinstance(load, CommandRate) else run.plan.study.workloads[WORKLOAD].workers,
            round_trips_ms=core.distances,
            machine_cores=run.cores if here else None,
            client_machine_cores=run.cores if run.plan.hosts is None else None,
            servers_here=here,
            others_share=run.disturbances.typical_share,
            carried=carried_loads(run),
            cores=cores,
        )

    def lead(self, index: Index, data: AtLoad) -> Lead:
        shown = {(metric.name, arm.name) for arm in index.answered for metric, _ in _effects(index, arm)}
        return Lead(leads=True, follow=frozenset(shown))

    def answer(self, index: Index, data: AtLoad) -> list[Sentence]:
        arms = [arm for context in index.contexts for arm in context.shown_arms]
        costs = {arm.name: text for arm in arms if (text := _sentence(index, data, arm))}
        overloaded = {each.arm for each in data.carried if not each.complete}
        verdicts = [text for name, text in costs.items() if name in overloaded]
        return [
            *sentences("warning" if verdicts else "leading_warning", _saturations(data, arms)),
            *sentences("answer", [*costs.values()]),
            *sentences("verdict", verdicts[:1]),
            *sentences("room", [text for arm in index.answered if (text := _room(data, arm))]),
        ]

    def key_figures(self, index: Index, data: AtLoad) -> list[KeyFigure]:
        """Return the effects on a connection and a query, and the additional cores that the servers use."""
        return [figure for arm in index.answered for figure in _key_figures(index, data, arm)]

    def blocks(self, index: Index, data: AtLoad) -> Iterator[Block]:
        yield Paragraph(f"{fmt.capital(data.load.in_words)}.", label="Load.")
        for context in index.contexts:
            for arm in context.shown_arms:
                if rows := [*_rows(index, data, arm)]:
                    yield Table.of(HEAD, rows, title=f"{arm.label}{context.suffix}")
        if not isinstance(data.load, CommandRate):
            load = data.load
            how = "arrivals" if isinstance(load, Arrivals) else "paced" if load.per_second else "thinking"
            yield Paragraph(f"{METHOD[how]} {CORES_IN_USE.format(*load.operation)}", "note", media=FILES)


def _room(data: AtLoad, arm: Arm) -> str | None:
    """Return the sentence that says how many of this machine's cores the servers and the client need with an arm.

    Return None if the arm cannot carry the load, or if servers and client do not share this machine.
    """
    carried = next((each for each in data.carried if each.arm == arm.name), None)
    used = {each.who: each.used.value for each in data.cores if each.arm == arm.name}
    if carried is None or not carried.complete or data.machine_cores is None or len(used) < 2:
        return None
    links = carried.link_cores_needed or 0.0
    server, client, total = (fmt.number(each, 2) for each in (*used.values(), sum(used.values()) + links))
    network = ", with the simulated network," if links else ""
    return (
        f"With {arm.label}{arm.at}, the {carried.servers} ({server} cores) and the client ({client}){network} need "
        f"{total} of this machine's {data.machine_cores} cores at this load."
    )


def _cores(run: Run, load: Arrivals | Pool, arm: PlannedArm) -> Iterator[Cores]:
    """Yield the cores that the servers and the client used, from the rounds with readings of both arm and control."""
    both = [run.counted_slices(WORKLOAD, name) for name in (arm.control_arm or "", arm.name)]
    all_roles = dict.fromkeys(role for record in both[1] for role in _seconds(record))
    limited = {role for records in both for record in records for role in record.server_throttled_seconds}
    has_whole_machine = servers_are_here(run) and limited.isdisjoint(all_roles)
    for who, roles in (("servers", [role for role in all_roles if role != CLIENT]), ("client", [CLIENT])):
        by_round = in_common([_used(records, load, roles) for records in both])
        control, used = map(run.samples.units.means, by_round)
        if roles and len(used) >= ROUNDS_FOR_INTERVAL:
            numbers, added = run.samples.units.numbers(by_round[0]), difference(control, used)
            yield Cores(
                arm=arm.name,
                who=who,
                name=servers_in_words(run, roles) if who == "servers" else CLIENT,
                roles=sorted(roles),
                available=run.cores if who == "servers" and has_whole_machine else None,
                without=estimate(control),
                used=estimate(used),
                added=added,
                uneven=uneven_rounds(numbers, added, None, control, used),
            )


def _seconds(record: SliceRecord) -> dict[str, float]:
    """Return the CPU seconds of a slice by role. The role that simulates the lab's network links is left out."""
    seconds = {role: nanoseconds / 1e9 for role, nanoseconds in record.answer.cpu_ns.items()}
    return seconds | {role: used for role, used in record.server_cpu_seconds.items() if role != LINK_ROLE}


def _used(records: Sequence[SliceRecord], load: Arrivals | Pool, roles: Sequence[str]) -> dict[int, float]:
    """Return how many cores these roles (such as 'server') used together, by round.

    Cores = CPU seconds of an operation × the requested rate (or the measured rate, if no rate was requested). A role
    without a reading counts as 0. A slice without any readings of these roles is left out.
    """
    cores = {}
    for record in records:
        seconds = _seconds(record)
        if record.answer.operations and any(role in seconds for role in roles):
            per_second = load.per_second or record.answer.operations / record.answer.elapsed_ns * 1e9
            used = sum(seconds.get(role, 0.0) for role in roles)
            cores[record.round] = used / record.answer.operations * per_second
    return cores


def _sentence(index: Index, data: AtLoad, arm: Arm) -> str | None:
    """Return the sentences about an arm at the load: its costs, its p99 and its cores, or that it is overloaded."""
    carried = next((each for each in data.carried if each.arm == arm.name), None)
    far = f", {fmt.away(away)} away" if (away := data.round_trips_ms.get(arm.context)) else ""
    label = f"{arm.label}{'' if far else arm.at}"
    at = f"at {data.load.in_words}{far}"
    if carried is not None and not carried.complete:
        return f"{fmt.capital(label)} cannot carry {data.load.in_words}{far}. {_overloaded(data, carried)}"
    effects = [(metric, effect) for metric, effect in _effects(index, arm) if metric.headline]
    cores = [each for each in data.cores if each.arm == arm.name]
    if not effects:
        return f"With {label} {at}, {_cores_in_use(cores)}." if cores else None
    texts = [
        f"{fmt.capital(label)} {fmt.listed([_clause(metric, effect, index.unit) for metric, effect in effects])}, {at}"
    ]
    if tails := [text for metric, _ in effects if (text := _tail(index, metric, arm))]:
        texts.append(f"with {label}, {fmt.listed(tails)}")
    if cores:
        texts.append(f"with {label}, {_cores_in_use(cores)}")
    return " ".join(f"{fmt.capital(text)}." for text in texts)


def _key_figures(index: Index, data: AtLoad, arm: Arm) -> Iterator[KeyFigure]:
    for metric, effect in _effects(index, arm):
        if not metric.headline:
            continue
        words = fmt.with_article(metric.label)
        update = {"label": f"{words},{arm.at}" if arm.at else words, "words": f"{words}{arm.at}"}
        yield of_effect(index, metric, effect).model_copy(update=update)
    for each in data.cores:
        if each.arm == arm.name and each.who == "servers":
            words, of = f"cores of the {each.name}", each.available
            # The cores of a single role are its CPU time × the load. So they get the same verdict as this CPU time,
            # because two separate verdicts could contradict each other.
            metric_name = f"{WORKLOAD}.{CPU_PREFIX}{each.roles[0]}" if len(each.roles) == 1 else ""
            judged = index.effect(metric_name, arm.name)
            yield KeyFigure(
                name=CORES,
                arm=arm.protection,
                arm_label=arm.label,
                label=words if of is None else f"{words} (of {of})",
                words=words,
                unit=CORES,
                metrics=[metric_name] if metric_name else [],
                arms=arm.with_control,
                without=each.without.value,
                value=each.used.value,
                difference=each.added,
                verdict=judged.verdict if judged is not None else interval_verdict(each.added),
                margin=index.metrics[metric_name].margin if judged is not None else 0.0,
                available=of,
                uneven=each.uneven,
                control_label=index.control_label,
            )


def _effects(index: Index, arm: Arm) -> Iterator[tuple[Metric, Effect]]:
    for name in (CONNECTION, FIRST_QUERY, QUERY):
        if (effect := index.effect(name, arm.name)) is not None:
            yield index.metrics[name], effect


def _clause(metric: Metric, effect: Effect, unit: str) -> str:
    """Return a clause about an effect, such as 'adds 15.1 ms (95 % interval 14.2 to 16.0, +86 %) to a connection'."""
    what = fmt.with_article(metric.label)
    match effect.verdict:
        case Verdict.COSTS:
            return f"adds {_amount(effect, 1)} to {what}"
        case Verdict.SAVES:
            return f"shortens {what} by {_amount(effect, -1)}"
        case Verdict.NO_DIFFERENCE:
            return f"changes {what} by less than {fmt.share(metric.margin)}"
        case Verdict.NO_COST:
            return f"does not lengthen {what} by more than {fmt.share(metric.margin)}"
    if effect.rounds < FEWEST_ROUNDS:
        why = f"a verdict needs {FEWEST_ROUNDS} rounds and there were {effect.rounds}"
    elif hidden_by_noise(effect):
        why = "identical copies of the control differ as much"
    elif effect.difference.low <= 0 <= effect.difference.high:
        why = _why_it_includes_0(effect.uneven, unit)
    else:
        why = "it may be chance among the many effects that were tested"
    return f"has an unresolved effect on {what}: {_amount(effect, 1)}, because {why}"


def _why_it_includes_0(uneven: UnevenRounds | None, unit: str) -> str:
    """Return 'the interval includes 0' or, if that is due to uneven rounds, 'round 3 makes the interval include 0'."""
    if uneven is None or not uneven.rounds or uneven.without.low <= 0 <= uneven.without.high:
        return "the interval includes 0"
    makes = "makes" if len(uneven.rounds) == 1 else "make"
    return f"{rounds_in_words(uneven, unit)} {makes} the interval include 0"


def _amount(effect: Effect, sign: int) -> str:
    difference = effect.difference.through(lambda each: sign * each)
    return fmt.with_interval(difference, effect.unit, effect.printed_ratio)


def _tail(index: Index, metric: Metric, arm: Arm) -> str | None:
    """Return a clause such as 'the p99 of a query is 12 ms (control: 8 ms)'; None if there are too few operations."""
    values = [index.value(metric.name, name) for name in (arm.name, arm.control_arm or "")]
    known = [value for value in values if value is not None and value.operations >= operations_needed(99)]
    if len(known) < len(values):
        return None
    slow, usual = (fmt.with_unit(fmt.number(value.percentiles["p99"]), metric.unit) for value in known)
    return f"the p99 of a {metric.label} is {slow} (control: {usual})"


def _cores_in_use(cores: Sequence[Cores]) -> str:
    """Return a clause about the cores with and without the arm.

    For example: "the server keeps 0.56 of this machine's 2 cores busy (control: 0.18) and the client 0.33 (control:
    0.09)".
    """
    parts: list[str] = []
    for each in cores:
        decimals = max(2, fmt.estimate_decimals(each.added))
        used, without = (fmt.number(number.value, decimals) for number in (each.used, each.without))
        verb = ("keep" if each.name == "servers" else "keeps") if not parts else ""
        of = f" of this machine's {each.available}" if each.available is not None else ""
        busy = f"{of} cores busy" if not parts else ""
        parts.append(" ".join(filter(None, [f"the {each.name}", verb, f"{used}{busy} (control: {without})"])))
    if all(each.who == "client" for each in cores):
        parts[-1] += " (the servers' CPU time is unknown)"
    return fmt.listed(parts)


def _overloaded(data: AtLoad, carried: Carried) -> str:
    assert not isinstance(data.load, CommandRate)
    parts = []
    if not carried.serves_all:
        # Give the rate that was offered in the measured slices: arrivals are random, so it differs a little from the
        # requested rate.
        served, offered = fmt.number(carried.served), fmt.number(carried.offered or data.load.per_second or 0.0)
        arrived = f"Of the {offered} {data.load.operation[1]} a second that arrived"
        parts.append(f"{arrived}, {served} were served and the others waited.")
    if needed := _cores_needed(data, carried):
        parts.append(needed)
    if data.others_share > NOTABLE_SHARE_OF_OTHERS:
        parts.append(f"Other programs used {fmt.percent(data.others_share)} of this machine's CPU time.")
    overloaded = [each for each in data.carried if not each.complete]
    advice = f"try a load of {_next_load(overloaded)} a second{ELSEWHERE if data.servers_here else ''}"
    parts.append(f"The queue grows as long as the load lasts, so the measured times have no meaning: {advice}.")
    return " ".join(parts)


def _cores_needed(data: AtLoad, carried: Carried) -> str:
    """Return the sentence about the cores that the load needs with an arm; '' if its CPU time is unknown.

    For example: "For this load the server needs 1.40 cores and the client 0.73, together 106 % of this machine's 2
    cores."
    """
    who = (
        (f"the {carried.servers}", carried.server_cores_needed),
        ("the client", carried.client_cores_needed),
        ("the lab's simulated links", carried.link_cores_needed),
    )
    # The sentence ends with a share of this machine's cores. If the servers run on other machines, this is the share of
    # the client alone. So name the client last, next to the share.
    known = [(name, fmt.number(cores, 2)) for name, cores in who if cores is not None]
    if not known:
        return ""
    (first, cores), *others = known
    verb = "need" if first == "the servers" else "needs"
    texts = [f"{first} {verb} {cores} cores", *(f"{name} {number}" for name, number in others)]
    share = ""
    if carried.machine_share_needed is not None:
        together = "together " if data.servers_here and others else ""
        share = (
            f", {together}{fmt.percent(carried.machine_share_needed)} of this machine's {data.client_machine_cores} "
            "cores"
        )
    return f"For this load {fmt.listed(texts)}{share}."


def _saturations(data: AtLoad, arms: Sequence[Arm]) -> list[str]:
    """Return warnings of arms that carried the load but left hardly any CPU time free, the busiest arm first."""
    carried = {each.arm: each for each in data.carried if each.complete and (each.machine_busy or 0.0) >= SATURATED}
    saturated = [(arm, carried[arm.name]) for arm in arms if arm.name in carried]
    # A warning beside an overloaded arm must not suggest a load that this arm cannot carry.
    overloaded = [each for each in data.carried if not each.complete]
    return [
        SATURATION.format(
            arm=f"{arm.label}{arm.at}",
            busy=fmt.percent(each.machine_busy or 0.0),
            load=_next_load([each, *overloaded]),
            elsewhere=ELSEWHERE if data.servers_here else "",
        )
        for arm, each in sorted(saturated, key=lambda each: each[1].machine_busy or 0.0, reverse=True)
    ]


def _next_load(carried: Sequence[Carried]) -> str:
    """Return a load, rounded down to two digits, at which the machine has free CPU time with each of these arms."""
    value = min(map(_comfortable_load, carried))
    size = 10.0 ** (math.floor(math.log10(value)) - 1) if value > 0 else 1.0
    return fmt.number(math.floor(value / size) * size, 0 if value >= 10 else fmt.significant_decimals(value, 2))


def _comfortable_load(carried: Carried) -> float:
    value = carried.served * min(MOST_OF_SERVED, COMFORTABLE / (carried.machine_busy or 1.0))
    if carried.offered and carried.machine_share_needed:
        value = min(value, carried.offered * COMFORTABLE / carried.machine_share_needed)
    return value


def _rows(index: Index, data: AtLoad, arm: Arm) -> Iterator[list[str | Text]]:
    for metric, effect in _effects(index, arm):
        before, after = (fmt.number(each) for each in (effect.control_value, effect.value))
        more = fmt.absolute(effect.difference, signed=True)
        relative = fmt.relative(effect.printed_ratio) if effect.printed_ratio else fmt.NONE
        yield [fmt.titled(metric.label, metric.unit), before, after, more, relative]
        values = [index.value(metric.name, name) for name in (arm.control_arm or "", arm.name)]
        for percentile in ("p50", "p99"):
            enough = operations_needed(float(percentile[1:]))
            known = [value for value in values if value is not None and value.operations >= enough]
            shown = [fmt.number(value.percentiles[percentile]) for value in known]
            if len(shown) == len(values):
                yield [fmt.titled(f"{metric.label}, {percentile}", metric.unit), *shown, fmt.NONE, fmt.NONE]
    if isinstance(data.load, Pool) and data.load.per_second is None:
        rates = {each.arm: fmt.number(each.served) for each in data.carried}
        if arm.name in rates:
            yield [
                f"{data.load.operation[1]} a second",
                rates.get(arm.control_arm or "", ""),
                rates[arm.name],
                fmt.NONE,
                fmt.NONE,
            ]
    for each in data.cores:
        if each.arm == arm.name:
            roles = fmt.listed(each.roles)
            decimals = max(2, fmt.estimate_decimals(each.added))
            before, after = (fmt.number(value, decimals) for value in (each.without.value, each.used.value))
            added = fmt.absolute(each.added, signed=True, decimals=decimals)
            yield [f"cores ({roles})", before, after, added, fmt.NONE]


SECTION = LoadSection()
