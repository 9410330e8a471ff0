"""The page of a campaign (`truth.md.jinja`), filled in from its rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from statistics import median

import jinja2

from costof.statistics.intervals import FEWEST_ROUNDS
from truth.design import (
    BENCHMARKER,
    DOUBLED,
    EARLIER,
    NOTHING,
    PAIR_SECONDS,
    PEERS,
    SERVICES,
    SLOW_TAIL,
    SPELL_EVERY_NS,
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
    least_found,
    speeds,
    tail_errors,
)
from truth.rows import EffectRow, PeerRow, Row, Rows
from truth.whole_figures import QuickProfile, peer_said_to_differ, quick_profiles, said_to_differ

TEMPLATE = Path(__file__).with_name("truth.md.jinja")
PAGE, FOLDER = "truth.md", "truth"
NS_PER_SECOND = 1e9
QUICK = [
    "study",
    "runs",
    "seconds, of the whole command",
    "resolved in 9 of 10 runs",
    "least clearance",
    "seldom resolved",
]
POWER = ["true cost", "", '"costs"', "or called intermittent", "or its tail told", "none above the margin"]


def write(rows: Rows, folder: Path, sizes: Sizes) -> None:
    """`truth.md` in a folder, with pictures and tables of data in `truth` beside it; no page before there is a run of
    each kind."""
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    rows.write_parquet(folder / FOLDER)
    if rows.effects and rows.peers and rows.tails:
        from truth.pictures import draw  # matplotlib, which whoever reads the page alone does not need

        draw(rows.effects, speeds(rows.effects), folder / FOLDER)
        template = jinja2.Template(TEMPLATE.read_text(), keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
        of_truths = cases(rows.effects)
        (folder / PAGE).write_text(template.render(_about(rows, of_truths, sizes), **_tables(rows, of_truths)))


def _about(rows: Rows, of_truths: Sequence[Case], sizes: Sizes) -> dict[str, object]:
    every: list[Row] = [*rows.effects, *rows.peers, *rows.tails, *rows.quick, *rows.pairs]
    done = {row.trial: row for row in every}
    spells = [case for case in of_truths if case.payers == DOUBLED[1].payers]
    return {
        "quick": sizes.quick,
        "done": sum(rows.has(trial) for trial in trials(sizes)),
        "asked": len(trials(sizes)),
        "runs": len({row.trial for row in rows.effects}),
        "pairs": len(rows.peers),
        "captures": len({row.trial for row in rows.tails}),
        "quick_runs": len({row.trial for row in rows.quick}),
        "identical": len(rows.pairs),
        "benchmarker": BENCHMARKER,
        "pair_seconds": PAIR_SECONDS,
        "clearest": _clearances(quick_profiles(rows.quick)),
        "peer_off": f"{median(abs(row.peer_ratio - 1) for row in rows.pairs):.1%}" if rows.pairs else "",
        "own_off": f"{median(abs(row.ratio - 1) for row in rows.pairs):.1%}" if rows.pairs else "",
        "judged_anew": len({row.trial for row in rows.effects if row.judged_anew}),
        "judges": _listed(row.judged_anew for row in rows.effects if row.judged_anew),
        "commits": _listed(row.commit for row in done.values()),
        "starts": len({row.boot for row in every}),
        "cores": every[0].cores,
        "busy": busy(done.values()).counted,
        "load": f"{median(row.load for row in done.values()):.1f}",
        "earlier": EARLIER,
        "fewest_rounds": FEWEST_ROUNDS,
        "seconds": sizes.budget_seconds,
        "tolerance": f"{TOLERANCE:.0%}",
        "found_share": f"{FOUND:.0%}",
        "found_alone": _found_from(of_truths, False),
        "found_beside": _found_from(of_truths, True),
        "spells_seen": f"{sizes.budget_seconds * NS_PER_SECOND / SPELL_EVERY_NS:.0f}",
        "long_run": "; ".join(f"{case.place} {case.covered_in_the_long_run}" for case in spells),
    }


def _listed(commits: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(f"`{each}`" for each in commits))


def _tables(rows: Rows, of_truths: Sequence[Case]) -> dict[str, str]:
    return {
        "goals": _table(["figure", "must reach", "found", "reached"], _goals(rows, of_truths)),
        "coverage": _table(
            ["true cost", "", "intervals that hold it", "those of ratios", "half-width", "median error"],
            [_coverage(each) for each in of_truths],
        ),
        "services": _table(
            ["service", "", "intervals that hold the truth", "those of replicates"], [*_services(rows.effects)]
        ),
        "power": _table(POWER, [_power(each) for each in of_truths]),
        "speeds": _speeds(speeds(rows.effects)),
        "tails": _table(["queries", "", "between packets", "the engine's, median", "farthest"], _tails(rows)),
        "profiles": _table(QUICK, [*map(_quick, quick_profiles(rows.quick))]),
        "peers": _table(["true cost", "", *PEERS, "`costof`", "its interval missed it"], _peers(rows)),
    }


def _goals(rows: Rows, of_truths: Sequence[Case]) -> Iterator[list[str]]:
    for disturbed in (False, True):
        yield from _goals_of_runs([case for case in of_truths if case.disturbed is disturbed])
        replicates = Proportion.among(row.holds for row in rows.effects if row.is_twin and row.disturbed is disturbed)
        yield ["the same of replicates, whose truth is 0", *_told("93 to 97 %", replicates, *COVERAGE)]
    yield goal_of_speed(speeds(rows.effects))
    off = tail_errors(rows.tails, 99.0, SLOW_TAIL.share)
    told = f"{median(off):+.1%}, at most {max(off, key=abs):+.1%}, of {len(off)} slices"
    reached = "yes" if max(map(abs, off)) <= TAIL_TOLERANCE else "no"
    yield ["p99 against packets, where one query in ten is slow", "within 2 %", told, reached]
    for profile in quick_profiles(rows.quick):
        yield [
            f"headline effects of 10 % and more in `{profile.study} --profile quick`, resolved in 9 of 10 runs",
            "all",
            f"{profile.resolved.counted}, in {len(profile.seconds)} runs",
            "yes" if profile.resolved.value == 1 else "no",
        ]
    if rows.pairs:
        false = said_to_differ(rows.pairs)
        yield ['identical commands of which one "costs" or "saves"', *_told("5 % at most", false, 0, MOST_FALSE)]
        peer = peer_said_to_differ(rows.pairs)
        yield [f"the same pairs, by {BENCHMARKER}: one faster by more than its own ±", "", str(peer), ""]


def goal_of_speed(found: Sequence[Speed]) -> list[str]:
    by_tool = {each.tool: each for each in found}
    today, earlier = by_tool.get("costof"), by_tool.get(EARLIER)
    figure = f"seconds to a verdict on a true 10 % of a query of 0.1 ms, against all of `{EARLIER}`"
    if today is None or earlier is None:
        return [figure, "half at most", "not measured yet", ""]
    new, old = median(today.today), median(earlier.earlier)
    reached = "yes" if math.isfinite(new) and new <= MOST_OF_EARLIER * old else "no"
    told = f"{_seconds(new)} against {_seconds(old)}, of {today.query_ms:.3f} ms"
    return [figure, "half at most", told, reached]


def _goals_of_runs(same: Sequence[Case]) -> Iterator[list[str]]:
    """Return the goals of runs alone, or of those beside the neighbour."""
    where = same[0].place
    covered = Proportion.among(row.holds for case in same for row in case.rows)
    yield [f"95 % intervals that hold the truth, {where}", *_told("93 to 97 %", covered, *COVERAGE)]
    ratios = Proportion.among(row.ratio_holds for case in same for row in case.rows)
    yield [f"the same of ratios, {where}", *_told("93 to 97 %", ratios, *COVERAGE)]
    worst = min(same, key=lambda case: case.covered.value)
    yield [f"the least of {len(same)} truths ({worst.truth})", *_told("93 to 97 %", worst.covered, *COVERAGE)]
    off = Proportion.among(case.covered.reaches(*COVERAGE) == "no" for case in same)
    yield [f"truths of which the interval lies outside, {where}", "none", off.counted, "no" if off.count else "yes"]
    nothing = next(case for case in same if case.added_share == NOTHING.share)
    false = _told("5 % at most", nothing.said_to_differ, 0, MOST_FALSE)
    yield [f'identical arms of which one "costs" or "saves", {where}', *false]
    for cost in DOUBLED:
        doubled = next(each for each in same if (each.payers, each.added_share) == (cost.payers, cost.share))
        noticed = _told("90 % at least", doubled.noticed, LEAST_FOUND, 1)
        yield [f"{doubled.truth}, found or called intermittent, {where}", *noticed]


def _quick(profile: QuickProfile) -> list[str]:
    large = profile.large
    worst = min(large, key=lambda each: each.resolved.value, default=None)
    told = f"{worst.metric} of {worst.arm}: {worst.resolved.counted}" if worst and worst.resolved.value < 1 else "–"
    seconds = f"{median(profile.seconds):.0f} s, at most {max(profile.seconds):.0f}"
    least = f"{min(each.clearance for each in large):.1f}" if large else "–"
    return [f"`{profile.study}`", str(len(profile.seconds)), seconds, profile.resolved.counted, least, told]


def _clearances(profiles: Sequence[QuickProfile]) -> str:
    """Half of the effects that are to be resolved are clearer than this."""
    found = [each.clearance for profile in profiles for each in profile.large]
    return f"{median(found):.0f}" if found else ""


def _told(asked: str, found: Proportion, low: float, high: float) -> list[str]:
    return [asked, str(found), found.reaches(low, high)]


def _speeds(found: Sequence[Speed]) -> str:
    """Return a table; '' of nothing."""
    head = ["a query takes", "time is divided", "a round takes", "today's analysis", f"that of `{EARLIER}`"]
    lines = [
        [
            f"{each.query_ms:.3f} ms",
            f"as {each.way}",
            f"{each.round_seconds:.2f} s",
            _median_of(each.today),
            _median_of(each.earlier),
        ]
        for each in found
    ]
    return _table(head, lines) if lines else ""


def _median_of(times: Sequence[float]) -> str:
    """With how many of them have an end."""
    return f"{_seconds(median(times))} ({sum(map(math.isfinite, times))} of {len(times)} arms)"


def _seconds(time: float) -> str:
    return f"{time:.1f} s" if math.isfinite(time) else "none"


def _tails(rows: Rows) -> Iterator[list[str]]:
    for cost, name in ((NOTHING, "all alike"), (SLOW_TAIL, "one in ten is slow")):
        for percentile in (50.0, 99.0):
            same = [row for row in rows.tails if (row.percentile, row.added_share) == (percentile, cost.share)]
            off = tail_errors(same, percentile, cost.share)
            packets = f"{median(row.captured for row in same):,.0f} µs"
            yield [name, f"p{percentile:g}", packets, f"{median(off):+.1%}", f"{max(off, key=abs):+.1%}"]


def _peers(rows: Rows) -> Iterator[list[str]]:
    """How often each tool is wrong, by truth."""
    for case in cases(row for row in rows.effects if row.service == "http"):
        same = [
            row
            for row in rows.peers
            if (row.payers, row.added_share, row.disturbed) == (case.payers, case.added_share, case.disturbed)
        ]
        of_tools = [_wrong(row for row in same if row.tool == tool) for tool in PEERS]
        missed = Proportion.among(not row.holds for row in case.rows)
        yield [*_case(case), *of_tools, _wrong(case.rows), missed.counted]


def _power(case: Case) -> list[str]:
    found = (case.said_to_cost, case.noticed, case.noticed_at_all, case.said_to_be_none)
    return [*_case(case), *map(str, found)]


def _coverage(case: Case) -> list[str]:
    held = [str(case.covered), str(case.ratios_covered)]
    return [*_case(case), *held, f"±{case.half_width:.1%}", f"{case.error:+.2%}"]


def _services(effects: Sequence[EffectRow]) -> Iterator[list[str]]:
    """Which of the servers have intervals that are too narrow, of arms that may pay and of replicates."""
    of_runs = [row for row in effects if row.trial_kind == "effect"]
    for service, disturbed in product(SERVICES, (False, True)):
        of = [row for row in of_runs if (row.service, row.disturbed) == (service, disturbed)]
        held = [Proportion.among(row.holds for row in of if row.is_twin is replicate) for replicate in (False, True)]
        yield [service, PLACES[disturbed], *map(str, held)]


def _wrong(rows: Iterable[PeerRow | EffectRow]) -> str:
    found = errors(rows)
    wrong = sum(error > TOLERANCE for error in found)
    return f"{wrong} of {len(found)}, by {median(found):.1%}" if found else ""


def _found_from(of_truths: Sequence[Case], disturbed: bool) -> str:
    least = least_found(of_truths, disturbed)
    return "none" if least is None else f"{100 * least:g} % and above"


def _case(case: Case) -> list[str]:
    return [case.truth, case.place]


def _table(head: Sequence[str], rows: Iterator[list[str]] | Sequence[list[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows))
