//! Errors, clocks, random numbers, secrets, and this process with its lines in and out.
//!
//! Every other part of the engine stands on it, and it stands on none of them.

pub mod clock;
pub mod error;
pub mod lines;
pub mod process;
mod random;
mod secret;

pub use random::Random;
pub use secret::Secret;
