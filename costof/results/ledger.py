"""The ledger: the raw results of a run on disk, from which every report can be made again.

`plan.json` is written once; `slices.jsonl` is appended and flushed record by record, so that whatever ends a run, what
was measured is there. A record is `{"record": kind, …}`; a line that a crash cut off at the end is passed over.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from costof.errors import CostofError, ErrorText
from costof.files import write_whole
from costof.lab.round_trips import LinkEvidence
from costof.messages.answers import HostPart, Ready, SliceAnswer
from costof.model import Model
from costof.results.older_ledgers import update_plan, update_record
from costof.results.samples import SliceKey
from costof.statistics.verdicts import ERROR_RATE
from costof.study.plan import Plan
from costof.study.schema import SliceSize

PLAN = "plan.json"
SLICES = "slices.jsonl"
#: Of the form of a plan and its records, and the earliest that is still read: 6 has hosts beside what 5 has, and 7 the
#: control's copies by turns (`SliceRecord.stands_for`) and what commands report of failures; 8 has other names
#: (`results/older_ledgers.py`).
LEDGER_VERSION, EARLIEST_VERSION = 8, 5


class EnvironmentRecord(Model):
    """The machine and the programs, at the start of a run or of its resumption."""

    record: Literal["environment"] = "environment"
    started: str
    start: int = Field(
        default=0, description="Of the servers, where a plan has several: all slices that follow are of it."
    )
    facts: dict[str, Any]
    versions: dict[str, str] | None = Field(
        default=None, description="Of the servers, by name; among `facts` alone in ledgers of before."
    )
    identity: dict[str, str] = Field(default={}, description="What tells the servers from others: version, id, …")


class ReadyRecord(Model):
    """What an instrument said before the first slice. `view` is wire or app."""

    record: Literal["ready"] = "ready"
    view: str
    ready: Ready


class SliceRecord(Model):
    """One slice: the instrument's answer, the servers' counters and CPU beside it, and whether it proved its arm."""

    record: Literal["slice"] = "slice"
    round: int
    warm_up: bool
    view: str
    workload: str
    answer: SliceAnswer
    server_connections: int | None
    server_tls: dict[str, int] | None
    server_cpu_seconds: dict[str, float]
    server_throttled_seconds: dict[str, float] = Field(default_factory=dict)
    server_figures: dict[str, float] = Field(default_factory=dict)
    server_facts: dict[str, str] = Field(default_factory=dict)
    server_counts: dict[str, int] = Field(default_factory=dict)
    observed_seconds: float = Field(description="Between the readings of servers and machine around the slice.")
    steal_seconds: float = 0.0
    foreign_cpu_seconds: float = Field(default=0.0, description="Of programs that have no part in the run.")
    clock_jump_seconds: float = Field(default=0.0, description="What the time of day moved by beyond what passed.")
    mismatch: str | None = None
    hosts: list[HostPart] = Field(default=[], description="Each one's part, where several hosts measured together.")
    stands_for: str | None = Field(
        default=None,
        description="The copy of the control whose figures it gives, where that is not its own arm: the copy that is "
        "measured first in a round stands for the control.",
    )

    @property
    def turn(self) -> SliceKey:
        return SliceKey(self.workload, self.answer.arm, self.stands_for)


class EvidenceRecord(Model):
    """What the service itself proved of an arm before it was measured."""

    record: Literal["evidence"] = "evidence"
    arm: str
    facts: dict[str, str]


class LinksRecord(Model):
    """What was measured on the lab's links."""

    record: Literal["links"] = "links"
    links: list[LinkEvidence]


class LostRecord(Model):
    """The service went away, or with `arm` that arm's own part of it, or with `host` one of several that measured: then
    `round` is no round, and is repeated with the `rest` of them where that is enough."""

    record: Literal["lost"] = "lost"
    arm: str | None = None
    host: str | None = None
    round: int | None = None
    rest: int | None = None
    detail: str


class WarningRecord(Model):
    record: Literal["warning"] = "warning"
    text: str


class EndRecord(Model):
    """Why the run ended. `partial` is None when it ended by itself. `error_rate`: of its verdicts, less what its looks
    have spent."""

    record: Literal["end"] = "end"
    partial: str | None
    steal_share: float
    error_rate: float = ERROR_RATE


class SizesRecord(Model):
    """What the warm-up showed to be enough, in place of the plan's sizes of slices."""

    record: Literal["sizes"] = "sizes"
    slices: dict[str, SliceSize]


class LookRecord(Model):
    """The run was looked at, to end it if its headline verdicts stood; so much of the error rate was spent on that."""

    record: Literal["look"] = "look"
    round: int
    error_rate: float


AnyRecord = (
    EnvironmentRecord
    | ReadyRecord
    | EvidenceRecord
    | LinksRecord
    | SizesRecord
    | SliceRecord
    | LookRecord
    | LostRecord
    | WarningRecord
    | EndRecord
)
_RECORD: TypeAdapter[AnyRecord] = TypeAdapter(Annotated[AnyRecord, Field(discriminator="record")])


class Ledger:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made: list[Path] = []

    @staticmethod
    def new_folder(plan: Plan, out: Path | None) -> Path:
        """Return where a new run goes: `out`, or `runs/<time>-<study>`. Nothing is made."""
        if out is not None:
            return out
        name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{plan.study.name}"
        folder, number = Path("runs", name), 1
        while folder.exists():
            # Two runs may start in one second.
            number += 1
            folder = Path("runs", f"{name}-{number}")
        return folder

    @classmethod
    def create(cls, plan: Plan, out: Path | None) -> Ledger:
        """Make the folder of a new run, with the plan in it.

        Raises `OUTPUT_NOT_WRITABLE`, or `OUTPUT_EXISTS` rather than write over something.
        """
        folder = cls.new_folder(plan, out)
        try:
            if folder.is_dir() and any(folder.iterdir()):
                raise CostofError(ErrorText.OUTPUT_EXISTS, path=folder)
            ledger = cls(folder)
            ledger._made = [path for path in (folder, *folder.parents) if not path.exists()]
            folder.mkdir(parents=True, exist_ok=True)
            told = {"ledger_version": LEDGER_VERSION, **plan.model_dump(mode="json", by_alias=True)}
            text = json.dumps(told, indent=2)
            write_whole(folder / PLAN, text + "\n")
        except OSError as error:
            raise CostofError(ErrorText.OUTPUT_NOT_WRITABLE, path=folder, detail=error.strerror) from error
        return ledger

    @classmethod
    def open(cls, folder: Path) -> Ledger:
        """Open an earlier run. Raises `NOT_A_RUN`."""
        if not (folder / PLAN).is_file():
            raise CostofError(ErrorText.NOT_A_RUN, path=folder, detail=f"there is no {PLAN}")
        return cls(folder)

    def plan(self) -> Plan:
        """Read the plan. Raises `NOT_A_RUN`, or `OTHER_LEDGER` for one that another version wrote."""
        try:
            content = json.loads((self.folder / PLAN).read_bytes())
            if not isinstance(content, dict):
                raise ValueError("it is no JSON object")
            version = content.pop("ledger_version", 1)
            if not EARLIEST_VERSION <= version <= LEDGER_VERSION:
                raise CostofError(ErrorText.OTHER_LEDGER, path=self.folder, found=version, known=LEDGER_VERSION)
            update_plan(content, version)
            return Plan.model_validate(content)
        except (OSError, ValueError) as error:
            detail = f"{PLAN} cannot be read: {' '.join(str(error).split())[:200]}"
            raise CostofError(ErrorText.NOT_A_RUN, path=self.folder, detail=detail) from error

    def append(self, record: AnyRecord) -> None:
        """Write one record and hand it to the kernel, so that a crash of this process loses nothing."""
        line = json.dumps(record.model_dump(mode="json", by_alias=True)) + "\n"
        path = self.folder / SLICES
        try:
            with path.open("ab+") as file:
                if file.tell() and not _ends_in_newline(file):
                    # A crash cut the last line off: what comes now must not become part of it.
                    line = "\n" + line
                file.write(line.encode())
        except OSError as error:
            raise CostofError(ErrorText.OUTPUT_NOT_WRITABLE, path=self.folder, detail=error.strerror) from error

    def discard(self) -> None:
        """Take a run back that came to nothing: its files, and the folders it made where nothing else is in them.

        What was measured stays, a warm-up alone does not.
        """
        if any(isinstance(record, SliceRecord) and not record.warm_up for record in self.records()):
            return
        for name in (PLAN, SLICES):
            (self.folder / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            for folder in self._made:
                folder.rmdir()

    def records(self) -> Iterator[AnyRecord]:
        path = self.folder / SLICES
        if not path.is_file():
            return
        for line in path.read_text().splitlines():
            try:
                record = from_json(line)
            except ValueError:
                continue
            update_record(record)
            try:
                yield _RECORD.validate_python(record)
            except ValidationError as error:
                detail = f"{SLICES} holds a line of another version: {' '.join(str(error).split())[:200]}"
                raise CostofError(ErrorText.NOT_A_RUN, path=self.folder, detail=detail) from error


def _ends_in_newline(file: BinaryIO) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
