//! A session's data key and what encrypts with it.

use crate::encryption::{Algorithm, DataKey, Sealer, WRAPPED_KEY, WrappedKey};
use crate::error::{Class, Failure, Result};
use crate::gateway::rules::{NamedKey, Role};
use std::sync::Arc;

/// Left of a key's values, it is time for another one: no result set has as many.
const TIME_FOR_ANOTHER: u64 = 1 << 31;

/// The keys of one session.
#[derive(Debug)]
pub struct Sealing {
    key: DataKey,
    /// As it is told; to nobody where there is no master key.
    wrapped: Option<(Arc<NamedKey>, [u8; WRAPPED_KEY])>,
    /// By the algorithms' numbers, which begin with 1.
    sealers: [Option<Sealer>; Algorithm::ALL.len() + 1],
}

impl Sealing {
    /// With a new data key.
    ///
    /// # Errors
    /// `internal`, where the system has no random bytes.
    pub fn new(role: &Role) -> Result<Self> {
        let key = DataKey::random()?;
        let wrapped = match role {
            Role::Ciphertext(master) => Some((master.clone(), key.wrapped(&master.key))),
            Role::Plaintext | Role::Opaque => None,
        };
        Ok(Sealing { key, wrapped, sealers: Default::default() })
    }

    /// Be ready to encrypt by this algorithm.
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

    /// What goes with a definition, for whoever can read it.
    pub fn wrapped_key(&self) -> Option<WrappedKey<'_>> {
        self.wrapped.as_ref().map(|(master, data_key)| WrappedKey { master_key: &master.name, data_key })
    }

    /// The key is nearly used up.
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
