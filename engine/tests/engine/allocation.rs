//! A repeated operation allocates nothing: it would be measured with the server's time, and memory would not be flat.

use crate::decryption::{decrypting, encrypted};
use crate::support::authority::{Authority, VALID};
use crate::support::counting::allocations;
use crate::support::http::{Http, OK, Says};
use crate::support::mysql::{Mysql, PASSWORD};
use crate::support::server::{self, Manner};
use crate::support::{TIMEOUT_NS, http_service, mysql_service, on_runtime, service, tls};
use base::Random;
use base::clock;
use encryption::Algorithm;
use net::runtime::{Executor, Reactor, Semaphore};
use net::settings::{Transport, Verify};
use record::SliceLog;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use wire::mysql::Statements;
use wire::{http, mongodb, mysql};
use workload::Data;
use workload::{AboutOf, Ask, Client, Target};
use workload::{OPENING_AT_A_TIME, Order, Slot, Window, work};
use workload::{Query, Request, Workload, sysbench, ycsb};

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

/// Neither where a gateway encrypts nor where it does not.
#[test]
fn a_query_that_is_decrypted_allocates_nothing() {
    for algorithm in Algorithm::ALL {
        let server = Mysql { answers: encrypted(algorithm, 3), ..Mysql::default() };
        let address = server.start();
        for statements in [Statements::Prepared, Statements::Text] {
            let settings = decrypting(mysql_service(&address, PASSWORD, statements));
            assert_eq!(of_mysql_service(settings, Transport::Plain {}), 0, "{algorithm}");
        }
    }
    let settings = decrypting(mysql_service(&Mysql::default().start(), PASSWORD, Statements::Prepared));
    assert_eq!(of_mysql_service(settings, Transport::Plain {}), 0);
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

#[test]
fn a_request_allocates_nothing() {
    let settings = http_service(&Http::start(Says::Bytes(OK)).address);
    assert_eq!(of_http(settings, Transport::Plain {}), 0);
}

#[test]
fn a_request_under_tls_allocates_nothing() {
    let authority = Authority::new();
    let manner = server::tls(&authority.identity("127.0.0.1", VALID), None);
    let settings = http_service(&Http::start_over(manner, Says::Bytes(OK)).address);
    assert_eq!(of_http(settings, tls(&authority.file("http-allocation"), None, Verify::Full)), 0);
}

/// Every operation of YCSB's, with values of their longest length from the first on.
#[test]
fn an_operation_of_ycsb_allocates_nothing() {
    let settings = service(&server::start(Manner::Plain));
    let service = on_runtime(move |reactor| async move {
        mongodb::Service::discover(&settings, &Transport::Plain {}, &reactor, TIMEOUT_NS).await
    });
    let service = Arc::new(service.unwrap());
    // This server finds two records, however many are asked for.
    let settings = serde_json::json!({"record_count": 1000, "read_proportion": 0.2, "update_proportion": 0.2,
        "insert_proportion": 0.2, "scan_proportion": 0.2, "read_modify_write_proportion": 0.2, "read_all_fields": false,
        "min_scan_length": 2, "request_distribution": "latest"});
    let core = ycsb::Core::new(&serde_json::from_value(settings).unwrap()).unwrap();
    let shared = ycsb::Shared { sequence: Arc::default(), turn: Arc::default() };
    shared.sequence.begin_at_least(1000);
    let difference = allocations_of_two_slices(|reactor| {
        ycsb::Ycsb::new(mongodb::Client::new(service, reactor), 0, core, shared, Random::new(1))
    });
    assert_eq!(difference, 0);
}

fn of_http(settings: http::Settings, transport: Transport) -> u64 {
    let service =
        on_runtime(
            move |reactor| async move { http::Service::discover(&settings, &transport, &reactor, TIMEOUT_NS).await },
        );
    let service = Arc::new(service.unwrap());
    allocations_of_two_slices(|reactor| {
        let semaphore = Rc::new(Semaphore::new(reactor.clone(), OPENING_AT_A_TIME));
        Request::new(http::Client::new(service, reactor, semaphore), 0)
    })
}

fn of_mongodb(address: String, transport: Transport) -> u64 {
    let settings = service(&address);
    let service = on_runtime(move |reactor| async move {
        mongodb::Service::discover(&settings, &transport, &reactor, TIMEOUT_NS).await
    });
    let service = Arc::new(service.unwrap());
    let table = ycsb::Table::new(Data { records: 1000, fields: 10, field_length: 100 }, 1);
    allocations_of_two_slices(|reactor| query(mongodb::Client::new(service, reactor), table))
}

fn of_mysql(address: &str, transport: Transport, statements: Statements) -> u64 {
    of_mysql_service(mysql_service(address, PASSWORD, statements), transport)
}

fn of_mysql_service(settings: mysql::Settings, transport: Transport) -> u64 {
    let service = on_runtime(move |reactor| async move {
        mysql::Service::discover(&settings, &transport, &reactor, TIMEOUT_NS).await
    });
    let service = Arc::new(service.unwrap());
    let table = sysbench::Table::new(1_000_000_000, 1);
    allocations_of_two_slices(|reactor| query(mysql::Client::new(service, reactor), table))
}

fn query<C: Client<Session: Ask>>(client: C, table: AboutOf<C>) -> Query<C> {
    Query::new(client, Target::Reader(0), table, Random::new(1))
}

/// How many more a slice of 2,000 operations allocates than one of 1,000, on the very loop that measures.
fn allocations_of_two_slices<W: Workload>(spawn: impl FnOnce(Rc<Reactor>) -> W) -> u64 {
    let mut executor = Executor::new().unwrap();
    let reactor = executor.reactor().clone();
    let log = Rc::new(RefCell::new(SliceLog::default()));
    let busy = Rc::new(Cell::new(0));
    let slot = Rc::new(Slot::new(reactor.clone(), log.clone(), busy.clone(), TIMEOUT_NS));
    let task = executor.spawn(work(spawn(reactor), slot.clone()));
    let mut slice = |operations| {
        let before = allocations();
        slot.give(task, Order::Run(Arc::new(Window::new(operations, clock::now() + TIMEOUT_NS))));
        executor.run_until(|| busy.get() == 0).unwrap();
        allocations() - before
    };
    slice(100);
    let difference = slice(2000) - slice(1000);
    assert_eq!(log.borrow().operations, 3100);
    difference
}
