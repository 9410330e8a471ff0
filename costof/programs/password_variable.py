"""The environment variable for the password.

It has its own file because every costof command needs it, and importing `access` would delay each command.
"""

from __future__ import annotations

import os

VARIABLE = "COSTOF_PASSWORD"


def remove_from_environment() -> str | None:
    """Remove the password from the environment and return it, or None if it is not set.

    Child processes would otherwise inherit the password.
    """
    return os.environ.pop(VARIABLE, None)
