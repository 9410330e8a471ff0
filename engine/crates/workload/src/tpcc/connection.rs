//! A worker's connection, made ready for statements; opened again, unmeasured, when it broke.

use crate::client::{Client, Session, Target};
use crate::sql::{Sql, Statement};
use base::error::{Class, Result};
use record::{Evidence, Trail};

/// One worker's standing session.
pub struct Connection<C: Client> {
    client: C,
    statements: &'static [Statement],
    /// Said once, before the first statement.
    settings: Vec<String>,
    session: Option<C::Session>,
}

impl<C: Client<Session: Sql>> Connection<C> {
    /// Nothing is opened yet.
    pub fn new(client: C, statements: &'static [Statement], settings: Vec<String>) -> Self {
        Connection { client, statements, settings, session: None }
    }

    /// See that it stands, and note what it is.
    ///
    /// # Errors
    /// Those of opening a session and of preparing its statements.
    pub async fn prepare(&mut self, evidence: &mut Evidence) -> Result<()> {
        match &self.session {
            Some(session) => evidence.used(session.connection()),
            None => self.session = Some(self.open(evidence).await?),
        }
        Ok(())
    }

    /// Take the session for one operation; [`Connection::settle`] gets it back.
    ///
    /// # Errors
    /// As `prepare`.
    pub async fn take(&mut self, evidence: &mut Evidence) -> Result<C::Session> {
        match self.session.take() {
            Some(session) => Ok(session),
            None => self.open(evidence).await,
        }
    }

    /// The operation has ended, well or not. After an error that the server answered its transaction is rolled back; after
    /// any other it is not known what comes next, and the server does so itself once the session is gone.
    ///
    /// # Errors
    /// The operation's own.
    pub async fn settle<T>(&mut self, mut session: C::Session, outcome: Result<T>) -> Result<T> {
        let keep = match &outcome {
            Ok(_) => true,
            Err(failure) => failure.class == Class::Server && session.say("ROLLBACK").await.is_ok(),
        };
        if keep {
            self.session = Some(session);
        } else {
            session.close();
        }
        outcome
    }

    async fn open(&self, evidence: &mut Evidence) -> Result<C::Session> {
        let mut session = self.client.open(Target::Writer, &mut Trail::default()).await?;
        evidence.opened(session.connection());
        match self.make_ready(&mut session).await {
            Ok(()) => Ok(session),
            Err(failure) => {
                session.close();
                Err(failure)
            }
        }
    }

    async fn make_ready(&self, session: &mut impl Sql) -> Result<()> {
        session.prepare_all(self.statements).await?;
        for setting in &self.settings {
            session.say(setting).await?;
        }
        Ok(())
    }
}
