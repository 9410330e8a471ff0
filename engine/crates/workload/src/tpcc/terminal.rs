//! `tpcc` with phase `run`: a terminal's transactions, one after the other. A transaction that met a deadlock, or waited for
//! a lock for too long, is rolled back and begun again with the same input.

use super::DISTRICTS;
use super::connection::Connection;
use super::deck::{Card, Deck};
use super::delivery::Delivery;
use super::names::LastName;
use super::new_order::{NewOrder, NewOrderBuffers};
use super::numbers::{Constants, between};
use super::order_status::OrderStatus;
use super::payment::{Payment, PaymentBuffers};
use super::statements::{self, NAMESAKES};
use super::stock_level::StockLevel;
use super::transactions::Transactions;
use crate::Workload;
use crate::client::{Client, Session};
use crate::sql::{DateTime, Parameters, Row, Sql};
use crate::tpcc::Settings;
use base::Random;
use base::clock;
use base::error::{Failure, Result};
use record::{Counts, Evidence, Tally, Timeline};
use std::hint::black_box;
use std::ops::Range;

/// `ER_LOCK_WAIT_TIMEOUT`: the statement was undone, not the transaction.
const LOCK_WAIT_TIMEOUT: u16 = 1205;
/// `ER_LOCK_DEADLOCK`: the transaction was undone.
const DEADLOCK: u16 = 1213;

/// Where a terminal stands.
#[derive(Debug, Clone, Copy)]
pub struct Home {
    /// From 1.
    pub warehouse: u32,
    /// Of its Stock-Levels (clause 2.8.1.1).
    pub district: u32,
    pub warehouses: u32,
}

impl Home {
    /// Of a worker, by its number from 0.
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
    /// `random` chooses everything but the constants.
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

/// As many rows were changed as should be.
pub fn rows_changed(changed: u64, expected: u64, what: &str) -> Result<()> {
    if changed == expected {
        return Ok(());
    }
    Err(Failure::protocol(format!("{changed} rows of {what} were changed, where {expected} should be")))
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
}
