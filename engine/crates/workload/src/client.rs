//! The traits that a protocol implements for workloads: a client opens sessions, and a session performs operations.
//! Workloads use only these traits, so they work with every protocol.

use crate::ycsb::{Fields, Key, Shape, Values};
use base::Random;
use base::error::Result;
use record::{Connection, Tally, Timeline, Traffic};
use std::num::NonZeroU64;
use std::ops::Range;

/// The server to which a session connects, of all servers of a service (such as the members of a replica set).
#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// A server that the read preference allows (MongoDB's setting of which members may serve reads). The field is the
    /// worker's number, which selects one server if several are allowed.
    Reader(usize),
    Writer,
}

/// A client of a service. It opens sessions to the service's servers.
pub trait Client: 'static {
    type Session: Session;

    fn is_one_server(&self, _one: Target, _other: Target) -> bool {
        true
    }

    /// Find the server of this target again after a session to the server broke. The current operation's deadline
    /// applies. The default does nothing, which suits a service with only one server.
    async fn rediscover(&self, _target: Target) -> Result<()> {
        Ok(())
    }

    /// Return after how many requests the client ends a connection. None if only the server ends connections.
    fn requests_per_connection(&self) -> Option<NonZeroU64> {
        None
    }

    /// Open a session. Record the time of each phase, from name resolution to authentication, in the timeline.
    async fn open(&self, target: Target, timeline: &mut Timeline) -> Result<Self::Session>;
}

/// An open connection that is ready for operations.
pub trait Session {
    /// A session's counts of its answers, such as HTTP responses by status. `()` if the session counts nothing.
    type Tally: Tally;

    fn traffic(&self) -> Traffic;

    /// Return the server and the TLS settings of this connection, as evidence of what was measured. Do not call this
    /// within measured time, because it takes time.
    fn connection(&self) -> Connection;

    /// Do the work that only a connection's first operation needs, such as preparing statements. A connection pool does
    /// this when it opens a connection. This work is not measured.
    async fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// End the session as the protocol requires, without waiting for an answer.
    fn close(self);

    /// End the session with `close`. If the client has asked the server to close the connection, wait until the server
    /// has done so. The side that closes first keeps its port in TIME_WAIT for a minute. A client that always closes
    /// first would therefore run out of ports at a few hundred connections a second.
    async fn end(self)
    where
        Self: Sized,
    {
        self.close();
    }
}

/// A session that can perform the queries of workloads `query` and `connect`.
pub trait Ask: Session {
    /// The data that queries read, such as a table of records. `()` if queries need no data.
    type About: 'static;

    async fn ask(&mut self, about: &Self::About, random: &mut Random, tally: &mut Self::Tally) -> Result<()>;

    /// Perform a query that is not the last one of its connection. By default this is the same as `ask`. Only HTTP
    /// differs: its last request on a connection asks the server to close the connection.
    async fn ask_and_go_on(&mut self, about: &Self::About, random: &mut Random, tally: &mut Self::Tally) -> Result<()> {
        self.ask(about, random, tally).await
    }
}

/// A session that performs YCSB's operations on records, which are identified by their keys.
pub trait Records: Session {
    /// Do the work that only the first operation of a workload needs on this session, such as preparing
    /// statements. `shape` determines which statements are needed. This work is not measured. Only the first call does
    /// any work.
    async fn get_ready(&mut self, _shape: &Shape) -> Result<()> {
        Ok(())
    }

    async fn insert_record(&mut self, key: &Key, values: Values<'_>) -> Result<()>;

    async fn read_record(&mut self, key: &Key, fields: Fields) -> Result<()>;

    async fn update_record(&mut self, key: &Key, values: Values<'_>) -> Result<()>;

    /// Read `count` records in the order of their keys, beginning with `from`. Read fewer if the table ends earlier.
    async fn scan_records(&mut self, from: &Key, count: u64, fields: Fields) -> Result<()>;
}

/// A session that reads records with random keys, one at a time, and inserts records in batches.
pub trait KeyValue: Ask {
    async fn insert(&mut self, table: &Self::About, records: Range<u64>) -> Result<()>;
}

/// A session that can pipeline queries: send several before it waits for an answer.
pub trait Pipeline: Ask {
    /// Send `count` queries without waiting for answers, then receive all answers.
    async fn ask_at_once(&mut self, about: &Self::About, count: usize, random: &mut Random) -> Result<()>;
}

/// A session that can overwrite single records with random keys, as well as read and insert records.
pub trait Overwrite: KeyValue {
    async fn overwrite(&mut self, about: &Self::About, random: &mut Random) -> Result<()>;
}

/// A session that performs pgbench's transactions.
pub trait Pgbench: KeyValue + Pipeline {
    async fn transact(&mut self, about: &Self::About, random: &mut Random) -> Result<()>;
}

/// A session that carries one HTTP request at a time. The server may end the session between two requests.
pub trait Requests: Session {
    /// Send one request, and receive the response. With `last`, this is the connection's last request. Count the
    /// response in `tally`, whatever its status. Call `arrived` with the connection's traffic when the response begins.
    /// Errors: class `status` for a status that is not allowed, after which the connection may still be usable;
    /// `short_body` for a body that ends early; `protocol` for an invalid response; those of a broken connection.
    async fn request(&mut self, last: bool, tally: &mut Self::Tally, arrived: impl FnMut(Traffic)) -> Result<()>;

    /// Return whether the last response allows another request on this session.
    fn may_go_on(&self) -> bool;

    /// Return whether the session is still open, with a system call only if epoll has reported an event for it.
    async fn is_still_open(&mut self) -> bool;

    /// Return whether the session is still open. This always makes a system call, unlike `is_still_open`.
    async fn is_open(&mut self) -> bool;
}

pub type TallyOf<C> = <<C as Client>::Session as Session>::Tally;

pub type AboutOf<C> = <<C as Client>::Session as Ask>::About;
