"""The engine and redis-py on a real Redis: log-ins and their errors, reads, writes, and TLS keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest
import redis
from pydantic import SecretStr

from costof.lab.certificates import Authority
from costof.lab.lab import Lab
from costof.messages.answers import SliceAnswer
from costof.messages.plan import PLAIN, Arm, Transport, Workload
from costof.messages.process import Instrument, application, engine
from costof.programs.redis.lab import PORT, TLS_PORT, USER
from tests.support import engines
from tests.support.engines import patient_plan, refusals
from tests.support.programs import HANGS_SECONDS
from tests.support.redis import RunningServer, users_redis

pytestmark = pytest.mark.servers
RECORDS = 1000
#: The number of YCSB records that are loaded; workloads insert more.
HASHES = 100
MIX = {
    "record_count": HASHES,
    "read_proportion": 0.2,
    "update_proportion": 0.2,
    "insert_proportion": 0.2,
    "scan_proportion": 0.2,
    "read_modify_write_proportion": 0.2,
}
WORKLOADS = [
    *(Workload(name=kind, kind=kind) for kind in ("connect", "query", "write", "load", "pipeline")),
    Workload(name="ycsb_load", kind="ycsb", ycsb={"phase": "load", "record_count": HASHES}),
    Workload(name="ycsb", kind="ycsb", ycsb=MIX),
    Workload(name="ycsb_fields", kind="ycsb", ycsb={**MIX, "read_all_fields": False}),
]
INSTRUMENTS: dict[str, Callable[[], Instrument]] = {"engine": engine, "redis-py": lambda: application("redis", {})}


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """Start one server with loaded strings, for all tests that do not change it."""
    with Lab() as lab, users_redis(lab) as server:
        loaded = measured(server, PLAIN, "load", RECORDS)
        assert (loaded.operations, loaded.errors) == (RECORDS, [])
        yield server


def measured(
    server: RunningServer, transport: Transport, workload: str, operations: int, **settings: object
) -> SliceAnswer:
    arm = Arm(name="arm", service=server.client_settings().with_settings(settings), transport=transport)
    return engines.measured(arm, WORKLOADS, workload, operations, RECORDS)


def test_redis_account_with_a_visible_password_can_only_get_and_set_strings(server: RunningServer) -> None:
    settings = server.client_settings()
    assert settings.visible_login is not None
    user, password = settings.visible_login
    host, _, port = settings.addresses[0].rpartition(":")
    with redis.Redis(host, int(port), username=user, password=password) as client:
        assert client.get("key:000000000001")
        for command in (("CONFIG", "GET", "dir"), ("FLUSHALL",), ("EVAL", "return 1", "0"), ("GET", "another")):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command)


def refused(
    server: RunningServer,
    instrument: str,
    seconds: float = HANGS_SECONDS,
    **arms: tuple[dict[str, object], Transport],
) -> dict[str, str]:
    """Return the class of the login error of each arm, by name, such as `{"no_password": "authentication"}`.

    An arm is a pair: changes of the usual client settings, such as `{"username": None}`, and a transport.
    """
    usual = server.client_settings()
    changed = {name: (usual.model_copy(update=update), transport) for name, (update, transport) in arms.items()}
    return refusals(INSTRUMENTS[instrument](), changed, seconds)


@pytest.mark.parametrize("instrument", INSTRUMENTS)
def test_rejected_redis_login_has_an_error_class_for_its_cause(server: RunningServer, instrument: str) -> None:
    wrong, other = SecretStr("wrong"), Authority(server.place.lab.folder / f"others-{instrument}")
    classes = refused(
        server,
        instrument,
        wrong_password=({"password": wrong}, PLAIN),
        wrong_password_by_resp2=({"password": wrong, "resp": 2}, PLAIN),
        wrong_password_by_tls=({"password": wrong}, server.tls),
        no_password=({"username": None, "password": None}, PLAIN),
        other_authority=({}, server.tls.trusting(other.ca_file)),
        nobody_there=({"addresses": [f"{server.address}:9"]}, PLAIN),
        plain_to_tls=({"addresses": [f"{server.address}:{TLS_PORT}"]}, PLAIN),
    )
    assert classes.pop("plain_to_tls") in {"engine": {"plain_refused"}, "redis-py": {"closed", "reset"}}[instrument]
    assert classes.pop("other_authority") == "tls_certificate_untrusted"
    assert classes.pop("nobody_there") == "refused"
    assert set(classes.values()) == {"authentication"}
    with server.showing_an_expired_certificate():
        assert refused(server, instrument, tls=({}, server.tls)) == {"tls": "tls_certificate_expired"}


@pytest.mark.parametrize("instrument", ["engine", pytest.param("redis-py", marks=pytest.mark.slow)])
def test_redis_login_that_fails_at_a_full_server_or_a_wrong_port_is_reported_by_error_class(
    server: RunningServer, instrument: str
) -> None:
    tls_to_plain = ({"tls_addresses": [f"{server.address}:{PORT}"]}, server.tls)
    assert refused(server, instrument, 10, tls_to_plain=tls_to_plain) == {"tls_to_plain": "tls_refused"}
    # Redis now accepts one connection, which is the administrator's. It rejects other connections in plaintext, even
    # before a TLS handshake, so clients with TLS only see a failed handshake.
    with server.configured("maxclients", "1"):
        by_tls = {"engine": "tls_refused", "redis-py": "tls_handshake"}[instrument]
        both = refused(server, instrument, plain=({}, PLAIN), tls=({}, server.tls))
        assert both == {"plain": "server", "tls": by_tls}


@pytest.mark.parametrize("resp", [2, 3])
@pytest.mark.parametrize("workload", ["query", "write", "pipeline"])
def test_redis_operation_takes_one_round_trip(server: RunningServer, workload: str, resp: int) -> None:
    for transport in (PLAIN, server.tls):
        answer = measured(server, transport, workload, 200, resp=resp)
        assert (answer.operations, answer.errors) == (200, [])
        assert (answer.phases["operation"].round_trips, answer.evidence["resp"]) == (200, str(resp))


@pytest.mark.parametrize("value_bytes", [100, 102400])
def test_redis_strings_of_each_size_are_stored_under_the_configured_key_prefix(
    server: RunningServer, value_bytes: int
) -> None:
    """The engine loads the strings. Application drivers find them by keys from `any_key`, so these keys must exist."""
    settings = {"key_prefix": "costof:1:", "value_bytes": value_bytes}
    assert measured(server, PLAIN, "load", RECORDS, **settings).operations == RECORDS
    key = server.client_settings().with_settings(settings).any_key(RECORDS, Random(value_bytes))
    assert key.startswith("costof:1:key:")
    assert (server.ask("STRLEN", key), server.ask("TTL", key)) == (value_bytes, -1)
    for workload in ("query", "write", "pipeline"):
        answer = measured(server, server.tls, workload, 50, **settings)
        assert (answer.operations, answer.errors) == (50, [])
    assert server.ask("STRLEN", key) == value_bytes


def called(server: RunningServer) -> dict[str, int]:
    """Return each command's number of executions. The test's own connection runs only INFO and CONFIG."""
    return {
        name.removeprefix("cmdstat_"): counters["calls"]
        for name, counters in server.ask("INFO", "commandstats").items()
    }


@pytest.mark.parametrize(
    ("tls", "workload", "commands"),
    [
        (False, "query", {"get": 1}),
        (True, "write", {"set": 1}),
        (True, "pipeline", {"get": 16}),
        (False, "connect", {"auth": 1, "get": 1}),
        (True, "connect", {"auth": 1, "get": 1}),
    ],
)
def test_redis_server_and_client_count_the_same_commands(
    server: RunningServer, workload: str, commands: dict[str, int], tls: bool
) -> None:
    """Server and client also count the same connections, TLS connections, and sent bytes (without TLS's overhead)."""
    service, transport = server.client_settings(), server.tls if tls else PLAIN
    server.expect_tls(tls)
    try:
        with engine() as client:
            arm = Arm(name="arm", service=service, transport=transport)
            assert client.plan(patient_plan([arm], WORKLOADS, RECORDS)).arms[0].error is None
            client.slice(1, "arm", workload, 10, HANGS_SECONDS)
            before, calls_before = server.counters(), called(server)
            earlier, bytes_before = server.bytes_received(), server.bytes_received()
            question = bytes_before - earlier
            answer = client.slice(2, "arm", workload, 200, HANGS_SECONDS)
            bytes_moved = server.bytes_received() - bytes_before - question
            increase, calls = server.counters().since(before), called(server)
    finally:
        server.expect_tls(tls=False)
    assert (answer.operations, answer.errors) == (200, [])
    assert {name: calls[name] - calls_before.get(name, 0) for name in commands} == {
        name: 200 * times for name, times in commands.items()
    }
    opened = answer.evidence["connections"]
    assert (increase.connections, increase.tls_connections) == (opened, {"TLS": opened if tls else 0})
    sent = [phase for name, phase in answer.phases.items() if name in ("auth", "first_operation", "operation")]
    on_the_wire = sum(phase.bytes_sent or 0 for phase in sent)
    # A TLS 1.3 record adds 22 bytes to its content (RFC 8446, 5.2), and each command is sent as one record.
    added = 22 * sum(phase.count for phase in sent) if tls else 0
    assert on_the_wire - added == bytes_moved


def test_read_of_a_missing_redis_key_is_a_server_error(server: RunningServer) -> None:
    for workload in ("query", "pipeline"):
        answer = measured(server, PLAIN, workload, 10, key_prefix="missing:")
        assert [(error.error_class, error.count) for error in answer.errors] == [("server", 10)]


def test_write_to_a_redis_without_free_memory_is_a_server_error(server: RunningServer) -> None:
    with server.configured("maxmemory", "1"):
        answer = measured(server, PLAIN, "write", 10)
    assert [(error.error_class, error.count) for error in answer.errors] == [("server", 10)]
    assert "OOM" in answer.errors[0].detail


@pytest.mark.parametrize("resp", [2, 3])
def test_ycsb_reads_the_records_that_it_has_written(server: RunningServer, resp: int) -> None:
    settings = {"key_prefix": f"ycsb{resp}:", "resp": resp}
    loaded = measured(server, PLAIN, "ycsb_load", HASHES, **settings)
    assert (loaded.operations, loaded.errors) == (HASHES, [])
    assert server.ask("ZCARD", f"ycsb{resp}:_indices") == HASHES
    for workload in ("ycsb", "ycsb_fields"):
        answer = measured(server, PLAIN, workload, 300, **settings)
        assert (answer.operations, answer.errors) == (300, [])
    assert server.ask("ZCARD", f"ycsb{resp}:_indices") > HASHES


def test_redis_read_without_permission_has_error_class_authentication(server: RunningServer) -> None:
    server.ask("ACL", "SETUSER", USER, "-get")
    try:
        answer = measured(server, PLAIN, "query", 5)
    finally:
        server.ask("ACL", "SETUSER", USER, "+get")
    assert [(error.error_class, error.count) for error in answer.errors] == [("authentication", 5)]
