//! What a server says of its tables, to the account that `[check]` names: rules are held against it, and statements read by it.

use super::rules::{Catalogue, ColumnFacts, Facts, Rules};
use base::error::{Class, Failure, Result};
use base::{Secret, clock};
use net::runtime::{Executor, Runtime};
use net::transport::{Address, Transport};
use std::cell::RefCell;
use std::rc::Rc;
use wire::mysql::catalogue::{Inquiry, Row};

/// In nanoseconds; a server with thousands of tables takes some of it.
const TIMEOUT_NS: u64 = 120_000_000_000;

const SERVER: &str = "SELECT @@lower_case_table_names, VERSION()";
/// By bytes: to these tables' collation names are alike that differ in case, and are those of two tables where tables are told
/// apart by it. MySQL marks defaults that are expressions, and gives others unquoted; MariaDB quotes them.
const COLUMNS: &str = "SELECT c.table_schema, c.table_name, c.column_name, t.table_type, \
    CONCAT(c.data_type, IF(c.column_type LIKE '% zerofill', ' zerofill', '')), c.collation_name, \
    c.extra, c.generation_expression, \
    IF(VERSION() LIKE '%MariaDB%' OR c.extra LIKE '%DEFAULT_GENERATED%', c.column_default, NULL) \
    FROM information_schema.columns c JOIN information_schema.tables t \
    ON BINARY t.table_schema = BINARY c.table_schema AND BINARY t.table_name = BINARY c.table_name \
    ORDER BY c.table_schema, c.table_name, c.ordinal_position";
const VIEWS: &str = "SELECT table_schema, table_name, view_definition FROM information_schema.views";
const REFERENCES: &str = "SELECT table_schema, table_name, column_name, referenced_table_schema, referenced_table_name, \
    referenced_column_name FROM information_schema.key_column_usage WHERE referenced_table_name IS NOT NULL";
const CHECKS_OF_MARIADB: &str =
    "SELECT constraint_schema, table_name, check_clause FROM information_schema.check_constraints";
const CHECKS_OF_MYSQL: &str = "SELECT c.constraint_schema, t.table_name, c.check_clause \
    FROM information_schema.check_constraints c JOIN information_schema.table_constraints t \
    ON BINARY t.constraint_schema = BINARY c.constraint_schema AND t.constraint_name = c.constraint_name";
const PARTITIONS: &str = "SELECT DISTINCT table_schema, table_name, \
    CONCAT(COALESCE(partition_expression, ''), ',', COALESCE(subpartition_expression, '')) \
    FROM information_schema.partitions WHERE partition_name IS NOT NULL";
const INDEXES: &str = "SELECT table_schema, table_name, index_name, column_name FROM information_schema.statistics";
const TRIGGERS: &str = "SELECT DISTINCT event_object_schema, event_object_table FROM information_schema.triggers";

/// Learn what tables there are, and hold the rules against them. Where there is nothing to guard nothing is done.
///
/// # Errors
/// `plan`, for a rule that means no column, or where the server cannot be asked.
pub fn check(rules: &mut Rules, server: &Address, transport: &Transport) -> Result<()> {
    if !rules.guard() {
        return Ok(());
    }
    let refuse = |why: String| Failure::new(Class::Plan, why);
    let Some(account) = &rules.check else { return Err(refuse("there are rules for columns and no [check]".into())) };
    let facts = ask(server.clone(), transport.clone(), account.username.clone(), account.password.clone());
    let facts = facts.map_err(|failure| refuse(format!("[check]: cannot ask {server}: {}", failure.detail)))?;
    if let Some(unknown) = rules.unknown_column(&facts) {
        return Err(refuse(unknown));
    }
    rules.catalogue = Catalogue::new(&facts, rules).into();
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
        let told = match Inquiry::begin(&reactor, &server, &transport, &username, &password).await {
            Ok(inquiry) => facts(inquiry).await,
            Err(failure) => Err(failure),
        };
        *place.borrow_mut() = told;
    });
    executor.run_to_end()?;
    outcome.replace(Err(Failure::closed()))
}

async fn facts(mut inquiry: Inquiry) -> Result<Facts> {
    let server = inquiry.ask(SERVER).await?;
    let [names, version] =
        server.into_iter().next().and_then(|row| <[String; 2]>::try_from(row).ok()).ok_or_else(odd)?;
    let checks = match version.contains("MariaDB") {
        true => inquiry.ask(CHECKS_OF_MARIADB).await?,
        // MySQL 5.7 has no CHECK and no table of them.
        false => inquiry.ask(CHECKS_OF_MYSQL).await.or_else(none_where_unknown)?,
    };
    let mut ties = rows(checks)?;
    ties.extend(rows(inquiry.ask(PARTITIONS).await?)?);
    let facts = Facts {
        names_have_case: names == "0",
        columns: inquiry.ask(COLUMNS).await?.into_iter().map(column).collect::<Result<_>>()?,
        views: rows(inquiry.ask(VIEWS).await?)?,
        references: rows(inquiry.ask(REFERENCES).await?)?,
        ties,
        indexes: rows(inquiry.ask(INDEXES).await?)?,
        triggers: rows(inquiry.ask(TRIGGERS).await?)?,
    };
    inquiry.end();
    Ok(facts)
}

fn none_where_unknown(failure: Failure) -> Result<Vec<Row>> {
    /// ER_UNKNOWN_TABLE
    const UNKNOWN: &str = "1109";
    if failure.detail.contains(UNKNOWN) { Ok(Vec::new()) } else { Err(failure) }
}

fn rows<const COUNT: usize>(rows: Vec<Row>) -> Result<Vec<[String; COUNT]>> {
    rows.into_iter().map(|row| row.try_into().map_err(|_| odd())).collect()
}

fn column(row: Row) -> Result<ColumnFacts> {
    let [database, table, name, table_type, data_type, collation, extra, generation, default] =
        <[String; 9]>::try_from(row).map_err(|_| odd())?;
    Ok(ColumnFacts { names: [database, table, name], table_type, data_type, collation, extra, generation, default })
}

fn odd() -> Failure {
    Failure::protocol("a row of the server's own tables has other columns than were asked for")
}
