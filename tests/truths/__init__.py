"""Simulated true times of the arms of each study, for fake runs.

A module has those of some studies in `TRUTHS`. If the smallest run with every section of a study needs settings, the
module has them in `SMALL`.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from tests.fake_run import Truth

_MODULES = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
TRUTHS: dict[str, Truth] = {
    study: truth for module in _MODULES for study, truth in getattr(module, "TRUTHS", {}).items()
}
SMALL: dict[str, tuple[str, ...]] = {
    study: settings for module in _MODULES for study, settings in getattr(module, "SMALL", {}).items()
}
