"""The lab's MariaDB server: its start, users, TLS keys and counters."""

from __future__ import annotations

import contextlib
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from costof.errors import CostofError
from costof.lab.lab import Lab
from costof.programs.mariadb.lab import USER, MariadbServer, greets
from tests.support.programs import ask, eventually, log_in, query, running_mariadb, start_tls

pytestmark = pytest.mark.servers

KEYS = ("rsa-2048", "rsa-1024", "ecdsa-p256")


@pytest.fixture(scope="module")
def server(lab: Lab) -> Iterator[MariadbServer]:
    with running_mariadb(lab, *KEYS) as server:
        yield server


def client(server: MariadbServer) -> ssl.SSLContext:
    """Return the TLS settings of a client that verifies chain and name, and accepts even a key of 1024 bits."""
    context = ssl.create_default_context(cafile=server._authority.ca_file)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    return context


def key_shown(server: MariadbServer) -> str:
    with start_tls(server, client(server)) as connection:
        certificate = connection.getpeercert(binary_form=True)
    assert certificate
    key = x509.load_der_x509_certificate(certificate).public_key()
    if isinstance(key, ec.EllipticCurvePublicKey):
        return {"secp256r1": "ecdsa-p256"}[key.curve.name]
    assert isinstance(key, rsa.RSAPublicKey)
    return f"rsa-{key.key_size}"


def test_starting_mariadb_keeps_temporary_files_of_other_servers() -> None:
    """A starting MariaDB deletes all `#sql` files from its temporary folder, so servers must not share it."""
    with tempfile.NamedTemporaryFile(prefix="#sql-temptable-", suffix=".MAD", dir=tempfile.gettempdir()) as other:
        with Lab() as lab, running_mariadb(lab) as server:
            assert query(server, "SELECT 1") == "1"
        assert Path(other.name).exists()


def test_mariadb_of_the_lab_has_the_expected_configuration(server: MariadbServer, lab: Lab) -> None:
    assert server.version.startswith("10.11.")
    assert query(server, "SELECT @@datadir") == f"{lab.folder}/mariadb/data/"
    assert query(server, "SELECT @@socket").startswith(str(lab.folder))
    for name, value in {"skip_name_resolve": "1", "log_bin": "0", "performance_schema": "0"}.items():
        assert query(server, f"SELECT @@{name}") == value


def test_benchmark_account_of_mariadb_cannot_read_accounts_or_log_in_without_password(server: MariadbServer) -> None:
    with log_in(server) as connection, pytest.raises(pymysql.err.OperationalError, match="denied"):
        ask(connection, "SELECT * FROM mysql.global_priv")
    with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
        pymysql.connect(host=server.address, user=USER, password="wrong", ssl_disabled=True)
    with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
        pymysql.connect(host=server.address, user="root", password="", ssl_disabled=True)


def test_mariadb_keeps_open_connections_while_flush_ssl_changes_its_certificate_key(
    server: MariadbServer, lab: Lab
) -> None:
    pid = lab.processes["mariadb"].pid
    with log_in(server) as plain, start_tls(server, client(server)) as tls:
        for kind in KEYS[1:] + KEYS[:1]:
            server.show_key(kind)
            assert key_shown(server) == kind
            assert ask(plain, "SELECT 1") == "1"
            assert tls.version() == "TLSv1.3"
    assert lab.processes["mariadb"].pid == pid
    assert lab.dead() == []


def test_tls_counters_of_mariadb_continue_after_a_key_change(server: MariadbServer) -> None:
    before = server.counters()
    for number, kind in enumerate(("ecdsa-p256", "rsa-2048"), 1):
        server.show_key(kind)
        key_shown(server)
        query(server, "SELECT 1")
        # The client may finish the handshake before the server counts it.
        eventually("the server's end", lambda n=number: server.counters().since(before).tls_connections == {"TLS": n})
    assert server.counters().since(before).connections == 4


def test_greeting_check_succeeds_only_if_a_mysql_server_answers(server: MariadbServer) -> None:
    assert greets(server.address, server.port)
    assert not greets(server.address, server.port + 1)


def test_mariadb_that_cannot_start_is_reported_with_its_reason(lab: Lab, server: MariadbServer) -> None:
    second = MariadbServer(lab, server._authority, [server.address], name="second")
    with (
        contextlib.closing(second),
        pytest.raises(CostofError, match=r"second ended: .* another server running on port"),
    ):
        second.start()
    lab.processes.pop("second")
