//! A server's tables for the tests of rules, statements and sessions.

use super::rules::{Catalogue, ColumnFacts, Facts, Rules};

/// What every file of rules for columns has.
pub const CHECK: &str = "[check]\nusername = 'catalogue'\npassword = ''\n";

/// Rules that have asked a server with these tables.
pub fn rules(text: &str, facts: &Facts) -> Rules {
    let mut rules = Rules::of(text);
    rules.catalogue = Catalogue::new(facts, &rules).into();
    rules
}

/// `[database.]table.column [type [extra [expression]]]`, of database `d` where none is named. The expression is the column's
/// default where `extra` is `DEFAULT`; else what it is generated from. A hyphen in `type` or `extra` is a blank.
pub fn columns(list: &[&str], table_type: &str) -> Vec<ColumnFacts> {
    let column = |text: &&str| {
        let mut words = text.splitn(4, ' ');
        let names = words.next().unwrap().split('.').map(str::to_owned).collect::<Vec<_>>();
        let names = <[String; 3]>::try_from(names).or_else(|names| [&["d".into()], &names[..]].concat().try_into());
        let data_type = words.next().unwrap_or("int").to_owned();
        let column = ColumnFacts {
            names: names.unwrap(),
            table_type: table_type.into(),
            collation: if data_type == "varchar" { "utf8mb4_general_ci".into() } else { String::new() },
            data_type: data_type.replace('-', " "),
            extra: words.next().unwrap_or_default().replace('-', " "),
            ..ColumnFacts::default()
        };
        let expression = words.next().unwrap_or_default().to_owned();
        match &column.extra[..] {
            "DEFAULT" => ColumnFacts { default: expression, ..column },
            _ => ColumnFacts { generation: expression, ..column },
        }
    };
    list.iter().map(column).collect()
}

/// A server with these tables and nothing else.
pub fn tables(list: &[&str]) -> Facts {
    Facts { names_have_case: true, columns: columns(list, "BASE TABLE"), ..Facts::default() }
}

/// The schema of the corpus of exploits.
pub fn facts() -> Facts {
    let mut columns_of_all = columns(
        &[
            "people.id int auto_increment",
            "people.name varchar",
            "people.salary int",
            "people.city varchar",
            "people.initial varchar GENERATED left(`name`,1)",
            "orders.id",
            "orders.person_name varchar",
            "guesses.word varchar",
            "notes.id",
            "notes.t varchar",
        ],
        "BASE TABLE",
    );
    columns_of_all.extend(columns(&["names_v.x varchar", "closed_v.x varchar"], "VIEW"));
    let view = |view: [&str; 2]| ["d", view[0], view[1]].map(str::to_owned);
    Facts {
        names_have_case: true,
        columns: columns_of_all,
        views: vec![
            view(["names_v", "select `d`.`people`.`name` AS `x` from `d`.`people`"]),
            view(["closed_v", "select ord(`d`.`people`.`name`) AS `x` from `d`.`people`"]),
        ],
        references: vec![["d", "orders", "person_name", "d", "people", "name"].map(str::to_owned)],
        indexes: vec![
            ["d", "people", "name_idx", "name"].map(str::to_owned),
            ["d", "people", "PRIMARY", "id"].map(str::to_owned),
        ],
        ..Facts::default()
    }
}
