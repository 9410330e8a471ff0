//! The first bytes of commands (MySQL Internals, "Command Phase").

/// `COM_QUIT`.
pub const QUIT: u8 = 0x01;
/// `COM_INIT_DB`.
pub const INIT_DB: u8 = 0x02;
/// `COM_QUERY`.
pub const QUERY: u8 = 0x03;
/// `COM_FIELD_LIST`.
pub const FIELD_LIST: u8 = 0x04;
/// `COM_STATISTICS`.
pub const STATISTICS: u8 = 0x09;
/// `COM_PROCESS_INFO`.
pub const PROCESS_INFO: u8 = 0x0A;
/// `COM_PROCESS_KILL`.
pub const PROCESS_KILL: u8 = 0x0C;
/// `COM_DEBUG`.
pub const DEBUG: u8 = 0x0D;
/// `COM_PING`.
pub const PING: u8 = 0x0E;
/// `COM_CHANGE_USER`.
pub const CHANGE_USER: u8 = 0x11;
/// `COM_STMT_PREPARE`.
pub const STMT_PREPARE: u8 = 0x16;
/// `COM_STMT_EXECUTE`.
pub const STMT_EXECUTE: u8 = 0x17;
/// `COM_STMT_SEND_LONG_DATA`.
pub const STMT_SEND_LONG_DATA: u8 = 0x18;
/// `COM_STMT_CLOSE`.
pub const STMT_CLOSE: u8 = 0x19;
/// `COM_STMT_RESET`.
pub const STMT_RESET: u8 = 0x1A;
/// `COM_SET_OPTION`.
pub const SET_OPTION: u8 = 0x1B;
/// `COM_STMT_FETCH`.
pub const STMT_FETCH: u8 = 0x1C;
/// `COM_RESET_CONNECTION`.
pub const RESET_CONNECTION: u8 = 0x1F;
