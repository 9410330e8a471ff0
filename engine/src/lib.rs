//! The engine of `costof`: the programs through which measured traffic passes.
//!
//! Read it in this order: [`ipc`] defines the messages, [`drive`] measures slices with workers. A worker runs a
//! workload over a protocol ([`wire`]) and a transport ([`net`]), and writes its times into a [`record`].

pub mod calibrate;
pub mod drive;
pub mod ipc;
pub mod link;
pub mod origin;
pub mod relay;
