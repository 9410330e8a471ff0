"""The page of a campaign: the template `truth.md.jinja`, filled in with figures from the campaign's rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from statistics import median

import jinja2

from costof import format as fmt
from costof.report.markdown import pipe_table
from costof.statistics.intervals import FEWEST_ROUNDS
from truth.design import (
    BENCHMARKER,
    CELLS,
    COLD_REQUESTS,
    DISTURBED,
    DOUBLED,
    EARLIER,
    MAIN,
    NOTHING,
    PAIR_SECONDS,
    PEERS,
    SERVICES,
    SLOW_TAIL,
    SPELL_EVERY_NS,
    Cost,
    Sizes,
    trials,
)
from truth.figures import (
    COVERAGE,
    FOUND,
    LEAST_FOUND,
    MOST_FALSE,
    MOST_OF_EARLIER,
    PLACES,
    TAIL_TOLERANCE,
    TOLERANCE,
    Case,
    Proportion,
    Speed,
    busy,
    cases,
    errors,
    in_words,
    least_found,
    replicates,
    speeds,
    tail_errors,
)
from truth.rows import EffectRow, PeerRow, Row, Rows
from truth.whole_figures import (
    Commands,
    QuickProfile,
    commands,
    identical,
    judged_different,
    peer_judged_different,
    quick_profiles,
)

TEMPLATE = Path(__file__).with_name("truth.md.jinja")
PAGE, FOLDER = "truth.md", "truth"
NS_PER_SECOND = 1e9
QUICK = [
    "study",
    "runs",
    "seconds of the whole command",
    "resolved in 9 of 10 runs",
    "smallest ratio of effect to half-width",
    "least often resolved",
]
COMMANDS = [
    "true cost",
    "",
    "median error of `costof`",
    "its intervals that contain the truth",
    '"costs"',
    f"median error of {BENCHMARKER}",
    "slower by more than its ±",
]
POWER = ["true cost", "", '"costs"', "or reported as intermittent", "or reported tail", "no cost above the margin"]


def write(rows: Rows, folder: Path, sizes: Sizes) -> bool:
    """Write the data tables into the folder's subfolder `truth`, and `truth.md` with its pictures.

    Return False, without writing the page, if some true cost or some kind of trial has no rows yet.
    """
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    rows.write_parquet(folder / FOLDER)
    by_truth = cases(rows.effects)
    missing = {(*_key(cost), disturbed) for cost, disturbed in product(CELLS, DISTURBED)}
    missing -= {(*case.cost, case.disturbed) for case in by_truth}
    tails = {row.added_share for row in rows.tails} >= {NOTHING.share, SLOW_TAIL.share}
    services = {row.service for row in rows.effects} >= {*SERVICES}
    if missing or not (tails and services and rows.peers and commands(rows.pairs)):
        return False
    from truth.pictures import draw  # imported late, because it imports matplotlib, which is slow

    draw(rows.effects, speeds(rows.effects), folder / FOLDER)
    template = jinja2.Template(TEMPLATE.read_text(), keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    (folder / PAGE).write_text(template.render(_about(rows, by_truth, sizes), **_tables(rows, by_truth)))
    return True


def _key(cost: Cost) -> tuple[str, float, bool]:
    return cost.payers, cost.share, cost.carry_over


def _about(rows: Rows, by_truth: Sequence[Case], sizes: Sizes) -> dict[str, object]:
    every: list[Row] = [*rows.effects, *rows.peers, *rows.tails, *rows.quick, *rows.pairs]
    done = {row.trial: row for row in every}
    spells = [case for case in by_truth if case.payers == DOUBLED[1].payers]
    return {
        "quick": sizes.quick,
        "done": sum(rows.has(trial) for trial in trials(sizes)),
        "planned": len(trials(sizes)),
        "runs": len({row.trial for row in rows.effects}),
        "pairs": len(rows.peers),
        "captures": len({row.trial for row in rows.tails}),
        "quick_runs": len({row.trial for row in rows.quick}),
        "identical": len(identical(rows.pairs)),
        "commands": len(rows.pairs) - len(identical(rows.pairs)),
        "benchmarker": BENCHMARKER,
        "pair_seconds": PAIR_SECONDS,
        "cold": COLD_REQUESTS,
        "clearest": _clearances(quick_profiles(rows.quick)),
        "peer_off": _off(row.peer_ratio - 1 for row in identical(rows.pairs)),
        "costof_off": _off(row.ratio - 1 for row in identical(rows.pairs)),
        "analysed_again": len({row.trial for row in rows.effects if row.judged_anew}),
        "analysis_commits": _listed(row.judged_anew for row in rows.effects if row.judged_anew),
        "commits": _listed(row.commit for row in done.values()),
        "starts": len({row.boot for row in every}),
        "machines": fmt.listed(sorted({_machine(row) for row in every})),
        "busy": busy(done.values()).counted,
        "load": f"{median(row.load for row in done.values()):.1f}",
        "earlier": EARLIER,
        "fewest_rounds": FEWEST_ROUNDS,
        "seconds": sizes.budget_seconds,
        "tolerance": f"{TOLERANCE:.0%}",
        "found_share": f"{FOUND:.0%}",
        "found_alone": _found_from(by_truth, False),
        "found_beside": _found_from(by_truth, True),
        "spells_seen": f"{sizes.budget_seconds * NS_PER_SECOND / SPELL_EVERY_NS:.0f}",
        "long_run": "; ".join(f"{case.place} {case.covered_in_the_long_run}" for case in spells),
    }


def _machine(row: Row) -> str:
    return f"{fmt.plural(row.cores, 'core')} of {row.machine or 'an unknown CPU'}"


def _off(errors: Iterable[float]) -> str:
    sizes = [*map(abs, errors)]
    return f"{median(sizes):.1%}" if sizes else ""


def _listed(commits: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(f"`{each}`" for each in commits))


def _tables(rows: Rows, by_truth: Sequence[Case]) -> dict[str, str]:
    return {
        "goals": pipe_table(["figure", "goal", "result", "goal met"], _goals(rows, by_truth)),
        "coverage": pipe_table(
            ["true cost", "", "intervals that contain it", "intervals of ratios that do", "half-width", "median error"],
            [_coverage(each) for each in by_truth],
        ),
        "services": pipe_table(
            ["service", "", "intervals that contain the truth", "half-width", "the same for replicates"],
            [*_services(rows.effects)],
        ),
        "by_machine": _by_machine(rows.effects),
        "carry_over": pipe_table(
            ["true cost", "", "the report says that the order matters", '"costs"', "intervals that contain the truth"],
            [_carry_over(each) for each in by_truth if each.carry_over or each.cost == _key(NOTHING)],
        ),
        "commands_table": pipe_table(COMMANDS, [*map(_commands, commands(rows.pairs))]),
        "power": pipe_table(POWER, [_power(each) for each in by_truth]),
        "speeds": _speeds(speeds(rows.effects)),
        "tails": pipe_table(
            ["queries", "", "packet capture", "engine against it, median", "largest difference"], _tails(rows)
        ),
        "profiles": pipe_table(QUICK, [*map(_quick, quick_profiles(rows.quick))]),
        "peers": pipe_table(["true cost", "", *PEERS, "`costof`", "its intervals that miss the truth"], _peers(rows)),
    }


def _goals(rows: Rows, by_truth: Sequence[Case]) -> Iterator[list[str]]:
    for disturbed in DISTURBED:
        yield from _goals_of_runs([case for case in by_truth if case.disturbed is disturbed])
        of_replicates = Proportion.among(row.holds for row in replicates(rows.effects) if row.disturbed is disturbed)
        yield ["the same for replicates, whose true cost is 0", *_goal("93 to 97 %", of_replicates, *COVERAGE)]
    for cost in MAIN:
        held = Proportion.among(row.holds for case in by_truth if case.cost == _key(cost) for row in case.rows)
        where = f"{in_words(*_key(cost))}, alone and with the neighbour together"
        yield [f"95 % intervals that contain the truth, {where}", *_goal("93 to 97 %", held, *COVERAGE)]
    for case in by_truth:
        if case.carry_over:
            yield [
                f"95 % intervals that contain the truth, {case.truth}, {case.place}",
                *_goal("93 to 97 %", case.covered, *COVERAGE),
            ]
            if not case.added_share:
                wrong = _goal("at most 5 %", case.judged_different, 0, MOST_FALSE)
                yield [f'{case.truth}: identical arms with the verdict "costs" or "saves", {case.place}', *wrong]
    yield goal_of_speed(speeds(rows.effects))
    off = tail_errors(rows.tails, 99.0, SLOW_TAIL.share)
    result = f"{median(off):+.1%}, at most {max(off, key=abs):+.1%}, of {len(off)} slices"
    reached = "yes" if max(map(abs, off)) <= TAIL_TOLERANCE else "no"
    yield ["p99 against a packet capture, with one slow query in ten", "within 2 %", result, reached]
    for profile in quick_profiles(rows.quick):
        yield [
            f"headline effects of at least 10 % in `{profile.study} --profile quick` that 9 of 10 runs resolve",
            "all",
            f"{profile.resolved.counted}, in {len(profile.seconds)} runs",
            "yes" if profile.resolved.value == 1 else "no",
        ]
    if same := identical(rows.pairs):
        false = judged_different(same)
        yield ['identical commands with the verdict "costs" or "saves"', *_goal("at most 5 %", false, 0, MOST_FALSE)]
        peer = peer_judged_different(same)
        yield [f"the same pairs with {BENCHMARKER}: one faster by more than its ±", "", str(peer), ""]


def goal_of_speed(by_version: Sequence[Speed]) -> list[str]:
    by_tool = {each.tool: each for each in by_version}
    current, earlier = by_tool.get("costof"), by_tool.get(EARLIER)
    figure = f"seconds to a verdict on a true cost of 10 % of a query of 0.1 ms, against `{EARLIER}`"
    if current is None or earlier is None:
        return [figure, "at most half", "not measured yet", ""]
    new, old = median(current.current), median(earlier.earlier)
    reached = "yes" if math.isfinite(new) and new <= MOST_OF_EARLIER * old else "no"
    result = f"{_seconds(new)} against {_seconds(old)}, for a query of {current.query_ms:.3f} ms"
    return [figure, "at most half", result, reached]


def _goals_of_runs(every: Sequence[Case]) -> Iterator[list[str]]:
    """Yield lines of the table of goals for these cases, which all ran either with or without the disturbing process.

    Cases with carry-over have lines of their own.
    """
    same = [case for case in every if not case.carry_over]
    where = same[0].place
    covered = Proportion.among(row.holds for case in same for row in case.rows)
    yield [f"95 % intervals that contain the truth, {where}", *_goal("93 to 97 %", covered, *COVERAGE)]
    ratios = Proportion.among(row.ratio_holds for case in same for row in case.rows)
    yield [f"the same for ratios, {where}", *_goal("93 to 97 %", ratios, *COVERAGE)]
    for case in (each for each in same if each.cost in map(_key, MAIN)):
        goal, result, reached = _goal("93 to 97 %", case.covered, *COVERAGE)
        yield [f"the same for {case.truth}, {where}", goal, f"{result}; half-width {_half_width(case)}", reached]
    worst = min(same, key=lambda case: case.covered.value)
    yield [
        f"the same for the worst of {len(same)} true costs ({worst.truth})",
        *_goal("93 to 97 %", worst.covered, *COVERAGE),
    ]
    off = Proportion.among(case.covered.reaches(*COVERAGE) == "no" for case in same)
    yield [f"true costs whose share is surely outside, {where}", "none", off.counted, "no" if off.count else "yes"]
    nothing = next(case for case in same if case.cost == _key(NOTHING))
    false = _goal("at most 5 %", nothing.judged_different, 0, MOST_FALSE)
    yield [f'identical arms with the verdict "costs" or "saves", {where}', *false]
    for cost in DOUBLED:
        doubled = next(each for each in same if each.cost == _key(cost))
        noticed = _goal("at least 90 %", doubled.noticed, LEAST_FOUND, 1)
        yield [f'{doubled.truth}: "costs" or reported as intermittent, {where}', *noticed]


def _half_width(case: Case) -> str:
    return f"±{case.half_width:.1%}"


def _quick(profile: QuickProfile) -> list[str]:
    large = profile.large
    worst = min(large, key=lambda each: each.resolved.value, default=None)
    least_often = (
        f"{worst.metric} of {worst.arm}: {worst.resolved.counted}" if worst and worst.resolved.value < 1 else "–"
    )
    seconds = f"{median(profile.seconds):.0f} s, at most {max(profile.seconds):.0f}"
    least = f"{min(each.clearance for each in large):.1f}" if large else "–"
    return [f"`{profile.study}`", str(len(profile.seconds)), seconds, profile.resolved.counted, least, least_often]


def _clearances(profiles: Sequence[QuickProfile]) -> str:
    """Return the median, over all large effects, of effect / half-width of its interval; '' without large effects."""
    clearances = [each.clearance for profile in profiles for each in profile.large]
    return f"{median(clearances):.0f}" if clearances else ""


def _goal(goal: str, proportion: Proportion, low: float, high: float) -> list[str]:
    return [goal, str(proportion), proportion.reaches(low, high)]


def _speeds(by_version: Sequence[Speed]) -> str:
    """Return a table of how long runs took to reach a verdict, or '' if no run measured this."""
    head = ["time of a query", "slices of", "time of a round", "current analysis", f"analysis of `{EARLIER}`"]
    lines = [
        [
            f"{each.query_ms:.3f} ms",
            each.version,
            f"{each.round_seconds:.2f} s",
            _median_of(each.current),
            _median_of(each.earlier),
        ]
        for each in by_version
    ]
    return pipe_table(head, lines) if lines else ""


def _median_of(times: Sequence[float]) -> str:
    """Return text with the median time, and with the number of arms that reached a verdict (whose time is finite)."""
    return f"{_seconds(median(times))} ({sum(map(math.isfinite, times))} of {len(times)} arms)"


def _seconds(time: float) -> str:
    return f"{time:.1f} s" if math.isfinite(time) else "none"


def _tails(rows: Rows) -> Iterator[list[str]]:
    for cost, name in ((NOTHING, "all equal"), (SLOW_TAIL, "one in ten slow")):
        for percentile in (50.0, 99.0):
            same = [row for row in rows.tails if (row.percentile, row.added_share) == (percentile, cost.share)]
            off = tail_errors(same, percentile, cost.share)
            packets = f"{median(row.captured for row in same):,.0f} µs"
            yield [name, f"p{percentile:g}", packets, f"{median(off):+.1%}", f"{max(off, key=abs):+.1%}"]


def _peers(rows: Rows) -> Iterator[list[str]]:
    """Yield a table line for each true cost, with the errors of each tool."""
    for case in cases(row for row in rows.effects if row.service == "http"):
        same = [
            row
            for row in rows.peers
            if (row.payers, row.added_share, row.carry_over, row.disturbed) == (*case.cost, case.disturbed)
        ]
        by_tool = [_wrong(row for row in same if row.tool == tool) for tool in PEERS]
        missed = Proportion.among(not row.holds for row in case.rows)
        yield [*_case(case), *by_tool, _wrong(case.rows), missed.counted]


def _power(case: Case) -> list[str]:
    shares = (case.judged_costs, case.noticed, case.noticed_at_all, case.judged_no_cost)
    return [*_case(case), *map(str, shares)]


def _coverage(case: Case) -> list[str]:
    held = [str(case.covered), str(case.ratios_covered)]
    return [*_case(case), *held, _half_width(case), f"{case.error:+.2%}"]


def _carry_over(case: Case) -> list[str]:
    return [*_case(case), *map(str, (case.carry_over_reported, case.judged_costs, case.covered))]


def _commands(each: Commands) -> list[str]:
    shares = (each.covered.counted, each.judged_costs.counted)
    peer = (f"{each.peer_error:.1%}", each.peer_slower.counted)
    return [in_words(*each.cost), PLACES[each.disturbed], f"{each.error:.1%}", *shares, *peer]


def _by_machine(effects: Sequence[EffectRow]) -> str:
    """Return a table of the share of intervals that contain the truth, for each boot of a machine; '' for one boot."""
    groups: dict[tuple[str, str], list[EffectRow]] = {}
    for row in effects:
        if row.trial_kind == "effect" and not row.is_replicate:
            groups.setdefault((_machine(row), row.boot), []).append(row)
    lines = []
    for number, ((machine, _), same) in enumerate(groups.items(), 1):
        halves = median((row.high - row.low) / 2 / row.control for row in same)
        lines.append([f"{number}: {machine}", str(Proportion.among(row.holds for row in same)), f"±{halves:.1%}"])
    return pipe_table(["machine or boot", "intervals that contain the truth", "half-width"], lines) if lines[1:] else ""


def _services(effects: Sequence[EffectRow]) -> Iterator[list[str]]:
    """Yield lines with shares of intervals that contain the truth, among protected arms and among copies of controls.

    There are two lines for each service: without and with the disturbing process.
    """
    for service, disturbed in product(SERVICES, DISTURBED):
        matching = [row for row in effects if (row.service, row.disturbed) == (service, disturbed)]
        chosen = [row for row in matching if row.trial_kind == "effect" and not row.is_replicate]
        if not chosen:
            continue
        half = median((row.high - row.low) / 2 / row.control for row in chosen)
        held = [Proportion.among(row.holds for row in each) for each in (chosen, replicates(matching))]
        yield [service, PLACES[disturbed], str(held[0]), f"±{half:.1%}", str(held[1])]


def _wrong(rows: Iterable[PeerRow | EffectRow]) -> str:
    sizes = errors(rows)
    wrong = sum(error > TOLERANCE for error in sizes)
    return f"{wrong} of {len(sizes)}, median error {median(sizes):.1%}" if sizes else ""


def _found_from(by_truth: Sequence[Case], disturbed: bool) -> str:
    least = least_found(by_truth, disturbed)
    return "none" if least is None else f"{100 * least:g} % and above"


def _case(case: Case) -> list[str]:
    return [case.truth, case.place]
