//! The engine of `costof`: the programs through which measured traffic passes.
//!
//! Read module [`ipc`] first, which defines the messages of the measuring program, and then [`drive`], which is that
//! program. The workers of `drive` perform operations over a protocol ([`wire`]) and a transport ([`net`]), and record
//! how long each operation takes ([`record`]). The other modules are independent programs.

pub mod calibrate;
pub mod drive;
pub mod ipc;
pub mod link;
pub mod origin;
pub mod relay;
