"""The usual comparison without `costof`: ab or wrk measures one server, then another, and the means are subtracted."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

from costof.errors import CostofError, ErrorText
from costof.programs.relay import RelayCost
from truth.design import TIMEOUT_SECONDS, Trial
from truth.lab import TruthLab
from truth.rows import PeerRow, Row
from truth.runs import SERVERS, plan_trial

MS_PER_SECOND = 1000.0


def _ab(url: str, seconds: int) -> float:
    argv = ["ab", "-q", "-k", "-c", "1", "-t", str(seconds), "-n", "10000000", url]
    return MS_PER_SECOND / _figure(argv, r"Requests per second:\s+([\d.]+)")


def _wrk(url: str, seconds: int) -> float:
    return MS_PER_SECOND / _figure(["wrk", "-t", "1", "-c", "1", "-d", f"{seconds}s", url], r"Requests/sec:\s+([\d.]+)")


#: Functions that run a tool and return a request's mean time in ms. They compute the time from the printed rate, which
#: has more digits than the printed time.
TOOLS: dict[str, Callable[[str, int], float]] = {"ab": _ab, "wrk": _wrk}


def measure(trial: Trial, budget_seconds: int, cost: RelayCost, about: Row) -> PeerRow:
    """Measure the control, then the arm, each for half of the time of a run of `costof`. Return both as a row."""
    plan = plan_trial(trial, budget_seconds)
    seconds = budget_seconds // 2
    arms = [plan.controls[0], plan.protected[0]]
    with TruthLab(plan, SERVERS[trial.service], cost) as lab:
        control, value = (TOOLS[trial.tool](f"http://{lab.entrance(arm)}/", seconds) for arm in arms)
        truth = lab.added_ms(arms[1]) - lab.added_ms(arms[0])
    return PeerRow(**dict(about), truth=truth, control=control, value=value, seconds=2 * seconds)


def _figure(argv: list[str], pattern: str) -> float:
    output = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=TIMEOUT_SECONDS).stdout
    match = re.search(pattern, output)
    if match is None:
        raise CostofError(ErrorText.INSTRUMENT_FAILED, instrument=argv[0], detail=output[-300:])
    return float(match[1])
