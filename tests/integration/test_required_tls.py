"""Required TLS: until its certificate is verified, a server receives only the request for TLS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from costof.lab.certificates import Authority
from costof.lab.lab import Lab
from costof.programs.mariadb.lab import MariadbServer
from costof.report.result import Result
from tests.support.command import Outcome, costof
from tests.support.programs import ADMIN, user_of_many_databases
from tests.support.small_plans import small_study
from tests.support.taps import Tap

from .conftest import PASSWORD, SMALL, Standalone

pytestmark = pytest.mark.servers
Start = Callable[..., Standalone]
HANDSHAKE = b"\x16\x03"
#: MySQL's request for TLS (SSLRequest): its header (the packet's length 32 and number 1), and its whole length.
REQUEST_HEADER, REQUEST_BYTES = b"\x20\x00\x00\x01", 36
MONGODB = [["run", "mongodb-tls", *SMALL, "--allow-plain"], ["run", "mongodb-chained-replication"], ["clean"]]
TRANSPORT = ["run", "mysql-transport", "--profile", "quick", "--set", "transport=tls"]
MYSQL = [TRANSPORT, ["run", "mysql-column-encryption"], ["clean"]]
#: For each command in MONGODB and MYSQL: the option in the URL that requires TLS; None means --tls-ca.
BY_URL = {"mongodb": [None, "tls=true", None], "mysql": ["ssl-mode=VERIFY_IDENTITY", None, "tls=1"]}


class PlainMariadb(MariadbServer):
    def command_line(self, binary: Path) -> list[str]:
        return [*super().command_line(binary), "--skip-ssl"]


@pytest.fixture(scope="module")
def mariadb(lab: Lab, authority: Authority) -> Iterator[Callable[..., MariadbServer]]:
    started = []

    def start(number: int, kind: type[MariadbServer] = MariadbServer) -> MariadbServer:
        server = kind(lab, authority, [lab.address(number)], name=f"mariadb-{number}")
        server.start()
        started.append(server)
        user_of_many_databases(server)
        return server

    yield start
    for server in started:
        server.close()


def refused(done: Outcome, tap: Tap, secret: str) -> list[bytes]:
    """Check that the command failed with one line without the secret. Return what it sent on each connection."""
    assert done.status == 1, done.out + done.err
    assert len(done.error_lines) == 1
    assert secret not in done.out + done.err
    return tap.sent()


def begins(sent: bytes, expected: bytes) -> bool:
    """Return whether the sent bytes start with the expected bytes. If fewer bytes were sent, compare only these."""
    return expected.startswith(sent[: len(expected)])


@pytest.mark.parametrize(("command", "option"), list(zip(MONGODB, BY_URL["mongodb"], strict=True)))
def test_only_a_tls_handshake_is_sent_to_mongodb_without_tls_if_tls_is_required(
    plain_mongodb: Standalone, authority: Authority, tmp_path: Path, command: list[str], option: str | None
) -> None:
    options = [] if option else ["--tls-ca", str(authority.ca_file)]
    with Tap(plain_mongodb.address) as tap:
        url = f"mongodb://tester:{PASSWORD}@127.0.0.1:{tap.port}/?authSource=admin{'&' + option if option else ''}"
        done = costof(*command, "--target", url, *options, cwd=tmp_path)
    sent = refused(done, tap, PASSWORD)
    assert any(sent)
    assert all(begins(each, HANDSHAKE) and b"tester" not in each for each in sent)
    assert "may accept only plain connections" in done.err


@pytest.fixture(scope="module")
def plain_mongodb(standalone: Start) -> Standalone:
    return standalone(40, tls="disabled")


@pytest.fixture(scope="module")
def plain_mariadb(mariadb: Callable[..., MariadbServer]) -> MariadbServer:
    return mariadb(41, PlainMariadb)


@pytest.mark.parametrize(("command", "option"), list(zip(MYSQL, BY_URL["mysql"], strict=True)))
def test_nothing_is_sent_to_a_mysql_server_without_tls_if_tls_is_required(
    plain_mariadb: MariadbServer, authority: Authority, tmp_path: Path, command: list[str], option: str | None
) -> None:
    server, options = plain_mariadb, [] if option else ["--tls-ca", str(authority.ca_file)]
    with Tap(f"{server.address}:{server.port}") as tap:
        url = f"mysql://{ADMIN}:{server.password.get_secret_value()}@127.0.0.1:{tap.port}/?{option or ''}"
        done = costof(*command, "--target", url, *options, cwd=tmp_path)
    sent = refused(done, tap, server.password.get_secret_value())
    # The client has connected but sent nothing, because the server's greeting does not offer TLS.
    assert sent
    assert set(sent) == {b""}
    assert "SSL is required but the server doesn't support it" in done.err


def test_ycsb_with_required_tls_sends_nothing_to_a_server_without_tls(
    plain_mariadb: MariadbServer, plain_mongodb: Standalone, tmp_path: Path
) -> None:
    for server, secret, first in (
        (f"{plain_mariadb.address}:{plain_mariadb.port}", plain_mariadb.password.get_secret_value(), b""),
        (plain_mongodb.address, PASSWORD, HANDSHAKE),
    ):
        with Tap(server) as tap:
            where = f"127.0.0.1:{tap.port}"
            properties = {
                "mysql": [f"db.url=jdbc:mysql://{where}/d?sslMode=REQUIRED", f"db.user={ADMIN}", f"db.passwd={secret}"],
                "mongodb": [f"mongodb.url=mongodb://tester:{secret}@{where}/d?tls=true&authSource=admin"],
            }["mongodb" if first else "mysql"]
            options = [word for each in [*properties, "recordcount=1"] for word in ("-p", each)]
            done = costof("ycsb", "load", "mongodb" if first else "mysql", *options, cwd=tmp_path)
        sent = refused(done, tap, secret)
        assert any(sent) == bool(first)
        assert all(begins(each, first) and ADMIN.encode() not in each and b"tester" not in each for each in sent)


@pytest.fixture(scope="module")
def tls_mongodb(standalone: Start) -> Standalone:
    """Start a MongoDB whose certificate is only for 127.0.0.1, the address of taps."""
    return standalone(44, names=["127.0.0.1"])


def test_certificate_for_another_name_is_rejected_before_login(
    tls_mongodb: Standalone, mariadb: Callable[..., MariadbServer], authority: Authority, tmp_path: Path
) -> None:
    server = mariadb(43)
    for url, host, address, secret, commands, request in (
        ("mongodb://tester", "localhost", tls_mongodb.address, PASSWORD, MONGODB, 0),
        (
            f"mysql://{ADMIN}",
            "127.0.0.1",
            f"{server.address}:{server.port}",
            server.password.get_secret_value(),
            MYSQL,
            REQUEST_BYTES,
        ),
    ):
        for command in commands:
            with Tap(address) as tap:
                target = f"{url}:{secret}@{host}:{tap.port}/"
                done = costof(*command, "--target", target, "--tls-ca", str(authority.ca_file), cwd=tmp_path)
            sent = refused(done, tap, secret)
            assert "certificate is not valid for" in done.err
            assert any(sent)
            for each in sent:
                assert begins(each, REQUEST_HEADER) or not request
                assert begins(each[request:], HANDSHAKE)
                assert b"tester" not in each
                assert ADMIN.encode() not in each


def test_run_with_tls_sends_nothing_in_plaintext(tls_mongodb: Standalone, authority: Authority, tmp_path: Path) -> None:
    with Tap(tls_mongodb.address) as tap:
        target = f"mongodb://tester:{PASSWORD}@127.0.0.1:{tap.port}/?authSource=admin"
        chosen = ["--set", "transport=tls", "--rounds", "2", "--tls-ca", str(authority.ca_file)]
        done = costof("run", small_study("mongodb-tls", tmp_path), *SMALL, *chosen, "--target", target, cwd=tmp_path)
        sent = tap.sent()
    assert done.status == 3, done.err
    (run,) = (tmp_path / "runs").iterdir()
    result = Result.model_validate_json((run / "result.json").read_bytes())
    errors = {arm.name: arm.error for arm in result.arms}
    assert errors["tls"] is None
    assert "--allow-plain" in (errors["plain"] or "")
    assert any(value.arm == "tls" for value in result.values)
    assert len(sent) > 10
    assert all(each.startswith(HANDSHAKE) for each in sent if each)


def test_comparison_that_needs_plaintext_is_rejected_without_option_allow_plain(
    authority: Authority, tmp_path: Path
) -> None:
    ca_file = authority.ca_file
    for command, url in (
        (["run", "mongodb-tls"], "mongodb://u:S3cret@127.0.0.1:1/?tls=true"),
        (["run", "mysql-transport", "--set", "transport=plain,tls"], "mysql://u:S3cret@127.0.0.1:1/?ssl-mode=required"),
        (["run", "mongodb-tls", "--tls-ca", str(ca_file), "--set", "transport=plain,tls"], "mongodb://u:S3cret@h/"),
    ):
        done = costof(*command, "--target", url, cwd=tmp_path)
        assert done.status == 2
        assert "--allow-plain" in done.error_lines[0]
        assert "S3cret" not in done.err
    assert not (tmp_path / "runs").exists()
