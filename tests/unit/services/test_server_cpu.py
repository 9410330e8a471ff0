"""The CPU time of a user's servers, read from the output of a command that the user names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from costof.errors import CostofError, ErrorText
from costof.programs.access import Access
from costof.programs.mariadb.target import SysbenchTarget
from costof.run.rounds import cpu_seconds_here
from costof.services.server_cpu import LAG_SECONDS, ServerCpu
from costof.services.target import TargetService
from costof.urls import is_loopback

#: Outputs of commands on Linux 6.1, of systemd 252 and of node_exporter 1.5.
CGROUP = "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\nnr_periods 0\n"
SYSTEMD = "CPUUsageNSec=1500000000\n"
EXPORTER = """# TYPE node_cpu_seconds_total counter
node_cpu_seconds_total{cpu="0",mode="idle"} 362812.79
node_cpu_seconds_total{cpu="0",mode="iowait"} 41.5
node_cpu_seconds_total{cpu="0",mode="user"} 1.25e+03
node_cpu_seconds_total{cpu="1",mode="system"} 50
node_memory_Active_bytes 5.1e+08
process_cpu_seconds_total 17
"""


class Counter:
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


def refused(counter: Counter, text: str, after_seconds: float = 0.0) -> str:
    with pytest.raises(CostofError) as caught:
        counter.prints(text, after_seconds)
    assert caught.value.message is ErrorText.SERVER_CPU_UNREAD
    return str(caught.value)


@pytest.mark.parametrize(
    ("printed", "seconds"),
    [("12.5", 12.5), ("1\n2.25\n", 3.25), ("  7  \n\n", 7.0), (CGROUP, 2.5), (SYSTEMD * 2, 3.0), (EXPORTER, 1300.0)],
)
def test_numbers_printed_by_the_server_cpu_command_are_added_up(printed: str, seconds: float, counter: Counter) -> None:
    assert counter.prints(printed) == seconds


@pytest.mark.parametrize("printed", ["", "user 12", "nan"])
def test_output_of_the_server_cpu_command_without_a_number_is_quoted(printed: str, counter: Counter) -> None:
    assert f"it printed '{printed}'" in refused(counter, printed)


@pytest.mark.parametrize(
    ("command", "why", "expected"),
    [
        ("sh -c 'echo gone >&2; exit 255'", "it ended with status 255: gone", ErrorText.SERVER_CPU_UNREAD),
        ("/nowhere/at/all", "No such file or directory", ErrorText.SERVER_CPU_UNREAD),
        *((text, None, ErrorText.BAD_SERVER_CPU) for text in ("", "  ", "sh -c 'x")),
    ],
)
def test_failing_or_invalid_server_cpu_command_is_reported(command: str, why: str | None, expected: ErrorText) -> None:
    with pytest.raises(CostofError, match=why) as caught:
        ServerCpu(command).seconds()
    assert caught.value.message is expected


def test_server_cpu_reading_lower_than_the_previous_reading_is_refused(counter: Counter) -> None:
    assert counter.prints("5") == 5
    assert "it printed 4 after it had printed 5" in refused(counter, "4")


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            "846507704000000000",
            "846507704850000000",
            "it rose by 850,000,000 in 1.0 s, which would need 850,000,000 busy cores; no servers have that "
            "many cores; if it prints nanoseconds (0.85 cores), divide by 1,000,000,000",
        ),
        ("12000000", "12300000", "if it prints microseconds (0.3 cores), divide by 1,000,000"),
        ("0", "7000", "if it prints milliseconds (7 cores), divide by 1,000"),
    ],
)
def test_error_for_a_server_cpu_counter_in_another_unit_names_the_unit(
    counter: Counter, first: str, second: str, message: str
) -> None:
    counter.prints(first)
    assert message in refused(counter, second, after_seconds=1.0)


def test_cpu_time_of_a_server_with_900_cores_is_accepted(counter: Counter) -> None:
    counter.prints("1e6")
    assert counter.prints("1000900", after_seconds=1.0) == 1_000_900


def test_cpu_reading_above_the_cores_of_this_machine_is_refused_for_a_local_server(counter: Counter) -> None:
    counter.cpu.limit_cores(2, "this machine, where 127.0.0.1:3306 is,")
    counter.prints("100")
    counter.prints(f"{100 + 2 * (10 + LAG_SECONDS)}", after_seconds=10.0)
    message = refused(counter, "700", after_seconds=10.0)
    assert "would need 30 busy cores; this machine, where 127.0.0.1:3306 is, has 2 cores" in message
    assert "if it prints hundredths of a second (0.3 cores), divide by 100" in message


def test_server_cpu_counter_that_does_not_grow_under_load_is_refused(counter: Counter) -> None:
    counter.prints("12.5")
    counter.prints("12.5", after_seconds=1.0)
    with pytest.raises(CostofError, match=r"it printed 12\.5 before and after 1,234 operations") as refused:
        counter.cpu.check_increase(1234)
    assert refused.value.message is ErrorText.SERVER_CPU_UNREAD
    counter.prints("12.51", after_seconds=1.0)
    counter.cpu.check_increase(1234)


#: A process that uses CPU time itself, in a child that has ended, and in a child that runs until its input ends. It
#: prints the CPU seconds of all three.
FAMILY = """
import os, resource, sys, time
def use(seconds):
    while time.process_time() < seconds:
        pass
if os.fork() == 0:
    use(0.3), os._exit(0)
os.wait()
ready, done = os.pipe()
if os.fork() == 0:
    use(0.4), os.write(done, b"%f" % time.process_time()), sys.stdin.read(), os._exit(0)
use(time.process_time() + 0.2)
running = float(os.read(ready, 20))
ended = resource.getrusage(resource.RUSAGE_CHILDREN)
print(time.process_time() + running + ended.ru_utime + ended.ru_stime, flush=True)
sys.stdin.read()
"""


def test_cpu_time_printed_by_the_script_of_the_manual_includes_child_processes(
    tmp_path: Path,
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "own-servers.md").read_text()
    script = tmp_path / "server-cpu.sh"
    script.write_text(page.partition("```sh\n")[2].partition("```")[0])
    script.chmod(0o755)
    command = [sys.executable, "-c", FAMILY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        used = float(process.stdout.readline())
        cpu = ServerCpu(f"{script} {process.pid}")
        # /proc counts the time of each process in hundredths of a second.
        assert cpu.seconds() == pytest.approx(used, abs=0.06)
        process.communicate("")
    with pytest.raises(CostofError):
        cpu.seconds()


def test_cpu_time_of_another_machine_is_not_counted_as_used_on_this_machine() -> None:
    access = Access("mysql://u:p@db.example/")
    service = TargetService(access, SysbenchTarget(access, "mysql-transport", "a-run", 1))
    used = {"server": 2.0, "gateway": 0.5}
    assert cpu_seconds_here(service, used) == 2.5
    service.server_cpu = ServerCpu("cat seconds")
    assert cpu_seconds_here(service, used) == 0.5
    service.server_cpu.limit_cores(2, "this machine")
    assert cpu_seconds_here(service, used) == 2.5


def test_only_loopback_addresses_are_on_this_machine() -> None:
    here = ["127.0.0.1:3306", "127.8.0.1:1", "[::1]:5432", "localhost:3306"]
    elsewhere = ["10.0.0.1:3306", "db.example:3306", "[fd00::1]:5432"]
    assert [address for address in here + elsewhere if is_loopback(address)] == here
