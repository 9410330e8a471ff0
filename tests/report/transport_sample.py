"""A result as the study `mysql-transport` leaves it: three distances, each with its own control, twin and arms.

Invented from a seed, but by the cost model itself: own time + round trips x round-trip time, with noise. What the
report says of round trips, losses and predictions therefore has to fit.
"""

from __future__ import annotations

import math
import random
from functools import cache
from statistics import fmean

from report_sample import ENVIRONMENT, estimate

from costof.analysis.models import (
    Arm,
    Cpu,
    DistributionPoint,
    Effect,
    Evidence,
    Factor,
    Metric,
    NoiseFloor,
    Value,
)
from costof.lab.round_trips import LinkEvidence
from costof.report import answer
from costof.report.result import Result
from costof.sections.break_even import Point
from costof.sections.cost_model.model import CostModel, ExtraCost, OperationCost, Prediction
from costof.statistics.estimate import Estimate, Verdict
from costof.study.library import load_study
from costof.study.schema import Study

ROUNDS = 12
DISTANCES = {"lan": 0.0, "us-us": 44.648, "us-eu": 170.126}
ARMS = ("tls", "ssh-aes256-ctr")
EVERY_ARM = (*ARMS, "ssh-aes256-cbc", "ssh-aes256-gcm", "ssh-chacha20-poly1305")
LABELS = {"plain": "plain", "plain-twin": "plain, twin", "tls": "TLS, modern suite, rsa-2048"}
SPREAD = 0.02
# Phase -> own time in ms and round trips; a tunnel's channel opens with the greeting and saves the far TCP handshake.
PHASES: dict[str, dict[str, tuple[float, float]]] = {
    "plain": {"tcp": (0.031, 1), "greeting": (0.088, 1), "auth": (0.112, 1)},
    "tls": {"tcp": (0.031, 1), "greeting": (0.089, 1), "tls": (1.12, 1), "auth": (0.131, 1)},
    "ssh": {"tcp": (0.034, 0), "greeting": (0.415, 1), "auth": (0.243, 1)},
}
OPERATION_MS = {"plain": 0.058, "tls": 0.066, "ssh": 0.171}
# How much longer an operation takes while so many others are under way on two cores.
CROWD = {"query_1": 1.0, "query_8": 3.4, "query_32": 12.6}
WORKERS = {"query_1": 1, "query_8": 8, "query_32": 32}
BYTES = {
    "connection": {"plain": 412.0, "tls": 3120.0, "ssh": 780.0},
    "operation": {"plain": 180.0, "tls": 246.0, "ssh": 292.0},
}
CPU_MS: dict[str, dict[str, dict[str, float]]] = {
    "connection": {
        "plain": {"client": 0.05, "mariadbd": 0.11},
        "tls": {"client": 0.31, "mariadbd": 0.88},
        "ssh": {"client": 0.05, "mariadbd": 0.11, "ssh": 0.12, "sshd": 0.21},
    },
    "operation": {
        "plain": {"client": 0.012, "mariadbd": 0.031},
        "tls": {"client": 0.014, "mariadbd": 0.035},
        "ssh": {"client": 0.012, "mariadbd": 0.031, "ssh": 0.033, "sshd": 0.037},
    },
}
EVIDENCE = {
    "plain": {"protocol": "none (plain)", "server": "10.205.0.2:3306"},
    "tls": {"protocol": "TLSv1.3", "cipher": "TLS_AES_256_GCM_SHA384", "key": "rsa-2048", "handshakes": "1200"},
    "ssh": {"protocol": "none (plain)", "tunnel": "OpenSSH 9.2", "cipher": "aes256-ctr", "mac": "hmac-sha2-256-etm"},
}


@cache
def study() -> Study:
    return load_study("mysql-transport")


def kind(name: str) -> str:
    return "ssh" if name.startswith("ssh") else "plain" if name.startswith("plain") else name


def make_transport(arms: tuple[str, ...] = ARMS, *, rounds: int = ROUNDS, **changes: object) -> Result:
    """A whole result at all three distances; `arms` are the protected ones."""
    names = [(arm, context) for context in DISTANCES for arm in ("plain", "plain-twin", *arms)]
    found = {(metric, *where): samples(metric, *where, rounds) for metric in study().metrics for where in names}
    used = [key for key, values in found.items() if fmean(values) > 0]
    costs = [key for key in used if not key[1].startswith("plain")]
    fields: dict[str, object] = {
        "study": "mysql-transport",
        "question": study().question,
        "profile": "default",
        "run": "2025-02-03T09-12-00-mysql-transport",
        "started": "2025-02-03T09:12:00Z",
        "measured_seconds": 518.0,
        "rounds": rounds,
        "seed": 42,
        "precision_asked": 0.02,
        "answer": [],
        "arms": [make_arm(*where) for where in names],
        "metrics": [make_metric(name) for name in study().metrics],
        "values": [_value(key, found[key]) for key in used],
        "effects": [_effect(key, found) for key in costs],
        "distances": DISTANCES,
        "sections": {
            "break_even": [point for context in DISTANCES for arm in arms for point in _break_even(arm, context)],
            "cost_model": cost_model(arms, found),
        },
        "links": [link for name in DISTANCES for link in links(name)],
        "published": study().published,
        "noise_floor": [_noise(key, found) for key in used if key[1] == "plain-twin"],
        "cpu": [cpu for where in names for cpu in _cpu(*where)],
        "errors": [],
        "warnings": [],
        "environment": ENVIRONMENT,
    }
    result = Result.model_validate({**fields, **changes})
    return result if "answer" in changes else result.model_copy(update={"answer": answer(result, result.sections)})


def samples(metric: str, arm: str, context: str, rounds: int) -> list[float]:
    """What the rounds measured, in the metric's unit; an empty phase is 0."""
    wanted = study().metrics[metric]
    source = random.Random(f"{metric} {arm} {context}")
    own, trips = time_of(wanted.workload, wanted.phase, arm)
    # A link is a little later than it was asked to be, or every prediction would be right.
    far = DISTANCES[context] * 1.004 + 0.05 * (DISTANCES[context] > 0)
    mean = [
        (own * (1 + 0.05 * math.sin(index / 3)) * (1 + source.gauss(0, SPREAD)) if own else 0.0)
        + trips * far * (1 + source.gauss(0, 0.0006))
        for index in range(rounds)
    ]
    if wanted.unit != "per_second":
        return mean
    return [1000 / each * (WORKERS[wanted.workload] if wanted.all_workers else 1) for each in mean]


def time_of(workload: str, phase: str, arm: str) -> tuple[float, float]:
    """Own time in ms and round trips of one operation."""
    if workload != "connect":
        return OPERATION_MS[kind(arm)] * CROWD[workload], 1
    parts = PHASES[kind(arm)]
    chosen = list(parts.values()) if phase == "connect" else [parts.get(phase, (0.0, 0.0))]
    return sum(own for own, _ in chosen), sum(trips for _, trips in chosen)


def make_arm(protection: str, context: str) -> Arm:
    plain = protection.startswith("plain")
    factors = {"transport": "plain" if plain else protection, "distance": context}
    if protection == "tls":
        factors |= {"suite": "modern", "key": "rsa-2048", "resumption": "off"}
    evidence = [Evidence(view="wire", facts=EVIDENCE[kind(protection)], slices=48)]
    if kind(protection) == "ssh":
        evidence.append(Evidence(view="service", facts={"tunnel's bytes": "1.9 MB", "channels": "1,200"}, slices=48))
    return Arm(
        name=f"{protection}@{context}",
        label=LABELS.get(protection, protection.replace("ssh-", "SSH tunnel, ")),
        control=protection == "plain",
        twin=protection == "plain-twin",
        baseline=None if protection == "plain" else f"plain@{context}",
        context=context,
        factors=[Factor(name=name, level=level) for name, level in factors.items()],
        evidence=evidence,
    )


def make_metric(name: str) -> Metric:
    metric = study().metrics[name]
    shared = metric.model_dump(exclude={"all_workers"})
    return Metric(name=name, view=study().workloads[metric.workload].view, **shared)


Key = tuple[str, str, str]
"""Metric, protection and context."""
Found = dict[Key, list[float]]


def _compared(key: Key, found: Found) -> tuple[list[float], list[float], Estimate | None]:
    metric, _, context = key
    control = found[metric, "plain", context]
    differences = [mine - theirs for mine, theirs in zip(found[key], control, strict=True)]
    if fmean(control) == 0:
        return control, differences, None
    logs = estimate([math.log(mine / theirs) for mine, theirs in zip(found[key], control, strict=True)])
    ratio = [math.exp(each) for each in (logs.value, logs.low, logs.high)]
    return control, differences, Estimate(value=ratio[0], low=ratio[1], high=ratio[2], rounds=len(control))


def _effect(key: Key, found: Found) -> Effect:
    metric = study().metrics[key[0]]
    control, differences, ratio = _compared(key, found)
    difference = estimate(differences)
    equal = ratio is not None and max(abs(ratio.low - 1), abs(ratio.high - 1)) < metric.margin
    sign = 1 if metric.better == "lower" else -1
    verdict = Verdict.COSTS if min(sign * difference.low, sign * difference.high) > 0 else Verdict.SAVES
    if difference.low <= 0 <= difference.high:
        verdict = Verdict.UNRESOLVED
    return Effect(
        metric=key[0],
        unit=metric.unit,
        arm=f"{key[1]}@{key[2]}",
        control_value=fmean(control),
        value=fmean(found[key]),
        difference=difference,
        ratio=ratio,
        verdict=Verdict.NO_COST if equal else verdict,
        rounds=len(differences),
        differences=differences,
        needed_seconds=900.0 if verdict is Verdict.UNRESOLVED and not equal else None,
    )


def _noise(key: Key, found: Found) -> NoiseFloor:
    _, differences, ratio = _compared(key, found)
    difference = estimate(differences)
    assert ratio is not None
    return NoiseFloor(
        metric=key[0],
        context=key[2],
        difference=difference,
        ratio=ratio,
        absolute=max(abs(difference.low), abs(difference.high)),
        relative=max(abs(ratio.low - 1), abs(ratio.high - 1)),
        differences=differences,
    )


def _value(key: Key, values: list[float]) -> Value:
    metric, arm, context = key
    wanted = study().metrics[metric]
    own, trips = time_of(wanted.workload, wanted.phase, arm)
    shape = [index / 50 for index in range(1, 50)] + [0.99, 0.999, 0.9999]
    tail = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 0.9999}

    def at(share: float) -> float:
        mean = own * (0.72 + 0.24 * math.exp(0.3 * math.log(share / (1 - share))))
        time = mean + trips * DISTANCES[context]
        return 1000 / time if wanted.unit == "per_second" else time

    size = BYTES["operation" if wanted.phase == "operation" else "connection"][kind(arm)]
    return Value(
        metric=metric,
        arm=f"{arm}@{context}",
        mean=estimate(values),
        operations=100 * len(values),
        percentiles={name: at(share) for name, share in tail.items()},
        distribution=[DistributionPoint(value=at(share), fraction=share) for share in shape],
        # The engine counts the handshake with the tunnel's near end too.
        round_trips=trips + (kind(arm) == "ssh" and wanted.phase in ("tcp", "connect")),
        bytes_sent=round(size * 0.4),
        bytes_received=round(size * 0.6),
    )


def _break_even(arm: str, context: str) -> list[Point]:
    connection = extra(arm, "connection"), time_of("connect", "connect", "plain")
    operation = extra(arm, "operation"), time_of("query_1", "operation", "plain")
    added, base, more, each = (
        own + trips * DISTANCES[context] for own, trips in (connection[0], connection[1], operation[0], operation[1])
    )
    found = []
    for share in (0.05, 0.01):
        room = share * each - more
        needed = max(1.0, (added - share * base) / room) if room > 0 else None
        high = needed * 1.1 if needed else None
        low = needed * 0.9 if needed else None
        found.append(Point(view="wire", arm=f"{arm}@{context}", share=share, operations=needed, low=low, high=high))
    return found


def extra(arm: str, operation: str) -> tuple[float, float]:
    """What a protection adds: own time and round trips."""
    asked = ("connect", "connect") if operation == "connection" else ("query_1", "operation")
    (own, trips), (base, less) = time_of(*asked, arm), time_of(*asked, "plain")
    return own - base, trips - less


def cost_model(arms: tuple[str, ...], found: Found) -> CostModel:
    metrics = {"connection": "wire.connect", "operation": "wire.query_1"}
    pairs = [(arm, operation) for operation in metrics for arm in ("plain", *arms)]
    predictions = [
        _prediction(metric, arm, context, found)
        for metric in ("wire.connect", "wire.connections_per_second", "wire.query_1")
        for arm in ("plain", *arms)
        for context in DISTANCES
    ]
    return CostModel(
        operations=[_operation(arm, operation, metrics[operation], found) for arm, operation in pairs],
        extras=[_extra(arm, operation, metrics[operation], found) for arm, operation in pairs if arm != "plain"],
        predictions=predictions,
    )


def _operation(arm: str, operation: str, metric: str, found: Found) -> OperationCost:
    wanted = study().metrics[metric]
    return OperationCost.model_validate(
        {
            "protection": arm,
            "label": make_arm(arm, "lan").label,
            "control": arm == "plain",
            "operation": operation,
            "metric": metric,
            "own_ms": estimate(found[metric, arm, "lan"]),
            "round_trips": time_of(wanted.workload, wanted.phase, arm)[1],
            "bytes": BYTES[operation][kind(arm)],
            "cpu_ms": CPU_MS[operation][kind(arm)],
        }
    )


def _extra(arm: str, operation: str, metric: str, found: Found) -> ExtraCost:
    _, differences, _ = _compared((metric, arm, "lan"), found)
    used, base = (sum(CPU_MS[operation][kind(each)].values()) for each in (arm, "plain"))
    more = used - base
    return ExtraCost.model_validate(
        {
            "protection": arm,
            "label": make_arm(arm, "lan").label,
            "operation": operation,
            "own_ms": estimate(differences),
            "round_trips": extra(arm, operation)[1],
            "bytes": BYTES[operation][kind(arm)] - BYTES[operation]["plain"],
            "cpu_ms": Estimate(value=more, low=more * 0.96, high=more * 1.04, rounds=ROUNDS),
        }
    )


def _prediction(metric: str, arm: str, context: str, found: Found) -> Prediction:
    wanted = study().metrics[metric]
    trips = time_of(wanted.workload, wanted.phase, arm)[1]
    own = estimate(found["wire.connect" if wanted.phase == "connect" else metric, arm, "lan"])
    ends = [each + trips * DISTANCES[context] for each in (own.value, own.low, own.high)]
    if wanted.unit == "per_second":
        ends = [1000 / ends[0], 1000 / ends[2], 1000 / ends[1]]
    predicted = Estimate(value=ends[0], low=ends[1], high=ends[2], rounds=own.rounds)
    measured = estimate(found[metric, arm, context])
    return Prediction(
        arm=f"{arm}@{context}",
        metric=metric,
        unit=wanted.unit,
        round_trip_ms=DISTANCES[context],
        predicted=predicted,
        measured=measured,
        error=predicted.value / measured.value - 1,
        local=context == "lan",
    )


def links(name: str) -> list[LinkEvidence]:
    asked, late = DISTANCES[name], {"ICMP": (0.031, 0.194), "TCP_INFO": (0.047, 0.22)}
    return [
        LinkEvidence(name=name, asked_ms=asked, method=method, median_ms=asked + median, p99_ms=asked + p99, probes=50)
        for method, (median, p99) in late.items()
    ]


def _cpu(arm: str, context: str) -> list[Cpu]:
    return [
        Cpu(
            workload=name,
            arm=f"{arm}@{context}",
            operations=1200,
            seconds_per_1000=CPU_MS["connection" if name == "connect" else "operation"][kind(arm)],
            busiest="sshd" if kind(arm) == "ssh" and name == "query_32" and context == "lan" else None,
        )
        for name in study().workloads
    ]
