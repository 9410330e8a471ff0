"""Runs of an ordinary user with clients at a simulated distance, whose hosts are in a user namespace.

The arms at a distance have the same evidence as in a run of root. If the machine forbids user namespaces, the error
names a remedy.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from costof.lab.network import TUN
from costof.lab.supervisor import parents
from costof.lab.user_namespace import prefix
from costof.report import analyse
from costof.report.result import Result
from costof.results.ledger import Ledger
from costof.results.run import read_run
from tests.support.ordinary_user import ROOT, folder_of_ordinary_user, ordinary_user
from tests.support.programs import SHORTER_MS
from tests.support.small_plans import small_study

from .conftest import COSTOF, SMALL, alive, costof_running, descendants, eventually, processes_of, wait_for_slices

pytestmark = pytest.mark.servers
STUDY, TUNNEL = "mysql-transport", "ssh-aes256-ctr"
FAR_MS = 20.0
FAR = ["--set", f"distance=lan,{FAR_MS:g}"]
KINDS = ("user", "mnt", "net")


@pytest.fixture(scope="module", autouse=True)
def able() -> None:
    """Skip the tests if this machine, such as a container, has no user namespaces or no TUN device."""
    tried = [*ordinary_user(), "unshare", "--user", "--net", "true"]
    if subprocess.run(tried, capture_output=True, check=False).returncode != 0:
        pytest.skip("no user namespaces here")
    if not TUN.exists():
        pytest.skip(f"this kernel has no {TUN}")


@pytest.fixture(scope="module")
def finished() -> Iterator[tuple[Path, list[str]]]:
    """Run plain, TLS and a tunnel on a LAN and at 20 ms. Yield the run's folder, and names of leftover files."""
    with folder_of_ordinary_user() as folder:
        study, short = small_study(STUDY, folder), ["--set", f"transport=plain,tls,{TUNNEL}", "--rounds", "2"]
        temporary, small = made(folder / "t"), [study, *SMALL, *FAR, *short]
        with costof_running(folder / "run", temporary, *small, prefix=ordinary_user()) as process:
            _, err = process.communicate()
        assert process.returncode == 0, err
        assert not processes_of(temporary)
        yield folder / "run", [path.name for path in temporary.iterdir()]


@pytest.fixture(scope="module")
def result(finished: tuple[Path, list[str]]) -> Result:
    return analyse(Ledger.open(finished[0]))


def made(folder: Path) -> Path:
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    return folder


def test_run_without_root_leaves_only_its_report_behind(finished: tuple[Path, list[str]]) -> None:
    run, left = finished
    assert left == []
    assert {path.stat().st_uid for path in run.iterdir()} == {run.parent.stat().st_uid}
    assert (run / "report.html").is_file()


def test_run_without_root_has_evidence_for_arms_at_a_distance(result: Result) -> None:
    assert "network namespace" in result.environment["topology"]
    for method in ("ICMP", "TCP_INFO"):
        (far,) = [link for link in result.links if link.nominal_ms == FAR_MS and link.method == method]
        assert far.median_ms >= FAR_MS - SHORTER_MS
    arms = {arm.name: arm for arm in result.arms}
    assert arms.keys() >= {f"{name}@{FAR_MS:g}" for name in ("plain", "tls", TUNNEL)}
    assert not any(arm.error for arm in result.arms)
    assert any(each.facts["protocol"] == "TLSv1.3" for each in arms[f"tls@{FAR_MS:g}"].evidence)


def test_far_connections_of_a_run_without_root_take_the_expected_number_of_round_trips(
    finished: tuple[Path, list[str]], result: Result
) -> None:
    trips = {value.arm: value.round_trips for value in result.values if value.metric == "wire.connect"}
    assert (trips[f"plain@{FAR_MS:g}"], trips[f"tls@{FAR_MS:g}"]) == (3, 4)
    run = read_run(Ledger.open(finished[0]))
    # A tunnel accepts TCP at the client's end, so the TCP handshake crosses no link.
    for arm, count in {"plain": 3, "tls": 4, TUNNEL: 2}.items():
        slices = run.counted_slices("connect", f"{arm}@{FAR_MS:g}")
        quickest_ms = min(each.answer.phases["connect"].min_ns for each in slices) / 1e6
        assert quickest_ms >= count * (FAR_MS - SHORTER_MS), arm


def namespaces_of(pids: Iterable[int]) -> set[tuple[str, int]]:
    namespaces = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            namespaces |= {(kind, Path(f"/proc/{pid}/ns/{kind}").stat().st_ino) for kind in KINDS}
    return namespaces


@pytest.mark.slow
def test_kill_9_of_a_run_without_root_leaves_nothing_behind() -> None:
    with folder_of_ordinary_user() as folder:
        temporary, run = made(folder / "t"), folder / "run"
        with costof_running(run, temporary, STUDY, *SMALL, *FAR, prefix=ordinary_user()) as process:
            wait_for_slices(process, run, 2)
            started = descendants(process.pid)
            others = namespaces_of(parents())
            assert {Path(words[0].split(":")[0]).name for words in started.values()} >= {"mariadbd", "sshd", "ssh"}
            of_run = namespaces_of([process.pid, *started]) - namespaces_of([os.getpid()])
            # The run has one user namespace and three network namespaces: one for servers, two for clients (near, far).
            assert len([kind for kind, _ in of_run if kind == "net"]) == 3
            assert len([kind for kind, _ in of_run if kind == "user"]) == 1
            assert of_run <= others
            process.send_signal(signal.SIGKILL)
            process.wait()
        eventually("the teardown", lambda: not alive(started))
        eventually("the removal", lambda: not any(temporary.iterdir()))
        # A namespace exists as long as a process or a mounted file uses it. The run mounted such files only in its own
        # mount namespace.
        assert not of_run & namespaces_of(parents())


LAB = """
import json, sys
from costof.services.open import open_service
from tests.support.small_plans import plan_of
plan = plan_of(sys.argv[1], "quick", *sys.argv[2:])
with open_service(plan, None, "run") as lab:
    for arm in plan.arms:
        lab.arrange(arm)
        assert lab.prefix(arm), arm.name
        assert lab.failure_reason(arm) is None, arm.name
    print(json.dumps({"topology": lab.describe().topology, "warnings": lab.warnings()}))
"""


@pytest.mark.parametrize(
    ("study", "settings"),
    [
        ("http-tls-termination", ["termination=none,balancer", "balancer=haproxy,nginx"]),
        pytest.param("postgres-pooling", ["path=plain,transaction-both"], marks=pytest.mark.slow),
        pytest.param("mysql-column-encryption", ["encrypted=direct,0"], marks=pytest.mark.slow),
    ],
)
def test_lab_of_an_ordinary_user_has_hosts_and_warns_about_missing_cpu_limits(study: str, settings: list[str]) -> None:
    argv = [*ordinary_user(), *prefix(), sys.executable, "-c", LAB, study, *settings]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    assert "network namespace" in output["topology"]
    assert any("without root" in warning for warning in output["warnings"])


def doctor(user: list[str]) -> list[str]:
    command = [*user, *COSTOF, "doctor"]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT).stdout.splitlines()


def refused(user: list[str]) -> str:
    """Start a run with arms at a distance as this user. It must fail and leave no folder. Return its error."""
    with folder_of_ordinary_user() as folder:
        far = [*user, *COSTOF, "run", STUDY, *SMALL, *FAR, "--out", str(folder / "run")]
        done = subprocess.run(far, capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode == 1
        assert not [*folder.iterdir()]
    (output,) = [line for line in done.stderr.splitlines() if line.startswith("costof:")]
    assert f"the link '{FAR_MS:g}ms'" in output
    return output


def test_forbidden_user_namespaces_are_reported_with_a_remedy() -> None:
    assert "sudo sysctl user.max_user_namespaces=" in refused(ordinary_user(forbidden=True))


@pytest.mark.slow
def test_inaccessible_tun_device_is_reported_with_a_remedy() -> None:
    user, allowed_by = ordinary_user(tun_mode="0600"), f"sudo chmod 0666 {TUN}"
    (line,) = [line for line in doctor(user) if "far links" in line]
    if "netem" in line and line.startswith("ok"):
        pytest.skip("this kernel has netem, and needs no device")
    assert allowed_by in line
    assert allowed_by in refused(user)
