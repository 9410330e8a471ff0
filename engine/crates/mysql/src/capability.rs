//! Capability flags (MySQL Internals, "Capability Flags"): those of which one of the two ends here makes something.

/// `CLIENT_LONG_PASSWORD`.
pub const LONG_PASSWORD: u32 = 1;
/// `CLIENT_FOUND_ROWS`: an update counts the rows that it found, also those that were so already.
pub const FOUND_ROWS: u32 = 1 << 1;
/// `CLIENT_LONG_FLAG`.
pub const LONG_FLAG: u32 = 1 << 2;
/// `CLIENT_CONNECT_WITH_DB`.
pub const CONNECT_WITH_DB: u32 = 1 << 3;
/// `CLIENT_COMPRESS`.
pub const COMPRESS: u32 = 1 << 5;
/// `CLIENT_LOCAL_FILES`.
pub const LOCAL_FILES: u32 = 1 << 7;
/// `CLIENT_PROTOCOL_41`.
pub const PROTOCOL_41: u32 = 1 << 9;
/// `CLIENT_SSL`.
pub const TLS: u32 = 1 << 11;
/// `CLIENT_TRANSACTIONS`.
pub const TRANSACTIONS: u32 = 1 << 13;
/// `CLIENT_SECURE_CONNECTION`.
pub const SECURE_CONNECTION: u32 = 1 << 15;
/// `CLIENT_PLUGIN_AUTH`.
pub const PLUGIN_AUTH: u32 = 1 << 19;
/// `CLIENT_CONNECT_ATTRS`.
pub const CONNECT_ATTRIBUTES: u32 = 1 << 20;
/// `CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA`.
pub const PROOF_OF_ANY_LENGTH: u32 = 1 << 21;
/// `CLIENT_SESSION_TRACK`.
pub const SESSION_TRACK: u32 = 1 << 23;
/// `CLIENT_DEPRECATE_EOF`: lists end without an EOF of their own.
pub const DEPRECATE_EOF: u32 = 1 << 24;
/// `CLIENT_OPTIONAL_RESULTSET_METADATA`.
pub const OPTIONAL_RESULTSET_METADATA: u32 = 1 << 25;
/// `CLIENT_ZSTD_COMPRESSION_ALGORITHM`.
pub const ZSTD: u32 = 1 << 26;
/// `CLIENT_QUERY_ATTRIBUTES`.
pub const QUERY_ATTRIBUTES: u32 = 1 << 27;
/// `CLIENT_MULTI_FACTOR_AUTHENTICATION`.
pub const MULTI_FACTOR_AUTHENTICATION: u32 = 1 << 28;
/// Progress to MariaDB, `CAPABILITY_EXTENSION` to MySQL.
pub const PROGRESS_OR_EXTENSION: u32 = 1 << 29;
/// What no server and no client of the last twenty years goes without.
pub const NEEDED: u32 = PROTOCOL_41 | SECURE_CONNECTION;
