//! An HTTP test server with scripted responses. Each connection is served by its own thread.

use super::server::{Behaviour, serve_each};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A correct response, after which the server keeps the connection open.
pub const OK: &[u8] = b"HTTP/1.1 200 OK\r\nServer: test\r\nContent-Length: 2\r\n\r\nOK";
/// A correct response, after which the server closes the connection.
pub const OK_CLOSE: &[u8] = b"HTTP/1.1 200 OK\r\nServer: test\r\nContent-Length: 2\r\nConnection: close\r\n\r\nOK";

#[derive(Clone)]
pub enum Response {
    /// Send these bytes. Keep the connection, unless the request or the response contains `Connection: close`.
    Bytes(&'static [u8]),
    ThenCloses(&'static [u8]),
    ThenResets(&'static [u8]),
    /// Send the first bytes, then repeat the second bytes without end.
    ThenForEver(&'static [u8], &'static [u8]),
    After(Duration, &'static [u8]),
    /// Use the next of these responses for each request, and the last one for all further requests.
    OneByOne(Vec<Response>),
}

pub struct Http {
    pub address: String,
    pub connections: Arc<AtomicUsize>,
    pub requests: Arc<AtomicUsize>,
    pub ended: Arc<AtomicUsize>,
}

impl Http {
    pub fn start(response: Response) -> Self {
        Self::start_over(Behaviour::Plain, response)
    }

    /// Start a server. It uses TLS if `behaviour` is [`Behaviour::Tls`].
    pub fn start_over(behaviour: Behaviour, response: Response) -> Self {
        let (connections, requests, ended) =
            (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let counters = (connections.clone(), requests.clone(), ended.clone());
        let address = serve_each(move |stream| {
            let (connections, requests, ended) = &counters;
            connections.fetch_add(1, Ordering::SeqCst);
            stream.set_nodelay(true).unwrap();
            let socket = stream.try_clone().unwrap();
            match &behaviour {
                Behaviour::Tls(acceptor) => {
                    if let Ok(mut stream) = acceptor.accept(stream) {
                        converse(&mut stream, &socket, &response, requests);
                        let _ = stream.shutdown();
                    }
                }
                _ => converse(stream, &socket, &response, requests),
            }
            drop(socket);
            ended.fetch_add(1, Ordering::SeqCst);
        });
        Http { address, connections, requests, ended }
    }
}

fn converse(mut stream: impl Read + Write, socket: &TcpStream, response: &Response, requests: &AtomicUsize) {
    while let Some(request) = read_request(&mut stream) {
        let number = requests.fetch_add(1, Ordering::SeqCst);
        let requests_close = request.contains("Connection: close");
        if !answer(&mut stream, socket, response, number, requests_close) {
            return;
        }
    }
}

fn answer(
    stream: &mut (impl Read + Write),
    socket: &TcpStream,
    response: &Response,
    number: usize,
    last: bool,
) -> bool {
    match response {
        Response::OneByOne(all) => answer(stream, socket, &all[number.min(all.len() - 1)], 0, last),
        Response::After(time, bytes) => {
            std::thread::sleep(*time);
            answer(stream, socket, &Response::Bytes(bytes), 0, last)
        }
        Response::Bytes(bytes) => {
            let bytes = if last && *bytes == OK { OK_CLOSE } else { bytes };
            stream.write_all(bytes).is_ok() && !last && !bytes.ends_with(b"Connection: close\r\n\r\nOK")
        }
        Response::ThenCloses(bytes) => {
            let _ = stream.write_all(bytes);
            false
        }
        Response::ThenResets(bytes) => {
            let _ = stream.write_all(bytes);
            rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO)).unwrap();
            false
        }
        Response::ThenForEver(bytes, again) => {
            let _ = stream.write_all(bytes);
            while stream.write_all(again).is_ok() {}
            false
        }
    }
}

fn read_request(stream: &mut impl Read) -> Option<String> {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        request.push(byte[0]);
    }
    Some(String::from_utf8(request).unwrap())
}
