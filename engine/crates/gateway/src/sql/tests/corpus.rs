//! Statements by which values got out of gateways, and what must become of them. The integration tests play the same, and more,
//! on real servers.

/// What becomes of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Refused,
    Sealed,
    Passes,
}

/// A statement and the item that it is of.
pub struct Case {
    pub number: u32,
    pub fate: Fate,
    pub sql: Vec<u8>,
}

/// All of them.
pub fn cases() -> Vec<Case> {
    let text = |number, fate| move |sql: &&str| Case { number, fate, sql: sql.as_bytes().to_vec() };
    let mut cases = Vec::new();
    for (number, fate, statements) in TEXTS {
        cases.extend(statements.iter().map(text(*number, *fate)));
    }
    for (number, fate, sql) in BYTES {
        cases.push(Case { number: *number, fate: *fate, sql: sql.to_vec() });
    }
    cases
}

use Fate::{Passes, Refused, Sealed};

#[rustfmt::skip]
const BYTES: &[(u32, Fate, &[u8])] = &[
    (18, Refused, b"SELECT city # \0, CONCAT(name)\nFROM people"),
    (20, Refused, b"SELECT city --\x01, CONCAT(name)\nFROM people"),
    (30, Refused, b"SELECT '\xbf\\' , CONCAT(name) FROM people -- '"),
    (32, Refused, b"SELECT CONCAT(name)\xa0FROM people"),
    (32, Refused, b"SELECT CONCAT(name)\xc2\xa0FROM people"),
    (32, Refused, b"SELECT CONCAT(name)\xe3\x80\x80FROM people"),
    (32, Refused, b"SELECT\x0bCONCAT(name)\x0cFROM\x0bpeople"),
];

#[rustfmt::skip]
const TEXTS: &[(u32, Fate, &[&str])] = &[
    (1, Refused, &["SELECT CONCAT(name), 1e1FROM people"]),
    (2, Refused, &[r"SELECT CONCAT(name), \NFROM people"]),
    (4, Refused, &["SELECT CONCAT(name), 1.FROM people"]),
    (5, Refused, &["SELECT CONCAT(name), .5FROM people"]),
    (6, Refused, &["SELECT CONCAT(name), 'a'FROM people"]),
    (8, Refused, &["SELECT CONCAT(name), 1 AS `x`FROM people"]),
    (9, Refused, &["SELECT CONCAT(name), 0x41FROM people", "SELECT CONCAT(name), 0b1FROM people"]),
    (10, Refused, &["SELECT CONCAT(name), @@version_commentFROM people", "SELECT CONCAT(name), @xFROM people"]),
    (12, Refused, &["SELECT(CONCAT(name))FROM(people)", "SELECT CONCAT(name)FROM people"]),
    (13, Refused, &["SELECT .name FROM .people", "SELECT CONCAT(.people.name) FROM people"]),
    (14, Refused, &["SELECT/*!40101 CONCAT(name), */city FROM people"]),
    (16, Refused, &["SELECT city/*!50701, CONCAT(name)*/ FROM people"]),
    (17, Refused, &["SELECT city /*!99997 , CONCAT(name) */ FROM people", "SELECT city /*! /* */ , CONCAT(name) */ FROM people",
                    "SELECT city /*M! , CONCAT(name) */ FROM people"]),
    (21, Passes, &[r"SELECT 'a\\', ', CONCAT(name) FROM people -- '"]),
    (22, Passes, &[r"SELECT 1 AS `a\``, CONCAT(name) FROM people -- `"]),
    (24, Refused, &["SET sql_mode='NO_BACKSLASH_ESCAPES'"]),
    (24, Passes, &[r"SELECT 'a\', CONCAT(name) FROM people -- '"]),
    (25, Refused, &["SET sql_mode='ANSI_QUOTES'"]),
    (25, Passes, &["SELECT \"name\" FROM people"]),
    (26, Refused, &["SET sql_mode='MSSQL'", "SELECT city AS [x'] FROM (SELECT name AS city, 1 AS [y'] FROM people) other"]),
    (28, Refused, &["SELECT name || '' FROM people"]),
    (29, Refused, &["SET character_set_results = utf16"]),
    (29, Sealed, &["SELECT name FROM people"]),
    (30, Refused, &["SET NAMES gbk", "SET NAMES sjis", "SET NAMES big5", "SET NAMES gb18030", "SET NAMES cp932", "SET NAMES ucs2"]),
    (33, Refused, &["SELECT city FROM {any (SELECT name AS city FROM people) other}", "SELECT city FROM {oj people LEFT JOIN notes ON 1}"]),
    (34, Refused, &["SELECT {fn CONCAT(name)} FROM people", "SELECT {d name} FROM people"]),
    (36, Sealed, &["SELECT x FROM (SELECT name AS x FROM people) t"]),
    (37, Sealed, &["SELECT city FROM (SELECT name AS city FROM people) people"]),
    (38, Sealed, &["WITH t(x) AS (SELECT name FROM people) SELECT x FROM t"]),
    (40, Sealed, &["SELECT city FROM people UNION ALL SELECT name FROM people", "SELECT 'x' UNION ALL SELECT name FROM people"]),
    (41, Sealed, &["(SELECT name FROM people) ORDER BY 'x' LIMIT 1", "((SELECT name FROM people))"]),
    (42, Sealed, &["SELECT x FROM names_v AS t", "SELECT * FROM d.names_v"]),
    (42, Refused, &["SELECT * FROM d.NAMES_V"]),
    (44, Sealed, &["SELECT (SELECT name FROM people LIMIT 1) AS city"]),
    (45, Sealed, &["SELECT name AS city, city AS name FROM people"]),
    (46, Sealed, &["SELECT p.* FROM people AS p", "SELECT d.people.name FROM people", "SELECT NAME FROM d . people"]),
    (48, Sealed, &["SELECT initial FROM people", "SELECT person_name FROM orders"]),
    (49, Refused, &["SELECT IFNULL(name,'') FROM people", "SELECT COALESCE(name) FROM people", "SELECT NULLIF(name,1) FROM people",
                    "SELECT ANY_VALUE(name) FROM people", "SELECT ELT(1,name) FROM people", "SELECT NAME_CONST('a',name) FROM people"]),
    (50, Refused, &["SELECT GROUP_CONCAT(name) FROM people", "SELECT JSON_ARRAYAGG(name) FROM people", "SELECT JSON_OBJECTAGG(id,name) FROM people"]),
    (52, Refused, &["SELECT j.x FROM people, JSON_TABLE(JSON_ARRAY(name), '$[*]' COLUMNS (x TEXT PATH '$')) j"]),
    (53, Refused, &["TABLE people", "SELECT * FROM (VALUES (1)) t", "VALUES ROW(1)"]),
    (54, Refused, &["SELECT DEFAULT(name) FROM people", "SELECT name FROM people PROCEDURE ANALYSE()"]),
    (56, Refused, &["SELECT name FROM people FOR SYSTEM_TIME ALL", "SELECT id FROM people PARTITION (p0)"]),
    (57, Passes, &["SELECT id a FROM people a WHERE EXISTS (SELECT 1 FROM notes a WHERE a.id=1)"]),
    (107, Passes, &["WITH people AS (SELECT 'zz' AS name, 7 AS id) SELECT name FROM (WITH c AS (SELECT name FROM people) SELECT name FROM c) q",
                    "INSERT INTO notes VALUES (9, (WITH people AS (SELECT 'zz' AS name) SELECT name FROM (WITH c AS (SELECT name FROM people) SELECT name FROM c) q))"]),
    (108, Passes, &["WITH iks AS (SELECT city AS x FROM people) SELECT x FROM (WITH `İks` AS (SELECT name AS x FROM people) SELECT x FROM iks) t"]),
    (109, Refused, &["SELECT id, 'm' AS zzz FROM notes HAVING EXISTS (SELECT name AS ` zzz` FROM people WHERE id=1 HAVING zzz > 'kP')",
                     "SELECT id, 5 AS _rowid FROM notes HAVING EXISTS (SELECT 1 FROM people WHERE _rowid > 1)", "SELECT 1 AS ` x`"]),
    (110, Passes, &["SELECT 1 FROM (SELECT 'a' AS name) AS k WHERE EXISTS (SELECT 1 FROM people AS `\u{212A}` WHERE k.name > 'b')"]),
    (111, Passes, &["SELECT city AS name FROM people ORDER BY name", "SELECT CONCAT(city) AS name FROM people ORDER BY name",
                    "SELECT id FROM notes WHERE (SELECT COUNT(*) FROM notes) IN (1, 2)", "SELECT id FROM notes LIMIT 1 OFFSET 1"]),
    (60, Refused, &["UPDATE people a JOIN people b ON a.id=b.id SET a.city = b.name"]),
    (61, Refused, &["UPDATE notes SET t = (SELECT name FROM people LIMIT 1)", "UPDATE notes SET t = IF((SELECT name FROM people LIMIT 1)='x',1,2)"]),
    (62, Refused, &["INSERT INTO notes SELECT id, name FROM people", "INSERT INTO notes TABLE people", "REPLACE INTO notes (SELECT id, name FROM people)"]),
    (64, Refused, &["INSERT INTO people(id,name,city) VALUES (1,'x','y') ON DUPLICATE KEY UPDATE city = name"]),
    (64, Passes, &["INSERT INTO people(id,name,city) VALUES (1,'x','y') ON DUPLICATE KEY UPDATE city = VALUES(name)"]),
    (65, Sealed, &["INSERT INTO people(name) VALUES ('x') RETURNING name", "DELETE FROM people RETURNING name"]),
    (65, Refused, &["DELETE FROM people RETURNING CONCAT(name)", "INSERT INTO people(name) VALUES ('x') RETURNING CONCAT(name)"]),
    (66, Refused, &["SELECT name INTO OUTFILE 'x' FROM people", "SELECT name INTO DUMPFILE 'x' FROM people", "SELECT name INTO @x FROM people",
                    "SELECT name FROM people INTO OUTFILE 'x'", "SELECT @x := name FROM people", "SELECT @x"]),
    (68, Refused, &["CREATE TABLE t AS SELECT name FROM people", "CREATE VIEW v AS SELECT 1", "CREATE TEMPORARY TABLE people (city TEXT)",
                    "ALTER TABLE people RENAME COLUMN name TO n"]),
    (69, Refused, &["HANDLER people OPEN", "LOAD DATA INFILE 'x' INTO TABLE notes", "SELECT LOAD_FILE('/etc/passwd')", "CALL p()", "DO 1", "XA START 'x'",
                    "LOCK TABLES people READ", "BEGIN NOT ATOMIC SELECT 1; END"]),
    (70, Refused, &["PREPARE s FROM 'SELECT CONCAT(name), 1e1FROM people'", "EXECUTE IMMEDIATE 'SELECT 1'", "EXECUTE s USING @x"]),
    (72, Refused, &["SELECT LAST_INSERT_ID(salary) FROM people", "SELECT SETVAL(s, 1)", "SELECT GET_LOCK(name,1) FROM people", "SELECT d.f(name) FROM people",
                    "SELECT `f`(name) FROM people"]),
    (73, Refused, &["SELECT info FROM information_schema.PROCESSLIST", "SELECT * FROM information_schema.INNODB_TRX",
                    "SELECT * FROM information_schema.INNODB_FT_INDEX_TABLE", "SELECT * FROM information_schema.INNODB_BUFFER_PAGE",
                    "SELECT * FROM information_schema.COLUMN_STATISTICS", "SELECT * FROM information_schema.PARTITIONS", "SELECT * FROM information_schema.VIEWS",
                    "SELECT * FROM information_schema.TRIGGERS", "SELECT * FROM information_schema.OPTIMIZER_TRACE", "SELECT * FROM information_schema.PROFILING"]),
    (74, Refused, &["SELECT lock_data FROM performance_schema.data_locks", "SELECT * FROM performance_schema.events_statements_history",
                    "SELECT * FROM mysql.column_stats", "SELECT * FROM mysql.general_log", "SELECT * FROM sys.processlist"]),
    (76, Refused, &["SELECT CAST(name AS SIGNED) FROM people", "GET DIAGNOSTICS @a = NUMBER"]),
    (76, Passes, &["SHOW WARNINGS", "SHOW ERRORS", "SHOW COUNT(*) WARNINGS"]),
    (77, Passes, &["INSERT INTO people(id,name) VALUES (1,'x')"]),
    (78, Refused, &["SELECT EXTRACTVALUE(1, CONCAT(0x7e, name)) FROM people", "SELECT UPDATEXML(1, name, 1) FROM people", "SELECT GTID_SUBSET(name,1) FROM people",
                    "SELECT ST_LatFromGeoHash(name) FROM people", "SELECT UUID_TO_BIN(name) FROM people", "SELECT JSON_EXTRACT(name,'$') FROM people"]),
    (80, Refused, &["SELECT COUNT(*) FROM people GROUP BY CONCAT(name, FLOOR(RAND(0)*2))"]),
    (81, Refused, &["SELECT * FROM (SELECT NAME_CONST('a',1), NAME_CONST('a',1)) t"]),
    (82, Refused, &["SELECT id FROM people WHERE ORD(SUBSTR(name,1,1)) & 64"]),
    (84, Refused, &["SELECT id FROM people WHERE name = 1", "SELECT id FROM people WHERE name + 0", "SELECT id FROM people WHERE name = TRUE",
                    "SELECT id FROM people WHERE salary = '5abc'", "SELECT id FROM people WHERE NOT name", "SELECT id FROM people WHERE name"]),
    (85, Refused, &["SELECT id FROM people WHERE name = 'a' COLLATE utf8mb4_general_ci", "SELECT id FROM people WHERE BINARY name = 'a'",
                    "SELECT id FROM people WHERE name = _binary'a'"]),
    (86, Refused, &["SELECT id FROM people WHERE (name, id) > ('M', 0)", "SELECT id FROM people WHERE name > ALL (SELECT 'M')",
                    "SELECT id FROM people WHERE name IN (SELECT word FROM guesses)"]),
    (88, Refused, &["SELECT id FROM people ORDER BY name", "SELECT id, name FROM people ORDER BY 2", "SELECT id FROM people ORDER BY CASE WHEN name<'M' THEN 1 END",
                    "SELECT MAX(id) FROM people HAVING MAX(name) > 'M'", "SELECT id, name x FROM people ORDER BY x", "SELECT id, name FROM people ORDER BY -(-2)"]),
    (89, Refused, &["SELECT id, RANK() OVER (ORDER BY name) FROM people", "SELECT DISTINCT name FROM people", "SELECT name FROM people UNION SELECT 'x'",
                    "SELECT id, RANK() OVER w FROM people WINDOW w AS (ORDER BY name)"]),
    (90, Refused, &["SELECT COUNT(*) FROM people GROUP BY LEFT(name,1)", "SELECT COUNT(*) FROM people GROUP BY name WITH ROLLUP"]),
    (92, Refused, &["SELECT REPEAT('x', ORD(name)) FROM people", "SELECT SPACE(salary) FROM people", "SELECT IF(name<'M', NULL, 1) FROM people",
                    "SELECT LENGTH(name) FROM people"]),
    (93, Refused, &["UPDATE people SET name = LEFT(name,1)", "UPDATE people SET salary = salary * 1e300 WHERE id=1"]),
    (94, Refused, &["DELETE FROM people WHERE name < 'M' LIMIT 1", "UPDATE people SET city='x' ORDER BY name LIMIT 1"]),
    (96, Refused, &["SELECT id FROM people WHERE MATCH(name) AGAINST ('x')", "SELECT COUNT(NULLIF(name,'x')) FROM people"]),
    (97, Passes, &["SELECT id FROM people WHERE name = 'guess'", "SELECT id FROM people WHERE name IN ('a', 'b') OR salary <> 5",
                   "SELECT p.id FROM people p JOIN orders o ON p.name = o.person_name", "SELECT COUNT(name) FROM people"]),
    (40, Refused, &["SELECT salary FROM people UNION ALL SELECT 1e3", "SELECT salary FROM people UNION ALL SELECT city FROM people",
                    "SELECT NULL UNION ALL SELECT salary FROM people UNION ALL SELECT 1e3"]),
    (40, Sealed, &["SELECT salary FROM people UNION ALL SELECT 1", "SELECT salary FROM people UNION ALL SELECT NULL",
                   "SELECT name FROM people UNION ALL SELECT 'x' UNION ALL SELECT city FROM people",
                   "SELECT NULL UNION ALL SELECT salary FROM people UNION ALL SELECT 1"]),
    (85, Refused, &["SELECT id FROM people WHERE 'X' IN (name, 'y' COLLATE utf8mb4_general_ci)",
                    "SELECT id FROM people WHERE ('X', 1) IN ((name, 1), (city COLLATE utf8mb4_general_ci, 2))"]),
    (84, Refused, &["SELECT id FROM people WHERE initial = 'M'", "SELECT a.id FROM people a JOIN people b ON a.initial = b.initial"]),
    (92, Refused, &["SELECT MAX(name) FROM people", "SELECT city, SUM(salary) FROM people GROUP BY city"]),
    (88, Passes, &["SELECT city FROM people ORDER BY 1", "SELECT city FROM people ORDER BY NULL", "SELECT id FROM people ORDER BY RAND()"]),
    (107, Refused, &["SET max_join_size = 20", "SELECT @@warning_count"]),
    (102, Refused, &["SELECT 1; SELECT name FROM people"]),
];
