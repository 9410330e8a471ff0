//! Workload `tpcc` with phase `run`: the transactions of a terminal (a simulated user). After a deadlock or a lock
//! timeout a transaction is rolled back and retried with the same input.
//!
//! The mix of transactions (clause 5.2.3) is dealt from a deck of cards, one card for each transaction. When the deck
//! is used up, it is shuffled again (clause 5.2.4.2). Keying and think times follow clause 5.2.5.

use super::numbers::{Constants, LastName, between};
use super::statements::{self, CUSTOMERS_WITH_NAME};
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

/// `ER_LOCK_WAIT_TIMEOUT`: the server rolled back the statement but not the transaction.
const LOCK_WAIT_TIMEOUT: u16 = 1205;
/// `ER_LOCK_DEADLOCK`: the server rolled back the transaction.
const DEADLOCK: u16 = 1213;

/// The warehouse and district of a terminal, and the number of all warehouses.
#[derive(Debug, Clone, Copy)]
pub struct Home {
    pub warehouse: u32,
    /// The district of the terminal's Stock-Level transactions (clause 2.8.1.1).
    pub district: u32,
    pub warehouses: u32,
}

impl Home {
    fn for_worker(worker: usize, warehouses: u32) -> Self {
        let (round, place) = (worker as u32 / warehouses, worker as u32 % warehouses);
        Home { warehouse: place + 1, district: round % DISTRICTS + 1, warehouses }
    }

    /// Draw a warehouse other than the terminal's, with equal probability. If there is no other warehouse, return the
    /// terminal's.
    pub fn other_warehouse(self, random: &mut Random) -> u32 {
        if self.warehouses == 1 {
            return self.warehouse;
        }
        let other = between(random, 1, self.warehouses - 1);
        if other < self.warehouse { other } else { other + 1 }
    }
}

/// The selection of a customer by a transaction: by number or by last name.
#[derive(Debug, Clone)]
pub enum CustomerSelection {
    Number(u32),
    Name(LastName),
}

impl CustomerSelection {
    /// Return the customer's number. To select by last name, sort all customers with this name by first name, and
    /// choose the one in the middle, rounded up (clause 2.5.2.2).
    /// Errors: those of the statement; class `protocol` if no customer has the name.
    pub async fn customer(
        &self,
        session: &mut impl Sql,
        (warehouse, district): (u32, u32),
        same_name: &mut Vec<i64>,
    ) -> Result<i64> {
        let name = match self {
            CustomerSelection::Number(number) => return Ok((*number).into()),
            CustomerSelection::Name(name) => name.as_bytes(),
        };
        same_name.clear();
        session
            .select(
                CUSTOMERS_WITH_NAME,
                |fill| fill.integer(warehouse.into()).integer(district.into()).text(name),
                |row| row.integer().map(|number| same_name.push(number)),
            )
            .await?;
        let middle = same_name.len().div_ceil(2);
        match same_name.get(middle.wrapping_sub(1)) {
            Some(number) => Ok(*number),
            None => {
                let name = String::from_utf8_lossy(name);
                Err(Failure::protocol(format!("no customer has the last name '{name}'; load the data")))
            }
        }
    }
}

/// The outcome of a transaction that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionEnd {
    Committed,
    /// The transaction was rolled back, as the specification requires (clause 2.4.1.4).
    RolledBack,
}

/// A transaction with its random input, so that it can be retried with the same input.
enum Request {
    NewOrder(NewOrder),
    Payment(Payment),
    OrderStatus(OrderStatus),
    Delivery(Delivery),
    StockLevel(StockLevel),
}

/// Buffers for the rows that transactions read. They are reused by all transactions of a terminal.
#[derive(Default)]
struct Buffers {
    new_order: NewOrderBuffers,
    payment: PaymentBuffers,
    same_name: Vec<i64>,
}

/// The identity of a terminal: the number of its worker, and the run's seed.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub worker: usize,
    /// The seed of the run. The constants of `NURand` depend on it.
    pub seed: u64,
}

/// One worker's part of the workload. It simulates the terminal of one user.
pub struct Terminal<C: Client> {
    connection: Connection<C>,
    home: Home,
    constants: Constants,
    keying: bool,
    deck: Deck,
    /// The next transaction, if the terminal has already waited for its keying time.
    next: Option<Card>,
    /// The think time after the last transaction in nanoseconds, if the terminal has not waited for it yet.
    thinks_ns: u64,
    random: Random,
    buffers: Buffers,
    tally: Transactions,
}

impl<C: Client<Session: Sql>> Terminal<C> {
    pub fn new(client: C, settings: &Settings, Place { worker, seed }: Place, random: Random) -> Self {
        let isolation = format!("SET SESSION TRANSACTION ISOLATION LEVEL {}", settings.isolation.sql());
        // With autocommit off, a transaction begins with its first statement, so no round trip for BEGIN is needed.
        let settings_sql = vec![isolation, "SET autocommit = 0".into()];
        Terminal {
            connection: Connection::with(client, statements::all(), settings_sql),
            home: Home::for_worker(worker, settings.warehouses),
            constants: Constants::draw(seed),
            keying: settings.keying,
            deck: Deck::new(),
            next: None,
            thinks_ns: 0,
            random,
            buffers: Buffers::default(),
            tally: Transactions::default(),
        }
    }

    fn draw(&mut self, card: Card) -> Request {
        let Terminal { home, constants, random, .. } = self;
        match card {
            Card::NewOrder => Request::NewOrder(NewOrder::draw(*home, constants, random)),
            Card::Payment => Request::Payment(Payment::draw(*home, constants, random)),
            Card::OrderStatus => Request::OrderStatus(OrderStatus::draw(*home, constants, random)),
            Card::Delivery => Request::Delivery(Delivery::draw(*home, random)),
            Card::StockLevel => Request::StockLevel(StockLevel::draw(*home, random)),
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
        let outcome = run(&request, &mut session, &mut self.buffers, &mut self.tally).await;
        timeline.end_phase(card.phase(), session.traffic());
        self.tally.statements += session.statements_sent() - before;
        let ended = self.connection.settle_transaction(session, outcome).await;
        match ended.map_err(|failure| failure.during(card.phase().name()))? {
            TransactionEnd::Committed => self.tally.committed[card as usize] += 1,
            TransactionEnd::RolledBack => self.tally.rolled_back += 1,
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

/// Run a transaction and return its outcome. After a deadlock or a lock timeout, run it again. Errors: all other errors
/// of the transaction, and those of the rollback.
async fn run(
    request: &Request,
    session: &mut impl Sql,
    buffers: &mut Buffers,
    tally: &mut Transactions,
) -> Result<TransactionEnd> {
    loop {
        let outcome = attempt(request, session, buffers).await;
        match outcome.as_ref().err().and_then(|failure| failure.code) {
            Some(DEADLOCK) => tally.deadlocks += 1,
            Some(LOCK_WAIT_TIMEOUT) => tally.lock_timeouts += 1,
            _ => return outcome,
        }
        session.execute("ROLLBACK").await?;
    }
}

async fn attempt(request: &Request, session: &mut impl Sql, buffers: &mut Buffers) -> Result<TransactionEnd> {
    let now = DateTime::from_unix(clock::unix() / 1_000_000_000);
    match request {
        Request::NewOrder(order) => order.run(session, &mut buffers.new_order, now).await,
        Request::Payment(payment) => payment.run(session, &mut buffers.payment, now).await,
        Request::OrderStatus(status) => status.run(session, &mut buffers.same_name).await,
        Request::Delivery(delivery) => delivery.run(session, now).await,
        Request::StockLevel(level) => level.run(session).await,
    }
}

/// Use a result that a terminal would display. Otherwise the compiler could remove the computation of the result.
pub fn display<T>(output: T) {
    black_box(output);
}

/// Check that a query returned exactly one row. `what` names the row's content in the message.
/// Errors: class `protocol` for another number of rows. The caller then closes the connection, so the server rolls the
/// transaction back.
pub fn one_row(rows: u64, what: &str) -> Result<()> {
    if rows == 1 {
        Ok(())
    } else {
        Err(Failure::protocol(format!("found {rows} rows instead of one {what}; load the data")))
    }
}

pub fn rows_changed(changed: u64, expected: u64, what: &str) -> Result<()> {
    if changed == expected {
        return Ok(());
    }
    Err(Failure::protocol(format!("the server changed {changed} rows of {what} instead of {expected}")))
}

/// A kind of transaction (clauses 2.4 to 2.8). Terminals draw the next one from a deck of cards (clause 5.2.4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Card {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

/// The number of cards of each kind in a deck of a hundred.
const COUNTS: [(Card, usize); 5] =
    [(Card::NewOrder, 45), (Card::Payment, 43), (Card::OrderStatus, 4), (Card::Delivery, 4), (Card::StockLevel, 4)];
const SECOND_NS: f64 = 1e9;
/// The maximum think time as a multiple of the mean (clause 5.2.5.4).
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

    /// Return the time in nanoseconds before the transaction, while the user enters its input (clause 5.2.5.2).
    pub fn keying_ns(self) -> u64 {
        let seconds = match self {
            Card::NewOrder => 18.0,
            Card::Payment => 3.0,
            Card::OrderStatus | Card::Delivery | Card::StockLevel => 2.0,
        };
        (seconds * SECOND_NS) as u64
    }

    /// Draw the exponentially distributed think time after the transaction, in nanoseconds (clause 5.2.5.4).
    pub fn think_ns(self, random: &mut Random) -> u64 {
        let mean = match self {
            Card::NewOrder | Card::Payment => 12.0,
            Card::OrderStatus => 10.0,
            Card::Delivery | Card::StockLevel => 5.0,
        };
        (mean * random.exponential().min(LONGEST_THINK) * SECOND_NS) as u64
    }
}

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

/// Shuffle the elements, so that every order has the same probability (Fisher and Yates).
pub fn shuffle<T>(things: &mut [T], random: &mut Random) {
    for last in (1..things.len()).rev() {
        things.swap(last, random.below(last as u64 + 1) as usize);
    }
}

/// The work on a new session before its first transaction: preparing statements and changing settings.
pub struct Statements {
    prepared: &'static [Statement],
    /// The statements that change settings. They are executed once on each new session.
    settings: Vec<String>,
}

impl<S: Sql> Preparation<S> for Statements {
    async fn prepare(&self, session: &mut S) -> Result<()> {
        session.prepare_all(self.prepared).await?;
        for setting in &self.settings {
            session.execute(setting).await?;
        }
        Ok(())
    }
}

/// A worker's persistent session, on which the statements are prepared.
pub type Connection<C> = Persistent<C, Statements>;

impl<C: Client<Session: Sql>> Connection<C> {
    pub fn with(client: C, prepared: &'static [Statement], settings: Vec<String>) -> Self {
        Persistent::new(client, Target::Writer, Statements { prepared, settings })
    }

    /// Keep the session for the next transaction, and return the outcome. If the server answered with an error, roll
    /// the transaction back first. After any other error the session's state is unknown, so close it instead. The
    /// server then rolls the transaction back.
    pub async fn settle_transaction<T>(&mut self, mut session: C::Session, outcome: Result<T>) -> Result<T> {
        let keep = match &outcome {
            Ok(_) => true,
            Err(failure) => failure.class == Class::Server && session.execute("ROLLBACK").await.is_ok(),
        };
        if keep {
            self.keep(session)
        } else {
            self.discard(session)
        }
        outcome
    }
}

/// The names of the counts of committed transactions, in the order of [`Card`].
const COMMITTED: [&str; 5] = [
    "tpcc.committed.new_order",
    "tpcc.committed.payment",
    "tpcc.committed.order_status",
    "tpcc.committed.delivery",
    "tpcc.committed.stock_level",
];

/// The counts of one terminal's transactions.
#[derive(Debug, Default)]
pub struct Transactions {
    /// The number of committed transactions of each kind. The index is the [`Card`].
    pub committed: [u64; COMMITTED.len()],
    /// The number of New-Order transactions that were rolled back as the specification requires (clause 2.4.1.4).
    pub rolled_back: u64,
    /// The number of statements sent to the server, including those of failed and retried transactions.
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
            (0..40).map(|worker| Home::for_worker(worker, 2)).map(|home| (home.warehouse, home.district)).collect();
        assert_eq!(homes[..4], [(1, 1), (2, 1), (1, 2), (2, 2)]);
        assert_eq!(homes[19], (2, 10));
        assert_eq!(homes[20], (1, 1), "districts are assigned again from the first");
    }

    #[test]
    fn remote_warehouse_differs_from_the_home_warehouse_if_there_are_several_warehouses() {
        let mut random = Random::new(1);
        let mut counts = [0; 5];
        (0..4000).for_each(|_| counts[Home::for_worker(2, 4).other_warehouse(&mut random) as usize] += 1);
        assert_eq!((counts[0], counts[3]), (0, 0));
        assert!([1, 2, 4].iter().all(|warehouse| (1200..1470).contains(&counts[*warehouse])), "{counts:?}");
        assert_eq!(Home::for_worker(7, 1).other_warehouse(&mut random), 1);
    }

    #[test]
    fn every_hundred_transactions_have_the_specified_mix() {
        let (mut deck, mut random) = (Deck::new(), Random::new(1));
        let mut previous = Vec::new();
        for _ in 0..20 {
            let dealt: Vec<_> = (0..100).map(|_| deck.deal(&mut random)).collect();
            for (card, count) in COUNTS {
                assert_eq!(dealt.iter().filter(|other| **other == card).count(), count, "{card:?}");
            }
            assert_ne!(previous, dealt, "the deck was not shuffled");
            previous = dealt;
        }
    }

    #[test]
    fn shuffle_puts_each_element_first_equally_often() {
        let mut random = Random::new(2);
        let mut firsts = [0; 5];
        for _ in 0..50_000 {
            let mut cards = [0, 1, 2, 3, 4];
            shuffle(&mut cards, &mut random);
            firsts[cards[0]] += 1;
            cards.sort_unstable();
            assert_eq!(cards, [0, 1, 2, 3, 4], "a card is missing");
        }
        assert!(firsts.iter().all(|count| (9_500..10_500).contains(count)), "{firsts:?}");
    }

    #[test]
    fn keying_and_think_times_follow_clause_5_2_5() {
        let mut random = Random::new(3);
        for (card, mean) in [(Card::NewOrder, 12.0), (Card::OrderStatus, 10.0), (Card::StockLevel, 5.0)] {
            let times: Vec<_> = (0..50_000).map(|_| card.think_ns(&mut random) as f64 / 1e9).collect();
            let average = times.iter().sum::<f64>() / times.len() as f64;
            assert!((average / mean - 1.0).abs() < 0.02, "{average}");
            assert!(times.iter().all(|time| (0.0..=10.0 * mean).contains(time)));
        }
        assert_eq!(Card::NewOrder.keying_ns(), 18_000_000_000);
    }
}
