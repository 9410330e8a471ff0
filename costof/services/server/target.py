"""The user's own server (the target) as a service, for every server program that supports this."""

from __future__ import annotations

from costof.errors import CostofError, ErrorText
from costof.programs.access import Access, ShownAccess, check_ca_file
from costof.programs.server import PlannedUse, target_server
from costof.services import Service
from costof.services.server.lab import ENTRANCES
from costof.services.target import TargetService
from costof.study.plan import Plan
from costof.study.schema import Level, Study


def offers(level: Level, access: Access) -> bool:
    """Return whether a level (setting) can be measured on the user's server.

    These levels cannot be measured:

    - a level that needs a program in front of the server, because only a lab has such programs;
    - a level that changes the server's configuration, unless the level also has settings for single sessions;
    - a level that needs a pooler, if the user has not given the pooler's URL.
    """
    in_lab_only = {kind.setting for kind in ENTRANCES} | (set() if level.target.get("session") else {"server"})
    return not in_lab_only & level.lab.keys() and (not level.target.get("pooler") or access.pooler_url is not None)


def lacking_levels(study: Study, access: Access, connect: bool) -> dict[str, str]:
    """Return the levels of the main factor (variants of the protection) that this target cannot offer, with reasons.

    The function connects to the target to find out. With `connect` false it does not connect, and returns all levels
    that some targets cannot offer, unless the URL says that this one can (`url_promises`). Raises the errors of
    `TargetServer.reach`.
    """
    levels = {
        name: level.target
        for name, level in study.factors[study.main_factor].levels.items()
        if level.target and offers(level, access)
    }
    server = target_server(study.service.program, study.name)(access, study.name, "", 0)
    needs = {name: need for name, each in levels.items() if (need := server.may_lack(each)) is not None}
    if not needs or (not connect and server.url_promises):
        return {}
    if not connect:
        return {name: f"this needs {need}, and a dry run does not look for one" for name, need in needs.items()}
    check_ca_file(server.ca_file)
    try:
        server.reach()
        return {name: reason for name in needs if (reason := server.lacks(levels[name])) is not None}
    finally:
        server.close()


def service(plan: Plan, access: Access, run_name: str) -> Service:
    """Return the plan's service. Raises `LAB_ONLY_PROGRAM`, `LAB_ONLY_LEVEL`, `BAD_TARGET`, `NO_ENTRANCE_TO_TARGET`."""
    server = target_server(plan.study.service.program, plan.study.name)
    factor = plan.study.main_factor
    levels = plan.study.factors[factor].levels
    measured = dict.fromkeys(arm.levels[factor] for arm in plan.arms)
    refused = {level for level in measured if not offers(levels[level], access)}
    if refused:
        rest = ",".join(dict.fromkeys(arm.levels[factor] for arm in plan.arms if arm.levels[factor] not in refused))
        need_setting = all("server" in levels[level].lab for level in refused)
        raise CostofError(
            ErrorText.LAB_ONLY_LEVEL if need_setting else ErrorText.NO_ENTRANCE_TO_TARGET,
            levels=", ".join(sorted(refused)),
            factor=factor,
            other_levels=rest,
        )
    use = PlannedUse(
        kinds=frozenset(each.kind for each in plan.study.workloads.values()),
        most_operations=_most_operations(plan),
        factor=factor,
        levels={arm.levels[factor]: arm.settings.target for arm in plan.arms},
        offered={name: level.target for name, level in levels.items() if offers(level, access)},
    )
    return TargetService(access, server(access, plan.study.name, run_name, plan.records, use))


def _most_operations(plan: Plan) -> int | None:
    """Return the maximum number of operations in a run; None at a fixed rate, at which only time limits it."""
    if plan.load is not None:
        return None
    sizes = [plan.size(name, arm) for name in plan.study.workloads for arm in plan.arms]
    return sum(size.operations for size in sizes) * (plan.most_rounds + plan.warm_up_rounds)


def shown(access: Access, study: Study) -> ShownAccess:
    return target_server(study.service.program, study.name)(access, study.name, "", 0).shown_access()
