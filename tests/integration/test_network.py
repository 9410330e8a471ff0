"""Hosts and links on the real kernel: delay, order, loss, bandwidth, and cleanup."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from costof.errors import CostofError
from costof.lab import round_trips
from costof.lab.host import Host, Link
from costof.lab.lab import Lab, is_root
from costof.lab.links import DirectionCounters
from costof.lab.network import Network
from costof.lab.round_trips import SO_TIMESTAMPNS, measure_link
from costof.messages.process import engine_path
from tests.support.programs import HANGS_SECONDS, SHORTER_MS, eventually

pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(not is_root(), reason="only root can make network namespaces"),
    pytest.mark.skipif(not Path("/dev/net/tun").exists(), reason="this kernel has no /dev/net/tun"),
]

# From asm-generic/socket.h. The option can exceed net.core.rmem_max, so that the buffer holds all packets of a test.
SO_RCVBUFFORCE = 33
ROUND_TRIPS_MS = (0.1, 5.0, 44.648)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait longer before packets count as lost, because the machine may be paused."""
    monkeypatch.setattr(round_trips, "PATIENCE_SECONDS", HANGS_SECONDS)


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    """Start two hosts and all links between them that these tests use, in one process."""
    with Lab() as lab, Network(lab, seed=42, netem=False) as network:
        client, server = network.host("client"), network.host("server")
        network.link(client, server, "lan")
        for milliseconds in ROUND_TRIPS_MS:
            network.link(client, server, f"{milliseconds:g}ms", round_trip_ms=milliseconds)
        # The delay is so long that `send_burst` has sent all packets before the first one arrives.
        network.link(client, server, "tiny-queue", round_trip_ms=2000, queue_packets=10)
        network.link(client, server, "lossy", round_trip_ms=2, loss=0.2)
        network.link(client, server, "narrow", round_trip_ms=10, bandwidth_mbit=2, queue_packets=1000)
        network.start()
        yield network


@pytest.mark.parametrize(("requested", "next_requested"), list(pairwise((*ROUND_TRIPS_MS, 170.0))))
def test_link_has_the_requested_round_trip_time(network: Network, requested: float, next_requested: float) -> None:
    """The round trip must be at least as long as requested, and shorter than on the next slower link.

    The upper bound is so wide because a busy machine may delay packets. `make bench` tests the delay exactly on a quiet
    machine.
    """

    def is_less_than_the_next() -> bool:
        evidence = measure_link(network.links[f"{requested:g}ms"])
        assert evidence.icmp is not None
        both = (evidence.icmp, evidence.tcp)
        assert all(trips.quickest_ms >= requested - SHORTER_MS and trips.lost == 0 for trips in both)
        return all(trips.quickest_ms < next_requested for trips in both)

    eventually(f"a round trip of less than {next_requested:g} ms", is_less_than_the_next)


def test_full_queue_counts_dropped_packets_and_delivers_the_remaining_packets_in_order(network: Network) -> None:
    def drops_all_but_a_queue() -> bool:
        received, counters = send_burst(network, network.links["tiny-queue"], count=200, size=100)
        assert received == sorted(received)
        assert counters.sent == 200
        assert len(received) == counters.delivered == 200 - counters.dropped
        return counters.dropped >= 200 - 10 - 1

    eventually("a burst that was on its way before any of it arrived", drops_all_but_a_queue)


def test_link_loses_the_requested_share_of_packets(network: Network) -> None:
    received, counters = send_burst(network, network.links["lossy"], count=1000, size=100)
    assert received == sorted(received)
    # 200 ± 63: five standard deviations of a binomial distribution with 1000 draws.
    assert 137 <= counters.lost <= 263
    assert len(received) == 1000 - counters.lost


def test_link_has_the_requested_bandwidth(network: Network) -> None:
    def is_near_its_bandwidth() -> bool:
        times: list[float] = []
        # A UDP packet of 1472 bytes has 1500 on the link, and the kernel notes its time of arrival. With 200 packets, a
        # delay of the last one by a busy machine changes the result little.
        send_burst(network, network.links["narrow"], count=200, size=1472, times=times)
        mbit = 199 * 1500 * 8e-6 / (times[-1] - times[0])
        assert mbit < 2 * 1.02
        return mbit > 2 / 2

    eventually("a burst at the link's bandwidth", is_near_its_bandwidth)


def send_burst(
    network: Network, link: Link, count: int, size: int, times: list[float] | None = None
) -> tuple[list[int], DirectionCounters]:
    """Send numbered UDP packets at once. Return the numbers in order of arrival, and the change of the link's counters.

    The function appends arrival times to `times`.
    """
    before = network.counters(link).a_to_b

    def gone() -> bool:
        now = network.counters(link).a_to_b
        through = now.delivered + now.dropped + now.lost
        return now.sent - before.sent >= count and through == now.sent

    received = []
    with link.a.socket(socket.SOCK_DGRAM) as sender, link.b.socket(socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 23)
        receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        receiver.bind((link.b_address, 0))
        receiver.setblocking(False)
        for number in range(count):
            sender.sendto(struct.pack("!I", number).ljust(size, b"."), receiver.getsockname())
        eventually("the burst", gone)
        while True:
            try:
                packet, ancillary, _, _ = receiver.recvmsg(2048, 256)
            except BlockingIOError:
                break
            received.append(struct.unpack_from("!I", packet)[0])
            if times is not None:
                seconds, nanoseconds = struct.unpack("@ll", ancillary[0][2][:16])
                times.append(seconds + nanoseconds / 1e9)
    after = network.counters(link).a_to_b
    names = type(after).model_fields
    return received, DirectionCounters(**{name: getattr(after, name) - getattr(before, name) for name in names})


def test_program_runs_on_its_host_with_the_reported_pid(network: Network) -> None:
    lab, server = network.lab, network.hosts["server"]
    link = network.links["5ms"]
    process = lab.spawn("who", "who", ["sh", "-c", "echo $$; ls -l /proc/self/ns/net; exec sleep 60"], host=server)
    lab.wait_until("a word", lambda: "net:" in process.log.read_text())
    assert int(process.log.read_text().split()[0]) == process.pid
    namespaces = {str(Path(f"/proc/{pid}/ns/net").readlink()) for pid in (process.pid, "self")}
    assert len(namespaces) == 2
    assert link.address_of(server) == link.b_address
    lab.stop("who")


def test_server_process_is_reachable_over_links_of_all_distances(network: Network) -> None:
    client, server = network.hosts["client"], network.hosts["server"]
    assert network.links["lan"].kind == "veth"
    with server.socket() as listener:
        listener.bind(("0.0.0.0", 0))  # noqa: S104  # in a namespace of its own
        listener.listen(8)
        for name in ("lan", "44.648ms"):
            with client.socket() as connection:
                connection.settimeout(HANGS_SECONDS)
                connection.connect((network.links[name].address_of(server), listener.getsockname()[1]))


def test_process_with_a_cpu_share_of_20_percent_gets_no_more_cpu_time() -> None:
    with Lab() as lab, Network(lab) as network:
        slow = network.host("slow", cpu_share=0.2)
        lab.spawn("burn", "burn", ["sh", "-c", "while :; do :; done"], host=slow)
        eventually("a first share", lambda: cpu(slow) > 0.01)
        start, begun = time.monotonic(), cpu(slow)
        eventually("a tenth of a second of CPU", lambda: cpu(slow) >= begun + 0.1)
        # With a CPU share of 0.2, a process needs 0.5 s for 0.1 s of CPU time. It may need up to one scheduling period
        # (0.03 s) less, and on a busy machine any time more.
        assert time.monotonic() - start >= 0.1 / 0.2 - 0.03


def cpu(host: Host) -> float:
    used = host.cpu_seconds()
    assert used is not None
    return used


def test_lab_detects_a_killed_link_process() -> None:
    with Lab() as lab, Network(lab, netem=False) as network:
        link = network.link(network.host("client"), network.host("server"), "far", round_trip_ms=5)
        network.start()
        assert network.lost() is None
        (pid,) = network.process_ids()
        os.kill(pid, signal.SIGKILL)
        eventually("notice", lambda: network.lost() is not None)
        assert link.a.namespace is not None
        devices = subprocess.run(
            ["ip", "-n", link.a.namespace.name, "link"], capture_output=True, text=True, check=True
        )
        assert link.device not in devices.stdout
        with pytest.raises(CostofError, match="costof-engine link stopped"):
            network.counters(link)
    assert not link.a.namespace.exists()


def test_link_process_reports_errors_in_one_line() -> None:
    end = {"namespace": "/no-such-namespace", "device": "link0", "address": "10.0.0.1/30"}
    line = json.dumps({"links": [{"name": "x", "a": end, "b": end, "round_trip_ms": 1}]})
    done = subprocess.run([engine_path(), "link"], input=line + "\n", capture_output=True, text=True)
    (line,) = done.stdout.splitlines()
    assert "no-such-namespace" in line
    assert json.loads(line)["error"]["class"] == "link"
    assert (done.returncode, done.stderr) == (2, "")
    done = subprocess.run([engine_path(), "link"], input="", capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
