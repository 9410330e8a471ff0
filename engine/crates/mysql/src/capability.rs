//! The capability flags that the client and the gateway use (MySQL Internals, "Capability Flags").

pub const LONG_PASSWORD: u32 = 1;
/// `CLIENT_FOUND_ROWS`: the row count of an update includes the matched rows that the update leaves unchanged.
pub const FOUND_ROWS: u32 = 1 << 1;
pub const LONG_FLAG: u32 = 1 << 2;
pub const CONNECT_WITH_DB: u32 = 1 << 3;
pub const COMPRESS: u32 = 1 << 5;
pub const LOCAL_FILES: u32 = 1 << 7;
pub const PROTOCOL_41: u32 = 1 << 9;
pub const TLS: u32 = 1 << 11;
pub const TRANSACTIONS: u32 = 1 << 13;
pub const SECURE_CONNECTION: u32 = 1 << 15;
pub const PLUGIN_AUTH: u32 = 1 << 19;
pub const CONNECT_ATTRIBUTES: u32 = 1 << 20;
pub const PROOF_OF_ANY_LENGTH: u32 = 1 << 21;
pub const SESSION_TRACK: u32 = 1 << 23;
/// `CLIENT_DEPRECATE_EOF`: no EOF packet follows column definitions, and an OK packet ends the rows of a result set.
pub const DEPRECATE_EOF: u32 = 1 << 24;
pub const OPTIONAL_RESULTSET_METADATA: u32 = 1 << 25;
pub const ZSTD: u32 = 1 << 26;
pub const QUERY_ATTRIBUTES: u32 = 1 << 27;
pub const MULTI_FACTOR_AUTHENTICATION: u32 = 1 << 28;
/// This bit means progress reports in MariaDB, and `CAPABILITY_EXTENSION` in MySQL.
pub const PROGRESS_OR_EXTENSION: u32 = 1 << 29;
/// The capabilities that a server or client must have. MySQL has them since version 4.1, and every MariaDB has them.
pub const NEEDED: u32 = PROTOCOL_41 | SECURE_CONNECTION;
