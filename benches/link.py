"""Measurement of the engine's simulated link: nominal and measured round trips, throughput, and CPU time.

Run it as root on a quiet machine: `.venv/bin/python benches/link.py [--json]`. It takes about half a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from costof.lab.host import Link
from costof.lab.lab import Lab, is_root
from costof.lab.network import Network
from costof.lab.round_trips import measure_link

ROUND_TRIPS_MS = (0.1, 1.0, 5.0, 44.648, 170.126, 400.0)
TRANSFER_SECONDS = 3.0


@dataclass(frozen=True)
class Transfer:
    """The result of a transfer over one TCP connection on one link.

    `link_cpu` is the CPU use, in cores, of the engine that simulates the link.
    """

    link: str
    congestion_control: str
    mbit: float
    link_cpu: float
    dropped: int
    late_mean_us: float
    late_max_us: float


def transfer(network: Network, link: Link, control: str) -> Transfer:
    with link.b.socket() as listener, link.a.socket() as sender:
        listener.bind((link.b_address, 0))
        listener.listen(1)
        for end in (listener, sender):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        sender.connect(listener.getsockname())
        receiver, _ = listener.accept()
        stop = threading.Event()
        received = [0]
        threads = [
            threading.Thread(target=_send, args=(sender, stop)),
            threading.Thread(target=_receive, args=(receiver, received)),
        ]
        for thread in threads:
            thread.start()
        # Measure only after the congestion window has grown, because TCP is slow at first.
        time.sleep(1 + link.round_trip_ms / 100)
        before = (time.monotonic(), received[0], network.cpu_seconds(), network.counters(link).a_to_b)
        time.sleep(TRANSFER_SECONDS)
        after = (time.monotonic(), received[0], network.cpu_seconds(), network.counters(link).a_to_b)
        stop.set()
        for thread in threads:
            thread.join()
        receiver.close()
    seconds = after[0] - before[0]
    delivered = max(1, after[3].delivered - before[3].delivered)
    return Transfer(
        link.name,
        control,
        (after[1] - before[1]) * 8e-6 / seconds,
        (after[2] - before[2]) / seconds,
        after[3].dropped - before[3].dropped,
        (after[3].late_sum_ns - before[3].late_sum_ns) / delivered / 1000,
        after[3].late_max_ns / 1000,
    )


def _send(sender: socket.socket, stop: threading.Event) -> None:
    block = bytes(1 << 18)
    while not stop.is_set():
        sender.sendall(block)
    sender.shutdown(socket.SHUT_WR)


def _receive(receiver: socket.socket, received: list[int]) -> None:
    buffer = bytearray(1 << 20)
    while count := receiver.recv_into(buffer):
        received[0] += count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=3, help="number of transfers of each kind; the median is shown")
    as_json, repeats = vars(parser.parse_args()).values()
    if not is_root():
        sys.exit("needs root, since links connect network namespaces")
    result: dict[str, object] = {"load": os.getloadavg(), "round_trips": [], "transfers": []}
    with Lab() as lab, Network(lab, netem=False) as network:
        client, server = network.host("client"), network.host("server")
        far = [network.link(client, server, f"{ms:g}ms", round_trip_ms=ms) for ms in ROUND_TRIPS_MS]
        free = network.link(client, server, "unlimited", round_trip_ms=1)
        shaped = [network.link(client, server, f"{mbit}mbit", 20, bandwidth_mbit=mbit) for mbit in (10, 100, 500)]
        ready = network.start()
        assert ready is not None
        result["path_cost_us"] = ready.path_cost_us
        cpu = network.cpu_seconds()
        time.sleep(2)
        result["idle_cpu"] = (network.cpu_seconds() - cpu) / 2
        result["round_trips"] = [asdict(measure_link(link, 200)) for link in far]
        runs = [
            [transfer(network, link, control) for _ in range(repeats)]
            for control in ("cubic", "bbr")
            for link in (free, *shaped)
            if control in available_controls()
        ]
        result["transfers"] = [asdict(sorted(group, key=lambda run: run.mbit)[repeats // 2]) for group in runs]
        result["spread_mbit"] = [statistics.pstdev([run.mbit for run in group]) for group in runs]
    print(json.dumps(result, indent=1) if as_json else table(result))
    return 0


def available_controls() -> list[str]:
    return Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()


def table(result: dict) -> str:  # type: ignore[type-arg]
    lines = [
        f"load {result['load'][0]:.1f}; path cost {result['path_cost_us']:.0f} us; idle {result['idle_cpu']:.3%} CPU"
    ]
    lines.append(f"{'nominal ms':>10} {'ICMP ms':>10} {'p99-p50':>8} {'TCP ms':>10} {'p99-p50':>8}")
    for evidence in result["round_trips"]:
        icmp, tcp = evidence["icmp"], evidence["tcp"]
        lines.append(
            f"{evidence['nominal_ms']:10.3f} {icmp['median_ms']:10.3f} {icmp['p99_ms'] - icmp['median_ms']:8.3f} "
            f"{tcp['median_ms']:10.3f} {tcp['p99_ms'] - tcp['median_ms']:8.3f}"
        )
    lines.append(
        f"{'link':>10} {'control':>8} {'Mbit/s':>8} {'link CPU':>9} {'dropped':>8} {'late us':>8} {'max us':>8}"
    )
    lines += [
        f"{run['link']:>10} {run['congestion_control']:>8} {run['mbit']:8.0f} {run['link_cpu']:9.1%} "
        f"{run['dropped']:8d} {run['late_mean_us']:8.1f} {run['late_max_us']:8.0f}"
        for run in result["transfers"]
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
