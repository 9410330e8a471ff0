//! Asks a server, by the account that `[check]` names, which columns its base tables have, and compares the rules with them.

use super::rules::{ColumnFacts, Rules};
use base::error::{Class, Failure, Result};
use base::{Secret, clock};
use net::runtime::{Executor, Runtime};
use net::transport::{Address, Transport};
use std::cell::RefCell;
use std::rc::Rc;
use wire::mysql::catalogue::{Inquiry, Row};

/// In nanoseconds; a server with thousands of tables takes some of it.
const TIMEOUT_NS: u64 = 120_000_000_000;

/// By bytes: the collation of these tables takes names for equal that differ in case. A server's own tables count as unknown.
const COLUMNS: &str = "SELECT c.table_schema, c.table_name, c.column_name, \
    IF(c.extra LIKE '%auto_increment%' OR c.column_default LIKE '%nextval(%', '1', '0') \
    FROM information_schema.columns c JOIN information_schema.tables t \
    ON BINARY t.table_schema = BINARY c.table_schema AND BINARY t.table_name = BINARY c.table_name \
    WHERE t.table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') \
    AND c.table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')";
const VIEWS: &str = "SELECT DISTINCT table_name FROM information_schema.tables \
    WHERE table_type NOT IN ('BASE TABLE', 'SYSTEM VERSIONED') AND table_schema <> 'information_schema'";

/// A server's columns and views.
type Facts = (Vec<ColumnFacts>, Vec<String>);

/// Ask the server for its columns, and compare the rules with them. Without protected columns nothing is done.
///
/// # Errors
/// `plan`, for a rule that matches no column, or where the server cannot be asked.
pub fn check(rules: &mut Rules, server: &Address, transport: &Transport) -> Result<()> {
    if !rules.guard() {
        return Ok(());
    }
    let refuse = |why: String| Failure::new(Class::Plan, why);
    let Some(account) = &rules.check else { return Err(refuse("there are rules for columns and no [check]".into())) };
    let columns = ask(server.clone(), transport.clone(), account.username.clone(), account.password.clone());
    let (columns, views) =
        columns.map_err(|failure| refuse(format!("[check]: cannot ask {server}: {}", failure.detail)))?;
    if let Some(unmatched) = rules.unmatched_rule(&columns) {
        return Err(refuse(unmatched));
    }
    rules.take_catalogue(&columns, &views);
    Ok(())
}

/// On a runtime of its own: it is asked before the listeners begin, or beside them.
fn ask(server: Address, transport: Transport, username: String, password: Secret) -> Result<Facts> {
    let mut executor = Executor::new(Runtime::Epoll)?;
    let reactor = executor.reactor().clone();
    let outcome = Rc::new(RefCell::new(Err(Failure::closed())));
    let place = outcome.clone();
    executor.spawn(async move {
        reactor.set_deadline(clock::now() + TIMEOUT_NS);
        let answer = match Inquiry::begin(&reactor, &server, &transport, &username, &password).await {
            Ok(inquiry) => facts(inquiry).await,
            Err(failure) => Err(failure),
        };
        *place.borrow_mut() = answer;
    });
    executor.run_to_end()?;
    outcome.replace(Err(Failure::closed()))
}

async fn facts(mut inquiry: Inquiry) -> Result<Facts> {
    let columns = inquiry.ask(COLUMNS).await?.into_iter().map(column).collect::<Result<_>>()?;
    let views = inquiry.ask(VIEWS).await?.into_iter().flatten().collect();
    inquiry.end();
    Ok((columns, views))
}

fn column(row: Row) -> Result<ColumnFacts> {
    let odd = |_| Failure::protocol("a row of the server's own tables has other columns than were asked for");
    let [database, table, column, gives_ids] = <[String; 4]>::try_from(row).map_err(odd)?;
    Ok(ColumnFacts { names: [database, table, column], gives_ids: gives_ids == "1" })
}
