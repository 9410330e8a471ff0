//! Statements of guarded accounts: what the server gets of them, and what its answers are held against.

use super::*;

const NAMES: &str = "SELECT `people`.`name` FROM `d`.`people` AS `people`";

#[test]
fn the_server_gets_what_is_printed_and_never_the_clients_bytes() {
    for (sql, printed) in [
        ("select NAME from people", "SELECT `people`.`name` AS `NAME` FROM `d`.`people` AS `people`"),
        ("SELECT/* mark */name\nFROM people -- mark", NAMES),
        ("SELECT name FROM d . people # mark", NAMES),
        ("SELECT name AS n FROM people p", "SELECT `p`.`name` AS `n` FROM `d`.`people` AS `p`"),
        (
            r"SELECT 'a\\', ', CONCAT(name) FROM people -- '",
            r"SELECT 'a\\' AS `a\`, ', CONCAT(name) FROM people -- ' AS `, CONCAT(name) FROM people -- `",
        ),
        ("SELECT 'it''s' x", r"SELECT 'it''s' AS `x`"),
        ("SET character_set_results = NULL", "DO 0"),
        ("begin", "BEGIN"),
    ] {
        let mut between = Between::logged_in("shop");
        between.query(sql);
        assert_eq!(between.sent(), printed, "{sql}");
        if !sql.starts_with("begin") {
            let mut between = Between::logged_in("shop");
            between.prepare(sql);
            assert_eq!(between.take().1, [[b"\x16", printed.as_bytes()].concat()], "{sql}");
        }
        let mut plain = Between::logged_in("admin");
        plain.query(sql);
        assert_eq!(plain.sent(), sql, "who gets plaintext speaks for itself");
    }
}

#[test]
fn what_does_not_pass_is_told_by_the_servers_own_numbers() {
    for (sql, code) in [
        ("SELECT ORD(name) FROM people", 1227),
        ("SELECT city FROM people WHERE name < 'm'", 1227),
        ("UPDATE people SET city = name", 1227),
        ("SET sql_mode = 'NO_BACKSLASH_ESCAPES'", 1227),
        ("SELECT 1 FROM nowhere", 1146),
        ("SELECT nothing FROM people", 1054),
    ] {
        let mut between = Between::logged_in("shop");
        between.query(sql);
        assert_eq!(between.refusal(), code, "{sql}");
        between.prepare(sql);
        assert_eq!(between.refusal(), code, "{sql}");
        assert_eq!(between.session.take_tally().refused, 2);
    }
}

#[test]
fn a_computed_column_is_encrypted_or_refused_before_anything_is_sent() {
    let answer = text_answer(&[COMPUTED], &[&[Some(b"smith")]]);
    for (policy, is_refused) in [("encrypt", false), ("refuse", true)] {
        let mut between = Between::new(&format!("expressions = '{policy}'\npredicates = 'allow'\n{RULES}"), false);
        between.log_in(&response("shop", true));
        between.query("SELECT CONCAT(name) FROM people");
        if is_refused {
            assert_eq!(between.refusal(), 1227);
        } else {
            between.server(&answer);
            assert!(!between.shows());
            assert_eq!(decrypted(&between.take().0, RowFormat::Text), [[Some(b"smith".to_vec())]]);
        }
        // The session goes on.
        between.query("SELECT city FROM people");
        between.server(&text_answer(&[PLAIN], &[&[Some(b"1")]]));
        assert_eq!(between.take().0, packets(&text_answer(&[PLAIN], &[&[Some(b"1")]])));
    }
}

/// Where one of them says so: the statement, or the server.
#[test]
fn an_output_is_encrypted_by_the_tree_or_by_its_original_names() {
    let of_rule_alone = Column { database: "d", table: "people_of_a_moment_ago", column: "name" };
    let rules = RULES.replace("'people'", "'people*'");
    for (sql, column) in [
        ("SELECT x FROM (SELECT name AS x FROM people) t", PLAIN),
        ("SELECT x FROM (SELECT name AS x FROM people) t", COMPUTED),
        ("SELECT x FROM names_v AS t", Column { database: "d", table: "t", column: "x" }),
        ("SELECT name FROM people UNION ALL SELECT city FROM people", PLAIN),
        ("SELECT initial FROM people", COMPUTED),
        ("SELECT city FROM people", SECRET),
        ("SELECT city FROM people", of_rule_alone),
        ("SELECT id FROM orders", Column { database: "d", table: "orders", column: "person_name" }),
        ("SHOW TABLES", SECRET),
    ] {
        let mut between = Between::new(&rules, false);
        between.log_in(&response("shop", true));
        between.query(sql);
        between.server(&text_answer(&[column], &[&[Some(b"smith")]]));
        assert!(!between.shows(), "{sql}");
        assert_eq!(decrypted(&between.take().0, RowFormat::Text), [[Some(b"smith".to_vec())]], "{sql}");
    }
}

#[test]
fn what_neither_says_is_protected_comes_as_it_is() {
    let of_the_server = Column { database: "information_schema", table: "TABLE_NAMES", column: "TABLE_NAME" };
    for (sql, column) in [
        ("SELECT city FROM people", PLAIN),
        ("SELECT @@version", COMPUTED),
        ("SELECT COUNT(name) FROM people", COMPUTED),
        ("SELECT CONCAT(city, '!') FROM people", COMPUTED),
        ("SHOW TABLES", of_the_server),
        ("SHOW TABLES", COMPUTED),
    ] {
        let mut between = Between::logged_in("shop");
        between.query(sql);
        let answer = text_answer(&[column], &[&[Some(b"10.11")]]);
        between.server(&answer);
        assert_eq!(between.to_client, answer, "{sql}");
    }
}

#[test]
fn an_answer_of_other_columns_than_were_read_ends_the_session_before_a_byte_of_it() {
    for (sql, columns) in [
        ("SELECT name, city FROM people", 1),
        ("SELECT name, city FROM people", 3),
        ("SELECT city FROM people", 2),
        ("UPDATE people SET city = 'x'", 1),
        ("BEGIN", 1),
    ] {
        let mut between = Between::logged_in("shop");
        between.query(sql);
        between.take();
        between.server(&text_answer(&vec![PLAIN; columns], &[&vec![Some(&b"smith"[..]); columns]]));
        assert_eq!(sequences(&between.to_client), [1], "{sql}");
        assert!(between.told().contains("other columns than the gateway has read"), "{sql}");
        assert!(between.session.is_over());
        assert_eq!(between.session.take_tally().errors, 1);
    }
}

#[test]
fn words_are_held_back_and_ids_of_protected_columns() {
    let insert = "INSERT INTO people (name) VALUES ('smith')";
    let ok = packet(1, b"\x00\x01\xfc\x39\x30\x02\x00\x00\x00Records: smith");
    let mut between = Between::logged_in("shop");
    between.query(insert);
    between.server(&packet(1, b"\xff\x26\x04#23000Duplicate entry 'smith' for key 'name'"));
    assert_eq!(between.told(), "Duplicate entry for a key");
    between.query(insert);
    between.server(&ok);
    assert_eq!(between.take().0, [b"\x00\x01\xfc\x39\x30\x02\x00\x00\x00"], "the id is no protected column's");
    let mut between = Between::new(&RULES.replace("'name'", "'id'"), false);
    between.log_in(&response("shop", true));
    between.query(insert);
    between.server(&ok);
    assert_eq!(between.take().0, [b"\x00\x01\x00\x02\x00\x00\x00"]);
}

#[test]
fn new_rules_and_tables_hold_from_the_next_command_on() {
    let mut between = Between::logged_in("shop");
    let answer = text_answer(&[COMPUTED], &[&[Some(b"smith")]]);
    let shows = |between: &mut Between| {
        between.query("SELECT city FROM people");
        between.server(&answer);
        let shows = between.shows();
        between.take();
        shows
    };
    assert!(shows(&mut between));
    between.session.shared.replace(rules_of(&RULES.replace("'name'", "'*'")));
    assert!(!shows(&mut between));
    // The same rules, and a key by which `city` holds names.
    let mut tied = facts();
    tied.references.push(["d", "people", "city", "d", "people", "name"].map(str::to_owned));
    between.session.shared.replace(testing::rules(RULES, &tied));
    assert!(!shows(&mut between));
    between.session.shared.replace(testing::rules(RULES, &testing::tables(&["people.name"])));
    between.query("SELECT city FROM people");
    assert_eq!(between.refusal(), 1054, "the column is gone");
    between.session.shared.replace(Rules::of(""));
    assert!(shows(&mut between));
    // What was done without a guard cannot be undone.
    between.session.shared.replace(rules_of(RULES));
    between.query("SELECT city FROM people");
    assert!(between.told().contains("connect again") && between.session.is_over());
}

#[test]
fn bare_names_are_of_the_database_that_was_used_last_with_success() {
    let elsewhere = Facts { columns: testing::columns(&["people.city", "other.people.name"], "BASE TABLE"), ..facts() };
    let of_database = |between: &mut Between, sql: &str| {
        between.query(sql);
        let sent = between.sent();
        between.server(&packet(1, OK));
        between.take();
        sent.split('`').nth(5).unwrap().to_owned()
    };
    let ok = packet(1, OK);
    let refused = packet(1, b"\xff\x19\x04#42000Unknown database");
    for (begin, is_prepared) in [(&b"\x02other"[..], false), (b"\x03USE other", false), (b"\x16USE other", true)] {
        let mut between = Between::logged_in("shop");
        between.session.shared.replace(testing::rules(RULES, &elsewhere));
        if is_prepared {
            between.client(&packet(0, begin));
            between.server(&prepared(7, 0, &[]));
        }
        let command = if is_prepared { execution(7, b"") } else { packet(0, begin) };
        between.take();
        assert_eq!(of_database(&mut between, "SELECT city FROM people"), "d", "nothing has been carried out");
        between.client(&command);
        between.server(&refused);
        between.take();
        assert_eq!(of_database(&mut between, "SELECT city FROM people"), "d");
        between.client(&command);
        between.server(&ok);
        between.take();
        assert_eq!(of_database(&mut between, "SELECT name FROM people"), "other", "{begin:?}");
        between.query("SELECT city FROM people");
        assert_eq!(between.refusal(), 1054);
    }
}

#[test]
fn without_a_database_a_bare_name_is_nobodys() {
    let mut between = Between::new(RULES, false);
    between.server(&greeting());
    between.client(&response("shop", true));
    between.server(&packet(2, OK));
    let mut nowhere = PINNED;
    nowhere[7] = "";
    between.server(&pinned_answers(&nowhere, true));
    between.take();
    between.query("SELECT city FROM people");
    assert_eq!(between.refusal(), 1046);
    between.query("SELECT city FROM d.people");
    assert!(between.sent().ends_with("FROM `d`.`people` AS `people`"));
}
