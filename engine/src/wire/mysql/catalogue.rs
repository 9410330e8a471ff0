//! What tables and columns a server has, as far as an account may see them.

use super::auth::Credentials;
use super::bytes::Reader;
use super::login;
use super::query::{COM_QUERY, COM_QUIT};
use super::result::Layout;
use crate::border::{MysqlService, Secret, Statements};
use crate::error::Result;
use crate::record::Trail;
use crate::runtime::Reactor;
use crate::transport::{Address, Transport};
use std::rc::Rc;

/// Names of database, table and column, and what kind of table it is.
pub type Column = [Vec<u8>; 4];

const SELECT: &[u8] =
    b"SELECT c.table_schema, c.table_name, c.column_name, t.table_type FROM information_schema.columns c \
    JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name";

/// All columns of all tables.
///
/// # Errors
/// Whatever keeps a connection from standing; the server's own.
pub async fn columns(
    reactor: &Rc<Reactor>,
    server: &Address,
    transport: &Transport,
    username: &str,
    password: &Secret,
) -> Result<Vec<Column>> {
    let user = Credentials::new(&MysqlService {
        addresses: Vec::new(),
        username: Some(username.into()),
        password: Some(password.clone()),
        database: "information_schema".into(),
        table: String::new(),
        statements: Statements::Text,
        decryption: None,
    })?;
    let login::LoggedIn { mut channel, without_eof, .. } =
        login::log_in(reactor, server, transport, &user, &mut Trail::default()).await?;
    channel.command(COM_QUERY).extend_from_slice(SELECT);
    channel.send().await?;
    let count = channel.receive_column_count().await?;
    channel.receive_columns(count, without_eof).await?;
    let mut columns = Vec::new();
    while let Some(row) = channel.receive_row(Layout { binary: false, without_eof }).await? {
        let mut reader = Reader::new(row);
        let mut text = || reader.text().map(<[u8]>::to_vec);
        columns.push([text()?, text()?, text()?, text()?]);
    }
    channel.close_with(COM_QUIT);
    Ok(columns)
}
