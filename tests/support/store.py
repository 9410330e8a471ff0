"""A folder in which the processes of one test run share results that take long to compute."""

from __future__ import annotations

from pathlib import Path

#: The folder; None if the tests run in one process and share nothing.
folder: Path | None = None
