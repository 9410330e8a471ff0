//! The parts that tests share: test servers, certificates, settings, and a runtime for clients.

pub mod authority;
pub mod counting;
pub mod engine;
pub mod gateway;
pub mod http;
pub mod mysql;
pub mod postgres;
pub mod redis;
pub mod server;

use base::Random;
use base::clock;
use base::error::Result;
use net::runtime::{Executor, Reactor};
use net::settings::Verify;
use record::Timeline;
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use wire::{OneServer, mongodb, mysql as mysql_wire, postgres as postgres_wire, redis as redis_wire};
use workload::pgbench::Bank;
use workload::{Ask, Client, Session, Target};

/// A timeout so long that no test reaches it, even on a slow machine.
pub const TIMEOUT_NS: u64 = 300_000_000_000;

pub fn on_runtime<T: 'static, F: Future<Output = T>>(start: impl FnOnce(Rc<Reactor>) -> F + 'static) -> T {
    let mut executor = Executor::new().unwrap();
    let reactor = executor.reactor().clone();
    let outcome = Rc::new(RefCell::new(None));
    let place = outcome.clone();
    executor.spawn(async move {
        reactor.set_deadline(clock::now() + TIMEOUT_NS);
        let ended = start(reactor).await;
        *place.borrow_mut() = Some(ended);
    });
    executor.run_to_end().unwrap();
    outcome.take().unwrap()
}

pub fn service(address: &str) -> wire::mongodb::Settings {
    wire::mongodb::Settings {
        addresses: vec![address.into()],
        replica_set: None,
        read_preference: wire::mongodb::ReadPreference::Primary,
        username: None,
        password: None,
        auth_source: "admin".into(),
        database: "ycsb".into(),
        collection: "usertable".into(),
        write_concern: None,
        journal: None,
    }
}

pub fn tls(ca_file: &Path, version: Option<net::settings::TlsVersion>, verify: Verify) -> net::settings::Transport {
    let ca_file = Some(ca_file.into());
    let settings = net::settings::Tls {
        ca_file,
        certificate_file: None,
        version,
        verify,
        resumption: false,
        cipher: None,
        security_level: None,
        group: None,
    };
    net::settings::Transport::Tls(settings)
}

pub fn open(address: &str, transport: net::settings::Transport) -> Result<(Timeline, record::Connection)> {
    let settings = service(address);
    on_runtime(move |reactor| async move {
        let service = mongodb::Service::discover(&settings, &transport, &reactor, TIMEOUT_NS).await?;
        measured_session(mongodb::Client::new(Arc::new(service), reactor)).await
    })
}

pub fn mysql_service(address: &str, password: &str, statements: wire::mysql::Statements) -> wire::mysql::Settings {
    wire::mysql::Settings {
        addresses: vec![address.into()],
        username: Some("u".into()),
        password: Some(password.into()),
        database: "sbtest".into(),
        table: "sbtest1".into(),
        statements,
        decryption: None,
    }
}

pub fn open_mysql(
    settings: &wire::mysql::Settings,
    transport: net::settings::Transport,
) -> Result<(Timeline, record::Connection)> {
    let settings = settings.clone();
    on_runtime(move |reactor| async move {
        let service = mysql_wire::Service::discover(&settings, &transport, &reactor, TIMEOUT_NS).await?;
        measured_session(wire::Client::new(Arc::new(service), reactor)).await
    })
}

pub fn postgres_service(address: &str) -> postgres_wire::Settings {
    postgres_wire::Settings {
        addresses: vec![address.into()],
        username: "u".into(),
        password: None,
        database: "d".into(),
        session: Default::default(),
        table_schema: None,
        table: "usertable".into(),
        scale: 1,
        statements: postgres_wire::Statements::Prepared,
        results: postgres_wire::Results::Text,
        negotiation: postgres_wire::Negotiation::Request,
        channel_binding: false,
    }
}

pub fn open_postgres(
    settings: &postgres_wire::Settings,
    transport: net::settings::Transport,
) -> Result<(Timeline, record::Connection)> {
    let settings = settings.clone();
    on_runtime(move |reactor| async move {
        let service = postgres_wire::Service::discover(&settings, &transport, &reactor, TIMEOUT_NS).await?;
        measured_session(wire::Client::new(Arc::new(service), reactor)).await
    })
}

pub fn query_postgres(settings: &postgres_wire::Settings) -> Result<()> {
    let settings = settings.clone();
    on_runtime(move |reactor| async move {
        let plain = net::settings::Transport::Plain {};
        let service = postgres_wire::Service::discover(&settings, &plain, &reactor, TIMEOUT_NS).await?;
        ask_once(service, reactor, &Bank::new(10, 1)).await
    })
}

pub fn redis_service(address: &str) -> redis_wire::Settings {
    redis_wire::Settings {
        addresses: vec![address.into()],
        tls_addresses: None,
        username: None,
        password: Some("p".into()),
        resp: 2,
        key_prefix: String::new(),
        value_bytes: 100,
        wait_replicas: None,
    }
}

pub fn open_redis(
    settings: &redis_wire::Settings,
    transport: net::settings::Transport,
) -> Result<(Timeline, record::Connection)> {
    let settings = settings.clone();
    on_runtime(move |reactor| async move {
        let service = redis_wire::Service::discover(&settings, &transport, &reactor, TIMEOUT_NS).await?;
        measured_session(wire::Client::new(Arc::new(service), reactor)).await
    })
}

pub fn query_redis(settings: &redis_wire::Settings) -> Result<()> {
    let settings = settings.clone();
    on_runtime(move |reactor| async move {
        let plain = net::settings::Transport::Plain {};
        let service = redis_wire::Service::discover(&settings, &plain, &reactor, TIMEOUT_NS).await?;
        ask_once(service, reactor, &redis_wire::Strings::new("", 10, 100)).await
    })
}

pub fn http_service(address: &str) -> wire::http::Settings {
    wire::http::Settings {
        addresses: vec![address.into()],
        host: None,
        path: "/".into(),
        headers: Vec::new(),
        body: None,
        requests_per_connection: None,
        any_status: false,
    }
}

async fn measured_session(client: impl Client) -> Result<(Timeline, record::Connection)> {
    let mut timeline = Timeline::default();
    let session = client.open(Target::Reader(0), &mut timeline).await?;
    let connection = session.connection();
    session.close();
    Ok((timeline, connection))
}

async fn ask_once<S>(service: S, reactor: Rc<Reactor>, about: &<S::Session as Ask>::About) -> Result<()>
where
    S: OneServer<Session: Ask<Tally = ()>>,
{
    let client = wire::Client::new(Arc::new(service), reactor);
    let mut session = client.open(Target::Reader(0), &mut Timeline::default()).await?;
    session.ask(about, &mut Random::new(1), &mut ()).await
}
