"""The lab: its processes, the command lines of its server programs, and the pure functions of its network."""

from __future__ import annotations

import math
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError
from hypothesis import given
from hypothesis import strategies as st

from costof.errors import CostofError, ErrorText
from costof.lab import program
from costof.lab.certificates import Authority, certificate_kind
from costof.lab.cpu_share import PERIOD_US, CpuShare, Hierarchies, find_hierarchies, limits
from costof.lab.host import QUEUE_PACKETS
from costof.lab.lab import Lab, Process, descendants_of
from costof.lab.links import NETWORKS, SERVED, link_addresses, queue_for, served_address
from costof.lab.network import Network
from costof.lab.round_trips import summary
from costof.lab.user_namespace import FORBIDDING, reason
from costof.messages.process import process_cpu_seconds
from costof.programs import openssh
from costof.programs.mariadb import lab as mariadb
from costof.programs.mariadb import versions
from tests.support.processes import alive
from tests.support.programs import eventually


@pytest.fixture
def running() -> Iterator[Lab]:
    with Lab() as lab:
        yield lab


def test_program_that_runs_to_its_end_does_not_count_as_a_crashed_process(running: Lab) -> None:
    for _ in range(10):
        running.run("short", ["true"])
    assert (running.dead(), running.cpu_seconds()) == ([], {})
    with pytest.raises(CostofError, match="short: no such luck"):
        running.run("short", ["sh", "-c", "echo no such luck; exit 3"])
    assert running.dead() == []


class Interleaved(dict[str, Process]):
    """A lab's processes. If it can, a process registers between the search for it and what follows from the search."""

    def __init__(self) -> None:
        self.searched, self.registered = threading.Event(), threading.Event()

    def get(self, name: str, default: Any = None) -> Any:
        found = super().get(name, default)
        self.searched.set()
        self.registered.wait(timeout=1)
        return found

    def __setitem__(self, name: str, process: Process) -> None:
        self.searched.wait(timeout=1)
        super().__setitem__(name, process)
        self.registered.set()


def test_end_of_a_program_is_noticed_if_it_comes_while_the_program_is_being_registered(running: Lab) -> None:
    running.processes = Interleaved()
    process = running.spawn("short", "short", ["true"])
    eventually("the end", lambda: process.exit_status == 0)


def test_stopped_process_does_not_count_as_dead_and_its_name_can_be_reused(running: Lab) -> None:
    first = running.spawn("server", "server", ["sleep", "1000"])
    running.stop("server")
    assert not alive(first.pid)
    second = running.spawn("server", "server", ["sleep", "1000"])
    assert running.dead() == []
    assert alive(second.pid)
    running.kill("server")
    eventually("the death", lambda: [process.name for process in running.dead()] == ["server"])


def test_end_of_a_lab_kills_even_processes_that_started_a_new_session() -> None:
    with Lab() as lab:
        parent = lab.spawn("server", "server", ["sh", "-c", "setsid sh -c 'sleep 1000 & wait' & wait"], forks=True)
        # Three processes are expected: the shell, the shell under setsid, and sleep.
        eventually("the children", lambda: len(descendants_of(parent.pid)) == 2)
        children, folder = descendants_of(parent.pid), lab.new_folder()
        (folder / "file").touch()
        assert folder.parent == Path("/tmp")
        assert folder.stat().st_mode & 0o077 == 0
    assert not [pid for pid in children if alive(pid)]
    assert not folder.exists()


def test_cpu_time_of_children_is_counted_only_for_programs_that_fork(running: Lab) -> None:
    def children_seconds(pid: int) -> float:
        return math.fsum(process_cpu_seconds(child) for child in descendants_of(pid))

    # Each program has a child in an endless loop and a parent that only waits.
    alone, whole = (
        running.spawn(name, name, ["sh", "-c", "(while :; do :; done) & wait"], forks=forks).pid
        for name, forks in (("alone", False), ("whole", True))
    )
    for pid in (alone, whole):
        eventually("more work of the child", lambda pid=pid: children_seconds(pid) > 2 * process_cpu_seconds(pid))
    assert running.cpu_seconds()["alone"] <= process_cpu_seconds(alone)
    eventually("the child's time", lambda: running.cpu_seconds()["whole"] > 2 * process_cpu_seconds(whole))


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab()
    lab.folder = tmp_path
    return lab


def test_certificate_chain_of_a_lab_satisfies_rfc_5280(tmp_path: Path) -> None:
    """From Python 3.13 on, `ssl.create_default_context` rejects certificates that violate RFC 5280."""
    authority = Authority(tmp_path)
    kind = certificate_kind({"key": "ecdsa-p256", "certificates": "3"})
    assert kind is not None
    leaf, *intermediates = x509.load_pem_x509_certificates(authority.issue("server", kind, ["db.lab"]).read_bytes())
    assert len(intermediates) == 2
    verifier = PolicyBuilder().store(Store([authority.certificate])).build_server_verifier(x509.DNSName("db.lab"))
    assert verifier.verify(leaf, intermediates) == [leaf, *intermediates, authority.certificate]
    with pytest.raises(VerificationError):
        verifier.verify(leaf, intermediates[:1])


def test_mariadbd_ignores_configuration_files_of_the_system(lab: Lab, tmp_path: Path) -> None:
    server = mariadb.MariadbServer(lab, Authority(tmp_path / "c"), ["127.0.0.9"])
    argv = server.command_line(Path("/usr/sbin/mariadbd"))
    assert argv[:2] == ["/usr/sbin/mariadbd", "--no-defaults"]
    assert {"--bind-address=127.0.0.9", "--port=3306", f"--datadir={tmp_path}/mariadb/data"} <= set(argv)
    assert server.password.get_secret_value() not in " ".join(argv)
    settings = server.facts()["server settings"]
    assert all(f"{name}={value}" in settings for name, value in mariadb.SETTINGS.items())
    assert mariadb.quoted("a'b\\c") == "'a''b\\\\c'", "needed for the password in the bootstrap statements"


@pytest.mark.parametrize("prefix", ["mysql", "mariadb"])
def test_files_of_system_tables_may_have_the_names_of_mysql_or_of_mariadb(prefix: str, tmp_path: Path) -> None:
    folder = tmp_path / "share/mariadb"
    folder.mkdir(parents=True)
    files = [folder / f"{prefix}_system_tables.sql", folder / f"{prefix}_system_tables_data.sql"]
    for file in files:
        file.touch()
    assert mariadb.system_tables(tmp_path / "sbin/mariadbd") == files


def test_sshd_uses_only_files_in_its_own_folder(lab: Lab, tmp_path: Path) -> None:
    server = openssh.SshServer(lab, "127.0.0.9")
    server._folder = tmp_path / "sshd"
    configuration = server.configuration(tmp_path / "sbin/sshd")
    settings = dict(line.split(" ", 1) for line in configuration.splitlines())
    assert settings["ListenAddress"] == "127.0.0.9:2222"
    argv = server.command_line(Path("/usr/sbin/sshd"))
    assert argv[argv.index("-f") + 1] == f"{tmp_path}/sshd/sshd_config"
    assert settings["HostKey"] == f"{tmp_path}/sshd/host_key"
    assert settings["AuthorizedKeysFile"] == f"{tmp_path}/sshd/authorized_keys"
    off = ("UsePAM", "PasswordAuthentication", "Compression")
    assert (settings["PidFile"], {settings[name] for name in off}) == ("none", {"no"})
    # An unpacked sshd needs the paths of its helper programs.
    (tmp_path / "lib/openssh").mkdir(parents=True)
    (tmp_path / "lib/openssh/sshd-session").touch()
    newer = server.configuration(tmp_path / "sbin/sshd")
    assert newer == configuration + f"SshdSessionPath {tmp_path}/lib/openssh/sshd-session\n"


def test_ssh_tunnel_ignores_the_users_configuration_file_and_ssh_agent(lab: Lab, tmp_path: Path) -> None:
    ends = ("127.0.0.8", 3306), ("127.0.0.9", 3306)
    server = openssh.SshServer(lab, "127.0.0.9")
    argv = server.tunnel_command_line(Path("/usr/bin/ssh"), "aes256-ctr", *ends, tmp_path / "control")
    assert argv[1:3] == ["-F", "none"]
    assert argv[argv.index("-L") + 1] == "127.0.0.8:3306:127.0.0.9:3306"
    assert "-N" in argv
    options = {argv[at + 1] for at, word in enumerate(argv) if word == "-o"}
    assert options >= {"Ciphers=aes256-ctr", "Compression=no", "ExitOnForwardFailure=yes"}
    assert options >= {"IdentityAgent=none", "GlobalKnownHostsFile=none", "StrictHostKeyChecking=yes"}


@pytest.mark.parametrize(
    ("name", "package", "find"),
    [
        ("mariadbd", "mariadb-server-core", versions.find_mariadbd),
        ("ssh", "openssh-client", openssh.find_ssh),
        ("sshd", "openssh-server", openssh.find_sshd),
    ],
)
def test_error_for_a_missing_program_names_its_package_or_its_invalid_path(
    name: str, package: str, find: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    variable = f"COSTOF_{name.upper()}"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(program, "FOLDERS", (tmp_path,))
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(CostofError, match=f"apt-get install {package}") as missing:
        find()
    assert missing.value.message is ErrorText.PROGRAM_MISSING
    monkeypatch.setenv(variable, str(tmp_path))
    with pytest.raises(CostofError, match=f"{variable}={tmp_path} is not a program"):
        find()


def test_error_for_a_program_that_fails_to_print_its_version_contains_its_output(tmp_path: Path) -> None:
    broken = tmp_path / "mariadbd"
    broken.write_text("#!/bin/sh\necho cannot open shared object >&2\nexit 127\n")
    broken.chmod(0o755)
    with pytest.raises(CostofError, match="cannot open shared object"):
        versions.mariadbd_version(broken)


@pytest.mark.parametrize("name", FORBIDDING)
def test_kernel_setting_that_forbids_user_namespaces_is_named_with_a_remedy(name: str, tmp_path: Path) -> None:
    for other, (_, allows) in FORBIDDING.items():
        file = tmp_path / other.replace(".", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{allows}\n")
    assert "(unshare: it failed: No space left)" in reason("unshare: it failed:\n No space left\n", tmp_path)
    forbids, allows = FORBIDDING[name]
    (tmp_path / name.replace(".", "/")).write_text(f"{forbids}\n")
    detail = reason("unshare: unshare failed: Operation not permitted\n", tmp_path)
    assert detail == f"{name} is {forbids}, which forbids user namespaces; allow them by: sudo sysctl {name}={allows}"


@given(st.integers(0, 0xFFFFFF), st.lists(st.integers(0, NETWORKS - 1), min_size=2, max_size=2, unique=True))
def test_links_of_a_run_have_separate_networks(run: int, numbers: list[int]) -> None:
    networks = set()
    for number in numbers:
        a, b = link_addresses(f"{run:06x}", number)
        network = ip_network(f"{a}/30", strict=False)
        assert {ip_address(a), ip_address(b)} == set(network.hosts())
        assert network.subnet_of(ip_network("10.0.0.0/8"))
        networks.add(network)
    assert len(networks) == 2


@given(st.integers(0, 0xFFFFFF), st.integers(0, NETWORKS - 1), st.integers(0, SERVED - 1))
def test_addresses_of_servers_are_outside_the_networks_of_all_links(run: int, link: int, number: int) -> None:
    a, _ = link_addresses(f"{run:06x}", link)
    served = ip_address(served_address(f"{run:06x}", number))
    assert served not in ip_network(f"{a}/30", strict=False)
    assert served in ip_network(f"{a}/16", strict=False)
    assert served.packed[3] not in (0, 255)


@pytest.mark.parametrize(("allocate", "number"), [(served_address, SERVED), (link_addresses, NETWORKS)])
def test_lab_without_a_free_address_reports_an_error(allocate: Callable[[str, int], object], number: int) -> None:
    with pytest.raises(CostofError, match="room for"):
        allocate("ab12cd", number)


@given(st.floats(0, 400), st.none() | st.floats(0.1, 10_000))
def test_queue_of_a_link_has_room_for_packets_in_flight_and_is_bounded(
    round_trip_ms: float, bandwidth_mbit: float | None
) -> None:
    packets = queue_for(round_trip_ms, bandwidth_mbit)
    assert 100 <= packets <= 10 * QUEUE_PACKETS
    if bandwidth_mbit is not None and packets < 10 * QUEUE_PACKETS:
        assert packets * 12_000 >= round_trip_ms / 2 * bandwidth_mbit * 1000


@pytest.fixture
def network(no_hosts: None) -> Iterator[Network]:
    lab: Any = SimpleNamespace(address=lambda number: f"127.83.12.{number}")
    with Network(lab) as network:
        yield network


def test_lab_without_namespaces_uses_loopback_and_rejects_a_distance(network: Network) -> None:
    client, server = network.host("client"), network.host("server")
    lan = network.link(client, server, "lan")
    assert (lan.kind, lan.a_address, lan.b_address) == ("loopback", "127.83.12.101", "127.83.12.102")
    for shape in ({"round_trip_ms": 44.648}, {"bandwidth_mbit": 10.0}, {"loss": 0.01}):
        with pytest.raises(CostofError, match="'far' needs root: a link with delay") as caught:
            network.link(client, server, "far", **shape)
        assert caught.value.message is ErrorText.NEEDS_ROOT
    with pytest.raises(CostofError, match="CPU share for slow needs root"):
        network.host("slow", cpu_share=0.5)
    assert network.start() is None


@pytest.mark.parametrize("name", ["", "client", "../x", "a b", "x" * 42])
def test_invalid_and_duplicate_host_names_are_rejected(network: Network, name: str) -> None:
    network.host("client")
    with pytest.raises(CostofError, match=r"is not a valid name|there is already"):
        network.host(name)


@pytest.mark.parametrize("shape", [{"round_trip_ms": -1}, {"loss": 1.0}, {"bandwidth_mbit": 0}, {"round_trip_ms": 1e9}])
def test_links_with_impossible_values_are_rejected(network: Network, shape: dict[str, float]) -> None:
    with pytest.raises(CostofError, match="link 'x'"):
        network.link(network.host("client"), network.host("server"), "x", **shape)


@given(st.floats(0.01, 16))
def test_cgroup_quota_and_period_give_the_requested_cpu_share(cores: float) -> None:
    files = limits(1, cores, PERIOD_US)
    quota, period = int(files["cpu.cfs_quota_us"]), int(files["cpu.cfs_period_us"])
    assert quota / period == pytest.approx(cores, rel=0.001)
    assert quota >= 1000
    assert 10_000 <= period <= 1_000_000
    assert limits(2, cores, PERIOD_US) == {"cpu.max": f"{quota} {period}"}


def test_folders_of_cgroup_version_1_and_version_2_are_located(tmp_path: Path) -> None:
    mounts, folder = tmp_path / "mounts", Path("/sys/fs/cgroup/cpu,cpuacct")
    joint = f"cgroup {folder} cgroup rw,cpu,cpuacct 0 0\n"
    mounts.write_text(f"proc /proc proc rw 0 0\n{joint}")
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
def test_cpu_share_can_be_resized_and_its_throttled_time_can_be_read(
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


def test_program_with_a_share_of_one_cpu_runs_on_that_cpu(tmp_path: Path) -> None:
    (tmp_path / "group").mkdir()
    cpu = max(os.sched_getaffinity(0))
    share = CpuShare(0.25, Hierarchies(2, tmp_path, tmp_path), "group", cpu)
    result = subprocess.run([*share.prefix, "sh", "-c", "taskset -cp $$"], capture_output=True, text=True, check=True)
    assert result.stdout.rstrip().endswith(f": {cpu}")


def test_round_trip_percentiles_leave_out_lost_probes() -> None:
    trips = summary([float(number) for number in range(1, 101)], probes=110)
    assert (trips.median_ms, trips.p99_ms, trips.count, trips.lost) == (50.5, 99.0, 100, 10)
    assert (trips.mean_ms, trips.error_ms) == (50.5, pytest.approx(2.901, abs=0.001))
    assert math.isnan(summary([1.0], probes=1).error_ms)
    assert summary([], probes=3).lost == 3
