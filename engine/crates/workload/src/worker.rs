//! A worker: one loop for every workload. It follows orders through the whole run, so that its connection stands while
//! other arms have their turn.

use super::slot::{Order, Slot, Window};
use crate::Workload;
use crate::think::Think;
use base::clock;
use base::error::{Class, Failure};
use record::{Evidence, Timeline};
use std::rc::Rc;

/// An operation that is under way when its slice closes may still end, within this time, and is counted: leaving it
/// out would favour short ones. What takes longer is abandoned: an error of a class of its own, with its age. An
/// operation of several in a row has as many times as long.
const GRACE_NS: u64 = 1_000_000_000;
/// After a failure a worker waits, twice as long after each further one: a dead server must not make it spin.
const FIRST_PAUSE_NS: u64 = 1_000_000;
const LONGEST_PAUSE_NS: u64 = 100_000_000;

/// Follow orders for ever.
pub async fn work<W: Workload>(mut workload: W, slot: Rc<Slot>, mut think: Think) {
    loop {
        let mut evidence = Evidence::default();
        match slot.order().await {
            Order::Prepare { reconnect } => {
                if reconnect {
                    workload.disconnect();
                }
                prepare(&mut workload, &slot, &mut evidence).await;
            }
            Order::Run(window) => run(&mut workload, &slot, &window, &mut think, &mut evidence).await,
        }
        let mut log = slot.log.borrow_mut();
        log.evidence.merge(evidence);
        workload.take_counts(&mut log.counts);
        slot.finish();
    }
}

async fn prepare<W: Workload>(workload: &mut W, slot: &Slot, evidence: &mut Evidence) {
    slot.reactor.set_deadline(clock::now() + slot.timeout_ns);
    if let Err(failure) = workload.prepare(evidence).await {
        slot.log.borrow_mut().failed(failure);
    }
}

async fn run<W: Workload>(workload: &mut W, slot: &Slot, window: &Window, think: &mut Think, evidence: &mut Evidence) {
    let mut timeline = Timeline::default();
    let mut pause = FIRST_PAUSE_NS;
    let mut now = opened(slot, window).await;
    let mut began = false;
    let in_a_row = workload.in_a_row();
    let last_call = window.closes_at() + GRACE_NS * in_a_row;
    loop {
        if window.rests() {
            now = rest(workload.rest_ns() + think.next_ns(), slot, now, window.closes_at()).await;
        }
        let Some(claimed) = window.claim(W::BATCH, now) else { return };
        if let Some(instant) = window.instant(claimed.start) {
            let Some(begun) = wait_for(slot, instant, now, window.closes_at()).await else { return };
            now = begun;
            timeline.schedule(instant);
        }
        if !began {
            slot.log.borrow_mut().began(now);
            began = true;
        }
        let operations = claimed.end - claimed.start;
        let times_out_at = now + slot.timeout_ns * in_a_row;
        slot.reactor.set_deadline(times_out_at.min(last_call));
        match workload.operate(claimed, &mut timeline, evidence).await {
            Ok(()) => {
                let mut log = slot.log.borrow_mut();
                log.succeeded(operations, &timeline);
                workload.record_further(&mut log.recorder);
                now = timeline.at();
                pause = FIRST_PAUSE_NS;
            }
            Err(failure) if failure.class == Class::Timeout && last_call < times_out_at => {
                return fail(slot, abandoned(clock::now() - now));
            }
            Err(failure) => {
                fail(slot, failure);
                slot.reactor.sleep_until((clock::now() + pause).min(window.closes_at())).await;
                now = clock::now();
                pause = (pause * 2).min(LONGEST_PAUSE_NS);
            }
        }
    }
}

/// Wait until the window has opened; when that was seen.
async fn opened(slot: &Slot, window: &Window) -> u64 {
    let now = clock::now();
    if now >= window.opens_at() {
        return now;
    }
    slot.reactor.sleep_until(window.opens_at()).await;
    clock::now()
}

/// Let the user take this long, at most until the window has closed; when that was.
async fn rest(lasts: u64, slot: &Slot, now: u64, closes_at: u64) -> u64 {
    if lasts == 0 {
        return now;
    }
    slot.reactor.sleep_until((now + lasts).min(closes_at)).await;
    clock::now()
}

/// Wait for an operation's instant; when it begins. None where that would be when the window has closed.
async fn wait_for(slot: &Slot, instant: u64, mut now: u64, closes_at: u64) -> Option<u64> {
    if instant >= closes_at {
        return None;
    }
    if instant > now {
        slot.reactor.sleep_until(instant).await;
        now = clock::now();
    }
    (now < closes_at).then_some(now)
}

fn abandoned(age_ns: u64) -> Failure {
    let age = age_ns as f64 / 1e9;
    Failure::new(Class::Abandoned, format!("no answer after {age:.1} s, when its slice had to be closed"))
}

fn fail(slot: &Slot, failure: Failure) {
    let mut log = slot.log.borrow_mut();
    log.failed(failure);
    log.ended(clock::now());
}
