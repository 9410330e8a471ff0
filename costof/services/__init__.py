"""Services: the servers that a study measures, with one folder for each kind of service.

A folder's `lab.py` starts servers and may change their settings for each arm (measured variant). Its `target.py` uses
the user's own servers and never changes their settings. Both modules must pass `tests/contract/test_service.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self

from costof.lab.flushes import FlushEvidence
from costof.lab.lab import Lab, Resource
from costof.lab.memory import Memory, read_memory
from costof.lab.program import Counters, Description
from costof.lab.round_trips import LinkEvidence
from costof.messages.answers import SliceAnswer
from costof.messages.plan import Endpoint
from costof.services.server_cpu import ServerCpu
from costof.services.server_memory import METHOD, ServerMemory
from costof.study.arms import PlannedArm

LoadData = Callable[[PlannedArm], None]
Stage = Literal["start", "end"]


class Observation:
    """The state of a service's servers at one instant, such as their counters. Each service has its own subclass."""


@dataclass(frozen=True)
class Judgement:
    """A service's comparison of its servers' states before and after one slice (measured window).

    - `mismatch`: why the slice contradicts the settings of its arm (measured variant), for example because connections
      did not use TLS; None if it does not.
    - `figures`: results by the names of their metrics, such as the bytes per operation.
    - `facts`: texts for the report.
    - `counts`: counts in this slice. As evidence, the report shows each count's sum over all slices and the warm-up.
    """

    mismatch: str | None = None
    figures: dict[str, float] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


class Service(ABC):
    """The servers that a run measures: a lab (servers that the run starts) or a target (the user's own servers).

    It is a context manager, which starts or connects to the servers, and releases everything at its end.
    """

    #: Whether the service can read its servers' CPU time without a user's command, because they run on this machine.
    measures_cpu: bool = False
    #: The user's command that prints the CPU time of servers on other machines; None if the user gave none.
    server_cpu: ServerCpu | None = None
    #: The user's command that prints the memory of servers on other machines; None if the user gave none.
    server_memory: ServerMemory | None = None
    #: The number of connections that a lab's servers must accept at the same time; None for the servers' default.
    needed_connections: int | None = None
    #: The role (group of processes), such as 'server' or 'gateway', under which reports list the values that
    #: `server_cpu` and `server_memory` print.
    server_role: str = "server"
    #: The facts from `identity` at the run's first start if this run is resumed; empty in a new run.
    known_identity: Mapping[str, str] = {}
    #: Whether the service puts its servers into network namespaces, which act as separate hosts, if the user may create
    #: such namespaces.
    makes_hosts: bool = False
    #: Why this service cannot be measured from other machines; None if it can be.
    single_machine_reason: str | None = None

    @abstractmethod
    def __enter__(self) -> Self:
        """Start the servers or connect to them. Raises `CostofError`."""

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @abstractmethod
    def endpoint(self, arm: PlannedArm) -> Endpoint:
        """Return the server's address and the connection settings for an arm's client."""

    @abstractmethod
    def prepare(self, arms: Sequence[PlannedArm], load: LoadData) -> None:
        """Load the data by calling `load`, and wait until all servers have the data.

        `arms` are the arms that can run. `load(arm)` loads the data over connections of this arm. Most services call it
        once, with the first arm. A service with several servers calls it for each server.
        """

    def loads_over(self, arm: PlannedArm) -> PlannedArm:
        """Return the arm over which the data for `arm` is loaded: `arm` itself unless it cannot load data."""
        return arm

    @abstractmethod
    def writes(self) -> list[str]:
        """Return a text for each write that the run and its clean-up make, for `--dry-run`."""

    def commands(self) -> list[str]:
        """Return a text for each of the user's commands that the run would execute, for `--dry-run`.

        Each text first says when, or for which arm (measured variant), the command is executed, such as 'around each
        slice: …'.
        """
        cpu, memory = self.server_cpu, self.server_memory
        around = [f"around each slice: {cpu.command}"] if cpu else []
        return [*around, *([f"between idle connections, after the last slice: {memory.command}"] if memory else [])]

    @abstractmethod
    def describe(self) -> Description: ...

    def identity(self) -> dict[str, str]:
        """Return facts that must not change if an interrupted run is resumed, such as the programs' versions.

        Call it only while the service is connected to the servers.
        """
        return dict(self.describe().versions)

    def needs(self) -> list[str]:
        """Return the privileges that the database account needs, for `--dry-run`."""
        return []

    def refusal_reason(self, arm: PlannedArm) -> str | None:
        """Return why an arm must not be measured, for example without TLS on a target that requires it; else None."""
        return None

    def arrange(self, arm: PlannedArm) -> None:
        """Set up the servers, for example the certificate, for an arm. Called before each slice (measured window)."""

    def set_host_count(self, hosts: int) -> None:
        """Set the number of hosts that measure together and share the load. It is called before `__enter__`."""

    def wants_ticket(self, arm: PlannedArm) -> bool:
        """Return whether the arm's client must connect once, unmeasured, to get a new TLS session ticket.

        If the server's key has changed since the arm's last slice (measured window), earlier tickets are invalid. The
        method is called once after each `arrange`.
        """
        return False

    def prefix(self, arm: PlannedArm) -> list[str]:
        """Return the words to put before a command to run it on the arm's client host (a network namespace).

        Return [] if clients run directly on this machine.
        """
        return []

    def links(self) -> list[LinkEvidence]:
        """Return the measured round-trip times of the lab's network links."""
        return []

    def measure_flush(self, seconds: float) -> FlushEvidence | None:
        """Measure, for `seconds`, how long a flush (fsync) takes on the disk with the data. Raises `LAB_FAILED`.

        Return None if the study does not depend on flushes. It is called before the first slice (measured window),
        after each round (one slice of each workload on each arm), and after the last slice.
        """
        return None

    def collect_evidence(self, arm: PlannedArm, stage: Stage) -> dict[str, str]:
        """Return facts that show that an arm is configured as required, such as the cipher that a tunnel negotiated.

        It is called with the stage 'start' after the data was loaded, and with 'end' after the last slice (measured
        window).
        """
        return {}

    def counters(self, server: str) -> Counters:
        """Return the connection counters of the server at the address `server`, such as '10.0.0.2:5432'."""
        return Counters()

    def trusted_counters(self, answer: SliceAnswer, change: Counters) -> Counters:
        """Return `change` without the counters that do not work on this server. The service ignores these from now on.

        `change` is the change of the counters in a slice (window) of the warm-up. A counter does not work if it lacks
        connections that the load generator counted in its `answer`.
        """
        return change

    def cpu_seconds(self) -> dict[str, float]:
        """Return the servers' CPU seconds so far by role, such as {"gateway": 1.5}. Raises `SERVER_CPU_UNREAD`."""
        return {self.server_role: self.server_cpu.seconds()} if self.server_cpu else {}

    def server_processes(self) -> list[tuple[str, int]]:
        """Return (role, pid), such as ('gateway', 4711), of server processes on this machine, not their children."""
        return []

    def memory(self) -> Memory | None:
        """Return the servers' memory by role, such as 'gateway'; None if unreadable. Raises `SERVER_MEMORY_UNREAD`."""
        memory = read_memory(self.server_processes())
        if self.server_memory is not None:
            memory = memory.plus(self.server_role, self.server_memory.read(), METHOD)
        return memory if memory.methods else None

    def counts_at_disconnect(self, arm: PlannedArm) -> bool:
        """Return whether the arm's server counts the work of a connection only when the connection ends.

        If so, the load generator closes its connections after each of the arm's slices (measured windows).
        """
        return False

    def finish_counting(self, arm: PlannedArm) -> None:
        """Make the arm's server update its counters after a slice (measured window), before `observe` reads them."""

    def observe(self, arm: PlannedArm) -> Observation | None:
        """Return the present state of the arm's servers; None if there is nothing to read.

        It is called right before and right after each slice (measured window) of an arm, outside measured time.
        """
        return None

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        """Compare the observations before and after a slice (measured window).

        Return whether the slice is valid, and figures such as the bytes per operation.
        """
        return Judgement()

    def throttled_seconds(self) -> dict[str, float]:
        """Return the seconds for which the limit of a CPU share stopped programs, by role, such as 'gateway'."""
        return {}

    def early_warnings(self) -> list[str]:
        """Return the warnings that are known before the run starts anything."""
        return []

    def warnings(self) -> list[str]:
        """Return the warnings about these servers. It is called after the run."""
        return []

    def failure_reason(self, arm: PlannedArm | None = None) -> str | None:
        """Return why the service can no longer be measured; None if it can be. With `arm`, ask only about this arm."""
        return None


class LabService(Resource, Service):
    """Base class of services whose servers the run itself starts, as processes on this machine."""

    measures_cpu = True
    makes_hosts = True
    _lab: Lab

    @property
    def process_ids(self) -> dict[str, int]:
        return {process.name: process.pid for process in self._lab.processes.values()}

    def server_processes(self) -> list[tuple[str, int]]:
        processes = self._lab.processes.values()
        return [(process.role, process.pid) for process in processes if process.exit_status is None]


def ended(what: str, status: int | None) -> str | None:
    """Return how the lab's program `what` has ended, with its exit `status`; None while it runs (`status` is None)."""
    return None if status is None else f"the lab's {what} ended in the middle of the run (status {status})"
