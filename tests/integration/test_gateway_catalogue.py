"""Columns that tell of protected ones, as a real MariaDB ties them, and names that differ in case alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from costof.lab.lab import Lab
from costof.programs.gateway import GatewayProcess
from tests.gateway import site as sites
from tests.gateway.canaries import Canaries
from tests.gateway.corpus import NAMES, SALARIES
from tests.gateway.site import Site
from tests.gateway.ties import COLUMNS, SCHEMA
from tests.support.programs import running_mariadb
from tests.support.raw_mysql import Answer

pytestmark = pytest.mark.servers

STRICT = 'predicates = "refuse"\n'
CANARIES = Canaries(NAMES, SALARIES)


@pytest.fixture(scope="module")
def site(lab: Lab) -> Iterator[Site]:
    with running_mariadb(lab) as server, GatewayProcess() as process:
        sites.make_database(server)
        for statement in SCHEMA.split(";"):
            server.ask(statement)
        yield sites.begin(process, lab, server, [("", ""), ("strict", STRICT)], COLUMNS)


@pytest.fixture(params=["", "strict"])
def settings(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ask(site: Site, settings: str, *statements: str) -> Answer:
    """What became of the last one; nothing protected comes back, and nothing stays changed."""
    with site.client(settings, database=b"ties") as client:
        answers = [client.query(each.encode()) for each in ("BEGIN", *statements)]
        client.query(b"ROLLBACK")
        assert not CANARIES.found(bytes(client.received)), answers
        return answers[-1]


def assert_refused(site: Site, settings: str, *statements: str) -> None:
    answer = ask(site, settings, *statements)
    assert answer.error is not None, statements
    assert (answer.error[0], "the gateway lets no" in answer.error[1]) == (1227, True), answer


def test_a_default_that_is_a_protected_value_is_protected(site: Site, settings: str) -> None:
    answer = ask(site, settings, "UPDATE defaults SET copy = DEFAULT", "SELECT copy FROM defaults")
    assert answer.is_sealed(0)
    written = "INSERT INTO defaults (id, p_name) VALUES (1, 'x') ON DUPLICATE KEY UPDATE copy = DEFAULT"
    assert ask(site, settings, written, "SELECT copy FROM defaults").is_sealed(0)
    assert_refused(site, settings, "SELECT id FROM defaults WHERE copy = 'k'")


def test_names_that_differ_in_case_are_two_tables(site: Site, settings: str) -> None:
    assert ask(site, settings, "SELECT x FROM view_too").is_sealed(0)
    assert ask(site, settings, "SELECT * FROM View_too").error is None
    assert len(ask(site, settings, "SELECT * FROM mixed").columns) == 2
    assert ask(site, settings, "INSERT INTO Mixed VALUES (7, 7)").error is None


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE checks SET bonus = 5",
        "UPDATE checks SET p_name = 'k'",
        "UPDATE checks SET initial = 'k'",
        "INSERT INTO checks (id) VALUES (1) ON DUPLICATE KEY UPDATE bonus = 5",
        "UPDATE sums SET bonus = 5",
        "UPDATE sums JOIN checks USING (id) SET sums.bonus = 5",
        "UPDATE sums SET first = 'x'",
        "UPDATE chains SET bonus = 5",
        "UPDATE grades SET grade = 5",
        "UPDATE clocks SET note = 5",
        "UPDATE moments SET note = 5",
        "UPDATE hours SET note = 5",
    ],
)
def test_a_write_does_not_measure_what_is_stored(site: Site, settings: str, statement: str) -> None:
    assert_refused(site, settings, statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE checks SET bonus = 5, p_salary = 7",
        "UPDATE sums SET first = 'x', p_last = 'y'",
        "UPDATE sums SET p_salary = 5",
        "UPDATE chains SET bonus = 5, p_salary = 7",
        "UPDATE clocks SET p_until = '2100-01-01', note = 5",
        "UPDATE moments SET p_at = '2030-01-01', p_epoch = 0, note = 5",
        "INSERT INTO clocks (id, p_until) VALUES (2, '2100-01-01')",
        "INSERT INTO checks VALUES (2, 5, 5, 'x', 'xyz')",
        "REPLACE INTO checks (id, bonus) VALUES (1, 5)",
    ],
)
def test_what_measures_nothing_is_written(site: Site, settings: str, statement: str) -> None:
    assert ask(site, settings, statement).error is None


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT id FROM checks WHERE initial = 'k'",
        "SELECT id FROM keyed ORDER BY g",
        "SELECT id FROM keyed WHERE g > 'c'",
        "SELECT id FROM keyed WHERE tied = 'k'",
        "SELECT p_bits FROM bits UNION ALL SELECT EXP(1)",
        "SELECT p_padded FROM bits UNION ALL SELECT NULL",
        "SELECT p_year FROM bits UNION ALL SELECT 1",
        "SELECT (SELECT p_bits FROM bits)",
        "SELECT (SELECT p_padded FROM bits)",
        "SELECT (SELECT p_year FROM bits)",
        "SELECT hour FROM moments",
        "SELECT shown FROM moments",
        "SELECT id FROM moments WHERE hour IS NULL",
        "SELECT id FROM moments WHERE p_at = p_day",
        "SELECT day FROM hours",
        "SELECT id FROM hours WHERE p_from = p_day",
        "INSERT INTO numbered (name) VALUES ('x') ON DUPLICATE KEY UPDATE copy = VALUES(p_id)",
        "SELECT NEXTVAL(numbers)",
        "SELECT next_not_cached_value FROM numbers",
        "SELECT p_float FROM floats UNION ALL SELECT 1e0",
        "SELECT p_text FROM addresses UNION ALL SELECT address FROM addresses",
        "SELECT p_text FROM addresses UNION ALL SELECT code FROM addresses",
        "SELECT p_text FROM addresses UNION ALL SELECT bits FROM addresses",
        "SELECT p_text FROM addresses UNION ALL SELECT X'00'",
        "SELECT p_bytes FROM addresses UNION ALL SELECT address FROM addresses",
        "SET sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'",
        "SET sql_mode = CONCAT(@@sql_mode, ',TIME_ROUND_FRACTIONAL')",
        "SELECT @@warning_count",
        "SET max_join_size = 20",
    ],
)
def test_what_is_tied_is_as_strict_as_the_strictest(site: Site, settings: str, statement: str) -> None:
    assert_refused(site, settings, statement)


def test_whether_a_date_is_all_zeros_is_a_comparison(site: Site) -> None:
    assert_refused(site, "strict", "SELECT id FROM clocks WHERE p_until IS NULL")
    assert ask(site, "", "SELECT id FROM clocks WHERE p_until IS NULL").error is None


def test_a_moment_has_one_length_in_every_time_zone(site: Site, settings: str) -> None:
    """In one it is midnight, of which a binary row leaves the time out."""
    lengths = set()
    for zone in (b"+00:00", b"+09:37", b"-02:00"):
        with site.client(settings, database=b"ties") as client:
            assert client.query(b"SET time_zone = '%s'" % zone).error is None
            row = client.prepared(b"SELECT p_at, p_day FROM moments").rows[0]
            lengths.add(tuple(len(value or b"") for value in row))
    assert len(lengths) == 1


def test_an_index_is_told_without_its_count_of_values(site: Site, settings: str) -> None:
    answer = ask(site, settings, "SHOW INDEX FROM secrets")
    names = b"Key_name Seq_in_index Column_name Collation Cardinality"
    assert [column.name for column in answer.columns][2:7] == names.split()
    assert [row[2:7] for row in answer.rows] == [(b"PRIMARY", b"1", b"hidden", b"A", None)]


def test_tables_are_told_without_their_next_ids(site: Site, settings: str) -> None:
    answer = ask(site, settings, "SHOW TABLE STATUS LIKE 'secrets'")
    told = dict(zip([column.name for column in answer.columns], answer.rows[0], strict=True))
    assert len(told) == 18
    assert (told[b"Name"], told[b"Rows"], told[b"Auto_increment"], told[b"Checksum"]) == (b"secrets", b"2", None, None)


def test_what_columns_are_made_of_is_known_whatever_the_server_is_set_to(site: Site, settings: str) -> None:
    """Under its own settings it tells expressions with other quotes, or none, and a few rows of each of its tables."""
    hostile = {"sql_mode": "'ANSI_QUOTES'", "sql_quote_show_create": "0", "sql_select_limit": "3"}
    try:
        for name, value in hostile.items():
            site.server.ask(f"SET GLOBAL {name} = {value}")
        assert set(site.process.reload().values()) == {None}
        assert_refused(site, settings, "UPDATE checks SET bonus = 5")
        assert ask(site, settings, "SELECT total FROM sums").is_sealed(0)
        assert ask(site, settings, "SELECT copy FROM defaults").is_sealed(0)
    finally:
        for name in hostile:
            site.server.ask(f"SET GLOBAL {name} = DEFAULT")
        assert set(site.process.reload().values()) == {None}


def test_tables_are_told_without_the_bytes_that_they_take(site: Site, settings: str) -> None:
    """In some a number takes none where it is 0."""
    answer = ask(site, settings, "SHOW TABLE STATUS LIKE 'sized'")
    told = dict(zip([column.name for column in answer.columns], answer.rows[0], strict=True))
    assert {told[name] for name in (b"Avg_row_length", b"Data_length", b"Index_length", b"Data_free")} == {None}
    answer = ask(site, settings, "SELECT data_free FROM information_schema.tables WHERE table_name = 'sized'")
    assert answer.error is not None, answer
    assert answer.error[0] == 1054, answer


def test_no_client_chooses_by_which_modes_columns_are_computed(site: Site, settings: str) -> None:
    """A server's own stay, whatever else a client asks for."""
    own = "PAD_CHAR_TO_FULL_LENGTH"
    ((before,),) = site.server.ask("SELECT @@GLOBAL.sql_mode")
    site.server.ask(f"SET GLOBAL sql_mode = '{own}'")
    try:
        answer = ask(site, settings, "SET sql_mode = 'STRICT_ALL_TABLES'", "SELECT @@sql_mode")
    finally:
        site.server.ask(f"SET GLOBAL sql_mode = '{before}'")
    assert answer.rows == [(b"STRICT_ALL_TABLES,PAD_CHAR_TO_FULL_LENGTH",)]


@pytest.mark.parametrize(
    ("alone", "more"),
    [
        ("SELECT p_text FROM addresses", " UNION ALL SELECT ''"),
        ("SELECT p_text FROM addresses", " UNION ALL SELECT 1"),
        ("SELECT p_text FROM addresses", " UNION ALL SELECT CAST(id AS CHAR) FROM addresses"),
        ("SELECT p_bytes FROM addresses", " UNION ALL SELECT 'x'"),
    ],
)
def test_texts_and_bytes_keep_their_length_in_a_union(site: Site, settings: str, alone: str, more: str) -> None:
    united = ask(site, settings, alone + more)
    assert united.is_sealed(0)
    ((value,), *_), ((alone_value,),) = united.rows, ask(site, settings, alone).rows
    assert len(value or b"") == len(alone_value or b"")


def test_a_lock_has_a_name_of_the_clients_own(site: Site, settings: str) -> None:
    answer = ask(site, settings, "SELECT GET_LOCK('job', 0), IS_FREE_LOCK('job'), RELEASE_LOCK('job')")
    assert answer.rows == [(b"1", b"0", b"1")]
    assert_refused(site, settings, "SELECT GET_LOCK((SELECT hidden FROM secrets LIMIT 1), 0)")
    assert_refused(site, settings, "SELECT GET_LOCK('job', 0) FROM secrets")
