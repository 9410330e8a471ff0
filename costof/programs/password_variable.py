"""The password that the environment holds, apart from what checks it: the root command needs nothing else."""

from __future__ import annotations

import os

VARIABLE = "COSTOF_PASSWORD"


def take_out_of_environment() -> str | None:
    """The environment's, which the engine and the servers of a lab would inherit; once, before any command runs."""
    return os.environ.pop(VARIABLE, None)
