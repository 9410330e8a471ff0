"""Export of a run: its slices as a table or as an HdrHistogram log, its figures as OpenMetrics or for Bencher.

A slice is a measured window of one workload on one arm. The table also has discarded slices with the reason, so that
users can decide whether to use them. The names of columns and metrics include units.
"""

from __future__ import annotations

import csv
import datetime
import json
import re
from collections.abc import Iterator
from typing import IO, Any

from costof.messages.answers import Phase
from costof.report.result import Result
from costof.results.ledger import SliceRecord
from costof.results.run import Run
from costof.statistics.estimate import Estimate
from costof.statistics.histogram import merged
from costof.statistics.intervals import ROUNDS_FOR_INTERVAL

NS_PER_SECOND = 1e9
NS_PER_MS = 1e6
PERCENTILES = {"p50_ns": 50.0, "p95_ns": 95.0, "p99_ns": 99.0}
#: Factors that convert times to seconds, the unit that OpenMetrics requires. Other units are kept.
SECONDS = {"ms": 1e-3, "us": 1e-6}
#: Bencher accepts at most this many characters in the name of a measure.
LONGEST_MEASURE = 64
#: Matches characters that a tag in a histogram log must not contain.
_FORBIDDEN_IN_TAG = re.compile(r"[\s,]+")


def rows(run: Run) -> Iterator[dict[str, Any]]:
    """Yield a row for each phase (timed part of an operation) of each slice, in order of measurement.

    A slice without phases has one row.
    """
    for record in run.slices:
        about = _about(run, record)
        for name, phase in record.answer.phases.items() or [("", None)]:
            yield {**about, "phase": name, **_times(phase)}


def write_csv(run: Run, file: IO[str]) -> None:
    """Write the rows as CSV (RFC 4180) with a header line."""
    table = [*rows(run)]
    writer = csv.DictWriter(file, fieldnames=[*table[0]] if table else [])
    writer.writeheader()
    writer.writerows(table)


def write_parquet(run: Run, file: IO[bytes]) -> None:
    """Write the rows as Parquet. Raises `ImportError` without pyarrow."""
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist([*rows(run)]), file, compression="zstd")


def write_hdr(run: Run, file: IO[str]) -> None:
    """Write an HdrHistogram log, version 1.2: one interval for each phase (timed part of an operation) of each slice.

    The warm-up and discarded slices are left out. Values are in nanoseconds. Tags are 'arm/workload/phase'.
    """
    file.write("#[Histogram log format version 1.2]\n")
    file.write('"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n')
    for record in sorted(run.counted, key=lambda record: record.answer.started_unix_ns):
        answer = record.answer
        start, seconds = answer.started_unix_ns / NS_PER_SECOND, answer.elapsed_ns / NS_PER_SECOND
        for name, phase in answer.phases.items():
            tag = _FORBIDDEN_IN_TAG.sub("_", f"{answer.arm}/{record.workload}/{name}")
            file.write(f"Tag={tag},{start:.6f},{seconds:.6f},{phase.max_ns / NS_PER_MS:.6f},{phase.histogram}\n")


def write_openmetrics(result: Result, file: IO[bytes]) -> None:
    """Write means, effects and percentiles in OpenMetrics format. Means and effects have the ends of their intervals.

    Raises `ImportError` without prometheus_client.
    """
    from prometheus_client import CollectorRegistry, Gauge
    from prometheus_client.openmetrics.exposition import generate_latest

    registry, gauges = CollectorRegistry(), {}
    for name, help_text, labels, value in _samples(result):
        if name not in gauges:
            gauges[name] = Gauge(name, help_text, ["study", *labels], registry=registry)
        gauges[name].labels(study=result.study, **labels).set(value)
    file.write(generate_latest(registry))  # type: ignore[no-untyped-call]


def write_bencher(result: Result, file: IO[str]) -> None:
    """Write the result in Bencher Metric Format: means and effects, each with the ends of its interval.

    Each arm is a benchmark. Each arm's difference from the control is another benchmark, with a second measure in
    percent. Each measure is named after a metric and its unit.
    """
    units = {metric.name: metric.unit for metric in result.metrics}
    arms = {arm.name: arm for arm in result.arms if not arm.replicate}
    benchmarks: dict[str, dict[str, dict[str, float]]] = {}
    for value in result.values:
        if value.arm in arms:
            measures = benchmarks.setdefault(f"{result.study}: {value.arm}", {})
            measures[_measure(value.metric, units[value.metric])] = _bencher_metric(value.mean)
    for effect in result.effects:
        if effect.arm in arms:
            measures = benchmarks.setdefault(f"{result.study}: {effect.arm} minus {arms[effect.arm].control_arm}", {})
            measures[_measure(effect.metric, effect.unit)] = _bencher_metric(effect.difference)
            if effect.ratio is not None:
                percent = effect.ratio.through(lambda ratio: (ratio - 1) * 100)
                measures[_measure(effect.metric, "percent")] = _bencher_metric(percent)
    json.dump(benchmarks, file, indent=2)
    file.write("\n")


def _measure(metric: str, unit: str) -> str:
    end = f" ({unit})"
    return metric[: LONGEST_MEASURE - len(end)] + end


def _bencher_metric(estimate: Estimate) -> dict[str, float]:
    if estimate.rounds < ROUNDS_FOR_INTERVAL:
        return {"value": estimate.value}
    return {"value": estimate.value, "lower_value": estimate.low, "upper_value": estimate.high}


def _about(run: Run, record: SliceRecord) -> dict[str, Any]:
    answer = record.answer
    arm = run.plan.arm(answer.arm)
    levels = {f"level_{name}": arm.levels.get(name, "") for name in run.plan.study.factors}
    discarded = "warm-up" if record.warm_up else record.mismatch or ("" if run.counts(record) else "disturbed")
    started = datetime.datetime.fromtimestamp(answer.started_unix_ns / NS_PER_SECOND, datetime.UTC)
    return {
        "round": record.round,
        "arm": answer.arm,
        "is_control": arm.control,
        "is_replicate": arm.replicate,
        "stands_for": record.key.owner,
        **levels,
        "view": record.view,
        "workload": record.workload,
        "discarded": discarded,
        "started": started.isoformat(),
        "elapsed_ns": answer.elapsed_ns,
        "operations": answer.operations,
        "errors": sum(error.count for error in answer.errors),
        "client_cpu_ns": sum(answer.cpu_ns.values()),
    }


def _times(phase: Phase | None) -> dict[str, Any]:
    if phase is None:
        names = ("count", "sum_ns", "min_ns", "max_ns", *PERCENTILES, "round_trips", "bytes_sent", "bytes_received")
        return dict.fromkeys(names)
    percentiles = merged([phase.histogram]).at_percentiles([*PERCENTILES.values()])
    return {
        "count": phase.count,
        "sum_ns": phase.sum_ns,
        "min_ns": phase.min_ns,
        "max_ns": phase.max_ns,
        **{name: int(value) for name, value in zip(PERCENTILES, percentiles, strict=True)},
        "round_trips": phase.round_trips,
        "bytes_sent": phase.bytes_sent,
        "bytes_received": phase.bytes_received,
    }


def _samples(result: Result) -> Iterator[tuple[str, str, dict[str, str], float]]:
    units = {metric.name: metric.unit for metric in result.metrics}
    for value in result.values:
        times, unit = _unit(units[value.metric])
        labels = {"metric": value.metric, "arm": value.arm}
        for bound, number in _bounds(value.mean):
            yield (
                f"costof_mean_{unit}",
                "Mean over rounds, with its 95 % interval.",
                {**labels, "bound": bound},
                (number * times),
            )
        for name, number in value.percentiles.items():
            help_text = "Percentile over all operations of all rounds."
            yield f"costof_percentile_{unit}", help_text, {**labels, "percentile": name}, number * times
    for effect in result.effects:
        times, unit = _unit(effect.unit)
        labels = {"metric": effect.metric, "arm": effect.arm, "verdict": effect.verdict.value}
        for bound, number in _bounds(effect.difference):
            help_text = "Arm minus control, with its 95 % interval."
            yield f"costof_difference_{unit}", help_text, {**labels, "bound": bound}, number * times
        for bound, number in _bounds(effect.ratio) if effect.ratio else ():
            yield "costof_ratio", "Arm over control, with its 95 % interval.", {**labels, "bound": bound}, number


def _unit(unit: str) -> tuple[float, str]:
    return (SECONDS[unit], "seconds") if unit in SECONDS else (1.0, unit)


def _bounds(estimate: Estimate) -> tuple[tuple[str, float], ...]:
    return ("estimate", estimate.value), ("low", estimate.low), ("high", estimate.high)
