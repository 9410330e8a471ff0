"""The ledger: the raw results of a run on disk, from which every report can be rebuilt.

`plan.json` is written once. `slices.jsonl` gets one line for each record, `{"record": kind, …}`, written at once, so
that a crash loses nothing that was measured. If a crash cut off the last line, this line is skipped.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from costof.errors import CostofError, ErrorText
from costof.files import write_whole
from costof.lab.flushes import FlushEvidence
from costof.lab.round_trips import LinkEvidence
from costof.messages.answers import HostPart, Ready, SliceAnswer
from costof.model import Model, first_error
from costof.results.metrics import SliceKey
from costof.results.older_ledgers import update_plan, update_record
from costof.statistics.verdicts import ERROR_RATE
from costof.study.plan import Plan
from costof.study.schema import SliceSize

PLAN = "plan.json"
SLICES = "slices.jsonl"
#: The version of new ledgers, and the earliest version that can be read. Version 6 added hosts. Version 7 added
#: `SliceRecord.stands_for` and failures that commands report. Versions 8 and 9 renamed keys
#: (`results/older_ledgers.py`).
LEDGER_VERSION, EARLIEST_VERSION = 9, 5


class EnvironmentRecord(Model):
    """The machine and its programs when a run started or was resumed."""

    record: Literal["environment"] = "environment"
    started: str
    start: int = Field(
        default=0,
        description="Number of the start of the servers to which the next slices belong; 0 without --restarts.",
    )
    facts: dict[str, Any]
    versions: dict[str, str] | None = Field(
        default=None, description="Versions of the servers by name; None in older ledgers, which have them in `facts`."
    )
    identity: dict[str, str] = Field(default={}, description="Facts that identify the servers, such as version and id.")
    budget_seconds: float | None = Field(
        default=None,
        description="The whole budget of a run that continues here (--resume); None at the start of a run, without a "
        "budget, and in older ledgers.",
    )


class ReadyRecord(Model):
    """The answer of an instrument (a measuring process) to the plan, before the first slice.

    `view` is where the instrument measures: 'wire', 'app' or 'command'.
    """

    record: Literal["ready"] = "ready"
    view: str
    ready: Ready


class SliceRecord(Model):
    """A slice (a measured window of one workload on one arm), with the servers' counters and CPU time.

    - `answer`: what the instrument (the measuring process) reported.
    - `mismatch`: evidence that contradicts the arm's settings, such as another TLS version; None if there is none.
    """

    record: Literal["slice"] = "slice"
    round: int
    warm_up: bool
    view: str
    workload: str
    answer: SliceAnswer
    per_second: float | None = Field(default=None, description="The rate of the slice, if the run is a sweep.")
    server_connections: int | None
    server_tls: dict[str, int] | None
    server_cpu_seconds: dict[str, float]
    server_throttled_seconds: dict[str, float] = Field(default_factory=dict)
    server_figures: dict[str, float] = Field(default_factory=dict)
    server_facts: dict[str, str] = Field(default_factory=dict)
    server_counts: dict[str, int] = Field(default_factory=dict)
    observed_seconds: float = Field(
        description="Time from the reading of servers and machine before the slice to that after it."
    )
    steal_seconds: float = 0.0
    foreign_cpu_seconds: float = Field(default=0.0, description="CPU time of programs that are not part of the run.")
    clock_jump_seconds: float = Field(
        default=0.0, description="Change of the wall clock minus the time that really passed."
    )
    mismatch: str | None = None
    hosts: list[HostPart] = Field(
        default=[], description="Each host's part of the slice, if several hosts measured together."
    )
    stands_for: str | None = Field(
        default=None,
        description="The arm to which the figures belong, if it is not the measured one. Of the "
        "two copies of the control, the one that a round measures first counts as the control, the other one as the "
        "replicate.",
    )

    @property
    def key(self) -> SliceKey:
        return SliceKey(self.workload, self.answer.arm, self.stands_for)


class EvidenceRecord(Model):
    """Facts that the servers reported about an arm, independent of its slices."""

    record: Literal["evidence"] = "evidence"
    arm: str
    facts: dict[str, str]


class LinksRecord(Model):
    """Measured round trips of the lab's links."""

    record: Literal["links"] = "links"
    links: list[LinkEvidence]


class FlushRecord(Model):
    """One measurement of a flush of the disk that has the servers' data.

    It is made before the first slice, after a round, or at the end.
    """

    record: Literal["flush"] = "flush"
    flush: FlushEvidence


class LostRecord(Model):
    """A failure during the run: of the servers of `arm`, of the measuring `host`, or of the whole service.

    If a host failed, the slices of `round` are invalid, and the remaining hosts repeat the round. `rest` is the number
    of remaining hosts. If it is None, the run ends instead.
    """

    record: Literal["lost"] = "lost"
    arm: str | None = None
    host: str | None = None
    round: int | None = None
    rest: int | None = None
    detail: str


class MemoryRecord(Model):
    """One step of a measurement of memory: it opens idle connections on an arm, and the servers' memory grows.

    The step opened `opened` connections, and the arm then had `connections` idle ones. If the step could not be made,
    `missing` says why.
    """

    record: Literal["memory"] = "memory"
    arm: str
    step: int = 0
    opened: int = 0
    connections: int = 0
    grown: dict[str, int] = Field(
        default={}, description="Bytes by which the memory of each role's processes has grown in the step."
    )
    methods: list[str] = Field(
        default=[],
        description="How the memory was read: 'PSS', 'RSS' or '--server-memory'.",
    )
    missing: str | None = None


class WarningRecord(Model):
    record: Literal["warning"] = "warning"
    text: str


INTERRUPTED = "interrupted"
"""The reason why a run is incomplete after Ctrl-C or SIGTERM."""


class EndRecord(Model):
    """The end of a run. `partial` is the reason why the run is incomplete, or None.

    `error_rate` is the rate of wrong verdicts that is permitted for the final verdicts. It is below 5 % if analyses
    during the run (`LookRecord`) have used up a part of the 5 %.
    """

    record: Literal["end"] = "end"
    partial: str | None
    steal_share: float
    error_rate: float = ERROR_RATE


class SizesRecord(Model):
    """Slice sizes that were chosen after the warm-up, and replace the sizes in the plan."""

    record: Literal["sizes"] = "sizes"
    slices: dict[str, SliceSize]


class LookRecord(Model):
    """A look: an analysis during the run, which ends the run early if every headline effect has a verdict.

    `error_rate` is the rate of wrong verdicts that this look was permitted, such as 0.01 of the 0.05 for the whole run.
    """

    record: Literal["look"] = "look"
    round: int
    error_rate: float


AnyRecord = (
    EnvironmentRecord
    | ReadyRecord
    | EvidenceRecord
    | LinksRecord
    | FlushRecord
    | SizesRecord
    | SliceRecord
    | LookRecord
    | LostRecord
    | MemoryRecord
    | WarningRecord
    | EndRecord
)
_RECORD: TypeAdapter[AnyRecord] = TypeAdapter(Annotated[AnyRecord, Field(discriminator="record")])


def run_name(started: datetime, study: str) -> str:
    """Return the name of a run's folder in `runs/`, such as '20260102-030405-mongodb-tls'."""
    return f"{started:%Y%m%d-%H%M%S}-{study}"


class Ledger:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.listener: Callable[[AnyRecord], None] | None = None
        """Called with each record after it was appended."""
        self._made: list[Path] = []

    @staticmethod
    def new_folder(plan: Plan, out: Path | None) -> Path:
        """Return the folder for a new run, `out` or `runs/<time>-<study>`, without creating it."""
        if out is not None:
            return out
        name = run_name(datetime.now(UTC), plan.study.name)
        folder, number = Path("runs", name), 1
        while folder.exists():
            # Another run may have taken the name within the same second.
            number += 1
            folder = Path("runs", f"{name}-{number}")
        return folder

    @classmethod
    def create(cls, plan: Plan, out: Path | None) -> Ledger:
        """Create the folder of a new run and write the plan into it.

        Raises `OUTPUT_NOT_WRITABLE`, or `OUTPUT_EXISTS` if the folder is not empty.
        """
        folder = cls.new_folder(plan, out)
        try:
            if folder.is_dir() and any(folder.iterdir()):
                raise CostofError(ErrorText.OUTPUT_EXISTS, path=folder)
            ledger = cls(folder)
            ledger._made = [path for path in (folder, *folder.parents) if not path.exists()]
            folder.mkdir(parents=True, exist_ok=True)
            content = {"ledger_version": LEDGER_VERSION, **plan.model_dump(mode="json", by_alias=True)}
            text = json.dumps(content, indent=2)
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
        """Read the plan. Raises `NOT_A_RUN`, or `OTHER_LEDGER` for an unknown ledger version."""
        try:
            content = json.loads((self.folder / PLAN).read_bytes())
            if not isinstance(content, dict):
                raise ValueError("not a JSON object")
            version = content.pop("ledger_version", 1)
            if not EARLIEST_VERSION <= version <= LEDGER_VERSION:
                raise CostofError(ErrorText.OTHER_LEDGER, path=self.folder, found=version, known=LEDGER_VERSION)
            update_plan(content)
            return Plan.model_validate(content)
        except (OSError, ValueError) as error:
            reason = first_error(error) if isinstance(error, ValidationError) else error
            detail = f"{PLAN} cannot be read: {reason}"
            raise CostofError(ErrorText.NOT_A_RUN, path=self.folder, detail=detail) from error

    def append(self, record: AnyRecord) -> None:
        """Append a record and pass it to the kernel, so that a crash of this process does not lose it.

        Raises `OUTPUT_NOT_WRITABLE`.
        """
        line = json.dumps(record.model_dump(mode="json", by_alias=True)) + "\n"
        path = self.folder / SLICES
        try:
            with path.open("ab+") as file:
                if file.tell() and not _ends_in_newline(file):
                    # A crash cut off the last line, and the new record must not become part of it.
                    line = "\n" + line
                file.write(line.encode())
        except OSError as error:
            raise CostofError(ErrorText.OUTPUT_NOT_WRITABLE, path=self.folder, detail=error.strerror) from error
        if self.listener is not None:
            self.listener(record)

    def discard(self) -> None:
        """Delete the run's files and its empty folders, unless the run measured more than its warm-up."""
        if any(isinstance(record, SliceRecord) and not record.warm_up for record in self.records()):
            return
        for name in (PLAN, SLICES):
            (self.folder / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            for folder in self._made:
                folder.rmdir()

    def records(self) -> Iterator[AnyRecord]:
        """Yield all records in the order they were written. Raises `NOT_A_RUN` for a record that cannot be read."""
        path = self.folder / SLICES
        if not path.is_file():
            return
        for line in path.read_text().splitlines():
            try:
                record = _parse(line)
            except ValidationError as error:
                detail = f"{SLICES} has a line that cannot be read: {first_error(error)}"
                raise CostofError(ErrorText.NOT_A_RUN, path=self.folder, detail=detail) from error
            if record is not None:
                yield record


def _parse(line: str) -> AnyRecord | None:
    """Return the record of a line, or None if a crash cut the line off. Raises `ValidationError`."""
    try:
        return _RECORD.validate_json(line)
    except ValidationError as error:
        if error.errors(include_url=False, include_input=False)[0]["type"] == "json_invalid":
            return None
    # Convert the record, which may be of an earlier version. A current record was parsed above, in less time.
    record = from_json(line)
    update_record(record)
    return _RECORD.validate_python(record)


def _ends_in_newline(file: BinaryIO) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
