"""Whole runs that nobody watches."""

from __future__ import annotations


class Silent:
    """Of a run that nobody watches."""

    def stage(self, text: str) -> None: ...

    def round(self, done: int, elapsed_seconds: float, reached: float | None) -> None: ...
