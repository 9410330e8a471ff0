//! Errors, clocks, random numbers, secrets, JSON lines over standard streams, and settings of this process.
//!
//! All other crates depend on it, and it depends on none of them.

pub mod clock;
pub mod error;
pub mod lines;
pub mod process;
mod random;
mod secret;

pub use random::Random;
pub use secret::Secret;
