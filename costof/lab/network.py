"""The lab's network: hosts, and links between them with round-trip time, bandwidth and loss.

A host is a network namespace. Root can create it, or an ordinary user in a user namespace (`user_namespace.py`). Each
link has its own network, with one address at each end. A server that listens on all addresses of its host can therefore
be reached over several links at the same time, each with another round-trip time.

If namespaces cannot be created, a host is only a loopback address, and links have no delay, loss or limit.
"""

from __future__ import annotations

import math
import os
import re
import secrets
import shlex
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from costof.errors import CostofError, ErrorText
from costof.lab.cpu_share import CpuShare
from costof.lab.host import FOLDER, LINK_ROLE, Host, Link, entered
from costof.lab.lab import Lab, is_root
from costof.lab.links import (
    LinkCounters,
    LinkProcess,
    LinkReady,
    LinksPlan,
    engine_plan,
    link_addresses,
    netem_commands,
    queue_for,
    served_address,
    veth_commands,
)
from costof.lab.program import find_program
from costof.lab.user_namespace import can_make_hosts, can_share_cpu, why_forbidden

# Without namespaces, the first host's loopback address ends with this number. Servers use lower numbers.
FIRST_LOOPBACK = 101
LONGEST_ROUND_TRIP_MS = 10_000.0
TUN = Path("/dev/net/tun")

__all__ = ["Host", "Link", "Network"]


@dataclass
class Network:
    """The network of a lab, a context manager. After the last call of `link`, call `start`.

    Links are made with the kernel's netem. If the kernel lacks netem, or with `netem=False`, `start` starts the process
    `costof-engine link`, which simulates the links. Everything is removed with the lab.
    """

    lab: Lab
    seed: int = 0
    netem: bool | None = None
    hosts: dict[str, Host] = field(default_factory=dict)
    links: dict[str, Link] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._processes = ExitStack()
        self._waiting: list[Link] = []
        self._carriers: dict[str, LinkProcess] = {}
        self._served = 0
        self._run = secrets.token_hex(3)
        while list(FOLDER.glob(f"costof-{self._run}-*")):
            self._run = secrets.token_hex(3)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._processes.close()

    def host(self, name: str, cpu_share: float | None = None, cpu: int | None = None) -> Host:
        """Create a host. `cpu_share` is in cores; `cpu` is the only CPU that its programs run on.

        Raises `NEEDS_ROOT` for a CPU share without root, and `LAB_FAILED`.
        """
        _check_name(name, self.hosts)
        full_name = f"costof-{self._run}-{name}"
        if cpu_share and not can_share_cpu():
            raise CostofError(ErrorText.NEEDS_ROOT, what=f"a CPU share for {name}", detail="cgroups need root")
        if can_make_hosts():
            namespace = self._make_namespace(full_name)
            share = CpuShare.create(self.lab, full_name, cpu_share, cpu, len(self.hosts)) if cpu_share else None
            host = Host(name, namespace, cpu_share=share)
        else:
            host = Host(name, None, loopback=self.lab.address(FIRST_LOOPBACK + len(self.hosts)))
        self.hosts[name] = host
        return host

    def link(
        self,
        a: Host,
        b: Host,
        name: str,
        round_trip_ms: float = 0.0,
        bandwidth_mbit: float | None = None,
        loss: float = 0.0,
        queue_packets: int | None = None,
    ) -> Link:
        """Create a link between two hosts; by default an ordinary local link. Raises `NEEDS_ROOT`, `LAB_FAILED`."""
        _check_name(name, self.links)
        _check_shape(name, round_trip_ms, bandwidth_mbit, loss)
        queue = queue_packets or queue_for(round_trip_ms, bandwidth_mbit)
        plain = round_trip_ms == 0 and bandwidth_mbit is None and loss == 0
        if a.loopback and b.loopback:
            if not plain:
                why = why_forbidden() or "this process has not entered a user namespace"
                shape = f"a link with delay ({round_trip_ms:g} ms), bandwidth or loss"
                detail = f"{shape} needs network namespaces, which need root or a user namespace, and {why}"
                raise CostofError(ErrorText.NEEDS_ROOT, what=f"the link '{name}'", detail=detail)
            link = Link(name, a, b, a.loopback, b.loopback, kind="loopback", device="lo")
        else:
            number = len(self.links)
            a_address, b_address = link_addresses(self._run, number)
            kind = "veth" if plain else "netem" if self._has_netem(a) else "engine"
            if kind == "engine" and (lack := tun_lacks()) is not None:
                raise CostofError(ErrorText.LAB_FAILED, detail=f"the link '{name}': {lack}")
            device = f"link{number}"
            link = Link(name, a, b, a_address, b_address, kind, device, round_trip_ms, bandwidth_mbit, loss, queue)
            if kind == "engine":
                self._waiting.append(link)
            else:
                self._do(f"link {name}", veth_commands(_ip(), link))
            if kind == "netem":
                self._do(f"netem {name}", netem_commands(_ip(), str(find_program("tc", "iproute2")), link))
        self.links[name] = link
        return link

    def served_address(self, host: Host) -> str:
        """Add to a host an address that belongs to none of its links. Clients reach it only after `route`."""
        address = served_address(self._run, self._served)
        self._served += 1
        self._ip(f"address {address}", host, "address", "add", f"{address}/32", "dev", "lo")
        return address

    def route(self, host: Host, address: str, link: Link) -> None:
        """Route packets from `host` to `address` of the host at the link's other end. Call it after `start`."""
        other = link.b if host == link.a else link.a
        self._ip(f"route {host.name} {address}", host, "route", "add", f"{address}/32", "via", link.address_of(other))

    def forward(self, host: Host) -> None:
        self._do(f"forwarding {host.name}", [[*host.prefix, "sh", "-ec", "echo 1 >/proc/sys/net/ipv4/ip_forward"]])

    def configure(self, what: str, commands: Iterable[tuple[Host, str]]) -> None:
        """Run several ip(8) commands one after another, to change the routes of several hosts at about the same time.

        A command is a host and the arguments of ip: (host, "route add default via 10.1.0.2"). Raises `LAB_FAILED`, with
        `what` in the message.
        """
        self._do(what, [[*_entered(host), _ip(), *words.split()] for host, words in commands])

    def start(self) -> LinkReady | None:
        """Start a `costof-engine link` process for links without netem that were added since the last `start`.

        Return the process's answer; None if there are no such links. Raises `INSTRUMENT_FAILED`.
        """
        if not self._waiting:
            return None
        process = self._processes.enter_context(LinkProcess())
        ready = process.begin(LinksPlan(seed=self.seed, links=[engine_plan(link) for link in self._waiting]))
        self._carriers |= {link.name: process for link in self._waiting}
        self._waiting = []
        return ready

    def counters(self, link: Link) -> LinkCounters:
        return self._carriers[link.name].counters().links[link.name]

    def cpu_seconds(self) -> float:
        return sum(process.cpu_seconds() for process in self._link_processes())

    def cpu_by_role(self) -> dict[str, float]:
        return {LINK_ROLE: self.cpu_seconds()} if self._link_processes() else {}

    def process_ids(self) -> list[int]:
        return [process.pid for process in self._link_processes()]

    def lost(self) -> str | None:
        """Return a sentence about a link process that ended unexpectedly; None if all links work."""
        for process in self._link_processes():
            if process.ended() is not None:
                return f"the process that carries the lab's links ended (status {process.ended()})"
        return None

    def _link_processes(self) -> set[LinkProcess]:
        return set(self._carriers.values())

    def _make_namespace(self, name: str) -> Path:
        ip = _ip()
        if is_root():
            path, make, undo = FOLDER / name, [ip, "netns", "add", name], [ip, "netns", "del", name]
        else:
            # Only root can write to `FOLDER`, so use the lab's folder.
            path = self.lab.folder / name
            path.touch()
            make = [str(find_program("unshare", "util-linux")), f"--net={path}", "true"]
            undo = ["umount", "--lazy", str(path)]
        self.lab.undo(undo)
        self._do(f"namespace {name}", [make, [*entered(path), ip, "link", "set", "lo", "up"]])
        return path

    def _ip(self, what: str, host: Host, *words: str) -> None:
        """Run ip(8) in a host's namespace. The effects vanish with the namespace, so nothing has to be undone."""
        self._do(what, [[*_entered(host), _ip(), *words]])

    def _do(self, what: str, commands: list[list[str]]) -> None:
        """Run commands under the supervisor, so that they end before the supervisor begins its cleanup."""
        self.lab.run(what.replace("/", "-"), ["sh", "-ec", "\n".join(map(shlex.join, commands))])

    def _has_netem(self, host: Host) -> bool:
        if self.netem is None:
            try:
                tc = [*_entered(host), str(find_program("tc", "iproute2")), "qdisc"]
                add, delete = [*tc, "add", "dev", "lo", "root", "netem"], [*tc, "del", "dev", "lo", "root"]
                self._do("probe netem", [add, delete])
                self.netem = True
            except CostofError:
                self.netem = False
        return self.netem


def tun_lacks() -> str | None:
    """Return why `costof-engine link` cannot run on this machine, and a remedy; None if it can."""
    if not TUN.exists():
        return f"this kernel has neither netem nor {TUN}; load a module: sudo modprobe sch_netem, or tun"
    if not os.access(TUN, os.R_OK | os.W_OK):
        return f"this kernel has no netem, and this user may not open {TUN}; allow it by: sudo chmod 0666 {TUN}"
    return None


def _ip() -> str:
    return str(find_program("ip", "iproute2"))


def _entered(host: Host) -> list[str]:
    assert host.namespace is not None
    return entered(host.namespace)


def _check_name(name: str, existing: dict[str, Any]) -> None:
    # File names and namespace names will contain this name.
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,40}", name):
        raise CostofError(ErrorText.LAB_FAILED, detail=f"'{name}' is not a valid name of a host or link")
    if name in existing:
        raise CostofError(ErrorText.LAB_FAILED, detail=f"there is already a host or link '{name}'")


def _check_shape(name: str, round_trip_ms: float, bandwidth_mbit: float | None, loss: float) -> None:
    if not 0 <= round_trip_ms <= LONGEST_ROUND_TRIP_MS:
        error = f"the round trip must be from 0 to {LONGEST_ROUND_TRIP_MS:g} ms, not {round_trip_ms:g} ms"
    elif bandwidth_mbit is not None and not 0 < bandwidth_mbit < math.inf:
        error = f"the bandwidth must be above 0 Mbit/s, not {bandwidth_mbit:g}"
    elif not 0 <= loss < 1:
        error = f"the loss must be at least 0 and below 1, not {loss:g}"
    else:
        return
    raise CostofError(ErrorText.LAB_FAILED, detail=f"the link '{name}': {error}")
