//! MySQL's packets as bytes: nothing here reads or writes a socket.
//!
//! MySQL's wire protocol (4.1): how packets, integers, strings, columns, rows and the beginning of a connection are written and
//! read. The client that measures and the gateway both speak it.

pub mod bytes;
pub mod capability;
mod column;
pub mod command;
pub mod handshake;
pub mod packet;
pub mod row;

pub use column::{BinaryForm, Definition, OriginalType};
pub use row::RowFormat;
