//! Queries about a server's tables and columns. The gateway that encrypts columns checks its configured rules against
//! the answers. The gateway logs in with an account that is used only for these queries.

use super::channel::Layout;
use super::login::{self, Credentials};
use crate::mysql::{Settings, Statements};
use base::Secret;
use base::error::{Class, Failure, Result};
use mysql::bytes::Reader;
use mysql::command;
use net::runtime::Reactor;
use net::transport::{Address, Transport};
use record::Timeline;
use std::rc::Rc;

/// The values of a row, in the order of the SELECT. NULL becomes an empty string.
pub type Row = Vec<String>;

/// The session's settings, with which every server parses these queries in the same way and returns all rows.
const SETTINGS: &str = "SET NAMES utf8mb4, @@session.sql_mode = '', @@session.sql_select_limit = 18446744073709551615";

/// A connection for queries about a server's tables and columns.
pub struct Inquiry {
    channel: super::channel::Channel,
    without_eof: bool,
}

impl Inquiry {
    pub async fn begin(
        reactor: &Rc<Reactor>,
        server: &Address,
        transport: &Transport,
        username: &str,
        password: &Secret,
    ) -> Result<Self> {
        let user = Credentials::new(&Settings {
            addresses: Vec::new(),
            username: Some(username.into()),
            password: Some(password.clone()),
            database: "information_schema".into(),
            table: String::new(),
            statements: Statements::Text,
            decryption: None,
        })?;
        let login::LoggedIn { mut channel, without_eof, .. } =
            login::log_in(reactor, server, transport, &user, &mut Timeline::default()).await?;
        channel.command(command::QUERY).extend_from_slice(SETTINGS.as_bytes());
        channel.send().await?;
        mysql::packet::not_an_error(channel.receive().await?)?;
        Ok(Inquiry { channel, without_eof })
    }

    pub async fn query(&mut self, select: &str) -> Result<Vec<Row>> {
        let (channel, without_eof) = (&mut self.channel, self.without_eof);
        channel.command(command::QUERY).extend_from_slice(select.as_bytes());
        channel.send().await?;
        let count = channel.receive_column_count().await?;
        channel.receive_columns(count, without_eof).await?;
        let mut rows = Vec::new();
        while let Some(row) = channel.receive_row(Layout { binary: false, without_eof }).await? {
            let mut reader = Reader::new(row);
            let mut value = || {
                let text = reader.text_or_null()?.unwrap_or_default().to_vec();
                String::from_utf8(text)
                    .map_err(|_| Failure::new(Class::Server, "the server returned a name that is not UTF-8"))
            };
            rows.push((0..count).map(|_| value()).collect::<Result<Row>>()?);
        }
        Ok(rows)
    }

    pub fn end(self) {
        self.channel.close_with(command::QUIT);
    }
}
