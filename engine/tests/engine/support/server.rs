//! A minimal MongoDB test server: it supports hello, find, scans, insert and update over OP_MSG, in plaintext or with
//! TLS. Each connection is served by its own thread.

use super::authority::Identity;
use bson::raw::{CStr, cstr};
use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};
use openssl::ssl::{SslAcceptor, SslMethod, SslVersion};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

#[derive(Clone)]
pub enum Behaviour {
    Plain,
    Tls(Arc<SslAcceptor>),
    /// Read what the client sends and never answer.
    Silent,
    Closes,
    /// Answer the first bytes from the client with these bytes.
    Response(&'static [u8]),
    /// Send these bytes on a new connection, then wait until the client sends something or closes the connection. If
    /// there are no bytes to send, close the connection at once.
    Greets(&'static [u8]),
}

/// Return the behaviour of a server with this certificate and TLS up to `version`, or any version if it is None.
pub fn tls(identity: &Identity, version: Option<SslVersion>) -> Behaviour {
    Behaviour::Tls(acceptor(identity, version))
}

/// Return the TLS settings of a server with this certificate and TLS up to `version`, or any version if it is None.
pub fn acceptor(identity: &Identity, version: Option<SslVersion>) -> Arc<SslAcceptor> {
    let mut builder = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls()).unwrap();
    builder.set_private_key(&identity.key).unwrap();
    builder.set_certificate(&identity.certificate).unwrap();
    builder.set_max_proto_version(version).unwrap();
    Arc::new(builder.build())
}

pub fn start(behaviour: Behaviour) -> String {
    serve_each(move |stream| serve(stream, behaviour.clone()))
}

/// Serve each connection on its own thread until the process ends. Return the address.
pub fn serve_each(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
    address.to_string()
}

fn serve(mut stream: TcpStream, behaviour: Behaviour) {
    stream.set_nodelay(true).unwrap();
    match behaviour {
        Behaviour::Plain => converse(stream),
        Behaviour::Tls(acceptor) => {
            if let Ok(stream) = acceptor.accept(stream) {
                converse(stream);
            }
        }
        Behaviour::Silent => while stream.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {},
        Behaviour::Greets(bytes) => {
            let _ = stream.write_all(bytes);
            if !bytes.is_empty() {
                let _ = stream.read(&mut [0; 4096]);
            }
        }
        Behaviour::Closes => drop(stream.read(&mut [0; 4096])),
        Behaviour::Response(bytes) => {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(bytes);
            // Wait until the client has read the answer. If this side closed the connection with bytes of the client
            // still unread, the connection would be reset and the client could lose the answer.
            let _ = stream.read(&mut [0; 4096]);
        }
    }
}

fn converse(mut stream: impl Read + Write) {
    let mut header = [0; 21];
    while stream.read_exact(&mut header).is_ok() {
        let length = i32::from_le_bytes(header[..4].try_into().unwrap()) as usize;
        let mut rest = vec![0; length - header.len()];
        stream.read_exact(&mut rest).unwrap();
        let body_length = i32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
        let reply = answer(RawDocument::from_bytes(&rest[..body_length]).unwrap());
        if stream.write_all(&message(&header[4..8], &reply)).is_err() {
            return;
        }
    }
}

fn answer(command: &RawDocument) -> RawDocumentBuf {
    let name = command.iter().next().unwrap().unwrap().0;
    match name.as_str() {
        "hello" => rawdoc! { "isWritablePrimary": true, "ok": 1.0 },
        "find" => {
            let filter = command.get_document("filter").unwrap();
            if let Ok(range) = filter.get_document("_id") {
                let key = range.get_str("$gte").unwrap();
                return batch(cstr!("firstBatch"), key, 7);
            }
            let key = filter.get_str("_id").unwrap();
            rawdoc! { "cursor": { "firstBatch": [{ "_id": key }], "id": 0_i64, "ns": "ycsb.usertable" }, "ok": 1.0 }
        }
        "getMore" => batch(cstr!("nextBatch"), "user~", 0),
        "insert" | "update" => rawdoc! { "n": 1, "ok": 1.0 },
        other => rawdoc! { "ok": 0.0, "errmsg": other, "code": 59, "codeName": "CommandNotFound" },
    }
}

fn batch(name: &CStr, key: &str, cursor: i64) -> RawDocumentBuf {
    let documents: RawArrayBuf = [rawdoc! { "_id": key }].into_iter().collect();
    let mut body = rawdoc! { "id": cursor, "ns": "ycsb.usertable" };
    body.append(name, documents);
    rawdoc! { "cursor": body, "ok": 1.0 }
}

fn message(request_id: &[u8], body: &RawDocumentBuf) -> Vec<u8> {
    let mut message = Vec::new();
    message.extend_from_slice(&(21 + body.as_bytes().len() as i32).to_le_bytes());
    message.extend_from_slice(&[0; 4]);
    message.extend_from_slice(request_id);
    message.extend_from_slice(&2013_i32.to_le_bytes());
    message.extend_from_slice(&[0; 5]);
    message.extend_from_slice(body.as_bytes());
    message
}
