"""The common part of all application drivers: a loop that answers costof's messages, and a recorder of times.

An application driver is a process that measures with a database driver, such as psycopg.
"""

from __future__ import annotations

import ctypes
import json
import random
import resource
import signal
import ssl
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from costof.lab.supervisor import PR_SET_PDEATHSIG
from costof.messages.plan import Arm, Plan, ServiceSettings, SliceOrder, Transport
from costof.statistics.histogram import Counts

Settings = TypeVar("Settings", bound=ServiceSettings)


class DriverError(Exception):
    """A failed operation, with its error class, such as 'tls_refused' (docs/ipc.md)."""

    def __init__(self, error_class: str, detail: str) -> None:
        self.error_class = error_class
        super().__init__(detail)


@dataclass
class Errors:
    """The errors in a slice (measured window), counted by class. Each class keeps the text of its first error."""

    by_class: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, error_class: str, detail: str, count: int = 1) -> None:
        entry = self.by_class.setdefault(error_class, {"class": error_class, "count": 0, "detail": detail})
        entry["count"] += count


class Recorder:
    """A recorder of the durations, in nanoseconds, of one phase of the operations, such as 'connect'.

    `answer` returns exact sums of the durations and an HdrHistogram.
    """

    def __init__(self) -> None:
        self.times: list[int] = []

    def answer(self) -> dict[str, Any]:
        # Build the histogram only after the slice (measured window), so that no measured operation includes this work.
        return {
            "count": len(self.times),
            "sum_ns": sum(self.times),
            "sum_squares_ns2": float(sum(t * t for t in self.times)),
            "min_ns": min(self.times),
            "max_ns": max(self.times),
            "histogram": Counts.from_values(self.times).encoded(),
        }


class ApplicationDriver(ABC, Generic[Settings]):
    """Base class of the application drivers. Each subclass connects and queries with one database driver."""

    name: str
    version: str
    settings: type[Settings]
    #: The minimum number of connections that a client object of the database driver opens.
    connections_per_client: ClassVar[int] = 1

    def __init__(self, plan: Plan) -> None:
        self._records = plan.data.records
        self._timeout_seconds = plan.operation_timeout_ms / 1000
        self._random = random.Random(plan.seed)

    def versions(self) -> dict[str, str]:
        openssl = ssl.OPENSSL_VERSION.split()[1]
        return {self.name: self.version, "Python": sys.version.split()[0], "Python's OpenSSL": openssl}

    def service(self, arm: Arm) -> Settings:
        assert isinstance(arm.service, self.settings)
        return arm.service

    @abstractmethod
    def check(self, arm: Arm) -> str | None:
        """Open the arm's persistent connection, to find out whether the arm works. Raises `DriverError` if it does not.

        Return the server's address; None if unknown.
        """

    @abstractmethod
    def connect(self, arm: Arm) -> Iterator[str]:
        """Create a client and run its first operation. Yield the name of each phase at its end, such as 'connect'.

        The caller measures the time until each yield. Code after the last yield, such as closing, is not measured.
        """

    @abstractmethod
    def query(self, arm: Arm) -> None:
        """Run one operation, such as a SELECT, on the arm's persistent client."""


def environment(transport: Transport) -> dict[str, str]:
    """Return environment variables that fix the TLS version in a driver's process; {} if the version is not fixed.

    Drivers such as pymongo have no option for the version, so OPENSSL_CONF is set to the path of an OpenSSL
    configuration file.
    """
    if transport.version is None:
        return {}
    return {"OPENSSL_CONF": str(Path(__file__).with_name(f"openssl-tls{transport.version}.cnf"))}


def serve(driver_class: type[ApplicationDriver[Any]]) -> int:
    """Answer costof's messages on standard input until it closes. Return the exit status, 0."""
    # Let the kernel kill this process when its parent ends, even if the parent was killed with SIGKILL.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    plan: Plan | None = None
    driver: ApplicationDriver[Any] | None = None
    for line in sys.stdin:
        message = json.loads(line)
        if "plan" in message:
            plan = read_plan(message["plan"], driver_class.settings)
            driver = driver_class(plan)
            write_line({"ready": _ready(driver, plan)})
        elif driver is not None and plan is not None:
            write_line({"slice": _slice(driver, plan, SliceOrder.model_validate(message["slice"]))})
    return 0


def read_plan(content: dict[str, Any], settings: type[ServiceSettings]) -> Plan:
    """Parse a plan. The field `service` of each arm is parsed as the class `settings`."""
    arms = [{**arm, "service": settings.model_validate(arm["service"])} for arm in content["arms"]]
    return Plan.model_validate({**content, "arms": arms})


def write_line(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _ready(driver: ApplicationDriver[Any], plan: Plan) -> dict[str, Any]:
    arms = []
    for arm in plan.arms:
        server, error = None, None
        try:
            server = driver.check(arm)
        except DriverError as failure:
            error = {"class": failure.error_class, "detail": str(failure)}
        arms.append({"name": arm.name, "server": server, "error": error})
    return {"instrument": driver.name, "versions": driver.versions(), "arms": arms}


def _slice(driver: ApplicationDriver[Any], plan: Plan, order: SliceOrder) -> dict[str, Any]:
    arm = next(arm for arm in plan.arms if arm.name == order.arm)
    kind = next(workload.kind for workload in plan.workloads if workload.name == order.workload)
    operate = {"connect": _measure_connect, "query": _measure_query}[kind]
    recorders: dict[str, Recorder] = {}
    errors = Errors()
    started_unix, started, cpu = time.time_ns(), time.monotonic_ns(), time.process_time_ns()
    deadline = started + int(order.seconds * 1e9)
    operations = 0
    for _ in range(order.operations):
        if time.monotonic_ns() >= deadline:
            break
        try:
            operate(driver, arm, recorders)
            operations += 1
        except DriverError as failure:
            errors.add(failure.error_class, str(failure))
    elapsed, cpu = time.monotonic_ns() - started, time.process_time_ns() - cpu
    clients = operations if kind == "connect" else 0
    return {
        "id": order.id,
        "arm": order.arm,
        "workload": order.workload,
        "started_unix_ns": started_unix,
        "elapsed_ns": elapsed,
        "operations": operations,
        "errors": [*errors.by_class.values()],
        "phases": {name: recorder.answer() for name, recorder in recorders.items()},
        "cpu_ns": {"client": cpu},
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "evidence": {"clients": clients, "connections": clients * driver.connections_per_client},
    }


def _measure_connect(driver: ApplicationDriver[Any], arm: Arm, recorders: dict[str, Recorder]) -> None:
    steps = driver.connect(arm)
    first = last = time.monotonic_ns()
    spent: dict[str, int] = {}
    for phase in steps:
        now = time.monotonic_ns()
        spent[phase] = now - last
        last = now
        if phase == "first_operation":
            break
    spent["connect_and_first_operation"] = last - first
    # A failed operation must count in no phase, so record phases only after the whole operation has succeeded.
    for phase, nanoseconds in spent.items():
        recorders.setdefault(phase, Recorder()).times.append(nanoseconds)
    for _ in steps:
        pass


def _measure_query(driver: ApplicationDriver[Any], arm: Arm, recorders: dict[str, Recorder]) -> None:
    before = time.monotonic_ns()
    driver.query(arm)
    recorders.setdefault("operation", Recorder()).times.append(time.monotonic_ns() - before)
