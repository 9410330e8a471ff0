//! The traits that a protocol implements for workloads: clients open sessions, and sessions perform operations.
//! Workloads use only these traits and work with any protocol that implements them.

use crate::ycsb::{Fields, Key, Shape, Values};
use base::Random;
use base::error::Result;
use record::{Connection, Tally, Timeline, Traffic};
use std::num::NonZeroU64;
use std::ops::Range;

/// The server of a service to which a session connects.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// A server that fits the read preference. Workers are spread over all such servers by their number.
    Reader(usize),
    Writer,
}

/// A client of a service, which opens sessions.
pub trait Client: 'static {
    type Session: Session;

    /// Return true if both targets are the same server.
    fn is_one_server(&self, _one: Target, _other: Target) -> bool {
        true
    }

    /// Locate this target again after a session to it broke, within the current operation's deadline. Services with one
    /// server need not do anything.
    async fn rediscover(&self, _target: Target) -> Result<()> {
        Ok(())
    }

    /// Return the number of requests after which a connection ends, or None if the server decides.
    fn requests_per_connection(&self) -> Option<NonZeroU64> {
        None
    }

    /// Open a session, from name resolution to authentication, and end each phase in the timeline.
    async fn open(&self, target: Target, timeline: &mut Timeline) -> Result<Self::Session>;
}

/// A connection that is ready for operations.
pub trait Session {
    /// The counts of its answers; `()` without any.
    type Tally: Tally;

    fn traffic(&self) -> Traffic;

    /// Return the evidence about this connection. Keep it out of measured time.
    fn connection(&self) -> Connection;

    /// Do the one-time work of the first operation, unmeasured, as a pool does when it opens a connection.
    async fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// End the session as the protocol requires, without waiting.
    fn close(self);

    /// As `close`, but wait for the server to close first if it was requested to. The side that closes first keeps the
    /// port in TIME_WAIT for a minute, and the client's ports suffice for only a few hundred connections a second.
    async fn end(self)
    where
        Self: Sized,
    {
        self.close();
    }
}

/// A session that performs one kind of query.
pub trait Ask: Session {
    /// The data of the queries, such as a table of records; `()` if all queries are the same.
    type About: 'static;

    /// Perform one query.
    async fn ask(&mut self, about: &Self::About, random: &mut Random, tally: &mut Self::Tally) -> Result<()>;

    /// Perform one query that is not the last of its connection.
    async fn ask_and_go_on(&mut self, about: &Self::About, random: &mut Random, tally: &mut Self::Tally) -> Result<()> {
        self.ask(about, random, tally).await
    }
}

/// A session that performs YCSB's operations on records by their keys.
pub trait Records: Session {
    /// Do the one-time work of the first operation on records of this shape, unmeasured. Later calls cost nothing.
    async fn get_ready(&mut self, _shape: &Shape) -> Result<()> {
        Ok(())
    }

    async fn insert_record(&mut self, key: &Key, values: Values<'_>) -> Result<()>;

    async fn read_record(&mut self, key: &Key, fields: Fields) -> Result<()>;

    async fn update_record(&mut self, key: &Key, values: Values<'_>) -> Result<()>;

    /// Read `count` records from this key on in the order of keys, or fewer at the end of the table.
    async fn scan_records(&mut self, from: &Key, count: u64, fields: Fields) -> Result<()>;
}

/// A session that reads single records by random keys and writes records in batches.
pub trait KeyValue: Ask {
    async fn insert(&mut self, table: &Self::About, records: Range<u64>) -> Result<()>;
}

/// A session that can pipeline queries.
pub trait Pipeline: Ask {
    /// Send `count` queries without waiting for answers, then receive all answers.
    async fn ask_at_once(&mut self, about: &Self::About, count: usize, random: &mut Random) -> Result<()>;
}

/// A session that writes a record whether it exists or not, as caches do.
pub trait Overwrite: KeyValue {
    async fn overwrite(&mut self, about: &Self::About, random: &mut Random) -> Result<()>;
}

/// A session that performs pgbench's transactions.
pub trait Pgbench: KeyValue + Pipeline {
    async fn transact(&mut self, about: &Self::About, random: &mut Random) -> Result<()>;
}

/// A session that carries one request at a time. The server may end it between two requests.
pub trait Requests: Session {
    /// Send one request and receive the response, which is counted whatever its status. `last` marks the last request
    /// of the connection. `arrived` is called with the connection's traffic when the response begins.
    /// Errors: `status`, after which the connection may still be usable; `short_body`, `protocol`, and those of a
    /// broken connection.
    async fn request(&mut self, last: bool, tally: &mut Self::Tally, arrived: impl FnMut(Traffic)) -> Result<()>;

    /// Return true if the session can carry another request.
    fn may_go_on(&self) -> bool;

    /// Return false if the server has ended the session. Without an event on it, no system call is made.
    async fn is_still_open(&mut self) -> bool;

    /// As `is_still_open`, always asking the kernel.
    async fn is_open(&mut self) -> bool;
}

/// The counts of a client's sessions.
pub type TallyOf<C> = <<C as Client>::Session as Session>::Tally;

/// The data of a client's queries.
pub type AboutOf<C> = <<C as Client>::Session as Ask>::About;
