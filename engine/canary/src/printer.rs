//! The gateway's own printer, in this process, over the tables of a server.

use crate::client::{Client, Kind, Login, QUERY};
use gateway::rules::{Catalogue, ColumnFacts, Facts, Rules};
use gateway::sql::{self, Surroundings};
use std::path::Path;

/// What is sent for statements under the rules of a file.
pub struct Printer {
    rules: Rules,
    database: String,
}

impl Printer {
    /// # Errors
    /// In words: of the rules, or of the server.
    pub fn new(rules: &Path, server: &Login, database: &str) -> Result<Self, String> {
        let mut rules = Rules::read(rules).map_err(|failure| failure.detail)?;
        rules.catalogue = Catalogue::new(&facts(server, database)?, &rules).into();
        Ok(Printer { rules, database: database.into() })
    }

    /// # Errors
    /// Why nothing is sent.
    pub fn print(&self, statement: &[u8]) -> Result<Vec<u8>, String> {
        let surroundings = Surroundings { rules: &self.rules, database: Some(&self.database), is_prepared: true };
        let plan = sql::read(statement, &surroundings).map_err(|refusal| refusal.to_string())?;
        Ok(plan.text.as_bytes().to_vec())
    }
}

/// Columns and views: nothing else decides what is printed.
fn facts(server: &Login, database: &str) -> Result<Facts, String> {
    let mut client =
        Client::connect(server, database, false).map_err(|lost| format!("{}: {lost:?}", server.address))?;
    let columns = rows(
        &mut client,
        "SELECT c.table_schema, c.table_name, c.column_name, t.table_type, c.data_type, COALESCE(c.collation_name, ''), c.extra, \
         COALESCE(c.generation_expression, '') FROM information_schema.columns c JOIN information_schema.tables t \
         ON BINARY t.table_schema = BINARY c.table_schema AND BINARY t.table_name = BINARY c.table_name \
         ORDER BY c.table_schema, c.table_name, c.ordinal_position",
    )?;
    let column =
        |[database, table, column, table_type, data_type, collation, extra, generation]: [String; 8]| ColumnFacts {
            names: [database, table, column],
            table_type,
            data_type,
            collation,
            extra,
            generation,
            ..ColumnFacts::default()
        };
    let views = "SELECT table_schema, table_name, view_definition FROM information_schema.views";
    Ok(Facts {
        names_have_case: true,
        columns: columns.into_iter().map(column).collect(),
        views: rows(&mut client, views)?,
        ..Facts::default()
    })
}

fn rows<const WIDTH: usize>(client: &mut Client, statement: &str) -> Result<Vec<[String; WIDTH]>, String> {
    let answer = client.ask(QUERY, statement.as_bytes()).map_err(|lost| format!("{lost:?}"))?;
    if let Some(why) = answer.error() {
        return Err(format!("{statement}: {why}"));
    }
    let rows = answer.payloads().filter(|(kind, _)| *kind == Kind::TextRow);
    rows.map(|(_, payload)| texts(payload).try_into().map_err(|_| format!("{statement}: rows of another width")))
        .collect()
}

/// Of a row without NULL, whose texts are short.
fn texts(mut payload: &[u8]) -> Vec<String> {
    let mut texts = Vec::new();
    while let Some((&first, rest)) = payload.split_first() {
        let (size, rest) = match first {
            0xFC => (usize::from(u16::from_le_bytes([rest[0], rest[1]])), &rest[2..]),
            size => (usize::from(size), rest),
        };
        let (text, rest) = rest.split_at(size.min(rest.len()));
        texts.push(String::from_utf8_lossy(text).into_owned());
        payload = rest;
    }
    texts
}
