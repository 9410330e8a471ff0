//! A client of one connection that sends any bytes and keeps all that it receives (MySQL Internals, "Client/Server Protocol").

use sha1::Digest;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

pub const QUERY: u8 = 0x03;
pub const STMT_PREPARE: u8 = 0x16;
pub const STMT_EXECUTE: u8 = 0x17;
pub const STMT_SEND_LONG_DATA: u8 = 0x18;
pub const STMT_CLOSE: u8 = 0x19;
pub const STMT_RESET: u8 = 0x1A;
const QUIT: u8 = 0x01;
const STATISTICS: u8 = 0x09;

/// LONG_PASSWORD, LONG_FLAG, CONNECT_WITH_DB, PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION, MULTI_RESULTS, PS_MULTI_RESULTS,
/// PLUGIN_AUTH.
const USUAL: u32 = 0x1 | 0x4 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x2_0000 | 0x4_0000 | 0x8_0000;
const CONNECT_ATTRIBUTES: u32 = 0x10_0000;
const MORE_RESULTS: u16 = 8;
/// Only a server that hangs is silent for so long: one on a busy machine that stalls is not.
const TIMEOUT: Duration = Duration::from_secs(300);
/// ER_STATEMENT_TIMEOUT.
const GIVEN_UP: u16 = 1969;
/// A join of everything with everything takes minutes.
const LONGEST_ANSWER: usize = 16 << 20;

/// Who logs in where.
#[derive(Debug, Clone, serde::Deserialize)]
pub struct Login {
    pub address: String,
    pub user: String,
    pub password: String,
}

/// Why a session cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    HungUp,
    Stalled,
    /// The answer is longer than is worth waiting for.
    TooLong,
    /// In words of the one who refused.
    Refused(String),
}

type Result<T> = std::result::Result<T, Lost>;

/// What a packet of an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Ok,
    Error,
    Eof,
    Count,
    Definition,
    TextRow,
    BinaryRow,
    Prepared,
    Words,
}

/// All packets of one command's answer; `bytes` with their headers, as they came.
#[derive(Debug, Default)]
pub struct Answer {
    pub bytes: Vec<u8>,
    pub packets: Vec<(Kind, std::ops::Range<usize>)>,
}

impl Answer {
    pub fn payloads(&self) -> impl Iterator<Item = (Kind, &[u8])> {
        self.packets.iter().map(|(kind, range)| (*kind, &self.bytes[range.clone()]))
    }

    /// In the words of an error, if it ends in one.
    pub fn error(&self) -> Option<String> {
        let (Kind::Error, payload) = self.payloads().last()? else { return None };
        Some(String::from_utf8_lossy(payload.get(3..)?).into_owned())
    }

    /// Whether the server gave the statement up, which took longer than it allows: when is its machine's affair.
    pub fn is_given_up(&self) -> bool {
        matches!(self.payloads().last(), Some((Kind::Error, [_, low, high, ..])) if u16::from_le_bytes([*low, *high]) == GIVEN_UP)
    }

    /// The number of a statement that was prepared, and how many parameters it has.
    pub fn prepared(&self) -> Option<(u32, usize)> {
        let (Kind::Prepared, payload) = self.payloads().next()? else { return None };
        let number = u32::from_le_bytes(payload.get(1..5)?.try_into().ok()?);
        Some((number, u16::from_le_bytes(payload.get(7..9)?.try_into().ok()?).into()))
    }
}

pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    sequence: u8,
}

impl Client {
    /// `decrypts`: it says that it does, and so is told each column's envelope.
    pub fn connect(login: &Login, database: &str, decrypts: bool) -> Result<Self> {
        let stream = TcpStream::connect(&login.address).map_err(|_| Lost::HungUp)?;
        stream.set_nodelay(true).and(stream.set_read_timeout(Some(TIMEOUT))).map_err(|_| Lost::HungUp)?;
        let mut client = Client { stream, buffer: Vec::new(), start: 0, sequence: 0 };
        client.log_in(login, database, decrypts)?;
        Ok(client)
    }

    pub fn send(&mut self, command: u8, body: &[u8]) -> Result<()> {
        self.sequence = 0;
        self.write(&[&[command], body].concat())
    }

    /// A whole answer, or all that came of it.
    pub fn receive(&mut self, command: u8) -> (Answer, Result<()>) {
        let mut answer = Answer::default();
        let outcome = match command {
            QUIT | STMT_SEND_LONG_DATA | STMT_CLOSE => Ok(()),
            STMT_PREPARE => self.prepared(&mut answer),
            STATISTICS => self.packet(&mut answer, |_| Kind::Words).map(drop),
            _ => self.results(&mut answer, command == STMT_EXECUTE),
        };
        (answer, outcome)
    }

    /// Both at once.
    pub fn ask(&mut self, command: u8, body: &[u8]) -> Result<Answer> {
        self.send(command, body)?;
        let (answer, outcome) = self.receive(command);
        outcome.map(|()| answer)
    }

    fn results(&mut self, answer: &mut Answer, is_binary: bool) -> Result<()> {
        let row = if is_binary { Kind::BinaryRow } else { Kind::TextRow };
        loop {
            let first = self.packet(answer, |payload| match payload.first() {
                Some(0) | None => Kind::Ok,
                Some(0xFF) => Kind::Error,
                _ => Kind::Count,
            })?;
            let status = match first {
                Kind::Count => {
                    let columns = usize::from(*answer.bytes.last().unwrap_or(&0));
                    self.list(answer, columns, |_| Kind::Definition)?;
                    self.rows(answer, row)?
                }
                Kind::Ok => ok_status(last(answer)),
                _ => return Ok(()),
            };
            if status & MORE_RESULTS == 0 {
                return Ok(());
            }
        }
    }

    /// Up to their end; the status there.
    fn rows(&mut self, answer: &mut Answer, row: Kind) -> Result<u16> {
        loop {
            let kind = self.packet(answer, |payload| match payload.first() {
                Some(0xFF) => Kind::Error,
                Some(0xFE) if payload.len() < 9 => Kind::Eof,
                _ => row,
            })?;
            match kind {
                Kind::Eof => {
                    return Ok(last(answer).get(3..5).map_or(0, |status| u16::from_le_bytes([status[0], status[1]])));
                }
                Kind::Error => return Ok(0),
                _ => {}
            }
        }
    }

    fn prepared(&mut self, answer: &mut Answer) -> Result<()> {
        self.packet(answer, |payload| if payload.first() == Some(&0) { Kind::Prepared } else { Kind::Error })?;
        let Some((_, parameters)) = answer.prepared() else { return Ok(()) };
        let columns = usize::from(u16::from_le_bytes([last(answer)[5], last(answer)[6]]));
        for count in [parameters, columns] {
            if count > 0 {
                self.list(answer, count, |_| Kind::Definition)?;
            }
        }
        Ok(())
    }

    /// So many, and their EOF.
    fn list(&mut self, answer: &mut Answer, count: usize, kind: fn(&[u8]) -> Kind) -> Result<()> {
        for _ in 0..count {
            self.packet(answer, kind)?;
        }
        self.packet(answer, |payload| if payload.first() == Some(&0xFF) { Kind::Error } else { Kind::Eof }).map(drop)
    }

    fn packet(&mut self, answer: &mut Answer, kind: impl Fn(&[u8]) -> Kind) -> Result<Kind> {
        let range = self.read_packet();
        let (packet, outcome) = match &range {
            Ok(range) => (&self.buffer[range.clone()], Ok(())),
            // What came of it may be more than it should.
            Err(lost) => (&self.buffer[self.start..], Err(lost.clone())),
        };
        let at = answer.bytes.len();
        if at > LONGEST_ANSWER {
            return Err(Lost::TooLong);
        }
        answer.bytes.extend_from_slice(packet);
        if outcome.is_err() {
            self.start = self.buffer.len();
        }
        outcome?;
        let kind = kind(&answer.bytes[at + 4..]);
        answer.packets.push((kind, at + 4..answer.bytes.len()));
        Ok(kind)
    }

    /// With its header; it stays in the buffer.
    fn read_packet(&mut self) -> Result<std::ops::Range<usize>> {
        self.fill(4)?;
        let head = &self.buffer[self.start..];
        let length = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
        self.sequence = head[3].wrapping_add(1);
        self.fill(4 + length)?;
        let range = self.start..self.start + 4 + length;
        self.start = range.end;
        Ok(range)
    }

    fn fill(&mut self, count: usize) -> Result<()> {
        if self.start == self.buffer.len() {
            self.buffer.clear();
            self.start = 0;
        }
        let mut piece = [0; 1 << 14];
        while self.buffer.len() - self.start < count {
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(Lost::HungUp),
                Ok(read) => self.buffer.extend_from_slice(&piece[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Err(Lost::Stalled),
                Err(_) => return Err(Lost::HungUp),
            }
        }
        Ok(())
    }

    fn write(&mut self, payload: &[u8]) -> Result<()> {
        let mut packet = (payload.len() as u32).to_le_bytes().to_vec();
        packet[3] = self.sequence;
        packet.extend_from_slice(payload);
        self.stream.write_all(&packet).map_err(|_| Lost::HungUp)
    }

    fn log_in(&mut self, login: &Login, database: &str, decrypts: bool) -> Result<()> {
        let mut greeting = Answer::default();
        self.packet(&mut greeting, |_| Kind::Words)?;
        let said = last(&greeting);
        let end = 1 + said.iter().skip(1).position(|byte| *byte == 0).ok_or(Lost::HungUp)?;
        let salt = [&said[end + 5..end + 13], &said[end + 32..end + 44]].concat();
        let capabilities = USUAL | if decrypts { CONNECT_ATTRIBUTES } else { 0 };
        let mut response = capabilities.to_le_bytes().to_vec();
        response.extend((1_u32 << 24).to_le_bytes());
        response.push(45);
        response.extend([0; 23]);
        response.extend(login.user.as_bytes());
        let proof = proof(&login.password, &salt);
        response.extend([0, proof.len() as u8]);
        response.extend(proof);
        response.extend(database.as_bytes());
        response.extend(b"\0mysql_native_password\0");
        if decrypts {
            // A nonce beside it, which a gateway that binds its envelopes to sessions asks for.
            let pairs = [&b"\x10costof_encrypted"[..], b"\x011", b"\x0ccostof_nonce", b"\x40", &[b'a'; 64]].concat();
            response.push(pairs.len() as u8);
            response.extend(pairs);
        }
        self.write(&response)?;
        let mut answer = Answer::default();
        let mut kind = self.packet(&mut answer, proved)?;
        if kind == Kind::Words {
            // Another method was asked for first.
            let asked = last(&answer).to_vec();
            let salt = asked.split(|byte| *byte == 0).nth(1).unwrap_or_default().to_vec();
            self.write(&self::proof(&login.password, &salt))?;
            kind = self.packet(&mut answer, proved)?;
        }
        match kind {
            Kind::Ok => Ok(()),
            _ => Err(Lost::Refused(answer.error().unwrap_or_default())),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.send(QUIT, b"");
    }
}

fn proved(payload: &[u8]) -> Kind {
    match payload.first() {
        Some(0) => Kind::Ok,
        Some(0xFF) => Kind::Error,
        _ => Kind::Words,
    }
}

fn last(answer: &Answer) -> &[u8] {
    answer.payloads().last().map_or(&[], |(_, payload)| payload)
}

fn ok_status(payload: &[u8]) -> u16 {
    let mut at = 1;
    for _ in 0..2 {
        at += match payload.get(at) {
            Some(0xFC) => 3,
            Some(0xFD) => 4,
            Some(0xFE) => 9,
            _ => 1,
        };
    }
    payload.get(at..at + 2).map_or(0, |status| u16::from_le_bytes([status[0], status[1]]))
}

/// `mysql_native_password`.
fn proof(password: &str, salt: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = sha1::Sha1::digest(password);
    let twice = sha1::Sha1::digest(once);
    let mask = sha1::Sha1::digest([salt.get(..20).unwrap_or(salt), &twice].concat());
    once.iter().zip(mask).map(|(left, right)| left ^ right).collect()
}
