//! What must not pass, made of parts: how a protected value is turned into another, and where it may get out.

use super::Generator;

/// `@` is a protected text.
const TURNS: &[&str] = &[
    "CONCAT(@)", "CONCAT(@, '')", "UPPER(@)", "REVERSE(@)", "HEX(@)", "TO_BASE64(@)", "LEFT(@, 8)", "SUBSTR(@, 2)", "MD5(@)",
    "IFNULL(@, '')", "COALESCE(@)", "NULLIF(@, 'x')", "IF(1, @, '')", "CASE WHEN 1 THEN @ END", "ELT(1, @)", "TRIM(@)",
    "CAST(@ AS CHAR)", "CONVERT(@, CHAR)", "CONVERT(@ USING utf16)", "@ COLLATE utf8mb4_bin", "BINARY @", "(@)", "QUOTE(@)",
    "REPLACE(@, 'zz', '')", "GREATEST(@, '')", "LPAD(@, 20, '-')", "JSON_QUOTE(@)", "JSON_ARRAY(@)", "JSON_OBJECT('k', @)",
    "NAME_CONST('a', @)", "MAX(@)", "GROUP_CONCAT(@)", "JSON_ARRAYAGG(@)", "JSON_OBJECTAGG(id, @)", "FIRST_VALUE(@) OVER (ORDER BY id)",
    "LAG(@, 0) OVER (ORDER BY id)", "(SELECT CONCAT(@))", "f(@)", "`f`(@)", "SHA1(@)", "INSERT(@, 1, 0, '')", "@ || ''", "SHA2(@, 256)",
    "CONCAT_WS('', @, '')", "REGEXP_REPLACE(@, 'zz', '')", "SUBSTRING_INDEX(@, 'zz', 1)", "EXPORT_SET(1, @, '')", "MAKE_SET(1, @)",
    "WEIGHT_STRING(@)", "COMPRESS(@)", "SOUNDEX(@)", "DECODE(ENCODE(@, 'k'), 'k')", "UNHEX(HEX(@))", "RTRIM(@)", "@ = 'guess' + 0",
    "ORD(@)", "LENGTH(@)", "ASCII(@) & 1", "CRC32(@)", "STRCMP(@, 'M')", "@ < 'M'", "@ LIKE 'a%'", "@ REGEXP '^[a-m]'", "FIELD(@, 'x')",
    "REPEAT('x', ORD(@))", "SPACE(ORD(@) & 7)", "IF(@ < 'M', NULL, 1)", "INSTR(@, 'a')", "@ + 0", "-@", "@ BETWEEN 'A' AND 'M'",
    "NOT @", "@ IS TRUE", "COUNT(NULLIF(@, 'x'))", "BIT_XOR(CRC32(@))", "STD(ORD(@))", "SUM(ORD(@))", "COUNT(DISTINCT LEFT(@, 1))",
    "LAST_INSERT_ID(ORD(@))", "RAND(ORD(@)) * 0 + ORD(@)", "DEFAULT(@)", "ROUND(ORD(@), 1)", "COERCIBILITY(@) + ORD(@)",
    "UUID_TO_BIN(@)", "EXTRACTVALUE(1, CONCAT(0x7e, @))", "UPDATEXML(1, CONCAT(0x7e, @), 1)", "JSON_EXTRACT(@, '$')", "JSON_VALID(@)",
    "LOAD_FILE(@)", "GET_LOCK(@, 0)", "BENCHMARK(1, @)", "SETVAL(numbers, ORD(@))", "@ IN (SELECT word FROM guesses)", "CHAR(ORD(@))",
    "GTID_SUBSET(@, 1)", "ST_LatFromGeoHash(@)", "MATCH(@) AGAINST ('x')", "@ > ALL (SELECT 'M')", "(@, 1) > ('M', 0)", "INET_ATON(@)",
    "FORMAT(ORD(@), 2)", "INTERVAL(ORD(@), 70, 90)", "LEAST(@, 'M')", "ROW_NUMBER() OVER (ORDER BY @)", "RANK() OVER (ORDER BY @ DESC)",
    "SUM(1) OVER (PARTITION BY LEFT(@, 1))", "NTILE(3) OVER (ORDER BY @)", "CONV(LEFT(@, 1), 36, 10)", "UCASE(@)", "MID(@, 1, 9)",
];

/// `$` is what a protected value was turned into, `@` a protected text itself.
const PLACES: &[&str] = &[
    "SELECT $ FROM people", "SELECT $ AS city FROM people", "SELECT id, $ FROM people", "SELECT x FROM (SELECT $ AS x FROM people) t",
    "WITH t(x) AS (SELECT $ FROM people) SELECT x FROM t", "SELECT (SELECT $ FROM people LIMIT 1)",
    "SELECT city FROM people UNION ALL SELECT $ FROM people", "SELECT id FROM people WHERE $", "SELECT id FROM people WHERE $ > 'M'",
    "SELECT id FROM people ORDER BY $", "SELECT COUNT(*) FROM people GROUP BY $", "SELECT COUNT(*) FROM people HAVING MAX($) > 'M'",
    "SELECT id FROM people WHERE ($ = 1) IS NOT NULL AND $", "UPDATE people SET city = $", "UPDATE people SET name = $",
    "UPDATE notes SET t = (SELECT $ FROM people LIMIT 1)", "INSERT INTO notes SELECT id + 100, $, 1 FROM people",
    "INSERT INTO notes (id, t) VALUES (77, (SELECT $ FROM people LIMIT 1))", "DELETE FROM people WHERE $", "REPLACE INTO notes (SELECT id, $, 1 FROM people)",
    "INSERT INTO people (id, city) VALUES (1, 'y') ON DUPLICATE KEY UPDATE city = $", "DELETE FROM people WHERE id = 1 RETURNING $",
    "INSERT INTO people (city) VALUES ('x') RETURNING $", "SELECT $ INTO @x FROM people LIMIT 1", "SELECT @x := $ FROM people",
    "SELECT $ FROM people PROCEDURE ANALYSE()", "DO (SELECT $ FROM people LIMIT 1)", "SELECT $ FROM people PARTITION (p0)",
    "SELECT $ FROM people FOR SYSTEM_TIME ALL", "SELECT id FROM people JOIN notes ON $ = t", "SELECT id FROM people LEFT JOIN notes ON notes.id = $",
    "CREATE TABLE copy AS SELECT $ AS x FROM people", "CREATE VIEW v AS SELECT $ AS x FROM people", "SELECT IF($, 1, 2) FROM people",
    "UPDATE people SET city = 'z' ORDER BY $ LIMIT 1", "DELETE FROM notes ORDER BY (SELECT $ FROM people LIMIT 1) LIMIT 1",
    "SELECT id FROM people WHERE @ = 1", "SELECT id FROM people WHERE salary = '5abc'", "SELECT id FROM people WHERE @ = 'a' COLLATE utf8mb4_general_ci",
    "SELECT id FROM people WHERE @ = city", "SELECT id, @ FROM people ORDER BY 2", "SELECT DISTINCT @ FROM people", "SELECT @ FROM people UNION SELECT 'x'",
    "SELECT COUNT(*) FROM people GROUP BY @", "SELECT COUNT(*) FROM people GROUP BY @ WITH ROLLUP", "SELECT MAX(@) FROM people GROUP BY @",
    "SELECT id FROM people a NATURAL JOIN owners b", "SELECT * FROM people NATURAL JOIN orders", "SELECT people.* FROM people JOIN owners USING (name)",
    "SELECT initial = 'a' FROM people", "SELECT hushed FROM people ORDER BY hushed", "SELECT CONCAT(hushed) FROM people", "SELECT UPPER(initial) FROM people",
    "SELECT CONCAT(person_name) FROM orders", "SELECT CONCAT(badge) FROM badges", "SELECT id FROM badges ORDER BY badge", "SELECT id FROM badges WHERE badge < 'M'",
    "SELECT CONCAT(x) FROM names_v", "SELECT CONCAT(y) FROM deep_v", "SELECT CONCAT(m) FROM sums_v", "SELECT UPPER(city) FROM joined_v", "SELECT y FROM deep_v ORDER BY y",
    "SELECT id FROM joined_v WHERE city > 'M'", "UPDATE joined_v SET t = city", "INSERT INTO names_v VALUES ('x')", "UPDATE names_v SET x = LEFT(x, 1)",
    "TABLE people", "VALUES ROW(1)", "CALL p()", "HANDLER people OPEN", "PREPARE s FROM 'SELECT $ FROM people'", "EXECUTE s", "EXECUTE IMMEDIATE 'SELECT $ FROM people'",
    "BEGIN NOT ATOMIC SELECT $ FROM people; END", "SELECT j.x FROM people, JSON_TABLE(JSON_ARRAY(@), '$[*]' COLUMNS (x TEXT PATH '$')) j",
    "SELECT * FROM people p JOIN LATERAL (SELECT p.name) t", "SELECT id FROM people USE INDEX (city_idx) WHERE $", "SELECT id a FROM people a WHERE EXISTS (SELECT 1 FROM notes a WHERE a.id = 1)",
    "UPDATE people a JOIN people b ON a.id = b.id SET a.city = b.name", "UPDATE people SET salary = salary * 1e300 WHERE id = 1", "UPDATE people SET salary = salary + 1",
    "UPDATE owners SET name = CONCAT(name, '!')", "DELETE FROM people WHERE name < 'M' LIMIT 1", "SELECT LAST_INSERT_ID(salary) FROM people LIMIT 1", "SELECT LAST_INSERT_ID()",
    "SELECT SPACE(salary DIV 1000000000000000) FROM people", "SELECT salary DIV 1000000000 FROM people", "SELECT id FROM people WHERE salary > 4000500000000000000",
    "SELECT SUM(salary) + 0 FROM people", "SELECT AVG(salary) > 1 FROM people", "SELECT id FROM people ORDER BY salary DESC", "SELECT MAX(id) FROM people HAVING MAX(name) > 'M'",
    "SELECT info FROM information_schema.processlist", "SELECT * FROM information_schema.innodb_trx", "SELECT name FROM mysql.innodb_index_stats", "SELECT max_value FROM mysql.column_stats",
    "SHOW STATUS LIKE 'Handler%'", "SHOW SESSION STATUS LIKE 'Handler_read%'", "SET sql_mode = 'NO_BACKSLASH_ESCAPES'", "SET sql_mode = 'ANSI_QUOTES'",
    "SET NAMES latin1", "SHOW CREATE VIEW names_v", "SELECT info FROM information_schema.processlist WHERE info LIKE '%never%'", "SELECT 'a' 'b', MAKE_SET(3, 'a'), N'a', 3. FROM people",
    "SHOW PROCESSLIST", "SHOW ENGINE INNODB STATUS", "ANALYZE SELECT * FROM people WHERE $", "EXPLAIN SELECT * FROM people WHERE $", "GET DIAGNOSTICS CONDITION 1 @x = MESSAGE_TEXT",
    "SET @x = (SELECT name FROM people LIMIT 1)", "SELECT @x", "SET sql_mode = (SELECT name FROM people LIMIT 1)", "KILL (SELECT salary FROM people LIMIT 1)",
    "LOAD DATA INFILE 'x' INTO TABLE notes", "SELECT @ INTO OUTFILE 'x' FROM people", "LOCK TABLES people READ", "ALTER TABLE people RENAME COLUMN name TO n",
    "INSERT INTO badges (id, holder, badge) VALUES (40, 'x', (SELECT name FROM people LIMIT 1))", "SELECT CAST(@ AS SIGNED) FROM people", "SHOW WARNINGS",
    "SELECT * FROM (SELECT id, @ FROM people ORDER BY @ LIMIT 3) t", "SELECT id FROM people LIMIT 3 OFFSET 1", "SELECT id FROM people WHERE @ IN (SELECT name FROM owners) OR $",
    "SELECT id FROM people WHERE EXISTS (SELECT 1 FROM guesses WHERE word > @)", "SELECT COUNT(*) FROM people WHERE @ <=> NULL OR $", "SELECT GROUP_CONCAT(id ORDER BY @) FROM people",
    "SELECT GROUP_CONCAT(id ORDER BY name SEPARATOR ',') FROM people", "SELECT GROUP_CONCAT(DISTINCT @ SEPARATOR '') FROM people", "SELECT ROW_NUMBER() OVER w, id FROM people WINDOW w AS (ORDER BY name)",
    "SELECT id FROM people WHERE name = ?", "SELECT id FROM people WHERE salary = ?", "SELECT id FROM people WHERE name IN (?, ?)", "UPDATE people SET name = ? WHERE name = ?",
];

/// Ways to name it, in people.
const NAMES: &[&str] = &["name", "name", "name", "people.name", "`name`", "NAME", "people . name", "(name)", "hushed", "initial", "`people`.`name`"];

impl Generator {
    pub(super) fn near_miss(&mut self) -> String {
        self.hit("near miss: of parts");
        let place = *self.rng.pick(PLACES);
        let mut turn = (*self.rng.pick(TURNS)).to_owned();
        if self.rng.percent(20) {
            self.hit("near miss: turned twice");
            turn = self.rng.pick(TURNS).replace('@', &turn);
        }
        let name = *self.rng.pick(NAMES);
        let quoted = place.contains("'SELECT $");
        let turn = if quoted { turn.replace('\'', "''") } else { turn };
        let text = place.replace("PATH '$'", "PATH '%'").replace("'$[*]'", "'%[*]'").replace('$', &turn);
        // A variable's sign is the placeholder's too.
        let text = text.replace("@x", "\u{1}x").replace('@', name).replace('\u{1}', "@");
        let text = text.replace("'%'", "'$'").replace("'%[*]'", "'$[*]'");
        if let Some(parameters) = &mut self.parameters {
            parameters.extend(text.matches('?').map(|_| crate::schema::Kind::Text));
        }
        text
    }
}
