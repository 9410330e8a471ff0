"""The plan of the campaign: a page written from its design before the first run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import jinja2

from costof import format as fmt
from truth.campaign import FAILURES_IN_A_ROW, LAYOUT, SOURCES
from truth.design import (
    BASE_NS,
    BENCHMARKER,
    CELLS,
    COLD_REQUESTS,
    FULL,
    MAIN,
    PAIR_SECONDS,
    PEERS,
    SERVICES,
    Cost,
    Kind,
    trials,
)
from truth.early_ends import PRECISION
from truth.figures import FOUND, TOLERANCE, Proportion, in_words
from truth.goals import COVERAGE, COVERAGE_AT_ANY_END, FALSE, NOTICED, TAIL_TOLERANCE

TEMPLATE = Path(__file__).with_name("plan.md.jinja")
PAGE = "truth-plan.md"
#: The mean seconds of a trial with its lab and analysis, measured in an earlier campaign on two cores.
SECONDS: dict[Kind, float] = {"effect": 9, "peer": 16, "command": 26, "tail": 7, "pair": 25}


def text() -> str:
    """Return the plan's page in Markdown."""
    template = jinja2.Template(TEMPLATE.read_text(), keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    every = trials(FULL)
    counts = Counter(trial.kind for trial in every)
    page: str = template.render(
        cells="\n".join(map(_cell, CELLS)),
        counts=counts,
        trials=len(every),
        services=fmt.listed([*SERVICES]),
        main=fmt.listed([f"“{_truth(cost)}”" for cost in MAIN]),
        most=CELLS[MAIN[0]],
        seconds=FULL.budget_seconds,
        hours=f"{sum(SECONDS[trial.kind] for trial in every) / 3600:.0f}",
        cold=COLD_REQUESTS,
        peers=fmt.listed([*PEERS]),
        benchmarker=BENCHMARKER,
        pair_seconds=PAIR_SECONDS,
        base=f"{BASE_NS / 1e6:g} ms",
        sources=fmt.listed([f"`{each}`" for each in SOURCES]),
        layout=fmt.listed([f"`{each}`" for each in LAYOUT]),
        failures=FAILURES_IN_A_ROW,
        precision=f"{PRECISION:.0%}",
        coverage=COVERAGE,
        at_any_end=COVERAGE_AT_ANY_END,
        false_verdicts=FALSE,
        noticed=NOTICED,
        found=f"{FOUND:.0%}",
        slow_tails=FULL.tails,
        tail_tolerance=f"{TAIL_TOLERANCE:.0%}",
        margin=f"{TOLERANCE:.0%}",
    )
    return page


def _cell(cost: Cost) -> str:
    runs = CELLS[cost]
    return f"| {_truth(cost)} | {runs} | {_interval(runs)} |"


def _truth(cost: Cost) -> str:
    return in_words(cost.payers, cost.share, cost.carry_over)


def _interval(runs: int) -> str:
    """Return the 95 % interval for a share of 95 % in this many runs, such as '92.6% to 96.8%'."""
    low, high = Proportion(round(0.95 * runs), runs).interval
    return f"{low:.1%} to {high:.1%}"
