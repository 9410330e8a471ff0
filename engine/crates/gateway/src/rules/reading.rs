//! From a file to rules: everything that could be meant wrong is refused, with its place and without its secrets.

use super::file::{Account, Column, DefaultRole, File, RoleName};
use super::{ColumnRule, NamedKey, Pattern, Predicates, Role, Rules};
use base::Secret;
use base::error::{Class, Failure, Result};
use encryption::{Algorithm, MasterKey};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::fs::File as OpenFile;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, Deserializer};
use zeroize::Zeroizing;

/// A key's name is told behind each column's definition, with its length in a byte.
const LONGEST_KEY_NAME: usize = 255;
/// Permissions of anybody but the owner.
const OTHERS: u32 = 0o077;
/// So many digits in a row may be a key.
const LIKE_A_KEY: usize = 16;

type Keys = BTreeMap<String, Arc<NamedKey>>;

pub fn read(path: &Path) -> Result<Rules> {
    let refuse = |why: String| Failure::new(Class::Plan, format!("{}: {why}", path.display()));
    let text = text(path).map_err(refuse)?;
    understand(&text).map_err(|Fault { at, why }| match at {
        Some(at) => refuse(format!("line {}: {why}", 1 + text[..at.min(text.len())].matches('\n').count())),
        None => refuse(why),
    })
}

#[cfg(test)]
impl Rules {
    /// Of a text that is right.
    pub fn of(text: &str) -> Self {
        understand(text).unwrap_or_else(|fault| panic!("{}", fault.why))
    }
}

/// What is wrong, and where it begins.
struct Fault {
    at: Option<usize>,
    why: String,
}

impl Fault {
    fn new(at: Range<usize>, why: String) -> Self {
        Fault { at: Some(at.start), why }
    }
}

type Understood<T> = std::result::Result<T, Fault>;

/// Permissions are those of the file that is read, not of whatever has its name by then.
/// It holds keys, so it is erased with all that was read of it.
fn text(path: &Path) -> std::result::Result<Zeroizing<String>, String> {
    let mut file = OpenFile::open(path).map_err(|error| error.to_string())?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    let mode = metadata.permissions().mode();
    if mode & OTHERS != 0 {
        let mode = mode & 0o777;
        return Err(format!("others than its owner may use it (mode {mode:03o}), and it holds keys: chmod 600"));
    }
    // Whole from the start: what grows leaves copies behind.
    let size = usize::try_from(metadata.len()).unwrap_or_default();
    let mut text = Zeroizing::new(String::with_capacity(size + 1));
    file.read_to_string(&mut text).map_err(|error| error.to_string())?;
    Ok(text)
}

fn understand(text: &str) -> Understood<Rules> {
    // By way of the table, so that no error of what it means copies the text; one of TOML's form does.
    let table = DeTable::parse(text).map(Deserializer::from);
    let file: File = table
        .and_then(File::deserialize)
        .map_err(|error| Fault { at: error.span().map(|span| span.start), why: without_secrets(error.message()) })?;
    let keys = keys(file.master_keys)?;
    let (algorithm, predicates) = (file.algorithm, file.predicates);
    if let Some(first) = file.columns.first()
        && file.check.is_none()
    {
        let why = "rules for [[columns]] need [check]: an account that sees which tables, views and keys there are";
        return Err(Fault::new(first.span(), why.into()));
    }
    Ok(Rules {
        number: 0,
        algorithm,
        expressions: file.expressions,
        unknown_clients: file.unknown_clients,
        check: file.check,
        catalogue: Arc::default(),
        accounts: accounts(file.accounts, &keys)?,
        default_role: match file.default_role {
            DefaultRole::Opaque => Role::Opaque,
            DefaultRole::Plaintext => Role::Plaintext,
        },
        columns: file
            .columns
            .into_iter()
            .map(|column| rule(column, algorithm, predicates))
            .collect::<Understood<_>>()?,
    })
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

fn rule(
    written: Spanned<Column>,
    of_the_file: Algorithm,
    predicates_of_the_file: Predicates,
) -> Understood<ColumnRule> {
    let at = written.span();
    let Column { database, table, column, algorithm, predicates } = written.into_inner();
    let empty = || Fault::new(at.clone(), "database, table and column are names or patterns, '*' for any".into());
    Ok(ColumnRule {
        database: Pattern::new(&database).ok_or_else(empty)?,
        table: Pattern::new(&table).ok_or_else(empty)?,
        column: Pattern::new(&column).ok_or_else(empty)?,
        algorithm: algorithm.unwrap_or(of_the_file),
        predicates: predicates.unwrap_or(predicates_of_the_file),
    })
}

/// The reader's own words, of which a value at the wrong place may be a part: it could be a key or a password.
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
