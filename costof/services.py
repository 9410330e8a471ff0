"""From a plan to the servers it asks: the run's own lab, or the user's target.

A service is found by its name: `costof/lab/<service>.py` and `costof/target/<service>.py` each have a function
`service`.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from costof.errors import CostofError, Problem
from costof.plan import Plan
from costof.service import Service

#: Services whose plain and TLS entrances have URLs of their own.
TWO_URLS = frozenset({"http"})


def open_service(
    plan: Plan, target: str | None, tls_ca: Path | None, run_name: str, plain_target: str | None = None
) -> Service:
    """The service of a plan, not yet started. `target` is the URL with its password, which the plan does not hold.

    Raises `PLAIN_TARGET_UNUSED`, and whatever a URL is refused for.
    """
    service: Service
    two_urls = target is not None and plan.study.service in TWO_URLS
    if plain_target is not None and not two_urls:
        raise CostofError(Problem.PLAIN_TARGET_UNUSED)
    if target is None:
        service = import_module(f"costof.lab.{plan.study.service}").service(plan)
    elif two_urls:
        service = import_module(f"costof.target.{plan.study.service}").service(plan, target, plain_target, tls_ca)
    else:
        service = import_module(f"costof.target.{plan.study.service}").service(plan, target, tls_ca, run_name)
    return service
