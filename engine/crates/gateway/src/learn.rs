//! Learning mode. The statements of some accounts pass without approval, and each new statement is written to a file
//! with the columns of its answer. A statement in that file becomes approved only when a person moves it to the rules.

use crate::guard::{Types, parameter_types};
use crate::plan::LearnPlan;
use crate::rules::{Names, Rules, parse_approvals};
use crate::statements::{Kind, Reading, Refusal, Value, bare_name};
use base::error::{Class, Failure, Result};
use mysql::Definition;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

const HEADER: &str = "\
# Statements that 'costof gateway --learn' has recorded. None of them is approved. Read each one, decide which of its outputs
# may be \"plain\", and move it to the rules file. An account that may send a statement learns what the rows, their number and
# their order show.
";

/// The writer of the file of learned statements (statements recorded so that a person can approve them). It writes each
/// statement of the accounts in learning mode once.
#[derive(Debug)]
pub struct Learner {
    accounts: HashSet<Vec<u8>>,
    learned: Mutex<LearnedFile>,
}

#[derive(Debug)]
struct LearnedFile {
    file: File,
    known: HashSet<String>,
}

impl Learner {
    /// Open the file in which statements are recorded for approval. Statements that the file already contains are not
    /// written again. Errors: class `plan` (invalid configuration) if the file cannot be used or the rules protect no
    /// column.
    pub fn open(plan: &LearnPlan, rules: &Rules) -> Result<Self> {
        let refuse = |why: String| Failure::new(Class::Plan, format!("{}: {why}", plan.file.display()));
        if !rules.guard() {
            return Err(refuse("the rules have no [[columns]], so there is nothing to learn: add [[columns]]".into()));
        }
        let (file, known) = open(&plan.file).map_err(refuse)?;
        let accounts = plan.accounts.iter().map(|name| name.clone().into_bytes()).collect();
        Ok(Learner { accounts, learned: Mutex::new(LearnedFile { file, known }) })
    }

    pub fn learns_from(&self, account: &[u8]) -> bool {
        self.accounts.contains(account)
    }

    /// Write the entry, unless an entry with this key exists. If writing fails, print the error and continue.
    fn write(&self, key: String, entry: &str) {
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        if learned.known.insert(key)
            && let Err(error) = learned.file.write_all(entry.as_bytes())
        {
            eprintln!("costof-engine: cannot write a learned statement: {error}");
        }
    }
}

fn open(path: &Path) -> std::result::Result<(File, HashSet<String>), String> {
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| error.to_string())?;
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    if text.is_empty() {
        file.write_all(HEADER.as_bytes()).map_err(|error| error.to_string())?;
    }
    let (mut known, mut reading) = (HashSet::new(), Reading::default());
    for approval in parse_approvals(&text)? {
        let approval = approval.get_ref();
        if reading.read(approval.text.as_bytes(), true).is_ok() {
            known.insert(key(&reading, true, approval.database.as_deref()));
        }
    }
    Ok((file, known))
}

/// Return a key that is equal for all statements that share one entry in the file. Texts that differ only in literals
/// share an entry, which has a `?` for each literal. For a prepared statement, entry and key keep the literals.
fn key(reading: &Reading, is_prepared: bool, database: Option<&str>) -> String {
    let mut key = format!("{}\n{}", database.unwrap_or_default(), String::from_utf8_lossy(reading.shape()));
    for value in reading.values() {
        key.push('\n');
        if is_prepared {
            key.push_str(&String::from_utf8_lossy(reading.written(value)));
        }
    }
    key
}

/// A statement that is still to be written to the file. A statement sent as text is written after the server's answer,
/// and a prepared statement at its first execution.
#[derive(Debug)]
struct Pending {
    key: String,
    text: String,
    database: Option<String>,
    /// The kind of each `?`. None if the kinds are not known yet.
    kinds: Option<Vec<Kind>>,
    placeholders: usize,
    outputs: Vec<Names>,
    is_nested: bool,
    filters: Vec<Names>,
    is_prepared: bool,
}

/// The recorder of one session in learning mode. It passes each successful statement to the [`Learner`].
#[derive(Debug, Default)]
pub struct Recorder {
    reading: Reading,
    pending: Option<Pending>,
    number: Option<u32>,
    /// Prepared statements that have not been executed yet.
    prepared: HashMap<u32, Pending>,
}

impl Recorder {
    /// Begin to record a statement whose text the client sends or prepares. Return the database that becomes current if
    /// the statement succeeds, for example `shop` for `USE shop`. Return None if it changes no database.
    pub fn statement(
        &mut self,
        text: &[u8],
        is_prepared: bool,
        database: Option<&[u8]>,
        rules: &Rules,
        learner: &Learner,
    ) -> Option<Vec<u8>> {
        (self.pending, self.number) = (None, None);
        match rules.statements.find(text, is_prepared, database, &mut self.reading) {
            Ok(statement) => return statement.uses.clone(),
            Err(Refusal::Unreadable(why)) => {
                let text = comment(text);
                let entry = format!("\n# Cannot be approved because it has {why}:\n# {text}\n");
                learner.write(format!("{why}\n{text}"), &entry);
            }
            Err(Refusal::NotApproved(_)) => self.pending = Some(self.begin(text, is_prepared, database, rules)),
        }
        None
    }

    fn begin(&self, text: &[u8], is_prepared: bool, database: Option<&[u8]>, rules: &Rules) -> Pending {
        let reading = &self.reading;
        let database = database.map(|name| String::from_utf8_lossy(name).into_owned());
        let is_placeholder = |value: &Value| value.kind.is_none() == is_prepared;
        let names_a_view = reading.shape_tokens().any(|token| rules.catalogue.views.contains(&bare_name(token)));
        Pending {
            key: key(reading, is_prepared, database.as_deref()),
            text: String::from_utf8_lossy(&reading.text_between(text, is_placeholder).join(&b'?')).into_owned(),
            kinds: (!is_prepared).then(|| reading.values().iter().filter_map(|value| value.kind).collect()),
            placeholders: reading.values().iter().filter(|value| is_placeholder(value)).count(),
            outputs: Vec::new(),
            is_nested: reading.is_nested() || names_a_view,
            filters: filters(reading, rules),
            database,
            is_prepared,
        }
    }

    /// Store the number that the server assigned to the prepared statement.
    pub fn prepared(&mut self, number: u32) {
        self.number = Some(number);
    }

    /// Add a column of the answer, described by its definition.
    pub fn column(&mut self, payload: &[u8]) {
        if let Some(pending) = &mut self.pending
            && let Ok(definition) = Definition::parse(payload)
        {
            pending.outputs.push(definition.original.map(|name| String::from_utf8_lossy(name).into_owned()));
        }
    }

    /// End the current statement. If it succeeded, write a statement sent as text to the file, and keep a prepared
    /// statement until its first execution.
    pub fn answered(&mut self, succeeded: bool, rules: &Rules, learner: &Learner) {
        let Some(pending) = self.pending.take().filter(|_| succeeded) else { return };
        match self.number {
            Some(number) if pending.is_prepared => {
                self.prepared.insert(number, pending);
            }
            _ => learner.write(pending.key.clone(), &pending.entry(rules)),
        }
    }

    /// Write a prepared statement to the file at its first execution, which contains the types of its parameters.
    pub fn execution(&mut self, number: u32, parameters: &[u8], rules: &Rules, learner: &Learner) {
        if let Some(mut pending) = self.prepared.remove(&number) {
            pending.kinds = kinds(pending.placeholders, parameters);
            learner.write(pending.key.clone(), &pending.entry(rules));
        }
    }
}

/// Return the [`Kind`] of each parameter of an execution. Return None if the client did not send the parameters' MySQL
/// types, or if the gateway does not allow one of these types.
fn kinds(count: usize, parameters: &[u8]) -> Option<Vec<Kind>> {
    let Types::New(types) = parameter_types(count, parameters) else { return None };
    types.chunks_exact(2).map(|kind| Kind::from_type(kind[0])).collect()
}

/// Return the protected columns that could determine which rows the statement returns or changes, or the order of the
/// rows. These are the protected columns that the statement names outside two parts: the list of its result columns,
/// and the columns and values that it inserts.
fn filters(reading: &Reading, rules: &Rules) -> Vec<Names> {
    let tokens: Vec<_> = reading.shape_tokens().map(String::from_utf8_lossy).collect();
    let position = |word: &str| tokens.iter().position(|token| token == word).unwrap_or(tokens.len());
    let from = match &*tokens[0] {
        "select" => position("from"),
        "insert" | "replace" => position("select").min(position("on")),
        _ => 0,
    };
    let names = |tokens: &[Cow<'_, str>], name: &str| {
        tokens.iter().any(|token| token.trim_matches('`').eq_ignore_ascii_case(name))
    };
    let is_named = |[_, table, column]: &&Names| names(&tokens, table) && names(&tokens[from..], column);
    rules.catalogue.protected.iter().filter(is_named).cloned().collect()
}

impl Pending {
    fn entry(&self, rules: &Rules) -> String {
        let mut entry = String::from("\n");
        let mut verdicts = Vec::new();
        for (position, names) in self.outputs.iter().enumerate() {
            let name = comment(names.join(".").as_bytes());
            let names = names.each_ref().map(String::as_str);
            let (description, verdict) = match () {
                () if rules.algorithm_for(names).is_some() => {
                    (format!("{name}, protected: always encrypted"), "encrypt")
                }
                () if !rules.catalogue.is_known_plain(names) => ("computed".into(), "encrypt"),
                () if self.is_nested => {
                    (format!("{name}, or another column behind a view or a nested query"), "encrypt")
                }
                () => (name, "plain"),
            };
            let _ = writeln!(entry, "# output {}: {description}", position + 1);
            verdicts.push(format!("\"{verdict}\""));
        }
        for [_, table, column] in &self.filters {
            let name = comment(format!("{table}.{column}").as_bytes());
            let _ = writeln!(entry, "# filters on {name}: an account that may send it learns which rows match");
        }
        let _ = writeln!(entry, "[[statements]]\ntext = {}", quoted(&self.text));
        if let Some(database) = &self.database {
            let _ = writeln!(entry, "database = {}", quoted(database));
        }
        if let Some(kinds) = self.kinds.as_ref().filter(|kinds| !kinds.is_empty()) {
            let words: Vec<_> = kinds.iter().map(|kind| format!("\"{}\"", kind.word())).collect();
            let _ = writeln!(entry, "values = [{}]", words.join(", "));
        }
        if !verdicts.is_empty() {
            let _ = writeln!(entry, "outputs = [{}]", verdicts.join(", "));
        }
        entry
    }
}

/// Return the text for a comment in the file of recorded statements: on one line, and cut after 200 characters.
fn comment(text: &[u8]) -> String {
    const LONGEST: usize = 200;
    let text = String::from_utf8_lossy(text);
    text.chars().take(LONGEST).map(|each| if each.is_control() { ' ' } else { each }).collect()
}

/// Return the text as a TOML string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if control.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parsing_a_statement_quoted_for_toml_returns_the_original_text(text in "\\PC{0,40}[\"\\\\\n\t\u{7f}]{0,4}\\PC{0,40}") {
            let read = parse_approvals(&format!("[[statements]]\ntext = {}\n", quoted(&text))).unwrap();
            prop_assert_eq!(&read[0].get_ref().text, &text);
        }
    }
}
