use super::*;
use crate::gateway::rules::{Catalogue, Entry};
use proptest::prelude::*;

const TABLES: Reading = Reading { columns: Columns::Tables, tells_id: false };

fn rules(catalogue: Option<Catalogue>) -> Rules {
    let mut rules = Rules::of("[[columns]]\ndatabase = 'd'\ntable = 'people'\ncolumn = 'name'\n");
    rules.catalogue = catalogue;
    rules
}

fn entry(table: &str, is_view: bool) -> Entry {
    Entry { database: b"d".into(), table: table.into(), column: b"name".into(), is_view }
}

fn read_with(sql: &str, catalogue: Option<Catalogue>) -> Result<Reading, Refusal> {
    let rules = rules(catalogue);
    read(sql.as_bytes(), &Surroundings { rules: &rules, backslash_escapes: true })
}

fn reading(sql: &str) -> Reading {
    read_with(sql, None).unwrap_or_else(|refusal| panic!("{sql}: {refusal}"))
}

/// Why it does not pass.
fn refused(sql: &str) -> String {
    read_with(sql, None).map(|reading| panic!("{sql} passed: {reading:?}")).unwrap_err().to_string()
}

#[test]
fn all_of_tpcc_passes() {
    for sql in [
        "SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse WHERE w_id = ? AND c_w_id = w_id AND c_id = ?",
        "SELECT d_next_o_id, d_tax FROM district WHERE d_id = ? AND d_w_id = ? FOR UPDATE",
        "SELECT COUNT(DISTINCT (s_i_id)) FROM order_line, stock WHERE ol_w_id = ? AND s_quantity < ?",
        "SELECT c_id FROM customer WHERE c_last = 'O\\'Brien' ORDER BY c_first LIMIT 1 OFFSET 2",
        "SELECT SUM(ol_amount) FROM order_line WHERE ol_o_id IN (?, ?, ?)",
        "SELECT s.s_quantity FROM stock AS s JOIN item i ON i.i_id = s.s_i_id WHERE i.i_id BETWEEN 1 AND 2 FOR UPDATE",
        "SELECT MIN(no_o_id) FROM new_orders WHERE no_d_id = ? LOCK IN SHARE MODE",
        "SELECT a FROM t WHERE b IN (SELECT c FROM u WHERE d = 1) AND e = (SELECT MAX(f) FROM u) AND EXISTS (SELECT 1 FROM u)",
    ] {
        assert_eq!(reading(sql), TABLES, "{sql}");
    }
    for sql in [
        "UPDATE district SET d_next_o_id = ? + 1 WHERE d_id = ? AND d_w_id = ?",
        "UPDATE customer SET c_balance = c_balance - ?, c_data = CONCAT(?, c_data), c_cnt = c_cnt + 1 WHERE c_id = ?",
        "UPDATE stock SET s_quantity = CASE WHEN s_quantity >= ? + 10 THEN s_quantity - ? ELSE s_quantity - ? + 91 END, \
         s_ytd = s_ytd + ? WHERE s_i_id = ?",
        "UPDATE warehouse w SET w.w_ytd = w_ytd + 3.5e1",
        "UPDATE a, b SET a.x = a.x + 1 WHERE a.id = b.id",
        "UPDATE t SET seen = NOW() + INTERVAL 1 DAY, n = CAST(? AS DECIMAL(10, 2)), x = x'41', y = _utf8mb4'z' ORDER BY id LIMIT 1",
        "INSERT INTO history (h_c_id, h_date, h_data) VALUES (?, NOW(), 'a'), (-1, NULL, DEFAULT)",
        "INSERT INTO d.orders VALUES (1, CURRENT_TIMESTAMP, _binary'a\\'b')",
        "INSERT INTO t SET a = 1, b = IF(b > 1, 2, 3)",
        "INSERT INTO t (a) VALUES (1) ON DUPLICATE KEY UPDATE a = a + 1, b = VALUES(b)",
        "REPLACE INTO t VALUES (1)",
        "DELETE FROM new_orders WHERE no_o_id = ?",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
        "SET autocommit=0",
        "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci",
        "SET NAMES 'utf8mb4'",
        "SET CHARACTER SET utf8",
        "BEGIN",
        "BEGIN WORK;",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
        "COMMIT",
        "ROLLBACK",
        "ROLLBACK TO SAVEPOINT `a`",
        "SAVEPOINT a",
        "RELEASE SAVEPOINT a",
        "USE `d`",
        "KILL QUERY 5",
        "",
        " -- nothing",
    ] {
        reading(sql);
    }
}

#[test]
fn what_drivers_say_when_they_connect_passes() {
    for sql in [
        "/* mysql-connector-j-8.0.33 */SELECT  @@session.auto_increment_increment AS auto_increment_increment, \
         @@character_set_client AS character_set_client, @@sql_mode AS sql_mode, @@system_time_zone AS system_time_zone",
        "SELECT @@session.transaction_read_only",
        "select @@version_comment limit 1",
        "SELECT DATABASE(), VERSION(), USER()",
        "SELECT 1",
        "SELECT 1 FROM DUAL",
        "SELECT 'a' LIKE 'b', CONCAT('x', 1)",
    ] {
        assert_eq!(reading(sql).columns, Columns::Server, "{sql}");
    }
    for sql in [
        "SET character_set_results = NULL",
        "SET sql_mode='STRICT_TRANS_TABLES'",
        "set autocommit=1, sql_mode = concat(@@sql_mode,',STRICT_TRANS_TABLES')",
        "SET @@session.autocommit = OFF",
        "SET session wait_timeout=28800, net_write_timeout = 600",
        "SET time_zone = '+00:00'",
    ] {
        assert!(!reading(sql).tells_id);
    }
    for sql in [
        "SHOW WARNINGS",
        "SHOW COUNT(*) WARNINGS",
        "SHOW FULL COLUMNS FROM t LIKE 'a%'",
        "SHOW CHARACTER SET",
        "SHOW TABLES",
    ] {
        assert_eq!(reading(sql).columns, Columns::Shown, "{sql}");
    }
    // The id of the last new row is among them.
    assert_eq!(reading("SHOW VARIABLES LIKE 'sql_mode'").columns, Columns::Anything);
}

#[test]
fn what_tells_of_data_is_not_the_servers_own() {
    for sql in [
        "SELECT LAST_INSERT_ID()",
        "SELECT @@last_insert_id",
        "SELECT @@session.identity",
        "SELECT @@`insert_id`",
        "SELECT FOUND_ROWS()",
        "SELECT @x",
        "SELECT (SELECT 1)",
        "SELECT 1 UNION SELECT 2",
    ] {
        assert_ne!(reading(sql).columns, Columns::Server, "{sql}");
    }
}

/// MariaDB sends the names that such a statement makes up as if they were a table's.
#[test]
fn names_that_a_statement_makes_up_are_worth_nothing() {
    for sql in [
        "SELECT x FROM (SELECT name AS x FROM people) d",
        "SELECT name FROM (SELECT name FROM people) AS other, t",
        "SELECT x FROM t JOIN (SELECT name AS x FROM people) d ON 1",
        "SELECT x FROM t, (SELECT name AS x FROM people) d",
        "SELECT x FROM ((SELECT name AS x FROM people)) d",
        "SELECT a FROM t WHERE b IN ((SELECT c FROM u))",
        "WITH other AS (SELECT name AS x FROM people) SELECT x FROM other",
        "(SELECT name FROM people) ORDER BY 1",
        "SELECT x FROM (VALUES (1)) d",
        "SELECT x FROM (TABLE people) d",
        "SELECT x FROM t, LATERAL (SELECT name AS x FROM people) d",
        "SELECT a, (SELECT name FROM people) FROM t",
    ] {
        assert_eq!(reading(sql).columns, Columns::Anything, "{sql}");
    }
    assert_eq!(reading("SELECT a FROM t GROUP BY a WITH ROLLUP"), TABLES);
    assert_eq!(reading("SELECT a FROM t UNION ALL SELECT b FROM u"), TABLES, "the server names no table of these");
}

#[test]
fn views_are_worth_nothing_where_they_are_known() {
    let catalogue = || Some(Catalogue::new(&[entry("people", false), entry("names", true)]));
    let columns = |sql: &str| read_with(sql, catalogue()).unwrap().columns;
    for sql in [
        "SELECT * FROM names",
        "SELECT x FROM `NAMES` AS t",
        "SELECT x FROM d . Names t",
        "SELECT x FROM \"names\"",
        "SELECT `a``b` FROM t",
    ] {
        assert_eq!(columns(sql), Columns::Anything, "{sql}");
    }
    assert_eq!(columns("SELECT name FROM people"), Columns::Tables);
    let tells = |sql: &str| read_with(sql, catalogue()).unwrap().tells_id;
    assert!(tells("INSERT INTO orders VALUES (1)") && tells("INSERT INTO other.people (a) VALUES (1)"));
    for sql in ["INSERT INTO people VALUES (1)", "INSERT INTO d.`People` VALUES (1)", "INSERT INTO names VALUES (1)"] {
        assert!(!tells(sql), "{sql}");
    }
    assert!(!reading("INSERT INTO orders VALUES (1)").tells_id, "it could be a view");
}

#[test]
fn nothing_is_copied_out_of_its_column() {
    for (sql, words) in [
        ("SELECT name INTO OUTFILE '/tmp/x' FROM people", "INTO"),
        ("SELECT name FROM people INTO @x", "INTO"),
        ("SELECT name FROM people WHERE a IN (SELECT b INTO @x FROM t)", "INTO"),
        ("SELECT @x := name FROM people", "assignment"),
        ("SELECT name FROM people PROCEDURE ANALYSE()", "PROCEDURE"),
        ("INSERT INTO t SELECT name FROM people", "INSERT"),
        ("INSERT INTO t (SELECT name FROM people)", "INSERT"),
        ("INSERT INTO t (a) SELECT name FROM people", "INSERT"),
        ("INSERT INTO t TABLE people", "INSERT"),
        ("INSERT INTO t VALUES ((SELECT name FROM people))", "column SELECT"),
        ("INSERT INTO t VALUES ((SELECT(name) FROM people))", "column SELECT"),
        ("INSERT INTO t (a, b) VALUES (1, a)", "column A"),
        ("INSERT INTO t (a, b) VALUES (1, `a`)", "column A"),
        ("INSERT INTO t (a, b) VALUES (1, \"a\")", "double quotes"),
        ("INSERT INTO t (a) VALUES (1) ON DUPLICATE KEY UPDATE a = b", "column B"),
        ("INSERT INTO t (a) VALUES (1) AS new ON DUPLICATE KEY UPDATE a = new.b", "form"),
        ("REPLACE t SET a = (SELECT name FROM people)", "column SELECT"),
        ("UPDATE people SET plain = name", "column NAME"),
        ("UPDATE people SET plain = (name)", "column NAME"),
        ("UPDATE people SET plain = CONCAT(name, '')", "column NAME"),
        ("UPDATE people SET plain = CASE WHEN name = 'x' THEN 1 END", "column NAME"),
        ("UPDATE people SET plain = CASE WHEN 1 THEN end END", "END"),
        ("UPDATE people SET plain = 1, other = plain", "column PLAIN"),
        ("UPDATE people SET plain = \"name\"", "double quotes"),
        ("UPDATE people p JOIN t SET t.name = p.name", "column NAME"),
        ("UPDATE people, t SET name = t.name", "column NAME"),
        ("UPDATE t SET plain = (SELECT name FROM people)", "column SELECT"),
        ("UPDATE t SET plain = (SELECT(plain) FROM people)", "column SELECT"),
        ("UPDATE t SET day = INTERVAL day DAY + NOW()", "interval"),
        ("UPDATE t SET id = LAST_INSERT_ID(name)", "LAST_INSERT_ID"),
        ("SELECT LAST_INSERT_ID(name) FROM people", "LAST_INSERT_ID"),
        ("WITH x AS (SELECT 1) UPDATE t SET plain = name", "UPDATE"),
        ("DELETE FROM t WHERE 1; SELECT 1", "second statement"),
    ] {
        assert!(refused(sql).contains(words), "{sql}: {}", refused(sql));
    }
}

#[test]
fn other_statements_do_not_pass() {
    for sql in [
        "CALL p()",
        "DO SLEEP(1)",
        "CREATE TABLE t2 AS SELECT * FROM people",
        "CREATE VIEW v AS SELECT 1",
        "DROP TABLE t",
        "ALTER TABLE people RENAME COLUMN name TO plain",
        "RENAME TABLE people TO t",
        "TRUNCATE t",
        "HANDLER people OPEN",
        "LOAD DATA INFILE 'x' INTO TABLE t",
        "PREPARE s FROM 'SELECT 1'",
        "EXECUTE IMMEDIATE 'SELECT 1'",
        "EXPLAIN SELECT 1",
        "DESCRIBE people",
        "BEGIN NOT ATOMIC SELECT 1; END",
        "START SLAVE",
        "GRANT ALL ON *.* TO x",
        "FLUSH TABLES",
        "XA START 'x'",
        "SHOW PROCESSLIST",
        "SHOW FULL PROCESSLIST",
        "SHOW CREATE TABLE people",
        "SHOW BINLOG EVENTS",
        "SHOW TABLE STATUS",
        "SET GLOBAL general_log = 1",
        "SET @x = (SELECT name FROM people)",
        "SET @x = 1",
        "SET PASSWORD = 'x'",
        "SET ROLE x",
        "SET STATEMENT max_statement_time=1 FOR SELECT 1",
        "SET NAMES gbk",
        "SET character_set_client = sjis",
        "SET @@character_set_client=28",
        "SET autocommit = (SELECT 1)",
        "SET optimizer_switch='derived_merge=off'",
        "SET @@global.autocommit=0",
        "KILL USER x",
        "UNLOCK TABLES",
        "TABLE people",
        "VALUES ROW(1)",
        "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = @x",
        "1",
        "(UPDATE t SET a = 1)",
        "IF 1 THEN SELECT 1; END IF",
    ] {
        refused(sql);
    }
}

#[test]
fn functions_that_do_more_than_give_a_value_do_not_pass() {
    for (sql, words) in [
        ("SELECT LOAD_FILE('/etc/passwd')", "function LOAD_FILE"),
        ("SELECT SLEEP (5)", "function SLEEP"),
        ("SELECT a FROM t WHERE BENCHMARK(1, name)", "function BENCHMARK"),
        ("SELECT SETVAL(s, 5)", "function SETVAL"),
        ("SELECT GET_LOCK(name, 1) FROM people", "function GET_LOCK"),
        ("SELECT a FROM JSON_TABLE(name, '$') t", "function JSON_TABLE"),
        ("SELECT d.f(name) FROM people", "stored function"),
        ("SELECT d.count(name) FROM people", "stored function"),
        ("SELECT `f`(name) FROM people", "quoted name"),
        ("SELECT mine(name) FROM people", "function MINE"),
        ("UPDATE t SET a = mine(1)", "column MINE"),
    ] {
        assert!(refused(sql).contains(words), "{sql}: {}", refused(sql));
    }
}

#[test]
fn what_servers_read_in_different_ways_does_not_pass() {
    for sql in [
        "SELECT /*! name INTO OUTFILE 'x' */ 1",
        "SELECT \"a\\\" INTO OUTFILE \"b\" ",
        "SELECT a\u{a0}INTO\u{a0}OUTFILE 'x' FROM t",
        "SELECT 'a",
        "SELECT 1 /*",
    ] {
        refused(sql);
    }
    let rules = rules(None);
    let escaped = |backslash_escapes| {
        read(b"SELECT 'a\\' INTO OUTFILE '", &Surroundings { rules: &rules, backslash_escapes }).is_ok()
    };
    assert!(escaped(true) && !escaped(false), "the session's SQL mode tells where a text ends");
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(sql in prop::collection::vec(any::<u8>(), 0..60), backslash_escapes: bool) {
        let rules = rules(Some(Catalogue::new(&[entry("names", true)])));
        let _ = read(&sql, &Surroundings { rules: &rules, backslash_escapes });
    }

    /// Whatever is put together from SQL's words, what assigns a value to another column or takes one out is refused.
    #[test]
    fn nothing_gets_out_wherever_it_stands(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "SELECT", "FROM", "t", "(", ")", ",", "UPDATE", "SET", "a", "=", "name", "CASE", "WHEN", "END", "1", "'x'", "WHERE",
                "INSERT", "VALUES", "ON", "DUPLICATE", "KEY", "AS", ".", "IN", "WITH", "+", "COUNT", "?", "DELETE", "LIMIT",
            ]),
            0..16,
        ),
        way_out in prop::sample::select(vec!["INTO", ":=", "; SELECT 1", "LOAD_FILE(", "CALL p("]),
        at in 0..16_usize,
    ) {
        let mut words = words;
        words.insert(at.min(words.len()), way_out);
        let sql = words.join(" ");
        let passed = read_with(&sql, None);
        prop_assume!(!(sql.starts_with("INSERT INTO") && passed.is_ok()));
        prop_assert!(passed.is_err(), "{sql}: {passed:?}");
    }
}
