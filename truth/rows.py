"""What a campaign has found: rows of three tables, appended one by one, and written as Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from costof.files import write_whole
from costof.model import Finite, Model
from truth.design import Trial

#: Appended to while a campaign lasts.
ROWS = "rows.jsonl"
#: Tells this start of the machine from others, whose service times may be others.
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class Row(Model):
    """What every table has of a trial. `load` is the machine's when it began; `added_share` what was to be added."""

    trial: str
    service: str
    payers: str
    added_share: Finite
    disturbed: bool
    tool: str
    seed: int
    started: str
    commit: str
    load: Finite
    cores: int
    boot: str = Field(default="", description="Of the machine; '' where it was not noted.")

    @property
    def about(self) -> Row:
        return Row(**self.model_dump(include=set(Row.model_fields)))

    @property
    def trial_kind(self) -> str:
        return self.trial.partition("/")[0]


class EffectRow(Row):
    """An effect of a run of `costof`, in ms; of the control's replicate too, which pays nothing and has no verdict.

    `truth` is what was added in the run's rounds on average, `long_run` what is added in the long run. `truth_ratio` is
    how many times longer the added made a round's queries, on average on the log scale as effects are.
    """

    table: Literal["effects"] = "effects"
    arm: str
    truth: Finite
    truth_ratio: Finite
    long_run: Finite
    control: Finite
    estimate: Finite
    low: Finite
    high: Finite
    ratio_low: Finite
    ratio_high: Finite
    usual: Finite | None = None
    verdict: str = ""
    intermittent: bool = False
    tail_told: bool | None = Field(default=None, description="That it changes more than the mean; None: not asked yet.")
    rounds: int
    discarded: int
    seconds: Finite
    seconds_to_verdict: Finite | None = Field(default=None, description="By the analysis of today; verdict trials.")
    seconds_earlier: Finite | None = Field(default=None, description="By the analysis of commit 44d93af.")
    judged_anew: str = Field(default="", description="Commit whose analysis judged the run later than `commit`'s.")

    @property
    def holds(self) -> bool:
        return self.low <= self.truth <= self.high

    @property
    def ratio_holds(self) -> bool:
        return self.ratio_low <= self.truth_ratio <= self.ratio_high

    @property
    def is_twin(self) -> bool:
        return not self.verdict


class PeerRow(Row):
    """Two runs of another tool, one after the other, in ms."""

    table: Literal["peers"] = "peers"
    truth: Finite
    control: Finite
    value: Finite
    seconds: Finite


class TailRow(Row):
    """One percentile of one slice, in us: by the engine, and between packets."""

    table: Literal["tails"] = "tails"
    percentile: Finite
    operations: int
    engine: Finite
    captured: Finite


class QuickRow(Row):
    """A headline effect of a study's quick profile, whose truth nobody knows."""

    table: Literal["quick"] = "quick"
    metric: str
    arm: str
    ratio: Finite
    ratio_low: Finite
    ratio_high: Finite
    verdict: str
    rounds: int
    seconds: Finite = Field(description="Of the whole command, from its start to its answer.")


class PairRow(Row):
    """The same command twice: what `costof` says of the two, and what another tool does, as ratios of their times."""

    table: Literal["pairs"] = "pairs"
    ratio: Finite
    ratio_low: Finite
    ratio_high: Finite
    verdict: str
    peer_ratio: Finite = Field(description="The second's mean over the first's.")
    peer_error: Finite = Field(description="What the tool prints behind ±.")
    seconds: Finite


AnyRow = EffectRow | PeerRow | TailRow | QuickRow | PairRow
TABLES = ("effects", "peers", "tails", "quick", "pairs")
_ROW: TypeAdapter[AnyRow] = TypeAdapter(Annotated[AnyRow, Field(discriminator="table")])


class Rows:
    """All rows of a campaign's folder. A trial's are written at once, so that it is there whole or not at all.

    A folder that has none begins with those of a campaign whose tables lie in `published`.
    """

    def __init__(self, folder: Path, published: Path | None = None) -> None:
        self._file = folder / ROWS
        folder.mkdir(parents=True, exist_ok=True)
        if published and not self._file.exists():
            write_whole(self._file, "".join(row.model_dump_json() + "\n" for row in _read_parquet(published)))
        lines = self._file.read_text().splitlines(keepends=True) if self._file.exists() else []
        # What was cut off in the middle of a line is measured again.
        whole = [line for line in lines if line.endswith("\n")]
        if len(whole) < len(lines):
            self._file.write_text("".join(whole))
        self._found = [_ROW.validate_json(line) for line in whole]

    def add(self, rows: Sequence[AnyRow]) -> None:
        with self._file.open("a") as file:
            file.write("".join(row.model_dump_json() + "\n" for row in rows))
        self._found += rows

    def replace(self, rows: Sequence[EffectRow]) -> None:
        """Replace all other rows of their trial."""
        trials = {row.trial for row in rows}
        self._found = [row for row in self._found if row.trial not in trials] + list(rows)
        write_whole(self._file, "".join(row.model_dump_json() + "\n" for row in self._found))

    def has(self, trial: Trial) -> bool:
        return any(row.trial == trial.name for row in self._found)

    @property
    def effects(self) -> list[EffectRow]:
        return [row for row in self._found if isinstance(row, EffectRow)]

    def by_trial(self) -> dict[str, list[EffectRow]]:
        """Effects, those of an arm that pays first."""
        found: dict[str, list[EffectRow]] = {}
        for row in self.effects:
            found.setdefault(row.trial, []).append(row)
        return found

    @property
    def peers(self) -> list[PeerRow]:
        return [row for row in self._found if isinstance(row, PeerRow)]

    @property
    def tails(self) -> list[TailRow]:
        return [row for row in self._found if isinstance(row, TailRow)]

    @property
    def quick(self) -> list[QuickRow]:
        return [row for row in self._found if isinstance(row, QuickRow)]

    @property
    def pairs(self) -> list[PairRow]:
        return [row for row in self._found if isinstance(row, PairRow)]

    def service_ms(self, service: str, disturbed: bool) -> float:
        """What a request takes through the relay alone, since the machine was started. Raises `StatisticsError` where
        that is not known."""
        return median(self._controls(service, disturbed))

    def knows_service(self, service: str, disturbed: bool) -> bool:
        return bool(self._controls(service, disturbed))

    def _controls(self, service: str, disturbed: bool) -> list[float]:
        alike = (row for row in self.effects if row.trial_kind == "effect" and row.boot == BOOT)
        return [row.control for row in alike if (row.service, row.disturbed) == (service, disturbed)]

    def write_parquet(self, folder: Path) -> None:
        """A file for each table that has rows."""
        import pyarrow
        from pyarrow import parquet

        folder.mkdir(parents=True, exist_ok=True)
        tables: tuple[Sequence[AnyRow], ...] = (self.effects, self.peers, self.tails, self.quick, self.pairs)
        for name, rows in zip(TABLES, tables, strict=True):
            if rows:
                table = pyarrow.Table.from_pylist([row.model_dump() for row in rows])
                parquet.write_table(table, folder / f"{name}.parquet", compression="zstd")


def _read_parquet(folder: Path) -> list[AnyRow]:
    from pyarrow import parquet

    files = [file for name in TABLES if (file := folder / f"{name}.parquet").exists()]
    return [_ROW.validate_python(row) for file in files for row in parquet.read_table(file).to_pylist()]
