"""Metrics: the figures that a study asks for."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from costof.model import Model

UNITS_OF_PHASES = ("ms", "us", "per_second")
#: Instead of a phase: the slice as a whole, from its start to the end of its last operation.
WHOLE_SLICE = "slice"
#: Instead of a phase: a figure that the servers gave of the slice, such as 'server.primary_cpu' (`Service.judge`).
OF_SERVERS = "server."
#: Instead of a phase: a figure that a command has told, such as 'figure.tps'.
OF_COMMAND = "figure."
#: CPU time of a role for each operation of a slice, such as 'cpu.gateway'.
OF_CPU = "cpu."


class Metric(Model):
    """A figure: the mean time of one phase of one workload, in `unit`.

    'per_second' is the rate that follows from it: of one worker, or of all of them with `all_workers`. Of the phase
    'slice' it is operations over elapsed time, as ab counts, and a time is the elapsed time itself. Of the phase
    'server.<name>' it is a figure of the servers' own, of 'figure.<name>' one that a command has told, of 'cpu.<role>'
    CPU time for each operation, of 'bytes.<phase>' the bytes of each of the phase's operations, both ways, and of any
    other dotted name, such as 'tpcc.committed', what the instrument counts under it (`SliceAnswer.count`) a second.
    """

    label: str
    description: str
    workload: str
    phase: str
    unit: str = Field(default="ms", description="ms, us, per_second; of a figure any, such as percent or 'MB/s'.")
    headline: bool = False
    better: Literal["lower", "higher"] = "lower"
    all_workers: bool = False
    margin: float = Field(default=0.05, gt=0, lt=1, description="A relative cost below it counts as none.")

    @model_validator(mode="after")
    def _time_has_a_unit_of_time(self) -> Self:
        if not self.of_slice and self.unit not in UNITS_OF_PHASES:
            raise ValueError(f"the time of a phase is in {', '.join(UNITS_OF_PHASES)}, not in '{self.unit}'")
        return self

    @property
    def of_slice(self) -> bool:
        """Whether it is one figure of the slice as a whole, and no mean of a phase's times."""
        return self.phase == WHOLE_SLICE or "." in self.phase

    @property
    def of_command(self) -> str | None:
        """The name of the figure that a command has told; None where it is none of a command's."""
        return self.phase.removeprefix(OF_COMMAND) if self.phase.startswith(OF_COMMAND) else None
