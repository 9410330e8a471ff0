"""The page of a campaign: the template `truth.md.jinja`, filled in with figures from the campaign's rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from statistics import median

import jinja2

from costof import format as fmt
from costof.report.markdown import pipe_table
from truth.campaign import LONGEST_WAIT_SECONDS
from truth.design import (
    BENCHMARKER,
    CELLS,
    COLD_REQUESTS,
    DISTURBED,
    MAIN,
    NOTHING,
    PAIR_SECONDS,
    PEERS,
    SERVICES,
    SLOW_TAIL,
    SPELL_EVERY_NS,
    Sizes,
    trials,
)
from truth.early_ends import PRECISION
from truth.figures import (
    FOUND,
    PLACES,
    TOLERANCE,
    Case,
    Commands,
    Proportion,
    cases,
    commands,
    errors,
    identical,
    in_words,
    least_found,
    replicates,
    tail_errors,
)
from truth.goals import HEAD, goals
from truth.rows import EffectRow, PeerRow, Row, Rows

TEMPLATE = Path(__file__).with_name("truth.md.jinja")
PAGE, FOLDER = "truth.md", "truth"
NS_PER_SECOND = 1e9
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
EARLY = [
    "true cost",
    "rounds until the end",
    "intervals for a planned end that contain it",
    "and that exclude 0",
    "reported intervals that contain it",
    "and that exclude 0",
]
PRECISE = ["true cost", "rounds until the end", "half-width", "intervals that contain it"]


def write(rows: Rows, folder: Path, sizes: Sizes) -> bool:
    """Write the data tables into the folder's subfolder `truth`, and `truth.md` with its pictures.

    Return False, without writing the page, if some true cost has no rows yet.
    """
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    rows.write_parquet(folder / FOLDER)
    by_truth = cases(rows.effects)
    missing = {(*cost.key, disturbed) for cost, disturbed in product(CELLS, DISTURBED)}
    missing -= {(*case.cost, case.disturbed) for case in by_truth}
    if missing:
        return False
    from truth.pictures import draw  # imported late, because it imports matplotlib, which is slow

    draw(rows.effects, folder / FOLDER)
    template = jinja2.Template(TEMPLATE.read_text(), keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    (folder / PAGE).write_text(template.render(_about(rows, by_truth, sizes), **_tables(rows, by_truth)))
    return True


def _about(rows: Rows, by_truth: Sequence[Case], sizes: Sizes) -> dict[str, object]:
    every: list[Row] = [*rows.effects, *rows.peers, *rows.tails, *rows.pairs]
    done = {row.trial: row for row in every}
    by_chance = [case for case in by_truth if case.payers != "all"]
    same, planned = identical(rows.pairs), trials(sizes)
    return {
        "quick": sizes.quick,
        "done": sum(trial.name in done for trial in planned),
        "planned": len(planned),
        "runs": len({row.trial for row in rows.effects}),
        "pairs": len(rows.peers),
        "captures": len({row.trial for row in rows.tails}),
        "identical": len(same),
        "commands": len(rows.pairs) - len(same),
        "benchmarker": BENCHMARKER,
        "pair_seconds": PAIR_SECONDS,
        "cold": COLD_REQUESTS,
        "precision": f"{PRECISION:.0%}",
        "peer_off": _off(row.peer_estimate / row.peer_control for row in same),
        "costof_off": _off(row.estimate / row.control for row in same),
        "analysed_again": len({row.trial for row in rows.effects if row.judged_anew}),
        "analysis_commits": _listed(row.judged_anew for row in rows.effects if row.judged_anew),
        "commits": _listed(row.commit for row in done.values()),
        "starts": len({row.boot for row in every}),
        "machines": fmt.listed(sorted({_machine(row) for row in every})),
        "waited": fmt.plural(sum(row.waited > 1 for row in done.values()), "trial"),
        "gave_up": sum(row.waited >= LONGEST_WAIT_SECONDS for row in done.values()),
        "without_result": len({row.trial for row in rows.failures} - done.keys()),
        "failures": [f"{row.trial}: {row.reason}" for row in rows.failures],
        "seconds": sizes.budget_seconds,
        "tolerance": f"{TOLERANCE:.0%}",
        "found_share": f"{FOUND:.0%}",
        "found_alone": _found_from(by_truth, False),
        "found_beside": _found_from(by_truth, True),
        "spells_seen": f"{sizes.budget_seconds * NS_PER_SECOND / SPELL_EVERY_NS:.0f}",
        "as_added": "; ".join(f"{case.truth}, {case.place}: {case.covered_as_added}" for case in by_chance),
    }


def _machine(row: Row) -> str:
    return f"{fmt.plural(row.cores, 'core')} of {row.machine or 'an unknown CPU'}"


def _off(errors: Iterable[float]) -> str:
    sizes = [*map(abs, errors)]
    return f"{median(sizes):.1%}" if sizes else ""


def _listed(commits: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(f"`{each[:8]}`" for each in commits))


def _tables(rows: Rows, by_truth: Sequence[Case]) -> dict[str, str]:
    together = cases(rows.effects, together=True)
    return {
        "goals": pipe_table(HEAD, goals(rows)),
        "coverage": pipe_table(
            [
                "true cost",
                "",
                "intervals that contain it",
                "half-width",
                "intervals of ratios that do",
                "median error",
                "duration of a run",
            ],
            [_coverage(each) for each in [*by_truth, *together]],
        ),
        "services": pipe_table(
            ["service", "", "intervals that contain the truth", "half-width", "the same for replicates"],
            [*_services(rows.effects)],
        ),
        "by_machine": _by_machine(rows.effects),
        "carry_over": pipe_table(
            ["true cost", "", "the report says that the order matters", '"costs"', "intervals that contain the truth"],
            [_carry_over(each) for each in by_truth if each.carry_over or each.cost == NOTHING.key],
        ),
        "when_convincing": pipe_table(EARLY, [_when_convincing(each) for each in together if _is_main(each)]),
        "when_precise": pipe_table(PRECISE, [_when_precise(each) for each in together if _is_main(each)]),
        "commands_table": pipe_table(COMMANDS, [*map(_commands, commands(rows.pairs))]),
        "power": pipe_table(POWER, [_power(each) for each in by_truth]),
        "tails": pipe_table(
            ["queries", "", "packet capture", "engine against it, median", "largest difference"], _tails(rows)
        ),
        "peers": pipe_table(["true cost", "", *PEERS, "`costof`", "its intervals that miss the truth"], _peers(rows)),
    }


def _is_main(case: Case) -> bool:
    return case.cost in {cost.key for cost in MAIN}


def _half_width(case: Case) -> str:
    return f"±{case.half_width:.1%}"


def _when_convincing(case: Case) -> list[str]:
    planned, reported = map(case.ended_when_convincing, (False, True))
    shares = [share for ends in (planned, reported) for share in (ends.hold, ends.exclude_zero)]
    return [case.truth, f"{planned.rounds:.0f}", *map(str, shares)]


def _when_precise(case: Case) -> list[str]:
    ends = case.ended_when_precise()
    return [case.truth, f"{ends.rounds:.0f}", f"±{ends.half_width:.1%}", str(ends.hold)]


def _tails(rows: Rows) -> Iterator[list[str]]:
    for cost, name in ((NOTHING, "all equal"), (SLOW_TAIL, "one in ten slow")):
        for percentile in (50.0, 99.0):
            same = [row for row in rows.tails if (row.percentile, row.added_share) == (percentile, cost.share)]
            if not same:
                continue
            off = tail_errors(same, percentile, cost.share)
            packets = f"{median(row.captured for row in same):,.0f} µs"
            yield [name, f"p{percentile:g}", packets, f"{median(off):+.1%}", f"{max(off, key=abs):+.1%}"]


def _peers(rows: Rows) -> Iterator[list[str]]:
    """Yield a table line for each true cost, with the errors of each tool."""
    for case in cases(row for row in rows.effects if row.service == "http" and not row.carry_over):
        same = [row for row in rows.peers if (row.cost, row.disturbed) == (case.cost, case.disturbed)]
        by_tool = [_wrong(row for row in same if row.tool == tool) for tool in PEERS]
        missed = Proportion.among(not row.holds for row in case.rows)
        yield [*_case(case), *by_tool, _wrong(case.rows), missed.counted]


def _power(case: Case) -> list[str]:
    shares = (case.judged_costs, case.noticed, case.noticed_at_all, case.judged_no_cost)
    return [*_case(case), *map(str, shares)]


def _coverage(case: Case) -> list[str]:
    shares = [str(case.covered), _half_width(case), str(case.ratios_covered)]
    return [*_case(case), *shares, f"{case.error:+.2%}", f"{case.seconds:.1f} s"]


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
        if not row.is_replicate:
            groups.setdefault((_machine(row), row.boot), []).append(row)
    lines = []
    for number, ((machine, _), same) in enumerate(groups.items(), 1):
        halves = median(row.half_width for row in same)
        lines.append([f"{number}: {machine}", str(Proportion.among(row.holds for row in same)), f"±{halves:.1%}"])
    return pipe_table(["machine or boot", "intervals that contain the truth", "half-width"], lines) if lines[1:] else ""


def _services(effects: Sequence[EffectRow]) -> Iterator[list[str]]:
    """Yield lines with shares of intervals that contain the truth, among protected arms and among copies of controls.

    There are two lines for each service: without and with the disturbing process.
    """
    for service, disturbed in product(SERVICES, DISTURBED):
        matching = [row for row in effects if (row.service, row.disturbed) == (service, disturbed)]
        chosen = [row for row in matching if not row.is_replicate]
        if not chosen:
            continue
        half = median(row.half_width for row in chosen)
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
