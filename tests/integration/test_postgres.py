"""The engine and psycopg on a real PostgreSQL: errors, messages and written data."""

from __future__ import annotations

import contextlib
import datetime
import os
import select
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import pq
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from costof.lab.certificates import Authority
from costof.lab.lab import Lab, descendants_of
from costof.messages.answers import SliceAnswer
from costof.messages.plan import PLAIN, Arm, Transport, Workload
from costof.messages.process import Instrument, application, engine
from costof.programs.postgres.connection import PostgresSettings
from costof.programs.postgres.lab import ACCESS, NAME, SCALE, USER
from tests.support import engines
from tests.support.engines import patient_plan, refusals, slices_until_met
from tests.support.postgres import RunningServer, a_server
from tests.support.programs import HANGS_SECONDS, eventually
from tests.support.taps import Tap

pytestmark = pytest.mark.servers
RECORDS = 1000
WORKLOADS = [
    *(Workload(name=kind, kind=kind) for kind in ("connect", "query", "load", "pipeline")),
    Workload(name="tpcb", kind="tpcb", workers=8),
]
DRIVERS: dict[str, Callable[[], Instrument]] = {
    "psycopg": lambda: application("postgres", {}),
    "asyncpg": lambda: application("asyncpg", {}),
}
INSTRUMENTS = {"engine": engine, **DRIVERS}


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """Start one server with pgbench's accounts, for all tests that do not change it."""
    with Lab() as lab, a_server(lab) as server:
        loaded = measured(server, PLAIN, "load", RECORDS)
        assert (loaded.operations, loaded.errors) == (RECORDS, [])
        server.settle()
        yield server


def measured(
    server: RunningServer, transport: Transport, workload: str, operations: int, **settings: object
) -> SliceAnswer:
    arm = Arm(name="arm", service=server.client_settings().with_settings(settings), transport=transport)
    return engines.measured(arm, WORKLOADS, workload, operations, RECORDS)


def refused(instrument: str, **arms: tuple[PostgresSettings, Transport]) -> dict[str, str]:
    return refusals(INSTRUMENTS[instrument](), arms)


@pytest.mark.parametrize("instrument", ["engine", "psycopg", pytest.param("asyncpg", marks=pytest.mark.slow)])
def test_failed_postgres_login_has_an_error_class_for_its_cause(server: RunningServer, instrument: str) -> None:
    usual = server.client_settings()
    wrong = usual.model_copy(update={"password": SecretStr("wrong")})
    other = Authority(server.place.lab.folder / f"others-{instrument}")
    classes = refused(
        instrument,
        wrong_password=(wrong, PLAIN),
        wrong_password_by_tls=(wrong, server.tls),
        other_authority=(usual, server.tls.trusting(other.ca_file)),
        no_database=(usual.model_copy(update={"database": "missing"}), PLAIN),
        nobody_there=(usual.model_copy(update={"addresses": [f"{server.address}:9"]}), PLAIN),
        tls_at_once=(usual.with_settings({"negotiation": "direct"}), server.tls),
    )
    assert classes.pop("tls_at_once") in {"tls_refused", "tls_handshake", "closed", "reset"}
    assert classes == {
        "wrong_password": "authentication",
        "wrong_password_by_tls": "authentication",
        "other_authority": "tls_certificate_untrusted",
        "no_database": "server",
        "nobody_there": "refused",
    }
    with server.showing(datetime.timedelta(days=-1)), server.admitting(ACCESS.replace("host all", "hostssl all")):
        # libpq does not report that the certificate has expired.
        cause = "untrusted" if instrument == "psycopg" else "expired"
        expected = {"plain": "plain_refused", "tls": f"tls_certificate_{cause}"}
        assert refused(instrument, plain=(usual, PLAIN), tls=(usual, server.tls)) == expected


@pytest.mark.parametrize("instrument", ["engine", *(pytest.param(each, marks=pytest.mark.slow) for each in DRIVERS)])
def test_postgres_that_accepts_no_connection_is_reported_with_an_error_class(
    server: RunningServer, instrument: str
) -> None:
    both = {"plain": (server.client_settings(), PLAIN), "tls": (server.client_settings(), server.tls)}
    with server.without_tls(), server.of_connections(0):
        assert refused(instrument, **both) == {"plain": "server", "tls": "tls_refused"}
    with server.admitting("local all all scram-sha-256\n"):
        assert refused(instrument, tls=both["tls"]) == {"tls": "authentication"}


#: The names that libpq's log uses for a client's messages, by the type byte of the message. Messages of type `p` have
#: one of the two names in PROOF.
MESSAGES = {b"P": "Parse", b"B": "Bind", b"D": "Describe", b"E": "Execute", b"S": "Sync", b"X": "Terminate"}
PROOF = ("SASLInitialResponse", "SASLResponse")


def test_engine_sends_the_same_messages_as_libpq(server: RunningServer, tmp_path: Path) -> None:
    with Tap(server.client_settings().addresses[0]) as tap:
        tapped = server.client_settings().model_copy(update={"addresses": [f"127.0.0.1:{tap.port}"]})
        with engine() as client:
            client.plan(patient_plan([Arm(name="arm", service=tapped)], WORKLOADS, RECORDS))
            client.slice(1, "arm", "connect", 1, HANGS_SECONDS)
    _proving, measured = tap.sent()
    assert messages(measured) == logged_by_libpq(server, tmp_path / "log")


def messages(sent: bytes) -> list[str]:
    """Return the names of the messages in the bytes that a client sent on a connection without TLS."""
    classes, proof, at = ["StartupMessage"], iter(PROOF), int.from_bytes(sent[:4])
    while at < len(sent):
        classes.append(next(proof) if sent[at : at + 1] == b"p" else MESSAGES[sent[at : at + 1]])
        at += 1 + int.from_bytes(sent[at + 1 : at + 5])
    return classes


def logged_by_libpq(server: RunningServer, log: Path) -> list[str]:
    """Return the names of the messages that libpq sends (PQtrace) to connect and run a prepared query of psycopg."""
    settings = make_conninfo(server.url(USER), sslmode="disable", gssencmode="disable")
    connecting = pq.PGconn.connect_start(settings.encode())
    with log.open("w") as file:
        connecting.trace(file.fileno())
        while (step := connecting.connect_poll()) != pq.PollingStatus.OK:
            reading = step == pq.PollingStatus.READING
            select.select(*([connecting.socket] if each else [] for each in (reading, not reading, False)))
        with psycopg.Connection(connecting) as connection:
            connection.autocommit = True
            connection.execute(server.client_settings().select("%s"), (1,), prepare=True)
    # Each line has a time, a direction (F: from the client), a length and a name.
    lines = [line.split("\t") for line in log.read_text().splitlines()]
    return [line[3] for line in lines if line[1] == "F"]


def round_trips(answer: SliceAnswer) -> dict[str, float]:
    return {name: (phase.round_trips or 0) / phase.count for name, phase in answer.phases.items()}


def test_engine_logs_in_to_postgres_with_channel_binding(server: RunningServer) -> None:
    answer = measured(server, server.tls, "connect", 5, channel_binding=True)
    assert (answer.operations, answer.errors) == (5, [])
    assert answer.evidence["mechanism"] == "SCRAM-SHA-256-PLUS"


@pytest.mark.parametrize(
    ("statements", "results"),
    [("simple", "text"), ("extended", "binary"), ("prepared", "text"), ("prepared", "binary")],
)
def test_query_takes_one_round_trip_in_every_query_protocol_of_postgres(
    server: RunningServer, statements: str, results: str
) -> None:
    for workload in ("query", "pipeline"):
        answer = measured(server, server.tls, workload, 50, statements=statements, results=results)
        assert (answer.operations, answer.errors) == (50, [])
        assert round_trips(answer) == {"operation": 1}


@pytest.mark.parametrize("statements", ["simple", "extended", "prepared"])
def test_tpcb_transactions_keep_balances_consistent(server: RunningServer, statements: str) -> None:
    """The sums of all balances of accounts, tellers and branches equal the sum in the history (pgbench's invariant)."""
    before = history(server)
    answer = measured(server, PLAIN, "tpcb", 200, statements=statements)
    assert (answer.operations, answer.errors) == (200, [])
    assert round_trips(answer) == {"operation": 7}
    after = history(server)
    assert after[0] - before[0] == 200
    tables = ("accounts", "abalance"), ("tellers", "tbalance"), ("branches", "bbalance")
    sums = [server.ask(f"SELECT sum({balance}) FROM pgbench_{table}") for table, balance in tables]  # noqa: S608
    assert sums == [[(after[1],)]] * 3


def history(server: RunningServer) -> tuple[int, int]:
    ((count, total),) = server.ask("SELECT count(*), coalesce(sum(delta), 0) FROM pgbench_history")
    return count, total


def test_loaded_accounts_have_the_numbers_and_branches_of_pgbench(server: RunningServer) -> None:
    ((accounts, branches, least, most),) = server.ask(
        "SELECT count(*), count(DISTINCT bid), min(aid), max(aid) FROM pgbench_accounts"
    )
    assert (accounts, branches, least, most) == (RECORDS, SCALE, 1, RECORDS)


def test_loading_an_existing_account_is_a_server_error(server: RunningServer) -> None:
    again = measured(server, PLAIN, "load", RECORDS)
    assert again.operations == 0
    (error,) = again.errors
    assert error.error_class == "server"
    assert "23505" in error.detail


def test_postgres_counts_all_connections_and_those_with_tls(server: RunningServer) -> None:
    before = server.counters()
    plain, tls = measured(server, PLAIN, "connect", 7), measured(server, server.tls, "connect", 5)
    increase = server.counters().since(before)
    # Before the 7 and 5 measured connections, each instrument opened one connection to verify the arm.
    assert (increase.connections, (increase.tls_connections or {})["TLSv1.3"]) == (7 + 1 + 5 + 1, 5 + 1)
    assert (plain.evidence["server_side"], plain.evidence["mechanism"]) == ("none", "SCRAM-SHA-256")
    assert tls.evidence["server_side"] == tls.evidence["protocol"] == "TLSv1.3"


def test_engine_continues_after_a_crash_of_postgres(server: RunningServer) -> None:
    """This test must be the last one, since it ends the server."""
    lab = server.place.lab
    with engine() as client:
        client.plan(patient_plan([Arm(name="arm", service=server.client_settings())], WORKLOADS, RECORDS))
        client.slice(0, "arm", "tpcb", 1, HANGS_SECONDS)

        def kill_one() -> None:
            eventually("a query", lambda: bool(server.backends()))
            os.kill(server.backends()[0], signal.SIGKILL)

        answers = slices_until_met(kill_one, lambda: client.slice(1, "arm", "tpcb", 2000, HANGS_SECONDS))
        # After a crash of one backend, PostgreSQL ends all other backends and recovers (SQLSTATE 57P02, 57P03).
        assert {error.error_class for error in answers[-1].errors} <= {"closed", "reset", "refused"}
        eventually("others", lambda: client.slice(2, "arm", "tpcb", 10, HANGS_SECONDS).operations == 10)
        for pid in (lab.processes[NAME].pid, *descendants_of(lab.processes[NAME].pid)):
            # The process may have ended together with its parent, which was killed first.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        answer = client.slice(1, "arm", "connect", 5, HANGS_SECONDS)
        assert answer.operations == 0
        # The kernel may accept a connection after the server's end.
        assert {error.error_class for error in answer.errors} <= {"refused", "reset", "closed"}
