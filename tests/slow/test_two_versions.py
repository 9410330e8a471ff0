"""A server before and after its upgrade to another release: costof never mixes runs on the two."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from costof.lab.lab import Lab
from tests.clients import programs
from tests.integration.conftest import costof_running, wait_for_slices
from tests.support.command import costof
from tests.support.postgres import another_postgres, users_postgres
from tests.support.programs import another_mariadb, url_of, users_mariadb

pytestmark = pytest.mark.servers
QUICK = ["--profile", "quick", "--seed", "1", "--set", "transport=plain,tls", "--set", "records=200"]
AT_LOAD = ["--load", "50/s", "--queries-per-connection", "3"]


@dataclass(frozen=True)
class Upgrade:
    """The upgrade of a server to a later release. A field with two values has the value of the old release first.

    `unpack` fetches a release, such as "17.5.0", into a folder and returns its program. `first` starts a server of the
    old release, and `second` one of the new release at the same address. `url` returns a server's URL.
    """

    study: str
    program: str
    unpack: Callable[[str, Path], Path]
    packages: tuple[str, str]
    versions: tuple[str, str]
    majors: tuple[str, str]
    first: Callable[[Lab], AbstractContextManager[Any]]
    second: Callable[[Lab, Any], AbstractContextManager[Any]]
    url: Callable[[Any], str]

    def arguments(self, server: Any, rounds: int) -> list[str]:
        reached = ["--target", self.url(server), "--tls-ca", str(server.ca_file), "--allow-plain"]
        return [self.study, *QUICK, *AT_LOAD, "--rounds", str(rounds), *reached]

    def measure(self, server: Any, run: Path) -> None:
        done = costof("run", *self.arguments(server, 5), "--out", str(run), cwd=run.parent)
        # A busy machine may leave too few rounds for an answer. The status is then 3.
        assert done.status in (0, 3), done.err

    def unpacked(self, which: int, lab: Lab) -> dict[str, str]:
        """Return environment variables that select the old (0) or new (1) release. Skip the test if it is missing."""
        try:
            return {f"COSTOF_{self.program.upper()}": str(self.unpack(self.packages[which], lab.new_folder()))}
        except programs.Absent as absent:
            pytest.skip(str(absent))


UPGRADES = {
    "postgres": Upgrade(
        study="postgres-tls",
        program="postgres",
        unpack=programs.postgres,
        packages=("17.5.0", "18.1.0"),
        versions=("17.5", "18.1"),
        majors=("17", "18"),
        first=users_postgres,
        second=another_postgres,
        url=lambda server: str(server.url("maker")),
    ),
    "mariadb": Upgrade(
        study="mysql-transport",
        program="mariadbd",
        unpack=programs.mariadb,
        packages=("10.11.5", "11.4.5"),
        versions=("10.11.5-MariaDB", "11.4.5-MariaDB"),
        majors=("10.11", "11.4"),
        first=users_mariadb,
        second=another_mariadb,
        url=url_of,
    ),
}


@dataclass(frozen=True)
class Upgraded:
    """Two complete runs in `folder`: `old` on the old release, `new` on the new one.

    `refusal` is the exit status and the error of an attempt to resume, on the new release, a run of the old release.
    """

    upgrade: Upgrade
    folder: Path
    refusal: str


@pytest.fixture(scope="module", params=UPGRADES)
def upgraded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Upgraded:
    upgrade, folder = UPGRADES[request.param], tmp_path_factory.mktemp("runs")
    (folder / "t").mkdir()
    (folder / "runs").mkdir()
    with Lab() as lab, Lab() as another, pytest.MonkeyPatch.context() as environment:
        for name, value in upgrade.unpacked(0, lab).items():
            environment.setenv(name, value)
        later = upgrade.unpacked(1, another)
        with upgrade.first(lab) as server:
            upgrade.measure(server, folder / "runs" / "old")
            with costof_running(folder / "begun", folder / "t", *upgrade.arguments(server, 50)) as process:
                wait_for_slices(process, folder / "begun", 4)
                process.send_signal(signal.SIGINT)
                process.communicate()
            lab.stop(request.param)
            for name, value in later.items():
                environment.setenv(name, value)
            with upgrade.second(another, server) as upgraded:
                password = {"COSTOF_PASSWORD": upgraded.password.get_secret_value()}
                resumed = costof("run", "--resume", str(folder / "begun"), cwd=folder, **password)
                upgrade.measure(upgraded, folder / "runs" / "new")
    return Upgraded(upgrade, folder / "runs", f"{resumed.status} {resumed.err}")


def test_run_is_not_resumed_on_another_release_of_its_server(upgraded: Upgraded) -> None:
    old, new = upgraded.upgrade.versions
    assert upgraded.refusal.startswith("2 ")
    assert f"its version was {old} and is now {new}" in upgraded.refusal


def test_costof_compare_names_the_server_release_of_each_run(upgraded: Upgraded) -> None:
    done = costof("compare", str(upgraded.folder / "old"), str(upgraded.folder / "new"), cwd=upgraded.folder)
    text = " ".join(done.out.split())
    assert all(version in text for version in upgraded.upgrade.versions)
    assert text.index(upgraded.upgrade.versions[0]) < text.index("Costs, relative to each run")


def test_costof_history_has_one_series_for_each_server_release(upgraded: Upgraded) -> None:
    done = costof("history", str(upgraded.folder), cwd=upgraded.folder)
    assert done.status == 0, done.err
    for major in upgraded.upgrade.majors:
        assert f"The server {major} (1 run)" in done.out
