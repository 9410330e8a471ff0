//! Tests that repeated operations allocate no memory. If each operation allocated memory, the allocations would add to
//! the measured time, and memory could grow.

use crate::decryption::{decrypting, encrypted};
use crate::support::authority::{Authority, VALID};
use crate::support::counting::allocations;
use crate::support::http::{Http, OK, Response};
use crate::support::mysql::{Mysql, PASSWORD};
use crate::support::postgres::Postgres;
use crate::support::redis::Redis;
use crate::support::server::{self, Behaviour};
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
use workload::{Data, Job, OPENING_AT_A_TIME, Share, Slot, Window, WorkerCommand, ycsb};

#[test]
fn plain_mongodb_query_allocates_no_memory() {
    assert_eq!(query_allocations(service(&server::start(Behaviour::Plain)), Transport::Plain {}), 0);
}

#[test]
fn plain_mysql_query_and_write_allocate_no_memory() {
    for without_eof in [true, false] {
        let address = Mysql { without_eof, ..Mysql::default() }.start();
        let (write, settings) =
            (json!({"name": "w", "kind": "write"}), mysql_service(&address, PASSWORD, Statements::Text));
        assert_eq!(extra_allocations(write, settings, Transport::Plain {}), 0);
        for statements in [Statements::Prepared, Statements::Text] {
            assert_eq!(query_allocations(mysql_service(&address, PASSWORD, statements), Transport::Plain {}), 0);
        }
    }
}

#[test]
fn query_with_decryption_allocates_no_memory() {
    for algorithm in Algorithm::ALL {
        let server = Mysql { answers: encrypted(algorithm, 3), ..Mysql::default() };
        let address = server.start();
        for statements in [Statements::Prepared, Statements::Text] {
            let settings = decrypting(mysql_service(&address, PASSWORD, statements));
            assert_eq!(query_allocations(settings, Transport::Plain {}), 0, "{algorithm}");
        }
    }
    let settings = decrypting(mysql_service(&Mysql::default().start(), PASSWORD, Statements::Prepared));
    assert_eq!(query_allocations(settings, Transport::Plain {}), 0);
}

#[test]
fn postgres_operations_allocate_no_memory() {
    let address = Postgres::default().start();
    for statements in [postgres::Statements::Prepared, postgres::Statements::Extended, postgres::Statements::Simple] {
        for kind in ["query", "pipeline", "tpcb"] {
            let settings = postgres::Settings { statements, ..postgres_service(&address) };
            let workload = json!({"name": kind, "kind": kind});
            assert_eq!(extra_allocations(workload, settings, Transport::Plain {}), 0, "{kind}, {statements:?}");
        }
    }
    assert_eq!(extra_allocations(mix(), postgres_service(&address), Transport::Plain {}), 0);
}

/// The test covers all kinds of operations except `load`, which has only few, large batches.
#[test]
fn redis_operations_allocate_no_memory() {
    let address = Redis::default().start();
    for resp in [2, 3] {
        let settings = redis::Settings { resp, ..redis_service(&address) };
        for workload in
            [query(), json!({"name": "w", "kind": "write"}), json!({"name": "p", "kind": "pipeline"}), mix()]
        {
            assert_eq!(extra_allocations(workload.clone(), settings.clone(), Transport::Plain {}), 0, "{workload}");
        }
        let waits = redis::Settings { wait_replicas: serde_json::from_value(json!(1)).unwrap(), ..settings };
        assert_eq!(extra_allocations(json!({"name": "w", "kind": "write"}), waits, Transport::Plain {}), 0);
    }
}

#[test]
fn http_request_allocates_no_memory() {
    let settings = http_service(&Http::start(Response::Bytes(OK)).address);
    let request = json!({"name": "request", "kind": "request"});
    assert_eq!(extra_allocations(request, settings, Transport::Plain {}), 0);
}

#[test]
fn query_over_tls_allocates_no_memory() {
    let authority = Authority::new();
    let acceptor = || Some(server::acceptor(&authority.identity("127.0.0.1", VALID), None));
    let behaviour = || server::tls(&authority.identity("127.0.0.1", VALID), None);
    let transport = || tls(&authority.file("allocation"), None, Verify::Full);
    assert_eq!(query_allocations(service(&server::start(behaviour())), transport()), 0);
    let address = Mysql { tls: acceptor(), ..Mysql::default() }.start();
    for statements in [Statements::Prepared, Statements::Text] {
        assert_eq!(query_allocations(mysql_service(&address, PASSWORD, statements), transport()), 0);
    }
    let address = Postgres { tls: acceptor(), ..Postgres::default() }.start();
    assert_eq!(query_allocations(postgres_service(&address), transport()), 0);
    let address = Redis { tls: acceptor(), ..Redis::default() }.start();
    assert_eq!(query_allocations(redis_service(&address), transport()), 0);
    let address = Http::start_over(behaviour(), Response::Bytes(OK)).address;
    let request = json!({"name": "request", "kind": "request"});
    assert_eq!(extra_allocations(request, http_service(&address), transport()), 0);
}

/// The test covers all kinds of YCSB operations. All values have the maximum length, so buffers do not grow.
#[test]
fn ycsb_operations_allocate_no_memory() {
    assert_eq!(extra_allocations(mix(), service(&server::start(Behaviour::Plain)), Transport::Plain {}), 0);
}

fn mix() -> Value {
    // The test server returns two records for every scan.
    let settings = json!({"record_count": 1000, "read_proportion": 0.2, "update_proportion": 0.2,
        "insert_proportion": 0.2, "scan_proportion": 0.2, "read_modify_write_proportion": 0.2, "read_all_fields": false,
        "min_scan_length": 2, "request_distribution": "latest"});
    json!({"name": "mix", "kind": "ycsb", "ycsb": settings})
}

fn query() -> Value {
    json!({"name": "query", "kind": "query"})
}

fn query_allocations(settings: impl Settings + 'static, transport: Transport) -> u64 {
    extra_allocations(query(), settings, transport)
}

/// Measure a slice (window) of 200 and one of 100 operations, with one worker. Return how many more allocations the
/// longer slice causes: 0 if operations do not allocate.
fn extra_allocations(workload: Value, settings: impl Settings + 'static, transport: Transport) -> u64 {
    let workloads = [serde_json::from_value(workload).unwrap()];
    let ycsb = ycsb::resolve(&workloads, Share::ALL, [settings.table()].into_iter()).unwrap()[0][0].clone();
    let service =
        on_runtime(move |reactor| async move { settings.discover(&transport, &reactor, TIMEOUT_NS).await }).unwrap();
    let mut executor = Executor::new().unwrap();
    let reactor = executor.reactor().clone();
    reactor.set_alone(true);
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
        slot.give(task, WorkerCommand::Run(Arc::new(Window::new(operations, 0, clock::now() + TIMEOUT_NS))));
        executor.run_until(|| busy.get() == 0).unwrap();
        allocations() - before
    };
    slice(100);
    let difference = slice(200) - slice(100);
    assert_eq!(log.borrow().operations, 400);
    difference
}
