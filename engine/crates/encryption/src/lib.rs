//! Encryption of columns: sealing for the gateway, opening for the client.
//!
//! The format is described in docs/column-encryption-protocol.md, "What is sent". A column's definition carries an
//! [`Envelope`]. Its values are sealed by a [`Sealer`] and opened by an [`Opener`]. The keys of both are derived from
//! the session's [`DataKey`], which the envelope contains wrapped by the reader's [`MasterKey`], and from the
//! [`SessionSalt`], to which both ends of the session contribute.
//!
//! No error contains a byte of a key or of a value, and values cause no allocations.

mod algorithm;
mod envelope;
mod keys;
mod locked;
mod values;

pub use algorithm::Algorithm;
pub use envelope::{Demand, Envelope, WrappedKey, associated_data, encrypted};
pub use keys::{ClientNonce, DECRYPTS_ATTRIBUTE, DataKey, MasterKey, NONCE_ATTRIBUTE, SessionSalt, WRAPPED_KEY};
pub use locked::lock_keys;
pub use values::{MOST_VALUES, Opener, Sealer};
