//! A worker: one loop for every workload. It follows orders through the whole run, so that its connection stands while
//! other arms have their turn.

use super::slot::{Order, Seat, Window};
use crate::Workload;
use base::clock;
use base::error::{Class, Failure};
use record::{Evidence, Trail};
use std::rc::Rc;

/// An operation that is under way when its slice closes may still end, within this time, and is counted: leaving it
/// out would favour short ones. What takes longer is abandoned and counted nowhere.
const GRACE_NS: u64 = 1_000_000_000;
/// After a failure a worker waits, twice as long after each further one: a dead server must not make it spin.
const FIRST_PAUSE_NS: u64 = 1_000_000;
const LONGEST_PAUSE_NS: u64 = 100_000_000;

/// Follow orders for ever.
pub async fn work<W: Workload>(mut workload: W, seat: Rc<Seat>) {
    loop {
        let mut evidence = Evidence::default();
        match seat.order().await {
            Order::Prepare => prepare(&mut workload, &seat, &mut evidence).await,
            Order::Run(window) => run(&mut workload, &seat, &window, &mut evidence).await,
        }
        seat.log.borrow_mut().evidence.merge(evidence);
        seat.finish();
    }
}

async fn prepare<W: Workload>(workload: &mut W, seat: &Seat, evidence: &mut Evidence) {
    seat.reactor.set_deadline(clock::now() + seat.patience);
    if let Err(failure) = workload.prepare(evidence).await {
        seat.log.borrow_mut().failed(failure);
    }
}

async fn run<W: Workload>(workload: &mut W, seat: &Seat, window: &Window, evidence: &mut Evidence) {
    let mut trail = Trail::default();
    let mut pause = FIRST_PAUSE_NS;
    let mut now = clock::now();
    let last_call = window.closes_at() + GRACE_NS;
    loop {
        now = rest(workload.rest_ns(), seat, now, window.closes_at()).await;
        let Some(claimed) = window.claim(W::BATCH, now) else { return };
        if let Some(instant) = window.instant(claimed.start) {
            let Some(begun) = wait_for(seat, instant, now, window.closes_at()).await else { return };
            now = begun;
            trail.schedule(instant);
        }
        let operations = claimed.end - claimed.start;
        let patience_ends = now + seat.patience;
        seat.reactor.set_deadline(patience_ends.min(last_call));
        match workload.operate(claimed, &mut trail, evidence).await {
            Ok(()) => {
                seat.log.borrow_mut().succeeded(operations, &trail);
                now = trail.at();
                pause = FIRST_PAUSE_NS;
            }
            Err(failure) if failure.class == Class::Timeout && last_call < patience_ends => return,
            Err(failure) => {
                fail(seat, failure);
                seat.reactor.sleep_until((clock::now() + pause).min(window.closes_at())).await;
                now = clock::now();
                pause = (pause * 2).min(LONGEST_PAUSE_NS);
            }
        }
    }
}

/// Let the user take this long, at most until the window has closed; when that was.
async fn rest(lasts: u64, seat: &Seat, now: u64, closes_at: u64) -> u64 {
    if lasts == 0 {
        return now;
    }
    seat.reactor.sleep_until((now + lasts).min(closes_at)).await;
    clock::now()
}

/// Wait for an operation's instant; when it begins. None where that would be when the window has closed.
async fn wait_for(seat: &Seat, instant: u64, mut now: u64, closes_at: u64) -> Option<u64> {
    if instant >= closes_at {
        return None;
    }
    if instant > now {
        seat.reactor.sleep_until(instant).await;
        now = clock::now();
    }
    (now < closes_at).then_some(now)
}

fn fail(seat: &Seat, failure: Failure) {
    let mut log = seat.log.borrow_mut();
    log.failed(failure);
    log.ended(clock::now());
}
