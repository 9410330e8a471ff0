"""Servers that accept a connection and then send nothing or half of a message: every client times out."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from costof.messages.answers import ReadyArm
from costof.messages.plan import PLAIN, Arm, Plan, ServiceSettings, Transport
from costof.messages.process import Instrument, application, engine
from costof.programs.http import HttpSettings
from costof.programs.mariadb.connection import MysqlSettings
from costof.programs.mongod.connection import MongodbSettings
from costof.programs.postgres.connection import PostgresSettings
from costof.programs.redis.connection import RedisSettings
from tests.support.command import Outcome, costof
from tests.support.silent import silent_listener

#: For each URL scheme: the study, half of the server's first message, and the error of the step that times out.
TARGETS = {
    "mysql": ("mysql-transport", b"\x4a\0\0\0\x0a8.0.36\0", "its greeting was not complete within 5 s"),
    "postgresql": ("postgres-tls", b"R\0\0\0\x08", "the log-in was not complete within 5 s"),
    "mongodb": ("mongodb-tls", b"\x80\0\0\0\x01\0\0\0", "its answer to hello was not complete within 5 s"),
    "redis": ("redis-tls", b"+O", "the log-in was not complete within 5 s"),
    # Half of a TLS message: the arms with TLS wait for the rest.
    "http": ("http-tls-termination", b"\x16\x03\x03\0\x7a\x02", "no answer within 10 s after the TCP handshake"),
}
CASES = [(scheme, how) for scheme in TARGETS for how in ("silent", "half")]
TLS = Transport(kind="tls", verify="none")


def service_settings(scheme: str, address: str) -> ServiceSettings:
    addresses, login = [address], {"username": "u", "password": "p"}
    match scheme:
        case "mysql":
            return MysqlSettings(addresses=addresses, database="d", **login)
        case "postgresql":
            return PostgresSettings(addresses=addresses, database="d", scale=1, **login)
        case "mongodb":
            return MongodbSettings(addresses=addresses, database="d", collection="c", **login)
        case "redis":
            return RedisSettings(addresses=addresses, tls_addresses=addresses, key_prefix="k:", **login)
        case _:
            return HttpSettings(addresses=addresses, host="h", path="/")


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[tuple[str, str], int]]:
    with ExitStack() as stack:
        yield {
            (scheme, how): stack.enter_context(silent_listener(TARGETS[scheme][1] if how == "half" else b""))
            for scheme, how in CASES
        }


@pytest.fixture(scope="module")
def outcomes(
    ports: dict[tuple[str, str], int], tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], Outcome]:
    """Run costof on all servers at once, with its real timeouts. Return the outcome of each of `CASES`."""

    def run(scheme: str, how: str) -> Outcome:
        folder = tmp_path_factory.mktemp(f"{scheme}-{how}")
        place = f"127.0.0.1:{ports[scheme, how]}/"
        target = ["--target", f"{scheme}://u:p@{place}"]
        if scheme == "http":
            target = ["--target", f"https://{place}", "--plain-target", f"http://{place}"]
        if scheme == "postgresql":
            target[1] += "d"
        outcome = costof("run", TARGETS[scheme][0], "--profile", "quick", *target, cwd=folder)
        assert not any((folder / "runs").glob("*"))
        return outcome

    with ThreadPoolExecutor(len(CASES)) as threads:
        return dict(zip(CASES, threads.map(lambda case: run(*case), CASES), strict=True))


@pytest.mark.parametrize(("scheme", "how"), CASES)
def test_error_about_a_silent_server_names_its_address_and_the_unanswered_step_in_one_line(
    outcomes: dict[tuple[str, str], Outcome], ports: dict[tuple[str, str], int], scheme: str, how: str
) -> None:
    outcome = outcomes[scheme, how]
    assert (outcome.status, len(outcome.error_lines)) == (1, 1), outcome.err
    assert f"127.0.0.1:{ports[scheme, how]}" in outcome.error_lines[0]
    assert TARGETS[scheme][2] in outcome.error_lines[0]


def ready_arms(instrument: Instrument, plan: Plan) -> dict[str, ReadyArm]:
    with instrument:
        return {arm.name: arm for arm in instrument.plan(plan).arms}


def test_timeout_error_of_the_engine_names_the_unanswered_step_in_every_protocol(
    ports: dict[tuple[str, str], int],
) -> None:
    arms = [
        Arm(
            name=f"{scheme} {transport.kind}",
            service=service_settings(scheme, f"127.0.0.1:{ports[scheme, 'silent']}"),
            transport=transport,
        )
        for scheme in TARGETS
        for transport in (PLAIN, TLS)
    ]
    for name, arm in ready_arms(engine(), Plan(operation_timeout_ms=300, arms=arms, workloads=[])).items():
        assert arm.error is not None
        assert f"127.0.0.1:{ports[name.split()[0], 'silent']}: " in arm.error.detail
        if name == "redis tls":
            # A Redis port without TLS stays silent too, so a silent server is reported as refusing TLS.
            assert arm.error.error_class == "tls_refused"
        else:
            assert arm.error.error_class == "timeout"
            assert arm.error.detail.endswith(": no answer within 0.3 s after the TCP handshake")


@pytest.mark.parametrize(
    ("driver", "scheme"),
    [
        ("mongodb", "mongodb"),
        ("postgres", "postgresql"),
        pytest.param("asyncpg", "postgresql", marks=pytest.mark.slow),
        ("redis", "redis"),
    ],
)
def test_driver_times_out_on_a_silent_server(ports: dict[tuple[str, str], int], driver: str, scheme: str) -> None:
    arm = Arm(name="plain", service=service_settings(scheme, f"127.0.0.1:{ports[scheme, 'silent']}"))
    arms = ready_arms(application(driver, {}), Plan(operation_timeout_ms=1000, arms=[arm], workloads=[]))
    assert arms["plain"].error is not None
    # If pymongo times out while it selects a server, the error class is `no_member`.
    assert arms["plain"].error.error_class in ("timeout", "no_member")
