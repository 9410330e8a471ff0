"""The figures of Apache's `ab`, computed from the sums and histograms of slices.

The definitions are those of `ab` (support/ab.c). Connect is the time of TCP and TLS, or 0 on a reused connection.
Processing lasts from the request to the end of the response, Waiting from the request to the first byte. Total is
Connect plus Processing. `sd` is the sample standard deviation (divided by n - 1).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from pydantic import Field

from costof.messages.answers import SliceAnswer
from costof.model import Finite, Model
from costof.statistics.histogram import Counts, merged

#: The lines of ab's table of connection times, and the phase (a timed part of a request) that each line shows.
PHASES = {"connect": "connect", "processing": "processing", "waiting": "waiting", "total": "request"}
PERCENTILES = (50, 66, 75, 80, 90, 95, 98, 99, 100)
NS_PER_MS = 1e6
NOT_2XX = re.compile(r"http\.status\.[^2]")
CONNECTING = ("resolve", "refused", "unreachable", "plain_refused")
RECEIVING = ("reset", "closed", "short_body", "protocol")


class AbTimes(Model):
    """A line of ab's connection times, in milliseconds."""

    min: Finite
    mean: Finite
    sd: Finite
    median: Finite
    max: Finite


class AbFigures(Model):
    """The figures that ab would print for an arm, over all requests of all slices.

    A request on a reused connection has a connection time of 0 ms. These figures have no intervals. The costs of a
    protection, with intervals, are in the effects.
    """

    arm: str
    workload: str
    concurrency: int
    seconds: Finite
    complete: int = Field(description="Answered requests.")
    failed: dict[str, int] = Field(description="Failures by ab's kinds: connect, receive, length, exceptions.")
    not_2xx: int
    keep_alive: int = Field(description="Requests after which the connection stayed open.")
    transferred_bytes: int = Field(description="Bytes of headers and bodies, inside TLS.")
    html_bytes: int = Field(description="Bytes of bodies.")
    document_bytes: int | None = Field(description="Body length of the first response.")
    requests_per_second: Finite
    ms_per_request: Finite = Field(description="Mean time of a request on one worker.")
    ms_across_all: Finite = Field(description="The same divided by the concurrency.")
    kbytes_per_second: Finite
    times: dict[str, AbTimes] = Field(description="Times by phase: connect, processing, waiting and total.")
    percentiles: dict[str, Finite] = Field(
        description="Total time in ms within which the percentage (the key) of requests was served."
    )


def ab_figures(arm: str, workload: str, concurrency: int, answers: Sequence[SliceAnswer]) -> AbFigures | None:
    """Return ab's figures of an arm over all its slices; None if no request was answered."""
    total = [phase for answer in answers if (phase := answer.phases.get(PHASES["total"]))]
    complete = sum(phase.count for phase in total)
    seconds = sum(answer.elapsed_ns for answer in answers) / 1e9
    if not complete or not seconds:
        return None
    connections = sum(
        answer.phases[PHASES["connect"]].count for answer in answers if PHASES["connect"] in answer.phases
    )
    transferred = _counted(answers, "response_bytes")
    # ab counts a response as failed if its length differs from that of the first response.
    failed = {"connect": 0, "receive": 0, "length": _counted(answers, "other_length"), "exceptions": 0}
    for error in (error for answer in answers for error in answer.errors):
        connecting = error.error_class in CONNECTING or error.error_class.startswith("tls_")
        receiving = "receive" if error.error_class in RECEIVING else "exceptions"
        failed["connect" if connecting else receiving] += error.count
    # For p % of n requests, ab prints the sorted time with the 0-based rank n * p / 100; for 100 %, the longest time.
    highest = max(phase.max_ns for phase in total)
    ranks = [complete * percent // 100 for percent in PERCENTILES[:-1]]
    served = merged(phase.histogram for phase in total)
    values = [*(min(each, highest) for each in _at_ranks(served, ranks)), highest]
    percentiles = {str(percent): value / NS_PER_MS for percent, value in zip(PERCENTILES, values, strict=True)}
    return AbFigures(
        arm=arm,
        workload=workload,
        concurrency=concurrency,
        seconds=seconds,
        complete=complete,
        failed=failed,
        not_2xx=sum(n for each in answers for name, n in each.counts.items() if NOT_2XX.match(name)),
        # Each worker begins with one connection. Each further connection means that the server closed the one before,
        # so the last request on the closed connection was not keep-alive.
        keep_alive=max(0, complete - max(0, connections - concurrency)) if _counted(answers, "reused") else 0,
        transferred_bytes=transferred,
        html_bytes=_counted(answers, "body_bytes"),
        document_bytes=next((each.evidence["body_length"] for each in answers if "body_length" in each.evidence), None),
        requests_per_second=complete / seconds,
        ms_per_request=concurrency * seconds * 1e3 / complete,
        ms_across_all=seconds * 1e3 / complete,
        kbytes_per_second=transferred / 1024 / seconds,
        times={name: _times(answers, phase, complete) for name, phase in PHASES.items()},
        percentiles=percentiles,
    )


def without_lengths(figures: AbFigures) -> AbFigures:
    """Return the figures as `ab -l` would print them: responses of another length do not count as failed."""
    return figures.model_copy(update={"failed": {**figures.failed, "length": 0}})


def _counted(answers: Sequence[SliceAnswer], name: str) -> int:
    return sum(answer.count(f"http.{name}") or 0 for answer in answers)


def _times(answers: Sequence[SliceAnswer], name: str, complete: int) -> AbTimes:
    """Return the times of a phase over `complete` requests. A request without the phase counts as 0 ms."""
    phases = [phase for answer in answers if (phase := answer.phases.get(name)) and phase.count]
    count, total = sum(phase.count for phase in phases), sum(phase.sum_ns for phase in phases)
    none = complete - count
    if not count:
        return AbTimes(min=0.0, mean=0.0, sd=0.0, median=0.0, max=0.0)
    mean, squares = total / complete, sum(phase.sum_squares_ns2 for phase in phases)
    variance = max(0.0, squares - complete * mean**2) / max(1, complete - 1)
    highest = max(phase.max_ns for phase in phases)
    middle = complete // 2
    middles = _at_ranks(
        merged(phase.histogram for phase in phases), [middle - none, middle - none - (complete % 2 == 0)]
    )
    return AbTimes(
        min=(0 if none > 0 else min(phase.min_ns for phase in phases)) / NS_PER_MS,
        mean=mean / NS_PER_MS,
        sd=math.sqrt(variance) / NS_PER_MS,
        median=min(sum(middles) / 2, highest) / NS_PER_MS,
        max=highest / NS_PER_MS,
    )


def _at_ranks(counts: Counts, ranks: Sequence[int]) -> list[float]:
    """Return the values at 0-based ranks of the sorted times; 0 at negative ranks (requests without the phase)."""
    return [0.0 if rank < 0 else value for rank, value in zip(ranks, counts.at_ranks(ranks), strict=True)]
