"""The user's Ray cluster: reached, found to be closed to others, and its nodes that are asked for.

Ray is imported here and nowhere else, and only when hosts are asked for: it takes seconds.
"""

from __future__ import annotations

import os
import re
import signal
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costof.errors import CostofError, Problem
from costof.format import plural
from costof.instruments.hosts.asked import CLIENT_SCHEME, HostsAsked

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


@dataclass(frozen=True)
class Node:
    """A host of the cluster. `name` is its own, with its address where two are called alike."""

    node_id: str
    name: str
    cpus: int
    labels: dict[str, str]


@dataclass(frozen=True)
class Cluster:
    """`encrypted`: what travels between its nodes."""

    ray: Any
    nodes: list[Node]
    encrypted: bool


@contextmanager
def reached(asked: HostsAsked) -> Iterator[Cluster]:
    """The cluster with its nodes that are asked for, which have CPUs.

    Raises `NEEDS_RAY`, `HOSTS_UNREACHABLE`, `HOSTS_TOKEN`, `HOSTS_VERSION`, `HOSTS_OPEN`, `HOSTS_NONE` and
    `HOSTS_FEW`.
    """
    os.environ.update({name: value for name, value in QUIET.items() if name not in os.environ})
    if not asked.unauthenticated:
        # An explicit address does not switch it on by itself.
        os.environ.setdefault(AUTH_MODE, TOKEN)
    ray = _imported()
    ended = signal.getsignal(signal.SIGTERM)
    if _is_client(asked):
        # Ray itself would wait half a minute for nobody.
        _check_closed(asked, asked.address.removeprefix(CLIENT_SCHEME))
    try:
        _connect(ray, asked)
        signal.signal(signal.SIGTERM, ended)
        if not _is_client(asked):
            _check_closed(asked, ray.get_runtime_context().gcs_address)
        yield Cluster(ray, _nodes(ray, asked), _encrypted())
    finally:
        with suppress(Exception):
            ray.shutdown()
        signal.signal(signal.SIGTERM, ended)


def _imported() -> Any:
    try:
        import grpc  # noqa: F401
        import ray
    except ImportError:
        raise CostofError(Problem.NEEDS_RAY) from None
    return ray


def _connect(ray: Any, asked: HostsAsked) -> None:
    try:
        with warnings.catch_warnings(), _nothing_on_standard_error():
            warnings.simplefilter("ignore")
            # It prints the cluster's news, such as a node's end, to standard output whatever its log level is.
            ray._private.worker.print_to_stdstream = _no_news
            _begin(ray, asked)
    except ray.exceptions.AuthenticationError as error:
        has_none = "no authentication token" in str(error)
        detail = "this machine has no token" if has_none else _first_line(error)
        raise CostofError(Problem.HOSTS_TOKEN, address=asked.address, detail=detail) from None
    except RuntimeError as error:
        if "ersion mismatch" in str(error):
            raise CostofError(Problem.HOSTS_VERSION, address=asked.address, detail=_versions(str(error))) from None
        raise CostofError(Problem.HOSTS_UNREACHABLE, address=asked.address, detail=_first_line(error)) from None
    except (ValueError, OSError) as error:
        # Ray says in its own log alone that a token is refused.
        where = re.search(r" at (\S+:\d+)", str(error))
        place = asked.address.removeprefix(CLIENT_SCHEME) if _is_client(asked) else where and where.group(1)
        if place and _answers(asked, place, has_token=True) is False:
            detail = "it does not take the token that this machine has"
            raise CostofError(Problem.HOSTS_TOKEN, address=asked.address, detail=detail) from None
        raise CostofError(Problem.HOSTS_UNREACHABLE, address=asked.address, detail=_first_line(error)) from None


def _begin(ray: Any, asked: HostsAsked) -> None:
    """Raises whatever Ray does."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            ray.init(address=asked.address, log_to_driver=False, logging_level="CRITICAL")
        except ConnectionAbortedError as error:
            if attempt == ATTEMPTS or NOT_BEGUN not in str(error):
                raise
            ray.shutdown()
        else:
            return


def _no_news(*_: Any, **__: Any) -> None:
    """In place of Ray's."""


@contextmanager
def _nothing_on_standard_error() -> Iterator[None]:
    """What Ray's C++ writes there before it has read its settings."""
    kept = os.dup(2)
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _check_closed(asked: HostsAsked, place: str) -> None:
    """Raises `HOSTS_UNREACHABLE`, and `HOSTS_OPEN` where whoever reaches the cluster may run code on its hosts."""
    answers = _answers(asked, place, has_token=False)
    if answers is None:
        raise CostofError(Problem.HOSTS_UNREACHABLE, address=asked.address, detail="nobody listens there")
    if answers and not asked.unauthenticated:
        raise CostofError(Problem.HOSTS_OPEN, address=asked.address)


def _is_client(asked: HostsAsked) -> bool:
    return asked.address.startswith(CLIENT_SCHEME)


def _answers(asked: HostsAsked, place: str, has_token: bool) -> bool | None:
    """Whether a question is answered there, with this machine's token or without; None where nobody is there."""
    import grpc
    from ray._private.grpc_utils import init_grpc_channel

    question = QUESTION_OF_CLIENTS if _is_client(asked) else QUESTION_OF_CLUSTER
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


def _nodes(ray: Any, asked: HostsAsked) -> list[Node]:
    """In the order of their names, so that a host is the same share of the population in each run."""
    alive = [each for each in ray.nodes() if each["Alive"]]
    names = Counter(name for each in alive for name in _names(each))
    nodes = [_node(each, next(name for name in _names(each) if names[name] == 1)) for each in alive]
    found = [each for each in nodes if each.cpus and all(each.labels.get(key) == value for key, value in asked.where)]
    if not found:
        labels = ", ".join(f"{key}={value}" for key, value in asked.where)
        detail = f" with {labels}" if labels else " that has CPUs"
        raise CostofError(Problem.HOSTS_NONE, address=asked.address, nodes=plural(len(nodes), "node"), detail=detail)
    if asked.least is not None and len(found) < asked.least:
        raise CostofError(Problem.HOSTS_FEW, address=asked.address, found=plural(len(found), "host"), least=asked.least)
    return sorted(found, key=lambda node: (node.name, node.node_id))


def _names(told: dict[str, Any]) -> list[str]:
    """What a node may be called, the shortest first; its port is its own on its machine."""
    name, address = told["NodeManagerHostname"], told["NodeManagerAddress"]
    return [name, f"{name} ({address})", f"{name} ({address}:{told['NodeManagerPort']})"]


def _node(told: dict[str, Any], name: str) -> Node:
    return Node(
        node_id=told["NodeID"],
        name=name,
        cpus=int(told["Resources"].get("CPU", 0)),
        labels=told.get("Labels", {}),
    )


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
