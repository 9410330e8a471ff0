//! MySQL's wire protocol (4.1) as bytes: packets, integers, strings, columns, rows, and the connection phase.
//!
//! The gateway and the engine's own MySQL client, which measures, both use this crate. It uses no sockets.

pub mod bytes;
pub mod capability;
mod column;
pub mod command;
pub mod handshake;
pub mod packet;
pub mod row;

pub use column::{BinaryForm, Definition, OriginalType};
pub use row::RowFormat;
