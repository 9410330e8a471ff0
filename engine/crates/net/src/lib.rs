//! A single-threaded runtime for sockets, connections over TCP and TLS, and servers.
//!
//! [`runtime`] waits for sockets, [`transport`] connects with the [`settings`] of an arm, and [`serve`] accepts
//! connections for the servers among the engine's programs.

pub mod runtime;
pub mod serve;
pub mod settings;
pub mod transport;
