//! A connection that is kept between operations and opened again, unmeasured, when it broke.

use crate::client::{Client, Session, Target};
use base::error::{Class, Result};
use record::{Evidence, Timeline};

/// What a new session needs before its first operation, unmeasured.
pub trait Preparation<S> {
    /// Whether a connection that broke may have to go to another server: to the new primary, where one was elected.
    const REDISCOVERS: bool = false;

    async fn prepare(&self, session: &mut S) -> Result<()>;
}

/// As a pool does it when it opens a connection.
pub struct AsPooled;

impl<S: Session> Preparation<S> for AsPooled {
    async fn prepare(&self, session: &mut S) -> Result<()> {
        session.prepare().await
    }
}

/// One worker's persistent session.
pub struct Persistent<C: Client, P = AsPooled> {
    client: C,
    target: Target,
    preparation: P,
    session: Option<C::Session>,
    lost: bool,
}

impl<C: Client, P: Preparation<C::Session>> Persistent<C, P> {
    pub fn new(client: C, target: Target, preparation: P) -> Self {
        Persistent { client, target, preparation, session: None, lost: false }
    }

    /// End it, where it is open.
    pub fn disconnect(&mut self) {
        if let Some(session) = self.session.take() {
            session.close();
        }
    }

    /// See that it is open, and note what it is.
    /// Errors: those of looking for the server, of opening a session and of its preparation.
    pub async fn prepare(&mut self, evidence: &mut Evidence) -> Result<()> {
        match &self.session {
            Some(session) => evidence.used(session.connection()),
            None => self.session = Some(self.open(evidence).await?),
        }
        Ok(())
    }

    /// Take the session for one operation; [`Persistent::settle`] gets it back. So an operation that is abandoned half-way
    /// can never leave its answer to the next one.
    pub async fn take(&mut self, evidence: &mut Evidence) -> Result<C::Session> {
        match self.session.take() {
            Some(session) => Ok(session),
            None => self.open(evidence).await,
        }
    }

    /// The operation has ended, well or not. The session is kept, unless it is not known what comes next on it (an error
    /// that the server answered is an answer), or its server says that another is to be asked.
    pub fn settle(&mut self, session: C::Session, outcome: Result<()>) -> Result<()> {
        match &outcome {
            Err(failure) if failure.class != Class::Server || P::REDISCOVERS && failure.moved => self.lose(session),
            _ => self.keep(session),
        }
        outcome
    }

    pub fn keep(&mut self, session: C::Session) {
        self.session = Some(session);
    }

    pub fn lose(&mut self, session: C::Session) {
        session.close();
        self.lost = true;
    }

    async fn open(&mut self, evidence: &mut Evidence) -> Result<C::Session> {
        if P::REDISCOVERS && self.lost {
            self.client.rediscover(self.target).await?;
        }
        self.lost = true;
        let mut session = self.client.open(self.target, &mut Timeline::default()).await?;
        evidence.opened(session.connection());
        if let Err(failure) = self.preparation.prepare(&mut session).await {
            session.close();
            return Err(failure);
        }
        self.lost = false;
        Ok(session)
    }
}
