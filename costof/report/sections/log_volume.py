"""Log volume: the bytes that a server adds to its audit log for each operation, and how soon they fill a disk.

Only studies with a metric of the phase `server.audit_bytes` have this section.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from costof import format as fmt
from costof.model import Finite, Model
from costof.report.blocks import Block, Cell, Column, Paragraph, Row, Table
from costof.report.sections import Section, sentences
from costof.results.index import Index
from costof.results.models import Core, Sentence
from costof.results.run import Run
from costof.study.load import Pool

PHASE = "server.audit_bytes"
RATES = (100.0, 1_000.0, 10_000.0)
#: The operations a second for which the top of the report states the volume if the user has not given a load.
USUAL_RATE = 1_000.0
DISK_BYTES = 100e9
DAY_SECONDS = 86_400.0
NOTE = (
    "Each time in the table is the time that the log alone takes to fill {disk}, if nothing removes or compresses it. "
    "For another disk or rate, the seconds until the disk is full are the bytes of the disk ÷ (operations a second × "
    "bytes of log an operation)."
)


class Volume(Model):
    """The bytes that one operation of a workload adds to the log of an arm's server."""

    arm: str
    workload: str
    bytes: Finite = Field(description="Mean over all rounds.")


class LogVolume(Model):
    per_second: list[Finite] = Field(description="The rates for which the report gives times; the load's rate first.")
    volumes: list[Volume]


class LogVolumeSection(Section[None, LogVolume]):
    name, title, order = "log_volume", "Volume of the log", 32
    data = LogVolume

    def compute(self, run: Run, core: Core, spec: None) -> LogVolume | None:
        workloads = {each.name: each.workload for each in core.metrics if each.phase == PHASE}
        volumes = [
            Volume(arm=value.arm, workload=workloads[value.metric], bytes=value.mean.value)
            for value in core.values
            if value.metric in workloads and value.mean.value > 0
        ]
        if not volumes:
            return None
        load = run.plan.load
        chosen = load.operations_per_second if isinstance(load, Pool) else None
        return LogVolume(per_second=[chosen] if chosen else list(RATES), volumes=volumes)

    def answer(self, index: Index, data: LogVolume) -> list[Sentence]:
        """Return a sentence about the arm whose operations add most bytes to the log, in the first workload."""
        first = data.volumes[0].workload
        most = max((each for each in data.volumes if each.workload == first), key=lambda each: each.bytes)
        rate = data.per_second[0] if len(data.per_second) == 1 else USUAL_RATE
        per_day = fmt.bytes_text(most.bytes * rate * DAY_SECONDS)
        text = (
            f"{fmt.capital(index.label_at(most.arm))} adds {fmt.bytes_text(most.bytes)} to the log for each operation "
            f"({index.workload_label(first)}): {per_day} a day at {fmt.number(rate)} operations a second."
        )
        return sentences("answer", [text])

    def blocks(self, index: Index, data: LogVolume) -> Iterator[Block]:
        rows = []
        for workload in dict.fromkeys(each.workload for each in data.volumes):
            rows.append(Row([Cell(index.workload_label(workload))], "group"))
            for each in (each for each in data.volumes if each.workload == workload):
                times = [_time(DISK_BYTES / (each.bytes * rate)) for rate in data.per_second]
                rows.append(Row([*map(Cell, [index.label_at(each.arm), fmt.bytes_text(each.bytes), *times])]))
        rates = [f"at {fmt.number(rate)}/s" for rate in data.per_second]
        disk = fmt.bytes_text(DISK_BYTES)
        columns = [Column("variant", "text"), Column("log an operation"), *map(Column, rates)]
        title = f"Bytes of log for each operation, and time until the log fills {disk}"
        yield Table(columns, rows, title, group="workload")
        yield Paragraph(NOTE.format(disk=disk), "note")


def _time(seconds: float) -> str:
    return (
        fmt.with_unit(fmt.number(seconds / DAY_SECONDS, 0), "d") if seconds > 2 * DAY_SECONDS else fmt.roughly(seconds)
    )


SECTION = LogVolumeSection()
