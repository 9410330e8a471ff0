//! Greetings and login responses (MySQL Internals, "Connection Phase Packets"), and how the gateway changes them.

use base::error::{Failure, Result};
use encryption::{ClientNonce, DECRYPTS_ATTRIBUTE, NONCE_ATTRIBUTE};
use mysql::bytes::Reader;
use mysql::capability::*;
use mysql::handshake::{COLLATION, PROTOCOL_VERSION, RESERVED, SCRAMBLE};
use mysql::packet::{self, HEADER};

/// The capabilities that the gateway removes from greetings. Either the gateway does not support them, or they could
/// carry data that the gateway does not see.
const REMOVED: u32 = COMPRESS
    | LOCAL_FILES
    | SESSION_TRACK
    | OPTIONAL_RESULTSET_METADATA
    | ZSTD
    | QUERY_ATTRIBUTES
    | MULTI_FACTOR_AUTHENTICATION
    | PROGRESS_OR_EXTENSION;

/// The number of bytes of a greeting between the version text and the reserved bytes. They are the connection number,
/// the first part of the nonce, a zero byte, the low half of the capabilities, the collation, the status, the high half
/// of the capabilities, and the length of the nonce.
const BEFORE_RESERVED: usize = 4 + 8 + 1 + 2 + 1 + 2 + 2 + 1;
/// The number of reserved bytes in a greeting. MariaDB uses the last four of them for further capabilities.
const RESERVED_IN_GREETING: usize = 10;
/// The number of bytes of a TLS request: a login response that ends before the account name.
pub const TLS_REQUEST: usize = 4 + 4 + 1 + RESERVED;
/// The maximum length of a login response in bytes. Its connection attributes alone may have 64 KiB.
pub const LONGEST: usize = 1 << 17;
/// The number of bytes of the first part of the server's nonce (*scramble*). A greeting contains the first 8 bytes of
/// the nonce before a zero byte, and the other 12 bytes after the reserved bytes.
const FIRST_SCRAMBLE_PART: usize = 8;
/// The maximum length of an account name. MySQL cuts a longer name, and the cut name may be that of another account.
/// MariaDB's limit is higher.
const LONGEST_ACCOUNT: usize = 32;
/// The capabilities that a guarded session (one that may send only approved statements) may use. Two kinds of
/// capabilities are missing: those that change how the server parses a statement (IGNORE_SPACE, NO_SCHEMA, ODBC), and
/// those that allow several statements in one command.
///
/// The bits are LONG_PASSWORD, FOUND_ROWS, LONG_FLAG, CONNECT_WITH_DB, PROTOCOL_41, INTERACTIVE, TLS, IGNORE_SIGPIPE,
/// TRANSACTIONS, the reserved bit 14, SECURE_CONNECTION, MULTI_RESULTS, PS_MULTI_RESULTS, PLUGIN_AUTH,
/// CONNECT_ATTRIBUTES, PROOF_OF_ANY_LENGTH and DEPRECATE_EOF.
const GUARDED: u32 = 0b1111 | 1 << 9 | 1 << 10 | TLS | 0b1111 << 12 | 0b11 << 17 | 0b111 << 19 | DEPRECATE_EOF;

/// The fields of the server's greeting that the gateway uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting {
    capabilities: u32,
    collation: u8,
    /// The server's nonce in the greeting. The salt of the session's keys is computed from it, even if the server later
    /// changes the authentication method and sends another nonce.
    pub scramble: [u8; SCRAMBLE],
}

impl Greeting {
    /// Append the greeting without the capabilities in `REMOVED`, and return the fields that the gateway uses. Errors:
    /// `protocol` if the greeting is malformed, or the listener requires TLS and the server does not offer it.
    pub fn without_removed_capabilities(payload: &[u8], sequence: u8, tls: bool, out: &mut Vec<u8>) -> Result<Self> {
        let mut reader = Reader::new(payload);
        if reader.u8()? != PROTOCOL_VERSION {
            return Err(Failure::protocol("the server's greeting does not have MySQL's protocol version"));
        }
        let version = reader.until_zero()?;
        let fixed = reader.bytes(BEFORE_RESERVED + RESERVED_IN_GREETING)?;
        let mut scramble = [0; SCRAMBLE];
        let (first, second) = scramble.split_at_mut(FIRST_SCRAMBLE_PART);
        first.copy_from_slice(&fixed[4..4 + FIRST_SCRAMBLE_PART]);
        second.copy_from_slice(reader.bytes(SCRAMBLE - FIRST_SCRAMBLE_PART)?);
        let two_bytes = |at: usize| u32::from(fixed[at]) | u32::from(fixed[at + 1]) << 8;
        let offered = two_bytes(13) | two_bytes(18) << 16;
        if offered & NEEDED != NEEDED {
            return Err(Failure::protocol("the server does not speak the protocol of MySQL 4.1"));
        }
        if tls && offered & TLS == 0 {
            return Err(Failure::protocol("the server does not offer TLS, which this listener requires"));
        }
        let capabilities = offered & !REMOVED & if tls { u32::MAX } else { !TLS };
        let start = out.len();
        out.extend_from_slice(&[0; HEADER]);
        let at = out.len() + 1 + version.len() + 1;
        out.extend_from_slice(payload);
        let [a, b, c, d] = capabilities.to_le_bytes();
        out[at + 13..at + 15].copy_from_slice(&[a, b]);
        out[at + 18..at + 20].copy_from_slice(&[c, d]);
        out[at + BEFORE_RESERVED..at + BEFORE_RESERVED + RESERVED_IN_GREETING].fill(0);
        packet::finish(&mut out[start..], sequence)?;
        Ok(Greeting { capabilities, collation: fixed[15], scramble })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response<'a> {
    capabilities: u32,
    /// The number of the collation, which also determines the character set.
    collation: u8,
    pub account: &'a [u8],
    pub client_reads: ClientReads,
    end: usize,
}

/// The form in which the client can read protected columns, according to its connection attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientReads {
    Plaintext,
    /// The client decrypts. The session's keys are derived with this nonce.
    Ciphertext(ClientNonce),
    /// The client announces that it decrypts, but sends no valid nonce. The session's keys cannot be derived without a
    /// nonce, so the login is refused.
    Unbound,
}

/// Return whether the packet is a TLS request. The client sends its full response after the TLS handshake.
pub fn is_tls_request(payload: &[u8]) -> bool {
    let claims_tls = Reader::new(payload).u32().is_ok_and(|capabilities| capabilities & TLS != 0);
    claims_tls && payload.len() == TLS_REQUEST
}

impl<'a> Response<'a> {
    pub fn parse(payload: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        let capabilities = reader.u32()?;
        if capabilities & NEEDED != NEEDED {
            return Err(Failure::protocol("the client does not speak the protocol of MySQL 4.1"));
        }
        let _largest = reader.u32()?;
        let collation = reader.u8()?;
        reader.bytes(RESERVED)?;
        let account = reader.until_zero()?;
        let proof = if capabilities & PROOF_OF_ANY_LENGTH != 0 { reader.length()? } else { u64::from(reader.u8()?) };
        reader.bytes(usize::try_from(proof).unwrap_or(usize::MAX))?;
        if capabilities & CONNECT_WITH_DB != 0 {
            reader.until_zero_or_end();
        }
        if capabilities & PLUGIN_AUTH != 0 {
            reader.until_zero_or_end();
        }
        let has_attributes = capabilities & CONNECT_ATTRIBUTES != 0 && !reader.is_empty();
        let client_reads = client_reads(if has_attributes { reader.text()? } else { &[] })?;
        Ok(Response { capabilities, collation, account, client_reads, end: payload.len() - reader.rest().len() })
    }

    pub fn claims_tls(&self) -> bool {
        self.capabilities & TLS != 0
    }

    pub fn without_eof(&self, greeting: &Greeting) -> bool {
        self.capabilities & greeting.capabilities & DEPRECATE_EOF != 0
    }

    /// Return whether the client's character set is `ascii`, `latin1`, `binary`, `utf8mb3` or `utf8mb4`. In these
    /// character sets, ASCII characters have the same bytes as in UTF-8. The collation determines the character set.
    pub fn has_plain_charset(&self, greeting: &Greeting) -> bool {
        let collation = if self.collation == 0 { greeting.collation } else { self.collation };
        let is_utf8 = matches!(collation, 33 | 45 | 46 | 76 | 83 | 192..=215 | 223 | 224..=247 | 255);
        is_utf8 || [5, 8, 11, 15, 31, 47, 48, 49, 63, 65, 94].contains(&collation)
    }

    /// Return whether every server uses exactly this account name. A server may cut a long name, remove quotes or
    /// convert characters, and so use another account. In character sets such as swe7, some ASCII signs stand for
    /// letters. These signs are allowed only if [`Response::has_plain_charset`] is true.
    pub fn has_unambiguous_name(&self, greeting: &Greeting) -> bool {
        let is_plain = self.has_plain_charset(greeting);
        let is_unambiguous = |byte: &u8| {
            byte.is_ascii_alphanumeric()
                || b"_-.$".contains(byte)
                || is_plain && byte.is_ascii() && !b"'\"`".contains(byte)
        };
        self.account.len() <= LONGEST_ACCOUNT && self.account.iter().all(is_unambiguous)
    }

    /// Append the login response for the server, without the capabilities in `REMOVED`. A `guarded` session (which may
    /// send only approved statements) keeps only the capabilities in `GUARDED`, and its character set becomes utf8mb4.
    pub fn append(&self, payload: &[u8], sequence: u8, guarded: bool, out: &mut Vec<u8>) -> Result<()> {
        append(&payload[..self.end], self.capabilities, sequence, guarded, out)
    }
}

fn client_reads(attributes: &[u8]) -> Result<ClientReads> {
    let mut reader = Reader::new(attributes);
    let (mut decrypts, mut nonces) = (false, Vec::new());
    while !reader.is_empty() {
        let (name, value) = (reader.text()?, reader.text()?);
        decrypts |= name == DECRYPTS_ATTRIBUTE && value == b"1";
        if name == NONCE_ATTRIBUTE {
            nonces.push(ClientNonce::from_hex(value));
        }
    }
    Ok(match nonces[..] {
        _ if !decrypts => ClientReads::Plaintext,
        [Some(nonce)] => ClientReads::Ciphertext(nonce),
        _ => ClientReads::Unbound,
    })
}

pub fn append_tls_request(payload: &[u8], sequence: u8, out: &mut Vec<u8>) -> Result<()> {
    let capabilities = Reader::new(payload).u32()?;
    append(payload, capabilities, sequence, false, out)
}

fn append(payload: &[u8], capabilities: u32, sequence: u8, guarded: bool, out: &mut Vec<u8>) -> Result<()> {
    packet::append(sequence, out, |out| {
        let at = out.len();
        out.extend_from_slice(payload);
        let kept = capabilities & if guarded { GUARDED } else { !REMOVED };
        out[at..at + 4].copy_from_slice(&kept.to_le_bytes());
        if guarded {
            out[at + 8] = COLLATION;
        }
        // MariaDB's clients announce further capabilities, which the gateway does not support, in the reserved bytes.
        out[at + 9..at + 9 + RESERVED].fill(0);
    })
}

#[cfg(test)]
mod tests;
