"""Engines for tests of services: one process on each client host, as in a real run."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Self

from costof.datasets.tpcc import load_operations
from costof.messages.answers import ReadyArm, SliceAnswer
from costof.messages.plan import Arm, Data, ServiceSettings, Transport, Workload, line
from costof.messages.plan import Plan as InstrumentPlan
from costof.messages.process import Instrument, engine
from costof.model import Model
from costof.run.instruments import LOAD, LOAD_SECONDS, load_workload
from costof.services import Service
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.support.programs import HANGS_SECONDS, eventually

WORKLOADS = (
    Workload(name="connect", kind="connect"),
    Workload(name="query", kind="query", workers=2),
    Workload(name=LOAD, kind="load", workers=2),
)
TPCC_WORKLOADS = (
    Workload(name="connect", kind="connect", first_operation=False),
    Workload(name="transaction", kind="tpcc", workers=2, tpcc={}),
    load_workload(warehouses=1),
)


def patient_plan(
    arms: Sequence[Arm], workloads: Sequence[Workload], records: int = 0, **settings: int
) -> InstrumentPlan:
    """Return a plan for an engine whose operations time out only if they hang."""
    return InstrumentPlan(
        operation_timeout_ms=HANGS_SECONDS * 1000,
        data=Data(records=records),
        arms=list(arms),
        workloads=list(workloads),
        **settings,
    )


def measured(arm: Arm, workloads: Sequence[Workload], workload: str, operations: int, records: int) -> SliceAnswer:
    with engine() as client:
        assert client.plan(patient_plan([arm], workloads, records)).arms[0].error is None
        return client.slice(1, arm.name, workload, operations, HANGS_SECONDS)


def refusals(
    instrument: Instrument, arms: dict[str, tuple[ServiceSettings, Transport]], seconds: float = HANGS_SECONDS
) -> dict[str, str]:
    """Return the class of each arm's login error. Fail if an arm logs in, or if an error contains its password."""
    named = [Arm(name=name, service=service, transport=transport) for name, (service, transport) in arms.items()]
    plan = patient_plan(named, []).model_copy(update={"operation_timeout_ms": int(seconds * 1000)})
    errors = {}
    with instrument:
        for arm in instrument.plan(plan).arms:
            assert arm.error is not None, arm.name
            assert arm.error.detail
            password = getattr(arms[arm.name][0], "password", None)
            assert password is None or password.get_secret_value() not in arm.error.detail
            errors[arm.name] = arm.error.error_class
    return errors


def sent(message: Model) -> dict[str, Any]:
    """Return the JSON that a process receives for this message on its standard input."""
    return dict(json.loads(line(message)))


def slices_until_met(fault: Callable[[], None], take: Callable[[], SliceAnswer]) -> list[SliceAnswer]:
    """Cause a fault while slices are measured, and return the slices up to the first one with errors."""
    slices: list[SliceAnswer] = []

    def meets_it() -> bool:
        slices.append(take())
        return bool(slices[-1].errors)

    with ThreadPoolExecutor() as beside:
        measuring = beside.submit(eventually, "the fault", meets_it)
        fault()
        measuring.result()
    return slices


class Engines:
    """A context manager that runs an engine on each client host of a service.

    `ready` has, for each arm, the engine's answer to the plan.
    """

    def __init__(
        self, plan: Plan, service: Service, workloads: tuple[Workload, ...] = WORKLOADS, threads: int = 1
    ) -> None:
        self._plan = plan
        self._service = service
        # As in a real run, there is no workload that loads records if the study loads none.
        self._workloads = [each for each in workloads if plan.loads or each.name != LOAD]
        self._threads = threads
        self.ready: dict[str, ReadyArm] = {}
        self._instruments: dict[str, Instrument] = {}

    def __enter__(self) -> Self:
        hosts: dict[tuple[str, ...], list[PlannedArm]] = {}
        for arm in self._plan.arms:
            hosts.setdefault(tuple(self._service.prefix(arm)), []).append(arm)
        with ExitStack() as stack:
            for prefix, arms in hosts.items():
                instrument = stack.enter_context(engine(prefix))
                endpoints = [self._service.endpoint(arm).named(arm.name) for arm in arms]
                for ready in instrument.plan(self._told(endpoints)).arms:
                    self.ready[ready.name] = ready
                    self._instruments[ready.name] = instrument
            self._leave = stack.pop_all()
        return self

    def _told(self, arms: list[Arm]) -> InstrumentPlan:
        return patient_plan(arms, self._workloads, threads=self._threads, records=self._plan.records)

    def __exit__(self, *_: object) -> None:
        self._leave.close()

    def server(self, arm: PlannedArm) -> str:
        """Return the description of the server that the arm's engine has connected to."""
        ready = self.ready[arm.name]
        assert ready.server is not None, ready.error
        return ready.server

    def slice(
        self,
        arm: PlannedArm,
        workload: str,
        operations: int,
        seconds: float = HANGS_SECONDS,
        *,
        reconnect: bool = False,
        disconnect: bool = False,
    ) -> SliceAnswer:
        instrument = self._instruments[arm.name]
        return instrument.slice(1, arm.name, workload, operations, seconds, reconnect, disconnect=disconnect)

    def load(self, arm: PlannedArm) -> None:
        if not self._plan.loads:
            return
        warehouses = self._plan.study.warehouses
        operations = load_operations(warehouses) if warehouses else self._plan.records
        answer = self.slice(arm, LOAD, operations, LOAD_SECONDS)
        assert not answer.errors
        assert answer.operations == operations
