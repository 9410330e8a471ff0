//! A repeated operation allocates nothing: it would be measured with the server's time, and memory would not be flat.

use crate::decryption::{decrypting, encrypted};
use crate::support::authority::{Authority, VALID};
use crate::support::counting::allocations;
use crate::support::http::{Http, OK, Says};
use crate::support::mysql::{Mysql, PASSWORD};
use crate::support::postgres::Postgres;
use crate::support::redis::Redis;
use crate::support::server::{self, Manner};
use crate::support::{
    TIMEOUT_NS, http_service, mysql_service, on_runtime, postgres_service, redis_service, service, tls,
};
use base::Random;
use base::clock;
use encryption::Algorithm;
use net::runtime::{Executor, Semaphore};
use net::settings::{Transport, Verify};
use record::SliceLog;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use wire::mysql::Statements;
use wire::{Settings, postgres, redis};
use workload::{Data, Job, OPENING_AT_A_TIME, Order, Share, Slot, Window, ycsb};

#[test]
fn a_plain_query_allocates_nothing() {
    assert_eq!(of_queries(service(&server::start(Manner::Plain)), Transport::Plain {}), 0);
}

#[test]
fn a_plain_mysql_query_allocates_nothing() {
    for without_eof in [true, false] {
        let address = Mysql { without_eof, ..Mysql::default() }.start();
        for statements in [Statements::Prepared, Statements::Text] {
            assert_eq!(of_queries(mysql_service(&address, PASSWORD, statements), Transport::Plain {}), 0);
        }
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
            assert_eq!(of_queries(settings, Transport::Plain {}), 0, "{algorithm}");
        }
    }
    let settings = decrypting(mysql_service(&Mysql::default().start(), PASSWORD, Statements::Prepared));
    assert_eq!(of_queries(settings, Transport::Plain {}), 0);
}

#[test]
fn a_postgres_operation_allocates_nothing() {
    let address = Postgres::default().start();
    for statements in [postgres::Statements::Prepared, postgres::Statements::Extended, postgres::Statements::Simple] {
        for kind in ["query", "pipeline", "tpcb"] {
            let settings = postgres::Settings { statements, ..postgres_service(&address) };
            let workload = json!({"name": kind, "kind": kind});
            assert_eq!(allocations_of(workload, settings, Transport::Plain {}), 0, "{kind}, {statements:?}");
        }
    }
    assert_eq!(allocations_of(mix(), postgres_service(&address), Transport::Plain {}), 0);
}

/// Of every kind but the load, whose batches are as large as they are few.
#[test]
fn a_redis_operation_allocates_nothing() {
    let address = Redis::default().start();
    for resp in [2, 3] {
        let settings = redis::Settings { resp, ..redis_service(&address) };
        for workload in
            [query(), json!({"name": "w", "kind": "write"}), json!({"name": "p", "kind": "pipeline"}), mix()]
        {
            assert_eq!(allocations_of(workload.clone(), settings.clone(), Transport::Plain {}), 0, "{workload}");
        }
    }
}

#[test]
fn a_request_allocates_nothing() {
    let settings = http_service(&Http::start(Says::Bytes(OK)).address);
    let request = json!({"name": "request", "kind": "request"});
    assert_eq!(allocations_of(request, settings, Transport::Plain {}), 0);
}

#[test]
fn a_query_under_tls_allocates_nothing() {
    let authority = Authority::new();
    let manner = || server::tls(&authority.identity("127.0.0.1", VALID), None);
    let acceptor = || match manner() {
        Manner::Tls(acceptor) => Some(acceptor),
        _ => panic!("TLS"),
    };
    let transport = || tls(&authority.file("allocation"), None, Verify::Full);
    assert_eq!(of_queries(service(&server::start(manner())), transport()), 0);
    let address = Mysql { tls: acceptor(), ..Mysql::default() }.start();
    for statements in [Statements::Prepared, Statements::Text] {
        assert_eq!(of_queries(mysql_service(&address, PASSWORD, statements), transport()), 0);
    }
    let address = Postgres { tls: acceptor(), ..Postgres::default() }.start();
    assert_eq!(of_queries(postgres_service(&address), transport()), 0);
    let address = Redis { tls: acceptor(), ..Redis::default() }.start();
    assert_eq!(of_queries(redis_service(&address), transport()), 0);
    let address = Http::start_over(manner(), Says::Bytes(OK)).address;
    let request = json!({"name": "request", "kind": "request"});
    assert_eq!(allocations_of(request, http_service(&address), transport()), 0);
}

/// Every operation of YCSB's, with values of their longest length from the first on.
#[test]
fn an_operation_of_ycsb_allocates_nothing() {
    assert_eq!(allocations_of(mix(), service(&server::start(Manner::Plain)), Transport::Plain {}), 0);
}

fn mix() -> Value {
    // A server that finds two records, however many are asked for, will do.
    let settings = json!({"record_count": 1000, "read_proportion": 0.2, "update_proportion": 0.2,
        "insert_proportion": 0.2, "scan_proportion": 0.2, "read_modify_write_proportion": 0.2, "read_all_fields": false,
        "min_scan_length": 2, "request_distribution": "latest"});
    json!({"name": "mix", "kind": "ycsb", "ycsb": settings})
}

fn query() -> Value {
    json!({"name": "query", "kind": "query"})
}

fn of_queries(settings: impl Settings + 'static, transport: Transport) -> u64 {
    allocations_of(query(), settings, transport)
}

/// How many more a slice of 2,000 operations allocates than one of 1,000, by one worker as the engine spawns it.
fn allocations_of(workload: Value, settings: impl Settings + 'static, transport: Transport) -> u64 {
    let workloads = [serde_json::from_value(workload).unwrap()];
    let ycsb = ycsb::resolve(&workloads, Share::ALL, [settings.table()].into_iter()).unwrap()[0][0].clone();
    let service =
        on_runtime(move |reactor| async move { settings.discover(&transport, &reactor, TIMEOUT_NS).await }).unwrap();
    let mut executor = Executor::new().unwrap();
    let reactor = executor.reactor().clone();
    let log = Rc::new(RefCell::new(SliceLog::default()));
    let busy = Rc::new(Cell::new(0));
    let slot = Rc::new(Slot::new(reactor.clone(), log.clone(), busy.clone(), TIMEOUT_NS));
    let task = service.spawn(Job {
        executor: &mut executor,
        slot: slot.clone(),
        worker: 0,
        workload: &workloads[0],
        data: Data { records: 1_000_000_000, fields: 10, field_length: 100 },
        seed: 1,
        random: Random::new(1),
        opening: Rc::new(Semaphore::new(reactor, OPENING_AT_A_TIME)),
        ycsb,
    });
    let mut slice = |operations| {
        let before = allocations();
        slot.give(task, Order::Run(Arc::new(Window::new(operations, 0, clock::now() + TIMEOUT_NS))));
        executor.run_until(|| busy.get() == 0).unwrap();
        allocations() - before
    };
    slice(100);
    let difference = slice(2000) - slice(1000);
    assert_eq!(log.borrow().operations, 3100);
    difference
}
