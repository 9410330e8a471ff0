"""Measurement of the server memory of a connection: how much the servers' memory grows with idle connections.

Connections are opened in steps, and all of them stay open. If they were closed, most servers would keep the freed
memory and reuse it for the next connection, which would then seem to need less.

For the same reason, the arms (compared configurations) must not profit from memory that another arm has left behind. A
lab therefore starts its servers anew for each arm. The user's own servers (a target) cannot be started anew. There,
each step opens connections on one arm after the other, so that all arms profit alike.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from contextlib import ExitStack
from itertools import groupby

from costof.errors import CostofError
from costof.lab.memory import Memory, available_share
from costof.lab.program import Counters
from costof.messages.answers import SliceAnswer
from costof.results.ledger import Ledger, MemoryRecord
from costof.run.evidence import mismatch
from costof.run.instruments import WIRE, Instruments
from costof.run.progress import Progress
from costof.services import LabService, Service
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from costof.study.schema import SliceSize, Workload

#: Sizes of the steps as shares of all connections. The first step opens 1 % (`FIRST`), the second one 9 %, and each of
#: the nine further steps 10 % (`EACH`). After the second step, 10 % are open.
FIRST, EACH = 0.01, 0.1
FURTHER_STEPS = 9
#: The number of connections that are opened at the same time. Each TLS handshake needs memory for a moment, and many
#: simultaneous handshakes enlarge the server's heap. With 100 at once, a TLS connection of Redis seemed to take 41 kB
#: instead of 27 to 30 kB.
AT_ONCE = 10
#: Maximum seconds in which all connections of a slice (measured window) perform their only operation.
SECONDS = 30.0
#: After a step, the memory is read repeatedly, at most `MOST_READINGS` times. It counts as stable when two readings in
#: a row differ by less than the share `SETTLED` of the step's growth.
SETTLED, MOST_READINGS = 0.02, 10
#: In a lab (servers on this machine), no further connections are opened if less than this share of the machine's memory
#: is available: it could start to swap.
LEAST_AVAILABLE = 0.15
#: The number of file descriptors that the load generator needs for other purposes than connections.
OTHER_DESCRIPTORS = 1_000
#: Kinds of workload whose connections stay open, in the order of preference.
STANDING = ("query", "request", "ycsb", "tpcc")


def measure_memory(plan: Plan, open_service: Callable[[Plan], Service], ledger: Ledger, progress: Progress) -> None:
    """Measure the memory that connections of each arm (compared configuration) need in the servers.

    Append the records to the ledger (the run's file).

    Raises nothing: if an arm cannot be measured, its record has the reason.
    """
    if any(isinstance(record, MemoryRecord) and record.missing is None for record in ledger.records()):
        return
    idle = idle_plan(plan)
    groups = [[arm] for arm in idle.arms] if plan.target is None else [idle.arms]
    for number, arms in enumerate(groups, start=1):
        of = f", {number} of {len(groups)}" if len(groups) > 1 else ""
        progress.stage(f"measuring the memory of a connection{of}")
        try:
            records = _records(idle, idle.model_copy(update={"arms": arms}), open_service, ledger)
        except CostofError as error:
            records = [MemoryRecord(arm=arm.name, missing=str(error)) for arm in arms]
        except KeyboardInterrupt:
            for arm in (arm for group in groups[number - 1 :] for arm in group):
                ledger.append(MemoryRecord(arm=arm.name, missing="interrupted"))
            return
        for record in records:
            ledger.append(record)


def _records(idle: Plan, group: Plan, open_service: Callable[[Plan], Service], ledger: Ledger) -> list[MemoryRecord]:
    """Measure the arms of the plan `group`, and return their records.

    `idle` is the plan with all arms, of which `group` has one or more. In a lab (servers that the run starts), new
    servers are started for these arms.
    """
    service = open_service(idle)
    service.needed_connections = idle.memory * len(group.arms)
    with service, ExitStack() as stack:
        used = {each.name for arm in group.arms for each in (arm, service.loads_over(arm))}
        arms = [arm for arm in idle.arms if arm.name in used]
        instruments = Instruments(idle.model_copy(update={"arms": arms}), service, ledger)
        instruments.start(stack)
        service.prepare([arm for arm in group.arms if arm in instruments.able], instruments.load)
        return Steps(group, service, instruments).measure()


def step_sizes(connections: int) -> list[int]:
    """Return how many connections each step opens: 10, 90 and then nine times 100 for 1,000 connections in all."""
    first, each = max(1, int(connections * FIRST)), int(connections * EACH)
    return [first, each - first, *[each] * FURTHER_STEPS]


def idle_plan(plan: Plan) -> Plan:
    """Return the plan with only the arms at the shortest distance, and with workloads that open idle connections.

    A connection's memory does not depend on its distance. The control's identical copy is left out.
    """
    nearest = min(plan.controls, key=lambda arm: plan.study.round_trip_ms(arm.levels))
    arms = [arm for arm in plan.arms if arm.context == nearest.context and not arm.replicate]
    most = (resource.getrlimit(resource.RLIMIT_NOFILE)[1] - OTHER_DESCRIPTORS) // len(arms)
    template, workloads, slices = _standing_workload(plan), {}, {}
    for step, size in enumerate(step_sizes(min(plan.memory, max(most, 0)))):
        for number, workers in enumerate(_parts(size)):
            name = part_name(step, number)
            workloads[name] = template.model_copy(update={"workers": workers})
            slices[name] = SliceSize(operations=workers, seconds=SECONDS)
    study = plan.study.model_copy(update={"workloads": workloads})
    return plan.model_copy(
        update={
            "study": study,
            "arms": arms,
            "slices": slices,
            "load": None,
            "rates": [],
            "sweep": None,
            "client": None,
            # If this were True, one arm that cannot run would end the measurement of all arms. With False, only this
            # arm's figures are missing.
            "protection_chosen": False,
        }
    )


def part_name(step: int, part: int) -> str:
    return f"idle {step}.{part}"


def _parts(size: int) -> list[int]:
    whole, rest = divmod(size, AT_ONCE)
    return [*[AT_ONCE] * whole, *([rest] if rest else [])]


def _standing_workload(plan: Plan) -> Workload:
    """Return a workload whose connections stay open and whose rate is not limited.

    The kind of the workload is the first one in `STANDING` that the study has, such as 'ycsb'. If the study has none of
    them, the kind is 'request' for HTTP and 'query' for all other services.
    """
    of_study = [each for each in plan.study.workloads.values() if each.view == WIRE]
    usable = sorted((each for each in of_study if each.kind in STANDING), key=lambda each: STANDING.index(each.kind))
    kind = usable[0].kind if usable else "request" if plan.study.service.kind == "http" else "query"
    return Workload(
        label="idle connections",
        view=WIRE,
        kind=kind,
        keep_connections=kind == "request",
        ycsb=usable[0].ycsb if usable else {},
        tpcc=usable[0].tpcc if usable else {},
    )


class Steps:
    """The steps in which a plan's idle connections are opened. Connections of earlier steps stay open."""

    def __init__(self, plan: Plan, service: Service, instruments: Instruments) -> None:
        self._plan = plan
        self._service = service
        self._instruments = instruments
        self._records: dict[str, list[MemoryRecord]] = {arm.name: [] for arm in plan.arms}
        self._missing: dict[str, str] = {}
        # The workload 'idle 3.0' opens the first part of the connections of step 3. Group the workloads by their step.
        self._parts = [[*names] for _, names in groupby(plan.slices, key=lambda name: name.partition(".")[0])]

    def measure(self) -> list[MemoryRecord]:
        for arm in self._plan.arms:
            if not self._instruments.measures(WIRE, arm.name):
                self._missing[arm.name] = "it cannot be measured"
        memory = self._service.memory()
        for step in range(len(self._parts)):
            # Every second step reverses the order of the arms, so that no arm is always measured first.
            for arm in self._plan.arms if step % 2 == 0 else reversed(self._plan.arms):
                if memory is not None and arm.name not in self._missing:
                    memory = self._step(step, arm, memory)
        for arm in self._plan.arms:
            self._check_open(arm)
        missing = [MemoryRecord(arm=name, missing=reason) for name, reason in self._missing.items()]
        if memory is None:
            missing = [MemoryRecord(arm=arm.name, missing="the memory cannot be read") for arm in self._plan.arms]
        return [*(record for records in self._records.values() for record in records), *missing]

    def _step(self, step: int, arm: PlannedArm, before: Memory) -> Memory:
        """Open the connections of a step, and return the servers' memory after it."""
        if isinstance(self._service, LabService) and available_share() < LEAST_AVAILABLE:
            self._missing[arm.name] = "this machine has too little memory for more connections"
            return before
        self._service.arrange(arm)
        opened, reason = 0, None
        for name in self._parts[step]:
            answer = self._instruments.slice(0, arm, name, self._plan.slices[name])
            opened += int(answer.evidence.get("connections", 0))
            reason = self._reason(arm, answer, name)
            if reason is not None:
                break
        memory = self._settled(before)
        if reason is not None:
            self._missing[arm.name] = reason
        elif opened:
            connections = opened + sum(record.opened for record in self._records[arm.name])
            self._records[arm.name].append(
                MemoryRecord(
                    arm=arm.name,
                    step=step,
                    opened=opened,
                    connections=connections,
                    grown=memory.since(before),
                    methods=sorted(memory.methods),
                )
            )
        return memory

    def _reason(self, arm: PlannedArm, answer: SliceAnswer, name: str) -> str | None:
        """Return why no further connections of an arm (compared configuration) can be opened; None if they can."""
        if answer.errors:
            return answer.errors[0].detail
        workers = self._plan.slices[name].operations
        other = mismatch(arm.settings, WIRE, answer, Counters(), workers)
        return other or self._service.failure_reason(arm) or self._service.failure_reason()

    def _settled(self, before: Memory) -> Memory:
        """Return the servers' memory when it has become stable (`SETTLED`). `before`: the memory before the step."""
        memory = self._read()
        for _ in range(MOST_READINGS):
            last, memory = memory, self._read()
            if abs(memory.total - last.total) <= SETTLED * abs(memory.total - before.total):
                break
        return memory

    def _read(self) -> Memory:
        return self._service.memory() or Memory()

    def _check_open(self, arm: PlannedArm) -> None:
        """Use the first connections of an arm once more. Discard the arm's figures if the server has closed them."""
        if not self._records[arm.name]:
            return
        name = self._parts[0][0]
        self._service.arrange(arm)
        answer = self._instruments.slice(0, arm, name, self._plan.slices[name])
        if answer.errors or int(answer.evidence.get("connections", 0)):
            self._records[arm.name].clear()
            self._missing[arm.name] = "the server closed idle connections during the measurement"
