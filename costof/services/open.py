"""Functions that choose and create the service for a run: a lab (servers that the run starts) or the user's target.

`lab.py` and `target.py` in `costof/services/<kind>/` each have a function `service(plan, …)` that creates the service.
`target.py` also has a function `shown`, which returns the target's URLs without secrets.
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
from costof.services.server_memory import ServerMemory
from costof.study.commands import COMMAND
from costof.study.plan import Plan, TargetOptions
from costof.study.schema import Level, Study

#: Kinds of service whose target has one URL for plain and one for TLS connections, and neither database nor log-in.
TWO_URLS = frozenset({"http"})


def open_service(plan: Plan, access: Access | None, run_name: str) -> Service:
    """Return the service for a plan without starting it: a target if `access` is given, otherwise a lab.

    `access` has the target's URL and password, which the plan does not contain.

    Raises `NO_SERVICE`, `NO_PROGRAM_IN_FOLDER`, `LAB_ONLY_PROGRAM`, `BAD_SERVER_CPU`, `BAD_SERVER_MEMORY`,
    `PLAIN_TARGET_UNUSED`, `TARGET_OPTION_UNUSED`, `PLAIN_NOT_ALLOWED`, `POOLER_UNUSED`, `TARGET_ONLY_LEVEL`, and the
    errors of a wrong URL.
    """
    service: Service
    if access is None:
        _check_lab_levels(plan)
        service = _module(plan.study, "lab").service(plan)
        return service
    _check_unused_options(plan.study, access)
    service = _module(plan.study, "target").service(plan, access, run_name)
    service.server_cpu = ServerCpu(access.server_cpu) if access.server_cpu is not None else None
    service.server_memory = ServerMemory(access.server_memory) if access.server_memory is not None else None
    _check_plain_arms(plan, service)
    return service


def shown_urls(study: Study, access: Access | None) -> tuple[str | None, str | None]:
    """Return the URLs of the options `--target` and `--plain-target` without secrets; None for a missing option.

    The run's plan file stores the URLs in this form. Raises the errors of a wrong URL.
    """
    if access is None:
        return None, None
    shown = _shown(study, access)
    return shown.url, shown.plain_url


def target_options(study: Study, access: Access | None) -> TargetOptions | None:
    """Return the user's options for a target, except its URLs and without secrets; None for a lab.

    The run's plan file stores the options in this form. Raises the errors of a wrong URL.
    """
    if access is None:
        return None
    shown = _shown(study, access)
    return TargetOptions(
        ca_file=str(access.ca_file.absolute()) if access.ca_file is not None else None,
        database=access.database,
        allow_plain=access.allow_plain,
        server_cpu=_command_in_plan(access.server_cpu) if access.server_cpu is not None else None,
        server_memory=_command_in_plan(access.server_memory) if access.server_memory is not None else None,
        pooler=shown.pooler_url,
        with_password=shown.with_password,
    )


def _command_in_plan(command: str) -> str:
    """Return a user's command for the run's plan file, with everything masked that looks like a password."""
    shown = without_passwords(command)
    return command if shown == " ".join(command.split()) else shown


def _shown(study: Study, access: Access) -> ShownAccess:
    _check_unused_options(study, access)
    shown: ShownAccess = _module(study, "target").shown(access, study)
    return shown


def offered_levels(study: Study, access: Access | None) -> Callable[[Level], bool] | None:
    """Return a function that says whether the target can measure a level; None if it can measure all levels.

    The levels are those of the main factor, which are the variants of the protection that the study examines.
    """
    offers = getattr(_module(study, "target"), "offers", None) if access is not None else None
    return None if offers is None else lambda level: bool(offers(level, access))


def lacking_levels(study: Study, access: Access, connect: bool) -> dict[str, str]:
    """Return the levels of the main factor (variants of the protection) that this target cannot offer, with reasons.

    The function connects to the target to find out. With `connect` false it does not connect, and returns all levels
    that some targets cannot offer. Raises the errors of a target that cannot be reached.
    """
    find = getattr(_module(study, "target"), "lacking_levels", None)
    return {} if find is None else dict(find(study, access, connect))


def _check_unused_options(study: Study, access: Access) -> None:
    has_pooler = any(level.target.get("pooler") for level in study.factors[study.main_factor].levels.values())
    if access.pooler_url is not None and not has_pooler:
        raise CostofError(ErrorText.POOLER_UNUSED, study=study.name)
    if study.service.kind not in TWO_URLS:
        if access.plain_url is not None:
            raise CostofError(ErrorText.PLAIN_TARGET_UNUSED)
        return
    password = access.password is not None and access.password.explicit
    options = {"a password": password, "--database": access.database, "--allow-plain": access.allow_plain}
    for option, value in options.items():
        if value:
            raise CostofError(ErrorText.TARGET_OPTION_UNUSED, option=option)


def _check_lab_levels(plan: Plan) -> None:
    """Raise `TARGET_ONLY_LEVEL` if a plan for a lab has levels (settings) that only a user's own server can have."""
    factor = plan.study.main_factor
    known = plan.study.factors[factor].levels
    only_on_target = {name for name, level in known.items() if level.exists_only_on_target}
    if levels := dict.fromkeys(arm.levels[factor] for arm in plan.arms if arm.levels[factor] in only_on_target):
        raise CostofError(ErrorText.TARGET_ONLY_LEVEL, levels=", ".join(levels), factor=factor)


def _module(study: Study, module: str) -> ModuleType:
    name = f"{__package__}.{study.service.kind}"
    try:
        return import_module(f"{name}.{module}")
    except ModuleNotFoundError as error:
        if error.name == f"{name}.{module}" and module == "target":
            if study.service.kind != COMMAND:
                raise CostofError(ErrorText.LAB_ONLY_PROGRAM, study=study.name) from None
            raise CostofError(ErrorText.NO_TARGET, study=study.name) from None
        if error.name != name:
            raise
        raise CostofError(ErrorText.NO_SERVICE, what="kind of service", name=study.service.kind) from None


def _check_plain_arms(plan: Plan, service: Service) -> None:
    """Raise `PLAIN_NOT_ALLOWED` if the plan has arms without TLS although the target's URL requires TLS.

    There is no error if the plan measures only the protection, such as TLS (`protection_alone`), and nothing without
    it. The report then says why the arms without TLS are missing.
    """
    refused = [arm for arm in plan.arms if service.refusal_reason(arm) is not None]
    if refused and not plan.protection_alone:
        protected = next((arm.levels[plan.study.main_factor] for arm in plan.protected if arm not in refused), "tls")
        raise CostofError(
            ErrorText.PLAIN_NOT_ALLOWED,
            target=plan.target,
            arms=", ".join(arm.name for arm in refused),
            factor=plan.study.main_factor,
            protected=protected,
        )
