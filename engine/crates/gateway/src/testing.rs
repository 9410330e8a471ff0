//! Rules and a server's columns for the tests of sessions.

use super::rules::{ColumnFacts, Rules};

/// Rules that were compared with a server that has these columns: `table.column` of database `d`. A `+` behind a name: the
/// server numbers new rows by it.
pub fn rules(text: &str, columns: &[&str]) -> Rules {
    let column = |text: &&str| {
        let name = text.trim_end_matches('+');
        let (table, column) = name.split_once('.').unwrap();
        ColumnFacts { names: ["d", table, column].map(str::to_owned), gives_ids: text.ends_with('+') }
    };
    let mut rules = Rules::of(text);
    rules.take_catalogue(&columns.iter().map(column).collect::<Vec<_>>(), &["Names_v".to_owned()]);
    rules
}

/// The columns of these tests' server.
pub const COLUMNS: [&str; 4] = ["people.id+", "people.name", "people.city", "notes.t"];
