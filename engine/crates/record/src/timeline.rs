//! The phases of one operation. A phase begins with the time stamp that ended the phase before, so the phases add up to
//! the operation's time. Failed operations, which have only their first phases, are not recorded.

use base::clock;
use std::ops::{AddAssign, Sub};

macro_rules! phases {
    ($($(#[$about:meta])* $phase:ident = $name:literal,)*) => {
        /// The phases of an operation, in order. `Connect` and the variants after it are totals of other phases.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Phase {
            $($(#[$about])* $phase,)*
        }

        impl Phase {
            /// All phases. A phase's index is its discriminant.
            pub const ALL: [Phase; [$($name),*].len()] = [$(Phase::$phase),*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Phase::$phase => $name,)*
                }
            }
        }
    };
}

phases! {
    /// The time from an operation's scheduled instant to its start. Only workloads with a pace (a fixed rate) have it.
    Delay = "delay",
    /// Resolution of the host name; absent if the host is an IP address.
    Resolve = "resolve",
    Tcp = "tcp",
    Greeting = "greeting",
    TlsRequest = "tls_request",
    Tls = "tls",
    Hello = "hello",
    Auth = "auth",
    FirstOperation = "first_operation",
    Operation = "operation",
    Waiting = "waiting",
    Receiving = "receiving",
    Insert = "insert",
    Read = "read",
    Update = "update",
    Scan = "scan",
    /// TPC-C's New-Order transaction (clause 2.4), including retries. The phases of TPC-C's other four transactions,
    /// from `Payment` to `StockLevel`, also include retries.
    NewOrder = "new_order",
    Payment = "payment",
    OrderStatus = "order_status",
    Delivery = "delivery",
    StockLevel = "stock_level",
    /// The total of the phases from `Tcp` to `Auth`.
    Connect = "connect",
    /// The total of `Delay` and the phases from `Tcp` to `Auth`. Only workloads with a pace (a fixed rate) have it.
    ScheduledConnect = "scheduled_connect",
    /// The total of the phases from `Tcp` to `FirstOperation`.
    ConnectAndFirstOperation = "connect_and_first_operation",
    /// The total of `Waiting` and `Receiving`.
    Processing = "processing",
    /// The total of `Delay`, `Waiting`, `Receiving`, and all phases from `Tcp` to `Auth`.
    Request = "request",
    /// The total of `Read` and `Update` of the same record.
    ReadModifyWrite = "read_modify_write",
}

/// The bytes and round trips of a connection since it was opened, or during one phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// The number of round trips: one for the TCP handshake, and one each time that bytes arrive after bytes were sent.
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

/// The duration and the traffic of one phase of an operation.
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
    fn add_assign(&mut self, more: Span) {
        self.nanos += more.nanos;
        self.traffic += more.traffic;
    }
}

/// The maximum number of phases in a timeline: a delay, and seven of the eight phases from `Resolve` to
/// `FirstOperation`. No connection has all eight, because no protocol has both `Greeting` and `TlsRequest`.
const MAX_SPANS: usize = 8;

/// A stopwatch for the phases of one operation at a time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timeline {
    scheduled: Option<u64>,
    at: u64,
    traffic: Traffic,
    spans: [Option<Span>; MAX_SPANS],
    count: usize,
}

impl Timeline {
    /// Set the instant at which the next operation should begin, in nanoseconds of the monotonic clock. The time from
    /// this instant to the operation's start becomes the phase `delay`.
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

    /// End a phase now and return it. Do not add it to the timeline, because the caller records it separately.
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

    pub fn spans(&self) -> impl Iterator<Item = &Span> {
        self.spans[..self.count].iter().flatten()
    }
}
