"""The lab's hold on processes, with programs that every machine has."""

from __future__ import annotations

from collections.abc import Iterator
from math import fsum
from pathlib import Path

import pytest

from costof.errors import CostofError
from costof.lab.lab import Lab, descendants_of
from costof.messages.process import process_cpu_seconds
from tests.support.processes import alive
from tests.support.programs import eventually


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab() as lab:
        yield lab


def test_a_program_that_is_run_to_its_end_is_no_death(lab: Lab) -> None:
    for _ in range(10):
        lab.run("short", ["true"])
    assert lab.dead() == []
    assert lab.cpu_seconds() == {}


def test_a_program_that_fails_says_why(lab: Lab) -> None:
    with pytest.raises(CostofError, match="short: no such luck"):
        lab.run("short", ["sh", "-c", "echo no such luck; exit 3"])
    assert lab.dead() == []


def test_stopping_is_no_death_and_frees_the_name(lab: Lab) -> None:
    first = lab.spawn("server", "server", ["sleep", "1000"])
    lab.stop("server")
    assert not alive(first.pid)
    second = lab.spawn("server", "server", ["sleep", "1000"])
    assert lab.dead() == []
    assert alive(second.pid)


def test_an_end_that_nobody_asked_for_is_a_death(lab: Lab) -> None:
    lab.spawn("server", "server", ["sleep", "1000"])
    lab.kill("server")
    eventually("the death", lambda: [process.name for process in lab.dead()] == ["server"])


def test_a_child_in_a_session_of_its_own_ends_with_the_lab() -> None:
    with Lab() as lab:
        parent = lab.spawn("server", "server", ["sh", "-c", "setsid sh -c 'sleep 1000 & wait' & wait"], forks=True)
        # The shell, setsid's shell, and sleep.
        eventually("the children", lambda: len(descendants_of(parent.pid)) == 2)
        children = descendants_of(parent.pid)
    assert not [pid for pid in children if alive(pid)]


def test_the_time_of_children_is_counted_for_a_program_that_forks(lab: Lab) -> None:
    # A child that is at work without end, and a parent that only waits.
    alone, whole = (
        lab.spawn(name, name, ["sh", "-c", "(while :; do :; done) & wait"], forks=forks).pid
        for name, forks in (("alone", False), ("whole", True))
    )
    for pid in (alone, whole):
        eventually("more work of the child", lambda pid=pid: of_children(pid) > 2 * process_cpu_seconds(pid))
    assert lab.cpu_seconds()["alone"] <= process_cpu_seconds(alone)
    eventually("the child's time", lambda: lab.cpu_seconds()["whole"] > 2 * process_cpu_seconds(whole))


def of_children(pid: int) -> float:
    return fsum(process_cpu_seconds(child) for child in descendants_of(pid))


def test_a_folder_elsewhere_goes_with_the_lab() -> None:
    with Lab() as lab:
        folder = lab.new_folder()
        (folder / "file").touch()
        assert folder.parent == Path("/tmp")
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()
