"""Comparison of the engine's percentiles with percentiles from a packet capture of the queries (kernel timestamps)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from costof.messages.plan import Workload
from costof.programs.relay import RelayCost
from costof.run.instruments import load_workload
from costof.run.machine import cores_awake
from costof.statistics.histogram import merged
from tests.support.capture import Capture, response_times
from tests.support.engines import Engines
from truth.design import Trial
from truth.lab import TruthLab
from truth.rows import Row, TailRow
from truth.runs import SERVERS, plan_trial

PERCENTILES = (50.0, 99.0)
WARM_UP, OPERATIONS = 500, 4_000
BUDGET_SECONDS = 10
NS_PER_US = 1e3
WORKLOADS = (Workload(name="connect", kind="connect"), Workload(name="query", kind="query"), load_workload())


def measure(trial: Trial, cost: RelayCost, about: Row) -> Iterator[TailRow]:
    """Measure a slice of a protected arm with the engine and a packet capture at once. Yield a row for each percentile.

    The capture runs on the client's host. The cores are kept out of sleep states. Raises `PermissionError` without root
    rights.
    """
    plan = plan_trial(trial, BUDGET_SECONDS)
    arm = plan.protected[0]
    with cores_awake(), TruthLab(plan, SERVERS[trial.service], cost) as lab, Engines(plan, lab, WORKLOADS) as engines:
        lab.prepare([arm], engines.load)
        engines.slice(arm, "query", WARM_UP)
        with Capture(lab.client_host(arm), int(lab.entrance(arm).rpartition(":")[2])) as capture:
            answer = engines.slice(arm, "query", OPERATIONS)
            captured = response_times(capture.segments())
    if len(captured) != answer.operations:
        raise OSError(f"only {len(captured)} of {answer.operations} queries were captured")
    nanoseconds_by_percentile = merged([answer.phases["operation"].histogram]).at_percentiles(PERCENTILES)
    for percentile, nanoseconds in zip(PERCENTILES, nanoseconds_by_percentile, strict=True):
        yield TailRow(
            **dict(about),
            percentile=percentile,
            operations=answer.operations,
            engine=nanoseconds / NS_PER_US,
            captured=float(np.percentile(captured, percentile, method="inverted_cdf")) / NS_PER_US,
        )
