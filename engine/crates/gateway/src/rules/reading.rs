//! Reads the rules file. Every mistake is refused, with its place and without secrets.

use super::file::{Account, Column, DefaultRole, File, RoleName, StatementsFile};
use super::{ColumnRule, NamedKey, Pattern, Role, Rules};
use crate::statements::{Approval, Statements};
use base::Secret;
use base::error::{Class, Failure, Result};
use encryption::{Algorithm, MasterKey};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::fs::File as OpenFile;
use std::io::Read;
use std::ops::Range;
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

type Keys = BTreeMap<String, Arc<NamedKey>>;

pub fn read(path: &Path) -> Result<Rules> {
    let text = text(path, OTHERS).map_err(|why| refusal(path, why))?;
    let (mut rules, statements, file) = understand(&text).map_err(|fault| fault.in_file(path, &text))?;
    let mut approved = Statements::default();
    approve(&mut approved, statements).map_err(|fault| fault.in_file(path, &text))?;
    if let Some(name) = file {
        let path = path.parent().unwrap_or(Path::new("")).join(name);
        let text = self::text(&path, OTHERS_WRITE).map_err(|why| refusal(&path, why))?;
        let statements = parse_approvals(&text).map_err(|why| refusal(&path, why))?;
        approve(&mut approved, statements).map_err(|fault| fault.in_file(&path, &text))?;
    }
    rules.statements = approved.into();
    Ok(rules)
}

fn refusal(path: &Path, why: String) -> Failure {
    Failure::new(Class::Plan, format!("{}: {why}", path.display()))
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
        let at = statement.span();
        approved.add(statement.get_ref()).map_err(|why| Fault::new(at, format!("[[statements]]: {why}")))?;
    }
    Ok(())
}

#[cfg(test)]
impl Rules {
    /// The rules of a text that is right.
    pub fn of(text: &str) -> Self {
        let done = understand(text).and_then(|(mut rules, statements, _)| {
            let mut approved = Statements::default();
            approve(&mut approved, statements)?;
            rules.statements = approved.into();
            Ok(rules)
        });
        done.unwrap_or_else(|fault| panic!("{}", fault.why))
    }
}

/// A mistake and its place.
struct Fault {
    at: Option<usize>,
    why: String,
}

impl Fault {
    fn new(at: Range<usize>, why: String) -> Self {
        Fault { at: Some(at.start), why }
    }

    fn words(&self, text: &str) -> String {
        match self.at {
            Some(at) => format!("line {}: {}", 1 + text[..at.min(text.len())].matches('\n').count(), self.why),
            None => self.why.clone(),
        }
    }

    fn in_file(&self, path: &Path, text: &str) -> Failure {
        refusal(path, self.words(text))
    }
}

type Understood<T> = std::result::Result<T, Fault>;

/// Read a file that nobody but its owner has these permissions of. They are those of the file that is read, not of whatever
/// has its name by then. It may hold keys, so it is erased with all that was read of it.
fn text(path: &Path, denied: u32) -> std::result::Result<Zeroizing<String>, String> {
    let mut file = OpenFile::open(path).map_err(|error| error.to_string())?;
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

/// The rules, their statements, and the file of further statements.
type Parts = (Rules, Vec<Spanned<Approval>>, Option<PathBuf>);

fn understand(text: &str) -> Understood<Parts> {
    let file: File = parse(text)?;
    let keys = keys(file.master_keys)?;
    let algorithm = file.algorithm;
    if let Some(first) = file.columns.first()
        && file.check.is_none()
    {
        let why = "rules for [[columns]] need [check]: an account that sees which tables and columns there are";
        return Err(Fault::new(first.span(), why.into()));
    }
    let rules = Rules {
        number: 0,
        algorithm,
        unknown_clients: file.unknown_clients,
        check: file.check,
        catalogue: Arc::default(),
        statements: Arc::default(),
        accounts: accounts(file.accounts, &keys)?,
        default_role: match file.default_role {
            DefaultRole::Opaque => Role::Opaque,
            DefaultRole::Plaintext => Role::Plaintext,
        },
        columns: file.columns.into_iter().map(|column| rule(column, algorithm)).collect::<Understood<_>>()?,
    };
    Ok((rules, file.statements, file.statements_file))
}

fn keys(written: BTreeMap<String, Spanned<Secret>>) -> Understood<Keys> {
    let key = |(name, digits): (String, Spanned<Secret>)| {
        let at = digits.span();
        if name.is_empty() || name.len() > LONGEST_KEY_NAME {
            return Err(Fault::new(at, format!("a master key's name has 1 to {LONGEST_KEY_NAME} bytes")));
        }
        let key = MasterKey::from_hex(digits.into_inner().reveal())
            .map_err(|_| Fault::new(at, format!("master key '{name}' is not 16 bytes in hexadecimal (32 digits)")))?;
        Ok((name.clone(), Arc::new(NamedKey { name, key })))
    };
    written.into_iter().map(key).collect()
}

fn accounts(written: Vec<Spanned<Account>>, keys: &Keys) -> Understood<HashMap<Vec<u8>, Role>> {
    let mut accounts = HashMap::new();
    for account in written {
        let at = account.span();
        let Account { name, role, master_key } = account.into_inner();
        let role = role_of(&name, role, master_key, keys).map_err(|why| Fault::new(at.clone(), why))?;
        if accounts.insert(name.clone().into_bytes(), role).is_some() {
            return Err(Fault::new(at, format!("account '{name}' is there twice")));
        }
    }
    Ok(accounts)
}

fn role_of(
    account: &str,
    role: RoleName,
    master_key: Option<String>,
    keys: &Keys,
) -> std::result::Result<Role, String> {
    match (role, master_key) {
        (RoleName::Plaintext, None) => Ok(Role::Plaintext),
        (RoleName::Opaque, None) => Ok(Role::Opaque),
        (RoleName::Ciphertext, Some(name)) => match keys.get(&name) {
            Some(key) => Ok(Role::Ciphertext(key.clone())),
            None => Err(format!("account '{account}': there is no master key '{name}' under [master_keys]")),
        },
        (RoleName::Ciphertext, None) => {
            Err(format!("account '{account}': role \"ciphertext\" needs a master_key, by its name under [master_keys]"))
        }
        (RoleName::Plaintext | RoleName::Opaque, Some(_)) => {
            Err(format!("account '{account}': only role \"ciphertext\" has a master_key"))
        }
    }
}

fn rule(written: Spanned<Column>, of_the_file: Algorithm) -> Understood<ColumnRule> {
    let at = written.span();
    let Column { database, table, column, algorithm } = written.into_inner();
    let empty = || Fault::new(at.clone(), "database, table and column are names or patterns, '*' for any".into());
    Ok(ColumnRule {
        database: Pattern::new(&database).ok_or_else(empty)?,
        table: Pattern::new(&table).ok_or_else(empty)?,
        column: Pattern::new(&column).ok_or_else(empty)?,
        algorithm: algorithm.unwrap_or(of_the_file),
    })
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
