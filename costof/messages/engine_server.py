"""A process of the engine's as a part of the lab: it is told its plan, counts, and ends with its standard input."""

from __future__ import annotations

from collections.abc import Sequence

from costof.messages.process import READY_SECONDS, Instrument, T, engine_path, process_cpu_seconds
from costof.model import Model

# A busy machine is waited for; one that hangs is ended.
ANSWER_SECONDS = 300.0


class EngineProcess(Instrument):
    """`costof-engine <command>`, a context manager. It ends with us, whatever ends us."""

    def __init__(self, command: str, prefix: Sequence[str] = ()) -> None:
        super().__init__(f"costof-engine {command}", [*prefix, str(engine_path()), command])

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_seconds(self) -> float:
        return process_cpu_seconds(self.pid)

    def ended(self) -> int | None:
        """The exit status, when it has ended."""
        return self._process.poll()

    def _begin(self, ready: type[T], plan: Model) -> T:
        """Hand the plan over and wait until it stands. Raises `INSTRUMENT_FAILED`."""
        self._send(plan)
        return self._validated(ready, self._answer(READY_SECONDS).get("ready"))

    def _counted(self, counters: type[T]) -> T:
        """Raises `INSTRUMENT_FAILED` when the process has died."""
        self._send({"counters": {}})
        return self._validated(counters, self._answer(ANSWER_SECONDS).get("counters"))
