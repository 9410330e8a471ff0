"""A process that lets several hosts of a Ray cluster measure together, as if they were one load generator.

The hosts share the operations of each slice (measured window) and work at the same time. Their answers are merged into
one. The process is run as `python -m costof.instruments.hosts.population` and answers costof's messages (docs/ipc.md).
No other process of costof on this machine uses Ray.
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
from costof.instruments.drivers.driver import read_plan
from costof.instruments.hosts.cluster import (
    CALL_SECONDS,
    START_SECONDS,
    Cluster,
    Host,
    answers,
    connect_cluster,
    read_clocks,
)
from costof.instruments.hosts.merging import (
    evidence_mismatch,
    host_part,
    late,
    merged_answer,
    merged_mismatch,
    merged_ready,
    not_simultaneous_reason,
)
from costof.lab.supervisor import PR_SET_PDEATHSIG
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

#: Seconds to wait for a host's answer, in addition to the length of the slice (measured window) and the timeout of its
#: last operation.
PATIENCE_SECONDS = 15.0
#: The hosts get the order for a slice (measured window) ahead of time, so that all of them can begin at the same time.
#: The lead is `SOONEST_NS` or, if that is longer, `CALLS_AHEAD` times the duration of the slowest call to a host.
SOONEST_NS, CALLS_AHEAD = 50_000_000, 5


class AnySettings(ServiceSettings):
    """Connection settings for any kind of server, which this process passes on to the hosts without reading them."""

    model_config = ConfigDict(extra="allow")


class Population:
    """The hosts of a cluster that measure together.

    Each host runs costof's load generator, the engine, which is sent to the host. With `commands`, each host runs the
    command runner instead, which is a part of costof and must be installed there. `end` ends all processes on the
    hosts.
    """

    def __init__(self, settings: HostsSettings, cluster: Cluster, commands: bool) -> None:
        self._settings = settings
        self._cluster = cluster
        self._ray = cluster.ray
        self._commands = commands
        self._engine = b"" if commands else engine_path().read_bytes()
        self._sha256 = hashlib.sha256(self._engine).hexdigest()
        self.hosts: list[Host] = []
        self._plan: tuple[Plan, Limits] | None = None
        #: Time limit of the last slice (measured window) in seconds. If a host fails during a slice, wait this long for
        #: the other hosts to finish it.
        self._patience = 0.0

    def start(self) -> None:
        """Start an actor (Ray's name for a remote process) on each host. Raises `HOST_REFUSED`."""
        self.hosts = [Host(self._ray, node) for node in self._cluster.nodes]
        self._shipped = self._ray.put(self._engine)
        started = {host: host.actor.facts.remote() for host in self.hosts}
        try:
            for host, facts in answers(self._ray, started, START_SECONDS).items():
                host.facts = facts
        except HostLostError as error:
            cpus = next(node.cpus for node in self._cluster.nodes if node.name == error.host)
            cause = f"it started no process with all its {cpus} CPUs within {START_SECONDS:.0f} s"
            detail = f"{error.detail}; {cause}: see ray status for what uses them"
            raise CostofError(ErrorText.HOST_REFUSED, host=error.host, detail=detail) from None
        if self._commands:
            check_costof({host.name: host.facts["costof"] for host in self.hosts})
            return
        for host in self.hosts:
            if host.facts["machine"] != os.uname().machine:
                detail = f"its architecture is {host.facts['machine']}, and this engine is for {os.uname().machine}"
                raise CostofError(ErrorText.HOST_REFUSED, host=host.name, detail=detail)

    def end(self) -> None:
        for host in self.hosts:
            with suppress(Exception):
                host.end()

    def describe(self) -> dict[str, Any]:
        """Return facts about the hosts for the results' environment. `cores` is the sum over all hosts."""
        names = ("CPU", "cores", "kernel", "python", "open files", "ports")
        sent = {"costof on hosts": __version__} if self._commands else {"engine on hosts": f"SHA-256 {self._sha256}"}
        return {
            "cores": sum(int(host.facts["cores"]) for host in self.hosts),
            "hosts": {
                host.name: {"CPUs given": host.node.cpus, **{name: host.facts[name] for name in names}}
                for host in self.hosts
            },
            **sent,
        }

    def examine(self) -> dict[str, str]:
        """Start the engine (the load generator) on each host as a test. Return a description of each host, by name."""
        self.plan(Plan(arms=[], workloads=[]), Limits(verifying_seconds=0.0))
        read_clocks(self._ray, self.hosts)
        return {host.name: self._description(host) for host in self.hosts}

    def _description(self, host: Host) -> str:
        facts, clock = host.facts, host.clock.error_ns / 1e6
        return (
            f"runs the engine on {host.node.cpus} of {facts['cores']} cores ({facts['machine']}, Linux "
            f"{facts['kernel']}, Python {facts['python']}); {facts['open files']:,} open files, {facts['ports']:,} "
            f"ports; its clock is known to within {clock:.1f} ms; "
            f"{'costof ' + facts['costof'] if facts['costof'] else 'no costof, which your own commands need'}"
        )

    def warnings(self) -> list[str]:
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
        """Start the load generator or command runner on each host, and send it the plan with its share of the work.

        Return the hosts' merged answer. Raises `HostLostError`.
        """
        self._plan = plan, limits
        authorities = list(dict.fromkeys(arm.transport.ca_file for arm in plan.arms if arm.transport.ca_file))
        contents = [self._ray.put(path.read_bytes()) for path in authorities]

        def begin(host: Host) -> Any:
            if self._commands:
                return host.actor.start_runner.remote()
            return host.actor.start.remote(self._shipped, self._sha256, *contents)

        first_lines = self._call_all(begin, START_SECONDS + self._patience)
        lines = {}
        for number, (host, answer) in enumerate(first_lines.items()):
            files = dict(zip(authorities, map(Path, answer["files"]), strict=True))
            arms = [
                arm.model_copy(update={"transport": arm.transport.trusting(files.get(arm.transport.ca_file or Path()))})
                for arm in plan.arms
            ]
            share = Share(host=number, hosts=len(self.hosts))
            host_plan = plan.model_copy(update={"share": share, "threads": host.node.cpus, "arms": arms})
            lines[host] = sealed(host_plan, self._read(PublicKey, host, answer))
        patience = READY_SECONDS + limits.verifying_seconds
        replies = self._call_all(lambda host: host.actor.ask.remote(lines[host], patience), patience + CALL_SECONDS)
        return merged_ready({host.name: self._read(Ready, host, each, "ready") for host, each in replies.items()})

    def slice(self, order: SliceOrder, limits: Limits) -> PopulationAnswer:
        """Measure one slice (window) on all hosts, each with its share of the operations. Raises `HostLostError`."""
        opens = dict.fromkeys(self.hosts) if order.id == 0 else self._opening(order, limits)
        self._patience = order.seconds + limits.longest_seconds + PATIENCE_SECONDS
        orders = {host: {"slice": order.model_copy(update={"opens_ns": opens[host]})} for host in self.hosts}
        replies = self._ask(orders, self._patience)
        window = (0, inf) if limits.ends_itself else (order.operations, order.seconds)
        return self._merged(replies, opens, *window)

    def without(self, name: str) -> bool:
        """Remove a lost host. Divide the work among the remaining hosts, start them again, and return True.

        If too few hosts remain, only return False. Raises `HostLostError` if another host is lost.
        """
        lost = next(host for host in self.hosts if host.name == name)
        with suppress(Exception):
            lost.end()
        self.hosts.remove(lost)
        if self._settings.least is None or len(self.hosts) < self._settings.least or self._plan is None:
            return False
        self.plan(*self._plan)
        return True

    def _opening(self, order: SliceOrder, limits: Limits) -> dict[Host, int | None]:
        """Prepare every host for a slice (measured window). Return its beginning on each host's clock."""
        prepare = PrepareOrder(id=order.id, arm=order.arm, workload=order.workload, reconnect=order.reconnect)
        replies = self._ask(
            {host: {"prepare": prepare} for host in self.hosts}, READY_SECONDS + limits.verifying_seconds
        )
        for host, reply in replies.items():
            self._read(Prepared, host, reply, "prepared")
        slowest = read_clocks(self._ray, self.hosts)
        opens = time.monotonic_ns() + max(SOONEST_NS, CALLS_AHEAD * slowest)
        return {host: opens + host.clock.offset_ns for host in self.hosts}

    def _ask(self, orders: Mapping[Host, Mapping[str, Model]], seconds: float) -> dict[Host, Any]:
        """Send each host its order and return the replies. Raises `HostLostError`.

        A host is lost if its measuring process does not answer the actor within `seconds`, or if the actor does not
        answer within a further `PATIENCE_SECONDS`.
        """
        lines = {host: line(dict(order)) for host, order in orders.items()}
        return self._call_all(lambda host: host.actor.ask.remote(lines[host], seconds), seconds + PATIENCE_SECONDS)

    def _call_all(self, call: Any, seconds: float) -> dict[Host, Any]:
        return answers(self._ray, {host: call(host) for host in self.hosts}, seconds)

    def _merged(
        self, replies: dict[Host, Any], opens: dict[Host, int | None], operations: int, seconds: float
    ) -> PopulationAnswer:
        parts = {host: self._read(SliceAnswer, host, each, "slice") for host, each in replies.items()}
        hosts = []
        for host, answer in parts.items():
            available = max(1, answer.elapsed_ns) / 1e9 * int(host.facts["cores"])
            shares = {name: min(1.0, replies[host][name] / available) for name in ("busy", "steal")}
            opened = opens[host]
            if opened is not None:
                clock = host.clock.offset_ns, host.clock.error_ns
                hosts.append(host_part(host.name, answer, clock, opened, shares))
        whole = merged_answer([*parts.values()])
        if mismatch := merged_mismatch({host.name: answer for host, answer in parts.items()}):
            whole["evidence"][MISMATCH] = mismatch
        if at_work := [part for part in hosts if part.participated]:
            first = min(part.late_ns for part in at_work)
            whole["elapsed_ns"] = max(1, max(part.ended_ns for part in at_work) - first)
        instrument_seconds = sum(whole["cpu_ns"].values()) / 1e9
        return PopulationAnswer(
            **whole,
            hosts=hosts,
            foreign_cpu_seconds=max(0.0, sum(each["busy"] for each in replies.values()) - instrument_seconds),
            steal_seconds=sum(each["steal"] for each in replies.values()),
            evidence_mismatch=evidence_mismatch([*parts.values()]),
            late=late(hosts),
            not_simultaneous_reason=not_simultaneous_reason(hosts, operations, seconds),
        )

    def _read(self, model: type[T], host: Host, reply: dict[str, Any], name: str | None = None) -> T:
        """Parse a line of JSON from a host's measuring process as `model`. With `name`, parse only this field.

        Raises `HostLostError` if the line reports an error or is malformed.
        """
        try:
            message = json.loads(reply["line"])
            if "error" in message:
                raise HostLostError(host.name, f"{message['error'].get('class')}: {message['error'].get('detail')}")
            return model.model_validate(message if name is None else message.get(name))
        except (ValueError, ValidationError) as error:
            detail = f"its answer is malformed: {' '.join(str(error).split())[:300]}"
            raise HostLostError(host.name, detail) from None


def check_costof(versions: Mapping[str, str]) -> None:
    """Raise `HOST_REFUSED` if a host does not have the same version of costof as this machine.

    `versions` maps host names to versions; '' means that costof is not installed.
    """
    wrong = {host: version for host, version in versions.items() if version != __version__}
    if wrong:
        installed = dict.fromkeys(f"costof {version}" if version else "no costof" for version in wrong.values())
        advice = f"run there: pip install 'costof[ray]=={__version__}'"
        needed = f"commands need costof {__version__} on every host"
        detail = f"{needed}, and it has {listed(list(installed))}; {advice}"
        raise CostofError(ErrorText.HOST_REFUSED, host=listed(list(wrong)), detail=detail)


def serve(orders: Iterator[bytes], write: Callable[[dict[str, Any]], None]) -> None:
    """Answer costof's orders, which are lines of JSON, until there are no more. Each answer is passed to `write`."""
    with ExitStack() as stack:
        population: Population | None = None
        for order_line in orders:
            order = json.loads(order_line)
            try:
                if "cluster" in order:
                    settings = HostsSettings.model_validate(order["cluster"])
                    cluster = stack.enter_context(connect_cluster(settings))
                    nodes = [ClusterNode(name=node.name, cpus=node.cpus) for node in cluster.nodes]
                    answer = ClusterAnswer(nodes=nodes)
                    if order["instrument"] is not None:
                        population = Population(settings, cluster, order["instrument"] == "commands")
                        stack.callback(population.end)
                        population.start()
                        answer = ClusterAnswer(nodes=nodes, facts=population.describe(), warnings=population.warnings())
                    write({"cluster": answer})
                else:
                    assert population is not None
                    write(_answer(population, order))
            except HostLostError as error:
                write({"lost": {"host": error.host, "detail": error.detail}})
            except CostofError as error:
                write({"refused": str(error)})


def _answer(population: Population, order: dict[str, Any]) -> dict[str, Any]:
    if "slice" in order:
        limits = Limits.model_validate(order["limits"])
        return {"slice": population.slice(SliceOrder.model_validate(order["slice"]), limits)}
    if "plan" in order:
        limits = Limits.model_validate(order["limits"])
        return {"ready": population.plan(read_plan(order["plan"], AnySettings), limits)}
    if "without" in order:
        return {"goes_on": population.without(order["without"])}
    return {"examined": population.examine()}


def main() -> int:
    # Let the kernel kill this process when its parent ends. Ray then ends the actors on the hosts.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # Ray always writes to standard output and standard error, so redirect both to /dev/null. The answers to costof go
    # to a copy of the original standard output.
    output = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
        os.dup2(nowhere.fileno(), sys.stderr.fileno())

    def write(message: dict[str, Any]) -> None:
        content = {
            name: value.model_dump(mode="json", by_alias=True) if isinstance(value, Model) else value
            for name, value in message.items()
        }
        output.write(json.dumps(content) + "\n")
        output.flush()

    try:
        serve(iter(sys.stdin.buffer.readline, b""), write)
    except KeyboardInterrupt:
        # The user has interrupted costof, which no longer waits for an answer.
        return 0
    except Exception as error:
        # The text cannot contain secrets: the models' validation errors never quote the input.
        detail = " ".join(str(error).split())[:300]
        write({"error": {"class": type(error).__name__, "detail": detail}})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
