"""From a ledger to a `Result`: everything that is known of a run, and nothing that is not in its ledger."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hdrh.histogram import HdrHistogram

from costof import answer as words
from costof.break_even import Rounds, break_even
from costof.effects import FEWEST_ROUNDS, Comparison, difference, estimate, needed_rounds, ratio, verdict
from costof.errors import Caution, CostofError, Problem
from costof.ledger import (
    CautionRecord,
    EndRecord,
    EnvironmentRecord,
    Ledger,
    LostRecord,
    ReadyRecord,
    SliceRecord,
)
from costof.plan import Plan, PlannedArm
from costof.result import (
    Arm,
    BreakEven,
    Cpu,
    DistributionPoint,
    Effect,
    ErrorCount,
    Evidence,
    Factor,
    Metric,
    NoiseFloor,
    Result,
    Value,
    Verdict,
)
from costof.rounds import NS_PER_UNIT, Samples, Turn, add_samples
from costof.study import Metric as StudyMetric
from costof.tables import study_tables

SHARES = (0.05, 0.01)
NEAR_ONE_CORE = 0.8
STEAL_WORTH_A_WORD = 0.02
PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}
HIGHEST_NS = 60 * 10**9
#: Points of a distribution's curve: enough for a smooth picture, few enough for a small file.
QUANTILES = [*range(0, 99), *(99 + i / 10 for i in range(10)), 99.95, 99.99, 100.0]


@dataclass
class Run:
    """A ledger, read once."""

    plan: Plan
    samples: Samples = field(default_factory=Samples)
    slices: list[SliceRecord] = field(default_factory=list)
    ready: list[ReadyRecord] = field(default_factory=list)
    environment: EnvironmentRecord | None = None
    cautions: list[str] = field(default_factory=list)
    lost: str | None = None
    end: EndRecord | None = None

    @property
    def counted(self) -> list[SliceRecord]:
        """Slices that are in the figures."""
        return [piece for piece in self.slices if not piece.warm_up and piece.mismatch is None]

    def of(self, workload: str, arm: str) -> list[SliceRecord]:
        return [p for p in self.counted if p.answer.workload == workload and p.answer.arm == arm]

    @property
    def rounds(self) -> int:
        return len({piece.round for piece in self.slices if not piece.warm_up})

    @property
    def whole_rounds(self) -> int:
        """Rounds that a resumed run need not measure again; the last one may have been cut off."""
        return max((piece.round for piece in self.slices), default=0) if self.rounds else 0

    @property
    def measured_seconds(self) -> float:
        return sum(piece.answer.elapsed_ns for piece in self.slices if not piece.warm_up) / 1e9

    @property
    def partial(self) -> str | None:
        if self.end is None:
            return "it was ended from outside"
        return self.end.partial or self.lost


def read_run(ledger: Ledger) -> Run:
    """Everything in a ledger. Raises `NOT_A_RUN`."""
    run = Run(plan=ledger.plan())
    for record in ledger.records():
        match record:
            case SliceRecord():
                run.slices.append(record)
            case ReadyRecord():
                run.ready.append(record)
            case EnvironmentRecord():
                run.environment = run.environment or record
                # A resumed run starts over: what ended it before no longer counts.
                run.lost = run.end = None
            case CautionRecord():
                run.cautions.append(record.text)
            case LostRecord():
                run.lost = record.detail
            case EndRecord():
                run.end = record
    for piece in run.counted:
        turn = Turn(piece.answer.workload, piece.answer.arm)
        add_samples(run.plan, run.samples, piece.round, turn, piece.answer)
    return run


def analyse(ledger: Ledger) -> Result:
    """The result of a run. Raises `NOT_A_RUN`, or `NOTHING_MEASURED` when no slice ever ended."""
    run = read_run(ledger)
    if run.environment is None:
        raise CostofError(Problem.NOTHING_MEASURED, detail="the service never started")
    plan, study = run.plan, run.plan.study
    comparison = Comparison(count=sum(1 for _ in _compared(run)))
    floors = [_noise_floor(run, name) for name in study.metrics if _pairs(run, name, plan.twin)]
    noise = {floor.metric: floor for floor in floors if floor is not None}
    effects = [_effect(run, name, arm, comparison, noise.get(name)) for name, arm in _compared(run)]
    values = [_value(run, name, arm) for name in study.metrics for arm in plan.arms if _has(run, name, arm)]
    cpu = [entry for workload in study.workloads for arm in plan.arms if (entry := _cpu(run, workload, arm))]
    even = _break_evens(run)
    result = Result(
        study=study.name,
        question=study.question,
        profile=plan.profile,
        run=ledger.folder.name,
        started=run.environment.started,
        measured_seconds=run.measured_seconds,
        rounds=run.rounds,
        partial=run.partial,
        seed=plan.seed,
        precision_asked=plan.precision,
        answer=[],
        arms=[_arm(run, arm) for arm in plan.arms],
        metrics=[_metric(name, metric, run) for name, metric in study.metrics.items()],
        values=values,
        effects=effects,
        tables=[],
        break_even=even,
        published=plan.published,
        noise_floor=list(noise.values()),
        cpu=cpu,
        errors=_errors(run),
        warnings=_warnings(run, effects),
        environment=_environment(run),
    )
    told = result.model_copy(update={"tables": study_tables(result)})
    return told.model_copy(update={"answer": words.answer(told, study)})


def _has(run: Run, metric: str, arm: PlannedArm) -> bool:
    return len(run.samples.of(metric, arm.name)) >= 2


def _pairs(run: Run, metric: str, arm: PlannedArm) -> tuple[list[float], list[float]] | None:
    """The rounds' pairs, where both the metric's arm and the control can be compared at all."""
    measured = run.plan.study.metrics[metric].workload
    if not run.of(measured, run.plan.control.name):
        return None
    control, values = run.samples.pairs(metric, run.plan.control.name, arm.name)
    return (control, values) if len(values) >= 2 else None


def _compared(run: Run) -> list[tuple[str, PlannedArm]]:
    """Every effect of the run but the twin's: what the correction for many comparisons counts."""
    arms = [arm for arm in run.plan.arms if not arm.control and not arm.twin]
    return [(name, arm) for name in run.plan.study.metrics for arm in arms if _pairs(run, name, arm)]


def _noise_floor(run: Run, metric: str) -> NoiseFloor | None:
    pairs = _pairs(run, metric, run.plan.twin)
    relative = ratio(*pairs) if pairs else None
    if pairs is None or relative is None:
        return None
    absolute = difference(*pairs)
    return NoiseFloor(
        metric=metric,
        difference=absolute,
        ratio=relative,
        differences=[b - a for a, b in zip(*pairs, strict=True)],
        absolute=max(abs(absolute.low), abs(absolute.high)),
        relative=max(abs(1 - relative.low), abs(relative.high - 1)),
    )


def _effect(run: Run, name: str, arm: PlannedArm, comparison: Comparison, floor: NoiseFloor | None) -> Effect:
    metric = run.plan.study.metrics[name]
    pairs = _pairs(run, name, arm)
    assert pairs is not None
    control, values = pairs
    found = verdict(control, values, metric.margin, comparison, floor.relative if floor else 0.0)
    needed = None
    if found is Verdict.UNRESOLVED and run.rounds:
        rounds = needed_rounds(control, values, metric.margin, comparison)
        if rounds is not None:
            needed = max(0, rounds - len(values)) * run.measured_seconds / run.rounds
    return Effect(
        metric=name,
        unit=metric.unit,
        arm=arm.name,
        control_value=estimate(control).value,
        value=estimate(values).value,
        difference=difference(control, values),
        ratio=ratio(control, values),
        verdict=found,
        rounds=len(values),
        differences=[b - a for a, b in zip(control, values, strict=True)],
        needed_seconds=needed,
    )


def _value(run: Run, name: str, arm: PlannedArm) -> Value:
    metric = run.plan.study.metrics[name]
    phases = [p for piece in run.of(metric.workload, arm.name) if (p := piece.answer.phases.get(metric.phase))]
    merged = HdrHistogram(1, HIGHEST_NS, 3)
    for phase in phases:
        merged.decode_and_add(phase.histogram)
    unit = NS_PER_UNIT[metric.unit]
    count = sum(phase.count for phase in phases)
    highest = max(phase.max_ns for phase in phases)

    # All in one pass over the histogram: asked one by one, each would be a pass of its own.
    found = merged.get_percentile_to_value_dict([*PERCENTILES.values(), *QUANTILES])

    def at(percentile: float) -> float:
        # The histogram rounds to three digits; the largest is known exactly.
        return min(float(found[percentile]), float(highest)) / unit

    def each(total: int | None) -> float | None:
        return total / count if total is not None else None

    def total(attribute: str) -> int | None:
        counted = [getattr(phase, attribute) for phase in phases]
        return None if None in counted else sum(counted)

    return Value(
        metric=name,
        arm=arm.name,
        mean=estimate(run.samples.of(name, arm.name)),
        operations=count,
        percentiles={label: at(percentile) for label, percentile in PERCENTILES.items()},
        distribution=[DistributionPoint(value=at(q), fraction=q / 100) for q in QUANTILES],
        round_trips=each(total("round_trips")),
        bytes_sent=each(total("bytes_sent")),
        bytes_received=each(total("bytes_received")),
    )


def _metric(name: str, metric: StudyMetric, run: Run) -> Metric:
    return Metric(
        name=name,
        label=metric.label,
        description=metric.description,
        view=run.plan.study.workloads[metric.workload].view,
        unit=metric.unit,
        headline=metric.headline,
        better=metric.better,
        workload=metric.workload,
        phase=metric.phase,
        margin=metric.margin,
    )


def _arm(run: Run, arm: PlannedArm) -> Arm:
    seen = [evidence for view in ("wire", "app") if (evidence := _evidence(run, arm, view))]
    error = _refused(run, arm)
    if error is None and not seen and run.slices:
        error = next((piece.mismatch for piece in run.slices if piece.answer.arm == arm.name and piece.mismatch), None)
        error = error or "no slice of it succeeded"
    return Arm(
        name=arm.name,
        label=arm.label,
        control=arm.control,
        twin=arm.twin,
        factors=[Factor(name=name, level=level) for name, level in arm.levels.items()],
        evidence=seen,
        error=error,
    )


def _refused(run: Run, arm: PlannedArm) -> str | None:
    """Why the engine could not run the arm at all."""
    for record in run.ready:
        for told in record.ready.arms:
            if record.view == "wire" and told.name == arm.name and told.error is not None:
                return told.error.detail
    return None


def _evidence(run: Run, arm: PlannedArm, view: str) -> Evidence | None:
    """What this view's slices proved, added up."""
    mine = [p for p in run.slices if not p.warm_up and p.view == view and p.answer.arm == arm.name]
    good = [p for p in mine if p.mismatch is None and p.answer.operations]
    if not good:
        return None
    facts: dict[str, str] = {}
    for name in ("protocol", "cipher", "key", "verified", "server"):
        seen = {piece.answer.evidence[name] for piece in good if piece.answer.evidence.get(name) is not None}
        if seen:
            facts[name] = ", ".join(sorted(_plainly(value) for value in seen))
    for name in ("connections", "handshakes", "resumed", "clients"):
        counts = [int(piece.answer.evidence.get(name, 0)) for piece in good]
        if any(name in piece.answer.evidence for piece in good):
            facts[name] = str(sum(counts))
    if all(piece.server_connections is not None for piece in good):
        facts["connections counted by the server"] = str(sum(piece.server_connections or 0 for piece in good))
        versions: dict[str, int] = {}
        for piece in good:
            for version, count in (piece.server_tls or {}).items():
                versions[version] = versions.get(version, 0) + count
        told = ", ".join(f"{version} {count}" for version, count in versions.items() if count) or "none"
        facts["TLS connections counted by the server"] = told
    return Evidence(view=view, facts=facts, slices=len(good), thrown_out=sum(p.mismatch is not None for p in mine))


def _plainly(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _cpu(run: Run, workload: str, arm: PlannedArm) -> Cpu | None:
    pieces = run.of(workload, arm.name)
    operations = sum(piece.answer.operations for piece in pieces)
    if not operations:
        return None
    seconds: dict[str, float] = {}
    for piece in pieces:
        for role, nanoseconds in piece.answer.cpu_ns.items():
            seconds[role] = seconds.get(role, 0.0) + nanoseconds / 1e9
        for role, used in piece.server_cpu_seconds.items():
            seconds[role] = seconds.get(role, 0.0) + used
    elapsed = sum(piece.answer.elapsed_ns for piece in pieces) / 1e9
    role = max(seconds, key=lambda name: seconds[name])
    return Cpu(
        workload=workload,
        arm=arm.name,
        operations=operations,
        seconds_per_1000={name: used * 1000 / operations for name, used in seconds.items()},
        busiest=role if seconds[role] > NEAR_ONE_CORE * elapsed else None,
    )


def _break_evens(run: Run) -> list[BreakEven]:
    found = []
    for wanted in run.plan.study.break_even:
        for arm in run.plan.arms:
            if arm.control or arm.twin:
                continue
            rounds = _common_rounds(run, wanted.connection, wanted.operation, arm)
            if rounds is None:
                continue
            for share in SHARES:
                needed = break_even(rounds, share, run.plan.seed)
                found.append(
                    BreakEven(
                        view=wanted.view,
                        arm=arm.name,
                        share=share,
                        operations=_finite(needed.value),
                        low=_finite(needed.low),
                        high=_finite(needed.high),
                    )
                )
    return found


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _common_rounds(run: Run, connection: str, operation: str, arm: PlannedArm) -> Rounds | None:
    """The rounds in which both metrics have both arms; None below the fewest that an interval needs."""
    names = [(connection, run.plan.control.name), (connection, arm.name)]
    names += [(operation, run.plan.control.name), (operation, arm.name)]
    common = set.intersection(*(set(run.samples.rounds(*name)) for name in names))
    if len(common) < FEWEST_ROUNDS:
        return None
    return Rounds(*([run.samples.at(*name, number) for number in sorted(common)] for name in names))


def _errors(run: Run) -> list[ErrorCount]:
    """Errors of every slice, warm-up and thrown-out ones too, by arm, workload and class."""
    found: dict[tuple[str, str, str], ErrorCount] = {}
    for piece in run.slices:
        for error in piece.answer.errors:
            where = (piece.answer.arm, piece.answer.workload, error.error_class)
            before = found[where].count if where in found else 0
            detail = found[where].detail if where in found else error.detail
            found[where] = ErrorCount(
                arm=where[0], workload=where[1], error_class=where[2], count=before + error.count, detail=detail
            )
    return list(found.values())


def _warnings(run: Run, effects: list[Effect]) -> list[str]:
    plan = run.plan
    told = list(run.cautions)
    for record in run.ready:
        for ready in record.ready.arms:
            if ready.error is not None:
                caution = Caution.ARM_REFUSED if record.view == "wire" else Caution.APP_CANNOT
                told.append(caution.text(arm=ready.name, detail=ready.error.detail))
    if _refused(run, plan.control):
        told.append(Caution.NO_CONTROL.text())
    for arm in plan.arms:
        wrong = [piece.mismatch for piece in run.slices if piece.answer.arm == arm.name and piece.mismatch]
        if wrong:
            told.append(Caution.EVIDENCE_MISSING.text(slices=len(wrong), arm=arm.name, detail=wrong[0]))
        if arm.levels.get("verify", "full") != "full":
            told.append(Caution.VERIFICATION_OFF.text(arm=arm.name, level=arm.levels["verify"]))
    differing = _twin_differs(run)
    if differing:
        told.append(Caution.TWIN_DIFFERS.text(metrics=", ".join(differing)))
    if run.end is not None and run.end.steal_share > STEAL_WORTH_A_WORD:
        told.append(Caution.STEAL.text(share=run.end.steal_share))
    if effects and max(effect.rounds for effect in effects) < FEWEST_ROUNDS:
        told.append(Caution.FEW_ROUNDS.text(rounds=run.rounds, needed=FEWEST_ROUNDS))
    return told


def _twin_differs(run: Run) -> list[str]:
    """Metrics in which two identical arms differ by more than chance allows, corrected for the number of metrics."""
    pairs = {name: found for name in run.plan.study.metrics if (found := _pairs(run, name, run.plan.twin))}
    comparison = Comparison(count=len(pairs))
    return [
        name
        for name, (control, twin) in pairs.items()
        if verdict(control, twin, run.plan.study.metrics[name].margin, comparison) in (Verdict.COSTS, Verdict.SAVES)
    ]


def _environment(run: Run) -> dict[str, object]:
    assert run.environment is not None
    facts: dict[str, object] = dict(run.environment.facts)
    for record in run.ready:
        facts[f"{record.view} view"] = record.ready.instrument
        facts.update(record.ready.versions)
        for name, nanoseconds in record.ready.self_cost_ns.items():
            facts[f"engine's own cost: {name}, ns"] = round(nanoseconds, 1)
    facts["records"] = run.plan.records
    facts["target"] = run.plan.target or "the run's own lab"
    if run.slices:
        facts["peak memory of the engine, MiB"] = round(
            max((p.answer.peak_memory_bytes for p in run.slices if p.view == "wire"), default=0) / 2**20, 1
        )
    if run.end is not None:
        facts["steal"] = f"{run.end.steal_share:.2%}"
    return facts
