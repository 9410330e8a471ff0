//! The runtime and what goes over a socket on it: TCP, TLS, servers of our own.
//!
//! The thread that measures and the sockets it waits for are the [`runtime`]. The [`transport`] goes over TCP and TLS, by the
//! [`settings`] of an arm. [`serve`] turns it round, for servers of our own.

pub mod runtime;
pub mod serve;
pub mod settings;
pub mod transport;
