"""A sign of life that a run leaves in its database while it lasts, for servers that have no locks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

BEAT_SECONDS = 10.0
#: Nine beats may be lost to a server that elects a new primary before a run is taken for dead.
DEAD_AFTER_SECONDS = 90.0


class Heartbeat:
    """Calls `beat` from a thread of its own until it is stopped. One that fails is made up for by the next."""

    def __init__(self, beat: Callable[[], None], seconds: float = BEAT_SECONDS) -> None:
        self._beat = beat
        self._seconds = seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """The first beat is the caller's, so that a failure of it is told. Raises what `beat` raises."""
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            with suppress(Exception):
                self._beat()
