//! What the gateway makes of a guarded session before its client is heard: the character set in which statements are read,
//! an SQL mode under which they mean what the gateway takes them to mean, and nothing that an `init_connect`, a server's
//! own settings or a reset may have left behind.
//!
//! The commands go out together; their answers are eaten. The OK that the client waits for is kept until the last of
//! them says that the session is as it must be.

use super::answer::Kind;
use crate::messages::append_short;
use crate::session_statements::MODES;
use base::error::{Failure, Result};
use mysql::bytes::Reader;
use mysql::command::QUERY;
use mysql::packet::{HEADER, ServerError};
use std::sync::LazyLock;

/// ER_UNKNOWN_SYSTEM_VARIABLE
const UNKNOWN_VARIABLE: u16 = 1193;

/// Settings that are read back behind the SQL mode, and what each must be.
const READ_BACK: [(&str, &[u8]); 6] = [
    ("@@session.sql_auto_is_null", b"0"),
    ("@@session.lc_messages", b"en_US"),
    ("@@session.character_set_client", b"utf8mb4"),
    ("@@session.character_set_connection", b"utf8mb4"),
    ("@@session.character_set_results", b"utf8mb4"),
    ("@@session.collation_connection", b"utf8mb4_general_ci"),
];

/// What the server is sent: plain ASCII without double quotes, so that it is read alike under every SQL mode and
/// character set that a server takes from clients. The modes that stay are chosen by the server, which saves asking.
static COMMANDS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let kept = MODES.map(|mode| format!("IF(FIND_IN_SET('{mode}', @@session.sql_mode), '{mode}', NULL)")).join(", ");
    let set = format!(
        "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci, @@session.sql_mode = CONCAT_WS(',', {kept}), \
         @@session.sql_auto_is_null = 0, @@session.lc_messages = 'en_US'"
    );
    let names = READ_BACK.map(|(name, _)| name).join(", ");
    let read = format!("SELECT @@session.sql_mode, {names}, DATABASE()");
    let mut commands = Vec::new();
    for sql in [&set, "SET @@session.profiling = 0", &read] {
        append_query(sql, &mut commands);
    }
    commands
});

fn append_query(sql: &str, out: &mut Vec<u8>) {
    append_short(&[&[QUERY], sql.as_bytes()].concat(), 0, out);
}

/// The pinning of one session's settings.
#[derive(Debug)]
pub struct Pinning {
    /// The packet that the client waits for.
    held: Vec<u8>,
    awaited: Awaited,
    /// The row that the server has read back.
    row: Option<Vec<u8>>,
}

/// The command whose answer is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    Settings,
    /// Some servers are built without profiling.
    Profiling,
    ReadBack,
}

impl Pinning {
    /// Append the commands. `held` is sent to the client when pinning has ended.
    pub fn begin(held: Vec<u8>, to_server: &mut Vec<u8>) -> Self {
        to_server.extend_from_slice(&COMMANDS);
        Pinning { held, awaited: Awaited::Settings, row: None }
    }

    /// Return the sequence number of the packet that the client waits for.
    pub fn sequence(&self) -> u8 {
        self.held[HEADER - 1]
    }

    /// Process a packet of an answer.
    ///
    /// # Errors
    /// `protocol`: the server refuses the settings.
    pub fn take(&mut self, kind: Kind, payload: &[u8]) -> Result<()> {
        let is_expected = match (self.awaited, kind) {
            (Awaited::Settings | Awaited::Profiling, Kind::Ok) => true,
            (Awaited::Profiling, Kind::Error) => ServerError::parse(payload)?.code == UNKNOWN_VARIABLE,
            (Awaited::ReadBack, Kind::Row) => self.row.replace(payload.to_vec()).is_none(),
            (Awaited::ReadBack, Kind::Count | Kind::Definition(_) | Kind::Eof | Kind::EndOfRows) => true,
            _ => false,
        };
        if is_expected { Ok(()) } else { Err(unpinned("it refused them")) }
    }

    /// Continue with the next answer; return whether there is one.
    pub fn next(&mut self) -> bool {
        self.awaited = match self.awaited {
            Awaited::Settings => Awaited::Profiling,
            Awaited::Profiling => Awaited::ReadBack,
            Awaited::ReadBack => return false,
        };
        true
    }

    /// Return the packet that the client waits for, and the session's database.
    ///
    /// # Errors
    /// `protocol`, if a setting differs.
    pub fn end(&self) -> Result<(&[u8], Option<Vec<u8>>)> {
        let row = self.row.as_ref().ok_or_else(|| unpinned("it did not tell them"))?;
        let mut reader = Reader::new(row);
        let modes = reader.text()?;
        let mut is_pinned = modes.split(|byte| *byte == b',').all(is_harmless);
        for (_, expected) in READ_BACK {
            is_pinned &= reader.text()? == expected;
        }
        let database = reader.text_or_null()?.map(<[u8]>::to_vec);
        if is_pinned && reader.is_empty() { Ok((&self.held, database)) } else { Err(unpinned("they are others")) }
    }
}

fn is_harmless(mode: &[u8]) -> bool {
    mode.is_empty() || MODES.iter().any(|known| known.as_bytes() == mode)
}

fn unpinned(why: &str) -> Failure {
    Failure::protocol(format!("the server does not take the settings that guarded accounts need: {why}"))
}
