"""A folder in which the processes of one test run share what takes them long to compute."""

from __future__ import annotations

from pathlib import Path

#: The folder; None if the tests run in one process.
folder: Path | None = None
