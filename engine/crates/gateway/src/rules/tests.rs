use super::*;
use crate::sql;
use crate::testing::{self, CHECK, columns, tables};
use base::error::Class;
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

/// The example of docs/column-encryption.md.
fn documented() -> Rules {
    let text = include_str!("../../../../../docs/column-encryption.md");
    let (_, rest) = text.split_once("## Rules").unwrap();
    let (_, rest) = rest.split_once("```toml\n").unwrap();
    read(rest.split_once("```").unwrap().0).unwrap()
}

#[test]
fn the_documented_example() {
    let rules = documented();
    assert!(rules.guard());
    let rule = Some((Algorithm::Aes128Cbc, Predicates::Allow));
    assert_eq!(rules.rule_for("tpcc", "CUSTOMER", "c_last"), rule);
    assert_eq!(rules.rule_for("tpcc", "orders", "c_last"), None);
    assert!(matches!(rules.role(b"shop"), Role::Ciphertext(key) if key.name == "app"));
    assert!(matches!(rules.role(b"Shop"), Role::Opaque), "accounts are told apart by case");
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
    let rules = read(&(CHECK.to_owned() + &rule("price", "sm4-gcm") + &rule("*", "aes-128-ecb"))).unwrap();
    assert_eq!(rules.rule_for("d", "t", "Price").unwrap().0, Algorithm::Sm4Gcm);
    assert_eq!(rules.rule_for("d", "t", "name"), Some((Algorithm::Aes128Ecb, Predicates::Equality)));
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
        (format!("{column}column = 'c'"), 1, "need [check]"),
        (format!("{column}column = 'c'\npredicates = 'some'"), 5, "unknown variant `some`"),
        (format!("{column}column = ''\n{CHECK}"), 1, "names or patterns"),
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
    let rules = documented();
    assert_eq!(rules.unknown_column(&tables(&["tpcc.customer.c_last"])), None);
    let told = rules.unknown_column(&tables(&["tpcc.names.last"])).unwrap();
    assert!(told.starts_with("unknown rule column: tpcc.customer.c_*"), "{told}");
}

fn guarding(rule: &str, facts: &Facts) -> Arc<Catalogue> {
    let [database, table, column]: [&str; 3] = rule.split('.').collect::<Vec<_>>().try_into().unwrap();
    let rule = format!("[[columns]]\ndatabase = '{database}'\ntable = '{table}'\ncolumn = '{column}'");
    testing::rules(&format!("{CHECK}{rule}"), facts).catalogue
}

fn is_protected(catalogue: &Catalogue, names: [&str; 3]) -> bool {
    let [database, table, column] = names.map(str::as_bytes);
    catalogue.protection_of(database, table, column).is_some()
}

/// Through any number of steps, in both directions of a key.
#[test]
fn what_holds_the_same_values_is_protected_too() {
    let facts = Facts {
        references: vec![["d", "orders", "person", "d", "people", "upper_initial"].map(str::to_owned)],
        ties: vec![["d", "orders", "`tied` <> `person`"].map(str::to_owned)],
        ..tables(&[
            "people.name varchar",
            "people.city varchar",
            "people.initial varchar GENERATED left(`name`,1)",
            "people.upper_initial varchar GENERATED upper(`initial`)",
            "people.city_code varchar GENERATED left(`city`,3)",
            "orders.person varchar",
            "orders.tied varchar",
            "orders.free varchar",
            "orders.odd varchar GENERATED concat(`free`, 'x",
        ])
    };
    for rule in ["d.people.name", "d.orders.tied"] {
        let catalogue = guarding(rule, &facts);
        let protected = |table, column| is_protected(&catalogue, ["d", table, column]);
        assert_eq!(protected("people", "name"), rule == "d.people.name", "a source of what is tied is not tied itself");
        assert!(protected("people", "upper_initial") && protected("orders", "person") && protected("orders", "tied"));
        assert!(!protected("people", "city") && !protected("people", "city_code") && !protected("orders", "free"));
        // What it is generated from cannot be read: of anything.
        assert!(protected("orders", "odd"));
    }
}

/// Rules of database `d`, by `table.column` and where it may stand.
fn ruled(columns: &[[&str; 2]], facts: &Facts) -> Arc<Catalogue> {
    let rule = |[names, predicates]: &[&str; 2]| {
        let (table, column) = names.split_once('.').unwrap();
        format!("[[columns]]\ndatabase = 'd'\ntable = '{table}'\ncolumn = '{column}'\npredicates = '{predicates}'\n")
    };
    testing::rules(&(CHECK.to_owned() + &columns.iter().map(rule).collect::<String>()), facts).catalogue
}

fn predicates(catalogue: &Catalogue, names: &str) -> Option<Predicates> {
    let (table, column) = names.split_once('.').unwrap();
    match catalogue.protection_of(b"d", table.as_bytes(), column.as_bytes())? {
        sql::Taint::Bare(number) => Some(catalogue.protection(number).predicates),
        sql::Taint::Clean | sql::Taint::Mixed { .. } => None,
    }
}

#[test]
fn a_default_that_is_an_expression_is_made_of_its_columns() {
    let facts = tables(&["t.name varchar", "t.copy varchar DEFAULT `name`", "t.word varchar DEFAULT 'name'"]);
    let catalogue = ruled(&[["t.name", "equality"]], &facts);
    assert_eq!(predicates(&catalogue, "t.copy"), Some(Predicates::Refuse));
    assert_eq!(predicates(&catalogue, "t.word"), None, "a text");
}

#[test]
fn what_tells_a_part_of_a_value_is_compared_with_nothing() {
    let columns =
        ["t.name varchar", "t.initial varchar", "t.free", "t.prénom varchar", "t.g varchar GENERATED lower(`PRÉNOM`)"];
    let facts = Facts {
        ties: vec![["d", "t", "`initial` = left(`name`,1)"].map(str::to_owned)],
        ..tables(&[&columns[..], &["child.initial varchar"]].concat())
    };
    let facts = Facts { references: vec![["d", "child", "initial", "d", "t", "initial"].map(str::to_owned)], ..facts };
    let catalogue = ruled(&[["t.name", "equality"], ["t.prénom", "equality"]], &facts);
    assert_eq!(predicates(&catalogue, "t.name"), Some(Predicates::Equality), "its own value may be guessed");
    for names in ["t.initial", "child.initial", "t.g"] {
        assert_eq!(predicates(&catalogue, names), Some(Predicates::Refuse), "{names}");
    }
    let both = ruled(&[["t.name", "equality"], ["t.initial", "equality"]], &facts);
    assert_eq!(predicates(&both, "t.initial"), Some(Predicates::Refuse), "though a rule means it");
    let allowed = ruled(&[["t.name", "allow"]], &facts);
    assert_eq!(predicates(&allowed, "child.initial"), Some(Predicates::Allow));
}

/// Whatever the order in which ties are come upon.
#[test]
fn ties_tighten_until_nothing_changes() {
    let facts = Facts {
        references: vec![
            ["d", "t", "tied", "d", "other", "secret"].map(str::to_owned),
            ["d", "last", "g", "d", "t", "g"].map(str::to_owned),
        ],
        ..tables(&["t.open", "t.tied", "t.g varchar GENERATED concat(`tied`,`open`)", "other.secret", "last.g"])
    };
    let catalogue = ruled(&[["t.open", "allow"], ["other.secret", "refuse"]], &facts);
    for (names, expected) in [
        ("t.open", Predicates::Allow),
        ("t.tied", Predicates::Refuse),
        ("t.g", Predicates::Refuse),
        ("last.g", Predicates::Refuse),
    ] {
        assert_eq!(predicates(&catalogue, names), Some(expected), "{names}");
    }
    let catalogue = ruled(&[["t.tied", "allow"], ["other.secret", "equality"]], &facts);
    assert_eq!(predicates(&catalogue, "t.tied"), Some(Predicates::Equality), "both hold one value");
}

#[test]
fn a_view_is_as_strict_as_what_it_reads() {
    let facts = Facts {
        columns: [columns(&["t.name varchar"], "BASE TABLE"), columns(&["v.x varchar"], "VIEW")].concat(),
        views: vec![["d", "v", "select `d`.`t`.`name` AS `x` from `d`.`t`"].map(str::to_owned)],
        ..Facts::default()
    };
    let catalogue = ruled(&[["t.name", "refuse"], ["v.x", "allow"]], &facts);
    assert_eq!(predicates(&catalogue, "v.x"), Some(Predicates::Refuse));
}

#[test]
fn names_are_found_as_the_server_tells_them_apart() {
    let facts = tables(&["Db.People.Name"]);
    let cased = guarding("db.people.name", &facts);
    let folding = guarding("db.people.name", &Facts { names_have_case: false, ..facts });
    assert!(cased.table("Db", "People").is_some() && cased.table("db", "people").is_none());
    assert!(folding.table("db", "PEOPLE").is_some());
    assert!(is_protected(&cased, ["Db", "People", "NAME"]), "columns are told apart by no server");
}

#[test]
fn views_are_read_and_what_cannot_be_is_refused() {
    let view = |name: &str, definition: &str| ["d", name, definition].map(str::to_owned);
    let views = ["outer_v.a", "outer_v.b", "inner_v.x", "inner_v.y", "odd_v.x", "ring_v.x"];
    let columns = [columns(&["people.name", "people.city"], "BASE TABLE"), columns(&views, "VIEW")].concat();
    let facts = Facts {
        columns,
        views: vec![
            view("outer_v", "select `v`.`y` AS `a`,`v`.`x` AS `b` from `d`.`inner_v` `v`"),
            view("inner_v", "select `d`.`people`.`name` AS `x`,`d`.`people`.`city` AS `y` from `d`.`people`"),
            view("odd_v", "select sleep(1) AS `x`"),
            view("ring_v", "select `r`.`x` AS `x` from `d`.`ring_v` `r`"),
        ],
        ..Facts::default()
    };
    let catalogue = guarding("d.people.name", &facts);
    assert!(is_protected(&catalogue, ["d", "outer_v", "b"]) && !is_protected(&catalogue, ["d", "outer_v", "a"]));
    let refused = |view| catalogue.table("d", view).unwrap().refused;
    assert!(refused("odd_v") && refused("ring_v") && !refused("outer_v"));
    assert_eq!(catalogue.warnings.len(), 2);
}
