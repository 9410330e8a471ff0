"""Passwords of targets appear in no file, output, error or process list, whatever characters they have."""

from __future__ import annotations

import contextlib
import functools
import html
import json
import os
import pty
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from costof.errors import ErrorText
from costof.lab.certificates import Authority
from costof.lab.lab import Lab
from costof.programs.mariadb.lab import MariadbServer
from costof.programs.password_variable import VARIABLE
from costof.services.server.lab import ServerLab
from tests.support.command import costof, refusal
from tests.support.programs import HANGS_SECONDS, eventually, running_mariadb
from tests.support.small_plans import plan_of, small_study

from .conftest import COSTOF, SMALL, Standalone, costof_running, descendants, slices_measured

pytestmark = pytest.mark.servers
USER = "shop"
HEAD, TAIL = "S3cretHead", "S3cretTail"
SIGNS = ["@", ":", "/", "?", "#", "%", " ", '"', "'", "+", "&", "\\", "ä", "密"]
ALL = HEAD + "".join(SIGNS) + TAIL


@functools.cache
def forms(password: str) -> set[str]:
    """Return a password in all encodings, and its first and last part, which a wrongly split URL may show."""
    written = {password, quote(password, safe=""), quote(password), quote_plus(password), html.escape(password)}
    written |= {json.dumps(password)[1:-1], json.dumps(password, ensure_ascii=False)[1:-1], repr(password)[1:-1]}
    return written | {HEAD, TAIL}


def assert_hidden(password: str, *texts: str) -> None:
    for text in texts:
        assert not [form for form in forms(password) if form in text]


def assert_left_hidden(password: str, folder: Path) -> None:
    """Assert that the password is in no file that a command left in a folder, nor in a file's name."""
    for path in folder.rglob("*"):
        content = path.read_bytes().decode(errors="replace") if path.is_file() else ""
        assert_hidden(password, str(path), content)


@pytest.fixture(scope="module")
def mariadb(lab: Lab, authority: Authority) -> Iterator[MariadbServer]:
    with running_mariadb(lab, authority=authority) as server:
        server._query(f"CREATE USER {USER} IDENTIFIED BY %s", ALL)
        server._query(f"GRANT ALL ON `costof\\_%%`.* TO {USER}".replace("%%", "%"))
        yield server


@pytest.fixture(scope="module")
def mongod(standalone: Callable[..., Standalone]) -> Standalone:
    server = standalone(70)
    with server.client() as client:
        roles = ["readWriteAnyDatabase", "clusterMonitor"]
        client.admin.command("createUser", USER, pwd=ALL, roles=roles)
    return server


def ycsb(binding: str, *properties: str) -> list[str]:
    every = ("recordcount=1", "operationcount=1", *properties)
    return ["ycsb", "run", binding, *(word for each in every for word in ("-p", each))]


def commands(mariadb: MariadbServer, mongod: Standalone, login: str) -> list[list[str]]:
    """Return commands that together use every kind of target; `login` has the user and password of the URLs."""
    mysql, mongodb = f"{mariadb.address}:{mariadb.port}", mongod.address
    quick = ["--profile", "quick"]
    return [
        ["run", "mongodb-tls", *SMALL, "--target", f"mongodb://{login}{mongodb}/"],
        ["run", "mongodb-chained-replication", *quick, "--target", f"mongodb://{login}{mongodb}/?w=1"],
        ["run", "mysql-transport", *quick, "--set", "transport=plain,tls", "--target", f"mysql://{login}{mysql}/"],
        ["run", "mysql-column-encryption", *quick, "--target", f"mysql://{login}{mysql}"],
        ["run", "http-tls-termination", *quick, "--target", f"https://{login}127.0.0.1/"],
        ["run", "http-tls-termination", "--target", "https://h/", "--plain-target", f"http://{login}127.0.0.1:1/"],
        ["clean", "--target", f"mongodb://{login}{mongodb}/"],
        ["clean", "--target", f"mysql://{login}{mysql}/"],
        ycsb("mongodb", f"mongodb.url=mongodb://{login}{mongodb}/d"),
        ycsb("mysql", f"db.url=jdbc:mysql://{login}{mysql}/d"),
        ["ab", f"http://{login}127.0.0.1:1/"],
    ]


#: Characters that separate parts of a URL. tests/unit/programs/test_connections.py tests other special characters.
@pytest.mark.parametrize(("signs", "written"), [("@:/", str), ("?#% +", str), ("@:/?#%密", quote_plus)])
def test_failing_subcommand_of_costof_never_prints_the_password(
    mariadb: MariadbServer,
    mongod: Standalone,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    signs: str,
    written: Callable[[str], str],
) -> None:
    """All commands fail: either the URL is invalid, or the server rejects the password."""
    monkeypatch.chdir(tmp_path)
    password = HEAD + signs + TAIL
    messages = []
    for command in commands(mariadb, mongod, f"{USER}:{written(password)}@"):
        failed = refusal(*command)
        messages.append(failed.message)
        printed = capsys.readouterr()
        assert_hidden(password, str(failed), printed.out, printed.err)
        assert_left_hidden(password, tmp_path)
    if written is not str:
        assert messages.count(ErrorText.TARGET_REFUSES_LOGIN) == 8


@pytest.fixture(scope="module")
def replica_set() -> Iterator[tuple[str, Path]]:
    """Start a replica set that plays a user's servers. Yield the hosts part of its URL, and its CA file."""
    plan = plan_of("mongodb-tls", "quick", "transport=plain,tls")
    with ServerLab(plan) as lab:
        tls = lab.endpoint(plan.protected[0])
        admin = lab.server.set.admin("primary").admin
        roles = ["readWriteAnyDatabase", "dbAdminAnyDatabase", "clusterMonitor"]
        admin.command("createUser", USER, pwd=ALL, roles=roles, writeConcern={"w": 3, "wtimeout": 60_000})
        assert tls.transport.ca_file is not None
        yield ",".join(tls.service.addresses), tls.transport.ca_file


#: For each study with a target: the settings of its smallest run.
LEAST = {
    "mongodb-tls": ["records=300", "transport=plain,tls"],
    "mysql-transport": ["records=300", "transport=plain,tls"],
    "mysql-column-encryption": ["encrypted=direct,100"],
    "mongodb-chained-replication": ["write_concern=1,majority"],
}


#: The only study that `make test` runs. It was chosen because it starts both the engine and an application's driver.
IN_MAKE_TEST = "mongodb-tls"


@pytest.fixture
def users_server(study: str, request: pytest.FixtureRequest) -> tuple[str, Path]:
    """Return the URL and the CA file of a target for the study. The URL has the placeholder `{login}`."""
    if study == "mongodb-chained-replication":
        hosts, ca_file = request.getfixturevalue("replica_set")
        return f"mongodb://{{login}}{hosts}/?replicaSet=costof", ca_file
    if study == "mongodb-tls":
        standalone: Standalone = request.getfixturevalue("mongod")
        return f"mongodb://{{login}}{standalone.address}/", standalone.ca_file
    server: MariadbServer = request.getfixturevalue("mariadb")
    return f"mysql://{{login}}{server.address}:{server.port}/", server.ca_file


def check_hidden_in_processes(pid: int, password: str) -> set[int]:
    """Assert that a process and its descendants show no password in arguments or environment. Return their pids."""
    pids = {pid, *descendants(pid)}
    for each in pids:
        # A process may have ended since it was listed.
        with contextlib.suppress(OSError):
            for name in ("cmdline", "environ"):
                assert_hidden(password, Path(f"/proc/{each}/{name}").read_bytes().decode(errors="replace"))
    return pids


@pytest.mark.parametrize(
    "study", [pytest.param(study, marks=[pytest.mark.slow] * (study != IN_MAKE_TEST)) for study in LEAST]
)
def test_files_and_processes_of_a_run_do_not_show_the_password(
    study: str, users_server: tuple[str, Path], tmp_path: Path, temporary: Path
) -> None:
    url, ca_file = users_server
    secret, run = quote(ALL, safe=""), tmp_path / "run"
    where = url.format(login=f"{USER}:{secret}@")
    size = ["--profile", "quick", "--rounds", "2", *(word for each in LEAST[study] for word in ("--set", each))]
    trust = ["--tls-ca", str(ca_file), "--allow-plain"]
    with costof_running(run, temporary, small_study(study, tmp_path), *size, "--target", where, *trust) as process:
        started: set[int] = set()

        def measured_after_a_check() -> bool:
            measured = slices_measured(run) > 0
            started.update(check_hidden_in_processes(process.pid, ALL) if run.exists() else ())
            return measured or process.poll() is not None

        # Look at the processes again and again from the start: some may end before the first slice is recorded.
        eventually("measuring", measured_after_a_check)
        assert started - {process.pid}
        out, err = process.communicate(timeout=HANGS_SECONDS)
    assert process.returncode == 0, err
    assert_hidden(ALL, out, err)
    assert_left_hidden(ALL, tmp_path)
    assert_left_hidden(ALL, temporary)
    assert {path.name for path in run.iterdir()} >= {"plan.json", "slices.jsonl", "result.json", "report.html"}
    shown = json.loads((run / "plan.json").read_text())["target"]
    assert shown == where.replace(secret, "<redacted>")


SCRIPT = Path(sys.executable).with_name("costof")


def test_arguments_and_environment_of_the_process_are_hidden_before_its_first_connection(tmp_path: Path) -> None:
    """tests/unit/cli/test_commands.py tests which commands hide their arguments."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        at = f"127.0.0.1:{listening.getsockname()[1]}"
        arguments = ycsb("mysql", f"db.url=jdbc:mysql://u@{at}/d", f"db.passwd={HEAD}")
        environment, quiet = {**os.environ, VARIABLE: TAIL}, subprocess.DEVNULL
        process = subprocess.Popen([str(SCRIPT), *arguments], cwd=tmp_path, env=environment, stdout=quiet, stderr=quiet)
        try:
            listening.settimeout(HANGS_SECONDS)
            # The command waits some seconds for the server's response, so its arguments can be read.
            with listening.accept()[0]:
                assert Path(f"/proc/{process.pid}/cmdline").read_text().startswith("costof ycsb")
                check_hidden_in_processes(process.pid, HEAD)
        finally:
            process.kill()
            process.wait()


def test_password_is_accepted_from_each_possible_source(mariadb: MariadbServer, tmp_path: Path) -> None:
    """The command is `clean`, which only has to log in."""
    file, url = tmp_path / "password", f"mysql://{USER}@{mariadb.address}:{mariadb.port}/"
    file.write_text(ALL + "\n")
    assert "nothing to remove" in costof("clean", "--target", url, "--password-file", str(file), cwd=tmp_path).out
    assert "nothing to remove" in costof("clean", "--target", url, cwd=tmp_path, **{VARIABLE: ALL}).out
    printed = prompted([*COSTOF, "clean", "--target", url, "--ask-password"], ALL)
    assert "nothing to remove" in printed
    assert_hidden(ALL, printed)
    assert costof("clean", "--target", url, cwd=tmp_path).status in (1, 2)


def prompted(argv: list[str], password: str) -> str:
    """Run a command at a terminal, enter the password at its prompt, and return all that the terminal shows."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(argv[0], argv)  # noqa: S606  # argv is the test's own
    shown = b""
    with open(terminal, "rb+", buffering=0) as screen:  # noqa: PTH123  # a file descriptor
        with contextlib.suppress(OSError):
            while b"Password:" not in shown:
                shown += screen.read(4096)
            screen.write(password.encode() + b"\n")
            while more := screen.read(4096):
                shown += more
        os.waitpid(pid, 0)
    return shown.decode(errors="replace")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--password-file", "nowhere"], "No such file"),
        (["--password-file", "two"], "more than one line"),
        (["--password-file", "latin"], "not UTF-8"),
        (["--password-file", "good", "--ask-password"], "given twice"),
        (["--password-file", "good", "--target", "mysql://u:own@h/"], "given twice"),
        (
            ["--target", "https://h/", "--plain-target", "http://h/", "--password-file", "good"],
            "works only with --target",
        ),
    ],
)
def test_unusable_password_source_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two").write_text(f"{HEAD}\n{TAIL}\n")
    Path("latin").write_bytes(HEAD.encode() + b"\xff")
    Path("good").write_text(HEAD)
    study = "http-tls-termination" if "--plain-target" in more else "mysql-transport"
    target = [] if "--target" in more else ["--target", "mysql://u@h/"]
    refused = refusal("run", study, "--set", "transport=plain,tls", "--dry-run", *target, *more)
    assert message in str(refused)
    assert_hidden(HEAD, str(refused))
    assert refused.exit_status == 2
