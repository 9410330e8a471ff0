"""The instruments of a run (processes that measure), the arms that each of them measures, and their plans.

An arm is one of the configurations that the run compares.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from costof.datasets import tpcc
from costof.errors import CostofError, ErrorText
from costof.instruments.clients import UnsupportedArmError, client
from costof.instruments.commands.settings import new_output
from costof.instruments.drivers.driver import environment
from costof.messages import plan as ipc
from costof.messages.answers import ClassifiedError, Ready, ReadyArm, SliceAnswer
from costof.messages.process import HostsProcess, Instrument, application, command_runner, engine, engine_path
from costof.results.ledger import Ledger, ReadyRecord
from costof.services import Service
from costof.study.arms import PlannedArm
from costof.study.commands import COMMAND
from costof.study.plan import Plan
from costof.study.schema import SliceSize, Workload

WIRE = "wire"
LOAD = "load"
#: The name of the workload that loads YCSB's records in a study that also has TPC-C's tables. In such a study, the name
#: `LOAD` is taken by the workload that loads TPC-C's tables.
LOAD_RECORDS = "load_records"
LOAD_WORKERS = 4
LOAD_SECONDS = 3600.0
#: Classes of errors that the user can fix. Errors of other classes may mean that the user's own servers lack
#: a feature.
USER_FIXABLE = frozenset(
    {
        "tls_certificate_name",
        "tls_certificate_expired",
        "tls_certificate_untrusted",
        "authentication",
        "command_missing",
        "no_secret",
        "not_in_force",
        "not_verified",
    }
)


@dataclass(frozen=True)
class Surroundings:
    """The environment of an instrument's process.

    `prefix` has the words that begin the process's command line if it runs on an emulated host (a network namespace),
    such as 'nsenter'. `library` is the load generator's TLS library. It is '' for the installed load generator, and
    for all other instruments. `variables` are the process's environment variables.
    """

    prefix: tuple[str, ...]
    library: str = ""
    variables: tuple[tuple[str, str], ...] = ()

    @property
    def program(self) -> tuple[tuple[str, ...], str]:
        return self.prefix, self.library


@dataclass
class Instruments:
    """The processes that measure in a run, and the arms (compared configurations) that each of them measures.

    A process's name is 'wire' for the load generator, 'command' for the command runner, or that of an application's
    driver.

    - `start_number`: the number of this start of the servers (--restarts). Each start has other random data and keys.
    - `population`: the hosts that measure instead of this machine, or None. Hosts run no application drivers.
    - `members`: the servers ('address:port') that have answered, by instrument and arm. There can be several, because
      several hosts may connect to different servers.
    - `able`: the arms that can be measured.
    """

    plan: Plan
    service: Service
    ledger: Ledger
    start_number: int = 0
    population: HostsProcess | None = None
    _instruments: dict[tuple[str, str], Instrument] = field(default_factory=dict)
    members: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    able: list[PlannedArm] = field(default_factory=list)
    _output: Path = field(default_factory=new_output)

    def __post_init__(self) -> None:
        """Raise `TLS_LIBRARY_MISSING` if an arm's TLS library is missing, before any server is started."""
        for arm in self.plan.arms:
            if arm.settings.tls_library:
                engine_path(arm.settings.tls_library)

    def start(self, stack: ExitStack) -> None:
        """Start the measuring processes that the study's workloads need, the load generator first.

        One process measures as many arms as possible: two processes may differ in speed by their memory layout alone,
        and the difference would look like an effect. Raises `ARMS_CANNOT_RUN` and `OTHER_TLS_LIBRARY`.
        """
        workloads = self.plan.study.workloads.values()
        needed = {each.instrument: each for each in workloads if each.view != "app" or self.population is None}
        self.able = self.plan.arms
        for name in sorted(needed, key=lambda name: name != WIRE):
            ready = []
            for surroundings, arms in _grouped(self.able, partial(self._surroundings, name)):
                instrument = self._instrument(needed[name], surroundings, arms[0])
                ready.append(self._introduce(name, stack.enter_context(instrument), arms))
            if self.able is self.plan.arms:
                # The load generator, which comes first, has tried to connect for each arm. If it could not connect for
                # an arm, the other measuring processes leave the arm out.
                self._check_that_arms_can_run(ready)
                self.able = [arm for arm in self.plan.arms if self.measures(name, arm.name)]

    def measures(self, instrument: str, arm: str) -> bool:
        return (instrument, arm) in self._instruments

    def slice(
        self,
        number: int,
        arm: PlannedArm,
        workload: str,
        size: SliceSize,
        reconnect: bool = False,
        rate: ipc.SliceRate | None = None,
        disconnect: bool = False,
    ) -> SliceAnswer:
        """Measure one slice (a measured window of the arm), at `rate` if given.

        With `reconnect` the load generator closes its open connections before the slice, with `disconnect` after it.
        """
        key = self.plan.study.workloads[workload].instrument, arm.name
        name, instrument = self._name_for_instrument(workload, arm), self._instruments[key]
        return instrument.slice(number, arm.name, name, size.operations, size.seconds, reconnect, rate, disconnect)

    def finish(self) -> list[str]:
        """Run the `cleanup` commands of all arms (compared configurations).

        Return, as a sentence for each failed command, why it failed.

        If other hosts measure, the command runner on each host runs its `cleanup` commands itself when it ends.
        """
        if self.population is not None or not any(arm.settings.cleanup for arm in self.plan.arms):
            return []
        runners = {id(each): each for (name, _), each in self._instruments.items() if name == COMMAND}
        return [failure for each in runners.values() for failure in each.finish()]

    def load(self, arm: PlannedArm) -> None:
        """Load the study's data, if any, with the settings of `arm`. Raises `NOTHING_MEASURED` if the load fails."""
        warehouses = self.plan.study.warehouses
        for workload in self._load_workloads():
            operations = tpcc.load_operations(warehouses) if workload.kind == "tpcc" else self.plan.records
            answer = self._instruments[WIRE, arm.name].slice(0, arm.name, workload.name, operations, LOAD_SECONDS)
            if answer.errors:
                raise CostofError(ErrorText.NOTHING_MEASURED, detail=f"loading failed: {answer.errors[0].detail}")

    def _load_workloads(self) -> list[ipc.Workload]:
        """Return the workloads that fill the database: TPC-C's warehouses, YCSB records, or both."""
        warehouses, records = self.plan.study.warehouses, self.plan.records
        if warehouses and records:
            return [load_workload(warehouses), load_workload().model_copy(update={"name": LOAD_RECORDS})]
        return [load_workload(warehouses)] if warehouses or records else []

    def _surroundings(self, instrument: str, arm: PlannedArm) -> Surroundings:
        prefix = tuple(self.service.prefix(arm))
        match instrument:
            case "wire":
                return Surroundings(prefix, arm.settings.tls_library)
            case "command":
                return Surroundings(prefix)
            case _:
                variables = environment(arm.settings.transport or ipc.PLAIN)
                return Surroundings(prefix, variables=tuple(sorted(variables.items())))

    def _instrument(
        self, workload: Workload, surroundings: Surroundings, arm: PlannedArm
    ) -> AbstractContextManager[Instrument]:
        if self.population is not None:
            return nullcontext(self.population)
        match workload.view:
            case "wire":
                return engine(surroundings.prefix, library=surroundings.library)
            case "command":
                return command_runner(surroundings.prefix)
            case "app":
                driver = workload.driver or self.service.endpoint(arm).service.protocol
                return application(driver, dict(surroundings.variables), surroundings.prefix)

    def _introduce(self, name: str, instrument: Instrument, arms: list[PlannedArm]) -> Ready:
        """Send a measuring process the plan with the arms that it may measure. Record its answer, and return it."""
        reasons = {arm.name: reason for arm in arms if (reason := self._refusal_reason(name, arm)) is not None}
        ready = instrument.plan(self._plan_for_instrument(name, [arm for arm in arms if arm.name not in reasons]))
        refused = [
            ReadyArm(name=each, server=None, error=ClassifiedError(**{"class": "plain_refused", "detail": reason}))
            for each, reason in reasons.items()
        ]
        ready = ready.model_copy(update={"arms": ready.arms + refused})
        workloads = self.plan.study.workloads.values()
        view = next(each.view for each in workloads if each.instrument == name)
        if view == WIRE:
            _check_library(ready, arms)
        self.ledger.append(ReadyRecord(view=view, ready=ready))
        for arm in ready.arms:
            if arm.error is None and arm.server is not None:
                self._instruments[name, arm.name] = instrument
                self.members[name, arm.name] = arm.server.split(",")
        return ready

    def _refusal_reason(self, instrument: str, arm: PlannedArm) -> str | None:
        """Return why a measuring process must not or cannot measure an arm (compared configuration); None if it can."""
        refusal_reason = self.service.refusal_reason(arm)
        if refusal_reason is None and instrument == COMMAND and self.plan.client:
            try:
                self._endpoint(instrument, arm)
            except UnsupportedArmError as error:
                return str(error)
        return refusal_reason

    def _endpoint(self, instrument: str, arm: PlannedArm) -> ipc.Endpoint:
        """Return the endpoint at which a process measures an arm. Raises `UnsupportedArmError` if it cannot."""
        endpoint = self.service.endpoint(arm)
        if instrument != COMMAND or self.plan.client is None:
            return endpoint
        load, programs = self.plan.client_load(arm), self.plan.programs(arm)
        settings = client(self.plan.client).settings(endpoint, load, programs, self._output)
        return ipc.Endpoint(service=settings)

    def _check_that_arms_can_run(self, ready: list[Ready]) -> None:
        """Raise `ARMS_CANNOT_RUN` if the arms that can run are not enough for an answer.

        This is the case if no arm can run. It is also the case if no arm with the protection can run, and the user
        named the protection or can fix the cause. In all other cases, for example if the user's servers do not support
        the protection, the run continues with the arms that can run.
        """
        errors = {arm.name: arm.error for each in ready for arm in each.arms if arm.error is not None}
        protected = [arm.name for arm in self.plan.protected]
        stopped = [errors[name] for name in protected if name in errors]
        none_protected = bool(protected) and len(stopped) == len(protected)
        fixable = any(error.error_class in USER_FIXABLE for error in stopped)
        if len(errors) == len(self.plan.arms) or (none_protected and (self.plan.protection_chosen or fixable)):
            causes = stopped if none_protected else list(errors.values())
            raise CostofError(
                ErrorText.ARMS_CANNOT_RUN, detail="; ".join(dict.fromkeys(error.detail for error in causes))
            )

    def _plan_for_instrument(self, instrument: str, arms: list[PlannedArm]) -> ipc.Plan:
        return ipc.Plan(
            seed=self.plan.seed + self.start_number,
            threads=os.cpu_count() or 1,
            data=ipc.Data(records=self.plan.records),
            arms=[self._endpoint(instrument, arm).named(arm.name) for arm in arms],
            workloads=self._workloads(instrument, arms),
        )

    def _workloads(self, instrument: str, arms: list[PlannedArm]) -> list[ipc.Workload]:
        """Return the workloads of an instrument (measuring process).

        If arms (compared configurations) differ in a workload's number of workers or in its options, the result has a
        separate workload for each number of workers and for each set of options.
        """
        workloads = self.plan.study.workloads.items()
        pairs = [(name, arm) for name, each in workloads if each.instrument == instrument for arm in arms]
        by_name = {self._name_for_instrument(name, arm): self._workload(name, arm) for name, arm in pairs}
        return [*by_name.values(), *(self._load_workloads() if instrument == WIRE else [])]

    def _workload(self, name: str, arm: PlannedArm) -> ipc.Workload:
        workload = self.plan.study.workloads[name]
        options = {key: value for key, value in arm.settings.workload.get(name, {}).items() if key != "workers"}
        # Tell the load generator how many records were loaded, so that reads find records and inserts use new keys.
        loaded = {"record_count": self.plan.records} if self.plan.records else {}
        return ipc.Workload(
            name=self._name_for_instrument(name, arm),
            kind=workload.kind,
            workers=self.plan.workers(name, arm),
            first_operation=None if workload.first_operation else False,
            further_operations=workload.further_operations or None,
            keep_connections=workload.keep_connections or None,
            pace=workload.pace,
            think_ms=workload.think_ms,
            ycsb={**workload.ycsb, **options, **loaded} if workload.ycsb else None,
            tpcc={"phase": "run", **workload.tpcc, **options} if workload.kind == "tpcc" else None,
        )

    def _name_for_instrument(self, workload: str, arm: PlannedArm) -> str:
        """Return the name by which a measuring process knows the workload of an arm (compared configuration).

        The name is 'query x 4' if the arm has its own number of workers, here 4.
        """
        spec, workers = self.plan.study.workloads[workload], self.plan.workers(workload, arm)
        parts = [
            workload,
            f"x {workers}" if workers != spec.workers else "",
            self.plan.study.variant(workload, arm.levels),
        ]
        return " ".join(part for part in parts if part)


def load_workload(warehouses: int = 0) -> ipc.Workload:
    if warehouses:
        tpcc = {"phase": "load", "warehouses": warehouses}
        return ipc.Workload(name=LOAD, kind="tpcc", workers=LOAD_WORKERS, tpcc=tpcc)
    return ipc.Workload(name=LOAD, kind="load", workers=LOAD_WORKERS)


def _check_library(ready: Ready, arms: Iterable[PlannedArm]) -> None:
    """Raise `OTHER_TLS_LIBRARY` if the load generator reports another TLS library than its arms need."""
    versions = [f"{name}-{version}.".lower() for name, version in ready.versions.items()]
    for library in {arm.settings.tls_library for arm in arms} - {""}:
        if not any(each.startswith((f"{library}-", f"{library}.")) for each in versions):
            raise CostofError(ErrorText.OTHER_TLS_LIBRARY, library=library, found=ready.tls_library)


def _grouped(
    arms: Iterable[PlannedArm], surroundings: Callable[[PlannedArm], Surroundings]
) -> list[tuple[Surroundings, list[PlannedArm]]]:
    """Group the arms (compared configurations) by the process that measures them.

    Return each group with the environment of its process.

    The number of processes is as small as possible. Arms share a process if they need the same program and the same
    environment variables. An arm that needs no variables joins any process with its program.
    """
    groups: dict[Surroundings, list[PlannedArm]] = {}
    for arm in sorted(arms, key=lambda arm: not surroundings(arm).variables):
        needed = surroundings(arm)
        key = next((each for each in groups if each.program == needed.program and not needed.variables), needed)
        groups.setdefault(key, []).append(arm)
    return list(groups.items())
