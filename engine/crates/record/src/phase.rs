//! The timed parts of an operation.

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
