"""The results of a campaign: rows of five tables. They are appended to one file, and written as Parquet at the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from costof.files import write_whole
from costof.model import Finite, Model
from truth.design import Trial
from truth.early_ends import Replay

ROWS = "rows.jsonl"
#: The id of the current boot of this machine. After a reboot, the times of requests may differ.
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class Row(Model):
    """The columns that every table has for a trial.

    `waited` has the seconds for which the trial waited until the machine was idle. `added_share` is the intended cost
    as a share of the time of a request. `commit` is the last commit that changed the code that measures or analyses.
    """

    trial: str
    service: str
    payers: str
    added_share: Finite
    carry_over: bool = False
    disturbed: bool
    tool: str
    seed: int
    started: str
    commit: str
    waited: Finite
    cores: int
    machine: str = Field(default="", description="The machine's CPU; '' if not recorded.")
    kernel: str = ""
    boot: str = Field(default="", description="The machine's boot; '' if not recorded.")

    @property
    def cost(self) -> tuple[str, float, bool]:
        """The columns that name the true cost, as in `Cost.key`."""
        return self.payers, self.added_share, self.carry_over

    @property
    def trial_kind(self) -> str:
        return self.trial.partition("/")[0]


class EstimateRow(Row):
    """An estimated cost with its interval, and the control's time. All are in ms."""

    control: Finite
    estimate: Finite
    low: Finite
    high: Finite

    @property
    def half_width(self) -> float:
        """Return the interval's half-width as a share of the control's time."""
        return (self.high - self.low) / 2 / self.control


class EffectRow(EstimateRow):
    """The effect of one arm in a run of `costof`, in ms.

    The control's replicate (its identical copy) also has a row, without added cost and without a verdict. `added` is
    the mean delay that the relay added in the run's rounds. `long_run` is the cost that an endless run would measure.
    `truth_ratio` is the factor by which the true cost lengthens the queries, as a geometric mean over rounds.
    """

    table: Literal["effects"] = "effects"
    arm: str
    added: Finite
    truth_ratio: Finite
    long_run: Finite
    ratio_low: Finite
    ratio_high: Finite
    verdict: str = ""
    intermittent: bool = False
    tail_told: bool | None = Field(
        default=None, description="Whether the report says that a tail is worse than the mean; None if not analysed."
    )
    order_told: bool | None = Field(
        default=None,
        description="Whether the report says that the order of measurements matters; None if not analysed.",
    )
    rounds: int
    discarded: int
    seconds: Finite
    replay: Replay = Field(default_factory=Replay, description="The run as if it had ended otherwise.")
    judged_anew: str = Field(
        default="", description="The commit whose analysis replaced the first one; '' if none has."
    )

    @property
    def truth(self) -> float:
        """Return the true cost in ms.

        If only some requests pay the cost, a run sees by chance more or fewer of them. The cost that a user wants to
        know is then the mean of an endless run. The interval is wide enough for this chance.
        """
        return self.added if self.payers == "all" else self.long_run

    @property
    def holds(self) -> bool:
        return self.low <= self.truth <= self.high

    @property
    def ratio_holds(self) -> bool:
        return self.ratio_low <= self.truth_ratio <= self.ratio_high

    @property
    def is_replicate(self) -> bool:
        return not self.verdict


class PeerRow(Row):
    """A comparison made by another tool (ab or wrk), which measures the control and then the arm. Times are in ms."""

    table: Literal["peers"] = "peers"
    truth: Finite
    control: Finite
    value: Finite
    seconds: Finite


class TailRow(Row):
    """A percentile of a slice's times in us, as measured by the engine and by a packet capture."""

    table: Literal["tails"] = "tails"
    percentile: Finite
    operations: int
    engine: Finite
    captured: Finite


class PairRow(EstimateRow):
    """The comparison of two commands by `costof` and by another tool. Times are in ms.

    The commands are the same, or differ by a known cost. The true cost is its mean over the whole comparison, because a
    comparison has too few runs for a mean of each round.
    """

    table: Literal["pairs"] = "pairs"
    truth: Finite = Field(default=0.0, description="The mean cost in the runs of `costof`.")
    verdict: str
    peer_truth: Finite = Field(default=0.0, description="The mean cost in the runs of the other tool.")
    peer_control: Finite
    peer_estimate: Finite
    peer_ratio: Finite = Field(description="The other tool's ratio: mean of the second command over that of the first.")
    peer_error: Finite = Field(description="The uncertainty of `peer_ratio` that the other tool prints after ±.")
    seconds: Finite

    @property
    def holds(self) -> bool:
        return self.low <= self.truth <= self.high


class FailureRow(Row):
    """A trial that failed before it had a result, and is run again."""

    table: Literal["failures"] = "failures"
    reason: str


AnyRow = EffectRow | PeerRow | TailRow | PairRow | FailureRow
TABLES = ("effects", "peers", "tails", "pairs", "failures")
_ROW: TypeAdapter[AnyRow] = TypeAdapter(Annotated[AnyRow, Field(discriminator="table")])


class Rows:
    """All rows of a campaign. The rows of a trial are written together, so that no trial is incomplete.

    If the campaign's folder has no rows yet, the published rows in the folder `published` are first copied to it.
    """

    def __init__(self, folder: Path, published: Path | None = None) -> None:
        self._file = folder / ROWS
        folder.mkdir(parents=True, exist_ok=True)
        if published and not self._file.exists():
            write_whole(self._file, "".join(row.model_dump_json() + "\n" for row in _read_parquet(published)))
        lines = self._file.read_text().splitlines(keepends=True) if self._file.exists() else []
        self._rows = [_ROW.validate_json(line) for line in lines if line.endswith("\n")]
        if lines and not lines[-1].endswith("\n"):
            # The last line is incomplete. If it may belong to the trial before it, this trial is incomplete too.
            last = self._rows[-1].trial if self._rows else ""
            beginning = f'{{"trial":"{last}"'
            torn = lines[-1].startswith(beginning) or beginning.startswith(lines[-1])
            self._keep([row for row in self._rows if not (torn and row.trial == last)])

    def add(self, rows: Sequence[AnyRow]) -> None:
        with self._file.open("a") as file:
            file.write("".join(row.model_dump_json() + "\n" for row in rows))
        self._rows += rows

    def replace(self, rows: Sequence[EffectRow]) -> None:
        """Add these rows in place of all effects of the same trials."""
        trials = {row.trial for row in rows}
        others = [row for row in self._rows if row.trial not in trials or isinstance(row, FailureRow)]
        self._keep([*others, *rows])

    def _keep(self, rows: Sequence[AnyRow]) -> None:
        self._rows = list(rows)
        write_whole(self._file, "".join(row.model_dump_json() + "\n" for row in self._rows))

    def has(self, trial: Trial) -> bool:
        return any(row.trial == trial.name for row in self._rows if not isinstance(row, FailureRow))

    @property
    def effects(self) -> list[EffectRow]:
        return [row for row in self._rows if isinstance(row, EffectRow)]

    @property
    def peers(self) -> list[PeerRow]:
        return [row for row in self._rows if isinstance(row, PeerRow)]

    @property
    def tails(self) -> list[TailRow]:
        return [row for row in self._rows if isinstance(row, TailRow)]

    @property
    def pairs(self) -> list[PairRow]:
        return [row for row in self._rows if isinstance(row, PairRow)]

    @property
    def failures(self) -> list[FailureRow]:
        return [row for row in self._rows if isinstance(row, FailureRow)]

    @property
    def commits(self) -> list[str]:
        return [*dict.fromkeys(row.commit for row in self._rows)]

    def service_ms(self, service: str, disturbed: bool) -> float:
        """Return the median time in ms of a request without added cost since the last boot.

        Raises `StatisticsError` if no such request has been measured since then.
        """
        return median(self._controls(service, disturbed))

    def knows_service(self, service: str, disturbed: bool) -> bool:
        return bool(self._controls(service, disturbed))

    def _controls(self, service: str, disturbed: bool) -> list[float]:
        matching = (row for row in self.effects if row.boot == BOOT and not row.carry_over)
        return [row.control for row in matching if (row.service, row.disturbed) == (service, disturbed)]

    def write_parquet(self, folder: Path) -> None:
        """Write each table that has rows into a file of its own."""
        import pyarrow
        from pyarrow import parquet

        folder.mkdir(parents=True, exist_ok=True)
        tables: tuple[Sequence[AnyRow], ...] = (self.effects, self.peers, self.tails, self.pairs, self.failures)
        for name, rows in zip(TABLES, tables, strict=True):
            if rows:
                table = pyarrow.Table.from_pylist([row.model_dump() for row in rows])
                parquet.write_table(table, folder / f"{name}.parquet", compression="zstd")


def _read_parquet(folder: Path) -> list[AnyRow]:
    from pyarrow import parquet

    files = [file for name in TABLES if (file := folder / f"{name}.parquet").exists()]
    return [_ROW.validate_python(row) for file in files for row in parquet.read_table(file).to_pylist()]
