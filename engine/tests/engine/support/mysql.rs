//! A minimal MySQL test server: greeting, all authentication methods, selects of one row, updates and inserts. Each
//! connection has a thread. `mysql_common` encodes messages, so that the engine's code is not tested against itself.

use super::server::serve_each;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use mysql_common::constants::{CapabilityFlags, StatusFlags};
use mysql_common::io::ParseBuf;
use mysql_common::packets::{AuthSwitchRequest, HandshakePacket, HandshakeResponse};
use mysql_common::proto::{MyDeserialize, MySerialize};
use openssl::pkey::{Id, PKey, Private};
use openssl::rsa::{Padding, Rsa};
use openssl::sha::{sha1, sha256};
use openssl::sign::Verifier;
use openssl::ssl::SslAcceptor;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

/// The password of the server's only user.
pub const PASSWORD: &str = "secret";
/// The public key of method ed25519 for this password, from MariaDB's documentation.
const ED25519_KEY: &str = "ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY=";
/// The scramble (nonce) in the greeting.
pub const NONCE: &[u8; 20] = b"01234567abcdefghijkl";
const LONG_NONCE: [u8; 32] = [7; 32];
/// The RSA key of all servers, generated before they start: generation can take longer than a login's timeout.
static RSA_KEY: LazyLock<Rsa<Private>> = LazyLock::new(|| Rsa::generate(2048).unwrap());
const OK: &[u8] = b"\x00\x00\x00\x02\x00\x00\x00";
const DENIED: &[u8] = b"\xff\x15\x04#28000Access denied";

/// The behaviour of a test server: its login methods, its answers and its deliberate faults.
#[derive(Clone)]
pub struct Mysql {
    /// The authentication method that the greeting proposes.
    pub proposes: &'static str,
    /// The authentication method of the user.
    pub plugin: &'static str,
    /// True if the user is in the cache of `caching_sha2_password`.
    pub cached: bool,
    pub tls: Option<Arc<SslAcceptor>>,
    pub without_eof: bool,
    /// Bytes that the server sends in plaintext after the greeting.
    pub extra_bytes: &'static [u8],
    pub quits: Arc<AtomicUsize>,
    pub decrypting: Arc<AtomicUsize>,
    pub answers: Answers,
}

/// A function that returns the answers for one connection. Its argument is the connection attribute `costof_nonce`, or
/// None if the client did not send this attribute.
pub type Answers = Arc<dyn Fn(Option<&str>) -> NextAnswer + Send + Sync>;
pub type NextAnswer = Box<dyn FnMut() -> Answer + Send>;

/// The answer to every query: a result with one row and one column.
#[derive(Clone)]
pub struct Answer {
    pub definition: Vec<u8>,
    pub text_row: Vec<u8>,
    pub binary_row: Vec<u8>,
}

/// The definition of the column in `SELECT c FROM sbtest1`, as MariaDB sends it.
pub const COLUMN: &[u8] = b"\x03def\x06sbtest\x07sbtest1\x07sbtest1\x01c\x01c\x0c\x2d\0\xe0\x01\0\0\xfe\x01\0\0\0\0";

impl Default for Answer {
    fn default() -> Self {
        Answer { definition: COLUMN.into(), text_row: b"\x03abc".into(), binary_row: b"\x00\x00\x03abc".into() }
    }
}

impl Default for Mysql {
    fn default() -> Self {
        let plugin = "mysql_native_password";
        Mysql {
            proposes: plugin,
            plugin,
            cached: false,
            tls: None,
            without_eof: true,
            extra_bytes: &[],
            quits: Arc::default(),
            decrypting: Arc::default(),
            answers: Arc::new(|_| Box::new(Answer::default)),
        }
    }
}

impl Mysql {
    pub fn start(&self) -> String {
        let server = self.clone();
        if self.plugin == "caching_sha2_password" {
            LazyLock::force(&RSA_KEY);
        }
        // Ignore errors, because the client of some tests disconnects during an answer.
        serve_each(move |stream| _ = server.serve(stream))
    }

    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut plain = Packets { stream, sequence: 0 };
        let mut greeting = self.greeting();
        greeting.extend_from_slice(self.extra_bytes);
        plain.write_raw(&greeting)?;
        let first = plain.read()?;
        match &self.tls {
            Some(acceptor) if first.len() == 32 => {
                let Ok(stream) = acceptor.accept(plain.stream) else { return Ok(()) };
                let mut secure = Packets { stream, sequence: plain.sequence };
                let response = secure.read()?;
                self.converse(secure, &response, true)
            }
            _ => self.converse(plain, &first, false),
        }
    }

    fn greeting(&self) -> Vec<u8> {
        let mut capabilities = CapabilityFlags::all();
        capabilities.set(CapabilityFlags::CLIENT_SSL, self.tls.is_some());
        capabilities.set(CapabilityFlags::CLIENT_DEPRECATE_EOF, self.without_eof);
        let (head, tail) = NONCE.split_first_chunk::<8>().unwrap();
        let tail = Some([tail, &[0]].concat());
        let (status, plugin) = (StatusFlags::empty(), Some(self.proposes.as_bytes()));
        let mut packet = vec![0; 4];
        HandshakePacket::new(10, &b"8.0.36"[..], 1, *head, tail, capabilities, 45, status, plugin)
            .serialize(&mut packet);
        packet[0] = (packet.len() - 4) as u8;
        packet
    }

    fn converse<S: Read + Write>(&self, mut packets: Packets<S>, response: &[u8], tls: bool) -> std::io::Result<()> {
        let response = HandshakeResponse::deserialize((), &mut ParseBuf(response))?;
        assert_eq!((response.user(), response.db_name()), (&b"u"[..], Some(&b"sbtest"[..])));
        let attributes = response.connect_attributes();
        if let Some(attributes) = &attributes {
            assert_eq!(attributes.get("costof_encrypted").map(String::as_str), Some("1"));
            self.decrypting.fetch_add(1, Ordering::Relaxed);
        }
        let next = (self.answers)(attributes.as_ref().and_then(|all| all.get("costof_nonce")).map(String::as_str));
        let mut proof = response.scramble_buf().to_vec();
        if response.auth_plugin().unwrap().as_bytes() != self.plugin.as_bytes() {
            let nonce = if self.plugin == "client_ed25519" { LONG_NONCE.to_vec() } else { [&NONCE[..], &[0]].concat() };
            let mut switch = Vec::new();
            AuthSwitchRequest::new(self.plugin.as_bytes(), nonce).serialize(&mut switch);
            packets.write(&switch)?;
            proof = packets.read()?;
        }
        if !self.accepts(&proof, &mut packets, tls)? {
            return packets.write(DENIED);
        }
        packets.write(OK)?;
        self.answer_commands(packets, next)
    }

    fn accepts<S: Read + Write>(&self, proof: &[u8], packets: &mut Packets<S>, tls: bool) -> std::io::Result<bool> {
        let password = PASSWORD.as_bytes();
        match self.plugin {
            "mysql_native_password" => {
                let stored = sha1(&sha1(password));
                Ok(sha1(&xor(proof, &sha1(&[&NONCE[..], &stored].concat()))) == stored)
            }
            "client_ed25519" => {
                let key = BASE64.decode(ED25519_KEY).unwrap();
                let key = PKey::public_key_from_raw_bytes(&key, Id::ED25519).unwrap();
                Ok(Verifier::new_without_digest(&key)?.verify_oneshot(proof, &LONG_NONCE).unwrap_or(false))
            }
            "caching_sha2_password" if self.cached => {
                let stored = sha256(&sha256(password));
                let known = sha256(&xor(proof, &sha256(&[&stored[..], NONCE].concat()))) == stored;
                packets.write(&[1, 3])?;
                Ok(known)
            }
            "caching_sha2_password" => {
                packets.write(&[1, 4])?;
                let received = if tls { packets.read()? } else { exchange_key(packets)? };
                Ok(received == [password, &[0]].concat())
            }
            // The client supports no other method.
            _ => Ok(false),
        }
    }

    fn answer_commands<S: Read + Write>(&self, mut packets: Packets<S>, mut next: NextAnswer) -> std::io::Result<()> {
        loop {
            packets.sequence = 0;
            let command = packets.read()?;
            match command.first() {
                Some(1) => {
                    self.quits.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                }
                Some(3) if command[1..].starts_with(b"INSERT") => {
                    let rows = command.iter().filter(|byte| **byte == b'(').count() as u8 - 1;
                    packets.write(&[0, rows, 0, 2, 0, 0, 0])?;
                }
                Some(3) if command[1..].starts_with(b"UPDATE") => packets.write(&[0, 1, 0, 2, 0, 0, 0])?,
                Some(3) => {
                    let Answer { definition, text_row, .. } = next();
                    self.send_row(&mut packets, &definition, &text_row)?;
                }
                Some(0x16) => {
                    packets.write(b"\x00\x07\0\0\0\x01\0\x01\0\0\0\0")?;
                    for definition in [COLUMN, &next().definition] {
                        packets.write(definition)?;
                        self.end_definitions(&mut packets)?;
                    }
                }
                Some(0x17) => {
                    let Answer { definition, binary_row, .. } = next();
                    self.send_row(&mut packets, &definition, &binary_row)?;
                }
                _ => return packets.write(b"\xff\x17\x04#08S01Unknown command"),
            }
        }
    }

    fn send_row<S: Read + Write>(
        &self,
        packets: &mut Packets<S>,
        definition: &[u8],
        row: &[u8],
    ) -> std::io::Result<()> {
        packets.write(&[1])?;
        packets.write(definition)?;
        self.end_definitions(packets)?;
        packets.write(row)?;
        packets.write(if self.without_eof { b"\xfe\0\0\x02\0\0\0" } else { b"\xfe\0\0\x02\0" })
    }

    fn end_definitions<S: Read + Write>(&self, packets: &mut Packets<S>) -> std::io::Result<()> {
        if self.without_eof { Ok(()) } else { packets.write(b"\xfe\0\0\x02\0") }
    }
}

fn exchange_key<S: Read + Write>(packets: &mut Packets<S>) -> std::io::Result<Vec<u8>> {
    assert_eq!(packets.read()?, [2], "the client must request the key");
    packets.write(&[&[1], &RSA_KEY.public_key_to_pem()?[..]].concat())?;
    let mut read = vec![0; RSA_KEY.size() as usize];
    let length = RSA_KEY.private_decrypt(&packets.read()?, &mut read, Padding::PKCS1_OAEP)?;
    Ok(read[..length].iter().zip(NONCE.iter().cycle()).map(|(byte, pad)| byte ^ pad).collect())
}

fn xor(one: &[u8], other: &[u8]) -> Vec<u8> {
    one.iter().zip(other).map(|(one, other)| one ^ other).collect()
}

struct Packets<S> {
    stream: S,
    sequence: u8,
}

impl<S: Read + Write> Packets<S> {
    fn read(&mut self) -> std::io::Result<Vec<u8>> {
        let mut header = [0; 4];
        self.stream.read_exact(&mut header)?;
        assert_eq!(header[3], self.sequence, "wrong sequence number");
        self.sequence += 1;
        let mut payload = vec![0; u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize];
        self.stream.read_exact(&mut payload)?;
        Ok(payload)
    }

    fn write(&mut self, payload: &[u8]) -> std::io::Result<()> {
        let mut packet = (payload.len() as u32).to_le_bytes().to_vec();
        packet[3] = self.sequence;
        packet.extend_from_slice(payload);
        self.write_raw(&packet)
    }

    fn write_raw(&mut self, packet: &[u8]) -> std::io::Result<()> {
        self.sequence += 1;
        self.stream.write_all(packet)
    }
}
