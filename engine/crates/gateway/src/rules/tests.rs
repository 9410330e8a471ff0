use super::*;
use base::error::Class;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

const KEY: &str = "00112233445566778899aabbccddeeff";
const CHECK: &str = "[check]\nusername = 'catalogue'\npassword = ''\n";

fn file(text: &str, mode: u32) -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("costof-rules-{}-{count}.toml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

fn read(text: &str) -> std::result::Result<Rules, String> {
    let path = file(text, 0o600);
    let rules = Rules::read(&path);
    std::fs::remove_file(&path).unwrap();
    rules.map_err(|failure| {
        assert_eq!(failure.class, Class::Plan);
        assert!(!failure.detail.contains('\n'), "one line");
        assert!(!failure.detail.contains(KEY) && !failure.detail.contains("s3cret"), "{failure}");
        failure.detail.split_once(": ").unwrap().1.to_owned()
    })
}

/// Parse the first rules file after a heading in docs/column-encryption.md.
fn documented(heading: &str) -> Rules {
    let text = include_str!("../../../../../docs/column-encryption.md");
    let (_, rest) = text.split_once(heading).unwrap();
    let (_, rest) = rest.split_once("```toml\n").unwrap();
    read(rest.split_once("```").unwrap().0).unwrap()
}

#[test]
fn example_rules_in_the_documentation_are_valid() {
    let smallest = documented("## Begin");
    assert_eq!(smallest.warnings(), ["no statement is approved, so guarded accounts cannot send any"]);
    assert!(smallest.unknown_clients == UnknownClients::Ciphertext && matches!(smallest.role(b"web"), Role::Opaque));
    let rules = documented("## Rules");
    assert!(rules.guard() && rules.statements.count() > 0 && rules.warnings().is_empty());
    assert_eq!(rules.algorithm_for(["shop", "PEOPLE", "name"]), Some(Algorithm::Aes128Gcm));
    assert_eq!(rules.algorithm_for(["shop", "orders", "name"]), None);
    assert_eq!(rules.algorithm_for([""; 3]), None, "computed");
    assert!(matches!(rules.role(b"web"), Role::Ciphertext(key) if key.name == "app"));
    assert!(matches!(rules.role(b"Web"), Role::Opaque), "account names are case-sensitive");
    let none = read("").unwrap();
    assert!(!none.guard() && matches!(none.role(b"anybody"), Role::Plaintext), "no column is protected");
}

#[test]
fn first_matching_column_rule_applies() {
    let rule = |column: &str, algorithm: &str| {
        format!("[[columns]]\ndatabase='*'\ntable='*'\ncolumn='{column}'\nalgorithm='{algorithm}'\n")
    };
    let rules = read(&(CHECK.to_owned() + &rule("price", "sm4-gcm") + &rule("*", "aes-128-ecb"))).unwrap();
    assert_eq!(rules.algorithm_for(["d", "t", "Price"]), Some(Algorithm::Sm4Gcm));
    assert_eq!(rules.algorithm_for(["d", "t", "name"]), Some(Algorithm::Aes128Ecb));
    assert_eq!(rules.warnings(), ["no statement is approved, so guarded accounts cannot send any"]);
}

#[test]
fn errors_in_rules_are_reported_with_their_line_number() {
    let account = |rest: &str| format!("[master_keys]\napp = '{KEY}'\n\n[[accounts]]\nname = 'shop'\n{rest}\n");
    let column = "[[columns]]\ndatabase = 'd'\ntable = 't'\n";
    for (text, line, words) in [
        ("colour = 'red'".to_owned(), 1, "unknown field `colour`"),
        ("\nalgorithm = 'des'".into(), 2, "unknown variant `des`"),
        ("predicates = 'allow'".into(), 1, "unknown field `predicates`"),
        ("default_role = 'ciphertext'".into(), 1, "unknown variant `ciphertext`"),
        ("[master_keys]\napp = '0011'".into(), 2, "master key 'app' is not 16 bytes"),
        (format!("[master_keys]\napp = '{}'", KEY.replace('f', "g")), 2, "master key 'app' is not 16 bytes"),
        (format!("master_keys = '{KEY}'"), 1, "expected a map"),
        (format!("[master_keys]\n{KEY}"), 2, ""),
        ("check = 's3cret'".into(), 1, "expected struct Check"),
        (format!("[master_keys]\napp = '{KEY}'\napp = '{KEY}'"), 3, "duplicate key"),
        (account("role = 'ciphertext'"), 4, "needs a master_key"),
        (account("role = 'ciphertext'\nmaster_key = 'other'"), 4, "[master_keys] has no master key 'other'"),
        (account("role = 'opaque'\nmaster_key = 'app'"), 4, "only role \"ciphertext\""),
        (account("role = 'opaque'\n[[accounts]]\nname = 'shop'\nrole = 'opaque'"), 7, "account 'shop' appears twice"),
        (account("role = 'admin'"), 6, "unknown variant `admin`"),
        (column.into(), 1, "missing field `column`"),
        (format!("{column}column = 'c'"), 1, "also need [check]"),
        (format!("{column}column = ''\n{CHECK}"), 1, "names or patterns"),
        (format!("{column}column = 'c'\nalgorithm = 'rot13'"), 5, "unknown variant `rot13`"),
        ("\n[[statements]]\ntext = 'SELECT 1; SELECT 2'".into(), 2, "[[statements]]: the text has a second statement"),
        ("[[statements]]\ntext = 'SET a = ?'".into(), 1, "[[statements]]: a statement that begins with SET"),
        ("[[statements]]\ntext = 'SELECT ?'\nvalues = ['date']".into(), 3, "unknown variant `date`"),
        ("[[statements]]\ntext = 'SELECT ?'\nvalues = []".into(), 1, "has 0 kinds, but the text has 1 question marks"),
    ] {
        let error = read(&text).unwrap_err();
        assert!(error.starts_with(&format!("line {line}: ")) && error.contains(words), "{text:?} gave {error:?}");
    }
}

#[test]
fn statements_file_must_not_be_writable_by_other_users() {
    let statements = file("[[statements]]\ntext = 'SELECT ?, ?'\n", 0o644);
    let name = statements.file_name().unwrap().to_str().unwrap();
    let text = format!("statements_file = '{name}'\n[[statements]]\ntext = 'SELECT ?'");
    assert_eq!(read(&text).unwrap().statements.count(), 2);
    std::fs::write(
        &statements,
        "[[statements]]\ntext = 'SELECT ?, ?'\n[[statements]]\ntext = 'SELECT 5'\n[[statements]]\ntext='select  ?,?'",
    )
    .unwrap();
    assert!(read(&text).unwrap_err().contains("line 5: [[statements]]: the same statement appears twice"));
    std::fs::set_permissions(&statements, std::fs::Permissions::from_mode(0o664)).unwrap();
    assert!(read(&text).unwrap_err().contains("chmod 600"));
    std::fs::remove_file(&statements).unwrap();
    assert!(read(&text).unwrap_err().contains("No such file"));
}

fn column(name: &str) -> ColumnFacts {
    ColumnFacts { names: ["d", "people", name].map(str::to_owned), is_generated: true }
}

fn rules_for_names() -> Rules {
    Rules::parse_valid(&format!("{CHECK}[[columns]]\ndatabase = 'd'\ntable = 'people'\ncolumn = 'na*'\n"))
}

#[test]
fn rules_divide_columns_into_protected_and_plain() {
    let mut rules = rules_for_names();
    rules.set_catalogue(&[column("Name"), column("city")], &[]);
    assert!(rules.catalogue.hides_ids && rules.catalogue.protected == [column("Name").names]);
    let knows = |column| rules.catalogue.is_known_plain(["d", "people", column]);
    assert!(knows("city") && !knows("City") && !knows("Name") && !knows("age"));
}

#[test]
fn rule_that_matches_no_column_is_reported() {
    let rules = rules_for_names();
    assert_eq!(rules.unmatched_rule(&[column("name")]), None);
    let unmatched = rules.unmatched_rule(&[column("city")]).unwrap();
    assert_eq!(unmatched, "the rule for d.people.na* matches no column of a base table on the server");
}

#[test]
fn star_in_a_pattern_matches_any_characters() {
    let matches = |pattern: &str, name: &str| Pattern(pattern.into()).matches(name.as_bytes());
    for (pattern, name) in [("c_*", "c_last"), ("*", ""), ("*_id", "C_W_ID"), ("a*b*c", "aXbYbc"), ("x", "X")] {
        assert!(matches(pattern, name), "{pattern} {name}");
    }
    for (pattern, name) in [("c_*", "cx"), ("c", "cc"), ("a*b", "ac"), ("*_id", "id"), ("x", "")] {
        assert!(!matches(pattern, name), "{pattern} {name}");
    }
}
