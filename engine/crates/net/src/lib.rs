//! The network layer of the engine: a single-threaded runtime, connections over TCP and TLS, and servers.
//!
//! [`runtime`] waits for sockets, [`transport`] opens connections with the [`settings`] of an arm (one variant of the
//! experiment), and [`serve`] accepts connections in the engine's programs that are servers.

pub mod runtime;
pub mod serve;
pub mod settings;
pub mod transport;
