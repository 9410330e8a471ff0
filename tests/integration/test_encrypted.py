"""Decrypting drivers through a real gateway to a real MariaDB: they read the same values as without the gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pymysql
import pytest
from pymysql.cursors import Cursor, DictCursor, SSCursor, SSDictCursor

from costof import encrypted
from costof.datasets.sysbench import TABLE
from costof.encrypted.envelope import Algorithm, Envelope, RowFormat
from costof.encrypted.keys import KeyRing, session_salt
from costof.messages.plan import Arm, Workload
from costof.messages.process import engine
from costof.programs.mariadb.connection import Decryption
from costof.programs.mariadb.lab import DATABASE
from tests.gateway.every_type import KEY, OPAQUE_PORT, PORT, ROWS, TYPES, Site, every_type
from tests.support.engines import patient_plan
from tests.support.programs import HANGS_SECONDS, log_in
from tests.support.taps import Tap

pytestmark = pytest.mark.servers

STATEMENTS = [
    "SELECT * FROM every_type ORDER BY whole",
    "SELECT name AS n, t.price, whole + 1, COUNT(*), NOW() > moment FROM every_type t GROUP BY 1, 2, 3, 5 ORDER BY 3",
    "SELECT one.name, other.day FROM every_type AS one JOIN every_type AS other ON one.name = other.name",
    "SELECT name FROM every_type WHERE name = 'nobody'",
    "SHOW TABLES",
]
#: Lengths in bytes of a complete TIMESTAMP, DATE, TIME and DATETIME in the binary protocol, by the type's code.
WHOLE_TIMES = {0x07: 11, 0x0A: 4, 0x0B: 12, 0x0C: 11}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with every_type(tmp_path_factory.mktemp("rules")) as site:
        yield site


def read(cursor: Cursor, statement: str) -> tuple[Any, list[Any]]:
    cursor.execute(statement)
    description = cursor.description
    return description, list(cursor.fetchall())


@pytest.mark.parametrize(
    ("number", "kind"),
    [*((number, Cursor) for number in range(len(Algorithm))), (0, SSCursor), (0, DictCursor), (0, SSDictCursor)],
)
def test_driver_reads_the_same_values_as_without_the_gateway(site: Site, number: int, kind: type[Cursor]) -> None:
    port = PORT + number
    name = f"{site.server.address}:{port}"
    before = site.gateway.counters().listeners[name]
    with (
        log_in(site.server) as direct,
        site.reader(port) as ours,
        direct.cursor(kind) as theirs,
        ours.cursor(kind) as cursor,
    ):
        for statement in STATEMENTS:
            assert read(cursor, statement) == read(theirs, statement)
    after = site.gateway.counters().listeners[name]
    assert after.values_encrypted >= before.values_encrypted + len(TYPES)
    assert after.errors == before.errors


def test_custom_pymysql_converters_receive_decrypted_values(site: Site) -> None:
    conv = {**pymysql.converters.conversions, pymysql.constants.FIELD_TYPE.NEWDECIMAL: float}
    # With use_unicode off, PyMySQL converts neither decimals nor times.
    for settings, columns in (
        ({"use_unicode": False}, "latin, whole, blob_"),
        ({"conv": conv}, "latin, price"),
    ):
        with (
            pymysql.connect(**site.settings(site.server.port), **settings) as direct,
            encrypted.connect(master_keys={"app": KEY}, **site.settings(PORT), **settings) as ours,
            direct.cursor() as theirs,
            ours.cursor() as cursor,
        ):
            statement = f"SELECT {columns} FROM every_type WHERE whole IS NOT NULL"  # noqa: S608
            assert read(cursor, statement) == read(theirs, statement)


def test_unsupported_character_set_is_rejected(site: Site) -> None:
    with pytest.raises(pymysql.err.OperationalError, match="set names latin1"):
        encrypted.connect(master_keys={"app": KEY}, **site.settings(PORT), charset="latin1")


def test_wrong_master_key_raises_one_error_and_the_gateway_keeps_running(site: Site) -> None:
    connection = site.reader(PORT, key=KEY.replace("f", "0"))
    with pytest.raises(
        encrypted.EncryptionError, match=r"column costof\.every_type\.name: master key 'app'"
    ) as refused:
        read(connection.cursor(), "SELECT name FROM every_type")
    assert "Łódź" not in str(refused.value)
    assert not connection.open
    with site.reader(PORT) as another, another.cursor() as cursor:
        assert cursor.execute("SELECT name FROM every_type") == 2


@pytest.mark.parametrize("number", range(len(Algorithm)), ids=[kind.label for kind in Algorithm])
def test_decrypted_results_of_prepared_statements_equal_the_bytes_of_the_server_for_every_type(
    site: Site, number: int
) -> None:
    """Compare the bytes of the binary protocol, including trailing zeros of times, before any driver converts them."""
    statement, nonce = b"SELECT * FROM every_type ORDER BY whole IS NULL", bytes(range(32))
    attributes = {b"costof_encrypted": b"1", b"costof_nonce": nonce.hex().encode()}
    with site.raw(site.server.port) as direct, site.raw(PORT + number, attributes=attributes) as client:
        expected, answer = direct.prepared(statement), client.prepared(statement)
        keys = KeyRing({"app": KEY}).session(session_salt(client.scramble, nonce))
    opened, kinds = [], []
    sealed, nulls = answer.rows
    for column, value in zip(answer.columns, sealed, strict=True):
        envelope = Envelope.parse(column.tail)
        assert envelope is not None
        assert value is not None
        opened.append(keys.opener(envelope).open(envelope.associated_data(RowFormat.BINARY, column.names), value))
        kinds.append(envelope.original.kind)
    assert expected.rows[1] == nulls == (None,) * len(TYPES)
    columns = zip(expected.columns, expected.rows[0], strict=True)
    assert opened == [(value or b"").ljust(WHOLE_TIMES.get(column.type, 0), b"\0") for column, value in columns]
    assert kinds == [column.type for column in expected.columns]


@pytest.mark.parametrize("statement", ["SELECT name FROM every_type", "SELECT name AS n FROM every_type AS t"])
def test_driver_rejects_plaintext_in_a_column_that_must_be_encrypted(site: Site, statement: str) -> None:
    demand = {"must_be_encrypted": [f"{DATABASE.upper()}.every_type.Name"]}
    with (
        encrypted.connect(master_keys={"app": KEY}, **demand, **site.settings(PORT)) as connection,
        connection.cursor() as cursor,
    ):
        assert cursor.execute(statement) == 2
    past = encrypted.connect(master_keys={"app": KEY}, **demand, **site.settings(site.server.port))
    with pytest.raises(
        encrypted.EncryptionError, match=r"column costof\.every_type\.name: this column is listed in must_be_encrypted"
    ):
        past.cursor().execute(statement)
    assert not past.open
    # A driver without the key rejects the column too, because it cannot tell a ciphertext from other bytes.
    opaque = encrypted.connect(master_keys={}, **demand, **site.settings(OPAQUE_PORT))
    with pytest.raises(encrypted.EncryptionError, match="this column is listed in must_be_encrypted"):
        opaque.cursor().execute(statement)


def test_alias_does_not_bypass_the_check_that_a_column_is_encrypted(site: Site) -> None:
    demand = {"must_be_encrypted": ["costof.people.name"]}
    with encrypted.connect(master_keys={}, **demand, **site.settings(site.server.port)) as past:
        with past.cursor() as cursor:
            cursor.execute("SELECT name FROM every_type")
        with pytest.raises(encrypted.EncryptionError, match="this column is listed in must_be_encrypted"):
            past.cursor().execute("SELECT letters AS name FROM every_type AS people")


@pytest.mark.parametrize("number", range(len(Algorithm)), ids=[kind.label for kind in Algorithm])
def test_replayed_query_result_of_another_session_is_rejected(site: Site, number: int) -> None:
    """Both sessions send the same statement at the same position, through the same gateway and account."""
    recorded: list[bytes] = []

    def read_through(swap: Callable[[bytes], bytes]) -> Any:
        with (
            Tap(f"{site.server.address}:{PORT + number}", swap) as between,
            encrypted.connect(
                master_keys={"app": KEY}, **{**site.settings(between.port), "host": "127.0.0.1"}
            ) as connection,
        ):
            return read(connection.cursor(), "SELECT name FROM every_type WHERE whole IS NOT NULL")[1]

    def record(data: bytes) -> bytes:
        recorded.extend([data] if b"costofE2" in data else [])
        return data

    def replay(data: bytes) -> bytes:
        return recorded[0] if b"costofE2" in data else data

    assert len(read_through(record)) == len(recorded) == 1
    with pytest.raises(encrypted.EncryptionError, match="name: a value was changed, or was encrypted for another"):
        read_through(replay)


@pytest.mark.parametrize("statements", ["prepared", "text"])
def test_engine_reads_the_same_values_as_without_the_gateway(site: Site, statements: str) -> None:
    """The engine itself checks values: it reports an error unless each decrypted row is one column with a string."""
    demand = f"{DATABASE}.{TABLE}.c"
    keys = {"decryption": Decryption(master_keys={"app": KEY}, must_be_encrypted=[demand])}

    def arm(name: str, port: int, **more: Any) -> Arm:
        there = {"addresses": [f"{site.server.address}:{port}"], "statements": statements}
        return Arm(name=name, service=site.server.client_settings().with_settings({**there, **more}))

    arms = [arm("direct", site.server.port)]
    arms += [arm("past", site.server.port, **keys)]
    arms += [arm(kind.label, PORT + number, **keys) for number, kind in enumerate(Algorithm)]
    workloads = [Workload(name="load", kind="load"), Workload(name="query", kind="query", workers=2)]
    with log_in(site.server) as connection, connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {TABLE}")
    with engine() as wire:
        ready = wire.plan(patient_plan(arms, workloads, records=ROWS))
        assert [found.error for found in ready.arms] == [None] * len(arms)
        assert wire.slice(1, "direct", "load", ROWS, HANGS_SECONDS).operations == ROWS
        assert wire.slice(2, "direct", "query", 50, HANGS_SECONDS).counts == {}
        past = wire.slice(2, "past", "query", 5, HANGS_SECONDS)
        # The number of errors varies: after an error, a worker prepares its statement again, which fails again.
        assert (past.operations, [error.error_class for error in past.errors]) == (0, ["encryption"])
        for kind in Algorithm:
            answer = wire.slice(3, kind.label, "query", 50, HANGS_SECONDS)
            assert (answer.operations, answer.errors) == (50, [])
            # Each value of the column `c` is 119 characters long.
            assert answer.counts == {"decrypted.values": 50, "decrypted.bytes": 50 * 119}
