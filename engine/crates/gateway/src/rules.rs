//! The rules: which columns are protected, what each account gets, and which statements are approved. One file, read whole
//! or refused: every mistake is reported with its place and without secrets.

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

/// A key's name is sent with each encrypted column, with its length in a byte.
const LONGEST_KEY_NAME: usize = 255;
/// Permissions of anybody but the owner: any for keys, writing for statements.
const OTHERS: u32 = 0o077;
const OTHERS_WRITE: u32 = 0o022;
/// So many digits in a row may be a key.
const LIKE_A_KEY: usize = 16;

/// A rules file, understood.
#[derive(Debug, Clone)]
pub struct Rules {
    /// For encrypted outputs that are no protected columns, and for column rules that name no other.
    pub algorithm: Algorithm,
    /// What happens to clients that do not announce that they decrypt.
    pub unknown_clients: UnknownClients,
    /// The account that may see which columns there are. None only where there is nothing to protect.
    pub check: Option<Check>,
    /// The server's columns when it was last asked.
    pub catalogue: Arc<Catalogue>,
    /// What guarded accounts may send.
    pub statements: Arc<Statements>,
    accounts: HashMap<Vec<u8>, Role>,
    default_role: Role,
    columns: Vec<ColumnRule>,
}

/// What an account gets of protected columns.
#[derive(Debug, Clone)]
pub enum Role {
    /// Plaintext; the account is not guarded.
    Plaintext,
    /// What the holder of this key can decrypt.
    Ciphertext(Arc<NamedKey>),
    /// What nobody can decrypt.
    Opaque,
}

/// A master key and its name.
#[derive(Debug)]
pub struct NamedKey {
    /// Of 1 to 255 bytes.
    pub name: String,
    /// 16 bytes.
    pub key: MasterKey,
}

/// A rule for columns to protect.
#[derive(Debug, Clone)]
struct ColumnRule {
    /// Database, table and column.
    patterns: [Pattern; 3],
    algorithm: Algorithm,
}

/// The names of database, table and column, as the server spells them.
pub type Names = [String; 3];

/// A column of a base table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnFacts {
    /// Where it is.
    pub names: Names,
    /// The server numbers new rows by it: AUTO_INCREMENT, or a sequence.
    pub gives_ids: bool,
}

/// A server's columns under some rules.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// Columns of base tables that no rule matches.
    plain: HashSet<Names>,
    /// Columns that a rule matches.
    pub protected: Vec<Names>,
    /// Views and whatever else is no base table, in lower case.
    pub views: HashSet<String>,
    /// A protected column is given its values by the server, which shows the last of them with each new row.
    pub hides_ids: bool,
}

impl Catalogue {
    /// Whether this is a column of a base table that no rule matches.
    pub fn knows_as_plain(&self, names: [&str; 3]) -> bool {
        self.plain.contains(&names.map(str::to_owned))
    }
}

impl Rules {
    /// # Errors
    /// `plan`, in one line that names the place.
    pub fn read(path: &Path) -> Result<Self> {
        let text = read_text(path, OTHERS).map_err(|why| refusal(path, why))?;
        let (mut rules, file) = Self::parse(&text).map_err(|fault| refusal(path, fault.words(&text)))?;
        if let Some(name) = file {
            let path = path.parent().unwrap_or(Path::new("")).join(name);
            let text = read_text(&path, OTHERS_WRITE).map_err(|why| refusal(&path, why))?;
            let statements = parse_approvals(&text).map_err(|why| refusal(&path, why))?;
            let approved = Arc::make_mut(&mut rules.statements);
            approve(approved, statements).map_err(|fault| refusal(&path, fault.words(&text)))?;
        }
        Ok(rules)
    }

    /// The rules of a text that is right.
    #[cfg(test)]
    pub fn of(text: &str) -> Self {
        Self::parse(text).unwrap_or_else(|fault| panic!("{}", fault.why)).0
    }

    /// Read the rules; return the file of further statements, too.
    fn parse(text: &str) -> Understood<(Self, Option<PathBuf>)> {
        let mut file: RulesFile = parse(text)?;
        let keys = keys(std::mem::take(&mut file.master_keys))?;
        if let Some(first) = file.columns.first()
            && file.check.is_none()
        {
            let why = "rules for [[columns]] need [check]: an account that sees which tables and columns there are";
            return Err(Fault::new(first, why));
        }
        let mut accounts = HashMap::new();
        for account in &file.accounts {
            let Account { name, role, master_key } = account.get_ref();
            let role = role_of(role, master_key.as_deref(), &keys)
                .map_err(|why| Fault::new(account, format!("account '{name}': {why}")))?;
            if accounts.insert(name.clone().into_bytes(), role).is_some() {
                return Err(Fault::new(account, format!("account '{name}' is there twice")));
            }
        }
        let mut columns = Vec::new();
        for column in &file.columns {
            let Column { database, table, column: name, algorithm } = column.get_ref();
            if [database, table, name].iter().any(|pattern| pattern.is_empty()) {
                return Err(Fault::new(column, "database, table and column are names or patterns, '*' for any"));
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

    /// Whether any account is guarded.
    pub fn guard(&self) -> bool {
        !self.columns.is_empty()
    }

    /// The role of an account. Without protected columns all accounts get plaintext.
    pub fn role(&self, account: &[u8]) -> Role {
        match self.guard() {
            true => self.accounts.get(account).unwrap_or(&self.default_role).clone(),
            false => Role::Plaintext,
        }
    }

    /// How a column is encrypted, by the first rule that matches it; None for a column that is not protected.
    pub fn algorithm_of(&self, names: [&str; 3]) -> Option<Algorithm> {
        let [database, _, column] = names;
        if database.is_empty() || column.is_empty() {
            // Computed outputs have no names.
            return None;
        }
        self.columns.iter().find(|rule| rule.matches(names)).map(|rule| rule.algorithm)
    }

    /// What an operator should know.
    pub fn warnings(&self) -> Vec<String> {
        let is_mute = self.guard() && self.statements.count() == 0;
        is_mute.then(|| "no statement is approved, so guarded accounts can send none".to_owned()).into_iter().collect()
    }

    /// Take a server's columns, and its views without their databases. For a column of a view that has a base table's name as
    /// its alias, servers name that table's column as the origin; so outputs of statements that name a view are encrypted
    /// unless their approval says more.
    pub fn take_catalogue(&mut self, columns: &[ColumnFacts], views: &[String]) {
        let views = views.iter().map(|name| name.to_lowercase()).collect();
        let mut catalogue = Catalogue { views, ..Catalogue::default() };
        for ColumnFacts { names, gives_ids } in columns {
            if self.algorithm_of(names.each_ref().map(String::as_str)).is_some() {
                catalogue.protected.push(names.clone());
                catalogue.hides_ids |= gives_ids;
            } else {
                catalogue.plain.insert(names.clone());
            }
        }
        self.statements = self.statements.encrypting(&catalogue.views).into();
        self.catalogue = catalogue.into();
    }

    /// A column rule that matches no column of a base table, in words.
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

/// A name in which `*` stands for any characters. The case of ASCII letters does not matter.
#[derive(Debug, Clone)]
struct Pattern(String);

impl Pattern {
    /// Match without recursion and never in exponential time: only the last `*` is tried again.
    fn matches(&self, name: &[u8]) -> bool {
        let pattern = self.0.as_bytes();
        let (mut at, mut in_name) = (0, 0);
        let mut again: Option<(usize, usize)> = None;
        while in_name < name.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    again = Some((at + 1, in_name));
                    at += 1;
                }
                Some(byte) if byte.eq_ignore_ascii_case(&name[in_name]) => {
                    at += 1;
                    in_name += 1;
                }
                _ => match again {
                    Some((after, from)) => {
                        again = Some((after, from + 1));
                        (at, in_name) = (after, from + 1);
                    }
                    None => return false,
                },
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
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
    /// A path from the rules file's folder.
    statements_file: Option<PathBuf>,
}

/// A file of statements beside the rules.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StatementsFile {
    #[serde(default)]
    statements: Vec<Spanned<Approval>>,
}

/// What happens to clients that do not announce that they decrypt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownClients {
    /// Their login is refused.
    #[default]
    Refuse,
    /// They get ciphertext.
    Ciphertext,
}

/// The role of accounts that are not named. Without a key it cannot be `ciphertext`.
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

/// An account that sees which columns there are.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Its name at the server.
    pub username: String,
    /// Its password.
    pub password: Secret,
}

fn gcm() -> Algorithm {
    Algorithm::Aes128Gcm
}

/// A mistake and its place.
struct Fault {
    at: Option<usize>,
    why: String,
}

impl Fault {
    fn new<T>(place: &Spanned<T>, why: impl Into<String>) -> Self {
        Fault { at: Some(place.span().start), why: why.into() }
    }

    fn words(&self, text: &str) -> String {
        match self.at {
            Some(at) => format!("line {}: {}", 1 + text[..at.min(text.len())].matches('\n').count(), self.why),
            None => self.why.clone(),
        }
    }
}

type Understood<T> = std::result::Result<T, Fault>;

fn refusal(path: &Path, why: String) -> Failure {
    Failure::new(Class::Plan, format!("{}: {why}", path.display()))
}

/// Read a file that nobody but its owner has these permissions of. They are those of the file that is read, not of whatever
/// has its name by then. It may hold keys, so it is erased with all that was read of it.
fn read_text(path: &Path, denied: u32) -> std::result::Result<Zeroizing<String>, String> {
    let mut file = File::open(path).map_err(|error| error.to_string())?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    let mode = metadata.permissions().mode();
    if mode & denied != 0 {
        let mode = mode & 0o777;
        return Err(format!("others than its owner may use it (mode {mode:03o}): chmod 600"));
    }
    // Allocate the whole size at once: a growing string leaves copies behind.
    let size = usize::try_from(metadata.len()).unwrap_or_default();
    let mut text = Zeroizing::new(String::with_capacity(size + 1));
    file.read_to_string(&mut text).map_err(|error| error.to_string())?;
    Ok(text)
}

/// Parse TOML. By way of the table, so that errors about its meaning do not copy the text, which may hold keys.
fn parse<'t, F: Deserialize<'t>>(text: &'t str) -> Understood<F> {
    let table = DeTable::parse(text).map(Deserializer::from);
    table
        .and_then(F::deserialize)
        .map_err(|error| Fault { at: error.span().map(|span| span.start), why: without_secrets(error.message()) })
}

/// The statements of a file that has nothing else.
///
/// # Errors
/// What is wrong, with its line.
pub fn parse_approvals(text: &str) -> std::result::Result<Vec<Spanned<Approval>>, String> {
    parse::<StatementsFile>(text).map(|file| file.statements).map_err(|fault| fault.words(text))
}

fn approve(approved: &mut Statements, statements: Vec<Spanned<Approval>>) -> Understood<()> {
    for statement in statements {
        let fault = |why| Fault::new(&statement, format!("[[statements]]: {why}"));
        approved.add(statement.get_ref()).map_err(fault)?;
    }
    Ok(())
}

fn keys(written: BTreeMap<String, Spanned<Secret>>) -> Understood<BTreeMap<String, Arc<NamedKey>>> {
    let key = |(name, digits): (String, Spanned<Secret>)| {
        if name.is_empty() || name.len() > LONGEST_KEY_NAME {
            return Err(Fault::new(&digits, format!("a master key's name has 1 to {LONGEST_KEY_NAME} bytes")));
        }
        let key = MasterKey::from_hex(digits.get_ref().reveal()).map_err(|_| {
            Fault::new(&digits, format!("master key '{name}' is not 16 bytes in hexadecimal (32 digits)"))
        })?;
        Ok((name.clone(), Arc::new(NamedKey { name, key })))
    };
    written.into_iter().map(key).collect()
}

fn role_of(
    role: &RoleName,
    master_key: Option<&str>,
    keys: &BTreeMap<String, Arc<NamedKey>>,
) -> std::result::Result<Role, String> {
    match (role, master_key) {
        (RoleName::Plaintext, None) => Ok(Role::Plaintext),
        (RoleName::Opaque, None) => Ok(Role::Opaque),
        (RoleName::Ciphertext, Some(name)) => match keys.get(name) {
            Some(key) => Ok(Role::Ciphertext(key.clone())),
            None => Err(format!("there is no master key '{name}' under [master_keys]")),
        },
        (RoleName::Ciphertext, None) => {
            Err("role \"ciphertext\" needs a master_key, by its name under [master_keys]".into())
        }
        (RoleName::Plaintext | RoleName::Opaque, Some(_)) => Err("only role \"ciphertext\" has a master_key".into()),
    }
}

/// Return a message of the parser without values, which could be a key or a password at the wrong place.
fn without_secrets(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let known = ["unknown field", "unknown variant", "missing field", "duplicate field", "duplicate key"];
    let names = known.iter().any(|start| line.starts_with(start)) && !holds_a_key(line);
    match line.split_once(", expected ") {
        _ if names => line.into(),
        Some((_, expected)) if !holds_a_key(expected) => format!("expected {expected}"),
        _ if line.contains(['"', '`', '\'']) || holds_a_key(line) => "this is not TOML as the rules have it".into(),
        _ => line.into(),
    }
}

fn holds_a_key(text: &str) -> bool {
    let mut digits = 0;
    text.bytes().any(|byte| {
        digits = if byte.is_ascii_hexdigit() { digits + 1 } else { 0 };
        digits >= LIKE_A_KEY
    })
}

#[cfg(test)]
mod tests;
