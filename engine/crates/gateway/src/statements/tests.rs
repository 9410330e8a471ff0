use super::*;
use proptest::prelude::*;
use proptest::sample::Index;
use std::sync::LazyLock;

/// Statements that have leaked values through gateways, or could do so.
const ATTACKS: &str = include_str!("../../../../../tests/vectors/gateway-attacks.txt");

/// The approved statements of the study `mysql-column-encryption`.
static TPCC: LazyLock<Vec<String>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct Entry {
        text: String,
    }
    #[derive(Deserialize)]
    struct File {
        statements: Vec<Entry>,
    }
    let text = include_str!("../../../../../costof/studies/mysql-column-encryption/statements.toml");
    toml::from_str::<File>(text).unwrap().statements.into_iter().map(|entry| entry.text).collect()
});
static APPROVED: LazyLock<Statements> = LazyLock::new(|| statements(&TPCC));
static ONE_VALUE: LazyLock<Statements> = LazyLock::new(|| statements(&["SELECT a FROM t WHERE b = ?"]));

fn approval(text: &str) -> Approval {
    Approval { text: text.into(), database: None, outputs: None, values: None }
}

fn statements(texts: &[impl AsRef<str>]) -> Statements {
    let mut statements = Statements::default();
    for text in texts {
        statements.add(&approval(text.as_ref())).unwrap();
    }
    statements
}

/// Return the text that the server gets for a client's text. Errors: the refusal of the client's text.
fn text_for_server(statements: &Statements, text: &[u8], is_prepared: bool) -> Result<String, Refusal> {
    let mut reading = Reading::default();
    let result = statements.find(text, is_prepared, Some(b"d"), &mut reading)?;
    let mut out = Vec::new();
    result.append(&reading, &mut out);
    Ok(String::from_utf8(out).unwrap())
}

fn sent(approved: &str, text: &str) -> Result<String, Refusal> {
    text_for_server(&statements(&[approved]), text.as_bytes(), false)
}

/// Decode a quoted text as servers do without NO_BACKSLASH_ESCAPES.
fn decoded(quoted: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 1);
    while at < quoted.len() - 1 {
        let (byte, step) = match (quoted[at], quoted[at + 1]) {
            (b'\'', b'\'') => (b'\'', 2),
            (b'\\', b'0') => (0, 2),
            (b'\\', escaped) => (escaped, 2),
            (byte, _) => (byte, 1),
        };
        assert!(byte != b'\'' || step == 2, "the quote ends early");
        out.push(byte);
        at += step;
    }
    out
}

fn attacks() -> Vec<Vec<u8>> {
    let unescape = |line: &str| {
        let (mut out, mut bytes) = (Vec::new(), line.bytes());
        while let Some(byte) = bytes.next() {
            match (byte, if byte == b'\\' { bytes.next() } else { None }) {
                (b'\\', Some(b'x')) => {
                    let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
                    out.push(u8::from_str_radix(str::from_utf8(&digits).unwrap(), 16).unwrap());
                }
                (b'\\', escaped) => out.push(escaped.unwrap()),
                (byte, _) => out.push(byte),
            }
        }
        out
    };
    ATTACKS.lines().filter(|line| !line.starts_with('#')).map(unescape).collect()
}

#[test]
fn every_statement_in_the_list_of_attacks_is_refused() {
    assert!(attacks().len() > 250);
    for attack in attacks() {
        for is_prepared in [false, true] {
            let result = text_for_server(&APPROVED, &attack, is_prepared);
            assert!(result.is_err(), "{} passes as {result:?}", String::from_utf8_lossy(&attack));
        }
    }
}

#[test]
fn gateway_sends_the_approved_text_with_reencoded_values() {
    let approved = "SELECT city FROM People WHERE id = ? AND name IN (?, ?)";
    for (text, expected) in [
        ("select CITY from people where id=7 and name in ('a','b')", "id = 7 AND name IN ('a', 'b')"),
        (
            "SELECT city\n\tFROM People WHERE id = -7.5e-3 AND name IN (\"it's\", 'it''s');",
            "id =  -7.5e-3 AND name IN ('it''s', 'it''s')",
        ),
        (
            "/* app */ SELECT city FROM People WHERE id = +7 AND name IN ('\\'', '\\\\')",
            "id = 7 AND name IN ('''', '\\\\')",
        ),
        (
            "SELECT city FROM People WHERE id = 1 AND name IN ('\\0\\n', '10\\%')",
            "id = 1 AND name IN ('\\0\n', '10\\\\%')",
        ),
        (
            "SELECT city FROM People WHERE id = 1 AND name IN (_binary'\u{e9}\\0', x'00fF')",
            "id = 1 AND name IN (_binary X'C3A900', _binary X'00fF')",
        ),
    ] {
        let expected = format!("SELECT city FROM People WHERE {expected}");
        assert_eq!(sent(approved, text), Ok(expected), "{text}");
    }
    let statements = statements(&[approved]);
    let prepared = b"select city from people where id = ? and name in ('x', ?)";
    let expected = "SELECT city FROM People WHERE id = ? AND name IN ('x', ?)";
    assert_eq!(text_for_server(&statements, prepared, true).as_deref(), Ok(expected));
    assert!(text_for_server(&statements, prepared, false).is_err(), "a '?' in an unprepared text is not a value");
}

#[test]
fn statements_that_servers_could_parse_differently_are_refused() {
    for text in [
        "SELECT a FROM t WHERE b = 1 -- c",
        "SELECT a FROM t WHERE b = 1 # c",
        "SELECT a /* c */ FROM t WHERE b = 1",
        "/*! SELECT */ a FROM t WHERE b = 1",
        "SELECT a FROM t WHERE b = 1; SELECT 2",
        "SELECT a FROM t WHERE b = 1x",
        "SELECT a FROM t WHERE b = 1e",
        "SELECT a FROM t WHERE b = 1.",
        "SELECT a FROM t WHERE b = .1",
        "SELECT a FROM t WHERE b = 1.2.3",
        "SELECT a FROM t WHERE b = 0x41",
        "SELECT a FROM t WHERE b = 'x'y",
        "SELECT a FROM t WHERE b = 'x''",
        "SELECT a FROM t WHERE b = 'x\\'",
        "SELECT a FROM t WHERE b = 'x\\c'",
        "SELECT a FROM t WHERE b = 'x\0'",
        "SELECT a FROM t WHERE b = N'x'",
        "SELECT a FROM t WHERE b = _utf8mb4'x'",
        "SELECT a FROM t WHERE b = x'0'",
        "SELECT a FROM t WHERE b = 'x' 'y'",
        "SELECT a FROM t WHERE b = @c",
        "SELECT a FROM t WHERE b = \\N",
        "SELECT\u{a0}a FROM t WHERE b = 1",
        "SELECT\u{b}a FROM t WHERE b = 1",
        "SELECT {d a} FROM t WHERE b = 1",
        "SELECT a FROM t WHERE b = --1",
        "SELECT a FROM t WHERE b = - 1",
        "SELECT a FROM t WHERE b = NULL",
        "SELECT a FROM t WHERE b = TRUE",
        "SELECT a FROM t WHERE b = 'x' COLLATE utf8mb4_bin",
        "SELECT a FROM `t` WHERE b = 1",
        "SELECT a 'x' FROM t WHERE b = 1",
        "",
        ";",
    ] {
        assert!(sent("SELECT a FROM t WHERE b = ?", text).is_err(), "{text}");
    }
    assert_eq!(
        sent("SELECT a FROM t WHERE b = ?", "SELECT a FROM t WHERE b = 1").as_deref(),
        Ok("SELECT a FROM t WHERE b = 1")
    );
}

#[test]
fn statement_is_refused_if_an_alias_or_clause_differs_from_the_approved_statement() {
    for (approved, other) in [
        ("SELECT a AS 'x' FROM t", "SELECT a AS 'y' FROM t"),
        ("SELECT a 'x' FROM t", "SELECT a 'y' FROM t"),
        ("SELECT a, b FROM t ORDER BY 1", "SELECT a, b FROM t ORDER BY 2"),
        ("SELECT a, b FROM t ORDER BY a, (1)", "SELECT a, b FROM t ORDER BY a, (2)"),
        ("SELECT a, b FROM t GROUP BY 1", "SELECT a, b FROM t GROUP BY 2"),
        ("SELECT a, b FROM t ORDER BY -(-1)", "SELECT a, b FROM t ORDER BY -(-2)"),
        ("SELECT a FROM t ORDER BY a LIMIT 1", "SELECT a FROM t ORDER BY a LIMIT 2"),
    ] {
        assert!(sent(approved, approved).is_ok() && sent(approved, other).is_err(), "{other}");
    }
    for text in [
        "SELECT a ? FROM t",
        "SELECT a AS ? FROM t",
        "SELECT a, b FROM t ORDER BY ?",
        "SELECT a FROM t GROUP BY a, -(?)",
    ] {
        assert!(Statements::default().add(&approval(text)).is_err(), "{text}");
    }
    for text in ["SELECT a FROM t ORDER BY FIELD(a, ?, ?) LIMIT ?, ?", "SELECT a FROM t ORDER BY a + ? DESC LIMIT ?"] {
        assert!(Statements::default().add(&approval(text)).is_ok(), "{text}");
    }
}

#[test]
fn approved_statement_can_be_limited_to_a_database_and_to_types_of_values() {
    let for_database = Approval { database: Some("shop".into()), ..approval("SELECT a FROM t") };
    let mut statements = Statements::default();
    statements.add(&for_database).unwrap();
    let refusal = text_for_server(&statements, b"SELECT a FROM t", false).unwrap_err();
    assert_eq!(refusal.to_string(), "this statement is approved for another database: select 'shop' first");
    let kinds = Approval { values: Some(vec![Kind::Text]), ..approval("SELECT a FROM t WHERE b = ?") };
    statements.add(&kinds).unwrap();
    assert!(text_for_server(&statements, b"SELECT a FROM t WHERE b = '0'", false).is_ok());
    let refusal = text_for_server(&statements, b"SELECT a FROM t WHERE b = 0", false).unwrap_err();
    assert_eq!(refusal.to_string(), "value 1 of this statement must be a text, as approved");
}

fn outputs(statements: &Statements, text: &str) -> Outputs {
    statements.find(text.as_bytes(), false, None, &mut Reading::default()).unwrap().outputs.clone()
}

#[test]
fn statement_approved_with_a_literal_value_takes_precedence_over_one_with_a_placeholder() {
    let mut statements = Statements::default();
    let plain = Approval { outputs: Some(vec![Verdict::Plain]), ..approval("SELECT MAX(a) FROM t LIMIT 1") };
    statements.add(&plain).unwrap();
    statements.add(&approval("SELECT MAX(a) FROM t LIMIT ?")).unwrap();
    assert_eq!(outputs(&statements, "SELECT MAX(a) FROM t LIMIT 1"), Outputs::Each([Verdict::Plain].into()));
    assert_eq!(outputs(&statements, "SELECT MAX(a) FROM t LIMIT 2"), Outputs::All(None));
}

#[test]
fn all_result_columns_of_nested_queries_are_encrypted() {
    let mut statements = Statements::default();
    for nested in [
        "SELECT a FROM (SELECT b AS a FROM t) t",
        "WITH t AS (SELECT 1) SELECT a FROM t",
        "SELECT a FROM t UNION ALL SELECT b FROM t",
    ] {
        statements.add(&approval(nested)).unwrap();
        assert_eq!(outputs(&statements, nested), Outputs::All(Some(Verdict::Encrypt)), "{nested}");
    }
}

#[test]
fn statements_that_control_transactions_or_session_settings_need_not_be_approved() {
    for (text, expected) in [
        ("begin", "BEGIN"),
        ("SET AUTOCOMMIT = 0", "SET @@session.autocommit = 0"),
        ("SET @@session.autocommit = OFF", "SET @@session.autocommit = 0"),
        ("SET NAMES 'utf8mb4' COLLATE 'utf8mb4_general_ci'", "DO 0"),
        ("SET NAMES utf8mb4", "DO 0"),
        ("SET character_set_results = NULL", "DO 0"),
        (
            "SET sql_mode='STRICT_TRANS_TABLES,no_zero_date', wait_timeout = 5",
            "SET @@session.sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_DATE', @@session.wait_timeout = 5",
        ),
        ("SET time_zone = '+01:00'", "SET @@session.time_zone = '+01:00'"),
        (
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        ),
        (
            "/* driver */SELECT  @@session.autocommit AS a, @@license LIMIT 1",
            "SELECT @@session.autocommit as a , @@license LIMIT 1",
        ),
        ("SELECT DATABASE()", "SELECT DATABASE()"),
        ("USE `it``s`", "USE `it``s`"),
        ("ROLLBACK TO SAVEPOINT sa_1", "ROLLBACK TO SAVEPOINT sa_1"),
    ] {
        assert_eq!(text_for_server(&Statements::default(), text.as_bytes(), false).as_deref(), Ok(expected), "{text}");
    }
    for text in [
        "SET sql_mode = 'ANSI_QUOTES'",
        "SET sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')",
        "SET NAMES gbk",
        "SET character_set_client = 'latin1'",
        "SET GLOBAL wait_timeout = 1",
        "SET @@global.wait_timeout = 1",
        "SET time_zone = 'a''b'",
        "SET autocommit = (SELECT 1)",
        "SET profiling = 0",
        "SELECT @@last_insert_id",
        "SELECT @@version, name FROM people",
        "SELECT 2",
        "USE 'd'",
        "SAVEPOINT 'a\u{1f}b'",
    ] {
        assert!(text_for_server(&Statements::default(), text.as_bytes(), false).is_err(), "{text}");
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Value(String),
}

/// Return the tokens of an approved statement in which these values replace the question marks. A literal of the
/// approved text becomes a [`Token::Word`], because a client may not change it.
fn tokens(approved: &str, values: &[String]) -> Vec<Token> {
    let mut reading = Reading::default();
    reading.read(approved.as_bytes(), true).unwrap();
    let mut values = values.iter().cycle();
    let mut places = reading.values.iter();
    let token = |token: &[u8]| match token {
        b"?" => match places.next().unwrap() {
            Value { kind: None, .. } => Token::Value(values.next().unwrap().clone()),
            fixed => Token::Word(String::from_utf8(reading.written(fixed).to_vec()).unwrap()),
        },
        word => Token::Word(String::from_utf8(word.to_vec()).unwrap()),
    };
    reading.shape.split(|byte| *byte == SEPARATOR).map(token).collect()
}

fn written(tokens: &[Token]) -> String {
    let text = |token: &Token| match token {
        Token::Word(text) | Token::Value(text) => text.clone(),
    };
    tokens.iter().map(text).collect::<Vec<_>>().join(" ")
}

/// Return whether the tokens are those of an approved statement, with any values.
fn matches_approved(approved: &str, edited: &[Token]) -> bool {
    let approved = tokens(approved, &["0".to_owned()]);
    let is_literal = |text: &str| text.starts_with(['-', '\'', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
    let fits = |(one, other): (&Token, &Token)| match (one, other) {
        (Token::Value(_), Token::Value(_)) => true,
        (Token::Value(_), Token::Word(text)) => text != "-" && is_literal(text),
        (Token::Word(one), Token::Word(other) | Token::Value(other)) => one == other,
    };
    approved.len() == edited.len() && approved.iter().zip(edited).all(fits)
}

/// Return all token lists that could mean the same to a server. A server parses `a -1` as `a - 1`. The result therefore
/// contains the unchanged tokens, and for each negative number a copy in which the minus is a separate token.
fn readings(tokens: &[Token]) -> Vec<Vec<Token>> {
    let mut result = vec![tokens.to_vec()];
    for (position, token) in tokens.iter().enumerate() {
        if let Token::Value(text) = token
            && let Some(number) = text.strip_prefix('-')
        {
            let both = [Token::Word("-".to_owned()), Token::Value(number.to_owned())];
            result.push([&tokens[..position], &both, &tokens[position + 1..]].concat());
        }
    }
    result
}

fn literal() -> impl Strategy<Value = String> {
    prop_oneof![
        "-?[0-9]{1,12}(\\.[0-9]{1,4})?(e-?[0-9]{1,2})?",
        "[a-zA-Z0-9 é]{0,9}".prop_map(|text| format!("'{text}'")),
        "[0-9a-f]{2}".prop_map(|digits| format!("x'{digits}'")),
    ]
}

const STRANGE: &str = "union all or 1 'x' name ( ) , * = null @@version `x` into outfile distinct -";

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        prop::collection::vec(prop::sample::select(b"'\"\\%_\0\n;-#*/`?x1 \x1a\x1f\xc3\xa9\xbf".to_vec()), 0..20),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Delete, repeat, swap, replace or insert a token. If the gateway accepts the changed text, the text differs from
    /// an approved statement only in its values.
    #[test]
    fn statement_with_a_changed_token_outside_its_values_is_refused(
        statement: Index, other: Index, edit in 0..5_u8, position: Index, second: Index, strange: Index,
        values in prop::collection::vec(literal(), 1..8),
    ) {
        let whole = tokens(&TPCC[statement.index(TPCC.len())], &values);
        prop_assert!(text_for_server(&APPROVED, written(&whole).as_bytes(), false).is_ok(), "{}", written(&whole));
        let mut edited = whole.clone();
        let position = position.index(edited.len());
        let foreign = tokens(&TPCC[other.index(TPCC.len())], &values);
        let foreign = foreign[second.index(foreign.len())].clone();
        match edit {
            0 => drop(edited.remove(position)),
            1 => edited.insert(position, edited[position].clone()),
            2 => edited.swap(position, second.index(whole.len())),
            3 => edited[position] = foreign,
            _ => edited.insert(position, Token::Word(STRANGE.split(' ').nth(strange.index(18)).unwrap().into())),
        }
        let result = text_for_server(&APPROVED, written(&edited).as_bytes(), false);
        let is_approved = TPCC.iter().any(|text| matches_approved(text, &edited))
            || result.is_ok() && TPCC.iter().any(|text| readings(&edited).iter().any(|reading| matches_approved(text, reading)));
        prop_assert_eq!(result.is_ok(), is_approved, "{}", written(&edited));
    }

    /// The content of a value that reaches the server does not depend on the escapes that the client uses.
    #[test]
    fn values_reach_the_server_unchanged(value in bytes(), doubles: bool, quote in prop::sample::select(b"'\"".to_vec())) {
        let mut text = b"SELECT a FROM t WHERE b = ".to_vec();
        text.push(quote);
        for byte in &value {
            match byte {
                0 => text.extend_from_slice(b"\\0"),
                b'\\' => text.extend_from_slice(b"\\\\"),
                byte if *byte == quote && doubles => text.extend_from_slice(&[quote, quote]),
                byte if *byte == quote => text.extend_from_slice(&[b'\\', quote]),
                byte => text.push(*byte),
            }
        }
        text.push(quote);
        let mut reading = Reading::default();
        match ONE_VALUE.find(&text, false, None, &mut reading) {
            Err(_) => prop_assert!(str::from_utf8(&value).is_err()),
            Ok(result) => {
                let mut out = Vec::new();
                result.append(&reading, &mut out);
                prop_assert_eq!(decoded(&out[b"SELECT a FROM t WHERE b = ".len()..]), value);
                prop_assert!(text_for_server(&ONE_VALUE, &out, false).is_ok(), "its tokens are the same");
            }
        }
    }

    #[test]
    fn binary_literals_reach_the_server_in_hexadecimal(value in bytes()) {
        let escaped: Vec<u8> = value.iter().flat_map(|byte| match byte {
            0 => b"\\0".to_vec(),
            b'\'' | b'\\' => vec![b'\\', *byte],
            byte => vec![*byte],
        }).collect();
        let text = [b"SELECT a FROM t WHERE b = _binary '", &escaped[..], b"'"].concat();
        let digits: String = value.iter().map(|byte| format!("{byte:02X}")).collect();
        let expected = format!("SELECT a FROM t WHERE b = _binary X'{digits}'");
        prop_assert_eq!(text_for_server(&ONE_VALUE, &text, false), Ok(expected));
    }

    /// For raw bytes as a value, the gateway refuses the text or sends the tokens of the approved statement.
    #[test]
    fn raw_bytes_in_a_value_never_change_the_tokens_that_the_server_parses(raw in bytes(), quoted: bool) {
        static TWO_VALUES: LazyLock<Statements> = LazyLock::new(|| statements(&["SELECT a FROM t WHERE b = ? AND c = ?"]));
        let quote: &[u8] = if quoted { b"'" } else { b"" };
        let text = [b"SELECT a FROM t WHERE b = ", quote, &raw, quote, b" AND c = 1"].concat();
        if let Ok(out) = text_for_server(&TWO_VALUES, &text, false) {
            prop_assert_eq!(text_for_server(&TWO_VALUES, out.as_bytes(), false), Ok(out));
        }
        let mut reading = Reading::default();
        let _ = reading.read(&raw, true);
        let _ = session_statements::read(&reading);
    }
}
