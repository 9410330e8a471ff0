//! The numbers of commands, which are the first byte of a command packet (MySQL Internals, "Command Phase").

pub const QUIT: u8 = 0x01;
pub const INIT_DB: u8 = 0x02;
pub const QUERY: u8 = 0x03;
pub const FIELD_LIST: u8 = 0x04;
pub const STATISTICS: u8 = 0x09;
pub const PROCESS_INFO: u8 = 0x0A;
pub const PROCESS_KILL: u8 = 0x0C;
pub const DEBUG: u8 = 0x0D;
pub const PING: u8 = 0x0E;
pub const CHANGE_USER: u8 = 0x11;
pub const STMT_PREPARE: u8 = 0x16;
pub const STMT_EXECUTE: u8 = 0x17;
pub const STMT_SEND_LONG_DATA: u8 = 0x18;
pub const STMT_CLOSE: u8 = 0x19;
pub const STMT_RESET: u8 = 0x1A;
pub const SET_OPTION: u8 = 0x1B;
pub const STMT_FETCH: u8 = 0x1C;
pub const RESET_CONNECTION: u8 = 0x1F;
