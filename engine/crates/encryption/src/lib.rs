//! Encryption of MySQL result columns: a gateway encrypts values ("sealing"), and the client decrypts them ("opening").
//!
//! The format is described in docs/column-encryption-protocol.md, "What is sent". An encrypted column's definition ends
//! with an [`Envelope`]. A [`Sealer`] encrypts the column's values, and an [`Opener`] decrypts them. Both use keys
//! derived from the session's [`DataKey`] and [`SessionSalt`]. The envelope contains the data key, wrapped with the
//! client's [`MasterKey`]. Client and server each contribute a part of the salt.
//!
//! No error contains a byte of a key or a value. Once buffers have grown, encryption and decryption allocate no memory.

mod algorithm;
mod envelope;
mod keys;
mod locked;
mod values;

pub use algorithm::Algorithm;
pub use envelope::{Demand, Envelope, LONGEST_NAME, WrappedKey, associated_data, encrypted};
pub use keys::{ClientNonce, DECRYPTS_ATTRIBUTE, DataKey, MasterKey, NONCE_ATTRIBUTE, SessionSalt, WRAPPED_KEY};
pub use locked::lock_keys;
pub use values::{MOST_VALUES, Opener, Sealer};
