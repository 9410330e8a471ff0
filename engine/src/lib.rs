//! The measuring half of `costof`: everything on the path of a measured byte.
//!
//! Read it in this order: [`border`] is what goes in and out, [`drive`] answers slices with workers, a worker runs a
//! [`workload`] over a [`wire`] protocol over a [`transport`], on the [`runtime`], and writes into a [`record`].

// The traits of this crate are used on one thread each, by this crate alone: their futures need no `Send` bound.
#![allow(async_fn_in_trait)]
#![warn(missing_docs)]

pub mod border;
pub mod calibrate;
pub mod clock;
pub mod drive;
pub mod encryption;
pub mod error;
pub mod gateway;
pub mod link;
pub mod origin;
pub mod process;
pub mod record;
pub mod runtime;
pub mod serve;
pub mod transport;
pub mod wire;
pub mod workload;
