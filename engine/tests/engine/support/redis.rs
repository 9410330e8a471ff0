//! A minimal Redis test server. It accepts all passwords and answers all commands of the engine. Each connection has a
//! thread. The server encodes messages itself, so that the engine's code is not tested against itself.

use super::server::serve_each;
use openssl::ssl::SslAcceptor;
use std::io::{BufRead, BufReader, Read, Result, Write};
use std::net::TcpStream;
use std::sync::Arc;

#[derive(Clone, Default)]
pub struct Redis {
    pub tls: Option<Arc<SslAcceptor>>,
    /// Bytes that the server sends instead of the answer to the first GET. The server then closes the connection.
    pub breaks_with: Option<&'static [u8]>,
    /// Bytes that the server sends instead of the answer to AUTH or HELLO.
    pub refuses_with: Option<&'static [u8]>,
}

impl Redis {
    pub fn start(&self) -> String {
        let server = self.clone();
        // Ignore errors, because the client of some tests disconnects during an answer.
        serve_each(move |stream| _ = server.serve(stream))
    }

    fn serve(&self, stream: TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        match &self.tls {
            None => self.converse(stream),
            Some(acceptor) => match acceptor.accept(stream) {
                Ok(secure) => self.converse(secure),
                Err(_) => Ok(()),
            },
        }
    }

    fn converse<S: Read + Write>(&self, stream: S) -> Result<()> {
        let mut stream = BufReader::new(stream);
        let mut resp = 2;
        loop {
            let command = read(&mut stream)?;
            let name = command[0].as_str();
            let answer = match (name, self.refuses_with, self.breaks_with) {
                ("AUTH" | "HELLO", Some(refusal), _) => refusal.to_vec(),
                ("GET", _, Some(broken)) => return stream.get_mut().write_all(broken),
                ("HELLO", ..) => {
                    resp = 3;
                    b"%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n".to_vec()
                }
                _ => answer(&command, resp),
            };
            stream.get_mut().write_all(&answer)?;
        }
    }
}

fn answer(command: &[String], resp: u8) -> Vec<u8> {
    let strings = |count: usize| "$5\r\nvalue\r\n".repeat(count);
    let text = match command[0].as_str() {
        "AUTH" | "SET" => "+OK\r\n".into(),
        "CLIENT" => format!("$6\r\nresp={resp}\r\n"),
        "GET" => format!("$100\r\n{}\r\n", "x".repeat(100)),
        "HSET" => ":0\r\n".into(),
        "WAIT" | "ZADD" => ":1\r\n".into(),
        "HGETALL" if resp == 3 => format!("%10\r\n{}", strings(20)),
        "HGETALL" => format!("*20\r\n{}", strings(20)),
        "HMGET" => format!("*1\r\n{}", strings(1)),
        "ZRANGEBYSCORE" => {
            let count = command.last().unwrap().parse().unwrap();
            format!("*{count}\r\n{}", strings(count))
        }
        other => format!("-ERR unknown command '{other}'\r\n"),
    };
    text.into_bytes()
}

fn read(stream: &mut impl BufRead) -> Result<Vec<String>> {
    let count = read_number(stream, b'*')?;
    (0..count).map(|_| read_argument(stream)).collect()
}

fn read_argument(stream: &mut impl BufRead) -> Result<String> {
    let mut bytes = vec![0; read_number(stream, b'$')? + 2];
    stream.read_exact(&mut bytes)?;
    assert!(bytes.ends_with(b"\r\n"));
    bytes.truncate(bytes.len() - 2);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn read_number(stream: &mut impl BufRead, kind: u8) -> Result<usize> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    assert_eq!(line.as_bytes()[0], kind, "{line}");
    Ok(line[1..].trim_end().parse().unwrap())
}
