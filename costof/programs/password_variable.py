"""The environment variable for the password; in a file of its own to keep the start of the root command fast."""

from __future__ import annotations

import os

VARIABLE = "COSTOF_PASSWORD"


def remove_from_environment() -> str | None:
    """Remove the password from the environment and return it. Otherwise all child processes would inherit it."""
    return os.environ.pop(VARIABLE, None)
