//! A connection that stands between operations and is opened again, unmeasured, when it broke.

use crate::client::{Client, Session, Target};
use base::error::{Class, Result};
use record::{Evidence, Trail};

/// One worker's standing session.
pub struct Standing<C: Client> {
    client: C,
    target: Target,
    session: Option<C::Session>,
}

impl<C: Client> Standing<C> {
    /// Nothing is opened yet.
    pub fn new(client: C, target: Target) -> Self {
        Standing { client, target, session: None }
    }

    /// See that it stands, and note what it is.
    ///
    /// # Errors
    /// Those of opening a session.
    pub async fn prepare(&mut self, evidence: &mut Evidence) -> Result<()> {
        match &self.session {
            Some(session) => evidence.used(session.connection()),
            None => {
                let mut session = self.client.open(self.target, &mut Trail::default()).await?;
                evidence.opened(session.connection());
                match session.prepare().await {
                    Ok(()) => self.session = Some(session),
                    Err(failure) => {
                        session.close();
                        return Err(failure);
                    }
                }
            }
        }
        Ok(())
    }

    /// Take the session for one operation; [`Standing::settle`] gets it back. So an operation that is abandoned half-way
    /// can never leave its answer to the next one.
    ///
    /// # Errors
    /// Those of opening a session.
    pub async fn take(&mut self, evidence: &mut Evidence) -> Result<C::Session> {
        if self.session.is_none() {
            self.prepare(evidence).await?;
        }
        Ok(self.session.take().expect("it was just prepared"))
    }

    /// The operation has ended, well or not. The session is kept, unless it is not known what comes next on it: an error
    /// that the server answered is an answer.
    ///
    /// # Errors
    /// The operation's own.
    pub fn settle(&mut self, session: C::Session, outcome: Result<()>) -> Result<()> {
        match &outcome {
            Err(failure) if failure.class != Class::Server => {}
            _ => self.session = Some(session),
        }
        outcome
    }
}
