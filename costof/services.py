"""From a plan to the servers it asks: the run's own lab, or the user's target.

A service is found by its name: `costof/lab/<service>.py` and `costof/target/<service>.py` each have a function
`service`.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from costof.plan import Plan
from costof.service import Service


def open_service(plan: Plan, target: str | None, tls_ca: Path | None, run_name: str) -> Service:
    """The service of a plan, not yet started. `target` is the URL with its password, which the plan does not hold."""
    service: Service
    if target is None:
        service = import_module(f"costof.lab.{plan.study.service}").service(plan)
    else:
        service = import_module(f"costof.target.{plan.study.service}").service(plan, target, tls_ca, run_name)
    return service
