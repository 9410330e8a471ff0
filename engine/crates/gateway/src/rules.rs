//! The rules: protected columns, the role of each account, and approved statements. They are in one file, which may
//! name a second file with further statements. If either file has an error, the gateway uses none of the rules. A
//! message about an error in a file's text names the line, and contains no secrets.

use crate::statements::{Approval, Statements};
use base::Secret;
use base::error::{Class, Failure, Result};
use encryption::{Algorithm, MasterKey};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, Deserializer};
use zeroize::Zeroizing;

/// The permissions that users other than the owner must not have: any access to a rules file, which may contain keys,
/// and write access to a file of statements.
const DENIED_FOR_KEYS: u32 = 0o077;
const DENIED_FOR_STATEMENTS: u32 = 0o022;
/// The minimum number of consecutive hexadecimal digits that an error message does not quote: they could be a key.
const MIN_KEY_DIGITS: usize = 16;

/// The rules of one listener, and the columns of its server.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The algorithm for rules that name no algorithm, and for encrypted result columns without a rule, such as
    /// expressions.
    pub algorithm: Algorithm,
    pub unknown_clients: UnknownClients,
    /// The account with which the gateway reads the list of the server's columns. None only if no column is protected.
    pub check: Option<Check>,
    /// The server's columns, as found by the last query.
    pub catalogue: Arc<Catalogue>,
    /// The approved statements. Guarded accounts, whose role is not `Plaintext`, may send only these
    /// statements, and statements about the session such as `COMMIT`.
    pub statements: Arc<Statements>,
    accounts: HashMap<Vec<u8>, Role>,
    default_role: Role,
    columns: Vec<ColumnRule>,
}

/// The form in which an account gets protected columns.
#[derive(Debug, Clone)]
pub enum Role {
    /// The account gets plaintext. It is not guarded: it may send any statement.
    Plaintext,
    /// The account gets ciphertext that the holder of this key can decrypt.
    Ciphertext(Arc<NamedKey>),
    /// The account gets ciphertext that no client can decrypt.
    Opaque,
}

#[derive(Debug)]
pub struct NamedKey {
    /// The name, of 1 to 255 bytes.
    pub name: String,
    pub key: MasterKey,
}

#[derive(Debug, Clone)]
struct ColumnRule {
    /// The patterns of database, table and column.
    patterns: [Pattern; 3],
    algorithm: Algorithm,
}

/// The names of a database, a table and a column, as the server spells them.
pub type Names = [String; 3];

/// The names of a column of a base table, and whether the server generates its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnFacts {
    pub names: Names,
    /// True if the server generates the values of this column for new rows, by AUTO_INCREMENT or a sequence.
    pub is_generated: bool,
}

/// The server's columns, divided by the rules into protected and other columns.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// The columns of base tables that match no rule.
    plain: HashSet<Names>,
    /// The columns that match a rule.
    pub protected: Vec<Names>,
    /// The names of views and of other relations that are not base tables, in lower case.
    pub views: HashSet<String>,
    /// True if the server generates the values of a protected column. The server's answer to an INSERT contains
    /// the generated value, so the gateway removes the value from such answers.
    pub hides_ids: bool,
}

impl Catalogue {
    /// Return whether this column belongs to a base table and matches no rule.
    pub fn is_known_plain(&self, names: [&str; 3]) -> bool {
        self.plain.contains(&names.map(str::to_owned))
    }
}

impl Rules {
    /// Read the rules file, and the file of statements that it names. Errors: class `plan` (invalid configuration),
    /// with a message on one line that names the file and the line number.
    pub fn read(path: &Path) -> Result<Self> {
        let text = read_text(path, DENIED_FOR_KEYS).map_err(|message| refusal(path, message))?;
        let (mut rules, file) = Self::parse(&text).map_err(|error| refusal(path, error.message(&text)))?;
        if let Some(name) = file {
            let path = path.parent().unwrap_or(Path::new("")).join(name);
            let text = read_text(&path, DENIED_FOR_STATEMENTS).map_err(|message| refusal(&path, message))?;
            let statements = parse_approvals(&text).map_err(|message| refusal(&path, message))?;
            let approved = Arc::make_mut(&mut rules.statements);
            approve(approved, statements).map_err(|error| refusal(&path, error.message(&text)))?;
        }
        Ok(rules)
    }

    #[cfg(test)]
    pub fn parse_valid(text: &str) -> Self {
        Self::parse(text).unwrap_or_else(|error| panic!("{}", error.message)).0
    }

    /// Parse the rules. Return the rules, and the path of the file with further statements if the rules name one.
    fn parse(text: &str) -> ParseResult<(Self, Option<PathBuf>)> {
        let mut file: RulesFile = parse(text)?;
        let keys = keys(std::mem::take(&mut file.master_keys))?;
        if let Some(first) = file.columns.first()
            && file.check.is_none()
        {
            let message =
                "rules with [[columns]] also need [check]: an account that can list the server's tables and columns";
            return Err(RulesError::new(first, message));
        }
        let mut accounts = HashMap::new();
        for account in &file.accounts {
            let Account { name, role, master_key } = account.get_ref();
            let role = resolve_role(role, master_key.as_deref(), &keys)
                .map_err(|message| RulesError::new(account, format!("account '{name}': {message}")))?;
            if accounts.insert(name.clone().into_bytes(), role).is_some() {
                return Err(RulesError::new(account, format!("account '{name}' appears twice")));
            }
        }
        let mut columns = Vec::new();
        for column in &file.columns {
            let Column { database, table, column: name, algorithm } = column.get_ref();
            if [database, table, name].iter().any(|pattern| pattern.is_empty()) {
                return Err(RulesError::new(
                    column,
                    "database, table and column must be names or patterns; '*' matches any name",
                ));
            }
            let patterns = [database, table, name].map(|text| Pattern(text.to_ascii_lowercase()));
            columns.push(ColumnRule { patterns, algorithm: algorithm.unwrap_or(file.algorithm) });
        }
        let mut approved = Statements::default();
        approve(&mut approved, file.statements)?;
        let rules = Rules {
            algorithm: file.algorithm,
            unknown_clients: file.unknown_clients,
            check: file.check,
            catalogue: Arc::default(),
            statements: approved.into(),
            accounts,
            default_role: match file.default_role {
                DefaultRole::Opaque => Role::Opaque,
                DefaultRole::Plaintext => Role::Plaintext,
            },
            columns,
        };
        Ok((rules, file.statements_file))
    }

    /// Return whether the rules protect any column. Otherwise every account gets plaintext and may send any statement.
    pub fn guard(&self) -> bool {
        !self.columns.is_empty()
    }

    /// Return the role of an account. If no column is protected, every account gets plaintext.
    pub fn role(&self, account: &[u8]) -> Role {
        match self.guard() {
            true => self.accounts.get(account).unwrap_or(&self.default_role).clone(),
            false => Role::Plaintext,
        }
    }

    /// Return the algorithm of the first rule that matches a column. Return None if the column is not protected.
    pub fn algorithm_for(&self, names: [&str; 3]) -> Option<Algorithm> {
        let [database, _, column] = names;
        if database.is_empty() || column.is_empty() {
            // A computed result column has no original names, so no rule can match it.
            return None;
        }
        self.columns.iter().find(|rule| rule.matches(names)).map(|rule| rule.algorithm)
    }

    pub fn warnings(&self) -> Vec<String> {
        let nothing_approved = self.guard() && self.statements.count() == 0;
        nothing_approved
            .then(|| "no statement is approved, so guarded accounts cannot send any".to_owned())
            .into_iter()
            .collect()
    }

    /// Store the server's columns, and the names of its views without their databases.
    ///
    /// If a statement names a view, all result columns of the statement are encrypted, unless the approval says which
    /// of them to encrypt. This is because of aliases, as in `FROM a_view AS people`. If there is a table `people`,
    /// servers report the view's columns as columns of this table, so a protected column could pass in plaintext.
    pub fn set_catalogue(&mut self, columns: &[ColumnFacts], views: &[String]) {
        let views = views.iter().map(|name| name.to_lowercase()).collect();
        let mut catalogue = Catalogue { views, ..Catalogue::default() };
        for ColumnFacts { names, is_generated } in columns {
            if self.algorithm_for(names.each_ref().map(String::as_str)).is_some() {
                catalogue.protected.push(names.clone());
                catalogue.hides_ids |= is_generated;
            } else {
                catalogue.plain.insert(names.clone());
            }
        }
        self.statements = self.statements.encrypting_views(&catalogue.views).into();
        self.catalogue = catalogue.into();
    }

    /// Return a message about the first rule that matches no column of a base table, or None if all rules match.
    pub fn unmatched_rule(&self, columns: &[ColumnFacts]) -> Option<String> {
        let matches_one =
            |rule: &&ColumnRule| columns.iter().any(|column| rule.matches(column.names.each_ref().map(String::as_str)));
        let rule = self.columns.iter().find(|rule| !matches_one(rule))?;
        let [database, table, column] = &rule.patterns;
        Some(format!("the rule for {database}.{table}.{column} matches no column of a base table on the server"))
    }
}

impl ColumnRule {
    fn matches(&self, names: [&str; 3]) -> bool {
        self.patterns.iter().zip(names).all(|(pattern, name)| pattern.matches(name.as_bytes()))
    }
}

/// A pattern for names. `*` matches any characters, and the case of ASCII letters is ignored.
#[derive(Debug, Clone)]
struct Pattern(String);

impl Pattern {
    /// Return whether the name matches. After a mismatch only the last `*` is tried again. The time therefore does not
    /// grow exponentially with the number of `*`.
    fn matches(&self, name: &[u8]) -> bool {
        let pattern = self.0.as_bytes();
        let (mut position, mut in_name) = (0, 0);
        let mut retry: Option<(usize, usize)> = None;
        while in_name < name.len() {
            match pattern.get(position) {
                Some(b'*') => {
                    retry = Some((position + 1, in_name));
                    position += 1;
                }
                Some(byte) if byte.eq_ignore_ascii_case(&name[in_name]) => {
                    position += 1;
                    in_name += 1;
                }
                _ => match retry {
                    Some((after, from)) => {
                        retry = Some((after, from + 1));
                        (position, in_name) = (after, from + 1);
                    }
                    None => return false,
                },
            }
        }
        pattern[position..].iter().all(|byte| *byte == b'*')
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    #[serde(default = "gcm")]
    algorithm: Algorithm,
    #[serde(default)]
    unknown_clients: UnknownClients,
    #[serde(default)]
    default_role: DefaultRole,
    #[serde(default)]
    master_keys: BTreeMap<String, Spanned<Secret>>,
    #[serde(default)]
    accounts: Vec<Spanned<Account>>,
    #[serde(default)]
    columns: Vec<Spanned<Column>>,
    check: Option<Check>,
    #[serde(default)]
    statements: Vec<Spanned<Approval>>,
    /// The path of a file of further statements, relative to the folder of the rules file.
    statements_file: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StatementsFile {
    #[serde(default)]
    statements: Vec<Spanned<Approval>>,
}

/// The treatment of clients that do not announce that they decrypt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownClients {
    #[default]
    Refuse,
    Ciphertext,
}

/// The role of accounts without an entry in the rules. It cannot be `ciphertext`, which needs a master key per account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DefaultRole {
    #[default]
    Opaque,
    Plaintext,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Account {
    name: String,
    role: RoleName,
    master_key: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RoleName {
    Plaintext,
    Ciphertext,
    Opaque,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Column {
    database: String,
    table: String,
    column: String,
    algorithm: Option<Algorithm>,
}

/// The account with which the gateway reads the list of the server's columns.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    pub username: String,
    pub password: Secret,
}

fn gcm() -> Algorithm {
    Algorithm::Aes128Gcm
}

/// An error in a rules file. `position` is the byte offset of the faulty entry in the file.
struct RulesError {
    position: Option<usize>,
    message: String,
}

impl RulesError {
    fn new<T>(place: &Spanned<T>, message: impl Into<String>) -> Self {
        RulesError { position: Some(place.span().start), message: message.into() }
    }

    fn message(&self, text: &str) -> String {
        match self.position {
            Some(position) => {
                format!("line {}: {}", 1 + text[..position.min(text.len())].matches('\n').count(), self.message)
            }
            None => self.message.clone(),
        }
    }
}

type ParseResult<T> = std::result::Result<T, RulesError>;

fn refusal(path: &Path, message: String) -> Failure {
    Failure::new(Class::Plan, format!("{}: {message}", path.display()))
}

/// Read a file. Refuse it if users other than its owner have any of the permissions in `denied`. The check uses the
/// opened file, so replacing the file later has no effect. The text may contain keys, so it is erased when dropped.
fn read_text(path: &Path, denied: u32) -> std::result::Result<Zeroizing<String>, String> {
    let mut file = File::open(path).map_err(|error| error.to_string())?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    let mode = metadata.permissions().mode();
    if mode & denied != 0 {
        let mode = mode & 0o777;
        return Err(format!("users other than its owner have access (mode {mode:03o}): run chmod 600"));
    }
    // Allocate the whole size at once: a string that grows leaves copies of its text in memory.
    let size = usize::try_from(metadata.len()).unwrap_or_default();
    let mut text = Zeroizing::new(String::with_capacity(size + 1));
    file.read_to_string(&mut text).map_err(|error| error.to_string())?;
    Ok(text)
}

/// Parse TOML. The text is first parsed into a table: otherwise the parser's errors would quote the text and any keys.
fn parse<'t, F: Deserialize<'t>>(text: &'t str) -> ParseResult<F> {
    let table = DeTable::parse(text).map(Deserializer::from);
    table.and_then(F::deserialize).map_err(|error| RulesError {
        position: error.span().map(|span| span.start),
        message: without_secrets(error.message()),
    })
}

/// Parse a TOML file of approved statements, each in a table `[[statements]]`. Errors: a message with the line number.
pub fn parse_approvals(text: &str) -> std::result::Result<Vec<Spanned<Approval>>, String> {
    parse::<StatementsFile>(text).map(|file| file.statements).map_err(|error| error.message(text))
}

fn approve(approved: &mut Statements, statements: Vec<Spanned<Approval>>) -> ParseResult<()> {
    for statement in statements {
        let error = |message| RulesError::new(&statement, format!("[[statements]]: {message}"));
        approved.add(statement.get_ref()).map_err(error)?;
    }
    Ok(())
}

fn keys(entries: BTreeMap<String, Spanned<Secret>>) -> ParseResult<BTreeMap<String, Arc<NamedKey>>> {
    let key = |(name, digits): (String, Spanned<Secret>)| {
        if name.is_empty() || name.len() > encryption::LONGEST_NAME {
            return Err(RulesError::new(&digits, "a master key's name has 1 to 255 bytes"));
        }
        let key = MasterKey::from_hex(digits.get_ref().reveal()).map_err(|_| {
            RulesError::new(&digits, format!("master key '{name}' is not 16 bytes in hexadecimal (32 digits)"))
        })?;
        Ok((name.clone(), Arc::new(NamedKey { name, key })))
    };
    entries.into_iter().map(key).collect()
}

fn resolve_role(
    role: &RoleName,
    master_key: Option<&str>,
    keys: &BTreeMap<String, Arc<NamedKey>>,
) -> std::result::Result<Role, String> {
    match (role, master_key) {
        (RoleName::Plaintext, None) => Ok(Role::Plaintext),
        (RoleName::Opaque, None) => Ok(Role::Opaque),
        (RoleName::Ciphertext, Some(name)) => match keys.get(name) {
            Some(key) => Ok(Role::Ciphertext(key.clone())),
            None => Err(format!("[master_keys] has no master key '{name}'")),
        },
        (RoleName::Ciphertext, None) => Err("role \"ciphertext\" needs a master_key: name one of [master_keys]".into()),
        (RoleName::Plaintext | RoleName::Opaque, Some(_)) => {
            Err("only role \"ciphertext\" can have a master_key".into())
        }
    }
}

/// Return the parser's message if it quotes no values. Otherwise return a general message, because a value could be a
/// key or a password in a wrong place.
fn without_secrets(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let known = ["unknown field", "unknown variant", "missing field", "duplicate field", "duplicate key"];
    let names = known.iter().any(|start| line.starts_with(start)) && !holds_a_key(line);
    match line.split_once(", expected ") {
        _ if names => line.into(),
        Some((_, expected)) if !holds_a_key(expected) => format!("expected {expected}"),
        _ if line.contains(['"', '`', '\'']) || holds_a_key(line) => "this is not valid TOML for a rules file".into(),
        _ => line.into(),
    }
}

fn holds_a_key(text: &str) -> bool {
    let mut digits = 0;
    text.bytes().any(|byte| {
        digits = if byte.is_ascii_hexdigit() { digits + 1 } else { 0 };
        digits >= MIN_KEY_DIGITS
    })
}

#[cfg(test)]
mod tests;
