//! The ciphertext of columns, for the gateway that seals and the client that opens.
//!
//! Its form is in docs/column-encryption-protocol.md, "What is sent". A column's definition carries an [`Envelope`]. Its values are sealed
//! by a [`Sealer`] and opened by an [`Opener`]. Keys of both follow from the session's [`DataKey`], which goes with the envelope,
//! wrapped by the reader's [`MasterKey`], and from the [`SessionSalt`] that both ends of the session have made.
//!
//! No error here holds a byte of a key or of a value, and nothing is allocated for a value.

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
