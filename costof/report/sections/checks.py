"""Things without which no figure of a run is worth much, each with its mark, before anything else is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from costof import format as fmt
from costof.report.blocks import Block, Check, Checks
from costof.report.sections import Section
from costof.results.index import Index
from costof.results.load import carried_loads
from costof.results.models import Core
from costof.results.run import Run
from costof.results.warnings import NEIGHBOURS_WORTH_A_WORD, STEAL_WORTH_A_WORD
from costof.study.commands import COMMAND

CLIENT = "client"


class ChecksSection(Section[None, list[Check]]):
    name, title, order = "checks", "", 1
    data = list[Check]

    def compute(self, run: Run, core: Core, spec: None) -> list[Check] | None:
        if not core.values:
            return None
        overloaded = [each.arm for each in carried_loads(run) if not each.complete]
        carried = [_carried(core, overloaded)] if run.plan.load is not None else []
        return [_proved(run, core), _quiet(run), _client(run, core), *carried, _answered(run, core, overloaded)]

    def blocks(self, index: Index, data: list[Check]) -> Iterator[Block]:
        yield Checks(data)


def _proved(run: Run, core: Core) -> Check:
    """Arms are proved by what both ends saw around every slice; commands by the proofs of their study."""
    # A command without a proof has nothing to prove, and fails by its errors alone.
    proved = {arm.name for arm in run.plan.arms if run.plan.study.service.kind != COMMAND or arm.settings.proof}
    unproved = [arm.label + arm.at for arm in core.arms if not arm.evidence and arm.name in proved]
    if unproved:
        return Check(passed=False, label="arms proved", detail=f"not {fmt.listed(unproved)}")
    discarded = sum(each.discarded for arm in core.arms for each in arm.evidence)
    but = f"{fmt.plural(discarded, 'slice')} discarded, whose evidence did not fit the arm" if discarded else ""
    if but or run.plan.study.service.kind != COMMAND:
        return Check(passed=not discarded, label="arms proved", detail=but)
    believed = [arm.label for arm in run.plan.arms if not arm.replicate and not arm.settings.proof]
    if not believed:
        return Check(passed=True, label="arms proved")
    whose = "" if len(believed) == len(run.plan.controls) + len(run.plan.protected) else f" for {fmt.listed(believed)}"
    return Check(passed=None, label="arms not verified", detail=f"no proof is given{whose}")


def _quiet(run: Run) -> Check:
    usual, steal = run.disturbances.typical_share, run.steal_share or 0.0
    own = ", your own servers among them," if run.plan.target or run.plan.study.service.kind == COMMAND else ""
    taken = [f"others{own} took {fmt.percent(usual)} of its CPU"] if usual > NEIGHBOURS_WORTH_A_WORD else []
    taken += [f"the hypervisor took {fmt.percent(steal)} of it"] if steal > STEAL_WORTH_A_WORD else []
    return Check(passed=not taken, label="machine quiet", detail=fmt.listed(taken))


def _client(run: Run, core: Core) -> Check:
    """Report a load generator near a whole core in a headline rate: then the rate is its own limit."""
    rates = {metric.workload for metric in core.metrics if metric.headline and metric.unit == "per_second"}
    many = {name for name in rates if run.plan.study.workloads[name].workers > 1}
    busy = dict.fromkeys(each.workload for each in core.cpu if each.busiest == CLIENT and each.workload in many)
    labels = [f"'{run.plan.study.workloads[name].label}'" for name in busy]
    but = f"it used most of one core in {fmt.listed(labels)}" if labels else ""
    return Check(passed=not labels, label="load generator not the limit", detail=but)


def _carried(core: Core, overloaded: Sequence[str]) -> Check:
    arms = [arm.label + arm.at for arm in core.arms if arm.name in overloaded and not arm.replicate]
    return Check(passed=not overloaded, label="load carried", detail=f"not by {fmt.listed(arms)}" if arms else "")


def _answered(run: Run, core: Core, overloaded: Sequence[str]) -> Check:
    """Whether every operation was answered, and every headline figure of an arm that carried its load was there."""
    failed = sum(piece.answer.failed for piece in run.counted)
    elsewhere = sum(each.count for each in core.errors) - failed
    headline = {metric.name: metric.label for metric in core.metrics if metric.headline}
    missing = [each for each in core.missing if each.metric in headline and each.arm not in overloaded]
    lacking = dict.fromkeys(f"'{headline[each.metric]}'" for each in missing)
    but = [fmt.plural(failed, "error")] if failed else []
    but += [f"{fmt.plural(elsewhere, 'error')} in warm-up or discarded slices"] if elsewhere else []
    but += [f"{fmt.listed([*lacking])} missing"] if lacking else []
    return Check(passed=not but, label="nothing failed", detail=" and ".join(but))


SECTION = ChecksSection()
