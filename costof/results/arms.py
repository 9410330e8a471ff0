"""Functions that build the arms of the result: their evidence, their contexts in words, and their CPU time."""

from __future__ import annotations

from collections import Counter

from costof.format import away, listed, milliseconds
from costof.messages.answers import sums_by_name
from costof.results.models import Arm, Cpu, Evidence, Factor
from costof.results.run import Run, cpu_by_role, cpu_seconds_per_operation, slices_with_cpu
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from costof.study.several_loads import LOAD

MEASURING = ("wire", "app", "command")
"""The views in which instruments measure: on the wire, in an application, or whole commands. Evidence may also come
from the views `server` and `service`."""
NEAR_ONE_CORE = 0.8
SET_UP = "tree"
"""Name of the fact that says how the servers are set up: which server replicates from which."""


def build_arm(run: Run, arm: PlannedArm, same_set_up: list[str]) -> Arm:
    slices = run.all_slices(arm.name)
    evidence = [each for view in MEASURING if (each := _evidence(run, arm, view))]
    measured = bool(evidence)
    if arm.name in run.service_evidence:
        evidence.insert(0, Evidence(view="service", facts=run.service_evidence[arm.name], slices=len(run.slices)))
    if facts := _server_facts(run, arm):
        evidence.append(Evidence(view="server", facts=facts, slices=sum(map(run.counts, slices))))
    error = run.refusal_reason(arm) or run.lost_arms.get(arm.name)
    if error is None and not measured and run.slices:
        error = next((record.mismatch for record in slices if record.mismatch), None)
    if error is None and not measured and run.slices:
        detail = next((error.detail for record in slices for error in record.answer.errors), "")
        error = f"no slice succeeded{f': {detail}' if detail else ''}"
    return Arm(
        name=arm.name,
        label=arm.label,
        control=arm.control,
        replicate=arm.replicate,
        control_arm=arm.control_arm,
        context=arm.context,
        context_in_words=context_in_words(run.plan, arm),
        place=context_in_words(run.plan, arm, with_round_trip=True),
        factors=[Factor(name=name, level=level) for name, level in arm.levels.items()],
        same_set_up=same_set_up,
        evidence=evidence,
        error=error,
    )


def set_ups(run: Run, arm: PlannedArm) -> Counter[str]:
    """Return in how many of the arm's slices the servers had each set-up.

    A set-up is a text in which the servers report their arrangement, such as which member replicates from which. The
    result is empty if the servers report no set-up. Slices of the warm-up and discarded slices do not count.
    """
    facts = (record.server_facts for record in run.all_slices(arm.name) if run.counts(record))
    return Counter(each[SET_UP] for each in facts if SET_UP in each)


def same_set_ups(run: Run) -> dict[str, list[str]]:
    """Return, for each arm, the other arms of its context whose servers reported the same set-up in all slices."""
    counts = {arm.name: set_ups(run, arm) for arm in run.plan.arms}
    only = {name: next(iter(each)) for name, each in counts.items() if len(each) == 1}
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
    """Return the facts and the counts that the servers reported during the arm's slices.

    If a fact changed between slices, the text has all its values, separated by '|'. Counts are summed over all slices,
    including those of the warm-up.
    """
    values: dict[str, dict[str, None]] = {}
    for record in filter(run.counts, run.all_slices(arm.name)):
        for name, fact in record.server_facts.items():
            values.setdefault(name, {})[fact] = None
    # Include the warm-up: it opens the persistent connections, which later slices do not count again.
    counted = sums_by_name(record.server_counts for record in run.all_slices(arm.name) if record.mismatch is None)
    facts = {name: " | ".join(facts) for name, facts in values.items()}
    return facts | {name: f"{count:,}" for name, count in counted.items()}


def arm_in_words(plan: Plan, arm: PlannedArm) -> str:
    """Return an arm's label with its context in words: 'TLS 1.3 at us-us'."""
    return " ".join(filter(None, (arm.label, context_in_words(plan, arm))))


def context_in_words(plan: Plan, arm: PlannedArm, *, with_round_trip: bool = False) -> str:
    """Return the arm's context in words, such as 'with 7 nodes' or 'at 44 ms'; '' if the run has only one context.

    The words name only the levels in which the arm's context differs from the run's first context. In two cases, they
    name the levels of all factors that the contexts vary:

    - The arm's context differs from the first one at most in its distance.
    - Any context of the run differs from the first one in several factors.

    `with_round_trip` adds the round-trip time to the name of a distance: 'at us-us (45 ms away)'.
    """
    study, controls = plan.study, plan.controls
    distance, place = study.distance_factor, ""
    names = [name for name, factor in study.factors.items() if factor.context and name not in (distance, LOAD)]
    first = controls[0].levels
    varied = [name for name in names if any(each.levels[name] != first[name] for each in controls)]
    crossed = any(sum(each.levels[name] != first[name] for name in varied) > 1 for each in controls)
    differing = [name for name in varied if arm.levels[name] != first[name]]
    if crossed or not differing:
        differing = varied
    changed = [study.factors[name].phrase(arm.levels[name]) for name in differing]
    if distance and len({control.levels[distance] for control in controls}) > 1:
        level, known = arm.levels[distance], study.factors[distance].milliseconds
        name = level if level in known else milliseconds(float(level))
        place = study.factors[distance].phrases.get(level, f"at {name}")
        place += f" ({away(known[level])} away)" if with_round_trip and known.get(level) else ""
    load = f"at {study.factors[LOAD].phrase(arm.levels[LOAD])}" if plan.rates else ""
    return " ".join(part for part in (place, f"with {listed(changed)}" if changed else "", load) if part)


def _plainly(value: object) -> str:
    return str(value) if not isinstance(value, bool) else "yes" if value else "no"


def _evidence(run: Run, arm: PlannedArm, view: str) -> Evidence | None:
    records = [record for record in run.all_slices(arm.name) if not record.warm_up and record.view == view]
    good = [p for p in records if p.mismatch is None and p.answer.operations]
    if not good:
        return None
    facts: dict[str, str] = {}
    tls = ("protocol", "cipher", "key", "chain", "group")
    for name in (*tls, "mechanism", "server_side", "session_settings", "verified", "server"):
        values = {record.answer.evidence[name] for record in good if record.answer.evidence.get(name) is not None}
        if values:
            facts[name] = ", ".join(sorted(_plainly(value) for value in values))
    if view == "wire" and "protocol" in facts:
        facts["TLS library"] = run.tls_library(arm)
    for name in ("connections", "handshakes", "resumed", "clients"):
        counts = [int(record.answer.evidence.get(name, 0)) for record in good]
        if any(name in record.answer.evidence for record in good):
            facts[name] = str(sum(counts))
    if all(record.server_connections is not None for record in good):
        facts["connections counted by the server"] = str(sum(record.server_connections or 0 for record in good))
        versions = sums_by_name(record.server_tls or {} for record in good)
        counted = ", ".join(f"{version} {count}" for version, count in versions.items() if count) or "none"
        facts["TLS connections counted by the server"] = counted
    return Evidence(view=view, facts=facts, slices=len(good), discarded=sum(p.mismatch is not None for p in records))


def build_cpu(run: Run, workload: str, arm: PlannedArm) -> Cpu | None:
    """Return the CPU time of a workload on an arm, by role (client, server, …); None if no operation succeeded."""
    records = run.counted_slices(workload, arm.name)
    operations = sum(record.answer.operations for record in records)
    if not operations:
        return None
    elapsed = sum(record.answer.elapsed_ns for record in records) / 1e9
    busy = {
        role: sum(cpu_by_role(record)[role] for record in measured)
        / (sum(record.answer.elapsed_ns for record in measured) / 1e9)
        for role, measured in slices_with_cpu(records).items()
    }
    role = max(busy, key=lambda name: busy[name])
    throttled = sums_by_name(record.server_throttled_seconds for record in records)
    return Cpu(
        workload=workload,
        arm=arm.name,
        operations=operations,
        seconds_per_1000={name: used * 1000 for name, used in cpu_seconds_per_operation(records).items()},
        busiest=role if busy[role] > NEAR_ONE_CORE else None,
        # Several threads may be throttled at once, so the sum of their seconds can exceed the elapsed time.
        throttled={name: min(1.0, held / elapsed) for name, held in throttled.items()},
        steal=min(1.0, sum(record.steal_seconds for record in records) / (elapsed * run.cores)),
    )
