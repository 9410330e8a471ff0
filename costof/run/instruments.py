"""Instruments: which of them measures which arm, and through which member of the service."""

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
LOAD_WORKERS = 4
LOAD_SECONDS = 3600.0
#: Classes of error that say the user's own input is wrong, rather than that a target does not offer something.
USER_FIXABLE = frozenset(
    {
        "tls_certificate_name",
        "tls_certificate_expired",
        "tls_certificate_untrusted",
        "authentication",
        "command_missing",
        "no_secret",
        "not_in_force",
        "unproved",
    }
)


@dataclass(frozen=True)
class Surroundings:
    """What an arm's process is started with: the prefix of its host, the engine's TLS library ('' for the installed
    engine, and for whatever is none), and the environment variables that it needs."""

    prefix: tuple[str, ...]
    library: str = ""
    variables: tuple[tuple[str, str], ...] = ()

    @property
    def program(self) -> tuple[tuple[str, ...], str]:
        return self.prefix, self.library


@dataclass
class Instruments:
    """Instruments that have been handed their plans: the engine is 'wire', the command runner 'command', and all
    others are drivers. `able` are the arms that can be measured at all.

    `start_number`: of the servers, among several. Which data and keys are drawn is luck too: each start has its own.
    `members` says who answers an arm, as `address:port`, by instrument and arm; several of several hosts.
    `population`: the hosts that measure instead of this machine. They have the engine or the runner, and no driver.
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
        """Raises `TLS_LIBRARY_MISSING`, before any server is started."""
        for arm in self.plan.arms:
            if arm.settings.tls_library:
                engine_path(arm.settings.tls_library)

    def start(self, stack: ExitStack) -> None:
        """Those that the study's workloads ask for, the engine first.

        One process serves all arms that can share it: two processes may differ by the layout of their memory alone, and
        that would look like an effect. Raises `ARMS_CANNOT_RUN`, `OTHER_TLS_LIBRARY`.
        """
        workloads = self.plan.study.workloads.values()
        asked = {each.instrument: each for each in workloads if each.view != "app" or self.population is None}
        self.able = self.plan.arms
        for name in sorted(asked, key=lambda name: name != WIRE):
            ready = []
            for surroundings, arms in _grouped(self.able, partial(self._surroundings, name)):
                instrument = self._instrument(asked[name], surroundings, arms[0])
                ready.append(self._introduce(name, stack.enter_context(instrument), arms))
            if self.able is self.plan.arms:
                # What the first one cannot reach no other is asked for.
                self._refuse_what_cannot_answer(ready)
                self.able = [arm for arm in self.plan.arms if self.measures(name, arm.name)]

    def measures(self, instrument: str, arm: str) -> bool:
        return (instrument, arm) in self._instruments

    def slice(
        self, number: int, arm: PlannedArm, workload: str, size: SliceSize, reconnect: bool = False
    ) -> SliceAnswer:
        """Have one slice measured; the engine ends its standing connections before it where it is to `reconnect`."""
        who = self.plan.study.workloads[workload].instrument
        name, instrument = self._name_for_instrument(workload, arm), self._instruments[who, arm.name]
        return instrument.slice(number, arm.name, name, size.operations, size.seconds, reconnect)

    def load(self, arm: PlannedArm) -> None:
        """Load the study's data, if it has any, through an arm. Raises `NOTHING_MEASURED` when it fails."""
        if not self.plan.loads:
            return
        warehouses = self.plan.study.warehouses
        operations = tpcc.load_operations(warehouses) if warehouses else self.plan.records
        answer = self._instruments[WIRE, arm.name].slice(0, arm.name, LOAD, operations, LOAD_SECONDS)
        if answer.errors:
            raise CostofError(ErrorText.NOTHING_MEASURED, detail=f"loading failed: {answer.errors[0].detail}")

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
        self, asked: Workload, surroundings: Surroundings, arm: PlannedArm
    ) -> AbstractContextManager[Instrument]:
        if self.population is not None:
            return nullcontext(self.population)
        match asked.view:
            case "wire":
                return engine(surroundings.prefix, library=surroundings.library)
            case "command":
                return command_runner(surroundings.prefix)
            case "app":
                driver = asked.driver or self.service.endpoint(arm).service.protocol
                return application(driver, dict(surroundings.variables), surroundings.prefix)

    def _introduce(self, name: str, instrument: Instrument, arms: list[PlannedArm]) -> Ready:
        """Hand an instrument its plan, and note which of the arms it can measure. It never hears of a refusal_reason one."""
        refusal_reason = {arm.name: why for arm in arms if (why := self._refusal_reason(name, arm)) is not None}
        ready = instrument.plan(
            self._plan_for_instrument(name, [arm for arm in arms if arm.name not in refusal_reason])
        )
        refused = [
            ReadyArm(name=each, server=None, error=ClassifiedError(**{"class": "plain_refused", "detail": why}))
            for each, why in refusal_reason.items()
        ]
        ready = ready.model_copy(update={"arms": ready.arms + refused})
        workloads = self.plan.study.workloads.values()
        view = next(each.view for each in workloads if each.instrument == name)
        if view == WIRE:
            _check_library(ready, arms)
        self.ledger.append(ReadyRecord(view=view, ready=ready))
        for told in ready.arms:
            if told.error is None and told.server is not None:
                self._instruments[name, told.name] = instrument
                self.members[name, told.name] = told.server.split(",")
        return ready

    def _refusal_reason(self, instrument: str, arm: PlannedArm) -> str | None:
        """Why an instrument must not, or cannot, be told of an arm."""
        refusal_reason = self.service.refusal_reason(arm)
        if refusal_reason is None and instrument == COMMAND and self.plan.client:
            try:
                self._endpoint(instrument, arm)
            except UnsupportedArmError as error:
                return str(error)
        return refusal_reason

    def _endpoint(self, instrument: str, arm: PlannedArm) -> ipc.Endpoint:
        """As the instrument is told of it. Raises `UnsupportedArmError` where a client cannot be."""
        endpoint = self.service.endpoint(arm)
        if instrument != COMMAND or self.plan.client is None:
            return endpoint
        settings = client(self.plan.client).settings(endpoint, self.plan.programs(arm), self._output)
        return ipc.Endpoint(service=settings)

    def _refuse_what_cannot_answer(self, ready: list[Ready]) -> None:
        """Raises when no arm can run, or when no protected one can and that is the user's to mend or was asked for by
        name. A target that merely does not offer the protection still gets its control reported."""
        errors = {arm.name: arm.error for each in ready for arm in each.arms if arm.error is not None}
        protected = [arm.name for arm in self.plan.protected]
        stopped = [errors[name] for name in protected if name in errors]
        none_protected = len(stopped) == len(protected)
        fixable = any(error.error_class in USER_FIXABLE for error in stopped)
        if len(errors) == len(self.plan.arms) or (none_protected and (self.plan.protection_chosen or fixable)):
            told = stopped if none_protected else list(errors.values())
            raise CostofError(
                ErrorText.ARMS_CANNOT_RUN, detail="; ".join(dict.fromkeys(error.detail for error in told))
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
        """The study's workloads with the number of workers that each arm has for them."""
        workloads = self.plan.study.workloads.items()
        asked = [(name, arm) for name, each in workloads if each.instrument == instrument for arm in arms]
        found = {self._name_for_instrument(name, arm): self._workload(name, arm) for name, arm in asked}
        load = [load_workload(self.plan.study.warehouses)] if instrument == WIRE and self.plan.loads else []
        return [*found.values(), *load]

    def _workload(self, name: str, arm: PlannedArm) -> ipc.Workload:
        workload = self.plan.study.workloads[name]
        options = {key: value for key, value in arm.settings.workload.get(name, {}).items() if key != "workers"}
        # What was loaded is what can be asked for, and what new records follow.
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
        """An instrument knows a workload of another number of workers, or of other options, as another workload."""
        spec, workers = self.plan.study.workloads[workload], self.plan.workers(workload, arm)
        parts = [
            workload,
            f"x {workers}" if workers != spec.workers else "",
            self.plan.study.variant(workload, arm.levels),
        ]
        return " ".join(part for part in parts if part)


def load_workload(warehouses: int = 0) -> ipc.Workload:
    """The workload that loads the data: records, or TPC-C's warehouses."""
    if warehouses:
        tpcc = {"phase": "load", "warehouses": warehouses}
        return ipc.Workload(name=LOAD, kind="tpcc", workers=LOAD_WORKERS, tpcc=tpcc)
    return ipc.Workload(name=LOAD, kind="load", workers=LOAD_WORKERS)


def _check_library(ready: Ready, arms: Iterable[PlannedArm]) -> None:
    """Raises `OTHER_TLS_LIBRARY` where the engine does not say that it runs what the arms are to be measured with."""
    runs = [f"{name}-{version}.".lower() for name, version in ready.versions.items()]
    for library in {arm.settings.tls_library for arm in arms} - {""}:
        if not any(each.startswith((f"{library}-", f"{library}.")) for each in runs):
            raise CostofError(ErrorText.OTHER_TLS_LIBRARY, library=library, found=ready.tls_library)


def _grouped(
    arms: Iterable[PlannedArm], surroundings: Callable[[PlannedArm], Surroundings]
) -> list[tuple[Surroundings, list[PlannedArm]]]:
    """Arms by what their process needs. One that needs no environment of its own joins the first of its program."""
    groups: dict[Surroundings, list[PlannedArm]] = {}
    for arm in sorted(arms, key=lambda arm: not surroundings(arm).variables):
        own = surroundings(arm)
        joined = next((key for key in groups if key.program == own.program and not own.variables), own)
        groups.setdefault(joined, []).append(arm)
    return list(groups.items())
