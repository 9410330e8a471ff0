"""Redis as a real server speaks it: log-ins and their refusals, what is read and written, and its key."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pydantic import SecretStr

from costof.ipc.answers import SliceAnswer
from costof.ipc.plan import PLAIN, Arm, Transport, Workload
from costof.ipc.process import Instrument, application, engine
from costof.lab.certificates import Authority
from costof.lab.lab import Lab
from costof.programs.redis.server import PORT, TLS_PORT, USER
from costof.programs.redis.settings import RedisSettings
from tests.support.engines import patient_plan
from tests.support.programs import HANGS_SECONDS
from tests.support.redis import Standing, a_redis

pytestmark = pytest.mark.servers
RECORDS = 1000
#: Of YCSB's records; more are inserted.
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
#: Who may meet a server: the engine, and the driver of applications.
INSTRUMENTS: dict[str, Callable[[], Instrument]] = {"engine": engine, "redis-py": lambda: application("redis", {})}


@pytest.fixture(scope="module")
def server() -> Iterator[Standing]:
    """One for all tests that leave it as it was, with its strings loaded."""
    with Lab() as lab, a_redis(lab) as server:
        loaded = measured(server, PLAIN, "load", RECORDS)
        assert (loaded.operations, loaded.errors) == (RECORDS, [])
        yield server


def measured(server: Standing, transport: Transport, workload: str, operations: int, **asked: object) -> SliceAnswer:
    service = server.client_settings().asking(asked)
    with engine() as client:
        ready = client.plan(patient_plan([Arm(name="arm", service=service, transport=transport)], WORKLOADS, RECORDS))
        assert ready.arms[0].error is None
        return client.slice(1, "arm", workload, operations, HANGS_SECONDS)


def refusal(instrument: str, service: RedisSettings, transport: Transport) -> str:
    """The class of the one error that comes of a log-in."""
    with INSTRUMENTS[instrument]() as client:
        ready = client.plan(patient_plan([Arm(name="arm", service=service, transport=transport)], [], RECORDS))
        error = ready.arms[0].error
        assert error is not None
        assert error.detail
        assert service.password is None or service.password.get_secret_value() not in error.detail
        return error.error_class


@pytest.mark.parametrize("instrument", INSTRUMENTS)
class TestRefusals:
    @pytest.mark.parametrize("resp", [2, 3])
    def test_a_wrong_password(self, server: Standing, instrument: str, resp: int) -> None:
        service = server.client_settings().model_copy(update={"password": SecretStr("wrong"), "resp": resp})
        assert refusal(instrument, service, PLAIN) == "authentication"
        assert refusal(instrument, service, server.tls) == "authentication"

    def test_no_password(self, server: Standing, instrument: str) -> None:
        service = server.client_settings().model_copy(update={"username": None, "password": None})
        assert refusal(instrument, service, PLAIN) == "authentication"

    def test_a_certificate_of_another_authority(self, server: Standing, instrument: str) -> None:
        other = Authority(server._place.lab.folder / f"others-{instrument}")
        transport = server.tls.trusting(other.ca_file)
        assert refusal(instrument, server.client_settings(), transport) == "tls_certificate_untrusted"

    def test_plain_where_tls_is_spoken(self, server: Standing, instrument: str) -> None:
        service = server.client_settings().model_copy(update={"addresses": [f"{server.address}:{TLS_PORT}"]})
        expected = {"engine": {"plain_refused"}, "redis-py": {"closed", "reset"}}
        assert refusal(instrument, service, PLAIN) in expected[instrument]

    def test_nobody_there(self, server: Standing, instrument: str) -> None:
        service = server.client_settings().model_copy(update={"addresses": [f"{server.address}:9"]})
        assert refusal(instrument, service, PLAIN) == "refused"

    def test_too_many_clients(self, server: Standing, instrument: str) -> None:
        # The administrator's is there already.
        with server.configured("maxclients", "1"):
            assert refusal(instrument, server.client_settings(), PLAIN) in {"server", "closed", "reset"}


@pytest.mark.parametrize("resp", [2, 3])
@pytest.mark.parametrize(("version", "handshake"), [(None, 0), ("1.3", 1), ("1.2", 2)])
def test_a_connection_takes_its_round_trips(server: Standing, resp: int, version: str | None, handshake: int) -> None:
    transport = server.tls.model_copy(update={"version": version}) if version else PLAIN
    answer = measured(server, transport, "connect", 5, resp=resp)
    trips = {name: phase.round_trips / phase.count for name, phase in answer.phases.items()}
    tls = {"tls": handshake} if version else {}
    whole = {"connect": 2 + handshake, "connect_and_first_operation": 3 + handshake}
    assert trips == {"tcp": 1, **tls, "auth": 1, "first_operation": 1, **whole}
    port = TLS_PORT if version else PORT
    assert (answer.evidence["resp"], answer.evidence["server_side"]) == (str(resp), f"{server.address}:{port}")


@pytest.mark.parametrize("resp", [2, 3])
@pytest.mark.parametrize("workload", ["query", "write", "pipeline"])
def test_an_operation_is_one_round_trip(server: Standing, workload: str, resp: int) -> None:
    for transport in (PLAIN, server.tls):
        answer = measured(server, transport, workload, 200, resp=resp)
        assert (answer.operations, answer.errors) == (200, [])
        assert answer.phases["operation"].round_trips == 200


def test_what_is_written_is_under_its_prefix_and_expires(server: Standing) -> None:
    asked = {"key_prefix": "costof:1:", "value_bytes": 1024, "expires_after_seconds": 1000}
    assert measured(server, PLAIN, "load", RECORDS, **asked).operations == RECORDS
    key = f"costof:1:key:{RECORDS - 1:012}"
    assert server.ask("STRLEN", key) == 1024
    assert 0 < server.ask("TTL", key) <= 1000
    assert server.ask("TTL", f"key:{RECORDS - 1:012}") == -1
    assert measured(server, PLAIN, "query", 100, **asked).errors == []


def test_a_key_that_is_missing_is_an_error_of_the_server(server: Standing) -> None:
    for workload in ("query", "pipeline"):
        answer = measured(server, PLAIN, workload, 10, key_prefix="missing:")
        assert [(error.error_class, error.count) for error in answer.errors] == [("server", 10)]


def test_a_server_without_memory_says_so(server: Standing) -> None:
    with server.configured("maxmemory", "1"):
        answer = measured(server, PLAIN, "write", 10)
    assert [(error.error_class, error.count) for error in answer.errors] == [("server", 10)]
    assert "OOM" in answer.errors[0].detail


@pytest.mark.parametrize("resp", [2, 3])
def test_ycsb_finds_what_it_has_written(server: Standing, resp: int) -> None:
    asked = {"key_prefix": f"ycsb{resp}:", "resp": resp}
    loaded = measured(server, PLAIN, "ycsb_load", HASHES, **asked)
    assert (loaded.operations, loaded.errors) == (HASHES, [])
    assert server.ask("ZCARD", f"ycsb{resp}:_indices") == HASHES
    for workload in ("ycsb", "ycsb_fields"):
        answer = measured(server, PLAIN, workload, 300, **asked)
        assert (answer.operations, answer.errors) == (300, [])
    assert server.ask("ZCARD", f"ycsb{resp}:_indices") > HASHES


def test_a_session_is_resumed_until_the_key_changes(server: Standing) -> None:
    transport = server.tls.model_copy(update={"resumption": True})
    answer = measured(server, transport, "connect", 20)
    assert answer.evidence["handshakes"] == 20
    assert answer.evidence["resumed"] >= 19
    try:
        assert server.show_key("ecdsa-p256")
        assert measured(server, server.tls, "connect", 2).evidence["key"] == "ecdsa-p256"
    finally:
        server.show_key("rsa-2048")


def test_an_account_that_may_not_read_is_told_by_its_class(server: Standing) -> None:
    server.ask("ACL", "SETUSER", USER, "-get")
    try:
        answer = measured(server, PLAIN, "query", 5)
    finally:
        server.ask("ACL", "SETUSER", USER, "+get")
    assert [(error.error_class, error.count) for error in answer.errors] == [("authentication", 5)]
