//! `tpcc` with phase `run`: a terminal's transactions, one after the other. A transaction that met a deadlock, or waited for
//! a lock for too long, is rolled back and begun again with the same input.
//!
//! The mix (clause 5.2.3) is dealt from a deck of cards that is shuffled when it is empty (clause 5.2.4.2); users take their
//! times (clause 5.2.5).

use super::numbers::{Constants, LastName, between};
use super::statements::{self, NAMESAKES};
use super::transactions::{Delivery, NewOrder, NewOrderBuffers, OrderStatus, Payment, PaymentBuffers, StockLevel};
use super::{DISTRICTS, Settings};
use crate::Workload;
use crate::client::{Client, Session, Target};
use crate::query::{Persistent, Preparation};
use crate::sql::{DateTime, Parameters, Row, Sql, Statement};
use base::error::{Class, Failure, Result};
use base::{Random, clock};
use record::{Counts, Evidence, Phase, Tally, Timeline};
use std::hint::black_box;
use std::ops::Range;

/// `ER_LOCK_WAIT_TIMEOUT`: the statement was undone, not the transaction.
const LOCK_WAIT_TIMEOUT: u16 = 1205;
/// `ER_LOCK_DEADLOCK`: the transaction was undone.
const DEADLOCK: u16 = 1213;

/// Where a terminal stands.
#[derive(Debug, Clone, Copy)]
pub struct Home {
    pub warehouse: u32,
    /// Of its Stock-Levels (clause 2.8.1.1).
    pub district: u32,
    pub warehouses: u32,
}

impl Home {
    fn of(worker: usize, warehouses: u32) -> Self {
        let (round, place) = (worker as u32 / warehouses, worker as u32 % warehouses);
        Home { warehouse: place + 1, district: round % DISTRICTS + 1, warehouses }
    }

    /// Another warehouse, each as likely; its own, where there is none.
    pub fn other(self, random: &mut Random) -> u32 {
        if self.warehouses == 1 {
            return self.warehouse;
        }
        let other = between(random, 1, self.warehouses - 1);
        if other < self.warehouse { other } else { other + 1 }
    }
}

/// How a customer is asked for.
#[derive(Debug, Clone)]
pub enum Who {
    Number(u32),
    Name(LastName),
}

impl Who {
    /// The customer's number: of namesakes, sorted by first name, that in the middle, rounded up (clause 2.5.2.2).
    /// Errors: those of the statement; `protocol`, where nobody has the name.
    pub async fn customer(
        &self,
        session: &mut impl Sql,
        (warehouse, district): (u32, u32),
        namesakes: &mut Vec<i64>,
    ) -> Result<i64> {
        let name = match self {
            Who::Number(number) => return Ok((*number).into()),
            Who::Name(name) => name.as_bytes(),
        };
        namesakes.clear();
        session
            .select(
                NAMESAKES,
                |fill| fill.integer(warehouse.into()).integer(district.into()).text(name),
                |row| row.integer().map(|number| namesakes.push(number)),
            )
            .await?;
        let middle = namesakes.len().div_ceil(2);
        match namesakes.get(middle.wrapping_sub(1)) {
            Some(number) => Ok(*number),
            None => Err(Failure::protocol("nobody has a last name that customers have: is the data loaded?")),
        }
    }
}

/// How a transaction that did not fail has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Committed,
    /// As it should too (clause 2.4.1.4).
    RolledBack,
}

/// A transaction with its input, so that it can be begun again.
enum Request {
    NewOrder(NewOrder),
    Payment(Payment),
    OrderStatus(OrderStatus),
    Delivery(Delivery),
    StockLevel(StockLevel),
}

/// Room for what transactions read, used again.
#[derive(Default)]
struct Room {
    new_order: NewOrderBuffers,
    payment: PaymentBuffers,
    namesakes: Vec<i64>,
}

/// Whose terminal this is.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub worker: usize,
    /// The plan's: the constants of the random numbers follow from it.
    pub seed: u64,
}

/// One worker's transactions.
pub struct Terminal<C: Client> {
    connection: Connection<C>,
    home: Home,
    constants: Constants,
    keying: bool,
    deck: Deck,
    /// What is asked for next, and for how long its user still thinks and types.
    next: Option<Card>,
    thinks_ns: u64,
    random: Random,
    room: Room,
    tally: Transactions,
}

impl<C: Client<Session: Sql>> Terminal<C> {
    pub fn new(client: C, settings: &Settings, Place { worker, seed }: Place, random: Random) -> Self {
        let isolation = format!("SET SESSION TRANSACTION ISOLATION LEVEL {}", settings.isolation.sql());
        // So a transaction begins with its first statement, and no round trip says that it does.
        let said = vec![isolation, "SET autocommit = 0".into()];
        Terminal {
            connection: Connection::with(client, statements::all(), said),
            home: Home::of(worker, settings.warehouses),
            constants: Constants::drawn(seed),
            keying: settings.keying,
            deck: Deck::new(),
            next: None,
            thinks_ns: 0,
            random,
            room: Room::default(),
            tally: Transactions::default(),
        }
    }

    fn draw(&mut self, card: Card) -> Request {
        let Terminal { home, constants, random, .. } = self;
        match card {
            Card::NewOrder => Request::NewOrder(NewOrder::drawn(*home, constants, random)),
            Card::Payment => Request::Payment(Payment::drawn(*home, constants, random)),
            Card::OrderStatus => Request::OrderStatus(OrderStatus::drawn(*home, constants, random)),
            Card::Delivery => Request::Delivery(Delivery::drawn(*home, random)),
            Card::StockLevel => Request::StockLevel(StockLevel::drawn(*home, random)),
        }
    }
}

impl<C: Client<Session: Sql>> Workload for Terminal<C> {
    fn disconnect(&mut self) {
        self.connection.disconnect();
    }

    async fn prepare(&mut self, evidence: &mut Evidence) -> Result<()> {
        self.connection.prepare(evidence).await
    }

    fn rest_ns(&mut self) -> u64 {
        if !self.keying {
            return 0;
        }
        let next = *self.next.get_or_insert_with(|| self.deck.deal(&mut self.random));
        std::mem::take(&mut self.thinks_ns) + next.keying_ns()
    }

    async fn operate(&mut self, _claimed: Range<u64>, timeline: &mut Timeline, evidence: &mut Evidence) -> Result<()> {
        let mut session = self.connection.take(evidence).await?;
        let card = self.next.take().unwrap_or_else(|| self.deck.deal(&mut self.random));
        let request = self.draw(card);
        let before = session.statements_sent();
        timeline.start(session.traffic());
        let outcome = run(&request, &mut session, &mut self.room, &mut self.tally).await;
        timeline.end_phase(card.phase(), session.traffic());
        self.tally.statements += session.statements_sent() - before;
        let ended = self.connection.settle_transaction(session, outcome).await;
        match ended.map_err(|failure| failure.during(card.phase().name()))? {
            Ended::Committed => self.tally.committed[card as usize] += 1,
            Ended::RolledBack => self.tally.rolled_back += 1,
        }
        if self.keying {
            self.thinks_ns = card.think_ns(&mut self.random);
        }
        Ok(())
    }

    fn take_counts(&mut self, into: &mut Counts) {
        std::mem::take(&mut self.tally).add_to(into);
    }
}

/// Until it has ended, or failed for another reason than others' locks.
async fn run(request: &Request, session: &mut impl Sql, room: &mut Room, tally: &mut Transactions) -> Result<Ended> {
    loop {
        let outcome = attempt(request, session, room).await;
        match outcome.as_ref().err().and_then(|failure| failure.code) {
            Some(DEADLOCK) => tally.deadlocks += 1,
            Some(LOCK_WAIT_TIMEOUT) => tally.lock_timeouts += 1,
            _ => return outcome,
        }
        session.say("ROLLBACK").await?;
    }
}

async fn attempt(request: &Request, session: &mut impl Sql, room: &mut Room) -> Result<Ended> {
    let now = DateTime::from_unix(clock::unix() / 1_000_000_000);
    match request {
        Request::NewOrder(order) => order.run(session, &mut room.new_order, now).await,
        Request::Payment(payment) => payment.run(session, &mut room.payment, now).await,
        Request::OrderStatus(status) => status.run(session, &mut room.namesakes).await,
        Request::Delivery(delivery) => delivery.run(session, now).await,
        Request::StockLevel(level) => level.run(session).await,
    }
}

/// What the terminal shows: nobody reads it here, and it is worked out all the same.
pub fn shown<T>(output: T) {
    black_box(output);
}

/// Exactly one row was there.
/// Errors: `protocol`; what was begun is then undone with the connection.
pub fn one_row(rows: u64, what: &str) -> Result<()> {
    if rows == 1 { Ok(()) } else { Err(Failure::protocol(format!("{rows} rows of a {what}: is the data loaded?"))) }
}

pub fn rows_changed(changed: u64, expected: u64, what: &str) -> Result<()> {
    if changed == expected {
        return Ok(());
    }
    Err(Failure::protocol(format!("{changed} rows of {what} were changed, where {expected} should be")))
}

/// What a terminal is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Card {
    /// Clause 2.4.
    NewOrder,
    /// Clause 2.5.
    Payment,
    /// Clause 2.6.
    OrderStatus,
    /// Clause 2.7.
    Delivery,
    /// Clause 2.8.
    StockLevel,
}

/// Cards in a deck: 45, 43, 4, 4 and 4 of a hundred.
const COUNTS: [(Card, usize); 5] =
    [(Card::NewOrder, 45), (Card::Payment, 43), (Card::OrderStatus, 4), (Card::Delivery, 4), (Card::StockLevel, 4)];
const SECOND_NS: f64 = 1e9;
/// A think time is cut there, in means (clause 5.2.5.4).
const LONGEST_THINK: f64 = 10.0;

impl Card {
    pub fn phase(self) -> Phase {
        match self {
            Card::NewOrder => Phase::NewOrder,
            Card::Payment => Phase::Payment,
            Card::OrderStatus => Phase::OrderStatus,
            Card::Delivery => Phase::Delivery,
            Card::StockLevel => Phase::StockLevel,
        }
    }

    /// How long its input takes to type (clause 5.2.5.2), in nanoseconds.
    pub fn keying_ns(self) -> u64 {
        let seconds = match self {
            Card::NewOrder => 18.0,
            Card::Payment => 3.0,
            Card::OrderStatus | Card::Delivery | Card::StockLevel => 2.0,
        };
        (seconds * SECOND_NS) as u64
    }

    /// How long its output is looked at: exponentially distributed (clause 5.2.5.4), in nanoseconds.
    pub fn think_ns(self, random: &mut Random) -> u64 {
        let mean = match self {
            Card::NewOrder | Card::Payment => 12.0,
            Card::OrderStatus => 10.0,
            Card::Delivery | Card::StockLevel => 5.0,
        };
        (mean * random.exponential().min(LONGEST_THINK) * SECOND_NS) as u64
    }
}

/// One terminal's.
pub struct Deck {
    cards: Vec<Card>,
    dealt: usize,
}

impl Deck {
    pub fn new() -> Self {
        let cards: Vec<_> = COUNTS.iter().flat_map(|(card, count)| std::iter::repeat_n(*card, *count)).collect();
        Deck { dealt: cards.len(), cards }
    }

    pub fn deal(&mut self, random: &mut Random) -> Card {
        if self.dealt == self.cards.len() {
            shuffle(&mut self.cards, random);
            self.dealt = 0;
        }
        self.dealt += 1;
        self.cards[self.dealt - 1]
    }
}

/// Every order is as likely as another (Fisher and Yates).
pub fn shuffle<T>(things: &mut [T], random: &mut Random) {
    for last in (1..things.len()).rev() {
        things.swap(last, random.below(last as u64 + 1) as usize);
    }
}

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

/// In the order of [`Card`](Card).
const COMMITTED: [&str; 5] = [
    "tpcc.committed.new_order",
    "tpcc.committed.payment",
    "tpcc.committed.order_status",
    "tpcc.committed.delivery",
    "tpcc.committed.stock_level",
];

/// Counts of one terminal's transactions.
#[derive(Debug, Default)]
pub struct Transactions {
    /// By [`Card`](Card), from 0.
    pub committed: [u64; COMMITTED.len()],
    /// New-Orders that end so by intent (clause 2.4.1.4).
    pub rolled_back: u64,
    /// Round trips with a statement, those of failed and retried transactions too.
    pub statements: u64,
    pub deadlocks: u64,
    pub lock_timeouts: u64,
}

impl Tally for Transactions {
    fn add_to(&self, counts: &mut Counts) {
        COMMITTED.into_iter().zip(self.committed).for_each(|(name, count)| counts.add(name, count));
        counts.add("tpcc.rolled_back", self.rolled_back);
        counts.add("tpcc.statements", self.statements);
        counts.add("tpcc.deadlocks", self.deadlocks);
        counts.add("tpcc.lock_timeouts", self.lock_timeouts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_spread_over_warehouses_and_their_districts() {
        let homes: Vec<_> =
            (0..40).map(|worker| Home::of(worker, 2)).map(|home| (home.warehouse, home.district)).collect();
        assert_eq!(homes[..4], [(1, 1), (2, 1), (1, 2), (2, 2)]);
        assert_eq!(homes[19], (2, 10));
        assert_eq!(homes[20], (1, 1), "there are no more");
    }

    #[test]
    fn another_warehouse_is_any_but_the_own() {
        let mut random = Random::new(1);
        let mut seen = [0; 5];
        (0..4000).for_each(|_| seen[Home::of(2, 4).other(&mut random) as usize] += 1);
        assert_eq!((seen[0], seen[3]), (0, 0));
        assert!([1, 2, 4].iter().all(|warehouse| (1200..1470).contains(&seen[*warehouse])), "{seen:?}");
        assert_eq!(Home::of(7, 1).other(&mut random), 1);
    }

    #[test]
    fn every_hundred_transactions_are_the_mix() {
        let (mut deck, mut random) = (Deck::new(), Random::new(1));
        let mut first = Vec::new();
        for _ in 0..20 {
            let dealt: Vec<_> = (0..100).map(|_| deck.deal(&mut random)).collect();
            for (card, count) in COUNTS {
                assert_eq!(dealt.iter().filter(|found| **found == card).count(), count, "{card:?}");
            }
            assert_ne!(first, dealt, "it is shuffled anew");
            first = dealt;
        }
    }

    #[test]
    fn a_shuffle_puts_each_anywhere() {
        let mut random = Random::new(2);
        let mut firsts = [0; 5];
        for _ in 0..50_000 {
            let mut cards = [0, 1, 2, 3, 4];
            shuffle(&mut cards, &mut random);
            firsts[cards[0]] += 1;
            cards.sort_unstable();
            assert_eq!(cards, [0, 1, 2, 3, 4], "none is lost");
        }
        assert!(firsts.iter().all(|count| (9_500..10_500).contains(count)), "{firsts:?}");
    }

    #[test]
    fn users_think_as_long_as_clause_5_2_5_wants() {
        let mut random = Random::new(3);
        for (card, mean) in [(Card::NewOrder, 12.0), (Card::OrderStatus, 10.0), (Card::StockLevel, 5.0)] {
            let times: Vec<_> = (0..200_000).map(|_| card.think_ns(&mut random) as f64 / 1e9).collect();
            let average = times.iter().sum::<f64>() / times.len() as f64;
            assert!((average / mean - 1.0).abs() < 0.02, "{average}");
            assert!(times.iter().all(|time| (0.0..=10.0 * mean).contains(time)));
        }
        assert_eq!(Card::NewOrder.keying_ns(), 18_000_000_000);
    }
}
