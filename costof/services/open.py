"""From a plan to the servers it asks: the run's own lab, or the user's target.

A service is found by its kind: `lab.py` and `target.py` in `costof/services/<kind>/` each have a function `service`. A
target's takes the `Access`, and `shown` says its URLs without their secrets.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType

from costof.errors import CostofError, ErrorText
from costof.instruments.commands.passwords import without_passwords
from costof.programs.access import Access, ShownAccess
from costof.services import Service
from costof.services.server_cpu import ServerCpu
from costof.study.plan import Plan, TargetOptions
from costof.study.schema import Level, Study

#: Services whose plain and TLS entrances have URLs of their own. They have no database and no log-in.
TWO_URLS = frozenset({"http"})


def open_service(plan: Plan, access: Access | None, run_name: str) -> Service:
    """The service of a plan, not yet started. `access` holds the password, which the plan does not.

    Raises `NO_SERVICE`, `LAB_ONLY_PROGRAM`, `BAD_SERVER_CPU`, `PLAIN_TARGET_UNUSED`, `TARGET_OPTION_UNUSED`,
    `PLAIN_NOT_ALLOWED`, `POOLER_UNUSED`, `TARGET_ONLY_LEVEL`, and whatever a URL is refused for.
    """
    service: Service
    if access is None:
        _check_levels_of_lab(plan)
        service = _module(plan.study, "lab").service(plan)
        return service
    _check_used(plan.study, access)
    service = _module(plan.study, "target").service(plan, access, run_name)
    service.server_cpu = ServerCpu(access.server_cpu) if access.server_cpu is not None else None
    _check_plain_arms(plan, service)
    return service


def shown_urls(study: Study, access: Access | None) -> tuple[str | None, str | None]:
    """Return `--target` and `--plain-target` as the plan keeps them. Raises what a URL is refused for."""
    if access is None:
        return None, None
    shown = _shown(study, access)
    return shown.url, shown.plain_url


def target_options(study: Study, access: Access | None) -> TargetOptions | None:
    """Return the other options of a target as the plan keeps them. Raises what a URL is refused for."""
    if access is None:
        return None
    shown = _shown(study, access)
    return TargetOptions(
        ca_file=str(access.ca_file.absolute()) if access.ca_file is not None else None,
        database=access.database,
        allow_plain=access.allow_plain,
        server_cpu=_kept_command(access.server_cpu) if access.server_cpu is not None else None,
        pooler=shown.pooler_url,
        with_password=shown.with_password,
    )


def _kept_command(command: str) -> str:
    """Return a command of the user's as a plan keeps it: as it is, or without what looks like a password."""
    shown = without_passwords(command)
    return command if shown == " ".join(command.split()) else shown


def _shown(study: Study, access: Access) -> ShownAccess:
    _check_used(study, access)
    shown: ShownAccess = _module(study, "target").shown(access, study)
    return shown


def offered_levels(study: Study, access: Access | None) -> Callable[[Level], bool] | None:
    """Tell which levels of the main factor a user's own servers can be had at; None where they can at all."""
    offers = getattr(_module(study, "target"), "offers", None) if access is not None else None
    return None if offers is None else lambda level: bool(offers(level, access))


def _check_used(study: Study, access: Access) -> None:
    """Raise for options that a target of this study has no use for."""
    has_pooler = any(level.target.get("pooler") for level in study.factors[study.main_factor].levels.values())
    if access.pooler_url is not None and not has_pooler:
        raise CostofError(ErrorText.POOLER_UNUSED, study=study.name)
    if study.service.kind not in TWO_URLS:
        if access.plain_url is not None:
            raise CostofError(ErrorText.PLAIN_TARGET_UNUSED)
        return
    password = access.password is not None and access.password.said
    said = {"a password": password, "--database": access.database, "--allow-plain": access.allow_plain}
    for option, value in said.items():
        if value:
            raise CostofError(ErrorText.TARGET_OPTION_UNUSED, option=option)


def _check_levels_of_lab(plan: Plan) -> None:
    factor = plan.study.main_factor
    if of_own := dict.fromkeys(arm.levels[factor] for arm in plan.arms if arm.settings.target):
        raise CostofError(ErrorText.TARGET_ONLY_LEVEL, levels=", ".join(of_own), factor=factor)


def _module(study: Study, which: str) -> ModuleType:
    name = f"{__package__}.{study.service.kind}"
    try:
        return import_module(f"{name}.{which}")
    except ModuleNotFoundError as error:
        if error.name == f"{name}.{which}" and which == "target":
            raise CostofError(ErrorText.NO_TARGET, study=study.name) from None
        if error.name != name:
            raise
        raise CostofError(ErrorText.NO_SERVICE, what="kind of service", name=study.service.kind) from None


def _check_plain_arms(plan: Plan, service: Service) -> None:
    """Raises `PLAIN_NOT_ALLOWED` at once where a comparison was asked for that cannot be had. Whoever asked for the
    protection alone has figures of it, and is told why the others are not there."""
    refusal_reason = [arm for arm in plan.arms if service.refusal_reason(arm) is not None]
    if refusal_reason and not plan.protection_alone:
        protected = next(
            (arm.levels[plan.study.main_factor] for arm in plan.protected if arm not in refusal_reason), "tls"
        )
        raise CostofError(
            ErrorText.PLAIN_NOT_ALLOWED,
            target=plan.target,
            arms=", ".join(arm.name for arm in refusal_reason),
            factor=plan.study.main_factor,
            protected=protected,
        )
