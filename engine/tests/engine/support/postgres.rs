//! A minimal PostgreSQL test server without authentication. It answers all statements of the engine. Each connection
//! has a thread. The server encodes messages itself, so that the engine's code is not tested against itself.

use super::server::serve_each;
use openssl::ssl::SslAcceptor;
use std::collections::HashMap;
use std::io::{Read, Result, Write};
use std::net::TcpStream;
use std::sync::Arc;

const TLS_REQUEST: &[u8] = b"\0\0\0\x08\x04\xd2\x16\x2f";
/// AuthenticationOk, BackendKeyData and ReadyForQuery.
const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x07secrZ\0\0\0\x05I";

const NOTICE: &[u8] = b"N\0\0\0\x15SWARNING\0C01000\0\0";

#[derive(Clone, Default)]
pub struct Postgres {
    pub tls: Option<Arc<SslAcceptor>>,
    /// Bytes that the server sends in plaintext after it has accepted TLS.
    pub extra_bytes: &'static [u8],
    /// Bytes that the server sends instead of the answer to the first statement, after which it closes the connection.
    /// Queries of `pg_stat_ssl`, with which the client checks the server, do not count and are answered.
    pub breaks_with: Option<&'static [u8]>,
}

impl Postgres {
    pub fn start(&self) -> String {
        let server = self.clone();
        // Ignore errors, because the client of some tests disconnects during an answer.
        serve_each(move |stream| _ = server.serve(stream))
    }

    fn serve(&self, mut stream: TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        let first = read_untyped(&mut stream)?;
        if first != TLS_REQUEST {
            return self.converse(stream);
        }
        let Some(acceptor) = &self.tls else { return stream.write_all(b"N") };
        stream.write_all(&[b"S", self.extra_bytes].concat())?;
        let Ok(mut secure) = acceptor.accept(stream) else { return Ok(()) };
        read_untyped(&mut secure)?;
        self.converse(secure)
    }

    fn converse<S: Read + Write>(&self, mut stream: S) -> Result<()> {
        stream.write_all(WELCOME)?;
        let mut statements = HashMap::new();
        let (mut answer, mut bound) = (Vec::new(), Bound::default());
        loop {
            let (kind, body) = read(&mut stream)?;
            match kind {
                b'Q' if body.starts_with(b"COPY") => append(&mut answer, b'G', b"\0\0\0"),
                b'Q' => {
                    let text = String::from_utf8_lossy(&body[..body.len() - 1]).into_owned();
                    text.split_terminator(';').for_each(|text| execute(text, &Bound::default(), &mut answer));
                    append(&mut answer, b'Z', b"I");
                }
                b'd' => continue,
                b'c' => {
                    append(&mut answer, b'C', b"COPY 100\0");
                    append(&mut answer, b'Z', b"I");
                }
                b'P' => {
                    let mut parts = body.split(|byte| *byte == 0);
                    let mut part = || String::from_utf8_lossy(parts.next().unwrap()).into_owned();
                    statements.insert(part(), part());
                    append(&mut answer, b'1', b"");
                }
                b'B' => {
                    bound = Bound::read(&body, &statements);
                    append(&mut answer, b'2', b"");
                }
                b'D' => append(&mut answer, b'n', b""),
                b'E' => execute(&bound.text, &bound, &mut answer),
                b'S' => append(&mut answer, b'Z', b"I"),
                _ => return Ok(()),
            }
            if matches!(kind, b'Q' | b'c' | b'S') {
                match self.breaks_with {
                    Some(broken) if !String::from_utf8_lossy(&body).contains("pg_stat_ssl") => {
                        return stream.write_all(broken);
                    }
                    // The server may send a notice at any time, also in the same packet as an answer.
                    _ => stream.write_all(&[&answer[..], NOTICE].concat())?,
                }
                answer.clear();
            }
        }
    }
}

/// The content of a Bind message: the text of the statement, and its first and its last parameter.
#[derive(Default)]
struct Bound {
    text: String,
    first: Vec<u8>,
    last: Vec<u8>,
}

impl Bound {
    fn read(body: &[u8], statements: &HashMap<String, String>) -> Self {
        let mut parts = body.splitn(3, |byte| *byte == 0);
        let (_, name, rest) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        let count = u16::from_be_bytes([rest[2], rest[3]]);
        let (mut rest, mut values) = (&rest[4..], Vec::new());
        for _ in 0..count {
            let (length, after) = rest.split_first_chunk().unwrap();
            let (value, after) = after.split_at(u32::from_be_bytes(*length) as usize);
            values.push(value.to_vec());
            rest = after;
        }
        Bound {
            text: statements[&String::from_utf8_lossy(name).into_owned()].clone(),
            first: values.first().cloned().unwrap_or_default(),
            last: values.last().cloned().unwrap_or_default(),
        }
    }
}

fn execute(text: &str, bound: &Bound, answer: &mut Vec<u8>) {
    let verb = text.split(' ').next().unwrap();
    if verb != "SELECT" {
        let tag = match verb {
            "INSERT" => "INSERT 0 1".into(),
            "UPDATE" => "UPDATE 1".into(),
            other => other.to_owned(),
        };
        return append(answer, b'C', format!("{tag}\0").as_bytes());
    }
    let values: Vec<&[u8]> = match text.split_once(" FROM ").unwrap().0.matches(',').count() {
        _ if text.contains("pg_stat_ssl") => vec![b"none"],
        0 => vec![b"-5"],
        fields => [&bound.first[..]].into_iter().chain(std::iter::repeat_n(&b"value"[..], fields)).collect(),
    };
    let rows = if text.contains("LIMIT") { String::from_utf8_lossy(&bound.last).parse().unwrap() } else { 1 };
    for _ in 0..rows {
        let mut row = (values.len() as u16).to_be_bytes().to_vec();
        for value in &values {
            row.extend_from_slice(&(value.len() as u32).to_be_bytes());
            row.extend_from_slice(value);
        }
        append(answer, b'D', &row);
    }
    append(answer, b'C', format!("SELECT {rows}\0").as_bytes());
}

fn append(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    out.push(kind);
    out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(body);
}

fn read(stream: &mut impl Read) -> Result<(u8, Vec<u8>)> {
    let mut kind = [0; 1];
    stream.read_exact(&mut kind)?;
    let message = read_untyped(stream)?;
    Ok((kind[0], message[4..].to_vec()))
}

fn read_untyped(stream: &mut impl Read) -> Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut message = length.to_vec();
    message.resize(u32::from_be_bytes(length) as usize, 0);
    stream.read_exact(&mut message[4..])?;
    Ok(message)
}
