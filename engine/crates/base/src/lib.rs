//! What all crates of the engine need: errors, clocks, random numbers, secrets, JSON lines over standard input and
//! output, and settings of this process. It depends on no other crate of the engine.

pub mod clock;
pub mod error;
pub mod lines;
pub mod process;
mod random;
mod secret;

pub use random::Random;
pub use secret::Secret;
