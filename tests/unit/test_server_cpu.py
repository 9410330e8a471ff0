"""CPU time that a command of the user's tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from costof.errors import CostofError, Problem
from costof.programs.access import Access
from costof.programs.mariadb.target import OwnSysbench
from costof.run.rounds import used_here
from costof.services.server_cpu import LAG_SECONDS, ServerCpu
from costof.services.target import OwnService
from costof.urls import is_loopback

#: Of a kernel 6.1, systemd 252 and node_exporter 1.5.
CGROUP = "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\nnr_periods 0\n"
SYSTEMD = "CPUUsageNSec=1500000000\n"
EXPORTER = """# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.
# TYPE node_cpu_seconds_total counter
node_cpu_seconds_total{cpu="0",mode="idle"} 362812.79
node_cpu_seconds_total{cpu="0",mode="iowait"} 41.5
node_cpu_seconds_total{cpu="0",mode="user"} 1.25e+03
node_cpu_seconds_total{cpu="1",mode="system"} 50
node_memory_Active_bytes 5.1e+08
process_cpu_seconds_total 17
"""


@pytest.mark.parametrize(
    ("printed", "seconds"),
    [("12.5", 12.5), ("1\n2.25\n", 3.25), ("  7  \n\n", 7.0), (CGROUP, 2.5), (SYSTEMD * 2, 3.0), (EXPORTER, 1300.0)],
)
def test_what_is_printed_is_read_and_adds_up(printed: str, seconds: float, tmp_path: Path) -> None:
    (tmp_path / "told").write_text(printed)
    assert ServerCpu(f"cat {tmp_path / 'told'}").seconds() == seconds


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("printf ''", "it printed ''"),
        ("printf 'user 12'", "it printed 'user 12'"),
        ("printf nan", "it printed 'nan'"),
        ("sh -c 'echo no such host >&2; exit 255'", "it ended with status 255: no such host"),
        ("/nowhere/at/all", "No such file or directory"),
    ],
)
def test_what_is_no_number_is_told(command: str, why: str) -> None:
    with pytest.raises(CostofError, match=why) as refused:
        ServerCpu(command).seconds()
    assert refused.value.problem is Problem.SERVER_CPU_UNREAD


def test_servers_that_were_started_anew_are_told(tmp_path: Path) -> None:
    told = tmp_path / "seconds"
    told.write_text("5")
    cpu = ServerCpu(f"cat {told}")
    assert cpu.seconds() == 5
    told.write_text("4")
    with pytest.raises(CostofError, match="it printed 4 after 5"):
        cpu.seconds()


class Counter:
    """A command that prints a number, and the clock by which it is asked."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path, self._now = folder / "printed", 1000.0
        self.cpu = ServerCpu(f"cat {self._path}")
        monkeypatch.setattr("costof.services.server_cpu.time", self)

    def monotonic(self) -> float:
        return self._now

    def prints(self, text: str, after_seconds: float = 0.0) -> float:
        self._now += after_seconds
        self._path.write_text(text)
        return self.cpu.seconds()


@pytest.fixture
def counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counter:
    return Counter(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (
            "846507704000000000",
            "846507704850000000",
            "it went up by 850,000,000 in 1.0 s, as 850,000,000 busy cores would make it, and no servers have that "
            "many cores; if it prints nanoseconds (0.85 cores), divide by 1,000,000,000",
        ),
        ("12000000", "12300000", "if it prints microseconds (0.3 cores), divide by 1,000,000"),
        ("0", "7000", "if it prints milliseconds (7 cores), divide by 1,000"),
    ],
)
def test_counter_in_another_unit_is_refused_with_the_unit(counter: Counter, first: str, second: str, told: str) -> None:
    counter.prints(first)
    with pytest.raises(CostofError) as refused:
        counter.prints(second, after_seconds=1.0)
    assert refused.value.problem is Problem.SERVER_CPU_UNREAD
    assert told in str(refused.value)


def test_cores_of_many_servers_are_believed(counter: Counter) -> None:
    counter.prints("1e6")
    assert counter.prints("1000900", after_seconds=1.0) == 1_000_900


def test_servers_on_this_machine_cannot_use_more_than_its_cores(counter: Counter) -> None:
    counter.cpu.limit_cores(2, "this machine, where 127.0.0.1:3306 is,")
    counter.prints("100")
    counter.prints(f"{100 + 2 * (10 + LAG_SECONDS)}", after_seconds=10.0)
    with pytest.raises(CostofError) as refused:
        counter.prints("700", after_seconds=10.0)
    assert "30 busy cores would make it, and this machine, where 127.0.0.1:3306 is, has 2 cores" in str(refused.value)
    assert "if it prints hundredths of a second (0.3 cores), divide by 100" in str(refused.value)


def test_counter_that_stands_still_under_load_is_refused(counter: Counter) -> None:
    counter.prints("12.5")
    counter.prints("12.5", after_seconds=1.0)
    with pytest.raises(CostofError, match=r"it printed 12\.5 before and after 1,234 operations") as refused:
        counter.cpu.check_it_moved(1234)
    assert refused.value.problem is Problem.SERVER_CPU_UNREAD
    counter.prints("12.51", after_seconds=1.0)
    counter.cpu.check_it_moved(1234)


def test_cpu_time_of_another_machine_is_not_taken_off_this_ones() -> None:
    access = Access("mysql://u:p@db.example/")
    service = OwnService(access, OwnSysbench(access, "mysql-transport", "a-run", 1))
    assert used_here(service, {"server": 2.0, "gateway": 0.5}) == 2.5
    service.server_cpu = ServerCpu("cat seconds")
    assert used_here(service, {"server": 2.0, "gateway": 0.5}) == 0.5
    service.server_cpu.limit_cores(2, "this machine")
    assert used_here(service, {"server": 2.0, "gateway": 0.5}) == 2.5


@pytest.mark.parametrize(
    ("address", "is_here"),
    [
        *[("127.0.0.1:3306", True), ("127.8.0.1:1", True), ("[::1]:5432", True), ("localhost:3306", True)],
        *[("10.0.0.1:3306", False), ("db.example:3306", False), ("[fd00::1]:5432", False)],
    ],
)
def test_loopback_addresses_are_of_this_machine(address: str, is_here: bool) -> None:
    assert is_loopback(address) == is_here


@pytest.mark.parametrize("text", ["", "  ", "sh -c 'x"])
def test_what_is_no_command_is_refused(text: str) -> None:
    with pytest.raises(CostofError) as refused:
        ServerCpu(text)
    assert refused.value.problem is Problem.BAD_SERVER_CPU
