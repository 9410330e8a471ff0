"""Checks of the conditions under which a run's figures can be trusted, shown at the top of the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from costof import format as fmt
from costof.report.blocks import Block, Checks
from costof.report.how_sure import Check
from costof.report.sections import Section
from costof.results.disturbances import LEAST_SHARE, NOTABLE_SHARE_OF_OTHERS, NOTABLE_STEAL
from costof.results.index import Index
from costof.results.load import CLIENT, carried_loads, servers_are_here
from costof.results.models import Arm, Core
from costof.results.run import Run
from costof.study.commands import COMMAND

QUIET = "machine quiet"
NO_EVIDENCE = "no evidence for {arms}, whose figures may be of something else"
BUSY = "; all figures are less certain, and times may be too long"
OVERLOADED = "with {arms}, whose times are therefore left out"


class ChecksSection(Section[None, list[Check]]):
    name, title, order = "checks", "", 1
    data = list[Check]

    def compute(self, run: Run, core: Core, spec: None) -> list[Check] | None:
        if not core.values:
            return None
        overloaded = [each.arm for each in carried_loads(run) if not each.complete]
        carried = [_carried(core, overloaded)] if run.plan.load is not None else []
        return [_verified(run, core), _quiet(run), _client(run, core), *carried, _answered(run, core, overloaded)]

    def blocks(self, index: Index, data: list[Check]) -> Iterator[Block]:
        yield Checks(data)


def _verified(run: Run, core: Core) -> Check:
    """Check that there is evidence of what each arm used, such as the TLS version that was negotiated.

    Clients and servers report evidence before and after every slice. If the client is a command, the evidence is the
    output of another command (`verify`) in the study's file. Without `verify`, nothing is checked.
    """
    with_evidence = {arm.name for arm in run.plan.arms if run.plan.study.service.kind != COMMAND or arm.settings.verify}
    unverified = [arm.label + arm.at for arm in core.arms if not arm.evidence and arm.name in with_evidence]
    if unverified:
        return Check(
            passed=False,
            label="variants not verified",
            detail=NO_EVIDENCE.format(arms=fmt.listed(unverified)),
            doubt=f"there is no evidence for {fmt.listed(unverified)}",
            arms=_names([arm for arm in core.arms if not arm.evidence]),
        )
    discarded = sum(each.discarded for arm in core.arms for each in arm.evidence)
    if discarded:
        windows = f"{fmt.plural(discarded, 'measured window')} without evidence"
        return Check(
            passed=False,
            label="not all windows verified",
            detail=f"{windows} left out",
            doubt=f"{windows} {'was' if discarded == 1 else 'were'} left out",
            arms=_names([arm for arm in core.arms if any(each.discarded for each in arm.evidence)]),
        )
    if run.plan.study.service.kind != COMMAND:
        return Check(passed=True, label="variants verified")
    assumed = [arm.label for arm in run.plan.arms if not arm.replicate and not arm.settings.verify]
    if not assumed:
        return Check(passed=True, label="variants verified")
    arms = "them" if len(assumed) == len(run.plan.controls) + len(run.plan.protected) else fmt.listed(assumed)
    return Check(passed=None, label="variants not verified", detail=f"no command verifies {arms}")


def _names(arms: Sequence[Arm]) -> list[str]:
    """Return the names of the arms that are not copies of a control. Copies affect only the noise floor."""
    return [arm.name for arm in arms if not arm.replicate]


def _quiet(run: Run) -> Check:
    """Check that other programs and the hypervisor used little of the machine's CPU."""
    usual, steal = run.disturbances.typical_share, run.steal_share or 0.0
    disturbers = []
    if usual > NOTABLE_SHARE_OF_OTHERS:
        disturbers.append(f"other programs{_own_servers(run)} used {fmt.percent(usual)} of the machine's CPU time")
    if steal > NOTABLE_STEAL:
        disturbers.append(f"the hypervisor took {fmt.percent(steal)} of the machine's CPU time")
    disturbed = _disturbed_rounds(run)
    if disturbers:
        rounds = f"; {': '.join(disturbed)}" if disturbed is not None else ""
        return Check(
            passed=False,
            label="machine busy",
            detail=f"{fmt.listed(disturbers)}{BUSY}{rounds}",
            doubt=f"the machine was {fmt.percent(usual)} busy with other programs"
            if usual > NOTABLE_SHARE_OF_OTHERS
            else f"the hypervisor took {fmt.percent(steal)} of the CPU time",
        )
    if disturbed is not None:
        return Check(passed=True, label=f"{QUIET}, except that {disturbed[0]}", detail=disturbed[1])
    return Check(passed=True, label=QUIET)


def _disturbed_rounds(run: Run) -> tuple[str, str] | None:
    """Return how many rounds were disturbed, such as '1 round was discarded', and why; None if no round was."""
    rounds, usual = run.disturbances, run.disturbances.typical_share
    kept = [number for number, share in rounds.shares.items() if share > usual + LEAST_SHARE]
    disturbed = [*rounds.discarded] or kept
    if not disturbed:
        return None
    were = f"{fmt.plural(len(disturbed), 'round')} {'was' if len(disturbed) == 1 else 'were'}"
    words = f"{were} {'discarded' if rounds.discarded else 'disturbed'}"
    highest = max(rounds.shares.get(number, 0.0) for number in disturbed)
    if highest <= usual + LEAST_SHARE:
        return words, "its clock jumped"
    most = "up to " if len(disturbed) > 1 else ""
    return words, f"other programs or the hypervisor used {most}{fmt.percent(highest)} of the machine's CPU time"


#: A check names the arms that it concerns if they are at most this many.
MOST_ARMS = 4


def _own_servers(run: Run) -> str:
    """Return ' (including your own servers)' if the CPU time of other programs may include that of the user's servers.

    Return '' if this run reads the CPU time of the servers separately, or started the servers itself (a lab).
    """
    if run.plan.study.service.kind == COMMAND:
        return " (including your own servers)"
    if run.plan.target is None:
        return ""
    if not servers_are_here(run):
        return " (including your own servers, if they run on it)"
    options = run.plan.target_options
    return "" if options is not None and options.server_cpu else " (including your own servers)"


def _client(run: Run, core: Core) -> Check:
    """Check that the load generator used at most 80 % of one core while headline rates were measured.

    A load generator that uses a whole core may itself limit the rate, so that the rate is not that of the servers.
    """
    busy = {each.workload for each in core.cpu if each.busiest == CLIENT}
    rates = [
        metric
        for metric in core.metrics
        if metric.headline and metric.unit == "per_second" and metric.workload in busy
        if run.plan.study.workloads[metric.workload].workers > 1
    ]
    if not rates:
        return Check(passed=True, label="load generator not the limit")
    names = fmt.listed([f"'{metric.label}'" for metric in rates])
    full = {each.arm for each in core.cpu if each.busiest == CLIENT and each.workload in {m.workload for m in rates}}
    labels = [fmt.in_quotes(arm.label) + arm.where for arm in core.arms if arm.name in full and not arm.replicate]
    which = f" for {fmt.listed(labels)}" if 0 < len(labels) <= MOST_ARMS else ""
    return Check(
        passed=False,
        label="load generator may be the limit",
        detail=f"{names} may be too low{which} (the load generator's core was nearly full)",
        doubt="the load generator's core was nearly full",
        metrics=[metric.name for metric in rates],
    )


def _carried(core: Core, overloaded: Sequence[str]) -> Check:
    arms = [arm.label + arm.at for arm in core.arms if arm.name in overloaded and not arm.replicate]
    if not overloaded:
        return Check(passed=True, label="load carried")
    return Check(
        passed=False,
        label="load not carried",
        detail=OVERLOADED.format(arms=fmt.listed(arms)) if arms else "",
        doubt="the load was not carried",
        arms=_names([arm for arm in core.arms if arm.name in overloaded]),
    )


def _answered(run: Run, core: Core, overloaded: Sequence[str]) -> Check:
    """Check that no operation failed, and that no headline figure is missing on an arm that carried its load."""
    failed = sum(record.answer.failed for record in run.counted)
    elsewhere = sum(each.count for each in core.errors) - failed
    headline = {metric.name: metric.label for metric in core.metrics if metric.headline}
    missing = dict.fromkeys(
        f"'{headline[each.metric]}'" for each in core.missing if each.metric in headline and each.arm not in overloaded
    )
    details = []
    absent = [each for each in core.missing if each.arm not in overloaded]
    metrics, arms = [each.metric for each in absent], [each.arm for each in absent]
    if failed:
        first, *more = dict.fromkeys(record.workload for record in run.counted if record.answer.failed)
        metrics += [metric.name for metric in core.metrics if metric.workload in (first, *more)]
        arms += [record.answer.arm for record in run.counted if record.answer.failed]
        where = [
            f"'{run.plan.study.workloads[first].label}'",
            *([fmt.plural(len(more), "more workload")] if more else []),
        ]
        details = [f"{fmt.plural(failed, 'error')} in {fmt.listed(where)}, whose figures count only successes"]
    elif elsewhere:
        details = [f"{fmt.plural(elsewhere, 'error')} in the warm-up or in discarded windows, which no figure includes"]
    details += [f"{fmt.listed([*missing])} missing"] if missing else []
    label = "operations failed" if failed or elsewhere else "figures missing" if missing else "nothing failed"
    return Check(
        passed=not details,
        label=label,
        detail=" and ".join(details),
        doubt=_failed_share(core, arms, metrics) if failed else "figures are missing" if missing else "",
        metrics=metrics,
        arms=[*dict.fromkeys(arms)],
    )


def _failed_share(core: Core, arms: Sequence[str], metrics: Sequence[str]) -> str:
    """Return text such as 'up to 20 % of operations failed', with the highest share among arms and workloads."""
    workloads = {metric.workload for metric in core.metrics if metric.name in metrics}
    shares = [each.share for each in core.failures if each.arm in arms and each.workload in workloads]
    return f"{'up to ' if len(shares) > 1 else ''}{fmt.percent(max(shares, default=0.0))} of operations failed"


SECTION = ChecksSection()
