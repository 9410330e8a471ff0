//! Statements of guarded accounts: what the server gets of them, and what its answers are compared with.

use super::*;

#[test]
fn the_server_gets_the_approved_text_and_never_the_clients_bytes() {
    for (sql, sent) in [
        ("select NAME\nfrom PEOPLE", "SELECT name FROM people"),
        ("/* app */ SELECT city FROM people WHERE id = 007;", "SELECT city FROM people WHERE id = 007"),
        ("insert into people (name) values (\"o\\'b\")", "INSERT INTO people (name) VALUES ('o''b')"),
        ("SET character_set_results = NULL", "DO 0"),
        ("begin", "BEGIN"),
    ] {
        let mut between = Between::logged_in("shop");
        between.query(sql);
        assert_eq!(between.sent(), sent, "{sql}");
        let mut between = Between::logged_in("shop");
        between.prepare(sql);
        assert_eq!(between.take().1, [[b"\x16", sent.as_bytes()].concat()], "{sql}");
        let mut plain = Between::logged_in("admin");
        plain.query(sql);
        assert_eq!(plain.sent(), sql, "an account with plaintext is not guarded");
    }
}

#[test]
fn a_statement_that_is_not_approved_is_refused_with_what_to_do() {
    for (sql, words) in [
        (
            "SELECT CONCAT(name) FROM people WHERE id = 7",
            "not approved for this account: select concat ( name ) from people",
        ),
        ("SELECT name FROM people -- x", "does not accept a comment"),
        ("SELECT city FROM people WHERE id = 'x' AND name = 'y'", "value 1 of this statement must be a number"),
    ] {
        let mut between = Between::logged_in("shop");
        between.query(sql);
        let told = between.told();
        assert!(told.contains(words) && !told.contains('7'), "{told}");
        between.prepare(sql);
        assert_eq!(between.refusal(), 1227, "{sql}");
        assert_eq!(between.session.take_tally().refused, 2);
    }
    let mut between = Between::logged_in("shop");
    between.query("SELECT 2");
    assert!(between.told().contains("learn it with 'costof gateway --learn', review it, and add it to [[statements]]"));
}

/// A protected column always; another one by what was approved, or else by whether the server names its origin.
#[test]
fn outputs_are_encrypted_by_their_origin_and_their_approval() {
    let of_a_new_table = Column { database: "d", table: "people_of_a_moment_ago", column: "city" };
    let of_a_view = Column { database: "d", table: "names_v", column: "x" };
    for (sql, column, is_plain) in [
        ("SELECT name FROM people", SECRET, false),
        ("SELECT city FROM people", PLAIN, true),
        ("SELECT city FROM people", SECRET, false),
        ("SELECT city FROM people", COMPUTED, false),
        ("SELECT city FROM people", of_a_new_table, false),
        ("SELECT city FROM people", of_a_view, false),
        // With an alias that is a base table's name.
        ("SELECT city FROM names_v AS people", PLAIN, false),
        ("SELECT MIN(city) FROM people", COMPUTED, false),
        ("SELECT MAX(city) FROM people", COMPUTED, true),
        ("SELECT MAX(city) FROM people", SECRET, false),
        ("SELECT x FROM (SELECT name AS x FROM people) t", PLAIN, false),
        ("SELECT x FROM (SELECT name AS x FROM people) t", COMPUTED, false),
        ("SELECT @@version", COMPUTED, true),
        ("SELECT @@version", SECRET, false),
    ] {
        let mut between = Between::logged_in("shop");
        between.query(sql);
        let answer = text_answer(&[column], &[&[Some(b"smith")]]);
        between.server(&answer);
        assert_eq!(between.to_client == answer, is_plain, "{sql}");
        assert_eq!(decrypted(&between.take().0, RowFormat::Text), [[Some(b"smith".to_vec())]], "{sql}");
    }
    let mut between = Between::logged_in("shop");
    between.query("SELECT COUNT(*), MAX(name) FROM people");
    between.server(&text_answer(&[COMPUTED; 2], &[&[Some(b"3"), Some(b"smith")]]));
    assert!(!between.shows());
    let (to_client, _) = between.take();
    assert_eq!(to_client.iter().map(|packet| envelope_at(packet).is_some()).collect::<Vec<_>>()[1..3], [false, true]);
}

#[test]
fn an_answer_of_other_columns_than_were_approved_ends_the_session_before_a_byte_of_it() {
    for (sql, columns) in [
        ("SELECT MAX(city) FROM people", 2),
        ("SELECT COUNT(*), MAX(name) FROM people", 1),
        ("SELECT COUNT(*), MAX(name) FROM people", 3),
    ] {
        let mut between = Between::logged_in("shop");
        between.query(sql);
        between.take();
        between.server(&text_answer(&vec![PLAIN; columns], &[&vec![Some(&b"smith"[..]); columns]]));
        assert_eq!(sequences(&between.to_client), [1], "{sql}");
        assert!(between.told().contains("another number of columns than was approved"), "{sql}");
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
fn new_rules_hold_from_the_next_command_on() {
    let mut between = Between::logged_in("shop");
    let answer = text_answer(&[PLAIN], &[&[Some(b"smith")]]);
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
    // The server does not have the column any more.
    between.session.shared.replace(testing::rules(RULES, &["people.name"]));
    assert!(!shows(&mut between));
    between
        .session
        .shared
        .replace(rules_of(&RULES.replace("\"SELECT city FROM people\"", "\"SELECT id FROM people\"")));
    between.query("SELECT city FROM people");
    assert_eq!(between.refusal(), 1227, "it is not approved any more");
    between.session.shared.replace(Rules::of(""));
    assert!(shows(&mut between));
    // What was done without a guard cannot be undone.
    between.session.shared.replace(rules_of(RULES));
    between.query("SELECT city FROM people");
    assert!(between.told().contains("connect again") && between.session.is_over());
}

#[test]
fn a_statement_of_a_database_is_approved_where_that_was_used_last_with_success() {
    let passes = |between: &mut Between| {
        between.query("SELECT t FROM notes");
        let passes = !between.to_server.is_empty();
        if passes {
            between.server(&packet(1, OK));
            between.take();
        } else {
            assert!(between.told().contains("approved for another database: select 'd' first"));
        }
        passes
    };
    let (ok, refused) = (packet(1, OK), packet(1, b"\xff\x19\x04#42000Unknown database"));
    for (begin, is_prepared) in [(&b"\x02other"[..], false), (b"\x03USE other", false), (b"\x16USE other", true)] {
        let mut between = Between::logged_in("shop");
        if is_prepared {
            between.client(&packet(0, begin));
            between.server(&prepared(7, 0, &[]));
        }
        let command = if is_prepared { execution(7, b"") } else { packet(0, begin) };
        between.take();
        assert!(passes(&mut between), "nothing has been carried out");
        for (answer, is_still_d) in [(&refused, true), (&ok, false)] {
            between.client(&command);
            between.server(answer);
            between.take();
            assert_eq!(passes(&mut between), is_still_d, "{begin:?}");
        }
    }
}

#[test]
fn a_learning_account_is_pinned_and_passes() {
    let file = std::env::temp_dir().join(format!("costof-session-learned-{}.toml", std::process::id()));
    let _ = std::fs::remove_file(&file);
    let plan = crate::plan::LearnPlan { file: file.clone(), accounts: vec!["shop".into()] };
    let rules = rules_of(RULES);
    let learner = crate::learn::Learner::open(&plan, &rules).unwrap();
    let session = Session::new(Arc::new(Shared::new(rules, Limits::default(), Some(learner))), false);
    let mut between = Between { session, to_client: Vec::new(), to_server: Vec::new() };
    between.log_in(&response("shop", false));
    let answer = text_answer(&[SECRET, COMPUTED], &[&[Some(b"smith"), Some(b"1")]]);
    between.query("SELECT name, 1+1 FROM people");
    assert_eq!(between.sent(), "SELECT name, 1+1 FROM people");
    between.server(&answer);
    assert_eq!(between.to_client, answer);
    between.query("SELECT name FROM people");
    between.server(&text_answer(&[SECRET], &[]));
    between.query("SELECT nothing FROM people");
    between.server(&packet(1, b"\xff\x1e\x04#42S22Unknown column"));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(text.matches("[[statements]]").count(), 1, "neither approved ones nor failures: {text}");
    assert!(
        text.contains("text = \"SELECT name, ?+? FROM people\"\ndatabase = \"d\"\nvalues = [\"number\", \"number\"]")
    );
    assert!(text.ends_with("outputs = [\"encrypt\", \"encrypt\"]\n"), "{text}");
}
