//! What a protocol does for workloads: it opens sessions, and over a session it can be asked what its kind allows. Workloads
//! are written against these traits and do not know which protocol they run over.

use crate::ycsb::{Fields, Key, Shape, Values};
use base::Random;
use base::error::Result;
use record::{Connection, Tally, Timeline, Traffic};
use std::num::NonZeroU64;
use std::ops::Range;

/// To which of a service's servers a session goes.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// One that fits the read preference; workers, by number, are spread over all that do.
    Reader(usize),
    Writer,
}

/// Opens sessions.
pub trait Client: 'static {
    /// A connection that is ready for operations.
    type Session: Session;

    fn is_one_server(&self, _one: Target, _other: Target) -> bool {
        true
    }

    /// A session to this target broke: find out anew where it is, within the present operation's deadline. Nothing,
    /// where there is only one server.
    async fn rediscover(&self, _target: Target) -> Result<()> {
        Ok(())
    }

    /// After so many requests a connection is ended; None where the server decides.
    fn requests_per_connection(&self) -> Option<NonZeroU64> {
        None
    }

    /// Open a session, from the name's resolution to the proof of who we are, and mark each phase in the timeline.
    async fn open(&self, target: Target, timeline: &mut Timeline) -> Result<Self::Session>;
}

/// A connection that is ready for operations.
pub trait Session {
    /// What its answers are counted in; `()`, where times say all of them.
    type Tally: Tally;

    fn traffic(&self) -> Traffic;

    /// What it turned out to be. Not for the measured path.
    fn connection(&self) -> Connection;

    /// Do now, unmeasured, what the first of many operations would have to do: what a pool does when it opens a
    /// connection.
    async fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// End it as the protocol asks, without waiting.
    fn close(self);

    /// As `close`, once the other side has ended it, where it was asked to: whoever ends a connection first keeps its port
    /// for a minute, and the client has ports for a few hundred connections a second.
    async fn end(self)
    where
        Self: Sized,
    {
        self.close();
    }
}

/// A session that can be asked one thing: what a new connection is for.
pub trait Ask: Session {
    /// What it is asked about: a table of records; nothing, where every question is the same.
    type About: 'static;

    async fn ask(&mut self, about: &Self::About, random: &mut Random, tally: &mut Self::Tally) -> Result<()>;

    async fn ask_and_go_on(&mut self, about: &Self::About, random: &mut Random, tally: &mut Self::Tally) -> Result<()> {
        self.ask(about, random, tally).await
    }
}

/// A session over which YCSB's operations go, on records that a workload names by their keys.
pub trait Records: Session {
    /// Do now, unmeasured, what the first operation on records of this shape would have to do. Once it has been done
    /// it costs nothing.
    async fn get_ready(&mut self, _shape: &Shape) -> Result<()> {
        Ok(())
    }

    async fn insert_record(&mut self, key: &Key, values: Values<'_>) -> Result<()>;

    async fn read_record(&mut self, key: &Key, fields: Fields) -> Result<()>;

    async fn update_record(&mut self, key: &Key, values: Values<'_>) -> Result<()>;

    /// Read so many records from this key on, in the order of their keys; fewer, where the table ends.
    async fn scan_records(&mut self, from: &Key, count: u64, fields: Fields) -> Result<()>;
}

/// A session over which records are read, one at a time, by random keys, and written in batches.
pub trait KeyValue: Ask {
    async fn insert(&mut self, table: &Self::About, records: Range<u64>) -> Result<()>;
}

/// A session that can be asked many things at once.
pub trait Pipeline: Ask {
    /// Ask so often without waiting for an answer in between, then take all of them.
    async fn ask_at_once(&mut self, about: &Self::About, count: usize, random: &mut Random) -> Result<()>;
}

/// A session over which a record is written whether it is there or not, as a cache's are.
pub trait Overwrite: KeyValue {
    async fn overwrite(&mut self, about: &Self::About, random: &mut Random) -> Result<()>;
}

/// A session that carries out pgbench's transactions.
pub trait Pgbench: KeyValue + Pipeline {
    async fn transact(&mut self, about: &Self::About, random: &mut Random) -> Result<()>;
}

/// A session that carries requests, one at a time, and that its server may end between two of them.
pub trait Requests: Session {
    /// Make one request, the last of this connection or not, and take the response. `arrived` is called with what has gone
    /// over the connection once the response begins. The response is counted whatever its status.
    /// Errors: `status`, after which the connection may go on; `short_body`, `protocol`, and those of a broken
    /// connection.
    async fn request(&mut self, last: bool, tally: &mut Self::Tally, arrived: impl FnMut(Traffic)) -> Result<()>;

    fn may_go_on(&self) -> bool;

    /// Whether the server has not ended it meanwhile; the kernel is asked only where this thread was told of something.
    async fn is_still_open(&mut self) -> bool;

    /// As `is_still_open`, and the kernel is asked.
    async fn is_open(&mut self) -> bool;
}

/// What a client's sessions count in.
pub type TallyOf<C> = <<C as Client>::Session as Session>::Tally;

/// What a client's sessions are asked about.
pub type AboutOf<C> = <<C as Client>::Session as Ask>::About;
