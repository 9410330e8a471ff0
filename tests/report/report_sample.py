"""Results as the study `mongodb-tls` leaves them, made from a seed: what the report tests render.

The figures are invented but hang together (phases add up to their total, effects follow from the values), so that a
report that mixes two of them up is seen in the golden files.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from statistics import fmean, stdev

from costof.analysis.index import Index
from costof.analysis.models import (
    Arm,
    Cpu,
    DistributionPoint,
    Effect,
    ErrorCount,
    Evidence,
    Factor,
    Metric,
    NoiseFloor,
    Sentence,
    Value,
)
from costof.document import format as fmt
from costof.report import render_html
from costof.report.result import Result
from costof.sections.break_even import SECTION as BREAK_EVEN
from costof.sections.break_even import Point
from costof.statistics.estimate import Estimate, Verdict
from costof.study.published import Published, PublishedFigure

Golden = Callable[[str, str], None]
"""What the fixture `golden` is: a file's name and the text it should hold."""
Samples = dict[str, dict[str, list[float]]]
"""Metric -> arm -> mean of each round, milliseconds."""
ROUNDS = 24
Z = 1.96
# name -> label, phase, workload, plain ms, added by TLS ms, relative spread of a round, round trips, headline
METRICS: dict[str, tuple[str, str | None, str, float, float, float, float, bool]] = {
    "app.connect": ("build a client", None, "app_connect", 0.912, 2.31, 0.02, 0, False),
    "app.first_query": ("first query", None, "app_connect", 9.74, 3.02, 0.03, 0, False),
    "app.connect_and_first_query": ("connect and first query", None, "app_connect", 10.652, 5.33, 0.025, 0, True),
    "app.reused_query": ("query on a reused client", "operation", "app_query", 0.3504, 0.0041, 0.012, 0, True),
    "wire.tcp": ("TCP handshake", "tcp", "connect", 0.061, 0.0006, 0.06, 1, False),
    "wire.tls": ("TLS handshake", "tls", "connect", 0.0, 1.842, 0.03, 1, False),
    "wire.hello": ("hello", "hello", "connect", 0.164, 0.018, 0.04, 1, False),
    "wire.auth": ("authentication (SCRAM-SHA-256)", "auth", "connect", 4.62, 0.05, 0.012, 2, False),
    "wire.first_query": ("first query", "first_operation", "connect", 0.212, 0.012, 0.04, 1, False),
    "wire.connect_and_first_query": (
        "connect and first query", "connect_and_first_operation", "connect", 5.057, 1.9226, 0.02, 5, True,
    ),
    "wire.reused_query": ("query on a reused connection", "operation", "reused_query", 0.0941, 0.0009, 0.01, 1, True),
}  # fmt: skip
PUBLISHED = {
    "app.connect": (3.7009, 19.8515),
    "app.first_query": (20.7456, 43.5884),
    "app.connect_and_first_query": (24.4465, 63.4399),
    "app.reused_query": (0.7506, 0.7643),
}
LABELS = {
    "plain": "no TLS",
    "plain-twin": "no TLS, twin",
    "tls": "TLS 1.3, ecdsa-p256",
    "tls-4096": "TLS 1.3, rsa-4096",
}
EXTRA = {"plain": 0.0, "plain-twin": 0.0, "tls": 1.0, "tls-4096": 2.4}


def make_result(*, arms: tuple[str, ...] = ("tls",), rounds: int = ROUNDS, seed: int = 42, **changes: object) -> Result:
    """A whole result; `arms` are the protected ones, `changes` replace fields of it."""
    names = ("plain", "plain-twin", *arms)
    samples = {name: _rounds(name, names, rounds, seed) for name in METRICS}
    fields: dict[str, object] = {
        "study": "mongodb-tls",
        "question": "What does TLS cost a MongoDB client?",
        "profile": "quick",
        "run": "2025-01-15T10-30-00-mongodb-tls",
        "started": "2025-01-15T10:30:00Z",
        "measured_seconds": 61.4,
        "rounds": rounds,
        "seed": seed,
        "precision_asked": 0.02,
        "answer": answer(samples, arms),
        "arms": [make_arm(name) for name in names],
        "metrics": [make_metric(name) for name in METRICS],
        "values": [_value(metric, arm, samples[metric][arm]) for metric in METRICS for arm in names],
        "effects": [_effect(metric, arm, samples[metric]) for metric in METRICS for arm in arms],
        "sections": {
            "break_even": [
                point for view in ("wire", "app") for arm in arms for point in _break_even(view, arm, samples)
            ]
        },
        "published": make_published(arms[0]) if arms else None,
        "noise_floor": [_noise(metric, samples[metric]) for metric in METRICS if metric != "wire.tls"],
        "cpu": [cpu for arm in names for cpu in make_cpu(arm)],
        "errors": [],
        "warnings": [],
        "environment": ENVIRONMENT,
    }
    result = Result.model_validate({**fields, **changes})
    points = result.sections.break_even if "answer" not in changes else []
    return result.model_copy(update={"answer": [*result.answer, *BREAK_EVEN.answer(Index(result), points)]})


def with_sections(result: Result, **changes: object) -> Result:
    """The result with other numbers of these sections."""
    return result.model_copy(update={"sections": result.sections.model_copy(update=changes)})


_DRAWN: dict[str, str] = {}


def drawn(result: Result) -> str:
    """The page of a result, drawn once for all tests that look at it."""
    key = result.model_dump_json()
    if key not in _DRAWN:
        _DRAWN[key] = render_html(result)
    return _DRAWN[key]


def empty_result(**changes: object) -> Result:
    """A run that was stopped before its first round ended."""
    names = ("values", "effects", "noise_floor", "cpu", "answer")
    nothing: dict[str, object] = {**{name: [] for name in names}, "sections": {}}
    stopped = {"rounds": 0, "measured_seconds": 0.0, "partial": "interrupted before the first round"}
    return Result.model_validate({**make_result().model_dump(), **nothing, **stopped, **changes})


def answer(samples: Samples, arms: tuple[str, ...]) -> list[Sentence]:
    """Worded as the analysis words it; figures are the fixture's own."""
    found = [Sentence(kind="next", text="For your own servers: costof run mongodb-tls --target 'mongodb://…'.")]
    for arm in reversed(arms):
        total, handshake = (
            estimate(_compared(samples[name], arm)[0]) for name in ("wire.connect_and_first_query", "wire.tls")
        )
        text = (
            f"On the wire, {LABELS[arm]} adds {fmt.absolute(total, 'ms')} to a new MongoDB connection and nothing "
            "measurable (within 5 %) to a query on a reused one."
        )
        share = fmt.share(round(handshake.value / total.value, 2))
        reason = f"The TLS handshake explains {share} of what {LABELS[arm]} adds to a new connection."
        found = [Sentence(kind="answer", text=text), Sentence(kind="explanation", text=reason), *found]
    return found


def _break_even(view: str, arm: str, samples: Samples) -> list[Point]:
    """The points the analysis would find; their intervals are drawn by hand, the last without an upper end."""
    connection, operation = (samples[f"{view}.{name}"] for name in ("connect_and_first_query", "reused_query"))
    found = []
    for share, high in ((0.05, 1.12), (0.01, None)):
        over = fmean(_compared(connection, arm)[0]) - share * fmean(connection["plain"])
        room = share * fmean(operation["plain"]) - fmean(_compared(operation, arm)[0])
        needed = over / room if room > 0 else None
        found.append(
            Point(
                view=view,
                arm=arm,
                share=share,
                operations=needed,
                low=needed * 0.9 if needed else over / share / fmean(operation["plain"]),
                high=needed * high if needed and high else None,
            )
        )
    return found


def make_arm(name: str, error: str | None = None) -> Arm:
    tls = not name.startswith("plain")
    facts = {"protocol": "TLSv1.3", "cipher": "TLS_AES_256_GCM_SHA384", "key": "ecdsa-p256", "resumed": "0 of 1,200"}
    evidence = [
        Evidence(view="wire", facts=facts if tls else {"protocol": "none (plain)"}, slices=48),
        Evidence(view="app", facts=facts if tls else {"protocol": "none (plain)"}, slices=48),
        Evidence(view="server", facts={"transportSecurity 1.3": "+1,200" if tls else "+0"}, slices=96),
    ]
    factors = [Factor(name="transport", level="tls" if tls else "plain")]
    return Arm(
        name=name,
        label=LABELS.get(name, name),
        control=name == "plain",
        twin=name == "plain-twin",
        factors=factors,
        evidence=[] if error else evidence,
        error=error,
    )


def make_metric(name: str) -> Metric:
    label, phase, workload, *_, headline = METRICS[name]
    return Metric(
        name=name,
        label=label,
        description=f"Time of “{label}”, from the call to its return.",
        view=name.split(".")[0],
        unit="ms",
        headline=headline,
        better="lower",
        workload=workload,
        phase=phase,
        margin=0.05,
    )


def _rounds(metric: str, arms: tuple[str, ...], rounds: int, seed: int) -> dict[str, list[float]]:
    """Means of the rounds for each arm: a drift that all arms share, and noise of each slice's own."""
    _, _, _, plain, added, spread, _, _ = METRICS[metric]
    source = random.Random(f"{seed} {metric}")
    drift = [1 + 0.06 * math.sin(index / 4) for index in range(rounds)]
    means = {arm: plain + added * EXTRA.get(arm, 1.0) for arm in arms}
    return {arm: [means[arm] * each * (1 + source.gauss(0, spread)) for each in drift] for arm in arms}


def estimate(samples: list[float]) -> Estimate:
    half = Z * stdev(samples) / math.sqrt(len(samples)) if len(samples) > 1 else 0.0
    mean = fmean(samples)
    return Estimate(value=mean, low=mean - half, high=mean + half, rounds=len(samples))


def _compared(samples: dict[str, list[float]], arm: str) -> tuple[list[float], Estimate | None]:
    pairs = list(zip(samples[arm], samples["plain"], strict=True))
    differences = [mine - control for mine, control in pairs]
    if fmean(samples["plain"]) == 0:
        return differences, None
    logs = estimate([math.log(mine / control) for mine, control in pairs])
    return differences, Estimate(
        value=math.exp(logs.value), low=math.exp(logs.low), high=math.exp(logs.high), rounds=len(pairs)
    )


def _effect(metric: str, arm: str, samples: dict[str, list[float]]) -> Effect:
    differences, ratio = _compared(samples, arm)
    difference = estimate(differences)
    equal = ratio is not None and max(abs(ratio.low - 1), abs(ratio.high - 1)) < 0.05
    verdict = Verdict.NO_COST if equal else Verdict.COSTS if difference.low > 0 else Verdict.UNRESOLVED
    return Effect(
        metric=metric,
        unit="ms",
        arm=arm,
        control_value=fmean(samples["plain"]),
        value=fmean(samples[arm]),
        difference=difference,
        ratio=ratio,
        verdict=verdict,
        rounds=len(differences),
        differences=differences,
        needed_seconds=185.0 if verdict is Verdict.UNRESOLVED else None,
    )


def _noise(metric: str, samples: dict[str, list[float]]) -> NoiseFloor:
    differences, ratio = _compared(samples, "plain-twin")
    difference = estimate(differences)
    assert ratio is not None
    return NoiseFloor(
        metric=metric,
        difference=difference,
        ratio=ratio,
        absolute=max(abs(difference.low), abs(difference.high)),
        relative=max(abs(ratio.low - 1), abs(ratio.high - 1)),
        differences=differences,
    )


def _value(metric: str, arm: str, samples: list[float]) -> Value:
    """Latencies as they are seen: a log-normal body on top of a floor, with a longer tail from the 98th percentile."""
    round_trips, mean = METRICS[metric][6], fmean(samples)
    shape = [(index / 200) for index in range(1, 200)] + [0.999, 0.9999]
    points = [DistributionPoint(value=_quantile(mean, share), fraction=share) for share in shape if mean]
    tail = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 0.9999}
    wire = metric.startswith("wire.")
    tls = metric == "wire.tls"
    return Value(
        metric=metric,
        arm=arm,
        mean=estimate(samples),
        operations=50 * len(samples),
        percentiles={name: _quantile(mean, share) for name, share in tail.items()},
        distribution=points,
        round_trips=(0.0 if tls and not mean else round_trips) if wire else None,
        bytes_sent=(642.0 if tls else 180.0 * round_trips) * bool(mean) if wire else None,
        bytes_received=(1310.0 if tls else 320.0 * round_trips) * bool(mean) if wire else None,
    )


def _quantile(mean: float, share: float) -> float:
    odds = math.log(share / (1 - share))
    return mean * (0.72 + 0.24 * math.exp(0.3 * odds + 0.05 * max(0.0, odds - 3.9) ** 2))


def make_published(arm: str) -> Published:
    return Published(
        source="ApsaraDB for MongoDB documentation, “test of the impact of SSL encryption on instance performance”",
        date="2024-12-05",
        setting="Mean of 5,000 trials; pymongo; replica set of three, 4.2, 1 core 2 GB; client 2 cores 4 GB.",
        figures=[
            PublishedFigure(metric=metric, control_value=plain, value=tls, levels={"transport": "tls"})
            for metric, (plain, tls) in PUBLISHED.items()
        ],
    )


def make_cpu(arm: str) -> list[Cpu]:
    tls = EXTRA.get(arm, 1.0)
    seconds = {
        "connect": {"client": 0.31 + 0.52 * tls, "mongod secondary": 4.21 + 0.88 * tls, "mongod primary": 0.02},
        "reused_query": {
            "client": 0.021 + 0.002 * tls,
            "mongod secondary": 0.071 + 0.003 * tls,
            "mongod primary": 0.001,
        },
        "app_connect": {"client": 4.9 + 2.6 * tls, "mongod secondary": 8.1 + 1.9 * tls, "mongod primary": 0.6},
    }
    busiest = {"app_connect": "mongod secondary"}
    return [
        Cpu(workload=name, arm=arm, operations=1200, seconds_per_1000=roles, busiest=busiest.get(name))
        for name, roles in seconds.items()
    ]


def make_errors() -> list[ErrorCount]:
    return [
        ErrorCount(
            arm="tls", workload="connect", error_class="timeout", count=3, detail="no answer within 10,000 ms in auth"
        ),
        ErrorCount(
            arm="plain",
            workload="app_query",
            error_class="reset",
            count=1,
            detail="connection reset by 127.83.12.2:27017",
        ),
    ]


ENVIRONMENT: dict[str, object] = {
    "costof": "0.1.0",
    "machine": {"cpu": "AMD EPYC 7B13", "cores": 2, "memory_gb": 8.0, "kernel": "Linux 6.1.0-18-amd64"},
    "programs": {"mongod": "6.0.5", "pymongo": "4.10.1", "OpenSSL": "3.0.15", "Python": "3.11.2"},
    "load": {"steal_percent": 0.3, "load_average": [1.4, 1.1, 0.9]},
}
