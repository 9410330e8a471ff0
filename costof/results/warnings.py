"""Errors by class, and the warnings of a run."""

from __future__ import annotations

from collections.abc import Iterator

from costof.errors import WarningText
from costof.format import listed, plural
from costof.instruments.commands.readers import reader
from costof.messages.answers import COPY_OF_ITSELF, LEFT_BEHIND, LEFT_RUNNING, NOTES
from costof.results.arms import arm_in_words, context_in_words
from costof.results.changes import build_contrast, replicate_changes
from costof.results.figures import metric_view
from costof.results.index import in_view
from costof.results.models import ErrorCount
from costof.results.run import Run
from costof.statistics.estimate import Verdict
from costof.statistics.intervals import FEWEST_ROUNDS
from costof.statistics.verdicts import verdicts

FALSE_ALARMS = 0.01


def count_errors(run: Run) -> list[ErrorCount]:
    """Count the errors of all slices, including warm-up and discarded ones, by arm, workload and class."""
    counts: dict[tuple[str, str, str], ErrorCount] = {}
    for record in run.slices:
        for error in record.answer.errors:
            key = (record.answer.arm, record.workload, error.error_class)
            before = counts[key].count if key in counts else 0
            detail = counts[key].detail if key in counts else error.detail
            counts[key] = ErrorCount(
                arm=key[0], workload=key[1], error_class=key[2], count=before + error.count, detail=detail
            )
    return list(counts.values())


def collect_warnings(run: Run, effects: int) -> list[str]:
    """Return the warnings of the run. Their texts are in `errors.WarningText`.

    A machine that was busy during the run is no warning, but fails a check of the report (`report/sections/checks.py`).
    """
    plan = run.plan
    texts = list(run.warnings)
    if plan.left_out:
        texts.append(WarningText.HOSTS_WITHOUT_APPLICATIONS.text(workloads="; ".join(plan.left_out)))
    for record in run.ready:
        for ready in record.ready.arms:
            if ready.error is not None:
                name, detail = ready.name, ready.error.detail
                if record.view == "command" and plan.client:
                    texts.append(WarningText.CLIENT_CANNOT.text(arm=name, client=plan.client, detail=detail))
                else:
                    warning = WarningText.APP_CANNOT if record.view == "app" else WarningText.ARM_REFUSED
                    texts.append(warning.text(arm=name, detail=detail))
    if any(run.refusal_reason(control) for control in plan.controls):
        texts.append(WarningText.NO_CONTROL.text())
    texts += lost_host_warnings(run)
    texts += [WarningText.ARM_LOST.text(arm=arm, detail=detail) for arm, detail in run.lost_arms.items()]
    for arm in plan.arms:
        wrong = [record.mismatch for record in run.all_slices(arm.name) if record.mismatch]
        if wrong:
            words = arm_in_words(plan, arm)
            texts.append(
                WarningText.EVIDENCE_MISSING.text(slices=plural(len(wrong), "slice"), arm=words, detail=wrong[0])
            )
        # Warn about host names that are not verified. Another warning covers arms that verify no certificates.
        if arm.settings.transport is not None and arm.settings.transport.verify == "ca-only":
            level = arm.settings.transport.verify
            texts.append(WarningText.VERIFICATION_OFF.text(arm=arm_in_words(plan, arm), level=level))
        slices = run.all_slices(arm.name)
        notes = dict.fromkeys(note for record in slices for note in record.answer.evidence.get(NOTES, []))
        texts += [WarningText.COMMAND_NOTE.text(arm=arm.label, note=note) for note in notes]
    texts += [*_left_by_commands(run)]
    readers = {each.command.read for each in plan.study.workloads.values() if each.command and each.command.read}
    texts += [found for name in sorted(readers) if (found := reader(name).silent_on_failures)]
    libraries = dict.fromkeys(arm.settings.tls_library for arm in plan.arms if arm.settings.tls_library)
    if libraries and any(workload.view == "app" for workload in plan.study.workloads.values()):
        texts.append(WarningText.LIBRARY_NOT_IN_DRIVERS.text(libraries=listed([*libraries])))
    differing = _replicate_differs(run)
    if differing:
        texts.append(WarningText.REPLICATE_DIFFERS.text(metrics=", ".join(differing)))
    if effects and run.units < FEWEST_ROUNDS:
        units = plural(run.units, "start" if run.starts else "round")
        texts.append(WarningText.FEW_ROUNDS.text(units=units, needed=FEWEST_ROUNDS))
    # Each start of the servers records its warnings again, so repetitions are removed.
    return list(dict.fromkeys(texts))


def lost_host_warnings(run: Run) -> list[str]:
    """Return a warning for each host that failed while the others continued."""
    return [
        WarningText.HOST_GONE.text(host=lost.host, detail=lost.detail, rest=lost.rest)
        for lost in run.lost_hosts
        if lost.rest is not None
    ]


def _left_by_commands(run: Run) -> Iterator[str]:
    """Yield a warning for each arm whose commands left processes running. Identical copies count as their control."""
    by_label: dict[str, list[str]] = {}
    for arm in run.plan.arms:
        by_label.setdefault(run.plan.original(arm).label, []).append(arm.name)
    for fact, warning in ((LEFT_RUNNING, WarningText.LEFT_RUNNING), (LEFT_BEHIND, WarningText.LEFT_BEHIND)):
        for label, arms in by_label.items():
            left = [record.answer.evidence.get(fact, []) for arm in arms for record in run.all_slices(arm)]
            leftovers = [names for names in left if names]
            if leftovers:
                children = dict.fromkeys(f"'{name}'" for names in leftovers for name in names if name != COPY_OF_ITSELF)
                names = listed([*children]) or COPY_OF_ITSELF
                yield warning.text(arm=label, children=names, slices=plural(len(leftovers), "slice"))


def _replicate_differs(run: Run) -> list[str]:
    """Return the labels of the metrics in which the control and its identical copy differ by more than chance.

    The probability of a false alarm in a run, over all its metrics together, is `FALSE_ALARMS`.
    """
    replicates = replicate_changes(run.changes)
    contrasts = [build_contrast(run.plan, name, change) for name, change in replicates]
    found, metrics = verdicts(contrasts, FALSE_ALARMS), run.plan.study.metrics
    return [
        in_view(metrics[name].label, metric_view(metrics[name], run))
        + (f" {words}" if (words := context_in_words(run.plan, change.arm)) else "")
        for (name, change), verdict in zip(replicates, found, strict=True)
        if verdict in (Verdict.COSTS, Verdict.SAVES)
    ]
