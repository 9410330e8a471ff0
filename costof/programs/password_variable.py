"""The environment variable for the password.

It has its own file because every costof command needs it, and importing `access` would delay each command.
"""

from __future__ import annotations

import os

VARIABLE = "COSTOF_PASSWORD"


def remove_from_environment() -> str | None:
    """Return the password (None if not set) and remove it from the environment, which child processes inherit."""
    return os.environ.pop(VARIABLE, None)
