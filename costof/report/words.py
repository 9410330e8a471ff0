"""The sentences every report says in the same words: verdict summary, break-even, noise floor, CPU, errors.

All are computed from the result; a sentence that the data cannot carry is left out rather than softened.
"""

from __future__ import annotations

from dataclasses import dataclass

from costof.analysis.result import BreakEven, Cpu, NoiseFloor, Value
from costof.document import format as fmt
from costof.report.reading import Reading, Setting

NO_ROUNDS = "No round was completed, so there is no figure to show."
NO_EFFECTS = "No arm could be compared with the control, so there is no cost to show."
NO_ANSWER = "This run has no answer: it measured too little to say anything of the question."
INTERVALS = "Brackets hold the 95 % interval over rounds."
LINK_HEAD = ["link", "method", "asked for", "median", "off by", "99 % within", "probes"]
WORTH_A_WORD = 0.005
"""A smaller share of the time without CPU explains nothing."""
NO_NETWORK = "This file needs no network; it can be kept with the decision it supports."


@dataclass(frozen=True)
class CpuLine:
    """CPU of one workload on one arm, as printed; the arm is said without its context."""

    workload: str
    arm: str
    roles: dict[str, str]
    total: str
    busiest: str | None
    limits: dict[str, str]
    """By the headings of `cpu_limits`: shares of the time in which CPU was wanted and not had."""


def subtitle(reading: Reading) -> str:
    """Study, profile, rounds and time: what somebody asks first of a number."""
    result = reading.result
    measured = f"{fmt.duration(result.measured_seconds)} measured"
    return " · ".join([result.study, f"profile {result.profile}", fmt.plural(result.rounds, "round"), measured])


def empty_reason(reading: Reading) -> str | None:
    """Why there is no figure at all, or None where there are some."""
    if reading.result.rounds == 0:
        return NO_ROUNDS
    return None if reading.views else NO_EFFECTS


def break_evens(reading: Reading) -> list[str]:
    """The run's own sentences where it has some, else one for each point; never both."""
    sentences = [sentence.text for sentence in reading.sentences("break_even")]
    points = [item for item in reading.result.break_even if item.arm in {arm.name for arm in reading.nearest.arms}]
    return sentences or [break_even(item, reading) for item in points]


def break_even(item: BreakEven, reading: Reading) -> str:
    """'TLS 1.3 costs under 5 % from 52 operations a connection on [48, 57] (wire)'."""
    arm = reading.arm(item.arm)
    where = arm.at if arm else ""
    subject = f"{reading.label(item.arm)} costs under {fmt.share(item.share)}"
    if item.operations is None:
        if item.low is None:
            return f"{subject} at no number of operations a connection ({item.view}{where})."
        return (
            f"{subject} from {operations(item.low)} operations a connection at the earliest, or never: this run cannot "
            f"tell which ({item.view}{where})."
        )
    low = operations(item.low or 0)
    bounds = f"[{low}, {operations(item.high)}]" if item.high is not None else f"[{low}, no upper end in this run]"
    return f"{subject} from {operations(item.operations)} {bounds} operations a connection on ({item.view}{where})."


def break_even_table(reading: Reading) -> tuple[list[str], list[list[str]]] | None:
    """Head and rows of all points where there are several settings: a row an arm, a column a setting and share."""
    points = {(item.view, item.arm, item.share): item for item in reading.result.break_even}
    if not reading.many_settings or not points:
        return None
    shares = sorted({share for *_, share in points}, reverse=True)
    columns = [(setting, share) for setting in reading.settings for share in shares]
    rows = []
    for view in dict.fromkeys(view for view, *_ in points):
        for protection, label in reading.protections.items():
            found = [points.get((view, _named(setting, protection), share)) for setting, share in columns]
            rows.append([f"{label} ({view})", *(_break_even_cell(item) for item in found)])
    return ["with", *(f"{setting.context}: {fmt.share(share)}" for setting, share in columns)], rows


def _named(setting: Setting, protection: str) -> str:
    return next((arm.name for arm in setting.arms if arm.protection == protection), "")


def _break_even_cell(item: BreakEven | None) -> str:
    if item is None:
        return fmt.NONE
    if item.operations is None:
        return "never" if item.low is None else f"over {operations(item.low)}"
    if item.high is not None and item.high <= 1:
        return "always"
    high = operations(item.high) if item.high is not None else "no end"
    return f"{operations(item.operations)} [{operations(item.low or 0)}, {high}]"


def operations(value: float) -> str:
    """Operations of a connection are whole: rounded up, since at the one below the share is not yet kept."""
    return fmt.number(-(-value // 1), 0)


def noise_floor(reading: Reading) -> str | None:
    """The largest difference between control and twin: below it a difference is the run's own noise."""
    floors = headline_noise(reading)
    if not floors:
        return None
    worst = max(floors, key=lambda floor: floor.relative)
    metric = reading.metrics.get(worst.metric)
    unit = metric.unit if metric else ""
    where = reading.at(worst.context)
    amount = fmt.with_unit(fmt.number(worst.absolute, fmt.significant_decimals(worst.absolute, 2)), unit)
    return (
        f"Two identical copies of {reading.control_name} differ by up to {percent(worst.relative)} ({amount}, "
        f"{worst.metric}{where}): a difference below that is this run's own noise."
    )


def headline_noise(reading: Reading) -> list[NoiseFloor]:
    """The floors of the headline metrics, or all of them where no headline metric has one."""
    headline = {metric.name for metric in reading.headline_metrics}
    floors = reading.result.noise_floor
    return [floor for floor in floors if floor.metric in headline] or floors


def percent(relative: float) -> str:
    """A relative size in percent with two significant digits."""
    value = relative * 100
    return fmt.with_unit(fmt.number(value, min(2, fmt.significant_decimals(value, 2))), "%")


def published_source(reading: Reading) -> str | None:
    """Where the published figures are from, when, and in which setting."""
    published = reading.result.published
    if published is None:
        return None
    return f"Published: {published.source}, {published.date}. {published.setting.rstrip('.')}."


def cpu_roles(reading: Reading) -> list[str]:
    """All roles that used CPU, in the order the run names them."""
    return list(dict.fromkeys(role for cpu in reading.result.cpu for role in cpu.seconds_per_1000))


def cpu_lines(reading: Reading, setting: Setting) -> list[CpuLine]:
    """One line a workload and arm of a setting; the twin is left out, as in every list of costs."""
    of = {arm.name for arm in reading.result.arms if arm.context == setting.context and not arm.twin}
    order = list(dict.fromkeys(cpu.workload for cpu in reading.result.cpu))
    shown = sorted((cpu for cpu in reading.result.cpu if cpu.arm in of), key=lambda cpu: order.index(cpu.workload))
    return [_cpu_line(cpu, reading.short(cpu.arm)) for cpu in shown]


def _cpu_line(cpu: Cpu, arm: str) -> CpuLine:
    roles = {role: fmt.number(seconds, cpu_decimals(seconds)) for role, seconds in cpu.seconds_per_1000.items()}
    total = sum(cpu.seconds_per_1000.values())
    return CpuLine(
        workload=cpu.workload,
        arm=arm,
        roles=roles,
        total=fmt.number(total, cpu_decimals(total)),
        busiest=cpu.busiest,
        limits={name: percent(share) for name, share in _limits(cpu).items() if share >= WORTH_A_WORD},
    )


def _limits(cpu: Cpu) -> dict[str, float]:
    return {**{f"{role} held back": share for role, share in cpu.held_back.items()}, "steal": cpu.steal}


def cpu_limits(reading: Reading) -> list[str]:
    """Headings that say who waited for CPU: roles whose share was used up, and steal; none where nobody did."""
    found = [_limits(cpu) for cpu in reading.result.cpu]
    names = dict.fromkeys(name for each in found for name in each)
    return [name for name in names if any(each.get(name, 0.0) >= WORTH_A_WORD for each in found)]


def cpu_decimals(seconds: float) -> int:
    """Three significant digits, down to the millisecond: the counters see no less."""
    return min(3, fmt.significant_decimals(seconds))


def bottlenecks(reading: Reading) -> list[str]:
    """Who was near a whole core, the load generator first: then the run measured itself."""
    arms: dict[tuple[str, str, str], list[str]] = {}
    for cpu in reading.result.cpu:
        arm = reading.arm(cpu.arm)
        if cpu.busiest and cpu.arm not in reading.twins:
            where = arm.at if arm else ""
            arms.setdefault((cpu.busiest, cpu.workload, where), []).append(reading.short(cpu.arm))
    busy = sorted(arms.items(), key=lambda item: item[0][0] != "client")
    return [f"{role} used most of one core in {work} on {fmt.listed(names)}{at}." for (role, work, at), names in busy]


def error_lines(reading: Reading) -> list[str]:
    """One line a class, arm and workload: how many, and the first of them."""
    return [
        f"{error.count:,} × {error.error_class} in {error.workload} on {error.arm}; the first: {error.detail}"
        for error in reading.result.errors
    ]


def near_end(reading: Reading) -> str | None:
    """Which protections count round trips that cross no link in a connection; the cost model leaves them out."""
    model = reading.result.cost_model
    found = []
    for cost in model.operations if model else []:
        arm = next((arm for arm in reading.nearest.shown_arms if arm.protection == cost.protection), None)
        value = reading.value(cost.metric, arm.name) if arm and cost.operation == "connection" else None
        if value and value.round_trips is not None and value.round_trips - cost.round_trips > 0.5:
            found.append(cost.label)
    if not found:
        return None
    return f"With {fmt.listed(found)} TCP goes to the near end of the tunnel alone: a round trip that crosses no link."


def thrown_out(reading: Reading) -> int:
    """Slices in no figure because their evidence was not the arm's."""
    return sum(evidence.thrown_out for arm in reading.result.arms for evidence in arm.evidence)


def link_rows(reading: Reading) -> list[list[str]]:
    """What was measured on each link, beside what was asked for."""
    return [
        [
            link.name,
            link.method,
            fmt.milliseconds(link.asked_ms),
            fmt.milliseconds(link.median_ms),
            fmt.with_unit(fmt.number(link.median_ms - link.asked_ms, 3, signed=True), "ms"),
            fmt.milliseconds(link.p99_ms),
            f"{link.probes:,}",
        ]
        for link in reading.result.links
    ]


def method(reading: Reading) -> list[str]:
    """How the figures were made, from this run's own settings."""
    result = reading.result
    arms = fmt.plural(len(result.arms), "arm")
    lines = [
        f"Each round holds one slice of every workload on each of {arms}, in a random order (seed {result.seed}), so "
        "that drift of a shared machine hits all arms alike.",
        "An effect is the trimmed mean of the rounds' paired differences (relative effects: of log ratios); its 95 % "
        "interval is taken over rounds, not over single operations.",
        "A verdict is corrected for the number of effects that are judged, so it can stay “unresolved” where the "
        "uncorrected interval printed here just leaves out zero.",
        "“No cost above x %” is the outcome of an equivalence test against that margin; “unresolved” means that this "
        "run cannot tell.",
    ]
    if result.precision_asked is not None:
        lines.append(
            f"The run was to go on until every headline effect was known to within {fmt.share(result.precision_asked)} "
            "or its budget was spent."
        )
    if result.rounds_asked is not None:
        lines.append(f"The run was to end after exactly {fmt.plural(result.rounds_asked, 'round')}, however precise.")
    return lines


def phase_cell(value: Value | None, unit: str) -> str:
    """'1.85 ms, 1 round trip, 642 B out, 1.31 kB in'; a dash where the arm has no such phase."""
    if value is None or value.mean.value == 0:
        return fmt.NONE
    parts = [fmt.absolute(value.mean, unit).value]
    if value.round_trips is not None:
        parts.append(round_trips(value.round_trips))
    if value.bytes_sent is not None and value.bytes_received is not None and value.bytes_sent + value.bytes_received:
        parts.append(f"{fmt.bytes_text(value.bytes_sent)} out, {fmt.bytes_text(value.bytes_received)} in")
    return ", ".join(parts)


def round_trips(counted: float) -> str:
    """'1 round trip', '2.98 round trips'."""
    text = fmt.count(counted)
    return f"{text} round trip" if text == "1" else f"{text} round trips"


def signed_percent(relative: float) -> str:
    """'+38 %', '+0.95 %': a relative change without an interval, two digits."""
    value = relative * 100
    return fmt.with_unit(fmt.number(value, min(2, fmt.significant_decimals(value, 2)), signed=True), "%")


def errors_summary(reading: Reading) -> str:
    """'4 operations failed: 3 timeout, 1 reset.'"""
    classes: dict[str, int] = {}
    for error in reading.result.errors:
        classes[error.error_class] = classes.get(error.error_class, 0) + error.count
    parts = [f"{number:,} {name}" for name, number in classes.items()]
    return f"{fmt.plural(sum(classes.values()), 'operation')} failed: {fmt.listed(parts)}."
