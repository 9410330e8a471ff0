"""A progress display for runs that print no progress."""

from __future__ import annotations


class Silent:
    def stage(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...

    def round(self, done: int, elapsed_seconds: float, reached: float | None) -> None: ...
