"""The true times and counts of each study's simulated runs.

The modules are merged: `TRUTHS` has a `Truth` for each study. For studies that need them, `SMALL` has the settings of
the smallest run whose report has every section.
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
