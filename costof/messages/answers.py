"""The answers of instruments, the processes that measure.

An instrument says which arms (the compared configurations) it can measure, and what it has measured in a slice (a
measured window of one arm).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import fsum
from statistics import fmean
from typing import Any, Literal, TypeVar

from pydantic import Field

from costof.model import Finite, Model

#: The name of a figure: the highest peak memory of all runs in a slice (measured window). The command runner (the
#: process that runs commands) adds it to the figures that a command prints.
PEAK_MEMORY = "peak_memory"
#: A key of `SliceAnswer.evidence`: the reason why the slice (measured window) did not run with its arm's settings.
MISMATCH = "mismatch"
#: Keys of `SliceAnswer.evidence` for commands: the reason for each missing figure, and notes on the runs.
MISSING, NOTES = "missing", "notes"
#: The maximum share of failed operations at which a service counts as working. If more operations fail, the figures
#: that a command reports are not used, and the user's limits on costs count as exceeded.
MOST_FAILED = 0.05
#: Keys of `SliceAnswer.evidence` for commands, with the names of processes that a command left running. The command
#: runner has killed the processes under `LEFT_RUNNING`. Those under `LEFT_BEHIND` are daemons: they have left the
#: command's process group and still run.
LEFT_RUNNING, LEFT_BEHIND = "left_running", "left_behind"
#: The reported name of a child process that still runs its parent's program.
COPY_OF_ITSELF = "a copy of itself"
#: Some measured commands, such as load generators, print how many operations they performed, and how many failed. For
#: them, `SliceAnswer.counts` has the number of operations under the key `REPORTED`, and the failed operations have the
#: error class `REPORTED_FAILURE`.
REPORTED, REPORTED_FAILURE = "reported", "reported_failure"


#: The name of a count that the load generator reports: the operations that were due in a slice (measured window) at the
#: requested rate.
SCHEDULED = "pace.scheduled"

Number = TypeVar("Number", int, float)


class ClassifiedError(Model):
    """The number of errors of one class, with the detail of the first error. docs/ipc.md lists the classes.

    `phase` names the kind of operation that failed, if the workload has several kinds.
    """

    error_class: str = Field(alias="class")
    detail: str
    phase: str | None = None
    count: int = 1


class ReadyArm(Model):
    name: str
    server: str | None
    error: ClassifiedError | None


class Ready(Model):
    """The answer of an instrument (measuring process) to a plan: which arms (compared configurations) it can measure.

    `versions` has the versions of the instrument's components. The load generator names only its TLS library.
    """

    instrument: str
    versions: dict[str, str]
    #: The load generator's event loop. Only old results have it.
    runtime: str | None = None
    self_cost_ns: dict[str, float] = Field(default_factory=dict)
    arms: list[ReadyArm]

    @property
    def tls_library(self) -> str:
        return ", ".join(f"{name} {version}" for name, version in self.versions.items())


class Phase(Model):
    """The times of one phase (a timed part of an operation, such as 'tls') in a slice (measured window).

    The sums are exact. `histogram` is a compressed HdrHistogram in base64.
    """

    count: int
    sum_ns: int
    sum_squares_ns2: float
    min_ns: int
    max_ns: int
    round_trips: int | None = None
    bytes_sent: int | None = None
    bytes_received: int | None = None
    histogram: str


def mean_count(
    phases: Sequence[Phase], attribute: Literal["round_trips", "bytes_sent", "bytes_received"]
) -> float | None:
    """Return the mean of a count, such as 'bytes_sent', per operation of all these phases.

    Return None if a phase lacks the count, or if there were no operations.
    """
    counts = [getattr(phase, attribute) for phase in phases]
    operations = sum(phase.count for phase in phases)
    return None if None in counts or not operations else sum(counts) / operations


class PublicKey(Model):
    """The first line of a measuring process that needs an encrypted plan: its public key (see `sealing.py`)."""

    public_key: str = Field(description="X25519, 32 bytes in base64.")


class Prepared(Model):
    """The answer to a `PrepareOrder`. The later answer to the `SliceOrder` contains these `errors` again."""

    id: int
    errors: list[ClassifiedError]


class Window(Model):
    """The times at which a slice's measured window opened, its first operation began and its last operation ended.

    The times are nanoseconds of the host's `CLOCK_MONOTONIC`. Failed operations count too. The last two times are None
    if no operation began.
    """

    opened_ns: int
    first_began_ns: int | None
    last_ended_ns: int | None


class CommandRun(Model):
    """A successful run of a command. With --ignore-failure, a failed run counts as successful too.

    `peak_memory_bytes` is 0 if the peak is too small to measure. `status` is None if a signal ended the run.
    """

    elapsed_ns: int
    user_ns: int
    system_ns: int
    peak_memory_bytes: int
    status: int | None


class SliceAnswer(Model):
    id: int
    arm: str
    workload: str
    started_unix_ns: int
    elapsed_ns: int
    operations: int
    errors: list[ClassifiedError]
    phases: dict[str, Phase]
    cpu_ns: dict[str, int]
    peak_memory_bytes: int
    counts: dict[str, int] = {}
    figures: dict[str, float] = Field(
        default={}, description="Figures reported by a command: the mean over its runs in the slice."
    )
    rates: list[str] = Field(
        default=[], description="Names of the figures that are rates. Rates of several hosts are added up."
    )
    evidence: dict[str, Any]
    unmeasured_cpu_ns: int = Field(
        default=0,
        description="CPU time of commands around the measured ones: warm-up runs and commands that check a level, for "
        "example.",
    )
    runs: list[CommandRun] = Field(default=[], description="The single runs of a command with `keep_runs`, in order.")
    #: Present only if the order sets when the window opens (`SliceOrder.opens_ns`).
    window: Window | None = None

    @property
    def failed(self) -> int:
        return sum(error.count for error in self.errors)

    @property
    def begun(self) -> int:
        """Return the number of operations that began, including failed ones.

        If a command's report counts operations, return the report's count, plus one for each run that failed as a
        whole.
        """
        if REPORTED not in self.counts:
            return self.operations + self.failed
        runs = sum(error.count for error in self.errors if error.error_class != REPORTED_FAILURE)
        return self.counts[REPORTED] + runs

    def count(self, name: str) -> int | None:
        """Return the sum of the counts whose name is `name` or begins with `name` and a dot; None if there is none.

        For example, 'tpcc.committed' includes the counts of all kinds of transactions.
        """
        numbers = [number for full_name, number in self.counts.items() if f"{full_name}.".startswith(f"{name}.")]
        return sum(numbers) if numbers else None


class PhaseSum(Model):
    count: int
    sum_ns: int


class HostPart(Model):
    """One host's part in a slice (a measured window).

    Three times are nanoseconds after the instant at which the windows of all hosts should have opened:

    - `late_ns`: this host's window opened;
    - `first_ns`: its first operation began (None if it had none);
    - `ended_ns`: its window ended.

    `clock_offset_ns` is the host's clock minus this machine's, known to within `clock_error_ns`. `machine_busy` is the
    share of the host's CPU time that was busy, and `steal` the share that the hypervisor gave to other machines.
    """

    host: str
    operations: int
    errors: int
    phases: dict[str, PhaseSum]
    figures: dict[str, float] = Field(default={}, description="Figures reported by the host's commands.")
    clock_offset_ns: int
    clock_error_ns: int
    late_ns: int
    first_ns: int | None
    ended_ns: int
    engine_cpu_ns: int
    machine_busy: Finite
    steal: Finite

    @property
    def participated(self) -> bool:
        return bool(self.operations or self.errors)


class PopulationAnswer(SliceAnswer):
    """The answer about a slice (measured window) that several hosts measured together.

    - `foreign_cpu_seconds`: the hosts' CPU time that other programs used.
    - `steal_seconds`: the CPU time that the hosts' hypervisors gave to other machines.

    Three fields are sentences, or None if all is well:

    - `evidence_mismatch` names a fact, such as the TLS version, in which the hosts differ;
    - `late` names a host that began too late;
    - `not_simultaneous_reason` says why the hosts did not measure at the same time.

    The ledger (the run's file) stores only `hosts`.
    """

    hosts: list[HostPart]
    foreign_cpu_seconds: float
    steal_seconds: float
    evidence_mismatch: str | None = None
    late: str | None = None
    not_simultaneous_reason: str | None = None


class ClusterNode(Model):
    """A host of a cluster. `name` includes its address if several hosts have the same name."""

    name: str
    cpus: int


class ClusterAnswer(Model):
    """The hosts of a cluster. `facts` and `warnings` are for the report; they are empty if hosts are only listed."""

    nodes: list[ClusterNode]
    facts: dict[str, Any] = {}
    warnings: list[str] = []


def sums_by_name(parts: Iterable[Mapping[str, Number]]) -> dict[str, Number]:
    """Return the sum of all numbers with the same name, such as counts or seconds. Names keep their order."""
    # Do not use `sum`: from Python 3.12 on it rounds floats in another way, so that last digits would change.
    sums: dict[str, Number] = {}
    for part in parts:
        for name, number in part.items():
            sums[name] = sums.get(name, 0) + number
    return sums


def merged_figures(host_figures: Sequence[Mapping[str, float]], rates: Collection[str]) -> dict[str, float]:
    """Merge the figures that commands reported on several hosts: add up rates, and average all other figures.

    Percentiles are averaged too, because the times of single operations are unknown. If any host lacks a figure, the
    result lacks it too. Peak memory is an exception: the result is the maximum over the hosts that have it, because a
    host omits a peak that is too small to measure.
    """
    names = dict.fromkeys(name for figures in host_figures for name in figures)
    values_by_name = {name: [figures[name] for figures in host_figures if name in figures] for name in names}
    return {
        name: max(values) if name == PEAK_MEMORY else fsum(values) if name in rates else fmean(values)
        for name, values in values_by_name.items()
        if len(values) == len(host_figures) or name == PEAK_MEMORY
    }
