"""Functions that connect to the user's Ray cluster, check that it requires an access token, and call its hosts."""

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
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "GRPC_VERBOSITY": "NONE",
}
#: Two gRPC methods without side effects, to test whether access is protected. The first is for a cluster, the second
#: for Ray's proxy for remote clients. If a cluster or proxy answers such a request without a token, everybody may run
#: code on the cluster.
QUESTION_OF_CLUSTER, QUESTION_OF_CLIENTS = "/ray.rpc.NodeInfoGcsService/CheckAlive", "/ray.rpc.RayletDriver/ClusterInfo"
PROBE_SECONDS = 20.0
#: The maximum number of attempts to connect, and the error text after which to try again. Ray's proxy forks a server
#: for each client, and gRPC may crash in the fork (ray#63202).
ATTEMPTS, NOT_BEGUN = 3, "Initialization failure from server"
#: Number of calls to read a host's clock. Only the fastest call is used, because its reading has the smallest error.
CALLS = 16
#: Timeout of a call that needs no work on the host. A host that does not answer is lost, even if Ray lists it as alive.
CALL_SECONDS = 20.0
#: Timeout for the first answer of a new process on a host, which has to start Python and Ray.
START_SECONDS = 300.0


class Node(ClusterNode):
    node_id: str
    labels: dict[str, str]


@dataclass(frozen=True)
class Cluster:
    """A connected Ray cluster. `encrypted` says whether the traffic between its nodes is encrypted."""

    ray: Any
    nodes: list[Node]
    encrypted: bool


@contextmanager
def connect_cluster(settings: HostsSettings) -> Iterator[Cluster]:
    """Connect to the cluster for the duration of the `with` block. Yield it with the nodes that will measure.

    Raises `NEEDS_RAY`, `HOSTS_UNREACHABLE`, `HOSTS_TOKEN`, `HOSTS_VERSION`, `HOSTS_OPEN`, `HOSTS_NONE` and
    `HOSTS_FEW`.
    """
    os.environ.update({name: value for name, value in QUIET.items() if name not in os.environ})
    if not settings.unauthenticated:
        # Enable token authentication explicitly, because Ray does not do so if it is called with an address.
        os.environ.setdefault(AUTH_MODE, TOKEN)
    try:
        import grpc  # noqa: F401
        import ray
    except ImportError:
        raise CostofError(ErrorText.NEEDS_RAY) from None
    if _is_client(settings):
        # Check first whether something listens at the address. Ray would wait half a minute for it.
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
        # Ray reports a refused token only in its log, so probe the address.
        where = re.search(r" at (\S+:\d+)", str(error))
        place = settings.address.removeprefix(CLIENT_SCHEME) if _is_client(settings) else where and where.group(1)
        if place and _answers(settings, place, has_token=True) is False:
            detail = "it rejects this machine's token"
            raise CostofError(ErrorText.HOSTS_TOKEN, address=settings.address, detail=detail) from None
        raise CostofError(ErrorText.HOSTS_UNREACHABLE, address=settings.address, detail=_first_line(error)) from None


def _begin(ray: Any, settings: HostsSettings) -> None:
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
    """Raise `HOSTS_UNREACHABLE` if nothing listens at `place`, and `HOSTS_OPEN` if everybody may run code there.

    With the user's consent (`unauthenticated`) an open cluster is accepted.
    """
    answers = _answers(settings, place, has_token=False)
    if answers is None:
        raise CostofError(ErrorText.HOSTS_UNREACHABLE, address=settings.address, detail="nothing listens there")
    if answers and not settings.unauthenticated:
        raise CostofError(ErrorText.HOSTS_OPEN, address=settings.address)


def _is_client(settings: HostsSettings) -> bool:
    return settings.address.startswith(CLIENT_SCHEME)


def _answers(settings: HostsSettings, place: str, has_token: bool) -> bool | None:
    """Return whether the cluster answers a request or refuses it; None if nothing listens at `place` ('host:port').

    The request has this machine's token if `has_token` is true, and otherwise no token.
    """
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
    """Return the nodes that will measure, sorted by name, so that a host has the same share of the load in every run.

    Raises `HOSTS_NONE` and `HOSTS_FEW`.
    """
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
    required = settings.where
    hosts = [each for each in nodes if each.cpus and all(each.labels.get(key) == value for key, value in required)]
    if not hosts:
        labels = ", ".join(f"{key}={value}" for key, value in settings.where)
        raise CostofError(
            ErrorText.HOSTS_NONE,
            address=settings.address,
            nodes=plural(len(nodes), "node"),
            required=f"CPUs and {labels}" if labels else "CPUs",
        )
    if settings.least is not None and len(hosts) < settings.least:
        raise CostofError(
            ErrorText.HOSTS_FEW, address=settings.address, hosts=plural(len(hosts), "host"), least=settings.least
        )
    return sorted(hosts, key=lambda node: (node.name, node.node_id))


def _names(node: dict[str, Any]) -> list[str]:
    """Return possible names of a node, the shortest first. The last name, with address and port, is unique."""
    name, address = node["NodeManagerHostname"], node["NodeManagerAddress"]
    return [name, f"{name} ({address})", f"{name} ({address}:{node['NodeManagerPort']})"]


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".")[:200] if lines else type(error).__name__


def _versions(text: str) -> str:
    """Shorten Ray's message about different versions: 'the cluster has Ray 2.60.0 and …, this command Ray 2.61.0 …'."""
    ray = re.findall(r"Ray: (\S+)", text)
    python = re.findall(r"Python: (\S+)", text)
    if len(ray) < 2 or len(python) < 2:
        return " ".join(text.split())[:200]
    return f"the cluster has Ray {ray[0]} and Python {python[0]}, this command Ray {ray[1]} and Python {python[1]}"


@dataclass(frozen=True)
class Clock:
    """The difference between a host's clock and the clock of this machine.

    `offset_ns` is the host's `CLOCK_MONOTONIC` minus this machine's. `error_ns` is the maximum error of the offset.
    """

    offset_ns: int = 0
    error_ns: int = 0


class Host:
    """A node of the cluster that measures. Its Ray actor reserves all CPUs of the node."""

    def __init__(self, ray: Any, node: Node) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # Send the module's code, since costof may not be installed on the host.
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
        """End the actor. The standard input of the host's measuring process then closes, which ends that process."""
        self._ray.kill(self.actor)


def answers(ray: Any, calls: Mapping[Host, Any], seconds: float) -> dict[Host, Any]:
    """Return the hosts' answers to `calls`, waiting at most `seconds` for all of them.

    Raises `HostLostError` for a host that does not answer in time, or whose answer is an error.
    """
    ray.wait([*calls.values()], num_returns=len(calls), timeout=seconds)
    deadline = time.monotonic() + CALL_SECONDS
    for host, call in calls.items():
        if not ray.wait([call], timeout=0)[0]:
            raise HostLostError(host.name, "it does not answer")
    return {host: _fetched(ray, host, call, deadline - time.monotonic()) for host, call in calls.items()}


def _fetched(ray: Any, host: Host, call: Any, seconds: float) -> Any:
    try:
        answer = ray.get(call, timeout=max(0.0, seconds))
    except ray.exceptions.GetTimeoutError:
        raise HostLostError(host.name, "it does not answer") from None
    except (ray.exceptions.RayError, ConnectionError) as error:
        # Ray's own messages are paragraphs long, so show a short one.
        text = str(error)
        if "its node has died" in text or "unschedulable" in text:
            detail = "its machine, or Ray on it, is gone"
        else:
            detail = "its process was ended" if "died" in text or "dead" in text else "Ray does not reach it"
        raise HostLostError(host.name, detail) from None
    if isinstance(answer, dict) and "failed" in answer:
        raise HostLostError(host.name, answer["failed"])
    return answer


def read_clocks(ray: Any, hosts: Sequence[Host]) -> int:
    """Set each host's `Host.clock` by comparing its clock with this machine's.

    Return the duration of the slowest call in nanoseconds.

    All hosts are called at the same time, `CALLS` times. Only the fastest call to each host counts. The host reads its
    clock at some point during the call, so the error is at most half of the call's duration. The order of the hosts
    changes each time, because the host that is called last and whose answer is read first has the shortest call.
    """
    slowest, fastest = 0, dict.fromkeys(hosts, 1 << 62)
    for number in range(CALLS):
        order = [*hosts[number % len(hosts) :], *hosts[: number % len(hosts)]]
        calls = {}
        for host in reversed(order):
            started = time.monotonic_ns()
            calls[host] = started, host.actor.clock.remote()
        for host in order:
            started, call = calls[host]
            there = _fetched(ray, host, call, CALL_SECONDS)
            duration = time.monotonic_ns() - started
            slowest = max(slowest, duration)
            if duration < fastest[host]:
                fastest[host] = duration
                host.clock = Clock(there - started - duration // 2, duration - duration // 2)
    return slowest
