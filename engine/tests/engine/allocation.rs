//! A repeated operation allocates nothing: it would be measured with the server's time, and memory would not be flat.

use crate::support::authority::{Authority, VALID};
use crate::support::counting::allocations;
use crate::support::mysql::{Mysql, PASSWORD};
use crate::support::server::{self, Manner};
use crate::support::{PATIENCE, mysql_service, on_runtime, service, tls};
use costof_engine::border::{Data, Statements, Transport, Verify};
use costof_engine::clock;
use costof_engine::drive::{Order, Seat, Window, work};
use costof_engine::record::SliceLog;
use costof_engine::runtime::{Executor, Reactor};
use costof_engine::wire::{AboutOf, Client, KeyValue, Target, mongodb, mysql};
use costof_engine::workload::{Query, Random, Workload, sysbench, ycsb};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

#[test]
fn a_plain_query_allocates_nothing() {
    assert_eq!(of_mongodb(server::start(Manner::Plain), Transport::Plain {}), 0);
}

#[test]
fn a_query_under_tls_allocates_nothing() {
    let authority = Authority::new();
    let address = server::start(server::tls(&authority.identity("127.0.0.1", VALID), None));
    assert_eq!(of_mongodb(address, tls(&authority.file("allocation"), None, Verify::Full)), 0);
}

#[test]
fn a_plain_mysql_query_allocates_nothing() {
    for without_eof in [true, false] {
        let address = Mysql { without_eof, ..Mysql::default() }.start();
        assert_eq!(of_mysql(&address, Transport::Plain {}, Statements::Prepared), 0);
        assert_eq!(of_mysql(&address, Transport::Plain {}, Statements::Text), 0);
    }
}

#[test]
fn a_mysql_query_under_tls_allocates_nothing() {
    let authority = Authority::new();
    let Manner::Tls(acceptor) = server::tls(&authority.identity("127.0.0.1", VALID), None) else { panic!("TLS") };
    let address = Mysql { tls: Some(acceptor), ..Mysql::default() }.start();
    for statements in [Statements::Prepared, Statements::Text] {
        let transport = tls(&authority.file("mysql-allocation"), None, Verify::Full);
        assert_eq!(of_mysql(&address, transport, statements), 0);
    }
}

fn of_mongodb(address: String, transport: Transport) -> u64 {
    let settings = service(&address);
    let service = on_runtime(move |reactor| async move {
        mongodb::Service::discover(&settings, &transport, &reactor, PATIENCE).await
    });
    let service = Arc::new(service.unwrap());
    let table = ycsb::Table::new(Data { records: 1000, fields: 10, field_length: 100 }, 1);
    allocations_of_two_slices(|reactor| mongodb::Client::new(service, reactor), table)
}

fn of_mysql(address: &str, transport: Transport, statements: Statements) -> u64 {
    let settings = mysql_service(address, PASSWORD, statements);
    let service =
        on_runtime(
            move |reactor| async move { mysql::Service::discover(&settings, &transport, &reactor, PATIENCE).await },
        );
    let service = Arc::new(service.unwrap());
    let table = sysbench::Table::new(1_000_000_000, 1);
    allocations_of_two_slices(|reactor| mysql::Client::new(service, reactor), table)
}

/// Every operation of YCSB's, with values of its longest length from the first on.
#[test]
fn an_operation_of_ycsb_allocates_nothing() {
    let settings = service(&server::start(Manner::Plain));
    let service = on_runtime(move |reactor| async move {
        mongodb::Service::discover(&settings, &Transport::Plain {}, &reactor, PATIENCE).await
    });
    let service = Arc::new(service.unwrap());
    let settings = serde_json::json!({"record_count": 1000, "read_proportion": 0.2, "update_proportion": 0.2,
        "insert_proportion": 0.2, "scan_proportion": 0.2, "read_modify_write_proportion": 0.2, "read_all_fields": false,
        "request_distribution": "latest"});
    let core = ycsb::Core::new(&serde_json::from_value(settings).unwrap()).unwrap();
    let shared = ycsb::Shared { sequence: Arc::default(), turn: Arc::default() };
    shared.sequence.begin_at_least(1000);
    let difference = allocations_of(|reactor| {
        ycsb::Ycsb::new(mongodb::Client::new(service, reactor), 0, core, shared, Random::new(1))
    });
    assert_eq!(difference, 0);
}

fn allocations_of_two_slices<C>(client: impl FnOnce(Rc<Reactor>) -> C, table: AboutOf<C>) -> u64
where
    C: Client<Session: KeyValue>,
{
    allocations_of(|reactor| Query::new(client(reactor), Target::Reader(0), table, Random::new(1)))
}

/// How many more a slice of 2,000 operations allocates than one of 1,000, on the very loop that measures.
fn allocations_of<W: Workload>(workload: impl FnOnce(Rc<Reactor>) -> W) -> u64 {
    let mut executor = Executor::new().unwrap();
    let reactor = executor.reactor().clone();
    let log = Rc::new(RefCell::new(SliceLog::default()));
    let busy = Rc::new(Cell::new(0));
    let seat = Rc::new(Seat::new(reactor.clone(), log.clone(), busy.clone(), PATIENCE));
    let task = executor.spawn(work(workload(reactor), seat.clone()));
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
