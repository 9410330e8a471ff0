"""A Ray cluster for tests, whose nodes are simulated hosts on one machine.

Each node has network, PID, mount, UTS and time namespaces of its own, an address, a CPU share, and its own /tmp and
/dev/shm. A hub routes packets between the nodes and the server's host. Commands run on the head node. Everything ends
with the lab, even if the lab is killed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from costof.lab.certificates import write_private
from costof.lab.host import Host, Link
from costof.lab.lab import Lab, Process, descendants_of
from costof.lab.network import Network
from tests.support.programs import HANGS_SECONDS

RAY = str(Path(sys.executable).with_name("ray"))
PORT, CLIENTS_PORT = 6379, 10001
#: The minimum size of the object store with which Ray starts.
OBJECT_STORE_BYTES = 78_643_200
STARTING_CORES = 2.0
FAR_MS = 100.0
#: The folder for temporary files. Each node has its own.
TMP = Path("/tmp")
TOKEN = TMP / "token"
# Ray's default timeouts (30 s to start a raylet, 50 s for health checks) are too short on a busy machine. With
# PYTHONDONTWRITEBYTECODE, which container images often set, each process would compile Ray's sources again. Without
# GRPC_ENABLE_FORK_SUPPORT=0, gRPC may crash in the forks of Ray's client proxy (ray#63202).
ENVIRONMENT = {
    "GRPC_ENABLE_FORK_SUPPORT": "0",
    "RAY_raylet_start_wait_time_s": str(HANGS_SECONDS),
    "RAY_health_check_timeout_ms": str(HANGS_SECONDS * 1000),
    "PYTHONDONTWRITEBYTECODE": "",
    "HOME": str(TMP),
}

# The script runs as the node's PID 1, so its shell reaps orphans. The mounts are only in the node's mount namespace.
BECOME_A_NODE = """
hostname "$1"
mount --bind "$2" /tmp
mount -t tmpfs shm /dev/shm
shift 2
"$@"
"""


@dataclass
class Node:
    """A simulated host that runs Ray. `folder` is its /tmp, which this machine has even after the node was killed."""

    name: str
    host: Host
    link: Link
    folder: Path
    clock_ahead_seconds: int = 0
    process: Process | None = None

    @property
    def address(self) -> str:
        return self.link.address_of(self.host)

    @property
    def init(self) -> int | None:
        """Return the pid, on this machine, of the node's PID 1. Return None if the node has ended."""
        assert self.process is not None
        return next(iter(descendants_of(self.process.pid)), None)

    def processes(self) -> dict[int, list[str]]:
        found = {}
        for pid in descendants_of(self.init) if self.init else []:
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
                found[pid] = words
        return found

    def pids_of(self, word: str) -> list[int]:
        """Return the pids of processes on the node whose command line or name contains `word`."""
        return [pid for pid, words in self.processes().items() if any(word in each for each in (*words, _name(pid)))]

    def inside(self, *words: str) -> list[str]:
        return ["nsenter", "--target", str(self.init), "--net", "--pid", "--mount", "--uts", "--time", "--", *words]


@dataclass
class Cluster:
    """A Ray cluster: the nodes `head`, `load-1` and so on, and the link to `server`, a host without Ray."""

    lab: Lab
    network: Network
    hub: Host
    server: Link
    nodes: dict[str, Node] = field(default_factory=dict)
    token: str = field(default_factory=lambda: secrets.token_hex(32))

    @property
    def head(self) -> Node:
        return self.nodes["head"]

    @property
    def loads(self) -> list[Node]:
        return [node for node in self.nodes.values() if node is not self.head]

    @property
    def address(self) -> str:
        return f"{self.head.address}:{PORT}"

    def add(self, name: str, clock_ahead_seconds: int = 0) -> None:
        """Create the host and the network link of a node, without starting Ray on it."""
        host = self.network.host(name, cpu_share=STARTING_CORES)
        link = self.network.link(host, self.hub, name)
        self.network.configure(f"route {name}", [(host, f"route add default via {link.address_of(self.hub)}")])
        folder = self.lab.folder / name
        folder.mkdir()
        write_private(folder / TOKEN.name, self.token.encode())
        self.nodes[name] = Node(name, host, link, folder, clock_ahead_seconds)

    def start(self, name: str, *labels: str, cpus: int = 1) -> None:
        """Start Ray on a node, in the background. Ray schedules no actors on the head, which offers no CPUs."""
        node = self.nodes[name]
        joins = ["--head", f"--port={PORT}", "--num-cpus=0", "--include-dashboard=false"]
        if node is not self.head:
            joins = [f"--address={self.address}", f"--num-cpus={cpus}", f"--labels={','.join(labels)}"]
        ray = [RAY, "start", "--block", *joins, f"--node-ip-address={node.address}", "--include-log-monitor=false"]
        ray += [f"--object-store-memory={OBJECT_STORE_BYTES}", "--disable-usage-stats"]
        unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--uts", "--time"]
        unshare += ["--monotonic", str(node.clock_ahead_seconds)]
        become = ["sh", "-ec", BECOME_A_NODE, "sh", name, str(node.folder)]
        node.process = self.lab.spawn(name, name, [*unshare, *become, *ray], self.environment(), host=node.host)

    def wait_for(self, name: str) -> None:
        process = self.nodes[name].process
        assert process is not None
        started = b"Ray runtime started"
        self.lab.wait_until(name, lambda: started in process.log.read_bytes(), HANGS_SECONDS, only=process)

    def environment(self, token: Path = TOKEN) -> dict[str, str]:
        """Return the environment variables for Ray. They name the token's file, so process lists hide the token."""
        variables = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_USAGE_STATS_ENABLED": "0"}
        return {**ENVIRONMENT, **variables}

    def command(
        self, *words: str, node: Node | None = None, env: Mapping[str, str] | None = None, **how: Any
    ) -> subprocess.Popen[str]:
        """Start a program on a node, by default the head. Its environment is the cluster's, changed by `env`."""
        variables = {**os.environ, **self.environment(), **(env or {})}
        return subprocess.Popen((node or self.head).inside(*words), env=variables, text=True, **how)

    def kill(self, name: str) -> None:
        self.lab.stop(name)

    @contextlib.contextmanager
    def cut(self, name: str) -> Iterator[None]:
        """Disconnect a host's network without notice, as if its cable were pulled."""
        node = self.nodes[name]
        # The node keeps its routes, because only the hub's end of the link is set down.
        self._set(self.hub, node, "down")
        try:
            yield
        finally:
            self._set(self.hub, node, "up")

    @contextlib.contextmanager
    def far(self, name: str) -> Iterator[None]:
        """Add `FAR_MS` to the round trips of a host, even on open connections, until the end of the `with` block."""
        node, link = self.nodes[name], self.network.links["far"]
        inward, outward = link.address_of(self.hub), link.address_of(node.host)
        to_node = f"{node.address}/32 via {outward}"
        self.network.configure(
            "far", [(node.host, f"route replace default via {inward}"), (self.hub, f"route add {to_node}")]
        )
        try:
            yield
        finally:
            near = f"route replace default via {node.link.address_of(self.hub)}"
            self.network.configure("near", [(node.host, near), (self.hub, f"route del {to_node}")])

    def _set(self, host: Host, node: Node, state: str) -> None:
        self.network.configure(f"link {state}", [(host, f"link set {node.link.device} {state}")])


@contextlib.contextmanager
def a_cluster(
    lab: Lab, *, far: str | None = None, ahead: str | None = None, loads: int = 3, server_ms: float = 0.0
) -> Iterator[Cluster]:
    """Start a head node and `loads` other nodes, and a host for the server at a round trip of `server_ms`.

    `far` names the node whose round trips `Cluster.far` can lengthen. The monotonic clock of the node `ahead` is 10 s
    ahead. Each node but the head has the Ray labels `pool=load` and `host` with its name.
    """
    with Network(lab) as network:
        hub = network.host("hub")
        network.forward(hub)
        server = network.host("server")
        link = network.link(server, hub, "server", round_trip_ms=server_ms)
        network.start()
        network.configure("route server", [(server, f"route add default via {link.address_of(hub)}")])
        cluster = Cluster(lab, network, hub, link)
        names = ["head", *(f"load-{number}" for number in range(1, loads + 1))]
        for name in names:
            cluster.add(name, clock_ahead_seconds=10 if name == ahead else 0)
        if far:
            network.link(cluster.nodes[far].host, hub, "far", round_trip_ms=FAR_MS)
            network.start()
        cluster.start("head")
        cluster.wait_for("head")
        for name in names[1:]:
            cluster.start(name, "pool=load", f"host={name}")
        for name in names[1:]:
            cluster.wait_for(name)
        yield cluster


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""
