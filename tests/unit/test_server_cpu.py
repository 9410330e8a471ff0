"""CPU time that a command of the user's tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from costof.errors import CostofError, Problem
from costof.services.server_cpu import ServerCpu

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


@pytest.mark.parametrize("text", ["", "  ", "sh -c 'x"])
def test_what_is_no_command_is_refused(text: str) -> None:
    with pytest.raises(CostofError) as refused:
        ServerCpu(text)
    assert refused.value.problem is Problem.BAD_SERVER_CPU
