"""The network's pure parts: addresses, queues, commands, and what is refused without root."""

from __future__ import annotations

import math
import os
import struct
import subprocess
from dataclasses import replace
from ipaddress import ip_address, ip_network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costof.errors import CostofError, Problem
from costof.lab.cpu_share import PERIOD_US, CpuShare, Hierarchies, find_hierarchies, limits
from costof.lab.host import QUEUE_PACKETS, Host, Link
from costof.lab.links import (
    NETWORKS,
    SERVED,
    engine_plan,
    link_addresses,
    netem_commands,
    queue_for,
    served_address,
    veth_commands,
)
from costof.lab.network import Network
from costof.lab.round_trips import echo_request, internet_checksum, summary

LINK = Link(
    name="us-eu",
    a=Host("client", Path("/run/netns/costof-ab12cd-client")),
    b=Host("server", Path("/run/netns/costof-ab12cd-server")),
    a_address="10.205.0.5",
    b_address="10.205.0.6",
    kind="engine",
    device="link1",
    round_trip_ms=170.126,
)


@given(st.integers(0, 0xFFFFFF), st.lists(st.integers(0, NETWORKS - 1), min_size=2, max_size=2, unique=True))
def test_links_of_a_run_have_networks_of_their_own(run: int, numbers: list[int]) -> None:
    networks = set()
    for number in numbers:
        a, b = link_addresses(f"{run:06x}", number)
        network = ip_network(f"{a}/30", strict=False)
        assert {ip_address(a), ip_address(b)} == set(network.hosts())
        assert network.subnet_of(ip_network("10.0.0.0/8"))
        networks.add(network)
    assert len(networks) == 2


@given(st.integers(0, 0xFFFFFF), st.integers(0, NETWORKS - 1), st.integers(0, SERVED - 1))
def test_what_a_host_serves_is_on_no_link(run: int, link: int, number: int) -> None:
    a, _ = link_addresses(f"{run:06x}", link)
    served = ip_address(served_address(f"{run:06x}", number))
    assert served not in ip_network(f"{a}/30", strict=False)
    assert served in ip_network(f"{a}/16", strict=False)
    assert served.packed[3] not in (0, 255)


def test_addresses_of_hosts_run_out_with_a_word() -> None:
    with pytest.raises(CostofError, match="room for"):
        served_address("ab12cd", SERVED)


def test_links_run_out_with_a_word() -> None:
    with pytest.raises(CostofError, match="room for"):
        link_addresses("ab12cd", NETWORKS)


@given(st.floats(0, 400), st.none() | st.floats(0.1, 10_000))
def test_a_queue_holds_what_travels_and_is_bounded(round_trip_ms: float, bandwidth_mbit: float | None) -> None:
    packets = queue_for(round_trip_ms, bandwidth_mbit)
    assert 100 <= packets <= 10 * QUEUE_PACKETS
    if bandwidth_mbit is not None and packets < 10 * QUEUE_PACKETS:
        assert packets * 12_000 >= round_trip_ms / 2 * bandwidth_mbit * 1000


def test_the_engine_is_told_of_a_link() -> None:
    assert engine_plan(LINK).model_dump() == {
        "name": "us-eu",
        "a": {"namespace": "/run/netns/costof-ab12cd-client", "device": "link1", "address": "10.205.0.5/30"},
        "b": {"namespace": "/run/netns/costof-ab12cd-server", "device": "link1", "address": "10.205.0.6/30"},
        "round_trip_ms": 170.126,
        "bandwidth_mbit": None,
        "loss": 0.0,
        "queue_packets": QUEUE_PACKETS,
    }


def test_veth_joins_the_two_namespaces() -> None:
    first, *rest = [" ".join(command[1:]) for command in veth_commands("ip", LINK)]
    a, b = (f"/run/netns/costof-ab12cd-{host}" for host in ("client", "server"))
    assert first == f"--net={a} -- ip link add link1 type veth peer name link1 netns {b}"
    assert f"--net={b} -- ip address add 10.205.0.6/30 dev link1" in rest
    assert len(rest) == 4


def test_netem_delays_half_the_round_trip_each_way() -> None:
    link = replace(LINK, bandwidth_mbit=12.5, loss=0.01, queue_packets=500)
    shapes = [" ".join(command[1:]) for command in netem_commands("ip", "tc", link) if "tc" in command]
    assert shapes == [
        f"--net=/run/netns/costof-ab12cd-{host} -- tc qdisc add dev link1 root netem "
        "delay 85063us limit 500 rate 12500000bit loss random 1.000000%"
        for host in ("client", "server")
    ]


def test_a_host_starts_programs_in_its_namespace() -> None:
    assert LINK.a.prefix[1:] == ["--net=/run/netns/costof-ab12cd-client", "--"]
    assert Host("client", None, loopback="127.1.2.3").prefix == []
    assert LINK.address_of(LINK.b) == "10.205.0.6"


@pytest.fixture
def without_hosts(no_hosts: None) -> Any:
    return SimpleNamespace(address=lambda number: f"127.83.12.{number}")


def test_without_hosts_a_lan_is_loopback_and_distance_is_refused(without_hosts: Any) -> None:
    with Network(without_hosts) as network:
        client, server = network.host("client"), network.host("server")
        lan = network.link(client, server, "lan")
        assert (lan.kind, lan.a_address, lan.b_address) == ("loopback", "127.83.12.101", "127.83.12.102")
        for shape in ({"round_trip_ms": 44.648}, {"bandwidth_mbit": 10.0}, {"loss": 0.01}):
            with pytest.raises(CostofError, match="'far' needs root: its packets") as refused:
                network.link(client, server, "far", **shape)
            assert refused.value.problem is Problem.NEEDS_ROOT
        with pytest.raises(CostofError, match="CPU share for slow needs root"):
            network.host("slow", cpu_share=0.5)
        assert network.start() is None


@pytest.mark.parametrize("name", ["", "client", "../x", "a b", "x" * 42])
def test_names_that_cannot_be(without_hosts: Any, name: str) -> None:
    with Network(without_hosts) as network:
        network.host("client")
        with pytest.raises(CostofError, match="cannot name"):
            network.host(name)


@pytest.mark.parametrize("shape", [{"round_trip_ms": -1}, {"loss": 1.0}, {"bandwidth_mbit": 0}, {"round_trip_ms": 1e9}])
def test_links_that_cannot_be(without_hosts: Any, shape: dict[str, float]) -> None:
    with Network(without_hosts) as network:
        client, server = network.host("client"), network.host("server")
        with pytest.raises(CostofError, match="link 'x'"):
            network.link(client, server, "x", **shape)


@given(st.floats(0.01, 16))
def test_a_share_is_what_was_asked_for(cores: float) -> None:
    files = limits(1, cores, PERIOD_US)
    quota, period = int(files["cpu.cfs_quota_us"]), int(files["cpu.cfs_period_us"])
    assert quota / period == pytest.approx(cores, rel=0.001)
    assert quota >= 1000
    assert 10_000 <= period <= 1_000_000
    assert limits(2, cores, PERIOD_US) == {"cpu.max": f"{quota} {period}"}


def test_the_groups_of_both_versions(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    joint = "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n"
    mounts.write_text(f"proc /proc proc rw 0 0\n{joint}")
    folder = Path("/sys/fs/cgroup/cpu,cpuacct")
    assert find_hierarchies(mounts) == Hierarchies(1, folder, folder)
    assert find_hierarchies(mounts).folders == [folder]
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory\n")
    mounts.write_text(f"{joint}cgroup2 {tmp_path} cgroup2 rw 0 0\n")
    assert find_hierarchies(mounts) == Hierarchies(2, tmp_path, tmp_path)
    mounts.write_text("proc /proc proc rw 0 0\n")
    with pytest.raises(CostofError, match="no cgroup hierarchy"):
        find_hierarchies(mounts)


@pytest.mark.parametrize(
    ("version", "counts", "quota"),
    [
        (1, "nr_throttled 3\nthrottled_time 1500000000\n", {"cpu.cfs_period_us": "10000", "cpu.cfs_quota_us": "5000"}),
        (2, "usage_usec 9\nthrottled_usec 1500000\n", {"cpu.max": "5000 10000"}),
    ],
)
def test_a_share_is_resized_in_place_and_tells_how_long_it_throttled(
    version: int, counts: str, quota: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "group"
    folder.mkdir()
    (folder / "cpu.stat").write_text(counts)
    share = CpuShare(0.25, Hierarchies(version, tmp_path, tmp_path), "group")
    assert share.throttled_seconds() == 1.5
    share.resize(0.5)
    assert {name: (folder / name).read_text() for name in quota} == quota
    assert share.cores == 0.5


def test_a_share_of_one_cpu_runs_there(tmp_path: Path) -> None:
    (tmp_path / "group").mkdir()
    cpu = max(os.sched_getaffinity(0))
    share = CpuShare(0.25, Hierarchies(2, tmp_path, tmp_path), "group", cpu)
    own = subprocess.run([*share.prefix, "sh", "-c", "taskset -cp $$"], capture_output=True, text=True, check=True)
    assert own.stdout.rstrip().endswith(f": {cpu}")


def test_percentiles_are_of_what_came_back() -> None:
    trips = summary([float(number) for number in range(1, 101)], asked=110)
    assert (trips.median_ms, trips.p99_ms, trips.count, trips.lost) == (50.5, 99.0, 100, 10)
    assert (trips.mean_ms, trips.error_ms) == (50.5, pytest.approx(2.901, abs=0.001))
    assert math.isnan(summary([1.0], asked=1).error_ms)
    assert summary([], asked=3).lost == 3


@given(st.integers(0, 0xFFFF))
def test_an_echo_request_sums_to_zero(number: int) -> None:
    packet = echo_request(number)
    assert internet_checksum(packet) == 0
    assert struct.unpack_from("!BBHHH", packet)[-1] == number
