//! What every other part of the engine stands on, and that stands on none of them.

pub mod clock;
pub mod error;
pub mod lines;
pub mod process;
mod random;
mod secret;

pub use random::Random;
pub use secret::Secret;
