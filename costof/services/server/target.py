"""A user's own server as a service, for every server program that supports targets."""

from __future__ import annotations

from costof.errors import CostofError, ErrorText
from costof.programs.access import Access, ShownAccess
from costof.programs.server import target_server
from costof.services import Service
from costof.services.server.lab import ENTRANCES
from costof.services.target import TargetService
from costof.study.plan import Plan
from costof.study.schema import ArmSettings, Level, Study


def offers(level: Level | ArmSettings, access: Access) -> bool:
    """Return whether a level can be measured on a target.

    A level can be measured if it needs no program in front of the server, which exists only in a lab. If the level
    needs a pooler, the user must have given a pooler's URL.
    """
    in_lab_only = {kind.setting for kind in ENTRANCES}
    return not in_lab_only & level.lab.keys() and (not level.target.get("pooler") or access.pooler_url is not None)


def service(plan: Plan, access: Access, run_name: str) -> Service:
    """Return the service of a plan. Raises `LAB_ONLY_PROGRAM`, `BAD_TARGET`, `NO_ENTRANCE_TO_TARGET`."""
    server = target_server(plan.study.service.program)
    factor = plan.study.main_factor
    refused = {arm.levels[factor] for arm in plan.arms if not offers(arm.settings, access)}
    if refused:
        rest = ",".join(dict.fromkeys(arm.levels[factor] for arm in plan.arms if arm.levels[factor] not in refused))
        raise CostofError(
            ErrorText.NO_ENTRANCE_TO_TARGET, levels=", ".join(sorted(refused)), factor=factor, other_levels=rest
        )
    return TargetService(access, server(access, plan.study.name, run_name, plan.records))


def shown(access: Access, study: Study) -> ShownAccess:
    return target_server(study.service.program)(access, study.name, "", 0).shown_access()
