//! Rules against the server that they are for: `[check]` names an account that may read what tables there are.

use super::rules::{Catalogue, Entry, Rules};
use crate::border::Secret;
use crate::clock;
use crate::error::{Class, Failure, Result};
use crate::runtime::Executor;
use crate::transport::{Address, Transport};
use crate::wire::mysql::catalogue::{Column, columns};
use std::cell::RefCell;
use std::rc::Rc;

/// In nanoseconds; a server with thousands of tables takes some of it.
const PATIENCE: u64 = 30_000_000_000;
/// Of which a column's original names are the table's own.
const TABLES: [&[u8]; 3] = [b"BASE TABLE", b"SYSTEM VERSIONED", b"SEQUENCE"];

/// Why nothing was checked, for an operator to know.
pub const UNCHECKED: &str = "there is no [check] in the rules: whether they name columns that exist was not looked at, and views \
                             are taken for tables, so name their columns too";

/// Learn what tables there are, and hold the rules against them. Without `[check]` nothing is done.
///
/// # Errors
/// `plan`, for a rule that means no column, or where the server cannot be asked.
pub fn check(rules: &mut Rules, server: &Address, transport: &Transport) -> Result<()> {
    let Some(account) = &rules.check else { return Ok(()) };
    let columns = ask(server.clone(), transport.clone(), account.username.clone(), account.password.clone());
    let refuse = |why: String| Failure::new(Class::Plan, why);
    let columns = columns.map_err(|failure| refuse(format!("[check]: cannot ask {server}: {}", failure.detail)))?;
    let entries: Vec<_> = columns.into_iter().map(entry).collect();
    if let Some(unknown) = rules.unknown_column(&entries) {
        return Err(refuse(unknown));
    }
    rules.catalogue = Some(Catalogue::new(&entries));
    Ok(())
}

fn entry(column: Column) -> Entry {
    let [database, table, column, kind] = column;
    Entry { database, table, column, is_view: !TABLES.contains(&&kind[..]) }
}

/// On a runtime of its own: it is asked before the listeners begin, or beside them.
fn ask(server: Address, transport: Transport, username: String, password: Secret) -> Result<Vec<Column>> {
    let mut executor = Executor::new()?;
    let reactor = executor.reactor().clone();
    let outcome = Rc::new(RefCell::new(Err(Failure::closed())));
    let place = outcome.clone();
    executor.spawn(async move {
        reactor.set_deadline(clock::now() + PATIENCE);
        let told = columns(&reactor, &server, &transport, &username, &password).await;
        *place.borrow_mut() = told;
    });
    executor.run_to_end()?;
    outcome.replace(Err(Failure::closed()))
}
