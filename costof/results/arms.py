"""Arms: their evidence added up over the slices, and the CPU time they took."""

from __future__ import annotations

from collections import Counter

from costof.format import listed, milliseconds
from costof.results.models import Arm, Cpu, Evidence, Factor
from costof.results.run import Run, cpu_by_role, cpu_seconds_each, read_in
from costof.study.arms import PlannedArm

MEASURING = ("wire", "app", "command")
"""The views of instruments."""
NEAR_ONE_CORE = 0.8
SET_UP = "tree"
"""The servers' fact that says how they stood to each other."""


def arm_result(run: Run, arm: PlannedArm, same_set_up: list[str]) -> Arm:
    slices = run.slices_of(arm.name)
    seen = [evidence for view in MEASURING if (evidence := _evidence(run, arm, view))]
    measured = bool(seen)
    if arm.name in run.proofs:
        seen.insert(0, Evidence(view="service", facts=run.proofs[arm.name], slices=len(run.slices)))
    if facts := _server_facts(run, arm):
        seen.append(Evidence(view="server", facts=facts, slices=sum(map(run.counts, slices))))
    error = run.refused(arm) or run.lost_arms.get(arm.name)
    if error is None and not measured and run.slices:
        error = next((piece.mismatch for piece in slices if piece.mismatch), None)
    if error is None and not measured and run.slices:
        detail = next((error.detail for piece in slices for error in piece.answer.errors), "")
        error = f"no slice of it succeeded{f': {detail}' if detail else ''}"
    return Arm(
        name=arm.name,
        label=arm.label,
        control=arm.control,
        replicate=arm.replicate,
        baseline=arm.baseline,
        context=arm.context,
        where=_where(run, arm),
        factors=[Factor(name=name, level=level) for name, level in arm.levels.items()],
        same_set_up=same_set_up,
        evidence=seen,
        error=error,
    )


def set_ups(run: Run, arm: PlannedArm) -> Counter[str]:
    """Count how the servers were set up in the arm's slices; empty where none of them says."""
    facts = (piece.server_facts for piece in run.slices_of(arm.name) if run.counts(piece))
    return Counter(found[SET_UP] for found in facts if SET_UP in found)


def same_set_ups(run: Run) -> dict[str, list[str]]:
    """Return for each arm those of its context with the very same set-up in all slices."""
    found = {arm.name: set_ups(run, arm) for arm in run.plan.arms}
    only = {name: next(iter(seen)) for name, seen in found.items() if len(seen) == 1}
    return {
        arm.name: [
            other.name
            for other in run.plan.arms
            if arm.name in only and other is not arm and not other.replicate and other.context == arm.context
            if only.get(other.name) == only[arm.name]
        ]
        for arm in run.plan.arms
    }


def _server_facts(run: Run, arm: PlannedArm) -> dict[str, str]:
    """What the servers said of the arm's slices; of a fact that changed, every version of it.

    Counts are added up, those of the warm-up among them.
    """
    said: dict[str, dict[str, None]] = {}
    for piece in filter(run.counts, run.slices_of(arm.name)):
        for name, fact in piece.server_facts.items():
            said.setdefault(name, {})[fact] = None
    counted: dict[str, int] = {}
    # Standing connections are opened in the warm-up.
    for piece in (piece for piece in run.slices_of(arm.name) if piece.mismatch is None):
        for name, count in piece.server_counts.items():
            counted[name] = counted.get(name, 0) + count
    facts = {name: " | ".join(facts) for name, facts in said.items()}
    return facts | {name: f"{count:,}" for name, count in counted.items()}


def _where(run: Run, arm: PlannedArm) -> str:
    """Return the arm's context in words: 'with keep-alive, 100 requests a connection', 'at 44 ms'."""
    study, usual = run.plan.study, run.plan.controls[0].levels
    if not arm.context:
        return ""
    distance, place = study.distance_factor, ""
    others = [name for name, factor in study.factors.items() if factor.context and name != distance]
    changed = [study.factors[name].phrase(arm.levels[name]) for name in others if arm.levels[name] != usual[name]]
    if distance and len({control.levels[distance] for control in run.plan.controls}) > 1:
        level = arm.levels[distance]
        place = f"at {level if level in study.factors[distance].milliseconds else milliseconds(float(level))}"
    return " ".join(part for part in (place, f"with {listed(changed)}" if changed else "") if part)


def _plainly(value: object) -> str:
    return str(value) if not isinstance(value, bool) else "yes" if value else "no"


def _evidence(run: Run, arm: PlannedArm, view: str) -> Evidence | None:
    mine = [piece for piece in run.slices_of(arm.name) if not piece.warm_up and piece.view == view]
    good = [p for p in mine if p.mismatch is None and p.answer.operations]
    if not good:
        return None
    facts: dict[str, str] = {}
    for name in ("protocol", "cipher", "key", "group", "mechanism", "server_side", "verified", "server"):
        seen = {piece.answer.evidence[name] for piece in good if piece.answer.evidence.get(name) is not None}
        if seen:
            facts[name] = ", ".join(sorted(_plainly(value) for value in seen))
    if view == "wire" and "protocol" in facts:
        facts["TLS library"] = run.tls_library(arm)
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
        counted = ", ".join(f"{version} {count}" for version, count in versions.items() if count) or "none"
        facts["TLS connections counted by the server"] = counted
    return Evidence(view=view, facts=facts, slices=len(good), discarded=sum(p.mismatch is not None for p in mine))


def cpu_of(run: Run, workload: str, arm: PlannedArm) -> Cpu | None:
    """Return CPU seconds per 1,000 operations by role; None where nothing succeeded."""
    pieces = run.of(workload, arm.name)
    operations = sum(piece.answer.operations for piece in pieces)
    if not operations:
        return None
    elapsed = sum(piece.answer.elapsed_ns for piece in pieces) / 1e9
    busy = {
        role: sum(cpu_by_role(piece)[role] for piece in read) / (sum(piece.answer.elapsed_ns for piece in read) / 1e9)
        for role, read in read_in(pieces).items()
    }
    role = max(busy, key=lambda name: busy[name])
    throttled: dict[str, float] = {}
    for piece in pieces:
        for name, seconds in piece.server_throttled_seconds.items():
            throttled[name] = throttled.get(name, 0.0) + seconds
    return Cpu(
        workload=workload,
        arm=arm.name,
        operations=operations,
        seconds_per_1000={name: used * 1000 for name, used in cpu_seconds_each(pieces).items()},
        busiest=role if busy[role] > NEAR_ONE_CORE else None,
        # Several threads are throttled at once, so their seconds may add up to more than the time.
        throttled={name: min(1.0, held / elapsed) for name, held in throttled.items()},
        steal=min(1.0, sum(piece.steal_seconds for piece in pieces) / (elapsed * run.cores)),
    )
