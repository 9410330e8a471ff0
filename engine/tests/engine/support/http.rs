//! A server of HTTP that answers as it is told, one thread a connection.

use super::server::Manner;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The response of a well-behaved server that keeps the connection.
pub const OK: &[u8] = b"HTTP/1.1 200 OK\r\nServer: test\r\nContent-Length: 2\r\n\r\nOK";
/// The same from one that ends it.
pub const OK_CLOSE: &[u8] = b"HTTP/1.1 200 OK\r\nServer: test\r\nContent-Length: 2\r\nConnection: close\r\n\r\nOK";

/// What is said upon a request.
#[derive(Clone)]
pub enum Says {
    /// These bytes; the connection goes on unless either end asked for its end.
    Bytes(&'static [u8]),
    /// These bytes, and the connection ends.
    ThenCloses(&'static [u8]),
    /// These bytes, and the connection is reset.
    ThenResets(&'static [u8]),
    /// These bytes, then these without an end.
    ThenForEver(&'static [u8], &'static [u8]),
    /// These bytes after so long.
    After(Duration, &'static [u8]),
    OneByOne(Vec<Says>),
}

/// A server, and what it has seen.
pub struct Http {
    pub address: String,
    pub connections: Arc<AtomicUsize>,
    pub requests: Arc<AtomicUsize>,
    pub ended: Arc<AtomicUsize>,
}

impl Http {
    pub fn start(says: Says) -> Self {
        Self::start_over(Manner::Plain, says)
    }

    /// Plain or with the manner's TLS.
    pub fn start_over(manner: Manner, says: Says) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = Http { address, connections: Arc::default(), requests: Arc::default(), ended: Arc::default() };
        let (connections, requests) = (server.connections.clone(), server.requests.clone());
        let ended = server.ended.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                connections.fetch_add(1, Ordering::SeqCst);
                let (manner, says, requests, ended) = (manner.clone(), says.clone(), requests.clone(), ended.clone());
                std::thread::spawn(move || {
                    stream.set_nodelay(true).unwrap();
                    let socket = stream.try_clone().unwrap();
                    match manner {
                        Manner::Tls(acceptor) => {
                            if let Ok(mut stream) = acceptor.accept(stream) {
                                converse(&mut stream, &socket, &says, &requests);
                                let _ = stream.shutdown();
                            }
                        }
                        _ => converse(stream, &socket, &says, &requests),
                    }
                    drop(socket);
                    ended.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        server
    }
}

fn converse(mut stream: impl Read + Write, socket: &TcpStream, says: &Says, requests: &AtomicUsize) {
    while let Some(request) = read_request(&mut stream) {
        let number = requests.fetch_add(1, Ordering::SeqCst);
        let asked_to_close = request.contains("Connection: close");
        if !answer(&mut stream, socket, says, number, asked_to_close) {
            return;
        }
    }
}

fn answer(stream: &mut (impl Read + Write), socket: &TcpStream, says: &Says, number: usize, last: bool) -> bool {
    match says {
        Says::OneByOne(all) => answer(stream, socket, &all[number.min(all.len() - 1)], 0, last),
        Says::After(time, bytes) => {
            std::thread::sleep(*time);
            answer(stream, socket, &Says::Bytes(bytes), 0, last)
        }
        Says::Bytes(bytes) => {
            let bytes = if last && *bytes == OK { OK_CLOSE } else { bytes };
            stream.write_all(bytes).is_ok() && !last && !bytes.ends_with(b"Connection: close\r\n\r\nOK")
        }
        Says::ThenCloses(bytes) => {
            let _ = stream.write_all(bytes);
            false
        }
        Says::ThenResets(bytes) => {
            let _ = stream.write_all(bytes);
            rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO)).unwrap();
            false
        }
        Says::ThenForEver(bytes, again) => {
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
