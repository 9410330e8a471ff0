//! MySQL's wire protocol (4.1) as bytes: how packets, integers, strings, columns and the beginning of a connection are
//! written and read. The client that measures ([`wire`](../wire/index.html)) and the gateway speak it; nothing here reads
//! or writes a socket.

pub mod bytes;
mod column;
pub mod packet;

pub use column::{BinaryForm, Definition, OriginalType, RowFormat};
