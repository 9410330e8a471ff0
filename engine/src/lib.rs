//! The measuring half of `costof`: everything on the path of a measured byte.
//!
//! Read it in this order: [`ipc`] is what goes in and out, [`drive`] answers slices with workers, a worker runs a workload
//! over a protocol ([`wire`]) over a transport ([`net`]), and writes into a [`record`].

pub mod calibrate;
pub mod drive;
pub mod ipc;
pub mod link;
pub mod origin;
