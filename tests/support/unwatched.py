"""A progress display that shows nothing, for runs whose progress is not tested."""

from __future__ import annotations


class Silent:
    def stage(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...

    def round(self, done: int, elapsed_seconds: float, reached: float | None) -> None: ...
