"""The password that the environment holds: taken out of it before any command, and all that a command needs, is imported."""

from __future__ import annotations

import os

VARIABLE = "COSTOF_PASSWORD"


def take_out_of_environment() -> str | None:
    """The environment's, which the engine and the servers of a lab would inherit; once, before any command runs."""
    return os.environ.pop(VARIABLE, None)
