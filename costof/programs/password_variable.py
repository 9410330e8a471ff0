"""The password that the environment holds, apart from what checks it: the root command needs nothing else."""

from __future__ import annotations

import os

VARIABLE = "COSTOF_PASSWORD"


def remove_from_environment() -> str | None:
    """Remove it once, before any command runs: the engine and a lab's servers would inherit it."""
    return os.environ.pop(VARIABLE, None)
