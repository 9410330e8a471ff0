//! The way of one operation through its phases. Neighbouring phases share a time stamp, so that their sum is the whole
//! to the nanosecond. A timeline is written down only when its operation has succeeded: phases of a broken connection
//! would otherwise be counted among those of whole ones.

use base::clock;
use std::ops::{AddAssign, Sub};

/// In the order in which they happen; from `Connect` on they are derived from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// From the instant of a pace's schedule to the start; only with a pace.
    Delay,
    /// Name to address; only where a name was given.
    Resolve,
    Tcp,
    /// A protocol in which the server speaks first.
    Greeting,
    TlsRequest,
    Tls,
    Hello,
    Auth,
    /// The first operation of a connection.
    FirstOperation,
    Operation,
    /// From a request's sending to its response's first byte.
    Waiting,
    /// To the response's last byte.
    Receiving,
    Insert,
    /// One record, or one of its fields.
    Read,
    /// One record's fields, or one of them.
    Update,
    Scan,
    /// TPC-C's, with its retries (clause 2.4).
    NewOrder,
    /// Likewise (clause 2.5).
    Payment,
    /// Likewise (clause 2.6).
    OrderStatus,
    /// Likewise (clause 2.7).
    Delivery,
    /// Likewise (clause 2.8).
    StockLevel,
    /// `Tcp` to `Auth`.
    Connect,
    /// `Delay` to `Auth`; only with a pace.
    ScheduledConnect,
    /// `Tcp` to `FirstOperation`.
    ConnectAndFirstOperation,
    /// `Waiting` and `Receiving`.
    Processing,
    /// `Delay` to `Receiving`.
    Request,
    /// `Read` and `Update` of the same record.
    ReadModifyWrite,
}

impl Phase {
    /// All of them; a phase's place here is its number.
    pub const ALL: [Phase; 27] = [
        Phase::Delay,
        Phase::Resolve,
        Phase::Tcp,
        Phase::Greeting,
        Phase::TlsRequest,
        Phase::Tls,
        Phase::Hello,
        Phase::Auth,
        Phase::FirstOperation,
        Phase::Operation,
        Phase::Waiting,
        Phase::Receiving,
        Phase::Insert,
        Phase::Read,
        Phase::Update,
        Phase::Scan,
        Phase::NewOrder,
        Phase::Payment,
        Phase::OrderStatus,
        Phase::Delivery,
        Phase::StockLevel,
        Phase::Connect,
        Phase::ScheduledConnect,
        Phase::ConnectAndFirstOperation,
        Phase::Processing,
        Phase::Request,
        Phase::ReadModifyWrite,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Phase::Delay => "delay",
            Phase::Resolve => "resolve",
            Phase::Tcp => "tcp",
            Phase::Greeting => "greeting",
            Phase::TlsRequest => "tls_request",
            Phase::Tls => "tls",
            Phase::Hello => "hello",
            Phase::Auth => "auth",
            Phase::FirstOperation => "first_operation",
            Phase::Operation => "operation",
            Phase::Waiting => "waiting",
            Phase::Receiving => "receiving",
            Phase::Insert => "insert",
            Phase::Read => "read",
            Phase::Update => "update",
            Phase::Scan => "scan",
            Phase::NewOrder => "new_order",
            Phase::Payment => "payment",
            Phase::OrderStatus => "order_status",
            Phase::Delivery => "delivery",
            Phase::StockLevel => "stock_level",
            Phase::Connect => "connect",
            Phase::ScheduledConnect => "scheduled_connect",
            Phase::ConnectAndFirstOperation => "connect_and_first_operation",
            Phase::Processing => "processing",
            Phase::Request => "request",
            Phase::ReadModifyWrite => "read_modify_write",
        }
    }

    /// Whether it is part of `connect`: what comes after the address is known and before the first operation.
    pub fn is_in_connect(self) -> bool {
        matches!(self, Phase::Tcp | Phase::Greeting | Phase::TlsRequest | Phase::Tls | Phase::Hello | Phase::Auth)
    }

    /// Whether it is part of `processing`: what comes of a request once there is a connection.
    pub fn is_in_processing(self) -> bool {
        matches!(self, Phase::Waiting | Phase::Receiving)
    }

    /// Whether it is an operation of YCSB's, or a part of one.
    pub fn is_of_records(self) -> bool {
        matches!(self, Phase::Insert | Phase::Read | Phase::Update | Phase::Scan)
    }

    pub fn is_of_transactions(self) -> bool {
        matches!(self, Phase::NewOrder | Phase::Payment | Phase::OrderStatus | Phase::Delivery | Phase::StockLevel)
    }
}

/// What has gone over a connection so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// On the wire.
    pub bytes_sent: u64,
    /// On the wire.
    pub bytes_received: u64,
    /// Times that bytes arrived after bytes were sent since the last arrival; and one for the TCP handshake.
    pub round_trips: u64,
}

impl Sub for Traffic {
    type Output = Traffic;

    fn sub(self, earlier: Traffic) -> Traffic {
        Traffic {
            bytes_sent: self.bytes_sent - earlier.bytes_sent,
            bytes_received: self.bytes_received - earlier.bytes_received,
            round_trips: self.round_trips - earlier.round_trips,
        }
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, more: Traffic) {
        self.bytes_sent += more.bytes_sent;
        self.bytes_received += more.bytes_received;
        self.round_trips += more.round_trips;
    }
}

/// One phase that was gone through.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    pub phase: Phase,
    pub nanos: u64,
    pub traffic: Traffic,
}

impl Span {
    pub fn none(phase: Phase) -> Self {
        Span { phase, nanos: 0, traffic: Traffic::default() }
    }
}

impl AddAssign for Span {
    /// One after the other; the phase stays.
    fn add_assign(&mut self, more: Span) {
        self.nanos += more.nanos;
        self.traffic += more.traffic;
    }
}

/// A connection goes through seven phases at most, after its delay (no protocol has both `greeting` and `tls_request`).
const MOST_SPANS: usize = 8;

/// The phases of one operation, as they are gone through.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timeline {
    scheduled: Option<u64>,
    at: u64,
    traffic: Traffic,
    spans: [Option<Span>; MOST_SPANS],
    count: usize,
}

impl Timeline {
    /// The next operation was to begin at this instant: what it is late by is its first phase, `delay`.
    pub fn schedule(&mut self, instant: u64) {
        self.scheduled = Some(instant);
    }

    pub fn start(&mut self, traffic: Traffic) {
        self.count = 0;
        self.traffic = traffic;
        self.at = clock::now();
        if let Some(instant) = self.scheduled.take() {
            let nanos = self.at.saturating_sub(instant);
            self.spans[0] = Some(Span { phase: Phase::Delay, nanos, traffic: Traffic::default() });
            self.count = 1;
        }
    }

    pub fn change(&mut self, traffic: Traffic) {
        self.traffic = traffic;
    }

    pub fn end_phase(&mut self, phase: Phase, traffic: Traffic) {
        self.spans[self.count] = Some(self.lap(phase, traffic));
        self.count += 1;
    }

    /// As `end_phase`, of a phase that is none of the operation's own but is written down by itself.
    pub fn lap(&mut self, phase: Phase, traffic: Traffic) -> Span {
        let now = clock::now();
        let span = Span { phase, nanos: now - self.at, traffic: traffic - self.traffic };
        self.at = now;
        self.traffic = traffic;
        span
    }

    pub fn at(&self) -> u64 {
        self.at
    }

    /// What was gone through, in order.
    pub fn spans(&self) -> impl Iterator<Item = &Span> {
        self.spans[..self.count].iter().flatten()
    }
}
