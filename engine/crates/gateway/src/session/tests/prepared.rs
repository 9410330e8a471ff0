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
    for (parameters, columns, is_it) in [(0, 1, true), (0, 0, true), (1, 1, false), (0, 2, false)] {
        let mut between = Between::logged_in("shop");
        between.prepare("SELECT MAX(city) FROM people");
        between.take();
        between.server(&prepared(7, parameters, &vec![COMPUTED; columns]));
        assert_eq!(between.session.is_over(), !is_it, "{parameters} {columns}");
        assert!(is_it || between.told().contains("the gateway"));
    }
}

#[test]
fn under_other_rules_it_goes_on_only_as_it_was_approved() {
    let entry = "text = \"SELECT MAX(city) FROM people\"\noutputs = [\"plain\"]";
    assert!(RULES.contains(entry));
    for (rules, goes) in [
        (RULES.to_owned(), true),
        (RULES.replace("'name'", "'city'"), true),
        (RULES.replace(entry, &entry.replace("plain", "encrypt")), false),
        (RULES.replace(entry, &entry.replace("MAX", "AVG")), false),
    ] {
        let mut between = Between::logged_in("shop");
        between.prepared("SELECT MAX(city) FROM people", 0, &[COMPUTED]);
        between.session.shared.replace(rules_of(&rules));
        between.client(&execution(7, b""));
        if goes {
            assert_eq!(between.take(), (vec![], vec![execution(7, b"")[4..].to_vec()]));
        } else {
            assert_eq!(between.refusal(), PREPARE_AGAIN);
        }
    }
}

#[test]
fn columns_are_encrypted_by_the_rules_of_each_execution() {
    let mut between = Between::logged_in("shop");
    between.prepared("SELECT city FROM people", 0, &[PLAIN]);
    for (rules, seals) in [(RULES.to_owned(), false), (RULES.replace("'name'", "'city'"), true)] {
        between.session.shared.replace(rules_of(&rules));
        between.client(&execution(7, b""));
        assert_eq!(between.take().1.len(), 1);
        assert_eq!(is_sealed(&answered(&mut between, PLAIN)), seals);
    }
}

#[test]
fn each_execution_is_compared_with_what_was_approved() {
    let execute = |columns| {
        let mut between = Between::logged_in("shop");
        between.prepared("SELECT COUNT(*), MAX(name) FROM people", 0, &[]);
        between.client(&execution(7, b""));
        between.take();
        let head = [packet(1, &[columns]), packet(2, &definition(COMPUTED)), packet(3, &definition(COMPUTED))];
        between.server(&[&head.concat()[..], &packet(4, b"\x00\x00\x01x\x05smith"), &packet(5, END)].concat());
        between
    };
    let mut right = execute(2);
    assert_eq!(decrypted(&right.take().0, RowFormat::Binary), [[Some(b"x".to_vec()), Some(b"smith".to_vec())]]);
    for columns in [1, 3] {
        let mut wrong = execute(columns);
        assert_eq!(sequences(&wrong.to_client), [1]);
        assert!(wrong.told().contains("another number of columns") && wrong.session.is_over());
    }
}

#[test]
fn it_stays_of_the_database_in_which_it_was_prepared() {
    let mut between = Between::logged_in("shop");
    between.prepared("SELECT t FROM notes", 0, &[PLAIN]);
    between.client(&packet(0, b"\x02other"));
    between.server(&packet(1, OK));
    between.take();
    between.session.shared.replace(rules_of(RULES));
    between.client(&execution(7, b""));
    assert_eq!(between.take().1.len(), 1);
}

/// A protected text that is compared with a number shows how it begins.
#[test]
fn parameters_have_the_kinds_that_were_approved() {
    const DATE: u8 = 0x0A;
    const GEOMETRY: u8 = 0xFF;
    let sql = "SELECT city FROM people WHERE id = ? AND name = ?";
    let begin = |sql: &str, parameters| {
        let mut between = Between::logged_in("shop");
        between.prepared(sql, parameters, &[PLAIN]);
        between
    };
    let goes = |between: &mut Between, bytes: &[u8]| {
        between.client(&execution(7, bytes));
        let goes = !between.to_server.is_empty();
        if goes {
            between.take();
            answered(between, PLAIN);
        } else {
            assert_eq!(between.refusal(), 1227);
        }
        goes
    };
    let (right, wrong) = (types(1, &[NUMBER, TEXT]), types(1, &[NUMBER, NUMBER]));
    let before = types(0, &[]);
    let mut between = begin(sql, 2);
    assert!(!goes(&mut between, &before), "none were named yet");
    assert!(!goes(&mut between, &wrong));
    assert!(!goes(&mut between, &before), "those before were wrong");
    assert!(goes(&mut between, &right) && goes(&mut between, &types(1, &[NUMBER, DATE])));
    assert!(goes(&mut between, &before) && goes(&mut between, &before));
    assert!(!goes(&mut between, &wrong));
    assert!(!goes(&mut between, &before));
    // MySQL takes any byte but 0 for new types.
    for is_new in [2, 0x80, 0xFF] {
        assert!(!goes(&mut between, &types(is_new, &[NUMBER, NUMBER])), "{is_new}");
    }
    assert!(goes(&mut between, &types(2, &[NUMBER, TEXT])));
    // Where no kind was approved any common one passes.
    let mut between = begin("SELECT city FROM people WHERE id = ?", 1);
    assert!(goes(&mut between, &types(1, &[TEXT])) && goes(&mut between, &types(1, &[NUMBER])));
    assert!(!goes(&mut between, &types(1, &[GEOMETRY])));
}

/// However it is cut; what never tells its types does not go on either.
#[test]
fn types_are_waited_for() {
    let sql = "SELECT city FROM people WHERE id = ? AND name = ?";
    let whole = execution(7, &[&types(1, &[NUMBER, NUMBER])[..], &[7; 9000]].concat());
    for cut in 5..30 {
        let mut between = Between::logged_in("shop");
        between.prepared(sql, 2, &[PLAIN]);
        let taken = between.client(&whole[..cut]);
        assert!(between.to_server.is_empty(), "{cut}");
        between.client(&whole[taken..]);
        assert_eq!(between.refusal(), 1227, "{cut}");
    }
    let mut between = Between::logged_in("shop");
    between.prepared(sql, 2, &[PLAIN]);
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
