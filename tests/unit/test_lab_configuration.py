"""What the lab's server programs are started with: read as text, started nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from costof.errors import CostofError, Problem
from costof.lab import program
from costof.lab.certificates import Authority, new_key
from costof.lab.lab import Lab
from costof.programs import openssh
from costof.programs.mariadb import lab as mariadb
from costof.programs.mariadb.lab import quoted, system_tables

BINARY = Path("/usr/sbin/mariadbd")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab()
    lab.folder = tmp_path
    return lab


def test_mariadbd_reads_no_configuration_of_the_system(lab: Lab, tmp_path: Path) -> None:
    server = mariadb.MariadbServer(lab, Authority(tmp_path / "c"), ["127.0.0.9"])
    argv = server.command_line(BINARY)
    assert argv[:2] == [str(BINARY), "--no-defaults"]
    assert {"--bind-address=127.0.0.9", "--port=3306", f"--datadir={tmp_path}/mariadb/data"} <= set(argv)
    assert server.password.get_secret_value() not in " ".join(argv)


def test_every_setting_that_is_no_default_is_told_in_the_result(lab: Lab, tmp_path: Path) -> None:
    server = mariadb.MariadbServer(lab, Authority(tmp_path / "c"), ["127.0.0.9"])
    told = server.facts()["server settings"]
    assert all(f"{name}={value}" in told for name, value in mariadb.SETTINGS.items())


def test_the_password_is_quoted_in_the_bootstrap_statements(tmp_path: Path) -> None:
    assert quoted("a'b\\c") == "'a''b\\\\c'"


def test_openssl_configuration_lets_old_clients_in() -> None:
    assert "@SECLEVEL=0" in mariadb.OPENSSL_CONFIGURATION
    assert "MinProtocol = TLSv1\n" in mariadb.OPENSSL_CONFIGURATION


@pytest.mark.parametrize("kind", ["rsa-1024", "rsa-2048", "ecdsa-p256"])
def test_the_authority_makes_every_kind_of_key(kind: str) -> None:
    assert f"{new_key(kind).key_size}" in {"256", kind.removeprefix("rsa-")}


def test_sshd_reads_and_leaves_nothing_outside_its_folder(lab: Lab, tmp_path: Path) -> None:
    server = openssh.SshServer(lab, "127.0.0.9")
    server._folder = tmp_path / "sshd"
    settings = dict(line.split(" ", 1) for line in server.configuration(Path("/no/sbin/sshd")).splitlines())
    assert settings["ListenAddress"] == "127.0.0.9:2222"
    assert settings["HostKey"] == f"{tmp_path}/sshd/host_key"
    assert settings["AuthorizedKeysFile"] == f"{tmp_path}/sshd/authorized_keys"
    assert settings["PidFile"] == "none"
    assert (settings["UsePAM"], settings["PasswordAuthentication"], settings["Compression"]) == ("no", "no", "no")
    argv = server.command_line(Path("/usr/sbin/sshd"))
    assert argv[argv.index("-f") + 1] == f"{tmp_path}/sshd/sshd_config"


def test_an_sshd_that_was_unpacked_is_told_where_its_own_programs_lie(lab: Lab, tmp_path: Path) -> None:
    server = openssh.SshServer(lab, "127.0.0.9")
    older = server.configuration(tmp_path / "sbin/sshd")
    (tmp_path / "lib/openssh").mkdir(parents=True)
    (tmp_path / "lib/openssh/sshd-session").touch()
    newer = server.configuration(tmp_path / "sbin/sshd")
    assert newer == older + f"SshdSessionPath {tmp_path}/lib/openssh/sshd-session\n"


@pytest.mark.parametrize("prefix", ["mysql", "mariadb"])
def test_system_tables_are_found_by_either_name(prefix: str, tmp_path: Path) -> None:
    folder = tmp_path / "share/mariadb"
    folder.mkdir(parents=True)
    files = [folder / f"{prefix}_system_tables.sql", folder / f"{prefix}_system_tables_data.sql"]
    for file in files:
        file.touch()
    assert system_tables(tmp_path / "sbin/mariadbd") == files


def test_a_tunnel_reads_no_configuration_agent_or_key_of_the_user(lab: Lab, tmp_path: Path) -> None:
    server = openssh.SshServer(lab, "127.0.0.9")
    argv = server.tunnel_command_line(
        Path("/usr/bin/ssh"), "aes256-ctr", ("127.0.0.8", 3306), ("127.0.0.9", 3306), tmp_path / "control"
    )
    options = [argv[at + 1] for at, word in enumerate(argv) if word == "-o"]
    assert argv[1:3] == ["-F", "none"]
    assert argv[argv.index("-L") + 1] == "127.0.0.8:3306:127.0.0.9:3306"
    assert "-N" in argv
    assert {
        "Ciphers=aes256-ctr",
        "Compression=no",
        "ExitOnForwardFailure=yes",
        "IdentityAgent=none",
        "GlobalKnownHostsFile=none",
        "StrictHostKeyChecking=yes",
    } <= set(options)


@pytest.mark.parametrize(
    ("name", "package", "find"),
    [
        ("mariadbd", "mariadb-server-core", mariadb.find_mariadbd),
        ("ssh", "openssh-client", openssh.find_ssh),
        ("sshd", "openssh-server", openssh.find_sshd),
    ],
)
def test_a_missing_program_names_its_package(
    name: str, package: str, find: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(program, "FOLDERS", (tmp_path,))
    monkeypatch.delenv(f"COSTOF_{name.upper()}", raising=False)
    with pytest.raises(CostofError, match=f"apt-get install {package}") as missing:
        find()  # type: ignore[operator]
    assert missing.value.problem is Problem.PROGRAM_MISSING


def test_a_named_program_that_is_none_is_told_by_its_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COSTOF_MARIADBD", str(tmp_path))
    with pytest.raises(CostofError, match=f"COSTOF_MARIADBD={tmp_path} is no program"):
        mariadb.find_mariadbd()


def test_a_program_that_does_not_run_is_missing(tmp_path: Path) -> None:
    broken = tmp_path / "mariadbd"
    broken.write_text("#!/bin/sh\necho cannot open shared object >&2\nexit 127\n")
    broken.chmod(0o755)
    with pytest.raises(CostofError, match="cannot open shared object"):
        mariadb.mariadbd_version(broken)
