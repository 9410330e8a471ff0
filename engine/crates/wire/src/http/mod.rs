//! HTTP/1.1 (RFC 9110, RFC 9112) in its simplest form: one request at a time on a connection, without pipelining and
//! redirects. Bodies are counted and discarded. Host names are resolved only once, before the measurements.

mod request;
mod response;
mod session;

pub use session::Session;

use crate::one_server::after_last_step;
use crate::{Discovery, Facts, Protocol};
use base::error::{Class, Failure, Result};
use base::{Secret, clock};
use net::runtime::resolve::resolve;
use net::runtime::{Reactor, Semaphore, TaskId};
use net::settings;
use net::transport::{Address, Stream, Transport};
use record::Timeline;
use request::Request;
use serde::Deserialize;
use serde_json::json;
use session::Responses;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::Arc;
use workload::{Job, Kind, REQUESTS, Requests, Target};

/// The location of an HTTP service, and the request to send.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The possible addresses of the server, such as `web1:443`. The first one that accepts a TCP connection is used.
    pub addresses: Vec<String>,
    /// The value of the Host header. If absent, it is the server's address.
    pub host: Option<String>,
    /// The path and query of the request, such as `/items?id=7`.
    pub path: String,
    /// Additional header fields, such as `Accept: text/html`.
    #[serde(default)]
    pub headers: Vec<Secret>,
    /// The body of a POST request. If absent, the request is a GET. The media type of the body belongs in `headers`,
    /// such as `Content-Type: application/json`.
    pub body: Option<String>,
    /// The number of requests after which the client closes a connection. If absent, the server decides.
    pub requests_per_connection: Option<NonZeroU64>,
    /// True if responses with a status other than 2xx count as successes too.
    #[serde(default)]
    pub any_status: bool,
}

/// The protocol of HTTP/1.1 servers, and of load balancers in front of them.
pub const PROTOCOL: Protocol = Protocol::of::<Settings>("http", REQUESTS);

impl crate::Settings for Settings {
    fn check(&self, _kinds: &[Kind]) -> Result<()> {
        request::check(self)
    }

    fn is_persistent(&self, kind: Kind) -> bool {
        kind != Kind::Connect && self.requests_per_connection.is_none_or(|limit| limit.get() > 1)
    }

    fn discover<'a>(
        &'a self,
        transport: &'a settings::Transport,
        reactor: &'a Rc<Reactor>,
        timeout_ns: u64,
    ) -> Discovery<'a> {
        crate::discovery(Service::discover(self, transport, reactor, timeout_ns))
    }
}

const PLAIN_PORT: u16 = 80;
const TLS_PORT: u16 = 443;

/// The server to which the client connects, and the request to send.
pub struct Service {
    transport: Transport,
    address: Address,
    place: SocketAddr,
    request: Request,
    requests_per_connection: Option<NonZeroU64>,
    any_status: bool,
    first_response: FirstResponse,
}

/// Properties of the server's first response. The client requests it before the measurements, to check the server.
#[derive(Default)]
struct FirstResponse {
    body_length: u64,
    software: Option<String>,
}

impl Service {
    pub async fn discover(
        settings: &Settings,
        transport: &net::settings::Transport,
        reactor: &Rc<Reactor>,
        timeout_ns: u64,
    ) -> Result<Self> {
        let transport = Transport::for_many(transport)?;
        let mut outcome = Err(Failure::new(Class::Plan, "the service has no address"));
        for text in &settings.addresses {
            let address = Address::parse(text, default_port(&transport))?;
            reactor.set_deadline(clock::now() + timeout_ns);
            let mut timeline = Timeline::default();
            match reach(reactor, &address, &mut timeline).await {
                Ok((stream, place)) => {
                    let request = Request::new(settings, &authority(&address, default_port(&transport)))?;
                    let Settings { requests_per_connection, any_status, .. } = *settings;
                    let service = Service {
                        transport,
                        address: address.clone(),
                        place,
                        request,
                        requests_per_connection,
                        any_status,
                        first_response: FirstResponse::default(),
                    };
                    let result = service.check_server(stream, reactor, &mut timeline).await;
                    return result.map_err(|failure| after_last_step(failure, &timeline, timeout_ns).with(&address));
                }
                Err(failure) => outcome = Err(after_last_step(failure, &timeline, timeout_ns).with(&address)),
            }
        }
        outcome
    }

    async fn check_server(self, stream: Stream, reactor: &Rc<Reactor>, timeline: &mut Timeline) -> Result<Self> {
        let service = Arc::new(self);
        let first_response = service.request_once(stream, reactor, timeline).await?;
        let service = Arc::into_inner(service).expect("the session has ended");
        Ok(Service { first_response, ..service })
    }

    async fn request_once(
        self: &Arc<Self>,
        stream: Stream,
        reactor: &Rc<Reactor>,
        timeline: &mut Timeline,
    ) -> Result<FirstResponse> {
        let stream = self.secure(stream, timeline).await?;
        let mut session = Session::new(self.clone(), reactor.clone(), stream);
        let mut tally = Responses::default();
        let outcome = session.request(true, &mut tally, |_| {}).await;
        outcome.map_err(|failure| if session.is_plain_and_silent() { plain_refused(failure) } else { failure })?;
        let first_response = FirstResponse { body_length: tally.body_bytes, software: session.software() };
        workload::Session::end(session).await;
        Ok(first_response)
    }

    async fn secure(&self, stream: Stream, timeline: &mut Timeline) -> Result<Stream> {
        match &self.transport {
            Transport::Plain => Ok(stream),
            Transport::Tls(_) => stream.secure(&self.transport, &self.address, timeline).await,
        }
    }
}

impl crate::Service for Service {
    fn first_reader(&self) -> String {
        self.address.to_string()
    }

    fn spawn(self: Arc<Self>, job: Job<'_>) -> TaskId {
        let client = Client::new(self, job.reactor(), job.opening.clone());
        job.requests(client)
    }

    fn facts(&self) -> Facts {
        Facts::from([
            ("body_length", json!(self.first_response.body_length)),
            ("software", json!(self.first_response.software)),
        ])
    }
}

fn default_port(transport: &Transport) -> u16 {
    match transport {
        Transport::Plain => PLAIN_PORT,
        Transport::Tls(_) => TLS_PORT,
    }
}

/// Return the header Host for an address (RFC 9110, 7.2): `shop.example` for `shop.example:443` under TLS.
fn authority(address: &Address, default_port: u16) -> String {
    let whole = address.to_string();
    match whole.strip_suffix(&format!(":{default_port}")) {
        Some(host) => host.into(),
        None => whole,
    }
}

async fn reach(reactor: &Rc<Reactor>, address: &Address, timeline: &mut Timeline) -> Result<(Stream, SocketAddr)> {
    let places = match address.literal() {
        Some(known) => vec![known],
        None => resolve(reactor, address.host(), address.port()).await?,
    };
    let mut outcome = Err(Failure::closed());
    for place in places {
        match Stream::reach(reactor, place, timeline).await {
            Ok(stream) => return Ok((stream, place)),
            Err(failure) => outcome = Err(failure),
        }
    }
    outcome
}

/// Convert a failure to `PlainRefused` if the server closed the client's first plain connection without an answer: the
/// server probably requires TLS. Return other failures unchanged.
fn plain_refused(failure: Failure) -> Failure {
    match failure.class {
        Class::Closed | Class::Reset => {
            let detail = "the server closed the connection instead of answering a plain request: it may require TLS";
            Failure::new(Class::PlainRefused, detail)
        }
        _ => failure,
    }
}

/// The client of one worker (a task that executes operations). It opens the worker's connections.
pub struct Client {
    service: Arc<Service>,
    reactor: Rc<Reactor>,
    opening: Rc<Semaphore>,
}

impl Client {
    pub fn new(service: Arc<Service>, reactor: Rc<Reactor>, opening: Rc<Semaphore>) -> Self {
        Client { service, reactor, opening }
    }
}

impl workload::Client for Client {
    type Session = Session;

    fn requests_per_connection(&self) -> Option<NonZeroU64> {
        self.service.requests_per_connection
    }

    async fn open(&self, _target: Target, timeline: &mut Timeline) -> Result<Session> {
        let Client { service, reactor, opening } = self;
        let result = async {
            let _permit = opening.acquire().await?;
            let stream = Stream::reach(reactor, service.place, timeline).await?;
            service.secure(stream, timeline).await
        };
        let stream = result.await.map_err(|failure: Failure| failure.from_known_server().with(&service.address))?;
        Ok(Session::new(service.clone(), reactor.clone(), stream))
    }
}
