"""A user's own server of any program that costof can be a guest on, reached by its URL."""

from __future__ import annotations

from costof.errors import CostofError, ErrorText
from costof.programs.access import Access, ShownAccess
from costof.programs.server import target_server
from costof.services import Service
from costof.services.target import TargetService
from costof.study.plan import Plan
from costof.study.schema import ArmSettings, Level, Study

#: What a lab puts before its server, and nobody before a user's own.
ENTRANCES = frozenset({"tunnel", "stunnel", "pool"})


def offers(level: Level | ArmSettings, access: Access) -> bool:
    """Whether a user's own server can be had as a level asks: by no entrance of the lab's, and through a pooler that
    stands there."""
    return not ENTRANCES & level.lab.keys() and (not level.target.get("pooler") or access.pooler_url is not None)


def service(plan: Plan, access: Access, run_name: str) -> Service:
    """Raises `LAB_ONLY_PROGRAM`, `BAD_TARGET`, `NO_ENTRANCE_TO_TARGET`."""
    server = target_server(plan.study.service.program)
    factor = plan.study.main_factor
    entered = {arm.levels[factor] for arm in plan.arms if not offers(arm.settings, access)}
    if entered:
        rest = ",".join(dict.fromkeys(arm.levels[factor] for arm in plan.arms if arm.levels[factor] not in entered))
        raise CostofError(ErrorText.NO_ENTRANCE_TO_TARGET, levels=", ".join(sorted(entered)), factor=factor, rest=rest)
    return TargetService(access, server(access, plan.study.name, run_name, plan.records))


def shown(access: Access, study: Study) -> ShownAccess:
    return target_server(study.service.program)(access, study.name, "", 0).shown_access()
