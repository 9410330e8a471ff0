//! A repeated operation allocates nothing: it would be measured with the server's time, and memory would not be flat.

use crate::support::authority::{Authority, VALID};
use crate::support::counting::allocations;
use crate::support::server::{self, Manner};
use crate::support::{PATIENCE, on_runtime, service, tls};
use costof_engine::border::{Data, Transport, Verify};
use costof_engine::clock;
use costof_engine::drive::{Order, Seat, Window, work};
use costof_engine::record::SliceLog;
use costof_engine::runtime::Executor;
use costof_engine::wire::{Target, mongodb};
use costof_engine::workload::ycsb::Table;
use costof_engine::workload::{Query, Random};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

#[test]
fn a_plain_query_allocates_nothing() {
    assert_eq!(allocations_of_two_slices(server::start(Manner::Plain), Transport::Plain {}), 0);
}

#[test]
fn a_query_under_tls_allocates_nothing() {
    let authority = Authority::new();
    let address = server::start(server::tls(&authority.identity("127.0.0.1", VALID), None));
    let transport = tls(&authority.file("allocation"), None, Verify::Full);
    assert_eq!(allocations_of_two_slices(address, transport), 0);
}

/// How many more a slice of 2,000 queries allocates than one of 1,000, on the very loop that measures.
fn allocations_of_two_slices(address: String, transport: Transport) -> u64 {
    let settings = service(&address);
    let service = on_runtime(move |reactor| async move {
        mongodb::Service::discover(&settings, &transport, &reactor, PATIENCE).await
    });
    let mut executor = Executor::new().unwrap();
    let reactor = executor.reactor().clone();
    let log = Rc::new(RefCell::new(SliceLog::default()));
    let busy = Rc::new(Cell::new(0));
    let seat = Rc::new(Seat::new(reactor.clone(), log.clone(), busy.clone(), PATIENCE));
    let client = mongodb::Client::new(Arc::new(service.unwrap()), reactor);
    let table = Table::new(Data { records: 1000, fields: 10, field_length: 100 }, 1);
    let query = Query::new(client, Target::Reader(0), table, Random::new(1));
    let task = executor.spawn(work(query, seat.clone()));
    let mut slice = |operations| {
        let before = allocations();
        seat.give(task, Order::Run(Arc::new(Window::new(operations, clock::now() + PATIENCE))));
        executor.run_until(|| busy.get() == 0).unwrap();
        allocations() - before
    };
    slice(100);
    let difference = slice(2000) - slice(1000);
    assert_eq!(log.borrow().operations, 3100);
    difference
}
