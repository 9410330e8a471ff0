//! A session's data key, and the encryption with it.

use crate::rules::{NamedKey, Role};
use base::error::{Class, Failure, Result};
use encryption::{Algorithm, DataKey, Envelope, Sealer, SessionSalt, WRAPPED_KEY, WrappedKey};
use mysql::OriginalType;
use std::sync::Arc;

/// If fewer values are left under a key, the session takes another one: no result set has as many.
const TIME_FOR_ANOTHER: u64 = 1 << 31;

/// The keys of one session.
#[derive(Debug)]
pub struct Sealing {
    key: DataKey,
    /// The wrapped key for the client; None without a master key.
    wrapped: Option<(Arc<NamedKey>, [u8; WRAPPED_KEY])>,
    /// The salt of a client that reads envelopes; other clients get none, since not all skip what they do not know.
    salt: Option<SessionSalt>,
    /// Indexed by the algorithms' numbers, which begin with 1.
    sealers: [Option<Sealer>; Algorithm::ALL.len() + 1],
}

impl Sealing {
    /// Create it with the session's first data key.
    ///
    /// # Errors
    /// `internal`, where the system has no random bytes.
    pub fn new(role: &Role, salt: Option<SessionSalt>) -> Result<Self> {
        Self::with_key(role, salt, 0)
    }

    /// Create it with the session's next data key.
    ///
    /// # Errors
    /// As `new`; where it had 2^32.
    pub fn renewed(&self, role: &Role) -> Result<Self> {
        let next = self.key.number().checked_add(1);
        let next = next.ok_or_else(|| Failure::new(Class::Internal, "a session has had 2^32 data keys"))?;
        Self::with_key(role, self.salt, next)
    }

    fn with_key(role: &Role, salt: Option<SessionSalt>, number: u32) -> Result<Self> {
        let key = DataKey::random(salt.unwrap_or(SessionSalt::OF_NOBODY), number)?;
        let wrapped = match role {
            Role::Ciphertext(master) => Some((master.clone(), key.wrapped(&master.key))),
            Role::Plaintext | Role::Opaque => None,
        };
        Ok(Sealing { key, wrapped, salt, sealers: Default::default() })
    }

    /// Prepare for encryption with this algorithm.
    ///
    /// # Errors
    /// `internal`.
    pub fn prepare(&mut self, algorithm: Algorithm) -> Result<()> {
        let place = &mut self.sealers[usize::from(algorithm.number())];
        if place.is_none() {
            *place = Some(self.key.sealer(algorithm)?);
        }
        Ok(())
    }

    /// Append the envelope of a definition, if the client reads envelopes.
    ///
    /// # Errors
    /// `encryption`.
    pub fn append_envelope(&self, algorithm: Algorithm, original: OriginalType, packet: &mut Vec<u8>) -> Result<()> {
        if self.salt.is_none() {
            return Ok(());
        }
        let wrapped = self.wrapped.as_ref();
        let number = self.key.number();
        let key = wrapped.map(|(master, data_key)| WrappedKey { master_key: &master.name, number, data_key });
        Envelope { algorithm, original, key }.append(packet)
    }

    /// Return whether the key is nearly used up.
    pub fn is_spent(&self) -> bool {
        self.sealers.iter().flatten().any(|sealer| sealer.left() < TIME_FOR_ANOTHER)
    }

    /// Append a value's ciphertext.
    ///
    /// # Errors
    /// `encryption`.
    pub fn seal(&mut self, algorithm: Algorithm, associated: &[u8], plaintext: &[u8], out: &mut Vec<u8>) -> Result<()> {
        match &mut self.sealers[usize::from(algorithm.number())] {
            Some(sealer) => sealer.seal(associated, plaintext, out),
            None => Err(Failure::new(Class::Internal, "a column before its algorithm was prepared")),
        }
    }
}
