//! Statements as the gateway reads them. Long: each statement stands beside what becomes of it, or why it is refused.

use super::*;
use crate::rules::Facts;
use crate::testing;
use proptest::prelude::*;

mod corpus;

const RULES: &str = "
[check]
username = 'catalogue'
password = ''
[[columns]]
database = 'd'
table = 'people'
column = 'name'
[[columns]]
database = 'd'
table = 'people'
column = 'salary'
";

fn rules(settings: &str) -> Rules {
    testing::rules(&format!("{settings}\n{RULES}"), &testing::facts())
}

fn read_in(rules: &Rules, database: Option<&str>, sql: &[u8], is_prepared: bool) -> Result<Plan, Refusal> {
    read(sql, &Surroundings { rules, database, is_prepared })
}

fn planned(sql: &str) -> Result<Plan, Refusal> {
    read_in(&rules(""), Some("d"), sql.as_bytes(), false)
}

fn printed(sql: &str) -> String {
    planned(sql).unwrap_or_else(|refusal| panic!("{sql}: {refusal}")).text.into()
}

#[test]
fn names_are_written_out() {
    for (sql, expected) in [
        ("select city from people", "SELECT `people`.`city` FROM `d`.`people` AS `people`"),
        (
            "SELECT NAME p FROM d . people AS q WHERE q.Name = 'x'",
            "SELECT `q`.`name` AS `p` FROM `d`.`people` AS `q` WHERE (`q`.`name` = 'x')",
        ),
        ("SELECT CITY FROM people", "SELECT `people`.`city` AS `CITY` FROM `d`.`people` AS `people`"),
        ("SELECT * FROM notes", "SELECT `notes`.`id`, `notes`.`t` FROM `d`.`notes` AS `notes`"),
        ("SELECT n.*, 1 + 1 FROM notes n", "SELECT `n`.`id`, `n`.`t`, (1 + 1) AS `1 + 1` FROM `d`.`notes` AS `n`"),
        (
            "SELECT * FROM notes JOIN orders USING (id)",
            "SELECT `notes`.`id`, `notes`.`t`, `orders`.`person_name` FROM (`d`.`notes` AS `notes` JOIN `d`.`orders` AS `orders` ON (`notes`.`id` = `orders`.`id`))",
        ),
        ("INSERT INTO notes VALUES (1, 'a\\'b\\\\')", "INSERT INTO `d`.`notes` (`id`, `t`) VALUES (1, 'a''b\\\\')"),
        (
            "SELECT count(*) AS n FROM notes GROUP BY t HAVING n > 1 ORDER BY n DESC, t LIMIT 1, 2",
            "SELECT COUNT(*) AS `n` FROM `d`.`notes` AS `notes` GROUP BY `notes`.`t` HAVING (`n` > 1) ORDER BY 1 DESC, `notes`.`t` LIMIT 1, 2",
        ),
        (
            "SELECT 'a' -- comment\n, x'00ff', .5 /* more */ # last",
            "SELECT 'a' AS `a`, X'00FF' AS `x'00ff'`, 0.5 AS `.5`",
        ),
        ("delete n from notes n where n.id in (1,2)", "DELETE `n` FROM `d`.`notes` AS `n` WHERE (`n`.`id` IN (1, 2))"),
        ("DELETE FROM notes WHERE id=1", "DELETE FROM `d`.`notes` WHERE (`notes`.`id` = 1)"),
        (
            "UPDATE notes SET t = concat(t, 'x') WHERE NOT id BETWEEN 1 AND 2 AND t IS NOT NULL",
            "UPDATE `d`.`notes` AS `notes` SET `notes`.`t` = CONCAT(`notes`.`t`, 'x') WHERE ((NOT (`notes`.`id` BETWEEN 1 AND 2)) AND (`notes`.`t` IS NOT NULL))",
        ),
        (
            "SET STATEMENT max_statement_time=5, SQL_SELECT_LIMIT=2 FOR SELECT t FROM notes",
            "SET STATEMENT max_statement_time = 5, sql_select_limit = 2 FOR SELECT `notes`.`t` FROM `d`.`notes` AS `notes`",
        ),
        (
            "SELECT GET_LOCK('x', 1), @@read_only",
            "SELECT GET_LOCK('x', 1) AS `GET_LOCK('x', 1)`, @@read_only AS `@@read_only`",
        ),
        (
            "UPDATE notes SET t = JSON_SET(t, '$.a', 1)",
            "UPDATE `d`.`notes` AS `notes` SET `notes`.`t` = JSON_SET(`notes`.`t`, '$.a', 1)",
        ),
        (
            "SELECT SQL_CALC_FOUND_ROWS id FROM notes LIMIT 1",
            "SELECT SQL_CALC_FOUND_ROWS `notes`.`id` FROM `d`.`notes` AS `notes` LIMIT 1",
        ),
        (
            "SELECT next value for notes, NEXTVAL(d.notes)",
            "SELECT NEXT VALUE FOR `d`.`notes` AS `next value for notes`, NEXT VALUE FOR `d`.`notes` AS `NEXTVAL(d.notes)`",
        ),
        (
            "SELECT 1 UNION ALL (SELECT 2 ORDER BY 1 LIMIT 1)",
            "SELECT 1 AS `1` UNION ALL (SELECT 2 AS `2` ORDER BY 1 LIMIT 1)",
        ),
        (
            "SELECT date_add(now(), interval 1 day), trim(leading 'a' from t), now() - INTERVAL 2 HOUR FROM notes",
            "SELECT DATE_ADD(NOW(), INTERVAL 1 DAY) AS `date_add(now(), interval 1 day)`, TRIM(LEADING 'a' FROM `notes`.`t`) AS `trim(leading 'a' from t)`, (NOW() - INTERVAL 2 HOUR) AS `now() - INTERVAL 2 HOUR` FROM `d`.`notes` AS `notes`",
        ),
        (
            "SELECT row_number() OVER (PARTITION BY t ORDER BY id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS r FROM notes",
            "SELECT ROW_NUMBER() OVER ( PARTITION BY `notes`.`t` ORDER BY `notes`.`id` DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS `r` FROM `d`.`notes` AS `notes`",
        ),
    ] {
        assert_eq!(printed(sql), expected, "{sql}");
    }
}

#[test]
fn what_is_shown_and_set_is_written_out() {
    for (sql, expected) in [
        (
            "SHOW FULL TABLES WHERE table_type = 'VIEW' OR Table_type LIKE 'B%'",
            "SHOW FULL TABLES FROM `d` WHERE ((`Table_type` = 'VIEW') OR (`Table_type` LIKE 'B%'))",
        ),
        ("SHOW CREATE VIEW names_v", "SHOW CREATE VIEW `d`.`names_v`"),
        ("SHOW full columns from notes like 'a%'", "SHOW FULL COLUMNS FROM `d`.`notes` LIKE 'a%'"),
        (
            "SHOW KEYS IN notes FROM d",
            "SELECT table_name AS `Table`, non_unique AS `Non_unique`, index_name AS `Key_name`, seq_in_index AS `Seq_in_index`, column_name AS `Column_name`, collation AS `Collation`, CAST(NULL AS SIGNED) AS `Cardinality`, sub_part AS `Sub_part`, packed AS `Packed`, nullable AS `Null`, index_type AS `Index_type`, comment AS `Comment`, index_comment AS `Index_comment` FROM information_schema.statistics WHERE table_schema = 'd' AND table_name = 'notes'",
        ),
        ("set names utf8mb4, AUTOCOMMIT = 0", "SET @@session.autocommit = 0"),
        ("SET character_set_results = NULL", "DO 0"),
        (
            "set sql_mode=CONCAT(@@sql_mode,',STRICT_TRANS_TABLES'),NAMES utf8mb4",
            "SET @@session.sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES')",
        ),
        (
            "SET NAMES utf8mb4, @@SESSION.sql_mode = CONCAT(CONCAT(@@sql_mode, ',STRICT_ALL_TABLES'), ',NO_AUTO_VALUE_ON_ZERO'), @@SESSION.sql_auto_is_null = 0, @@SESSION.wait_timeout = 2147483",
            "SET @@session.sql_mode = CONCAT(CONCAT(@@sql_mode, ',STRICT_ALL_TABLES'), ',NO_AUTO_VALUE_ON_ZERO'), @@session.wait_timeout = 2147483",
        ),
        (
            "SET sql_mode = REPLACE(REPLACE(@@SESSION.sql_mode, 'strict_trans_tables', ''), 'TRADITIONAL', '')",
            "SET @@session.sql_mode = REPLACE(REPLACE(@@sql_mode, 'STRICT_TRANS_TABLES', ''), 'TRADITIONAL', '')",
        ),
    ] {
        assert_eq!(printed(sql), expected, "{sql}");
    }
}

/// A server that compares names by other rules than the gateway finds what is meant, or nothing.
#[test]
fn where_servers_would_choose_names_are_made() {
    for (sql, expected) in [
        (
            "WITH people AS (SELECT 'zz' AS name) SELECT name FROM (WITH c AS (SELECT name FROM people) SELECT name FROM c) q",
            "WITH `__1` AS (SELECT 'zz' AS `name`) SELECT `q`.`name` FROM (WITH `__3` AS (SELECT `__2`.`name` FROM `__1` AS `__2`) SELECT `__4`.`name` FROM `__3` AS `__4`) AS `q`",
        ),
        (
            "WITH iks AS (SELECT city AS x FROM people) SELECT x FROM (WITH `İks` AS (SELECT id AS x FROM people) SELECT x FROM iks) t",
            "WITH `__2` AS (SELECT `__1`.`city` AS `x` FROM `d`.`people` AS `__1`) SELECT `t`.`x` FROM (WITH `__4` AS (SELECT `__3`.`id` AS `x` FROM `d`.`people` AS `__3`) SELECT `__5`.`x` FROM `__2` AS `__5`) AS `t`",
        ),
        (
            "SELECT k.t FROM (SELECT 'a' AS t) AS k WHERE EXISTS (SELECT 1 FROM notes AS `\u{212A}` WHERE k.t > 'kP')",
            "SELECT `k`.`t` FROM (SELECT 'a' AS `t`) AS `k` WHERE EXISTS (SELECT 1 AS `1` FROM `d`.`notes` AS `__1` WHERE (`k`.`t` > 'kP'))",
        ),
        (
            "SELECT id a FROM people a WHERE EXISTS (SELECT 1 FROM notes a WHERE a.id = 1)",
            "SELECT `a`.`id` AS `a` FROM `d`.`people` AS `a` WHERE EXISTS (SELECT 1 AS `1` FROM `d`.`notes` AS `__1` WHERE (`__1`.`id` = 1))",
        ),
        (
            "SELECT `é`.id, `É`.id AS `x` FROM notes `é` JOIN orders `É` ON `É`.id = `é`.id",
            "SELECT `é`.`id`, `__1`.`id` AS `x` FROM (`d`.`notes` AS `é` JOIN `d`.`orders` AS `__1` ON (`__1`.`id` = `é`.`id`))",
        ),
        (
            "SELECT ` x` AS x, `É` FROM (SELECT id AS ` x`, t AS `É` FROM notes) n",
            "SELECT `n`.`__2` AS `x`, `n`.`__3` AS `É` FROM (SELECT `__1`.`id` AS `__2`, `__1`.`t` AS `__3` FROM `d`.`notes` AS `__1`) AS `n`",
        ),
        (
            "WITH c (a, `É`) AS (SELECT * FROM notes) SELECT * FROM c",
            "WITH `__3` (`a`, `__2`) AS (SELECT `__1`.`id`, `__1`.`t` FROM `d`.`notes` AS `__1`) SELECT `c`.`a`, `c`.`__2` AS `É` FROM `__3` AS `c`",
        ),
        (
            "SELECT (SELECT COUNT(*) AS n FROM notes HAVING n > 1 ORDER BY n) AS n FROM notes",
            "SELECT (SELECT COUNT(*) AS `__2` FROM `d`.`notes` AS `__1` HAVING (`__2` > 1) ORDER BY 1) AS `n` FROM `d`.`notes` AS `notes`",
        ),
        (
            "SELECT id + 1 AS n, t FROM notes GROUP BY n, t ORDER BY n, -n, t",
            "SELECT (`notes`.`id` + 1) AS `n`, `notes`.`t` FROM `d`.`notes` AS `notes` GROUP BY 1, `notes`.`t` ORDER BY 1, (-`n`), `notes`.`t`",
        ),
        (
            "(SELECT t FROM notes) UNION ALL (SELECT word FROM guesses) ORDER BY t",
            "(SELECT `notes`.`t` FROM `d`.`notes` AS `notes`) UNION ALL (SELECT `guesses`.`word` FROM `d`.`guesses` AS `guesses`) ORDER BY 1",
        ),
        (
            "SELECT city AS name FROM people ORDER BY name",
            "SELECT `people`.`city` AS `name` FROM `d`.`people` AS `people` ORDER BY `people`.`city`",
        ),
        (
            "SELECT id FROM notes WHERE (SELECT COUNT(*) FROM notes) IN (1, 2)",
            "SELECT `notes`.`id` FROM `d`.`notes` AS `notes` WHERE ((SELECT COUNT(*) AS `COUNT(*)` FROM `d`.`notes` AS `__1`) IN (1, 2))",
        ),
        (
            "SELECT * FROM (SELECT a.id, b.t FROM notes a JOIN notes b USING (id)) n NATURAL JOIN orders",
            "SELECT `n`.`id`, `n`.`t`, `orders`.`person_name` FROM ((SELECT `__1`.`id`, `__2`.`t` FROM (`d`.`notes` AS `__1` JOIN `d`.`notes` AS `__2` ON (`__1`.`id` = `__2`.`id`))) AS `n` JOIN `d`.`orders` AS `orders` ON (`n`.`id` = `orders`.`id`))",
        ),
        (
            "UPDATE notes `É` SET t = 'x' WHERE `É`.id = 1",
            "UPDATE `d`.`notes` AS `É` SET `É`.`t` = 'x' WHERE (`É`.`id` = 1)",
        ),
        ("SELECT id FROM notes LIMIT 2 OFFSET 5", "SELECT `notes`.`id` FROM `d`.`notes` AS `notes` LIMIT 2 OFFSET 5"),
    ] {
        assert_eq!(printed(sql), expected, "{sql}");
    }
}

/// What was printed is read as the same tree, whatever was meant.
#[test]
fn printing_is_a_fixed_point() {
    let rules = rules("predicates = 'allow'\nexpressions = 'encrypt'");
    for case in corpus::cases() {
        for is_prepared in [false, true] {
            let Ok(plan) = read_in(&rules, Some("d"), &case.sql, is_prepared) else { continue };
            if plan.text.starts_with("SHOW VARIABLES") || plan.text.starts_with("USE") {
                continue;
            }
            let again = read_in(&rules, None, plan.text.as_bytes(), is_prepared);
            assert_eq!(again.map(|plan| plan.text), Ok(plan.text.clone()), "{}", String::from_utf8_lossy(&case.sql));
        }
    }
}

#[test]
fn the_corpus_ends_as_it_must() {
    let (strict, allowing) = (rules(""), rules("predicates = 'allow'\nexpressions = 'encrypt'"));
    let mut wrong = Vec::new();
    for case in corpus::cases() {
        for is_prepared in [false, true] {
            let shown = format!("{} {}", case.number, String::from_utf8_lossy(&case.sql));
            let fate = fate(&read_in(&strict, Some("d"), &case.sql, is_prepared));
            if fate != case.fate {
                wrong.push(format!("{shown}: {fate:?}, not {:?}", case.fate));
            }
            let fate = self::fate(&read_in(&allowing, Some("d"), &case.sql, is_prepared));
            if case.number < 60 && case.fate == corpus::Fate::Refused && fate == corpus::Fate::Passes {
                wrong.push(format!("{shown}: passes where all predicates are allowed"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn fate(read: &Result<Plan, Refusal>) -> corpus::Fate {
    match read {
        Err(_) => corpus::Fate::Refused,
        Ok(Plan { answer: Answer::Rows(outputs), .. }) if outputs.iter().any(|output| *output != Output::Plain) => {
            corpus::Fate::Sealed
        }
        Ok(_) => corpus::Fate::Passes,
    }
}

#[test]
fn equality_needs_values_of_the_columns_own_kind() {
    let rules = rules("");
    let plan =
        read_in(&rules, Some("d"), b"SELECT id FROM people WHERE name = ? AND salary IN (?, 2) AND id = ?", true);
    let parameters = plan.unwrap().parameters;
    assert!(parameters[0].unwrap().takes_parameter(0xFD) && !parameters[0].unwrap().takes_parameter(0x08));
    assert!(parameters[1].unwrap().takes_parameter(0x08) && !parameters[1].unwrap().takes_parameter(0xFD));
    assert_eq!(parameters[2], None);
}

#[test]
fn what_is_refused_says_why() {
    for (sql, words) in [
        ("SELECT ORD(name) FROM people", "the gateway lets no expression of the protected column d.people.name pass"),
        ("SELECT x FROM people", "Unknown column 'x'"),
        ("SELECT 1 FROM nowhere", "Table 'd.nowhere' doesn't exist"),
        ("SELECT SLEEP(1)", "function SLEEP"),
        // What the server estimates or has counted follows its values.
        ("SET max_join_size = 20", "SET of MAX_JOIN_SIZE"),
        ("SELECT @@warning_count", "variable"),
        ("GRANT ALL ON *.* TO x", "statement that begins with GRANT"),
        ("SELECT x FROM closed_v", "view that it cannot read 'closed_v'"),
        ("SELECT GET_LOCK('x', 0) FROM people", "lock for rows of a table by GET_LOCK"),
        ("SELECT JSON_SET(name, '$.a', 1) FROM people", "expression of the protected column"),
        ("SELECT NEXTVAL(notes) FROM people", "next value of a sequence for rows of a table"),
        ("SELECT id FROM people WHERE (SELECT NEXTVAL(notes)) > 1", "next value of a sequence for rows of a table"),
        ("SET sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')", "SET of this form"),
        ("SET sql_mode = REPLACE(@@sql_mode, 'STRICT_TRANS_TABLES', 'ANSI_QUOTES')", "SET of this form"),
        ("SET sql_mode = CONCAT(@@sql_mode, ',PAD_CHAR_TO_FULL_LENGTH')", "SET of this form"),
        ("SET sql_mode = REPLACE(@@sql_mode, 'TIME_ROUND_FRACTIONAL', '')", "SET of this form"),
        ("SET sql_mode = 'ALLOW_INVALID_DATES'", "such value of the setting SQL_MODE"),
        ("SET sql_mode = REPLACE(@@version, 'STRICT_TRANS_TABLES', '')", "SET of this form"),
    ] {
        let told = planned(sql).unwrap_err().to_string();
        assert!(told.contains(words), "{sql}: {told}");
    }
    let told = read_in(&rules(""), None, b"SELECT city FROM people", false).unwrap_err();
    assert_eq!(told.kind, RefusalKind::NoDatabase);
}

/// Servers would take what is named for something nearer: a column that the gateway does not count among those of the name,
/// or an output whose name they cut.
#[test]
fn what_only_a_server_would_find_is_refused() {
    let tables =
        testing::tables(&["badges.number", "badges.city varchar", "badges.secret varchar INVISIBLE", "notes.city"]);
    let rule = |name| format!("[[columns]]\ndatabase = 'd'\ntable = 'badges'\ncolumn = '{name}'\n");
    let text = [testing::CHECK, &rule("number"), &rule("secret")].concat();
    let rules = testing::rules(&text, &tables);
    for sql in [
        "SELECT CONCAT(city) AS secret FROM badges JOIN notes USING (city) ORDER BY CONCAT(secret)",
        "SELECT CONCAT(city) AS `sécret` FROM badges ORDER BY CONCAT(`sécret`)",
        "SELECT CONCAT(city) AS _rowid FROM badges ORDER BY -_rowid",
        "SELECT number AS `x\u{e9}`, CONCAT(city) AS `xe` FROM badges HAVING xe > 'a'",
        "SELECT 'm' AS zzz FROM notes HAVING EXISTS (SELECT secret AS ` zzz` FROM badges HAVING zzz > 'k')",
        "SELECT 1 AS n FROM notes HAVING EXISTS (SELECT 1 FROM badges WHERE n > 0)",
        "SELECT 1 AS ` x`",
        "SELECT 1 AS `\u{1}x`",
    ] {
        read_in(&rules, Some("d"), sql.as_bytes(), false).unwrap_err();
    }
    for sql in [
        "SELECT CONCAT(city) AS secret FROM notes ORDER BY CONCAT(secret)",
        "SELECT -city AS xe FROM badges HAVING xe > 'a'",
    ] {
        read_in(&rules, Some("d"), sql.as_bytes(), false).unwrap();
    }
}

/// Whatever is nested in an operand is read once, and names that each could mean thousands have an end.
#[test]
fn what_takes_long_has_an_end() {
    let items = "1,".repeat(99) + "1";
    let nested =
        (0..20).fold(String::from("1"), |inner, _| format!("(SELECT 1 FROM notes WHERE {inner} IN ({items}))"));
    printed(&format!("SELECT {nested}"));
    let columns: Vec<_> = (0..4_000).map(|number| format!("{number} AS a{number}")).collect();
    let (columns, last) = (columns.join(","), "a3999,".repeat(20_000));
    planned(&format!("SELECT {last} 1 FROM (SELECT {columns}) t")).unwrap_err();
    planned(&format!("SELECT {columns} ORDER BY {last} 1")).unwrap_err();
    let salaries = "salary,".repeat(1_200);
    planned(&format!("SELECT id FROM people WHERE 5 IN ({salaries} 1)")).unwrap_err();
    planned(&format!("SELECT {} 1 FROM people p", "p.*,".repeat(20_000))).unwrap_err();
}

/// A list has one collation, and what a parameter is does not differ from one of its values to the next.
#[test]
fn a_list_is_compared_as_a_whole() {
    let mut tables = testing::tables(&["t.id", "t.name varchar", "t.other varchar", "t.number", "t.city varchar"]);
    tables.columns[2].collation = "utf8mb4_bin".into();
    let rule = |name| format!("[[columns]]\ndatabase = 'd'\ntable = 't'\ncolumn = '{name}'\n");
    let rules = testing::rules(&[testing::CHECK, &rule("name"), &rule("other"), &rule("number")].concat(), &tables);
    for (condition, passes) in [
        ("'x' IN (name, 'y')", true),
        ("name IN ('x', ?, NULL, name)", true),
        ("(name, 1) IN (('x', id), ('y', 2))", true),
        ("'x' IN (city, name)", false),
        ("'x' IN ('y' COLLATE utf8mb4_unicode_ci, name)", false),
        ("'x' IN (name, other)", false),
        ("'x' IN (name, LOWER('X'))", false),
        ("('x', 1) IN ((name, id), (city, 2))", false),
        ("(name, 'x') IN (('y', other), ('z', city))", false),
        ("? IN (name, number)", false),
        ("? IN (number, 'x', name)", false),
    ] {
        let sql = format!("SELECT id FROM t WHERE {condition}");
        let read = read_in(&rules, Some("d"), sql.as_bytes(), true);
        assert_eq!(read.is_ok(), passes, "{condition}: {read:?}");
    }
}

/// The server weighs what is written against what is stored, and says whether it fits.
#[test]
fn what_is_weighed_against_a_protected_value_is_written_with_it() {
    let facts = Facts {
        columns: testing::columns(
            &[
                "pay.id",
                "pay.salary",
                "pay.bonus",
                "pay.note varchar",
                "pay.first varchar",
                "pay.last varchar",
                "pay.whole varchar GENERATED concat(`first`,' ',`last`)",
                "pay.total int GENERATED (`salary`+`extra`)",
                "pay.extra",
                "pay.odd int DEFAULT if(`salary`>`id`,NULL,1)",
                "pay.hours",
                "pay.half int GENERATED (`hours`/2)",
                "pay.double int GENERATED (`salary`*2)",
                "pay.grade",
                "pay.grown int GENERATED (`grade`+`salary`)",
                "grades.grade",
                "scales.scale",
                "times.id",
                "times.salary datetime",
                "times.at datetime on-update",
                "moments.id",
                "moments.salary timestamp",
                "moments.day int DEFAULT dayofmonth(`salary`)",
                "terms.id",
                "terms.salary datetime",
            ],
            "BASE TABLE",
        ),
        ties: [
            ["pay", "`bonus` <= `salary`"],
            ["pay", "`half` <= `double`"],
            ["times", "`at` <= `salary`"],
            ["moments", "`salary` > '2024-01-01'"],
            ["terms", "`salary` > current_timestamp()"],
        ]
        .map(|[table, check]| ["d", table, check].map(str::to_owned))
        .into(),
        references: [["pay", "grade", "grades", "grade"], ["grades", "grade", "scales", "scale"]]
            .map(|[a, b, c, d]| ["d", a, b, "d", c, d].map(str::to_owned))
            .into(),
        ..Facts::default()
    };
    let rules = |predicates: &str| {
        let column = |name| format!("[[columns]]\ndatabase = 'd'\ntable = '*'\ncolumn = '{name}'\n");
        testing::rules(
            &format!("predicates = '{predicates}'\n{}{}{}", testing::CHECK, column("salary"), column("last")),
            &facts,
        )
    };
    for (sql, passes) in [
        ("UPDATE pay SET bonus = 5", false),
        ("UPDATE pay SET salary = 5", false),
        ("UPDATE pay SET bonus = 5, salary = DEFAULT", false),
        ("UPDATE pay SET bonus = 5, salary = 7, extra = 1", true),
        ("UPDATE pay SET hours = 5", false),
        ("UPDATE pay SET hours = 5, salary = 7, bonus = 1", true),
        ("UPDATE pay SET grade = 5", false),
        ("UPDATE grades SET grade = 5", false),
        ("UPDATE scales SET scale = 5", false),
        ("UPDATE times SET id = 5", false),
        ("UPDATE times SET salary = '2024-01-01'", true),
        ("INSERT INTO times (id) VALUES (1) ON DUPLICATE KEY UPDATE id = 5", false),
        ("INSERT INTO times (id) VALUES (1)", true),
        ("UPDATE moments SET id = 5", false),
        ("UPDATE terms SET id = 5", false),
        ("UPDATE moments SET id = 5, day = DEFAULT", false),
        ("UPDATE moments SET id = 5, salary = '2024-01-01', day = DEFAULT", true),
        ("UPDATE pay SET extra = 5", false),
        ("UPDATE pay SET id = 5", true),
        ("UPDATE pay SET id = 5, odd = DEFAULT", false),
        ("UPDATE pay SET odd = 5", true),
        ("UPDATE pay SET first = 'x'", false),
        ("UPDATE pay SET first = 'x', last = 'y', note = 'z'", true),
        ("UPDATE pay a JOIN pay b ON a.id = b.id SET a.bonus = 5, b.salary = 7", false),
        ("INSERT INTO pay (id, bonus, salary, extra) VALUES (1, 5, 7, 2)", true),
        ("REPLACE INTO pay (id, bonus) VALUES (1, 5)", true),
        ("INSERT INTO pay (id) VALUES (1) ON DUPLICATE KEY UPDATE bonus = VALUES(bonus)", false),
        ("INSERT INTO pay (id) VALUES (1) ON DUPLICATE KEY UPDATE note = VALUES(note)", true),
    ] {
        for (predicates, expected) in [("refuse", passes), ("equality", passes), ("allow", true)] {
            let read = read_in(&rules(predicates), Some("d"), sql.as_bytes(), false);
            assert_eq!(
                read.is_ok(),
                expected,
                "{predicates}: {sql}: {:?}",
                read.err().map(|refusal| refusal.to_string())
            );
        }
    }
}

/// In another time zone of the session, or as another type, a value is sent in another length.
#[test]
fn no_length_depends_on_what_a_client_chooses() {
    let tables = testing::tables(&[
        "t.id",
        "t.at timestamp",
        "t.day datetime",
        "t.bits bit",
        "t.year year",
        "t.padded int-zerofill",
        "t.hour int VIRTUAL-GENERATED hour(`at`)",
        "t.stored int STORED-GENERATED hour(`at`)",
        "t.epoch",
        "t.shown int VIRTUAL-GENERATED hour(from_unixtime(`epoch`))",
        "t.deep int VIRTUAL-GENERATED (`shown`+1)",
        "t.local int VIRTUAL-GENERATED weekday(`day`)",
        "t.text varchar",
        "t.bytes varbinary",
        "t.address inet6",
        "t.letter char",
        "t.since time",
        "t.opens varchar VIRTUAL-GENERATED dayname(`since`)",
    ]);
    let rule = |name| format!("[[columns]]\ndatabase = 'd'\ntable = 't'\ncolumn = '{name}'\n");
    let columns: String = ["at", "day", "bits", "year", "padded", "epoch", "text", "bytes", "since"].map(rule).concat();
    for (sql, passes) in [
        (
            "SELECT at, day, bits, year, padded, stored FROM t WHERE year = 2024 AND padded = 5 AND at = '2024-01-01'",
            true,
        ),
        ("SELECT * FROM t", false),
        ("SELECT hour FROM t", false),
        ("SELECT shown FROM t", false),
        ("SELECT deep FROM t", false),
        ("SELECT local FROM t", true),
        ("SELECT id FROM t WHERE hour IS NULL", false),
        ("SELECT id FROM t WHERE at = day", false),
        ("SELECT (SELECT at FROM t LIMIT 1), (SELECT id FROM t LIMIT 1)", true),
        ("SELECT (SELECT bits FROM t LIMIT 1)", false),
        ("SELECT (SELECT year FROM t LIMIT 1)", false),
        ("SELECT padded FROM t UNION ALL SELECT NULL", false),
        ("SELECT year FROM t UNION ALL SELECT year FROM t", false),
        ("SELECT year FROM t UNION ALL SELECT 1", false),
        ("SELECT text FROM t UNION ALL SELECT letter FROM t UNION ALL SELECT 1 UNION ALL SELECT text FROM t", true),
        ("SELECT text FROM t UNION ALL SELECT CAST(LEFT(letter, 1) AS CHAR) FROM t", true),
        ("SELECT day FROM t UNION ALL SELECT at FROM t UNION ALL SELECT ''", true),
        ("SELECT bytes FROM t UNION ALL SELECT ''", true),
        ("SELECT epoch FROM t UNION ALL SELECT CAST(LENGTH(letter) AS SIGNED) FROM t", true),
        ("SELECT since FROM t WHERE since = '10:00' AND since <> TIME '10:00'", true),
        ("SELECT since FROM t UNION ALL SELECT '' UNION ALL SELECT since FROM t", true),
        ("SELECT opens FROM t", false),
        ("SELECT id FROM t WHERE since = day", false),
        ("SELECT id FROM t WHERE since = TIMESTAMP '2024-01-01 10:00'", false),
        ("SELECT since FROM t UNION ALL SELECT day FROM t", false),
        ("SELECT text FROM t UNION ALL SELECT address FROM t", false),
        ("SELECT bytes FROM t UNION ALL SELECT COALESCE(address, address) FROM t", false),
        ("SELECT text FROM t UNION ALL SELECT X'00'", false),
        ("SELECT text FROM t UNION ALL (SELECT '' UNION ALL SELECT X'00')", false),
        ("SELECT text FROM t UNION ALL SELECT CAST(letter AS CHAR CHARACTER SET binary) FROM t", false),
        ("SELECT text FROM t UNION ALL SELECT bits FROM t", false),
        ("SELECT text FROM t UNION ALL SELECT MAX(id) FROM t", false),
    ] {
        for (predicates, expected) in [("refuse", passes && !sql.contains('=')), ("equality", passes), ("allow", true)]
        {
            let rules = testing::rules(&format!("predicates = '{predicates}'\n{}{columns}", testing::CHECK), &tables);
            let read = read_in(&rules, Some("d"), sql.as_bytes(), false);
            assert_eq!(read.is_ok(), expected, "{predicates}: {sql}: {read:?}");
        }
    }
}

/// Of what the server gives a new row a client learns nothing, neither by a row that was not added nor from where it comes.
#[test]
fn what_the_server_gives_a_protected_column_is_not_told() {
    let mut facts = testing::tables(&[
        "t.id int auto_increment",
        "t.name varchar",
        "t.city varchar",
        "u.id int DEFAULT nextval(`d`.`numbers`)",
        "u.n",
    ]);
    facts.columns.extend(testing::columns(&["numbers.next bigint", "others.next bigint"], "SEQUENCE"));
    let rule = |name| format!("[[columns]]\ndatabase = 'd'\ntable = '*'\ncolumn = '{name}'\n");
    let rules = testing::rules(&[testing::CHECK, &rule("id"), &rule("name")].concat(), &facts);
    let upsert = "INSERT INTO t (name) VALUES ('x') ON DUPLICATE KEY UPDATE ";
    for (sql, passes) in [
        (&*format!("{upsert}name = VALUES(name), city = VALUES(city), id = VALUES(id)"), true),
        (&*format!("{upsert}city = VALUES(name)"), true),
        (&*format!("{upsert}city = VALUES(id)"), false),
        (&*format!("{upsert}city = VALUES(id) + 1"), false),
        ("INSERT INTO u (n) VALUES (1) ON DUPLICATE KEY UPDATE n = VALUES(id)", false),
        ("SELECT NEXTVAL(numbers)", false),
        ("SELECT next FROM numbers", false),
        ("SELECT NEXTVAL(others), next FROM others", false),
        ("SELECT NEXTVAL(others)", true),
        ("SELECT next FROM others", true),
    ] {
        let read = read_in(&rules, Some("d"), sql.as_bytes(), false);
        assert_eq!(read.is_ok(), passes, "{sql}: {read:?}");
    }
}

/// As deep as may be, and what is deeper or longer, ends without a stack that overflows.
#[test]
fn nesting_has_an_end() {
    let worst = format!("SELECT {}1{}", "(1 + 1 + 1 + (".repeat(15), "))".repeat(15));
    let ors = format!("SELECT 1 FROM notes WHERE {}", vec!["id = 1"; 20_000].join(" OR "));
    let long = ["(", "NOT ", "-", "1 + ", "1 = ", "BINARY ", "(SELECT ", "CASE WHEN ", "1 XOR "];
    let run = move || {
        printed(&worst);
        printed(&ors);
        for piece in long {
            planned(&format!("SELECT {}1", piece.repeat(100_000))).unwrap_err();
        }
        planned(&format!("SELECT 1 WHERE 1 IN ({}1)", "1,".repeat(1_000_000))).unwrap_err();
    };
    std::thread::Builder::new().stack_size(net::serve::STACK).spawn(run).unwrap().join().unwrap();
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(sql in prop::collection::vec(any::<u8>(), 0..60), is_prepared: bool) {
        let _ = read_in(&rules(""), Some("d"), &sql, is_prepared);
    }

    /// Words, signs and names in any order: what passes is printed so that it is read again as it was meant.
    #[test]
    fn whatever_passes_is_a_fixed_point(words in prop::collection::vec(prop::sample::select(WORDS), 1..14)) {
        let rules = rules("predicates = 'allow'\nexpressions = 'encrypt'");
        let sql = format!("SELECT {}", words.join(" "));
        if let Ok(plan) = read_in(&rules, Some("d"), sql.as_bytes(), false) {
            let again = read_in(&rules, None, plan.text.as_bytes(), false);
            prop_assert_eq!(again.map(|plan| plan.text), Ok(plan.text));
        }
    }

    #[test]
    fn texts_and_names_are_read_as_they_were_printed(text in "\\PC{0,20}", name in "[a-z`'\"\\\\.é][a-z`'\" \\\\.é]{0,9}[a-z`]") {
        let mut sql = String::from("SELECT ");
        print::append_text(&mut sql, &text);
        sql.push_str(" AS ");
        append_name(&mut sql, &name);
        let again = planned(&sql).map(|plan| plan.text);
        prop_assert_eq!(again.as_deref(), Ok(&sql[..]));
    }
}

const WORDS: &[&str] = &[
    "1",
    "'a'",
    "name",
    "city",
    "people.id",
    "*",
    "p.*",
    "(",
    ")",
    ",",
    "FROM people",
    "FROM people p",
    "FROM d.notes n",
    "WHERE",
    "=",
    "<",
    "AND",
    "OR",
    "NOT",
    "IN (1)",
    "IS NULL",
    "+",
    "-",
    "|",
    "^",
    "DIV",
    "COUNT(*)",
    "MAX(",
    "UNION ALL SELECT",
    "ORDER BY",
    "GROUP BY",
    "LIMIT 1",
    "AS x",
    "x",
    "LEFT JOIN notes ON",
    "USING (id)",
    "EXISTS (SELECT 1)",
    "BETWEEN",
    "LIKE",
    "CASE WHEN",
    "THEN",
    "END",
    "HAVING",
    "DISTINCT",
    "INTERVAL 1 DAY",
    "COLLATE utf8mb4_bin",
    "id",
];
