//! Servers, certificates, and the runtime to meet them on.

pub mod authority;
pub mod counting;
pub mod engine;
pub mod http;
pub mod mysql;
pub mod server;

use costof_engine::border::{self, Verify};
use costof_engine::clock;
use costof_engine::error::Result;
use costof_engine::record::Trail;
use costof_engine::runtime::{Executor, Reactor};
use costof_engine::wire::{Client, Session, Target, mongodb, mysql as mysql_wire};
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// Long enough for any machine; no test waits for it.
pub const PATIENCE: u64 = 300_000_000_000;

/// Run a future to its end on a runtime of its own.
pub fn on_runtime<T: 'static, F: Future<Output = T>>(start: impl FnOnce(Rc<Reactor>) -> F + 'static) -> T {
    let mut executor = Executor::new().unwrap();
    let reactor = executor.reactor().clone();
    let outcome = Rc::new(RefCell::new(None));
    let place = outcome.clone();
    executor.spawn(async move {
        reactor.set_deadline(clock::now() + PATIENCE);
        let ended = start(reactor).await;
        *place.borrow_mut() = Some(ended);
    });
    executor.run_to_end().unwrap();
    outcome.take().unwrap()
}

/// The service of one server, without a user.
pub fn service(address: &str) -> border::MongodbService {
    border::MongodbService {
        addresses: vec![address.into()],
        replica_set: None,
        read_preference: border::ReadPreference::Primary,
        username: None,
        password: None,
        auth_source: "admin".into(),
        database: "ycsb".into(),
        collection: "usertable".into(),
        write_concern: None,
    }
}

/// TLS to a server whose authority this is.
pub fn tls(ca_file: &Path, version: Option<border::TlsVersion>, verify: Verify) -> border::Transport {
    let ca_file = Some(ca_file.into());
    let settings = border::Tls { ca_file, version, verify, resumption: false, cipher: None, security_level: None };
    border::Transport::Tls(settings)
}

/// Discover the service and open one measured session to it.
pub fn open(address: &str, transport: border::Transport) -> Result<(Trail, costof_engine::record::Connection)> {
    let settings = service(address);
    on_runtime(move |reactor| async move {
        let service = mongodb::Service::discover(&settings, &transport, &reactor, PATIENCE).await?;
        measured_session(mongodb::Client::new(Arc::new(service), reactor)).await
    })
}

/// The service of one MySQL server, for its one user.
pub fn mysql_service(address: &str, password: &str, statements: border::Statements) -> border::MysqlService {
    border::MysqlService {
        addresses: vec![address.into()],
        username: Some("u".into()),
        password: Some(password.into()),
        database: "sbtest".into(),
        table: "sbtest1".into(),
        statements,
        decryption: None,
    }
}

/// As `open`, to a MySQL server.
pub fn open_mysql(
    settings: &border::MysqlService,
    transport: border::Transport,
) -> Result<(Trail, costof_engine::record::Connection)> {
    let settings = settings.clone();
    on_runtime(move |reactor| async move {
        let service = mysql_wire::Service::discover(&settings, &transport, &reactor, PATIENCE).await?;
        measured_session(mysql_wire::Client::new(Arc::new(service), reactor)).await
    })
}

/// The service of one HTTP server.
pub fn http_service(address: &str) -> border::HttpService {
    border::HttpService {
        addresses: vec![address.into()],
        host: None,
        path: "/".into(),
        headers: Vec::new(),
        requests_per_connection: None,
        any_status: false,
    }
}

async fn measured_session(client: impl Client) -> Result<(Trail, costof_engine::record::Connection)> {
    let mut trail = Trail::default();
    let session = client.open(Target::Reader(0), &mut trail).await?;
    let connection = session.connection();
    session.close();
    Ok((trail, connection))
}
