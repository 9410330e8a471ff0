//! Networking: a single-threaded [`runtime`], the client's [`transport`] over TCP and TLS with the [`settings`] of an
//! arm, and [`serve`] for the servers among the engine's programs.

pub mod runtime;
pub mod serve;
pub mod settings;
pub mod transport;
