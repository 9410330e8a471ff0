"""The user's Ray cluster: reached, found to be closed to others, and its hosts, with what they answer in time."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costof.errors import CostofError, ErrorText
from costof.format import plural
from costof.instruments.hosts import actor
from costof.messages.answers import ClusterNode
from costof.messages.plan import HostsSettings
from costof.messages.process import HostLostError

CLIENT_SCHEME = "ray://"
AUTH_MODE, TOKEN = "RAY_AUTH_MODE", "token"
#: What Ray says and does beside its work: nothing is reported home, and its notices are not this command's.
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "GRPC_VERBOSITY": "NONE",
}
#: Questions that a cluster answers to anybody where it is open, and to nobody without the token where it is not.
QUESTION_OF_CLUSTER, QUESTION_OF_CLIENTS = "/ray.rpc.NodeInfoGcsService/CheckAlive", "/ray.rpc.RayletDriver/ClusterInfo"
PROBE_SECONDS = 20.0
#: Ray's proxy forks a server for each client, which what gRPC does in a fork may end at once (ray#63202). The next one
#: mostly lives.
ATTEMPTS, NOT_BEGUN = 3, "Initialization failure from server"
#: Of which the fastest tells a clock: the others waited for something.
CALLS = 16
#: A call that takes longer says that the host is gone, whatever Ray thinks of it.
CALL_SECONDS = 20.0
#: From the cluster's promise of a process to its first answer: Python and Ray start there.
START_SECONDS = 300.0


class Node(ClusterNode):
    node_id: str
    labels: dict[str, str]


@dataclass(frozen=True)
class Cluster:
    """`encrypted`: what travels between its nodes."""

    ray: Any
    nodes: list[Node]
    encrypted: bool


@contextmanager
def reached(settings: HostsSettings) -> Iterator[Cluster]:
    """The cluster with its nodes that are asked for and have CPUs.

    Raises `NEEDS_RAY`, `HOSTS_UNREACHABLE`, `HOSTS_TOKEN`, `HOSTS_VERSION`, `HOSTS_OPEN`, `HOSTS_NONE` and
    `HOSTS_FEW`.
    """
    os.environ.update({name: value for name, value in QUIET.items() if name not in os.environ})
    if not settings.unauthenticated:
        # An explicit address does not switch it on by itself.
        os.environ.setdefault(AUTH_MODE, TOKEN)
    try:
        import grpc  # noqa: F401
        import ray
    except ImportError:
        raise CostofError(ErrorText.NEEDS_RAY) from None
    if _is_client(settings):
        # Ray itself would wait half a minute for nobody.
        _check_closed(settings, settings.address.removeprefix(CLIENT_SCHEME))
    try:
        _connect(ray, settings)
        if not _is_client(settings):
            _check_closed(settings, ray.get_runtime_context().gcs_address)
        yield Cluster(ray, _nodes(ray, settings), _encrypted())
    finally:
        with suppress(Exception):
            ray.shutdown()


def _connect(ray: Any, settings: HostsSettings) -> None:
    try:
        _begin(ray, settings)
    except ray.exceptions.AuthenticationError as error:
        has_none = "no authentication token" in str(error)
        detail = "this machine has no token" if has_none else _first_line(error)
        raise CostofError(ErrorText.HOSTS_TOKEN, address=settings.address, detail=detail) from None
    except RuntimeError as error:
        if "ersion mismatch" in str(error):
            raise CostofError(ErrorText.HOSTS_VERSION, address=settings.address, detail=_versions(str(error))) from None
        raise CostofError(ErrorText.HOSTS_UNREACHABLE, address=settings.address, detail=_first_line(error)) from None
    except (ValueError, OSError) as error:
        # Ray says in its own log alone that a token is refused.
        where = re.search(r" at (\S+:\d+)", str(error))
        place = settings.address.removeprefix(CLIENT_SCHEME) if _is_client(settings) else where and where.group(1)
        if place and _answers(settings, place, has_token=True) is False:
            detail = "it does not take the token that this machine has"
            raise CostofError(ErrorText.HOSTS_TOKEN, address=settings.address, detail=detail) from None
        raise CostofError(ErrorText.HOSTS_UNREACHABLE, address=settings.address, detail=_first_line(error)) from None


def _begin(ray: Any, settings: HostsSettings) -> None:
    """Raises whatever Ray does."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            ray.init(address=settings.address, log_to_driver=False, logging_level="CRITICAL")
        except ConnectionAbortedError as error:
            if attempt == ATTEMPTS or NOT_BEGUN not in str(error):
                raise
            ray.shutdown()
        else:
            return


def _check_closed(settings: HostsSettings, place: str) -> None:
    """Raises `HOSTS_UNREACHABLE`, and `HOSTS_OPEN` where whoever reaches the cluster may run code on its hosts."""
    answers = _answers(settings, place, has_token=False)
    if answers is None:
        raise CostofError(ErrorText.HOSTS_UNREACHABLE, address=settings.address, detail="nobody listens there")
    if answers and not settings.unauthenticated:
        raise CostofError(ErrorText.HOSTS_OPEN, address=settings.address)


def _is_client(settings: HostsSettings) -> bool:
    return settings.address.startswith(CLIENT_SCHEME)


def _answers(settings: HostsSettings, place: str, has_token: bool) -> bool | None:
    """Whether a question is answered there, with this machine's token or without; None where nobody is there."""
    import grpc
    from ray._private.grpc_utils import init_grpc_channel

    question = QUESTION_OF_CLIENTS if _is_client(settings) else QUESTION_OF_CLUSTER
    with init_grpc_channel(place) if has_token else _channel(grpc, place) as channel:
        try:
            channel.unary_unary(question)(b"", timeout=PROBE_SECONDS)
        except grpc.RpcError as error:
            refused = error.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
            absent = error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
            return None if absent else not refused
    return True


def _channel(grpc: Any, place: str) -> Any:
    if not _encrypted():
        return grpc.insecure_channel(place)
    names = ("RAY_TLS_CA_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_SERVER_CERT")
    files = [Path(os.environ[name]).read_bytes() for name in names]
    return grpc.secure_channel(place, grpc.ssl_channel_credentials(*files))


def _encrypted() -> bool:
    return os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")


def _nodes(ray: Any, settings: HostsSettings) -> list[Node]:
    """In the order of their names, so that a host is the same share of the population in each run."""
    alive = [each for each in ray.nodes() if each["Alive"]]
    names = Counter(name for each in alive for name in _names(each))
    nodes = [
        Node(
            node_id=each["NodeID"],
            name=next(name for name in _names(each) if names[name] == 1),
            cpus=int(each["Resources"].get("CPU", 0)),
            labels=each.get("Labels", {}),
        )
        for each in alive
    ]
    wanted = settings.where
    found = [each for each in nodes if each.cpus and all(each.labels.get(key) == value for key, value in wanted)]
    if not found:
        labels = ", ".join(f"{key}={value}" for key, value in settings.where)
        detail = f" with {labels}" if labels else " that has CPUs"
        raise CostofError(
            ErrorText.HOSTS_NONE, address=settings.address, nodes=plural(len(nodes), "node"), detail=detail
        )
    if settings.least is not None and len(found) < settings.least:
        raise CostofError(
            ErrorText.HOSTS_FEW, address=settings.address, found=plural(len(found), "host"), least=settings.least
        )
    return sorted(found, key=lambda node: (node.name, node.node_id))


def _names(told: dict[str, Any]) -> list[str]:
    """What a node may be called, the shortest first; its port is its own on its machine."""
    name, address = told["NodeManagerHostname"], told["NodeManagerAddress"]
    return [name, f"{name} ({address})", f"{name} ({address}:{told['NodeManagerPort']})"]


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".")[:200] if lines else type(error).__name__


def _versions(text: str) -> str:
    """'the cluster has Ray 2.60.0 and Python 3.12.1, this command Ray 2.60.0 and Python 3.11.2', where Ray tells."""
    ray = re.findall(r"Ray: (\S+)", text)
    python = re.findall(r"Python: (\S+)", text)
    if len(ray) < 2 or len(python) < 2:
        return " ".join(text.split())[:200]
    return f"the cluster has Ray {ray[0]} and Python {python[0]}, this command Ray {ray[1]} and Python {python[1]}"


@dataclass(frozen=True)
class Clock:
    """A host's `CLOCK_MONOTONIC` less ours, in nanoseconds, and how far off that may be."""

    offset_ns: int = 0
    error_ns: int = 0


class Host:
    """A node of the cluster with all of its CPUs, as long as its actor lives."""

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
    for host, call in calls.items():
        # A call that `ray.wait` saw the end of is only fetched.
        if not ray.wait([call], timeout=0)[0]:
            raise HostLostError(host.name, "it is silent")
    return {host: _fetched(ray, host, call, deadline - time.monotonic()) for host, call in calls.items()}


def _fetched(ray: Any, host: Host, call: Any, seconds: float) -> Any:
    try:
        told = ray.get(call, timeout=max(0.0, seconds))
    except ray.exceptions.GetTimeoutError:
        raise HostLostError(host.name, "it is silent") from None
    except (ray.exceptions.RayError, ConnectionError) as error:
        # Ray's reasons are paragraphs.
        text = str(error)
        if "its node has died" in text or "unschedulable" in text:
            detail = "its machine, or Ray on it, is gone"
        else:
            detail = "its process was ended" if "died" in text or "dead" in text else "Ray does not reach it"
        raise HostLostError(host.name, detail) from None
    if isinstance(told, dict) and "failed" in told:
        raise HostLostError(host.name, told["failed"])
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
