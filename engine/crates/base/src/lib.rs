//! Errors, clocks, random numbers, secrets, JSON lines over standard input and output, and process settings.
//!
//! All other crates of the engine depend on this crate. It depends on no other crate of the engine.

pub mod clock;
pub mod error;
pub mod lines;
pub mod process;
mod random;
mod secret;

pub use random::Random;
pub use secret::Secret;
