use super::*;
use crate::error::Class;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

const KEY: &str = "00112233445566778899aabbccddeeff";

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

/// The example of docs/architecture.md.
fn documented() -> Rules {
    let text = include_str!("../../../../docs/architecture.md");
    let (_, rest) = text.split_once("### Rules").unwrap();
    let (_, rest) = rest.split_once("```toml\n").unwrap();
    read(rest.split_once("```").unwrap().0).unwrap()
}

#[test]
fn the_documented_example() {
    let rules = documented();
    assert!(rules.guard());
    assert_eq!(rules.algorithm_of(b"tpcc", b"CUSTOMER", b"c_last"), Some(Algorithm::Aes128Cbc));
    assert_eq!(rules.algorithm_of(b"tpcc", b"orders", b"c_last"), None);
    assert!(matches!(rules.role(b"shop"), Role::Ciphertext(key) if key.name == "app"));
    assert!(matches!(rules.role(b"Shop"), Role::Opaque), "accounts are told apart by case");
    assert!(rules.may_mean(None, b"customer") && rules.may_mean(Some(b"TPCC"), b"customer"));
    assert!(!rules.may_mean(Some(b"other"), b"customer") && !rules.may_mean(None, b"item"));
}

#[test]
fn without_columns_there_is_nothing_to_guard() {
    let rules = read("").unwrap();
    assert!(!rules.guard() && matches!(rules.role(b"anybody"), Role::Plaintext));
}

#[test]
fn the_first_rule_that_means_a_column_counts() {
    let rule = |column: &str, algorithm: &str| {
        format!("[[columns]]\ndatabase='*'\ntable='*'\ncolumn='{column}'\nalgorithm='{algorithm}'\n")
    };
    let rules = read(&(rule("price", "sm4-gcm") + &rule("*", "aes-128-ecb"))).unwrap();
    assert_eq!(rules.algorithm_of(b"d", b"t", b"Price"), Some(Algorithm::Sm4Gcm));
    assert_eq!(rules.algorithm_of(b"d", b"t", b"name"), Some(Algorithm::Aes128Ecb));
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let account = |rest: &str| format!("[master_keys]\napp = '{KEY}'\n\n[[accounts]]\nname = 'shop'\n{rest}\n");
    let column = "[[columns]]\ndatabase = 'd'\ntable = 't'\n";
    for (text, line, words) in [
        ("colour = 'red'".to_owned(), 1, "unknown field `colour`"),
        ("\nalgorithm = 'des'".into(), 2, "unknown variant `des`"),
        ("expressions = 'maybe'".into(), 1, "unknown variant `maybe`"),
        ("default_role = 'ciphertext'".into(), 1, "unknown variant `ciphertext`"),
        ("[master_keys]\napp = '0011'".into(), 2, "master key 'app' is not 16 bytes"),
        (format!("[master_keys]\napp = '{}'", KEY.replace('f', "g")), 2, "master key 'app' is not 16 bytes"),
        (format!("master_keys = '{KEY}'"), 1, "expected a map"),
        (format!("[master_keys]\n{KEY}"), 2, ""),
        ("check = 's3cret'".into(), 1, "expected struct Check"),
        (format!("[master_keys]\napp = '{KEY}'\napp = '{KEY}'"), 3, "duplicate key"),
        (account("role = 'ciphertext'"), 4, "needs a master_key"),
        (account("role = 'ciphertext'\nmaster_key = 'other'"), 4, "no master key 'other'"),
        (account("role = 'opaque'\nmaster_key = 'app'"), 4, "only role \"ciphertext\""),
        (account("role = 'opaque'\n[[accounts]]\nname = 'shop'\nrole = 'opaque'"), 7, "there twice"),
        (account("role = 'admin'"), 6, "unknown variant `admin`"),
        (column.into(), 1, "missing field `column`"),
        (format!("{column}column = ''"), 1, "names or patterns"),
        (format!("{column}column = 'c'\nalgorithm = 'rot13'"), 5, "unknown variant `rot13`"),
    ] {
        let told = read(&text).unwrap_err();
        assert!(told.starts_with(&format!("line {line}: ")) && told.contains(words), "{text:?} gave {told:?}");
    }
}

#[test]
fn a_file_that_others_may_read_is_refused_and_so_is_none() {
    for mode in [0o640, 0o604, 0o620] {
        let path = file("", mode);
        let failure = Rules::read(&path).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(failure.detail.contains("chmod 600"), "{failure}");
        assert!(Rules::read(&path).unwrap_err().detail.contains("No such file"));
    }
}

#[test]
fn a_rule_for_no_column_is_found() {
    let entry = |table: &str, column: &str, is_view| Entry {
        database: b"tpcc".into(),
        table: table.into(),
        column: column.into(),
        is_view,
    };
    let entries = [entry("customer", "c_last", false), entry("names", "last", true)];
    let rules = documented();
    assert_eq!(rules.unknown_column(&entries), None);
    let told = rules.unknown_column(&entries[1..]).unwrap();
    assert!(told.starts_with("unknown rule column: tpcc.customer.c_*"), "{told}");
    let catalogue = Catalogue::new(&entries);
    assert!(catalogue.is_table(b"tpcc", b"customer") && !catalogue.is_table(b"tpcc", b"Customer"));
    assert!(catalogue.has_view(b"NAMES") && !catalogue.has_view(b"customer") && !catalogue.is_table(b"tpcc", b"names"));
}
