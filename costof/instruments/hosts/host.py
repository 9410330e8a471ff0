"""A host as this process has it: its actor, what it answers in time, and its clock against ours."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from costof.errors import CostofError, Problem
from costof.instruments.hosts import actor
from costof.instruments.hosts.cluster import Node

#: Of which the fastest tells a clock: the others waited for something.
CALLS = 16
#: A call that takes longer says that the host is gone, whatever Ray thinks of it.
CALL_SECONDS = 20.0
#: From the cluster's promise of a process to its first answer: Python and Ray start there.
START_SECONDS = 300.0


class HostLostError(CostofError):
    """A host that can no longer measure."""

    def __init__(self, host: Host, detail: str) -> None:
        super().__init__(Problem.HOST_LOST, host=host.name, detail=detail)
        self.host = host
        self.detail = detail


@dataclass(frozen=True)
class Clock:
    """A host's `CLOCK_MONOTONIC` less ours, in nanoseconds, and how far off that may be."""

    offset_ns: int = 0
    error_ns: int = 0


class Host:
    """One node of the cluster with all of its CPUs, as long as its actor lives."""

    def __init__(self, ray: Any, node: Node) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # By value: nothing of costof is installed there.
        ray.cloudpickle.register_pickle_by_value(actor)
        self._ray = ray
        self.node = node
        self.name = node.name
        self.facts: dict[str, Any] = {}
        self.clock = Clock()
        there = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
        self.actor = (
            ray.remote(actor.HostActor).options(num_cpus=node.cpus, max_restarts=0, scheduling_strategy=there).remote()
        )

    def end(self) -> None:
        """With its engine, whose standard input closes."""
        self._ray.kill(self.actor)


def answers(ray: Any, calls: Mapping[Host, Any], seconds: float) -> dict[Host, Any]:
    """What each host answers, once all have. Our patience holds, not Ray's. Raises `HostLostError`."""
    ray.wait([*calls.values()], num_returns=len(calls), timeout=seconds)
    deadline = time.monotonic() + CALL_SECONDS
    return {host: _answer(ray, host, call, deadline - time.monotonic()) for host, call in calls.items()}


def _answer(ray: Any, host: Host, call: Any, seconds: float) -> Any:
    """A call that `ray.wait` saw the end of is only fetched."""
    ready, _ = ray.wait([call], timeout=0)
    if not ready:
        raise HostLostError(host, "it is silent")
    return _fetched(ray, host, call, seconds)


def _fetched(ray: Any, host: Host, call: Any, seconds: float) -> Any:
    try:
        told = ray.get(call, timeout=max(0.0, seconds))
    except ray.exceptions.GetTimeoutError:
        raise HostLostError(host, "it is silent") from None
    except (ray.exceptions.RayError, ConnectionError) as error:
        raise HostLostError(host, _why(error)) from None
    if isinstance(told, dict) and "failed" in told:
        raise HostLostError(host, told["failed"])
    return told


def read_clocks(ray: Any, hosts: Sequence[Host]) -> int:
    """Each host's clock by the fastest of its calls, whose half is the error; the slowest call of all, nanoseconds.

    All hosts are asked at once, and in turns one is asked last and heard first: what it takes is its own.
    """
    slowest, fastest = 0, dict.fromkeys(hosts, 1 << 62)
    for turn in range(CALLS):
        order = [*hosts[turn % len(hosts) :], *hosts[: turn % len(hosts)]]
        calls = {}
        for host in reversed(order):
            asked = time.monotonic_ns()
            calls[host] = asked, host.actor.clock.remote()
        for host in order:
            asked, call = calls[host]
            there = _fetched(ray, host, call, CALL_SECONDS)
            took = time.monotonic_ns() - asked
            slowest = max(slowest, took)
            if took < fastest[host]:
                fastest[host] = took
                host.clock = Clock(there - asked - took // 2, took - took // 2)
    return slowest


def _why(error: Exception) -> str:
    """Ray's reasons are paragraphs."""
    text = str(error)
    if "its node has died" in text or "unschedulable" in text:
        return "its machine, or Ray on it, is gone"
    return "its process was ended" if "died" in text or "dead" in text else "Ray does not reach it"
