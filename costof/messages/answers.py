"""Answers of instruments: which arms can run, and the measurements of a slice."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import fsum
from statistics import fmean
from typing import Any

from pydantic import Field

from costof.model import Finite, Model

#: A figure that the command runner measures itself: the highest peak memory of a slice's runs.
PEAK_MEMORY = "peak_memory"
#: A fact of the evidence: why the slice did not run on its arm's settings.
MISMATCH = "mismatch"
#: Facts of a command's evidence: reasons for missing figures by name, and the reader's notes on the runs.
MISSING, NOTES = "missing", "notes"
#: The largest share of failed operations of a working service. Above it no figure of a command's report counts, and
#: limits count as exceeded.
MOST_FAILED = 0.05
#: Facts of a command's evidence: names of processes that it left running and that were killed, and of its daemons.
LEFT_RUNNING, LEFT_BEHIND = "left_running", "left_behind"
#: Shown instead of the name of a child that still runs its parent's program.
COPY_OF_ITSELF = "a copy of itself"
#: The count of operations in a command's own reports, including failed ones, and the error class of those that failed.
REPORTED, REPORTED_FAILURE = "reported", "reported_failure"


class ClassifiedError(Model):
    """Errors of one class (listed in docs/ipc.md), with the detail of the first one.

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
    """An instrument's answer to a plan. `versions` are those of its parts; the engine names only its TLS library."""

    instrument: str
    versions: dict[str, str]
    #: How earlier engines waited for the kernel; only in old results.
    runtime: str | None = None
    self_cost_ns: dict[str, float] = Field(default_factory=dict)
    arms: list[ReadyArm]

    @property
    def tls_library(self) -> str:
        """Return the engine's TLS library, such as 'OpenSSL 3.0.19'."""
        return ", ".join(f"{name} {version}" for name, version in self.versions.items())


class Phase(Model):
    """Times of one phase in a slice: exact sums in nanoseconds, and a histogram."""

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
    """The first line of an instrument that receives a sealed plan: its public key (`costof/messages/sealing.py`)."""

    public_key: str = Field(description="X25519, 32 bytes in base64.")


class Prepared(Model):
    """The answer to a prepare order. The slice's answer counts its errors too."""

    id: int
    errors: list[ClassifiedError]


class Window(Model):
    """Instants of a slice whose order had `opens_ns`: nanoseconds on its host's `CLOCK_MONOTONIC`.

    Failed operations count too. The last two fields are None if no operation began.
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
    figures: dict[str, float] = Field(default={}, description="Figures reported by commands: means of the runs.")
    rates: list[str] = Field(default=[], description="Names of figures that are added up over hosts.")
    evidence: dict[str, Any]
    #: Set if the order had `opens_ns`.
    window: Window | None = None

    @property
    def failed(self) -> int:
        """Return the number of failed operations."""
        return sum(error.count for error in self.errors)

    @property
    def begun(self) -> int:
        """Return the number of operations begun, including failed ones; from a command's own reports if it has any."""
        if REPORTED not in self.counts:
            return self.operations + self.failed
        runs = sum(error.count for error in self.errors if error.error_class != REPORTED_FAILURE)
        return self.counts[REPORTED] + runs

    def count(self, name: str) -> int | None:
        """Return the sum of the counts with this name or prefix: 'tpcc.committed' includes all kinds of transactions.

        Return None if the slice has no such count.
        """
        numbers = [number for full_name, number in self.counts.items() if f"{full_name}.".startswith(f"{name}.")]
        return sum(numbers) if numbers else None


class PhaseSum(Model):
    count: int
    sum_ns: int


class HostPart(Model):
    """One host's part of a slice. Instants are nanoseconds after the planned opening of all windows.

    `first_ns` is the start of the host's first operation, None if it had none. `clock_offset_ns` is the host's clock
    minus this machine's, known to within `clock_error_ns`. `machine_busy` and `steal` are shares of its CPU time.
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
    """A slice that several hosts measured together. Of its additional fields the ledger keeps only `hosts`.

    `foreign_cpu_seconds` and `steal_seconds` are CPU time on the hosts used by other programs and by the hypervisor.
    `evidence_mismatch` says in which fact the hosts' evidence differs, `late` which host began too late for the slice
    to count, and `not_simultaneous_reason` why the hosts did not measure at the same time.
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
    """The hosts of a cluster. If they measure, also facts for the environment of a result, and warnings."""

    nodes: list[ClusterNode]
    facts: dict[str, Any] = {}
    warnings: list[str] = []


def merged_figures(host_figures: Sequence[Mapping[str, float]], rates: Collection[str]) -> dict[str, float]:
    """Merge the figures that commands reported on several hosts: the sum of rates, and the mean of all others.

    Percentiles are averaged too, since their samples are unknown. A figure that one host lacks is left out, except
    peak memory, which a host omits if it is too small to measure.
    """
    names = dict.fromkeys(name for figures in host_figures for name in figures)
    values_by_name = {name: [figures[name] for figures in host_figures if name in figures] for name in names}
    return {
        name: max(values) if name == PEAK_MEMORY else fsum(values) if name in rates else fmean(values)
        for name, values in values_by_name.items()
        if len(values) == len(host_figures) or name == PEAK_MEMORY
    }
