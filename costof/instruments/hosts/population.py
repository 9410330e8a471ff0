"""The hosts of a run as one instrument: one plan of which each does its share, one window a slice, one answer."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from costof import __version__
from costof.errors import Caution, CostofError, Problem
from costof.format import listed
from costof.instruments.hosts.asked import HostsAsked
from costof.instruments.hosts.cluster import Cluster, reached
from costof.instruments.hosts.host import CALL_SECONDS, START_SECONDS, Host, HostLostError, answers, read_clocks
from costof.instruments.hosts.merging import merged_answer, merged_ready, unlike, unproved
from costof.instruments.hosts.parts import PopulationAnswer, part_of
from costof.messages.answers import MISMATCH, Prepared, PublicKey, Ready, SliceAnswer
from costof.messages.plan import Plan, PrepareOrder, ServiceSettings, Share, SliceOrder, line
from costof.messages.process import READY_SECONDS, T, engine_path
from costof.messages.sealing import sealed
from costof.model import Model

#: Beyond a slice's own seconds and what may follow them.
PATIENCE_SECONDS = 15.0
#: Windows open so long after the last clock was read, at least, so that every host has its order by then.
SOONEST_NS, CALLS_AHEAD = 50_000_000, 5


class Population:
    """An instrument (`costof.messages.process.Instrument`) of several hosts: on each the engine, which is sent there,
    or the runner of `commands`, which is of the costof that is installed there. A context manager; leaving it ends
    every actor, and with it what it has started."""

    def __init__(self, asked: HostsAsked, commands: bool = False) -> None:
        self._asked = asked
        self._commands = commands
        self._engine = b"" if commands else engine_path().read_bytes()
        self.sha256 = hashlib.sha256(self._engine).hexdigest()
        self.hosts: list[Host] = []
        self._plan: Plan | None = None
        #: Of the slice before: what a host that is not heard of may still be at.
        self._patience = 0.0

    def __enter__(self) -> Population:
        """Reach the cluster and take its hosts. Raises what `reached` does, and `HOST_REFUSED`."""
        with ExitStack() as stack:
            self._cluster = stack.enter_context(reached(self._asked))
            stack.callback(self._end)
            self._take(self._cluster)
            self._leave = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._leave.close()

    def _take(self, cluster: Cluster) -> None:
        self._ray = cluster.ray
        self.hosts = [Host(cluster.ray, node) for node in cluster.nodes]
        self._shipped = cluster.ray.put(self._engine)
        started = {host: host.actor.facts.remote() for host in self.hosts}
        try:
            for host, facts in answers(cluster.ray, started, START_SECONDS).items():
                host.facts = facts
        except HostLostError as error:
            cpus = f"it gives this run no process with all its {error.host.node.cpus} CPUs within {START_SECONDS:.0f} s"
            detail = f"{error.detail}; {cpus}: see ray status for what has taken them"
            raise CostofError(Problem.HOST_REFUSED, host=error.host.name, detail=detail) from None
        if self._commands:
            check_costof({host.name: host.facts["costof"] for host in self.hosts})
            return
        for host in self.hosts:
            if host.facts["machine"] != os.uname().machine:
                detail = f"it is a {host.facts['machine']}, and this engine is for {os.uname().machine}"
                raise CostofError(Problem.HOST_REFUSED, host=host.name, detail=detail)

    def _end(self) -> None:
        for host in self.hosts:
            with suppress(Exception):
                host.end()

    def describe(self) -> dict[str, Any]:
        """For the environment of a result; its cores are those that load."""
        shown = ("CPU", "cores", "kernel", "python", "open files", "ports")
        sent = {"costof on hosts": __version__} if self._commands else {"engine on hosts": f"SHA-256 {self.sha256}"}
        return {
            "cores": sum(int(host.facts["cores"]) for host in self.hosts),
            "hosts": {
                host.name: {"CPUs given": host.node.cpus, **{name: host.facts[name] for name in shown}}
                for host in self.hosts
            },
            **sent,
        }

    def told(self) -> dict[str, str]:
        """Of each host, for whoever looks at it before a run: it has run the engine."""
        self.plan(Plan(arms=[], workloads=[]))
        read_clocks(self._ray, self.hosts)
        return {host.name: self._told(host) for host in self.hosts}

    def _told(self, host: Host) -> str:
        facts, clock = host.facts, host.clock.error_ns / 1e6
        return (
            f"runs the engine on {host.node.cpus} of {facts['cores']} cores ({facts['machine']}, Linux "
            f"{facts['kernel']}, Python {facts['python']}); {facts['open files']:,} open files, {facts['ports']:,} "
            f"ports; its clock is known to within {clock:.1f} ms; "
            f"{'costof ' + facts['costof'] if facts['costof'] else 'no costof, which commands of your own need'}"
        )

    def cautions(self) -> list[str]:
        """What a reader must know of these hosts."""
        machines: dict[str, list[str]] = {}
        for host in self.hosts:
            machines.setdefault(host.facts["boot id"], []).append(host.name)
        shared = [names for names in machines.values() if len(names) > 1]
        texts = [Caution.HOSTS_ONE_MACHINE.text(hosts=" and ".join(names)) for names in shared]
        if self._asked.unauthenticated:
            texts.append(Caution.HOSTS_OPEN.text())
        if not self._cluster.encrypted:
            texts.append(Caution.HOSTS_IN_THE_CLEAR.text())
        return texts

    def plan(self, plan: Plan) -> Ready:
        """Start an instrument on each host and hand it its share; what all say of every arm. Raises `HOST_LOST`."""
        self._plan = plan
        authorities = list(dict.fromkeys(arm.transport.ca_file for arm in plan.arms if arm.transport.ca_file))
        contents = [self._ray.put(path.read_bytes()) for path in authorities]
        begun = self._of_all(lambda host: self._start(host, contents), START_SECONDS + self._patience)
        lines = {}
        for number, (host, told) in enumerate(begun.items()):
            share = Share(host=number, hosts=len(self.hosts))
            files = dict(zip(authorities, map(Path, told["files"]), strict=True))
            lines[host] = sealed(_own(plan, share, host, files), self._read(PublicKey, host, told))
        patience = READY_SECONDS + sum(arm.service.proving_seconds for arm in plan.arms)
        told = self._of_all(lambda host: host.actor.ask.remote(lines[host], patience), patience + CALL_SECONDS)
        return merged_ready({host.name: self._read(Ready, host, each, "ready") for host, each in told.items()})

    def _start(self, host: Host, authorities: list[Any]) -> Any:
        if self._commands:
            return host.actor.start_runner.remote()
        return host.actor.start.remote(self._shipped, self.sha256, *authorities)

    def slice(
        self, number: int, arm: str, workload: str, operations: int, seconds: float, reconnect: bool = False
    ) -> SliceAnswer:
        """Measure one slice, of which each host does its share. All windows open at one instant, but those of number 0,
        which are in no figure. Raises `HOST_LOST`."""
        order = SliceOrder(
            id=number, arm=arm, workload=workload, operations=operations, seconds=seconds, reconnect=reconnect or None
        )
        opens = dict.fromkeys(self.hosts) if number == 0 else self._opening(order)
        self._patience = seconds + self._settings(arm).longest_seconds(workload) + PATIENCE_SECONDS
        told = self._ask(
            {host: {"slice": order.model_copy(update={"opens_ns": opens[host]})} for host in opens}, self._patience
        )
        return self._merged(told, opens)

    def without(self, lost: Host) -> bool:
        """Whether the others go on, with the plan divided among them anew. Raises `HOST_LOST` for one more."""
        with suppress(Exception):
            lost.end()
        self.hosts.remove(lost)
        if self._asked.least is None or len(self.hosts) < self._asked.least or self._plan is None:
            return False
        self.plan(self._plan)
        return True

    def _opening(self, order: SliceOrder) -> dict[Host, int | None]:
        """Have every host get ready; the instant of its own clock at which its window opens."""
        prepare = PrepareOrder(id=order.id, arm=order.arm, workload=order.workload, reconnect=order.reconnect)
        patience = READY_SECONDS + self._settings(order.arm).proving_seconds
        for host, told in self._ask({host: {"prepare": prepare} for host in self.hosts}, patience).items():
            self._read(Prepared, host, told, "prepared")
        slowest = read_clocks(self._ray, self.hosts)
        opens = time.monotonic_ns() + max(SOONEST_NS, CALLS_AHEAD * slowest)
        return {host: opens + host.clock.offset_ns for host in self.hosts}

    def _settings(self, arm: str) -> ServiceSettings:
        assert self._plan is not None
        return next(each.service for each in self._plan.arms if each.name == arm)

    def _ask(self, orders: dict[Host, dict[str, Model]], seconds: float) -> dict[Host, Any]:
        """The instrument answers in this time, or the host says that it does not; one that says nothing at all is given
        a moment more."""
        return self._of_all(lambda host: host.actor.ask.remote(line(orders[host]), seconds), seconds + PATIENCE_SECONDS)

    def _of_all(self, call: Any, seconds: float) -> dict[Host, Any]:
        return answers(self._ray, {host: call(host) for host in self.hosts}, seconds)

    def _merged(self, told: dict[Host, Any], opens: dict[Host, int | None]) -> PopulationAnswer:
        parts = {host: self._read(SliceAnswer, host, each, "slice") for host, each in told.items()}
        hosts = []
        for host, answer in parts.items():
            available = max(1, answer.elapsed_ns) / 1e9 * int(host.facts["cores"])
            shares = {name: min(1.0, told[host][name] / available) for name in ("busy", "steal")}
            opened = opens[host]
            if opened is not None:
                clock = host.clock.offset_ns, host.clock.error_ns
                hosts.append(part_of(host.name, answer, clock, opened, shares))
        whole = merged_answer([*parts.values()])
        if wrong := unproved({host.name: answer for host, answer in parts.items()}):
            whole["evidence"][MISMATCH] = wrong
        if at_work := [part for part in hosts if part.took_part]:
            first = min(part.late_ns for part in at_work)
            whole["elapsed_ns"] = max(1, max(part.ended_ns for part in at_work) - first)
        own = sum(whole["cpu_ns"].values()) / 1e9
        return PopulationAnswer(
            **whole,
            hosts=hosts,
            foreign_cpu_seconds=max(0.0, sum(each["busy"] for each in told.values()) - own),
            steal_seconds=sum(each["steal"] for each in told.values()),
            unlike=unlike([*parts.values()]),
        )

    def _read(self, model: type[T], host: Host, told: dict[str, Any], name: str | None = None) -> T:
        """What a host's instrument said, which is a line of JSON. Raises `HOST_LOST` where it is an error."""
        try:
            said = json.loads(told["line"])
            if "error" in said:
                raise HostLostError(host, f"{said['error'].get('class')}: {said['error'].get('detail')}")
            return model.model_validate(said if name is None else said.get(name))
        except (ValueError, ValidationError) as error:
            detail = f"its answer is not of the agreed form: {' '.join(str(error).split())[:300]}"
            raise HostLostError(host, detail) from None


def check_costof(versions: Mapping[str, str]) -> None:
    """Of hosts that are to run commands, by name; '' where there is none. Raises `HOST_REFUSED` for all but our own."""
    others = {host: version for host, version in versions.items() if version != __version__}
    if others:
        found = dict.fromkeys(f"costof {version}" if version else "no costof" for version in others.values())
        mend = f"there, pip install 'costof[ray]=={__version__}'"
        detail = f"commands are run by the costof of each host, and it has {listed(list(found))}; {mend}"
        raise CostofError(Problem.HOST_REFUSED, host=listed(list(others)), detail=detail)


def _own(plan: Plan, share: Share, host: Host, files: dict[Path, Path]) -> Plan:
    """The plan as one host has it."""
    arms = [
        arm.model_copy(update={"transport": arm.transport.trusting(files.get(arm.transport.ca_file or Path()))})
        for arm in plan.arms
    ]
    return plan.model_copy(update={"share": share, "threads": host.node.cpus, "arms": arms})


def workers_of(workers: int, hosts: int) -> Iterable[int]:
    """How many workers of a workload each host has."""
    return (len(range(host, workers, hosts)) for host in range(hosts))
