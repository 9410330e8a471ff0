"""The hosts of a run as one instrument: one plan of which each does its share, one window a slice, one answer.

A process of its own (`python -m costof.instruments.hosts.population`, docs/ipc.md), which alone imports Ray.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from math import inf
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, ValidationError

from costof import __version__
from costof.errors import CostofError, ErrorText, WarningText
from costof.format import listed
from costof.instruments.drivers.driver import PR_SET_PDEATHSIG, read_plan
from costof.instruments.hosts.cluster import CALL_SECONDS, START_SECONDS, Cluster, Host, answers, reached, read_clocks
from costof.instruments.hosts.merging import (
    evidence_mismatch,
    late,
    merged_answer,
    merged_ready,
    not_simultaneous_reason,
    part_of,
    unproved,
)
from costof.messages.answers import (
    MISMATCH,
    ClusterAnswer,
    ClusterNode,
    PopulationAnswer,
    Prepared,
    PublicKey,
    Ready,
    SliceAnswer,
)
from costof.messages.plan import HostsSettings, Limits, Plan, PrepareOrder, ServiceSettings, Share, SliceOrder, line
from costof.messages.process import READY_SECONDS, HostLostError, T, engine_path
from costof.messages.sealing import sealed
from costof.model import Model

#: Beyond a slice's own seconds and what may follow them.
PATIENCE_SECONDS = 15.0
#: Windows open so long after the last clock was read, at least, so that every host has its order by then.
SOONEST_NS, CALLS_AHEAD = 50_000_000, 5


class AnySettings(ServiceSettings):
    """Of any protocol: what they hold is only passed on."""

    model_config = ConfigDict(extra="allow")


class Population:
    """Hosts of a cluster: on each the engine, which is sent there, or the runner of `commands`, which is of the costof
    that is installed there. Its `end` ends every actor, and with it what it has started."""

    def __init__(self, settings: HostsSettings, cluster: Cluster, commands: bool) -> None:
        self._settings = settings
        self._cluster = cluster
        self._ray = cluster.ray
        self._commands = commands
        self._engine = b"" if commands else engine_path().read_bytes()
        self._sha256 = hashlib.sha256(self._engine).hexdigest()
        self.hosts: list[Host] = []
        self._plan: tuple[Plan, Limits] | None = None
        #: Of the slice before: what a host that is not heard of may still be at.
        self._patience = 0.0

    def take(self) -> None:
        """Start a process on each host. Raises `HOST_REFUSED`."""
        self.hosts = [Host(self._ray, node) for node in self._cluster.nodes]
        self._shipped = self._ray.put(self._engine)
        started = {host: host.actor.facts.remote() for host in self.hosts}
        try:
            for host, facts in answers(self._ray, started, START_SECONDS).items():
                host.facts = facts
        except HostLostError as error:
            cpus = next(node.cpus for node in self._cluster.nodes if node.name == error.host)
            cause = f"it gives this run no process with all its {cpus} CPUs within {START_SECONDS:.0f} s"
            detail = f"{error.detail}; {cause}: see ray status for what has taken them"
            raise CostofError(ErrorText.HOST_REFUSED, host=error.host, detail=detail) from None
        if self._commands:
            check_costof({host.name: host.facts["costof"] for host in self.hosts})
            return
        for host in self.hosts:
            if host.facts["machine"] != os.uname().machine:
                detail = f"it is a {host.facts['machine']}, and this engine is for {os.uname().machine}"
                raise CostofError(ErrorText.HOST_REFUSED, host=host.name, detail=detail)

    def end(self) -> None:
        for host in self.hosts:
            with suppress(Exception):
                host.end()

    def describe(self) -> dict[str, Any]:
        """For the environment of a result; its cores are those that load."""
        shown = ("CPU", "cores", "kernel", "python", "open files", "ports")
        sent = {"costof on hosts": __version__} if self._commands else {"engine on hosts": f"SHA-256 {self._sha256}"}
        return {
            "cores": sum(int(host.facts["cores"]) for host in self.hosts),
            "hosts": {
                host.name: {"CPUs given": host.node.cpus, **{name: host.facts[name] for name in shown}}
                for host in self.hosts
            },
            **sent,
        }

    def examined(self) -> dict[str, str]:
        """What each host has, in words, once it has run the engine."""
        self.plan(Plan(arms=[], workloads=[]), Limits(proving_seconds=0.0))
        read_clocks(self._ray, self.hosts)
        return {host.name: self._in_words(host) for host in self.hosts}

    def _in_words(self, host: Host) -> str:
        facts, clock = host.facts, host.clock.error_ns / 1e6
        return (
            f"runs the engine on {host.node.cpus} of {facts['cores']} cores ({facts['machine']}, Linux "
            f"{facts['kernel']}, Python {facts['python']}); {facts['open files']:,} open files, {facts['ports']:,} "
            f"ports; its clock is known to within {clock:.1f} ms; "
            f"{'costof ' + facts['costof'] if facts['costof'] else 'no costof, which commands of your own need'}"
        )

    def warnings(self) -> list[str]:
        """What a reader must know of these hosts."""
        machines: dict[str, list[str]] = {}
        for host in self.hosts:
            machines.setdefault(host.facts["boot id"], []).append(host.name)
        shared = [names for names in machines.values() if len(names) > 1]
        texts = [WarningText.HOSTS_ONE_MACHINE.text(hosts=" and ".join(names)) for names in shared]
        if self._settings.unauthenticated:
            texts.append(WarningText.HOSTS_OPEN.text())
        if not self._cluster.encrypted:
            texts.append(WarningText.HOSTS_IN_THE_CLEAR.text())
        return texts

    def plan(self, plan: Plan, limits: Limits) -> Ready:
        """Start an instrument on each host and hand it its share; what all say of every arm. Raises `HOST_LOST`."""
        self._plan = plan, limits
        authorities = list(dict.fromkeys(arm.transport.ca_file for arm in plan.arms if arm.transport.ca_file))
        contents = [self._ray.put(path.read_bytes()) for path in authorities]

        def begin(host: Host) -> Any:
            if self._commands:
                return host.actor.start_runner.remote()
            return host.actor.start.remote(self._shipped, self._sha256, *contents)

        begun = self._of_all(begin, START_SECONDS + self._patience)
        lines = {}
        for number, (host, told) in enumerate(begun.items()):
            files = dict(zip(authorities, map(Path, told["files"]), strict=True))
            arms = [
                arm.model_copy(update={"transport": arm.transport.trusting(files.get(arm.transport.ca_file or Path()))})
                for arm in plan.arms
            ]
            share = Share(host=number, hosts=len(self.hosts))
            own = plan.model_copy(update={"share": share, "threads": host.node.cpus, "arms": arms})
            lines[host] = sealed(own, self._read(PublicKey, host, told))
        patience = READY_SECONDS + limits.proving_seconds
        told = self._of_all(lambda host: host.actor.ask.remote(lines[host], patience), patience + CALL_SECONDS)
        return merged_ready({host.name: self._read(Ready, host, each, "ready") for host, each in told.items()})

    def slice(self, order: SliceOrder, limits: Limits) -> PopulationAnswer:
        """Measure one slice, of which each host does its share. Raises `HOST_LOST`."""
        opens = dict.fromkeys(self.hosts) if order.id == 0 else self._opening(order, limits)
        self._patience = order.seconds + limits.longest_seconds + PATIENCE_SECONDS
        orders = {host: {"slice": order.model_copy(update={"opens_ns": opens[host]})} for host in self.hosts}
        told = self._ask(orders, self._patience)
        window = (0, inf) if limits.ends_itself else (order.operations, order.seconds)
        return self._merged(told, opens, *window)

    def without(self, name: str) -> bool:
        """Whether the others go on, with the plan divided among them anew. Raises `HOST_LOST` for one more."""
        lost = next(host for host in self.hosts if host.name == name)
        with suppress(Exception):
            lost.end()
        self.hosts.remove(lost)
        if self._settings.least is None or len(self.hosts) < self._settings.least or self._plan is None:
            return False
        self.plan(*self._plan)
        return True

    def _opening(self, order: SliceOrder, limits: Limits) -> dict[Host, int | None]:
        """Have every host get ready; the instant of its own clock at which its window opens."""
        prepare = PrepareOrder(id=order.id, arm=order.arm, workload=order.workload, reconnect=order.reconnect)
        told = self._ask({host: {"prepare": prepare} for host in self.hosts}, READY_SECONDS + limits.proving_seconds)
        for host, each in told.items():
            self._read(Prepared, host, each, "prepared")
        slowest = read_clocks(self._ray, self.hosts)
        opens = time.monotonic_ns() + max(SOONEST_NS, CALLS_AHEAD * slowest)
        return {host: opens + host.clock.offset_ns for host in self.hosts}

    def _ask(self, orders: Mapping[Host, Mapping[str, Model]], seconds: float) -> dict[Host, Any]:
        """The instrument answers in this time, or the host says that it does not; one that says nothing at all is given
        a moment more."""
        lines = {host: line(dict(order)) for host, order in orders.items()}
        return self._of_all(lambda host: host.actor.ask.remote(lines[host], seconds), seconds + PATIENCE_SECONDS)

    def _of_all(self, call: Any, seconds: float) -> dict[Host, Any]:
        return answers(self._ray, {host: call(host) for host in self.hosts}, seconds)

    def _merged(
        self, told: dict[Host, Any], opens: dict[Host, int | None], operations: int, seconds: float
    ) -> PopulationAnswer:
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
        if at_work := [part for part in hosts if part.participated]:
            first = min(part.late_ns for part in at_work)
            whole["elapsed_ns"] = max(1, max(part.ended_ns for part in at_work) - first)
        own = sum(whole["cpu_ns"].values()) / 1e9
        return PopulationAnswer(
            **whole,
            hosts=hosts,
            foreign_cpu_seconds=max(0.0, sum(each["busy"] for each in told.values()) - own),
            steal_seconds=sum(each["steal"] for each in told.values()),
            evidence_mismatch=evidence_mismatch([*parts.values()]),
            late=late(hosts),
            not_simultaneous_reason=not_simultaneous_reason(hosts, operations, seconds),
        )

    def _read(self, model: type[T], host: Host, told: dict[str, Any], name: str | None = None) -> T:
        """What a host's instrument said, which is a line of JSON. Raises `HOST_LOST` where it is an error."""
        try:
            said = json.loads(told["line"])
            if "error" in said:
                raise HostLostError(host.name, f"{said['error'].get('class')}: {said['error'].get('detail')}")
            return model.model_validate(said if name is None else said.get(name))
        except (ValueError, ValidationError) as error:
            detail = f"its answer is not of the agreed form: {' '.join(str(error).split())[:300]}"
            raise HostLostError(host.name, detail) from None


def check_costof(versions: Mapping[str, str]) -> None:
    """Of hosts that are to run commands, by name; '' where there is none. Raises `HOST_REFUSED` for all but our own."""
    others = {host: version for host, version in versions.items() if version != __version__}
    if others:
        found = dict.fromkeys(f"costof {version}" if version else "no costof" for version in others.values())
        mend = f"there, pip install 'costof[ray]=={__version__}'"
        detail = f"commands are run by the costof of each host, and it has {listed(list(found))}; {mend}"
        raise CostofError(ErrorText.HOST_REFUSED, host=listed(list(others)), detail=detail)


def serve(orders: Iterator[bytes], say: Callable[[dict[str, Any]], None]) -> None:
    """Answer orders until there is none."""
    with ExitStack() as stack:
        population: Population | None = None
        for written in orders:
            order = json.loads(written)
            try:
                if "cluster" in order:
                    settings = HostsSettings.model_validate(order["cluster"])
                    cluster = stack.enter_context(reached(settings))
                    nodes = [ClusterNode(name=node.name, cpus=node.cpus) for node in cluster.nodes]
                    found = ClusterAnswer(nodes=nodes)
                    if order["instrument"] is not None:
                        population = Population(settings, cluster, order["instrument"] == "commands")
                        stack.callback(population.end)
                        population.take()
                        found = ClusterAnswer(nodes=nodes, facts=population.describe(), warnings=population.warnings())
                    say({"cluster": found})
                else:
                    assert population is not None
                    say(_answer(population, order))
            except HostLostError as error:
                say({"lost": {"host": error.host, "detail": error.detail}})
            except CostofError as error:
                say({"refused": str(error)})


def _answer(population: Population, order: dict[str, Any]) -> dict[str, Any]:
    if "slice" in order:
        limits = Limits.model_validate(order["limits"])
        return {"slice": population.slice(SliceOrder.model_validate(order["slice"]), limits)}
    if "plan" in order:
        limits = Limits.model_validate(order["limits"])
        return {"ready": population.plan(read_plan(order["plan"], AnySettings), limits)}
    if "without" in order:
        return {"goes_on": population.without(order["without"])}
    return {"examined": population.examined()}


def main() -> int:
    # Killed with its parent: Ray then ends what this has started on hosts.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # Ray writes its news to both streams, whatever it is told.
    spoken = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
        os.dup2(nowhere.fileno(), sys.stderr.fileno())

    def say(message: dict[str, Any]) -> None:
        written = {
            name: value.model_dump(mode="json", by_alias=True) if isinstance(value, Model) else value
            for name, value in message.items()
        }
        spoken.write(json.dumps(written) + "\n")
        spoken.flush()

    try:
        serve(iter(sys.stdin.buffer.readline, b""), say)
    except KeyboardInterrupt:
        # Nobody wants its answer any more.
        return 0
    except Exception as error:
        # No error of a model quotes what was read, which may hold a secret.
        detail = " ".join(str(error).split())[:300]
        say({"error": {"class": type(error).__name__, "detail": detail}})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
