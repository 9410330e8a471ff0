//! The thread that measures and the sockets it waits for: the [`runtime`], the [`transport`] over TCP and TLS, by the
//! [`settings`] of an arm, and, turned round, how a server of ours is served ([`serve`]).

pub mod runtime;
pub mod serve;
pub mod settings;
pub mod transport;
