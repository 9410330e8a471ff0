//! Prepared statements of guarded accounts: each is executed as what it was read as, or not at all.

use super::*;

const TEXT: u8 = 0xFD;
const NUMBER: u8 = 0x08;
/// ER_NEED_REPREPARE
const PREPARE_AGAIN: u16 = 1615;
const UNKNOWN_STATEMENT: u16 = 1243;

/// An execution's bytes behind its iterations: NULLs, whether types come, and these.
fn types(is_new: u8, kinds: &[u8]) -> Vec<u8> {
    let kinds = if is_new == 0 { &[] } else { kinds };
    [&[0, is_new], &kinds.iter().flat_map(|kind| [*kind, 0]).collect::<Vec<_>>()[..]].concat()
}

fn answered(between: &mut Between, column: Column) -> Vec<u8> {
    let row = b"\x00\x00\x05smith";
    between.server(&[packet(1, b"\x01"), packet(2, &definition(column)), packet(3, row), packet(4, END)].concat());
    std::mem::take(&mut between.to_client)
}

fn is_sealed(answer: &[u8]) -> bool {
    answer.windows(7).any(|seven| seven == b"costofE") && !answer.windows(5).any(|five| five == b"smith")
}

#[test]
fn each_number_has_its_own_plan() {
    let mut between = Between::logged_in("shop");
    for (number, sql, column) in
        [(1, "SELECT x FROM (SELECT name AS x FROM people) t", PLAIN), (2, "SELECT city FROM people", PLAIN)]
    {
        between.prepare(sql);
        between.server(&prepared(number, 0, &[column]));
        assert_eq!(is_sealed(&between.to_client), number == 1, "its definitions too");
        between.take();
    }
    for number in [1, 2, 1] {
        between.client(&execution(number, b""));
        assert_eq!(between.take().1.len(), 1);
        let answer = answered(&mut between, PLAIN);
        assert_eq!(is_sealed(&answer), number == 1);
    }
    between.client(&packet(0, b"\x19\x01\0\0\0"));
    between.take();
    between.client(&execution(1, b""));
    assert_eq!(between.refusal(), UNKNOWN_STATEMENT);
}

#[test]
fn a_preparation_of_other_columns_or_parameters_ends_the_session() {
    // Without columns it may be: MariaDB tells none of what RETURNING gives before it is executed.
    for (parameters, columns, is_it) in [(1, 1, true), (1, 0, true), (0, 1, false), (2, 1, false), (1, 2, false)] {
        let mut between = Between::logged_in("shop");
        between.prepare("SELECT name FROM people WHERE id = ?");
        between.take();
        between.server(&prepared(7, parameters, &vec![SECRET; columns]));
        assert_eq!(between.session.is_over(), !is_it, "{parameters} {columns}");
        assert!(is_it || between.told().contains("the gateway"));
    }
}

#[test]
fn under_other_rules_or_tables_it_is_read_again() {
    let query = "SELECT city FROM people";
    let protecting = RULES.replace("'name'", "'city'");
    let mut tied = facts();
    tied.references.push(["d", "people", "city", "d", "people", "name"].map(str::to_owned));
    let other_order = {
        let mut facts = facts();
        facts.columns.swap(1, 3);
        facts
    };
    for (sql, rules, expected) in [
        (query, rules_of(RULES), None),
        (query, rules_of(&format!("predicates = 'allow'\n{RULES}")), None),
        (query, rules_of(&protecting), Some(PREPARE_AGAIN)),
        (query, testing::rules(RULES, &tied), Some(PREPARE_AGAIN)),
        (query, testing::rules(RULES, &testing::tables(&["notes.id", "people.name"])), Some(1054)),
        (query, testing::rules(RULES, &testing::tables(&["notes.id"])), Some(1146)),
        ("SELECT * FROM notes", testing::rules(RULES, &other_order), None),
        (
            "SELECT COUNT(*) FROM people WHERE name = 'x'",
            rules_of(&format!("predicates = 'refuse'\n{RULES}")),
            Some(1227),
        ),
    ] {
        let mut between = Between::logged_in("shop");
        let columns = if sql.starts_with("SELECT *") { 2 } else { 1 };
        between.prepared(sql, 0, &vec![COMPUTED; columns]);
        between.session.shared.replace(rules);
        between.client(&execution(7, b""));
        match expected {
            Some(code) => assert_eq!(between.refusal(), code, "{sql}"),
            None => assert_eq!(between.take(), (vec![], vec![execution(7, b"")[4..].to_vec()]), "{sql}"),
        }
    }
}

#[test]
fn each_execution_is_held_against_the_plan() {
    let execute = |columns| {
        let mut between = Between::logged_in("shop");
        between.prepared("DELETE FROM people WHERE id = 1 RETURNING city, name", 0, &[]);
        between.client(&execution(7, b""));
        between.take();
        let head = [packet(1, &[columns]), packet(2, &definition(PLAIN)), packet(3, &definition(PLAIN))];
        between.server(&[&head.concat()[..], &packet(4, b"\x00\x00\x01x\x05smith"), &packet(5, END)].concat());
        between
    };
    let mut right = execute(2);
    assert_eq!(
        decrypted(&right.take().0, RowFormat::Binary),
        [[Some(b"x".to_vec()), Some(b"smith".to_vec())]],
        "the second alone is protected"
    );
    for columns in [1, 3] {
        let mut wrong = execute(columns);
        assert_eq!(sequences(&wrong.to_client), [1]);
        assert!(wrong.told().contains("other columns") && wrong.session.is_over());
    }
}

/// What cannot be read again because it was not kept.
#[test]
fn a_long_one_is_prepared_again() {
    let mut between = Between::logged_in("shop");
    between.prepared(&format!("SELECT city FROM people{}", " ".repeat(64 * 1024)), 0, &[PLAIN]);
    between.client(&execution(7, b""));
    between.take();
    answered(&mut between, PLAIN);
    between.session.shared.replace(rules_of(RULES));
    between.client(&execution(7, b""));
    assert_eq!(between.refusal(), PREPARE_AGAIN);
    between.prepared("SELECT city FROM people", 0, &[PLAIN]);
    between.client(&execution(7, b""));
    assert_eq!(between.take().1.len(), 1);
}

#[test]
fn it_stays_of_the_database_in_which_it_was_prepared() {
    let mut between = Between::logged_in("shop");
    between.prepared("SELECT city FROM people", 0, &[PLAIN]);
    between.client(&packet(0, b"\x02other"));
    between.server(&packet(1, OK));
    between.take();
    between.session.shared.replace(rules_of(RULES));
    between.client(&execution(7, b""));
    assert_eq!(between.take().1.len(), 1);
}

/// A protected text that is compared with a number shows how it begins.
#[test]
fn parameters_that_are_compared_with_a_protected_column_are_of_its_type() {
    let sql = "SELECT id FROM people WHERE name = ? AND id = ?";
    let begin = || {
        let mut between = Between::logged_in("shop");
        between.prepared(sql, 2, &[COMPUTED]);
        between
    };
    let goes = |between: &mut Between, bytes: &[u8]| {
        between.client(&execution(7, bytes));
        let goes = !between.to_server.is_empty();
        if goes {
            between.take();
            answered(between, COMPUTED);
        } else {
            assert_eq!(between.refusal(), 1227);
        }
        goes
    };
    let (right, wrong) = (types(1, &[TEXT, NUMBER]), types(1, &[NUMBER, NUMBER]));
    let of_any_kind = types(1, &[TEXT, TEXT]);
    let before = types(0, &[]);
    let mut between = begin();
    assert!(!goes(&mut between, &before), "none were told yet");
    assert!(!goes(&mut between, &wrong));
    assert!(!goes(&mut between, &before), "those before were wrong");
    assert!(goes(&mut between, &right) && goes(&mut between, &of_any_kind));
    assert!(goes(&mut between, &before) && goes(&mut between, &before));
    assert!(!goes(&mut between, &wrong));
    assert!(!goes(&mut between, &before));
    // MySQL takes any byte but 0 for new types.
    let mut between = begin();
    assert!(goes(&mut between, &right));
    for is_new in [2, 0x80, 0xFF] {
        assert!(!goes(&mut between, &types(is_new, &[NUMBER, NUMBER])), "{is_new}");
    }
    assert!(goes(&mut between, &types(2, &[TEXT, NUMBER])));
    // Another statement's types are its own.
    between.prepare(sql);
    between.server(&prepared(8, 2, &[COMPUTED]));
    between.take();
    between.client(&execution(8, &before));
    assert_eq!(between.refusal(), 1227);
    // Wherever no protected column is compared, types are the server's matter.
    let mut between = Between::logged_in("shop");
    between.prepared("SELECT id FROM people WHERE id = ?", 1, &[COMPUTED]);
    assert!(goes(&mut between, &types(0, &[])) && goes(&mut between, &types(1, &[TEXT])));
}

/// However it is cut; what never tells its types does not go on either.
#[test]
fn types_are_waited_for() {
    let whole = execution(7, &[&types(1, &[NUMBER])[..], &[7; 9000]].concat());
    for cut in 5..30 {
        let mut between = Between::logged_in("shop");
        between.prepared("SELECT id FROM people WHERE name = ?", 1, &[COMPUTED]);
        let taken = between.client(&whole[..cut]);
        assert!(between.to_server.is_empty(), "{cut}");
        between.client(&whole[taken..]);
        assert_eq!(between.refusal(), 1227, "{cut}");
    }
    let mut between = Between::logged_in("shop");
    between.prepared("SELECT id FROM people WHERE name = ?", 1, &[COMPUTED]);
    between.client(&execution(7, b"\x00\x01\x08"));
    assert!(between.to_server.is_empty() && between.session.is_over());
}

#[test]
fn a_session_that_begins_anew_has_none() {
    let mut between = Between::logged_in("shop");
    between.prepared("SELECT city FROM people", 0, &[PLAIN]);
    between.client(&packet(0, b"\x1f"));
    between.server(&packet(1, OK));
    between.server(&pinned_answers(&PINNED, true));
    between.take();
    between.client(&execution(7, b""));
    assert_eq!(between.refusal(), UNKNOWN_STATEMENT);
}

#[test]
fn a_text_that_comes_by_itself_for_what_was_a_number_goes_no_further() {
    const NULL: u8 = 0x06;
    for (before, passes) in [(&[TEXT][..], true), (&[NUMBER], false), (&[NULL], true), (&[NUMBER, TEXT], true)] {
        let mut between = Between::logged_in("shop");
        between.prepared("SELECT city FROM people WHERE id = ?", 1, &[PLAIN]);
        for kind in before {
            between.client(&execution(7, &types(1, &[*kind])));
            between.server(&packet(1, OK));
            between.take();
        }
        between.client(&packet(0, b"\x18\x07\0\0\0\0\0guess"));
        assert_eq!((between.take().1.len(), between.session.is_over()), (usize::from(passes), false), "{before:?}");
        between.client(&execution(7, &types(1, &[TEXT])));
        assert_eq!(between.to_server.is_empty(), !passes);
        assert!(passes || between.told().contains("comes by itself"));
    }
}

#[test]
fn an_execution_that_is_refused_tells_the_server_no_types() {
    const WITH_A_CURSOR: usize = 4 + 1 + 4;
    let mut between = Between::logged_in("shop");
    between.prepared("SELECT city FROM people WHERE id = ? AND name = ?", 2, &[PLAIN]);
    between.client(&execution(7, &types(1, &[NUMBER, TEXT])));
    between.server(&packet(1, OK));
    between.take();
    let mut with_a_cursor = execution(7, &types(1, &[TEXT, TEXT]));
    with_a_cursor[WITH_A_CURSOR] = 1;
    for refused in [with_a_cursor, execution(7, &types(1, &[TEXT, NUMBER]))] {
        between.client(&refused);
        assert_eq!(between.refusal(), 1227);
    }
    between.client(&packet(0, b"\x18\x07\0\0\0\0\0guess"));
    assert!(between.take().1.is_empty(), "to the server it is a number still");
}
