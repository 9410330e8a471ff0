"""The gateway before a real MariaDB, with drivers as they are: what each account gets, and what nobody gets around."""

from __future__ import annotations

import contextlib
import os
import signal
import ssl
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mysql.connector
import pymysql
import pytest
from pymysql.constants import COMMAND

from costof import encrypted
from costof.errors import CostofError
from costof.ipc.process import border_plan, engine
from costof.lab.certificates import write_private
from costof.lab.lab import Lab
from costof.programs.gateway import GatewayListener, GatewayProcess
from costof.programs.mariadb.server import DATABASE, ED25519_USER, USER, MariadbServer
from tests.integration.conftest import COSTOF, costof, eventually
from tests.support.programs import check_of, running_mariadb
from tests.support.taps import Tap

pytestmark = pytest.mark.servers

KEY = "00112233445566778899aabbccddeeff"
SHOP, ANALYST, STRANGER, CATALOGUE = "shop", "analyst", "stranger", "catalogue"
NAMES = ("Abercrombie", "O'Brien-Secret", "Zaphod-the-Secret")

TABLES = """
CREATE TABLE people (id INT PRIMARY KEY, name VARCHAR(40) UNIQUE, price DECIMAL(12,2), city VARCHAR(40), visits INT);
CREATE TABLE other (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40), city VARCHAR(40));
CREATE TABLE numbers (id INT AUTO_INCREMENT PRIMARY KEY, price INT);
CREATE VIEW names AS SELECT id, name AS city FROM people;
CREATE TABLE every_type (
  id INT PRIMARY KEY, c_tiny TINYINT, c_small SMALLINT UNSIGNED, c_medium MEDIUMINT, c_int INT, c_big BIGINT UNSIGNED,
  c_decimal DECIMAL(20,5), c_float FLOAT, c_double DOUBLE, c_bit BIT(13), c_year YEAR, c_date DATE,
  c_datetime DATETIME(6),
  c_timestamp TIMESTAMP(3) NULL, c_time TIME(6), c_char CHAR(10), c_varchar VARCHAR(50), c_binary BINARY(5),
  c_varbinary VARBINARY(20), c_tinyblob TINYBLOB, c_blob BLOB, c_text TEXT, c_longtext LONGTEXT, c_enum ENUM('a','b'),
  c_set SET('x','y'), c_json JSON, c_point POINT, c_uuid UUID, c_inet INET6)
"""
EVERY_TYPE = """
INSERT INTO every_type VALUES
(1, -7, 65535, -8388608, 2147483647, 18446744073709551615, -12345.67891, 1.5, -2.25e300, b'1010', 2024, '2024-02-29',
 '2024-02-29 12:34:56.789012', '2024-02-29 12:34:56.789', '-12:34:56.000001', 'char', 'varchar é', 'bin', x'00ff',
 x'01', x'02', 'text', REPEAT('long', 20000), 'b', 'x,y', '{"a": 1}',
 POINT(1, 2), '123e4567-e89b-12d3-a456-426655440000', '::1'),
(2, 0, 0, 0, 0, 0, 0, 0, 0, b'0', 1901, '0000-00-00', '0000-00-00 00:00:00', '1970-01-02 00:00:00', '00:00:00',
 '', '', '', '', '', '', '', '', 'a', '', '[]', POINT(0, 0), '00000000-0000-0000-0000-000000000000', '::')
"""
RULES = f"""
unknown_clients = "ciphertext"
[master_keys]
app = "{KEY}"
[[accounts]]
name = "{USER}"
role = "plaintext"
[[accounts]]
name = "{SHOP}"
role = "ciphertext"
master_key = "app"
"""
#: All that the rules' columns may be used for.
ALLOWING = 'predicates = "allow"\nexpressions = "encrypt"\n'


def column(table: str, name: str, algorithm: str | None = None) -> str:
    chosen = f'algorithm = "{algorithm}"\n' if algorithm else ""
    return f'[[columns]]\ndatabase = "{DATABASE}"\ntable = "{table}"\ncolumn = "{name}"\n{chosen}'


PEOPLE = column("people", "name") + column("people", "price", "sm4-cbc")
EVERY = column("every_type", "c_*")


@dataclass
class Site:
    """A gateway before the server, and the account's roads through it."""

    server: MariadbServer
    process: GatewayProcess
    rules_file: Path
    address: str

    def connect(self, user: str = SHOP, port: int | None = None, **settings: Any) -> pymysql.Connection:
        """A stock driver, which knows nothing of a gateway."""
        return pymysql.connect(**self._login(user, port), **settings)

    def decrypting(self, user: str = SHOP, **settings: Any) -> encrypted.Connection:
        return encrypted.connect(master_keys={"app": KEY}, **self._login(user, None), **settings)

    def write(self, rules: str) -> None:
        check = "" if "[check]" in rules else check_of(CATALOGUE, self.server.password)
        write_private(self.rules_file, (rules + check).encode())

    def reload(self, rules: str) -> str | None:
        """Why the rules before stay."""
        self.write(rules)
        return self.process.reload()[self.address]

    def counters(self) -> Any:
        return self.process.counters().listeners[self.address]

    def _login(self, user: str, port: int | None) -> dict[str, Any]:
        host, own = self.address.split(":")
        login = {"host": host, "port": port or int(own), "user": user, "password": self.server.password}
        return {**login, "database": DATABASE, "autocommit": True, "ssl_disabled": True, "read_timeout": 300}


@pytest.fixture(scope="module")
def server(lab: Lab) -> Iterator[MariadbServer]:
    with running_mariadb(lab) as server:
        for user in (SHOP, ANALYST, STRANGER, CATALOGUE):
            server._query(f"CREATE USER {user} IDENTIFIED BY %s", server.password)
            server._query(f"GRANT ALL ON {DATABASE}.* TO {user}")
        server._query(f"USE {DATABASE}")
        for statement in TABLES.split(";"):
            server._query(statement)
        server._query("SET sql_mode = ''")
        server._query(EVERY_TYPE)
        server._query("INSERT INTO every_type (id) VALUES (3)")
        for place, name in enumerate(NAMES):
            city = f"city-{place}"
            server._query("INSERT INTO people VALUES (%s, %s, %s, %s, %s)", place, name, f"{place}.25", city, place)
        server._query("INSERT INTO other VALUES (1, 'plain-one', 'here'), (2, 'plain-two', 'there')")
        yield server


@pytest.fixture(scope="module")
def site(lab: Lab, server: MariadbServer) -> Iterator[Site]:
    """One gateway, with a listener for most of these tests."""
    rules_file = lab.folder / "rules.toml"
    write_private(rules_file, (RULES + PEOPLE + check_of(CATALOGUE, server.password)).encode())
    with GatewayProcess() as process:
        ready = process.begin([GatewayListener("127.0.0.1", 0, rules_file, f"{server.address}:{server.port}")])
        assert ready.warnings == []
        yield Site(server, process, rules_file, ready.listeners[0])


@pytest.fixture(autouse=True)
def usual_rules(site: Site) -> None:
    assert site.reload(RULES + PEOPLE) is None


def rows(connection: Any, statement: str, *values: object) -> list[tuple[Any, ...]]:
    with connection, connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        return list(cursor.fetchall())


def refusal(connection: Any, statement: str) -> tuple[int, str]:
    with pytest.raises(pymysql.MySQLError) as raised, connection.cursor() as cursor:
        cursor.execute(statement)
    return raised.value.args


def shows(data: bytes) -> bool:
    return any(word in data for word in (b"Abercrombie", b"Secret"))


@contextlib.contextmanager
def tapped(site: Site) -> Iterator[tuple[Callable[..., pymysql.Connection], Tap]]:
    with Tap(site.address) as tap:
        yield (lambda user=SHOP, **settings: site.connect(user, tap.port, **settings)), tap


def test_an_account_gets_what_its_role_gives(site: Site) -> None:
    statement = "SELECT name, price, city, visits FROM people ORDER BY id"
    direct = rows(
        pymysql.connect(**{**site._login(USER, None), "host": site.server.address, "port": site.server.port}), statement
    )
    assert rows(site.connect(USER), statement) == direct
    assert rows(site.decrypting(), statement) == direct
    for user in (SHOP, ANALYST, STRANGER):
        got = rows(site.connect(user), statement)
        assert [row[2:] for row in got] == [row[2:] for row in direct]
        assert [(row[0][0], row[1][0]) for row in got] == [(1, 6)] * len(NAMES), "GCM, and SM4 in CBC"
        assert not shows(repr(got).encode())
    # What nobody can decrypt is given as it is to a driver that could.
    assert {type(row[0]) for row in rows(site.decrypting(ANALYST), statement)} == {bytes}


#: By the rules alone, and where their columns may stand anywhere.
STATEMENTS = [
    "SELECT * FROM people",
    "SELECT p.name AS n, o.name FROM people AS p JOIN other o ON o.id = p.id + 1",
    "SELECT name AS city FROM people WHERE id IN (SELECT id FROM other)",
    "SELECT city FROM (SELECT name AS city FROM people) AS other",
    "SELECT name FROM (SELECT name FROM people LIMIT 2) AS other",
    "WITH other AS (SELECT name AS city FROM people) SELECT city FROM other",
    "SELECT name FROM other UNION ALL SELECT name FROM people",
    "(SELECT name AS city FROM people) LIMIT 2",
    "SELECT (SELECT name FROM people LIMIT 1), city FROM other",
    "SELECT city FROM names AS other",
    "SELECT id FROM people WHERE name = 'Abercrombie'",
    "DELETE FROM people WHERE id < 0 RETURNING name",
]
STATEMENTS_OF_ALLOWING_RULES = [
    "SELECT name FROM other UNION SELECT name FROM people",
    "(SELECT name AS city FROM people) ORDER BY 1",
    "SELECT DISTINCT name FROM people GROUP BY name WITH ROLLUP",
    "SELECT CONCAT(name, '!'), UPPER(name), MAX(name), COUNT(*) FROM people",
    "SELECT GROUP_CONCAT(name) FROM people",
    "SELECT MAX(name), COUNT(*) FROM people",
    "SELECT CASE WHEN 1 THEN name END, IFNULL(name, 1), name COLLATE latin1_bin FROM people",
    "SELECT name, LAG(name) OVER (ORDER BY id) FROM people",
    "SELECT id FROM people WHERE name < 'B' ORDER BY name",
]


def test_no_byte_of_an_encrypted_column_comes_to_the_client(site: Site) -> None:
    with tapped(site) as (connect, tap):
        for rules, statements in (("", STATEMENTS), (ALLOWING, STATEMENTS + STATEMENTS_OF_ALLOWING_RULES)):
            assert site.reload(rules + RULES + PEOPLE) is None
            for statement in statements:
                rows(connect(), statement)
        assert not shows(tap.received())
        assert b"plain-one" in tap.received()
        assert b"city-1" in tap.received()
        rows(connect(USER), "SELECT name FROM people")
        assert shows(tap.received()), "the tap sees what there is to be seen"


@pytest.mark.parametrize("statement", STATEMENTS_OF_ALLOWING_RULES)
def test_what_tells_more_than_equality_needs_rules_that_allow_it(site: Site, statement: str) -> None:
    with site.connect() as connection:
        assert refusal(connection, statement)[0] == 1227


def test_a_view_is_read_as_what_it_is_made_of(site: Site) -> None:
    assert rows(site.decrypting(), "SELECT city FROM names AS other") == [(name,) for name in NAMES]
    assert rows(site.connect(), "SELECT city FROM other") == [("here",), ("there",)]


def test_a_table_is_known_once_the_server_was_asked_for_it(site: Site) -> None:
    site.server.ask(f"CREATE TABLE {DATABASE}.later (id INT PRIMARY KEY, name VARCHAR(40))")
    try:
        with site.connect() as connection:
            code, words = refusal(connection, "SELECT id FROM later")
            assert (code, "the gateway has not seen it yet" in words) == (1146, True)
            assert site.reload(RULES + PEOPLE + column("later", "name")) is None
            with connection.cursor() as cursor:
                assert cursor.execute("SELECT id, name FROM later") == 0
    finally:
        site.server.ask(f"DROP TABLE {DATABASE}.later")


def test_a_table_is_known_after_a_while(site: Site, lab: Lab) -> None:
    """The server is asked again and again; a view that an account makes is read by then, too."""
    rules_file = lab.folder / "watching.toml"
    write_private(rules_file, (RULES + PEOPLE + check_of(CATALOGUE, site.server.password)).encode())
    listener = GatewayListener(
        "127.0.0.1", 0, rules_file, f"{site.server.address}:{site.server.port}", limits={"catalogue_seconds": 1}
    )
    with GatewayProcess() as process:
        watching = Site(site.server, process, rules_file, process.begin([listener]).listeners[0])
        with watching.connect() as connection, connection.cursor() as cursor:
            assert refusal(connection, "SELECT town FROM late")[0] == 1146
            site.server.ask(f"CREATE VIEW {DATABASE}.late AS SELECT name AS town FROM people")  # noqa: S608  # our own
            try:

                def is_known() -> bool:
                    with contextlib.suppress(pymysql.MySQLError):
                        return bool(cursor.execute("SELECT town FROM late"))
                    return False

                eventually("the view", is_known)
                assert {type(row[0]) for row in cursor.fetchall()} == {bytes}
            finally:
                site.server.ask(f"DROP VIEW {DATABASE}.late")


def test_every_type_comes_back_as_the_server_sent_it(site: Site) -> None:
    assert site.reload(RULES + EVERY) is None
    statement = "SELECT * FROM every_type ORDER BY id"
    expected = rows(site.connect(USER), statement)
    assert len(expected[0]) == 29
    assert set(expected[2][1:]) == {None}
    assert rows(site.decrypting(), statement) == expected
    got = rows(site.connect(), statement)
    assert got[2] == expected[2]
    assert {type(value) for value in got[0][1:]} == {bytes}
    counters = site.counters()
    assert counters.values_encrypted >= 2 * 2 * 28
    assert counters.ciphertext_bytes > counters.plaintext_bytes > 80_000


@pytest.mark.parametrize(
    "algorithm", ["aes-128-gcm", "aes-128-ctr", "aes-128-cbc", "aes-128-ecb", "sm4-gcm", "sm4-cbc"]
)
def test_every_algorithm(site: Site, algorithm: str) -> None:
    assert site.reload(ALLOWING + RULES + column("people", "*", algorithm)) is None
    assert rows(site.decrypting(), "SELECT name FROM people ORDER BY id") == [(name,) for name in NAMES]


@pytest.fixture
def prepared(site: Site) -> Iterator[Callable[[str, str, Sequence[object]], list[tuple[Any, ...]]]]:
    """A driver that asks by the binary protocol."""
    with contextlib.ExitStack() as stack:

        def ask(user: str, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
            host, port = site.address.split(":")
            connection = mysql.connector.connect(
                host=host, port=int(port), user=user, password=site.server.password, database=DATABASE, use_pure=True,
                ssl_disabled=True, charset="utf8mb4", collation="utf8mb4_general_ci", autocommit=True,
            )  # fmt: skip
            stack.callback(connection.close)
            cursor = connection.cursor(prepared=True)
            cursor.execute(statement, tuple(values))
            return [tuple(row) for row in cursor.fetchall()] if cursor.with_rows else []

        yield ask


def test_prepared_statements(site: Site, prepared: Callable[..., list[tuple[Any, ...]]]) -> None:
    statement = "SELECT name, visits, city FROM people WHERE id >= ? ORDER BY id"
    expected = [(name, place, f"city-{place}") for place, name in enumerate(NAMES)]
    assert prepared(USER, statement, (0,)) == expected
    got = prepared(SHOP, statement, (0,))
    assert [row[1:] for row in got] == [row[1:] for row in expected]
    assert [len(row[0]) for row in got] == [29 + len(name) for name in NAMES]
    assert prepared(SHOP, "UPDATE people SET visits = visits + ? WHERE id = ?", (0, 1)) == []
    assert site.reload(RULES + EVERY) is None
    assert [value for value in prepared(SHOP, "SELECT * FROM every_type WHERE id = ?", (3,))[0][1:] if value] == []
    sealed = prepared(SHOP, "SELECT c_big, c_double, c_date, c_longtext FROM every_type WHERE id = ?", (1,))[0]
    # The binary protocol's own lengths: 8 bytes, 8 bytes, year, month and day.
    assert [len(value) - 29 for value in sealed] == [8, 8, 4, 80_000]


def test_parameters_of_prepared_statements_are_of_the_columns_type(
    site: Site, prepared: Callable[..., list[tuple[Any, ...]]]
) -> None:
    statement = "SELECT id FROM people WHERE name = ?"
    assert prepared(SHOP, statement, (NAMES[1],)) == [(1,)]
    with pytest.raises(mysql.connector.Error, match="parameter of another type") as refused:
        prepared(SHOP, statement, (0,))
    assert refused.value.errno == 1227
    assert len(prepared(USER, statement, (0,))) == len(NAMES), "which is what a number would tell"


def test_a_prepared_statement_that_new_rules_make_another_is_prepared_again(site: Site) -> None:
    with site.connect() as connection:
        number = prepare(connection, "SELECT city FROM people")
        assert execute(connection, number)[0] == 1
        assert site.reload(RULES + PEOPLE) is None
        assert execute(connection, number)[0] == 1
        assert site.reload(RULES + PEOPLE + column("people", "city")) is None
        with pytest.raises(pymysql.MySQLError, match="prepare the statement again") as refused:
            execute(connection, number)
        assert refused.value.args[0] == 1615
        connection.ping(reconnect=False)


def prepare(connection: Any, statement: str) -> int:
    connection._execute_command(COMMAND.COM_STMT_PREPARE, statement)
    told = connection._read_packet().get_all_data()
    columns, parameters = (int.from_bytes(told[at : at + 2], "little") for at in (5, 7))
    for count in (parameters, columns):
        # An EOF behind each list: PyMySQL does not do without.
        for _ in range(count + 1 if count else 0):
            connection._read_packet()
    return int.from_bytes(told[1:5], "little")


def execute(connection: Any, number: int) -> bytes:
    """The first packet of its answer."""
    connection._execute_command(COMMAND.COM_STMT_EXECUTE, number.to_bytes(4, "little") + b"\0\1\0\0\0")
    first = connection._read_packet().get_all_data()
    for _ in range(2):
        while not connection._read_packet().is_eof_packet():
            pass
    return first


@pytest.mark.parametrize(("policy", "expected"), [("encrypt", bytes), ("refuse", None)])
def test_what_becomes_of_computed_columns(site: Site, policy: str, expected: type | None) -> None:
    assert site.reload(f'predicates = "allow"\nexpressions = "{policy}"\n' + RULES + PEOPLE) is None
    with site.connect() as connection:
        statement = "SELECT CONCAT('a', name) FROM people"
        if expected is None:
            code, words = refusal(connection, statement)
            assert (code, "computed from a protected one" in words) == (1227, True)
        else:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                assert {type(row[0]) for row in cursor.fetchall()} == {expected}
        # The connection goes on, and what is made of nothing protected is as it was.
        with connection.cursor() as cursor:
            cursor.execute("SELECT CONCAT('a', city) FROM people")
            assert {type(row[0]) for row in cursor.fetchall()} == {str}
            cursor.execute("SELECT 1, @@autocommit, DATABASE()")
            assert cursor.fetchall() == ((1, 1, DATABASE),)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT name INTO OUTFILE '/tmp/costof-never' FROM people",
        "SELECT name INTO @x FROM people",
        "SELECT @x := name FROM people",
        "INSERT INTO other (name) SELECT name FROM people",
        "UPDATE people SET city = name",
        "UPDATE other o JOIN people p ON p.id = o.id SET o.city = p.name",
        "CREATE TABLE copy AS SELECT * FROM people",
        "CREATE VIEW v AS SELECT name AS x FROM people",
        "ALTER TABLE people RENAME COLUMN name TO city2",
        "CALL anything()",
        "BEGIN NOT ATOMIC SELECT 1; END",
        "SELECT 1; SELECT 2",
        "/*!50000 SELECT name INTO @x FROM people */",
        "UPDATE people SET visits = LAST_INSERT_ID(visits)",
        "SELECT SLEEP(1)",
        "SELECT LOAD_FILE('/etc/passwd')",
        "SHOW PROCESSLIST",
        "SELECT 1e1FROM people",
        "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
        "SET NAMES gbk",
        "PREPARE s FROM 'SELECT 1'",
        "EXPLAIN SELECT * FROM people WHERE id = 1",
    ],
)
def test_what_is_not_allowed_is_refused_by_one_clear_error(site: Site, statement: str) -> None:
    with site.connect() as connection:
        code, words = refusal(connection, statement)
        assert (code, words.startswith("the gateway lets no ")) == (1227, True)
        assert not shows(words.encode())
        connection.ping(reconnect=False)


def test_the_servers_own_tables_that_quote_statements_are_there_for_nobody(site: Site) -> None:
    with site.connect() as connection:
        for table in ("information_schema.processlist", "performance_schema.threads", "mysql.general_log"):
            assert refusal(connection, f"SELECT * FROM {table}")[0] == 1146  # noqa: S608  # our own names


def test_who_gets_plaintext_is_refused_by_the_server_alone(site: Site) -> None:
    with site.connect(USER) as connection:
        code, words = refusal(connection, "SELECT name INTO OUTFILE '/no/such/folder' FROM people")
        assert (code, "FILE privilege" in words) == (1227, True), "the server's own refusal"


def test_what_runs_is_what_was_read(site: Site) -> None:
    statement = "SELECT 'a\\' INTO OUTFILE ', 'b' /*! , name */ FROM people -- '"
    with site.connect() as connection, connection.cursor() as cursor:
        assert refusal(connection, statement)[0] == 1227
        cursor.execute(statement.replace("/*! , name */", "/* , name */") + "\nWHERE id = 1 # '")
        assert cursor.fetchall() == (("a' INTO OUTFILE ", "b"),)


def test_errors_and_warnings_tell_no_value(site: Site) -> None:
    with tapped(site) as (connect, tap), connect() as connection, connection.cursor() as cursor:
        code, words = refusal(connection, "INSERT INTO people (id, name) VALUES (99, 'Abercrombie')")
        assert (code, words) == (1062, "Duplicate entry for a key")
        assert refusal(connection, "SELECT nothing FROM people") == (1054, "Unknown column 'nothing'")
        refusal(connection, "SELECT EXP(id + 1000) FROM people WHERE name = 'Abercrombie'")
        cursor.execute("SHOW WARNINGS")
        assert cursor.fetchall() == ()
        assert not shows(tap.received())


def test_ids_are_told_but_of_protected_columns(site: Site) -> None:
    insert = "INSERT INTO numbers (price) VALUES (1)"
    with site.connect() as connection, connection.cursor() as cursor:
        cursor.execute(insert)
        assert cursor.lastrowid == 1
        assert site.reload(RULES + PEOPLE + column("numbers", "id")) is None
        cursor.execute(insert)
        assert cursor.lastrowid == 0
        assert refusal(connection, "SELECT LAST_INSERT_ID()")[0] == 1227


def test_a_client_that_does_not_decrypt_is_refused_unless_the_rules_allow_it(site: Site) -> None:
    assert site.reload(RULES.replace('"ciphertext"\n[master', '"refuse"\n[master') + PEOPLE) is None
    for user in (SHOP, ANALYST):
        with pytest.raises(pymysql.MySQLError, match="does not say that it decrypts"):
            site.connect(user)
    assert rows(site.decrypting(), "SELECT name FROM people WHERE id = 0") == [(NAMES[0],)]
    assert rows(site.connect(USER), "SELECT name FROM people WHERE id = 0") == [(NAMES[0],)]


def test_logins_pass_through_end_to_end(site: Site) -> None:
    wrong = {**site._login(SHOP, None), "password": "wrong"}
    with pytest.raises(pymysql.MySQLError, match="Access denied"):
        pymysql.connect(**wrong)
    # A proof that the server asks for after the first.
    if site.server.has_ed25519:
        endpoint = {**site.server.endpoint(), "addresses": [site.address], "username": ED25519_USER}
        arm = {"name": "gateway", "service": endpoint, "transport": {"kind": "plain"}}
        assert site.reload(RULES.replace(USER, ED25519_USER) + PEOPLE) is None
        with engine() as instrument:
            ready = instrument.plan(border_plan([arm], [{"name": "connect", "kind": "connect", "workers": 1}]))
            assert [arm.error for arm in ready.arms] == [None]
    with pytest.raises(pymysql.MySQLError, match="character set"):
        site.connect(charset="gbk")
    with site.connect() as connection:
        connection._execute_command(COMMAND.COM_CHANGE_USER, b"shop\0")
        with pytest.raises(pymysql.MySQLError, match="account of a session"):
            connection._read_ok_packet()


def test_new_rules_hold_from_the_next_command_on_and_wrong_ones_never(site: Site) -> None:
    statement = "SELECT name, city FROM people WHERE id = 1"
    with site.connect() as connection, connection.cursor() as cursor:

        def types() -> list[type]:
            cursor.execute(statement)
            return [type(value) for value in cursor.fetchall()[0]]

        assert types() == [bytes, str]
        assert site.reload(RULES + PEOPLE + column("people", "city")) is None
        assert types() == [bytes, bytes]
        for wrong, words in [
            ("colour = 1\n" + RULES, "line 1: unknown field `colour`"),
            (RULES.replace(KEY, "0011"), "master key 'app' is not 16 bytes in hexadecimal"),
            (RULES.replace('"app"', '"none"'), "there is no master key 'none'"),
            (RULES + PEOPLE.replace("sm4-cbc", "rot13"), "unknown variant `rot13`"),
            (RULES + column("people", "nome"), "unknown rule column: costof.people.nome"),
            (RULES + check_of("nobody", "never-said") + PEOPLE, "[check]: cannot ask"),
            ('expressions = "plain"\n' + RULES + PEOPLE, "line 1: unknown variant `plain`"),
        ]:
            told = site.reload(wrong) or ""
            assert words in told
            assert "never-said" not in told
            assert KEY not in told
            assert "\n" not in told
            assert types() == [bytes, bytes], "the rules before stay"
        site.rules_file.chmod(0o640)
        assert "chmod 600" in (site.process.reload()[site.address] or "")
    with site.connect(USER) as connection:
        assert site.reload(RULES.replace('role = "plaintext"', 'role = "opaque"') + PEOPLE) is None
        assert "connect again" in refusal(connection, statement)[1]


def test_a_hangup_reloads_too(site: Site) -> None:
    site.write(RULES + column("people", "city"))
    os.kill(site.process.pid, signal.SIGHUP)
    answer = site.process._answer(10.0)
    assert answer == {"reloaded": {site.address: None}}
    assert type(rows(site.connect(), "SELECT city FROM people")[0][0]) is bytes


def test_rules_that_are_wrong_at_the_start_are_fatal(lab: Lab, server: MariadbServer) -> None:
    rules_file = lab.folder / "wrong.toml"
    write_private(rules_file, b"algorithm = 'des'")
    listener = GatewayListener("127.0.0.1", 0, rules_file, f"{server.address}:{server.port}")
    with GatewayProcess() as process, pytest.raises(CostofError, match=r"plan: .*wrong.toml: line 1: unknown variant"):
        process.begin([listener])


def test_tls_is_on_both_sides(lab: Lab, server: MariadbServer) -> None:
    rules_file = lab.folder / "tls-rules.toml"
    write_private(rules_file, (RULES + PEOPLE + check_of(CATALOGUE, server.password)).encode())
    certificate = server._authority.issue("gateway", "ecdsa-p256", ["127.0.0.1"])
    transport = {"kind": "tls", "ca_file": str(server.ca_file), "verify": "full", "resumption": False}
    endpoint = f"{server.address}:{server.port}"
    listener = GatewayListener("127.0.0.1", 0, rules_file, endpoint, certificate, transport=transport)
    with GatewayProcess() as process:
        ready = process.begin([listener])
        site = Site(server, process, rules_file, ready.listeners[0])
        login = {**site._login(SHOP, None), "ssl_disabled": False}
        trusted = {"ssl": ssl.create_default_context(cafile=server.ca_file)}
        connection = encrypted.connect(master_keys={"app": KEY}, **login, **trusted)
        assert rows(connection, "SELECT name FROM people WHERE id = 1") == [(NAMES[1],)]
        with pymysql.connect(**{**login, "user": USER}, **trusted) as plain, plain.cursor() as cursor:
            cursor.execute("SHOW STATUS LIKE 'Ssl_version'")
            assert cursor.fetchall() == (("Ssl_version", "TLSv1.3"),)
        with pytest.raises(pymysql.MySQLError, match="under TLS only"):
            site.connect()
        assert site.counters().tls == {"TLSv1.3": 2}
    with pytest.raises(CostofError, match="go together"), GatewayProcess() as process:
        process.begin([GatewayListener("127.0.0.1", 0, rules_file, endpoint, certificate)])


def test_a_server_that_is_not_there_or_ends_a_session(site: Site, lab: Lab) -> None:
    rules_file = lab.folder / "nowhere.toml"
    write_private(rules_file, b"")
    with GatewayProcess() as process:
        ready = process.begin([GatewayListener("127.0.0.1", 0, rules_file, f"{lab.address(9)}:1")])
        host, port = ready.listeners[0].split(":")
        with pytest.raises(pymysql.MySQLError, match="cannot be reached"):
            pymysql.connect(host=host, port=int(port), user=USER)
    with site.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET wait_timeout = 1")
        # The server ends the idle connection, and so the gateway the client's.
        connection._sock.settimeout(300)
        assert connection._rfile.read(1) == b""
        connection._force_close()
    before = int(site.server.status("Threads_connected")["Threads_connected"])
    gone = site.connect()
    gone._force_close()
    eventually("the session's end", lambda: int(site.server.status("Threads_connected")["Threads_connected"]) <= before)


def test_the_command(lab: Lab, server: MariadbServer, tmp_path: Path) -> None:
    rules_file = tmp_path / "rules.toml"
    endpoint = f"{server.address}:{server.port}"

    def check() -> Any:
        return costof("gateway", "--rules", str(rules_file), "--server", endpoint, "--check", cwd=tmp_path)

    write_private(rules_file, (RULES + PEOPLE).encode())
    unchecked = check()
    assert (unchecked.status, len(unchecked.told)) == (2, 1)
    assert "need [check]" in unchecked.told[0]
    write_private(rules_file, (RULES + PEOPLE + check_of(CATALOGUE, server.password)).encode())
    checked = check()
    assert (checked.status, checked.err) == (0, "")
    # What cannot be followed is said.
    server.ask(f"CREATE VIEW {DATABASE}.odd AS SELECT SLEEP(0) AS x")
    try:
        (warning,) = check().told
        assert f"view {DATABASE}.odd is refused: the gateway cannot follow its definition" in warning
    finally:
        server.ask(f"DROP VIEW {DATABASE}.odd")
    argv = [*COSTOF, "gateway", "--rules", str(rules_file), "--server", endpoint, "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        host, port = line.split()[-3].split(":")
        login = {"host": host, "port": int(port), "user": USER, "password": server.password, "ssl_disabled": True}
        assert rows(pymysql.connect(**login), "SELECT 1") == [(1,)]
        write_private(rules_file, b"colour = 1")
        process.send_signal(signal.SIGHUP)
        assert "unknown field `colour`" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
        assert (process.returncode, out, err) == (0, "", "")
    finally:
        process.kill()
        process.communicate()
    usual = ("gateway", "--rules", str(rules_file), "--server", endpoint)
    limit = costof(*usual, "--limit", "connections", "5", "--limit", "colours", "7", cwd=tmp_path)
    assert limit.status == 2
    assert "unknown field `colours`, expected one of `connections`" in limit.told[0]
    wrong = costof(*usual, cwd=tmp_path)
    assert wrong.status == 2
    assert len(wrong.told) == 1
    assert "line 1: unknown field" in wrong.told[0]
