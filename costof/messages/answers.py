"""What an instrument answers: which arms can run, and what a slice measured."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import fsum
from statistics import fmean
from typing import Any

from pydantic import Field

from costof.model import Finite, Model

#: A figure that the runner of commands has measured itself, of several runs the greatest.
PEAK_MEMORY = "peak_memory"
#: The fact of the evidence that says why a slice was not of its arm.
MISMATCH = "mismatch"
#: The facts of a command's evidence: reasons of missing figures by name, and what its reader notes of its runs.
MISSING, NOTES = "missing", "notes"
#: The share of failed operations above which figures are no longer those of a working service: no figure of a command's
#: report counts then, and no limit is kept.
MOST_FAILED = 0.05
#: The facts of a command's evidence: names of processes that it left running and that were killed, and of daemons.
LEFT_RUNNING, LEFT_BEHIND = "left_running", "left_behind"
#: In the place of a name: a child that runs no program of its own, or not yet.
COPY_OF_ITSELF = "a copy of itself"
#: The count of operations that a command's own reports tell of, failed ones included, and the class of those errors.
REPORTED, REPORTED_FAILURE = "reported", "reported_failure"


class ClassifiedError(Model):
    """An error's class, one of the words of docs/ipc.md, and the first one's story.

    `phase` is what failed, where an operation is one of several kinds.
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
    """`versions` are of what an instrument is made of: of the engine, of its TLS library alone."""

    instrument: str
    versions: dict[str, str]
    #: How an earlier engine waited for the kernel, which results of it say.
    runtime: str | None = None
    self_cost_ns: dict[str, float] = Field(default_factory=dict)
    arms: list[ReadyArm]

    @property
    def tls_library(self) -> str:
        """Of the engine: such as 'OpenSSL 3.0.19'."""
        return ", ".join(f"{name} {version}" for name, version in self.versions.items())


class Phase(Model):
    """Times of one phase in a slice: exact sums in nanoseconds, and a histogram of them."""

    count: int
    sum_ns: int
    sum_squares_ns2: float
    min_ns: int
    max_ns: int
    round_trips: int | None = None
    bytes_sent: int | None = None
    bytes_received: int | None = None
    histogram: str


class PublicKey(Model):
    """The first line of whoever takes a sealed plan: the key that it is sealed to (`costof/messages/sealing.py`)."""

    public_key: str = Field(description="X25519, 32 bytes in base64.")


class Prepared(Model):
    """What came of getting ready for a slice. The errors are counted in the slice's answer too."""

    id: int
    errors: list[ClassifiedError]


class Window(Model):
    """Instants of a slice that was told when to open, on its host's `CLOCK_MONOTONIC`, in nanoseconds.

    An operation that failed is one, too; without any the last two are None.
    """

    opened_ns: int
    first_began_ns: int | None
    last_ended_ns: int | None


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
    figures: dict[str, float] = Field(default={}, description="What commands tell of their work: means of runs.")
    rates: list[str] = Field(default=[], description="Figures of which several hosts' add up.")
    evidence: dict[str, Any]
    #: Only of a slice that was told when to open.
    window: Window | None = None

    @property
    def failed(self) -> int:
        """Operations that failed."""
        return sum(error.count for error in self.errors)

    @property
    def begun(self) -> int:
        """Operations that were begun, failed ones included: those of a command's own reports, where it has any."""
        if REPORTED not in self.counts:
            return self.operations + self.failed
        runs = sum(error.count for error in self.errors if error.error_class != REPORTED_FAILURE)
        return self.counts[REPORTED] + runs

    def count(self, name: str) -> int | None:
        """The count of this name, or of all below it: 'tpcc.committed' is all transactions.

        None where the slice tells none of them.
        """
        found = [number for known, number in self.counts.items() if f"{known}.".startswith(f"{name}.")]
        return sum(found) if found else None


class PhaseSum(Model):
    count: int
    sum_ns: int


class HostPart(Model):
    """One host's part of a slice. Instants are nanoseconds from the one at which all windows were to open; `first_ns`
    is its first operation's beginning, None of a host without one.

    `clock_offset_ns`: its clock less ours, known to within `clock_error_ns`. `machine_busy` and `steal` are shares of
    its CPU time.
    """

    host: str
    operations: int
    errors: int
    phases: dict[str, PhaseSum]
    figures: dict[str, float] = Field(default={}, description="What its programs have told of their work.")
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
    """A slice that several hosts measured as one. Beside its parts no ledger has what it says.

    Seconds are of the hosts' CPU time: that other programs had, and the hypervisor took. In words: in what hosts that
    must agree did not (`evidence_mismatch`), which of them began too late for the slice to count (`late`), and why it was not one
    population's slice (`not_simultaneous_reason`).
    """

    hosts: list[HostPart]
    foreign_cpu_seconds: float
    steal_seconds: float
    evidence_mismatch: str | None = None
    late: str | None = None
    not_simultaneous_reason: str | None = None


class ClusterNode(Model):
    """A host of a cluster. `name` is its own, with its address where two are called alike."""

    name: str
    cpus: int


class ClusterAnswer(Model):
    """The hosts of a cluster; once taken, facts for the environment of a result, and what a reader must know."""

    nodes: list[ClusterNode]
    facts: dict[str, Any] = {}
    warnings: list[str] = []


def merged_figures(told: Sequence[Mapping[str, float]], rates: Collection[str]) -> dict[str, float]:
    """What hosts' programs have told of their work: rates added, and of all else the mean, since they do not tell what
    a percentile is one of. What one of them has not told is no figure of all; of peak memory it may be too little to
    tell."""
    names = dict.fromkeys(name for figures in told for name in figures)
    found = {name: [figures[name] for figures in told if name in figures] for name in names}
    return {
        name: max(values) if name == PEAK_MEMORY else fsum(values) if name in rates else fmean(values)
        for name, values in found.items()
        if len(values) == len(told) or name == PEAK_MEMORY
    }
