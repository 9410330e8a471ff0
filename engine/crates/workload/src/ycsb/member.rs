//! A worker's connection to one member of a service: opened again when it broke, and to the new primary where another
//! was elected.

use super::Shape;
use crate::client::{Client, Records, Session, Target};
use base::error::{Class, Result};
use record::{Evidence, Trail};

/// One worker's standing session.
pub struct Member<C: Client<Session: Records>> {
    client: C,
    target: Target,
    shape: Shape,
    session: Option<C::Session>,
    lost: bool,
}

impl<C: Client<Session: Records>> Member<C> {
    /// Nothing is opened yet.
    pub fn new(client: C, target: Target, shape: Shape) -> Self {
        Member { client, target, shape, session: None, lost: false }
    }

    /// See that it stands, and note what it is.
    ///
    /// # Errors
    /// Those of looking for the member, of opening a session and of getting it ready.
    pub async fn prepare(&mut self, evidence: &mut Evidence) -> Result<()> {
        match &self.session {
            Some(session) => evidence.used(session.connection()),
            None => self.session = Some(self.open(evidence).await?),
        }
        Ok(())
    }

    /// Take the session for one operation; [`Member::settle`] gets it back.
    ///
    /// # Errors
    /// As `prepare`.
    pub async fn take(&mut self, evidence: &mut Evidence) -> Result<C::Session> {
        match self.session.take() {
            Some(session) => Ok(session),
            None => self.open(evidence).await,
        }
    }

    /// The operation has ended, well or not. The session is kept, unless it is not known what comes next on it, or its
    /// server says that another is to be asked.
    ///
    /// # Errors
    /// The operation's own.
    pub fn settle(&mut self, session: C::Session, outcome: Result<()>) -> Result<()> {
        match &outcome {
            Err(failure) if failure.class != Class::Server || failure.moved => {
                session.close();
                self.lost = true;
            }
            _ => self.session = Some(session),
        }
        outcome
    }

    async fn open(&mut self, evidence: &mut Evidence) -> Result<C::Session> {
        if self.lost {
            self.client.look_again(self.target).await?;
        }
        self.lost = true;
        let mut session = self.client.open(self.target, &mut Trail::default()).await?;
        evidence.opened(session.connection());
        if let Err(failure) = session.get_ready(&self.shape).await {
            session.close();
            return Err(failure);
        }
        self.lost = false;
        Ok(session)
    }
}
