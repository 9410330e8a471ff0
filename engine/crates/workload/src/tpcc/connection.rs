//! A worker's connection for transactions.

use super::super::persistent::{Persistent, Preparation};
use crate::client::{Client, Target};
use crate::sql::{Sql, Statement};
use base::error::{Class, Result};

/// What its sessions are prepared with.
pub struct Statements {
    prepared: &'static [Statement],
    /// Said once, before the first statement.
    settings: Vec<String>,
}

impl<S: Sql> Preparation<S> for Statements {
    async fn prepare(&self, session: &mut S) -> Result<()> {
        session.prepare_all(self.prepared).await?;
        for setting in &self.settings {
            session.say(setting).await?;
        }
        Ok(())
    }
}

/// One worker's persistent session.
pub type Connection<C> = Persistent<C, Statements>;

impl<C: Client<Session: Sql>> Connection<C> {
    pub fn with(client: C, prepared: &'static [Statement], settings: Vec<String>) -> Self {
        Persistent::new(client, Target::Writer, Statements { prepared, settings })
    }

    /// The operation has ended, well or not. After an error that the server answered its transaction is rolled back; after
    /// any other it is not known what comes next, and the server does so itself once the session is gone.
    pub async fn settle_transaction<T>(&mut self, mut session: C::Session, outcome: Result<T>) -> Result<T> {
        let keep = match &outcome {
            Ok(_) => true,
            Err(failure) => failure.class == Class::Server && session.say("ROLLBACK").await.is_ok(),
        };
        if keep {
            self.keep(session)
        } else {
            self.lose(session)
        }
        outcome
    }
}
