"""Statements by which others have read, or might read, a protected column, and what must become of each.

A `Case` is played in one session, its steps in order. What a step must end as:

- `R`: refused, by the gateway or as a syntax that the server does not know; no row;
- `S`: the columns at `sealed` come as ciphertexts;
- `P`: passes; with `rows` these are the answer;
- `E`: the server's own error of this number, in words that quote no value;
- `RS`: either R or S.

In no step may a byte of a protected value reach the client. Statements are bytes, since some are no text in any
character set. Alternatives of one attack share a number.

Long: it is a list of attacks, which is read as a list.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

NAMES = (b"kQ7vXz2Lm9TbRw4e", b"Zp3NcYd8Hs6GfJ1u", b"bM5xWt0KrV7aEq2o")
SALARIES = (1_739_402_685, 1_264_857_093, 2_048_317_596)
ROWS = len(NAMES)

Rows = list[tuple[bytes | None, ...]]


@dataclass(frozen=True)
class Step:
    statement: bytes
    expects: str
    sealed: tuple[int, ...] = (0,)
    rows: Rows | None = None
    error: int = 0


@dataclass(frozen=True)
class Case:
    number: int
    group: str
    steps: tuple[Step, ...]

    @property
    def name(self) -> str:
        words = self.steps[-1].statement.decode("latin1")
        return f"{self.number} {words}"[:70]


def _step(expects: str, statement: str | bytes, **more: object) -> Step:
    return Step(statement.encode() if isinstance(statement, str) else statement, expects, **more)  # type: ignore[arg-type]


def r(statement: str | bytes) -> Step:
    return _step("R", statement)


def s(statement: str | bytes, *sealed: int) -> Step:
    return _step("S", statement, sealed=sealed or (0,))


def p(statement: str | bytes, rows: Rows | None = None) -> Step:
    return _step("P", statement, rows=rows)


def e(number: int, statement: str) -> Step:
    return _step("E", statement, error=number)


def _cases(group: str, *numbered: tuple[int, Iterable[Step | tuple[Step, ...]]]) -> list[Case]:
    return [
        Case(number, group, alternative if isinstance(alternative, tuple) else (alternative,))
        for number, alternatives in numbered
        for alternative in alternatives
    ]


LEXERS = _cases(
    "lexers",
    (1, [r("SELECT CONCAT(name), 1e1FROM people")]),
    (2, [r("SELECT CONCAT(name), \\NFROM people")]),
    (4, [r("SELECT CONCAT(name), 1.FROM people")]),
    (5, [r("SELECT CONCAT(name), .5FROM people")]),
    (6, [r("SELECT CONCAT(name), 'a'FROM people")]),
    (8, [r("SELECT CONCAT(name), 1 AS `x`FROM people")]),
    (9, [r("SELECT CONCAT(name), 0x41FROM people"), r("SELECT CONCAT(name), 0b1FROM people")]),
    (10, [r("SELECT CONCAT(name), @@version_commentFROM people"), r("SELECT CONCAT(name), @xFROM people")]),
    (12, [r("SELECT(CONCAT(name))FROM(people)"), r("SELECT CONCAT(name)FROM people")]),
    (13, [r("SELECT .name FROM .people"), r("SELECT CONCAT(.people.name) FROM people")]),
    (14, [r("SELECT/*!40101 CONCAT(name), */city FROM people")]),
    (16, [r("SELECT city/*!50701, CONCAT(name)*/ FROM people")]),
    (
        17,
        [
            r("SELECT city /*!99997 , CONCAT(name) */ FROM people"),
            r("SELECT city /*! /* */ , CONCAT(name) */ FROM people"),
        ],
    ),
    (18, [r(b"SELECT city # \0, CONCAT(name)\nFROM people")]),
    (20, [r(b"SELECT city --\x01, CONCAT(name)\nFROM people")]),
    (21, [p("SELECT 'a\\\\', ', CONCAT(name) FROM people -- '", [(b"a\\", b", CONCAT(name) FROM people -- ")])]),
    (22, [p("SELECT 1 AS `a\\``, CONCAT(name) FROM people -- `", [(b"1",)])]),
    (
        24,
        [
            (
                r("SET sql_mode='NO_BACKSLASH_ESCAPES'"),
                p("SELECT 'a\\', CONCAT(name) FROM people -- '", [(b"a', CONCAT(name) FROM people -- ",)]),
            )
        ],
    ),
    (25, [(r("SET sql_mode='ANSI_QUOTES'"), p('SELECT "name" FROM people', [(b"name",)] * ROWS))]),
    (
        26,
        [
            (
                r("SET sql_mode='MSSQL'"),
                r("SELECT city AS [x'] FROM (SELECT name AS city, 1 AS [y'] FROM people) other"),
            )
        ],
    ),
    (28, [r("SELECT name || '' FROM people")]),
    (29, [(r("SET character_set_results = utf16"), s("SELECT name FROM people"))]),
    (
        30,
        [
            (r(f"SET NAMES {charset}"), r(b"SELECT '\xbf\\' , CONCAT(name) FROM people -- '"))
            for charset in ("gbk", "sjis", "big5", "gb18030", "cp932", "ucs2")
        ],
    ),
    (
        32,
        [
            *(r(b"SELECT CONCAT(name)" + blank + b"FROM people") for blank in (b"\xa0", b"\xc2\xa0", b"\xe3\x80\x80")),
            r(b"SELECT\x0bCONCAT(name)\x0cFROM\x0bpeople"),
        ],
    ),
    (
        33,
        [
            r("SELECT city FROM {any (SELECT name AS city FROM people) other}"),
            r("SELECT city FROM {oj people LEFT JOIN notes ON 1}"),
        ],
    ),
    (34, [r("SELECT {fn CONCAT(name)} FROM people"), r("SELECT {d name} FROM people")]),
)

_WRAPPERS = (
    "IFNULL(name,'')",
    "COALESCE(name)",
    "NULLIF(name,1)",
    "ANY_VALUE(name)",
    "ELT(1,name)",
    "NAME_CONST('a',name)",
)
# A server takes a table for it where it does not see it: in 10.11 from the WITH of a WITH.
_AS_TABLE = "WITH people AS (SELECT 'zz' AS name, 7 AS id)"
_CITIES = [(b"city-1",), (b"city-2",), (b"city-3",)]
# An output that a subquery finds instead of the column that a server would take there.
_HAVING = "SELECT id, 'm' AS `{}` FROM notes HAVING EXISTS (SELECT {} > '{}')"
_GATHERERS = ("GROUP_CONCAT(name)", "JSON_ARRAYAGG(name)", "JSON_OBJECTAGG(id,name)")

NAMES_MADE_UP = _cases(
    "names",
    (36, [s("SELECT x FROM (SELECT name AS x FROM people) t")]),
    (37, [s("SELECT city FROM (SELECT name AS city FROM people) people")]),
    (38, [s("WITH t(x) AS (SELECT name FROM people) SELECT x FROM t")]),
    (
        40,
        [
            s("SELECT city FROM people UNION ALL SELECT name FROM people"),
            s("SELECT 'x' UNION ALL SELECT name FROM people"),
        ],
    ),
    (41, [s("(SELECT name FROM people) ORDER BY 'x' LIMIT 1"), s("((SELECT name FROM people))")]),
    (
        42,
        [s("SELECT x FROM names_v AS t"), s("SELECT * FROM d.names_v"), _step("RS", "SELECT * FROM d.NAMES_V")],
    ),
    (44, [s("SELECT (SELECT name FROM people LIMIT 1) AS city")]),
    (45, [s("SELECT name AS city, city AS name FROM people", 0)]),
    (
        46,
        [
            s("SELECT p.* FROM people AS p", 1, 2, 4),
            s("SELECT d.people.name FROM people"),
            s("SELECT NAME FROM d . people"),
        ],
    ),
    (48, [s("SELECT initial FROM people"), s("SELECT person_name FROM orders")]),
    (49, [r(f"SELECT {each} FROM people") for each in (", ".join(_WRAPPERS), *_WRAPPERS)]),
    (50, [r(f"SELECT {each} FROM people") for each in (", ".join(_GATHERERS), *_GATHERERS)]),
    (52, [r("SELECT j.x FROM people, JSON_TABLE(JSON_ARRAY(name), '$[*]' COLUMNS (x TEXT PATH '$')) j")]),
    (53, [r("TABLE people"), r("SELECT * FROM (VALUES (1)) t"), r("VALUES ROW(1)")]),
    (54, [r("SELECT DEFAULT(name) FROM people"), r("SELECT name FROM people PROCEDURE ANALYSE()")]),
    (56, [r("SELECT name FROM people FOR SYSTEM_TIME ALL"), r("SELECT id FROM people PARTITION (p0)")]),
    # Of the inner table: of the outer one it would be one row.
    (
        57,
        [p("SELECT id a FROM people a WHERE EXISTS (SELECT 1 FROM notes a WHERE a.id=1)", [(b"1",), (b"2",), (b"3",)])],
    ),
    (58, [(p("USE other"), s("SELECT name FROM d.people"), e(1054, "SELECT name FROM people"))]),
    (
        107,
        [
            e(1146, f"{_AS_TABLE} SELECT name FROM (WITH c AS (SELECT name FROM people) SELECT name FROM c) q"),
            e(1146, f"{_AS_TABLE} SELECT (WITH c AS (SELECT MAX(name) AS m FROM people) SELECT m FROM c) AS x"),
            e(
                1146,
                f"{_AS_TABLE} SELECT 1 FROM (WITH c AS (SELECT id FROM people WHERE name > 'k') SELECT id FROM c) q",
            ),
            e(
                1146,
                f"INSERT INTO notes VALUES (9, ({_AS_TABLE} SELECT name FROM (WITH c AS (SELECT name FROM people)"
                " SELECT name FROM c) q LIMIT 1))",
            ),
            p(f"{_AS_TABLE} SELECT name FROM people", [(b"zz",)]),
        ],
    ),
    (
        108,
        [
            p(
                f"WITH {one} AS (SELECT city AS x FROM people) "
                f"SELECT x FROM (WITH `{other}` AS (SELECT name AS x FROM people LIMIT 9) SELECT x FROM {one}) t",
                _CITIES,
            )
            for one, other in (("iks", "İks"), ("kks", "\u212aks"), ("`éks`", "Éks"))
        ],
    ),
    (
        109,
        [
            r(_HAVING.format("zzz", "name AS ` zzz` FROM people WHERE id=1 HAVING zzz", "kP")),
            r(_HAVING.format("zzz", "name AS `\x01zzz` FROM people WHERE id=1 HAVING zzz", "kP")),
            r(_HAVING.format("_rowid", "1 FROM badges WHERE _rowid", "1000000")),
            r(_HAVING.format("secret", "1 FROM badges JOIN people ON TRUE JOIN notes USING (id) WHERE secret", "bL")),
            r(_HAVING.format("prÉnom", "1 FROM badges WHERE `prÉnom`", "kP")),
            r("SELECT CONCAT(city) AS `prÉnom` FROM badges ORDER BY CONCAT(`prÉnom`)"),
            p("SELECT city AS `prÉnom` FROM badges GROUP BY `prÉnom` ORDER BY CONCAT(`prÉnom`)", [(b"city-1",)]),
            r("SELECT CONCAT(city) AS secret FROM badges JOIN orders USING (city) ORDER BY CONCAT(secret)"),
            r("SELECT CONCAT(city) AS _rowid FROM badges ORDER BY -_rowid"),
            r("SELECT 1 AS ` x`"),
        ],
    ),
    (
        110,
        [
            *(
                p(
                    f"SELECT 1 FROM (SELECT 'a' AS name) AS `{one}` WHERE EXISTS (SELECT 1 FROM people AS `{other}`"
                    f" WHERE `{one}`.name > 'b')",
                    [],
                )
                for one, other in (("k", "\u212a"), ("i", "İ"), ("é", "É"))
            ),
            # Which servers tell apart or not.
            r("SELECT 1 FROM (SELECT 'a' AS name) AS k WHERE EXISTS (SELECT 1 FROM people AS K WHERE k.name = 'b')"),
        ],
    ),
    (
        111,
        [
            p("SELECT city AS name FROM people ORDER BY name DESC", _CITIES[::-1]),
            p("SELECT CONCAT(city) AS name FROM people ORDER BY name DESC", _CITIES[::-1]),
            p("SELECT id FROM notes WHERE (SELECT COUNT(*) FROM notes) IN (1, 2) ORDER BY id", [(b"1",), (b"2",)]),
            p("SELECT `É` FROM (SELECT id AS `é1`, t AS `É` FROM notes) n WHERE `é1` = 1", [(b"a note",)]),
            p("WITH c (a, `É`) AS (SELECT * FROM notes) SELECT `É` FROM c WHERE a = 1", [(b"a note",)]),
            p("SELECT (SELECT COUNT(*) AS n FROM notes HAVING n > 1) AS n FROM notes LIMIT 1", [(b"2",)]),
            p("SELECT id + 1 AS n FROM notes GROUP BY n HAVING n > 1 ORDER BY -n", [(b"3",), (b"2",)]),
            p("SELECT id FROM notes ORDER BY id LIMIT 1 OFFSET 1", [(b"2",)]),
        ],
    ),
)

COPIES = _cases(
    "copies",
    (60, [r("UPDATE people a JOIN people b ON a.id=b.id SET a.city = b.name")]),
    (
        61,
        [
            r("UPDATE notes SET t = (SELECT name FROM people LIMIT 1)"),
            r("UPDATE notes SET t = IF((SELECT name FROM people LIMIT 1)='x',1,2)"),
        ],
    ),
    (
        62,
        [
            r("INSERT INTO notes SELECT id, name FROM people"),
            r("INSERT INTO notes TABLE people"),
            r("REPLACE INTO notes (SELECT id, name FROM people)"),
        ],
    ),
    (
        64,
        [
            r("INSERT INTO people(id,name,city) VALUES (1,'x','y') ON DUPLICATE KEY UPDATE city = name"),
            p("INSERT INTO people(id,name,city) VALUES (1,'x','y') ON DUPLICATE KEY UPDATE city = VALUES(name)"),
        ],
    ),
    (
        65,
        [
            s("INSERT INTO people(name) VALUES ('x') RETURNING name"),
            s("DELETE FROM people RETURNING name"),
            r("INSERT INTO people(name) VALUES ('x') RETURNING CONCAT(name)"),
            r("DELETE FROM people RETURNING CONCAT(name)"),
        ],
    ),
    (
        66,
        [
            r("SELECT name INTO OUTFILE 'x' FROM people"),
            r("SELECT name INTO DUMPFILE 'x' FROM people LIMIT 1"),
            r("SELECT name INTO @x FROM people LIMIT 1"),
            (r("SELECT @x := name FROM people"), r("SELECT @x")),
        ],
    ),
    (
        68,
        [
            r("CREATE TABLE t AS SELECT name FROM people"),
            r("CREATE VIEW v AS SELECT CONCAT(name) AS x FROM people"),
            r("CREATE TEMPORARY TABLE people (city TEXT)"),
            r("ALTER TABLE people RENAME COLUMN name TO n"),
        ],
    ),
    (
        69,
        [
            r("HANDLER people OPEN"),
            r("LOAD DATA INFILE 'x' INTO TABLE notes"),
            r("LOAD DATA LOCAL INFILE 'x' INTO TABLE notes"),
            r("SELECT LOAD_FILE('/etc/hostname')"),
            r("CALL p()"),
            r("DO 1"),
            r("XA START 'x'"),
            r("LOCK TABLES people READ"),
            r("BEGIN NOT ATOMIC SELECT CONCAT(name) FROM people; END"),
        ],
    ),
    (
        70,
        [
            (r("PREPARE s FROM 'SELECT CONCAT(name), 1e1FROM people'"), r("EXECUTE s"), r("EXECUTE s USING @x")),
            r("EXECUTE IMMEDIATE 'SELECT CONCAT(name), 1e1FROM people'"),
        ],
    ),
    (
        72,
        [
            r("SELECT LAST_INSERT_ID(salary) FROM people"),
            r("SELECT SETVAL(numbers, salary) FROM people"),
            r("SELECT GET_LOCK(name,1) FROM people"),
            r("SELECT d.f(name) FROM people"),
            r("SELECT `f`(name) FROM people"),
        ],
    ),
)

_SCHEMA_TABLES = (
    "INNODB_TRX",
    "INNODB_FT_INDEX_TABLE",
    "INNODB_BUFFER_PAGE",
    "COLUMN_STATISTICS",
    "PARTITIONS",
    "VIEWS",
    "TRIGGERS",
    "OPTIMIZER_TRACE",
    "PROFILING",
)
_OTHER_TABLES = (
    "performance_schema.events_statements_history",
    "mysql.column_stats",
    "mysql.general_log",
    "sys.processlist",
    "sys.session",
)

SERVER = _cases(
    "server",
    (
        73,
        [
            r("SELECT info FROM information_schema.PROCESSLIST"),
            *(r(f"SELECT * FROM information_schema.{table}") for table in _SCHEMA_TABLES),
        ],
    ),
    (
        74,
        [
            r("SELECT lock_data FROM performance_schema.data_locks"),
            *(r(f"SELECT * FROM {table}") for table in _OTHER_TABLES),
        ],
    ),
    (
        76,
        [
            (
                r("SELECT CAST(name AS SIGNED) FROM people"),
                p("SHOW WARNINGS", []),
                p("SHOW ERRORS", []),
                p("SHOW COUNT(*) WARNINGS"),
                r("GET DIAGNOSTICS CONDITION 1 @x = MESSAGE_TEXT"),
            )
        ],
    ),
    (
        77,
        [
            (
                e(1062, "INSERT INTO people(id,name) VALUES (1,'x')"),
                e(1062, "INSERT INTO people(id,name) VALUES (1,'x')"),
            )
        ],
    ),
    (
        78,
        [
            r("SELECT EXTRACTVALUE(1, CONCAT(0x7e, name)) FROM people"),
            r("SELECT UPDATEXML(1, CONCAT(0x7e, name), 1) FROM people"),
            r("SELECT GTID_SUBSET(name,1) FROM people"),
            r("SELECT ST_LatFromGeoHash(name) FROM people"),
            r("SELECT UUID_TO_BIN(name) FROM people"),
            r("SELECT JSON_EXTRACT(name,'$') FROM people"),
        ],
    ),
    (80, [r("SELECT COUNT(*) FROM people GROUP BY CONCAT(name, FLOOR(RAND(0)*2))")]),
    (81, [r("SELECT * FROM (SELECT NAME_CONST('a',1), NAME_CONST('a',1)) t")]),
)

_CONVERSIONS = ("name = 1", "name + 0", "name = TRUE", "salary = '5abc'", "NOT name", "name")
_COLLATIONS = (
    "name = 'a' COLLATE utf8mb4_general_ci",
    "BINARY name = 'a'",
    "name = _binary'a'",
    "'A' IN (name, 'b' COLLATE utf8mb4_general_ci)",
    "('A', 1) IN ((name, 1), (city COLLATE utf8mb4_general_ci, 2))",
)
_COMPARISONS = ("(name, id) > ('M', 0)", "name > ALL (SELECT 'M')", "name IN (SELECT word FROM guesses)")
_LENGTHS = ("REPEAT('x', ORD(name))", "SPACE(salary)", "IF(name<'M', NULL, 1)", "LENGTH(name)")

INFERENCE = _cases(
    "inference",
    (82, [r("SELECT id FROM people WHERE ORD(SUBSTR(name,1,1)) & 64")]),
    (84, [r(f"SELECT id FROM people WHERE {condition}") for condition in _CONVERSIONS]),
    (85, [r(f"SELECT id FROM people WHERE {condition}") for condition in _COLLATIONS]),
    (86, [r(f"SELECT id FROM people WHERE {condition}") for condition in _COMPARISONS]),
    (
        88,
        [
            r("SELECT id FROM people ORDER BY name"),
            r("SELECT id, name FROM people ORDER BY 2"),
            r("SELECT id FROM people ORDER BY CASE WHEN name<'M' THEN 1 END"),
            r("SELECT MAX(id) FROM people HAVING MAX(name) > 'M'"),
        ],
    ),
    (
        89,
        [
            r("SELECT id, RANK() OVER (ORDER BY name) FROM people"),
            r("SELECT DISTINCT name FROM people"),
            r("SELECT name FROM people UNION SELECT 'x'"),
        ],
    ),
    (
        90,
        [
            r("SELECT COUNT(*) FROM people GROUP BY LEFT(name,1)"),
            r("SELECT COUNT(*) FROM people GROUP BY name WITH ROLLUP"),
        ],
    ),
    (92, [r(f"SELECT {expression} FROM people") for expression in _LENGTHS]),
    (93, [r("UPDATE people SET name = LEFT(name,1)"), r("UPDATE people SET salary = salary * 1e300 WHERE id=1")]),
    (
        94,
        [
            r("DELETE FROM people WHERE name < 'M' LIMIT 1"),
            r("UPDATE people SET city='x' ORDER BY name LIMIT 1"),
        ],
    ),
    (
        96,
        [
            r("SELECT id FROM people WHERE MATCH(name) AGAINST ('x')"),
            r("SELECT COUNT(NULLIF(name,'x')) FROM people"),
        ],
    ),
    (
        97,
        [
            p("SELECT id FROM people WHERE name = 'guess'", []),
            r("SELECT id FROM people WHERE initial = 'k'"),
            r("SELECT MIN(name) FROM people"),
            r("SELECT SUM(salary) FROM people"),
            r("SELECT salary FROM people UNION ALL SELECT 1e3"),
        ],
    ),
)

CASES = [*LEXERS, *NAMES_MADE_UP, *COPIES, *SERVER, *INFERENCE]
# These a second time where computed outputs are encrypted and anything may be compared.
OPEN_CASES = [*LEXERS, *NAMES_MADE_UP]
# A guess becomes a refusal where comparisons are.
STRICT_CASES = [Case(97, "inference", (r("SELECT id FROM people WHERE name = 'guess'"),))]
