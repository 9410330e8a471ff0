//! A session between a client and the server. It turns received bytes into bytes to send, and decides which packets are
//! passed on. It does no input or output itself: the module `conversation` sends and receives.
//!
//! A session begins with a login. An account that is not guarded may send any statement. Its session becomes open,
//! which means that bytes pass unchanged. For a guarded account, the gateway first sets and checks ("pins") the
//! session's settings on the server, such as the character set. Then commands and answers alternate. During an answer
//! the session processes no bytes of the client, so a further command waits. This command is checked after the answer,
//! against the rules and the session's state at that time.

use crate::answers::{DefinitionsOf, Expected, Kind};
use crate::counters::Tally;
use crate::errors::*;
use crate::guard::Guard;
use crate::learn::{Learner, Recorder};
use crate::login::{self, ClientReads, Greeting, Response};
use crate::plan::{Limits, nanoseconds};
use crate::rules::{Role, Rules, UnknownClients};
use crate::sealing::too_long;
use crate::session_statements::{MODES, is_plain_name};
use base::error::{Failure, Result};
use encryption::SessionSalt;
use mysql::RowFormat;
use mysql::bytes::Reader;
use mysql::command::*;
use mysql::packet::{self, ERR, HEADER, TOO_LONG};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

const MOST_STEPS: u8 = 16;
const FAST_AUTH_SUCCEEDED: &[u8] = &[1, 3];
/// The maximum number of bytes of a command that contains no statement and no parameters.
const LONGEST_COMMAND: usize = 1 << 16;
/// The number of bytes before the parameters in COM_STMT_EXECUTE: command code, statement number, flags, iterations.
const BEFORE_PARAMETERS: usize = 1 + 4 + 1 + 4;
const NO_CURSOR: u8 = 0;
const KNOWN_COMMANDS: [u8; 17] = [
    QUIT,
    INIT_DB,
    QUERY,
    FIELD_LIST,
    STATISTICS,
    PROCESS_INFO,
    PROCESS_KILL,
    DEBUG,
    PING,
    STMT_PREPARE,
    STMT_EXECUTE,
    STMT_SEND_LONG_DATA,
    STMT_CLOSE,
    STMT_RESET,
    SET_OPTION,
    STMT_FETCH,
    RESET_CONNECTION,
];

const OTHER_CHARSET: &str = "this account gets encrypted columns, which need utf8mb4: connect with the character set utf8mb4 \
                             (utf8, latin1, ascii and binary are treated as utf8mb4)";
const AMBIGUOUS_NAME: &str = "the gateway cannot tell which account the server would choose for this name: use at most 32 \
                              bytes of ASCII without quotes";
const WITHOUT_A_NONCE: &str = "this client announces decryption (costof_encrypted) without a costof_nonce of 64 hexadecimal \
                               digits: update costof's driver";
const DOES_NOT_DECRYPT: &str = "this account gets encrypted columns, and this client does not announce that it decrypts them: \
                                connect with costof's driver, or set unknown_clients = \"ciphertext\" in the rules";
const CONNECT_AGAIN: &str = "the gateway's rules have changed and now guard this account: connect again";
const OTHER_ACCOUNT: &str = "the gateway cannot change the account of a session: connect again";

/// The state that all sessions of a listener share. Its rules (protected columns, roles, statements) may be replaced.
#[derive(Debug)]
pub struct Shared {
    rules: Mutex<Arc<Rules>>,
    /// The number of times that the rules were replaced. A session reads this number with each command, and locks the
    /// rules only if the number has changed.
    generation: AtomicU64,
    pub limits: Limits,
    /// The writer of statements that the gateway records for approval. None if no account is in learning mode.
    pub learner: Option<Learner>,
}

impl Shared {
    pub fn new(rules: Rules, limits: Limits, learner: Option<Learner>) -> Self {
        Shared { rules: Mutex::new(rules.into()), generation: AtomicU64::new(0), limits, learner }
    }

    /// Replace the rules. Each session uses the new rules from its next command on.
    pub fn replace(&self, rules: Rules) {
        let mut held = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        *held = rules.into();
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Return the current rules and their generation number.
    pub fn rules(&self) -> (Arc<Rules>, u64) {
        let held = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        (held.clone(), self.generation.load(Ordering::Acquire))
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet<'a> {
    pub sequence: u8,
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Return the first packet in these bytes. Return None if this packet is incomplete. Errors: `protocol` if its
    /// payload is longer than `longest` bytes.
    fn first(input: &'a [u8], longest: usize) -> Result<Option<Self>> {
        let Some((length, sequence)) = packet::split_header(input) else { return Ok(None) };
        if length > longest {
            return Err(too_long("a packet"));
        }
        Ok(input.get(HEADER..HEADER + length).map(|payload| Packet { sequence, payload }))
    }

    fn size(&self) -> usize {
        HEADER + self.payload.len()
    }

    fn append(&self, out: &mut Vec<u8>) -> Result<()> {
        packet::append(self.sequence, out, |out| out.extend_from_slice(self.payload))
    }
}

pub struct Session {
    shared: Arc<Shared>,
    rules: Arc<Rules>,
    generation: u64,
    /// True if both connections use TLS.
    tls: bool,
    phase: Phase,
    greeting: Option<Greeting>,
    account: Vec<u8>,
    /// The salt for the session's keys. None if the client does not announce that it decrypts.
    salt: Option<SessionSalt>,
    mode: Mode,
    pinning: Pinning,
    expected: Expected,
    /// The sequence number of the next packet, whichever side sends it.
    sequence: u8,
    without_eof: bool,
    is_resetting: bool,
    commands: u64,
    /// The number of bytes of a refused command that are still to come, and the error to send after them. None if no
    /// command is refused.
    skipped: Option<(usize, ErrPacket)>,
    /// The number of bytes of the client's current packet that are still to come, and whether the next packet continues
    /// the current one. Used only in open sessions, whose bytes pass unchanged.
    passing: (usize, bool),
    /// The session's current database. It is known only for sessions whose settings the gateway sets and checks.
    database: Option<Vec<u8>>,
    /// The database that becomes current if the current command, such as `USE shop`, succeeds. None if the
    /// command does not change the database.
    next_database: Option<Vec<u8>>,
    tally: Tally,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Greeting,
    /// Waiting for the client's login response or TLS request.
    Response {
        secured: bool,
    },
    Securing,
    Authentication {
        steps: u8,
        is_clients_turn: bool,
    },
    /// Waiting for the server's answers to the commands by which the gateway sets and checks the session's settings.
    Pinning,
    Commands,
    Open,
    Quitting,
    Over,
}

/// The statements that a session may send: any (`Unguarded`), approved ones (`Guard`), or ones to record (`Learn`).
enum Mode {
    Unguarded,
    Guard(Box<Guard>),
    /// The account's statements are learned: recorded so that a person can approve them. They need no approval yet, and
    /// their answers pass unchanged. The account may send only those kinds of commands (such as QUERY) that an account
    /// with approved statements may send.
    Learn(Box<Recorder>),
}

/// The state of setting and checking ("pinning") a session's settings: the character set, and an SQL mode under which
/// the server parses statements as the gateway does. Without pinning, `init_connect` or the server's defaults could
/// determine these settings.
///
/// The gateway sends the commands of [`PINNING`] together, and does not pass on their answers. The client gets the OK
/// for its login only after the settings have been read back and checked.
#[derive(Default)]
struct Pinning {
    /// The server's OK packet, which the client gets once the settings are confirmed.
    held: Vec<u8>,
    /// True once the server has confirmed the settings. Its next answer then contains the settings' actual values.
    is_set: bool,
    row: Option<Vec<u8>>,
}

/// The settings that the gateway reads back, with their required values. It also reads the SQL mode, before these
/// settings. The SQL mode is not in this list, because several values are allowed.
const READ_BACK: [(&str, &[u8]); 5] = [
    ("@@session.sql_auto_is_null", b"0"),
    ("@@session.character_set_client", b"utf8mb4"),
    ("@@session.character_set_connection", b"utf8mb4"),
    ("@@session.character_set_results", b"utf8mb4"),
    ("@@session.collation_connection", b"utf8mb4_general_ci"),
];

/// Two commands: the first one sets the session's settings, and the second one reads them back. They are plain ASCII
/// without double quotes, so the server parses them in the same way under every SQL mode and character set. The first
/// command keeps those SQL modes of the session that are allowed. The server itself selects them, so the gateway does
/// not have to query the SQL modes first.
static PINNING: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let kept = |mode| format!("IF(FIND_IN_SET('{mode}', @@session.sql_mode), '{mode}', NULL)");
    let kept = MODES.split(' ').map(kept).collect::<Vec<_>>().join(", ");
    let set = format!(
        "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci, @@session.sql_mode = CONCAT_WS(',', {kept}), \
         @@session.sql_auto_is_null = 0"
    );
    let read = format!("SELECT @@session.sql_mode, {}, DATABASE()", READ_BACK.map(|(name, _)| name).join(", "));
    let mut commands = Vec::new();
    for sql in [set, read] {
        let payload = [&[QUERY], sql.as_bytes()].concat();
        Packet { sequence: 0, payload: &payload }.append(&mut commands).expect("a short packet");
    }
    commands
});

/// The event for which a session waits. It determines the session's deadline. `Idle` and `Command` contain the number
/// of commands processed so far. Each command therefore counts as a different event, and gets a new deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Waiting for the server. There is no timeout.
    Server,
    /// Waiting for the first byte of a command.
    Idle(u64),
    /// Waiting for the last byte of a command whose first byte has arrived.
    Command(u64),
}

impl Waiting {
    pub fn timeout_ns(self, limits: &Limits) -> Option<u64> {
        match self {
            Waiting::Server => None,
            Waiting::Idle(_) => Some(nanoseconds(limits.idle_seconds)),
            Waiting::Command(_) => Some(nanoseconds(limits.command_seconds)),
        }
    }
}

type OrError<T> = std::result::Result<T, ErrPacket>;

enum Decision {
    /// The command was passed on. The server will send this answer.
    Passed(Expected),
    Refused(ErrPacket),
    /// The command was not passed on. It needs no answer.
    Dropped,
}

impl Session {
    pub fn new(shared: Arc<Shared>, tls: bool) -> Self {
        let (rules, generation) = shared.rules();
        Session {
            shared,
            rules,
            generation,
            tls,
            phase: Phase::Greeting,
            greeting: None,
            account: Vec::new(),
            salt: None,
            mode: Mode::Unguarded,
            pinning: Pinning::default(),
            expected: Expected::Nothing,
            sequence: 0,
            without_eof: false,
            is_resetting: false,
            commands: 0,
            skipped: None,
            passing: (0, false),
            database: None,
            next_database: None,
            tally: Tally::default(),
        }
    }

    /// Return whether the client's bytes can be processed now. They wait while the server answers.
    pub fn listens_to_client(&self) -> bool {
        match self.phase {
            Phase::Response { .. } | Phase::Open => true,
            Phase::Authentication { is_clients_turn, .. } => is_clients_turn,
            Phase::Commands => self.expected == Expected::Nothing,
            Phase::Greeting | Phase::Securing | Phase::Pinning | Phase::Quitting | Phase::Over => false,
        }
    }

    /// Return how many more bytes to receive from the client now. While the client may send a TLS request, receive only
    /// the rest of this request: the bytes after it belong to the TLS handshake, and the TLS layer must receive them.
    /// Otherwise there is no limit (`usize::MAX`).
    pub fn client_read_limit(&self, received: &[u8]) -> usize {
        const REQUEST: usize = HEADER + login::TLS_REQUEST;
        let is_longer = received
            .first_chunk()
            .is_some_and(|[low, middle, high]| (*low as usize, *middle, *high) != (login::TLS_REQUEST, 0, 0));
        if !self.tls || self.phase != (Phase::Response { secured: false }) || is_longer {
            return usize::MAX;
        }
        REQUEST.saturating_sub(received.len())
    }

    /// Return whether both connections must begin TLS now. Call [`Session::secured`] after the handshakes.
    pub fn awaits_tls(&self) -> bool {
        self.phase == Phase::Securing
    }

    /// Continue the login after both TLS handshakes.
    pub fn secured(&mut self) {
        self.phase = Phase::Response { secured: true };
    }

    pub fn is_logged_in(&self) -> bool {
        matches!(self.phase, Phase::Commands | Phase::Open | Phase::Quitting)
    }

    /// Return whether the session is open. In an open session, the gateway passes bytes unchanged.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Return whether the session has ended. Both connections must be closed once all pending bytes are sent.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Return the counts since the last call, and start again from 0.
    pub fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    /// Return the event for which the session is waiting. `has_bytes` means that received bytes of the client are not
    /// processed yet.
    pub fn waiting(&self, has_bytes: bool) -> Waiting {
        match self.phase {
            Phase::Commands if !self.listens_to_client() => Waiting::Server,
            Phase::Commands if has_bytes || self.skipped.is_some() => Waiting::Command(self.commands),
            Phase::Commands => Waiting::Idle(self.commands),
            _ => Waiting::Server,
        }
    }

    /// End the session after a timeout, and append the error for the client.
    pub fn time_out(&mut self, waiting: Waiting, to_client: &mut Vec<u8>) {
        let error = match waiting {
            Waiting::Command(_) => {
                ErrPacket::new(READ_INTERRUPTED, "the gateway ended this session: a command took too long to arrive")
            }
            Waiting::Idle(_) | Waiting::Server => {
                ErrPacket::new(IDLE, "the gateway ended this session: it was idle for too long")
            }
        };
        self.sequence = u8::from(matches!(waiting, Waiting::Command(_)));
        self.fail(&error, to_client);
    }

    /// Process bytes from the client. Append bytes for the server and the client. Return the number of processed bytes.
    pub fn from_client(&mut self, input: &[u8], to_server: &mut Vec<u8>, to_client: &mut Vec<u8>) -> usize {
        let mut processed = 0;
        while self.listens_to_client() && processed < input.len() {
            let input = &input[processed..];
            let result = match self.phase {
                Phase::Commands => self.command(input, to_server, to_client),
                Phase::Open => self.pass_commands(input, to_server),
                _ => self.login_packet(input, to_server),
            };
            match result {
                Ok(0) => break,
                Ok(count) => processed += count,
                Err(error) => self.fail(&error, to_client),
            }
        }
        if self.phase == Phase::Over { input.len() } else { processed }
    }

    /// Process bytes from the server. Append bytes for the client and the server. Return the number of processed bytes.
    pub fn from_server(&mut self, input: &[u8], to_client: &mut Vec<u8>, to_server: &mut Vec<u8>) -> usize {
        let mut processed = 0;
        while self.phase != Phase::Over {
            let rest = &input[processed..];
            if self.phase == Phase::Open {
                to_client.extend_from_slice(rest);
                return input.len();
            }
            let (sequence, written) = (self.sequence, to_client.len());
            let longest = if self.is_logged_in() { TOO_LONG - 1 } else { login::LONGEST };
            let result = match Packet::first(rest, longest) {
                Ok(None) => return processed,
                Ok(Some(packet)) => {
                    processed += packet.size();
                    self.server_packet(packet, to_client, to_server)
                }
                Err(failure) => Err(failure.into()),
            };
            if let Err(error) = result {
                // The client gets the error instead of the invalid packet.
                to_client.truncate(written);
                self.sequence = sequence;
                self.fail(&error, to_client);
            }
        }
        input.len()
    }

    /// End the session because the server's connection was lost. A client that waits for an answer gets an error,
    /// except in an open session, whose bytes pass unchanged.
    pub fn server_lost(&mut self, to_client: &mut Vec<u8>) {
        let is_idle = self.phase == Phase::Commands && self.expected == Expected::Nothing;
        if !is_idle && !matches!(self.phase, Phase::Quitting | Phase::Open) {
            self.fail(&ErrPacket::new(SERVER_LOST, "the server behind the gateway was lost"), to_client);
        }
        self.phase = Phase::Over;
    }

    pub fn fail(&mut self, error: &ErrPacket, to_client: &mut Vec<u8>) {
        if self.phase != Phase::Over {
            let sequence = if self.phase == Phase::Pinning { self.pinning.held[HEADER - 1] } else { self.sequence };
            // Before its login response, a client expects errors without an SQL state.
            error.append(sequence, self.phase != Phase::Greeting, to_client);
            self.tally.errors += 1;
        }
        self.phase = Phase::Over;
    }

    /// Process a packet of the client's login. Return the packet's size, or 0 if the packet is incomplete.
    fn login_packet(&mut self, input: &[u8], to_server: &mut Vec<u8>) -> OrError<usize> {
        let Some(packet) = Packet::first(input, login::LONGEST)? else { return Ok(0) };
        if packet.sequence != self.sequence {
            return Err(Failure::protocol("the client's login packet is out of sequence").into());
        }
        self.sequence = packet.sequence.wrapping_add(1);
        match self.phase {
            Phase::Response { secured } => self.response(packet, secured, to_server)?,
            Phase::Authentication { steps, .. } => {
                packet.append(to_server)?;
                self.phase = Phase::Authentication { steps, is_clients_turn: false };
            }
            _ => {}
        }
        Ok(packet.size())
    }

    fn response(&mut self, packet: Packet<'_>, secured: bool, to_server: &mut Vec<u8>) -> OrError<()> {
        let Packet { sequence, payload } = packet;
        let Some(greeting) = self.greeting else {
            return Err(Failure::protocol("the client responded before the greeting").into());
        };
        let refuse = |message| Err(ErrPacket::new(ACCESS_DENIED, message));
        let unwanted_tls = || Failure::protocol("the client requests TLS, which was not offered");
        if login::is_tls_request(payload) {
            if secured || !self.tls {
                return Err(unwanted_tls().into());
            }
            login::append_tls_request(payload, sequence, to_server)?;
            self.phase = Phase::Securing;
            return Ok(());
        }
        let response = Response::parse(payload)?;
        if self.tls && !secured {
            return Err(ErrPacket::new(TLS_REQUIRED, "the gateway accepts connections under TLS only"));
        }
        if response.claims_tls() != self.tls {
            return Err(unwanted_tls().into());
        }
        self.without_eof = response.without_eof(&greeting);
        self.account = response.account.to_vec();
        self.salt = match response.client_reads {
            ClientReads::Plaintext => None,
            ClientReads::Ciphertext(nonce) => Some(SessionSalt::new(&greeting.scramble, &nonce)),
            // The client sent no valid nonce. Refuse the login of every account: if only guarded accounts (which may
            // send only approved statements) got the error, it would reveal which accounts are guarded.
            ClientReads::Unbound => return refuse(WITHOUT_A_NONCE),
        };
        self.mode = self.select_mode()?;
        if self.is_pinned_account() && !response.has_plain_charset(&greeting) {
            return refuse(OTHER_CHARSET);
        }
        if self.rules.guard() && !response.has_unambiguous_name(&greeting) {
            return refuse(AMBIGUOUS_NAME);
        }
        response.append(payload, sequence, self.is_pinned_account(), to_server)?;
        self.phase = Phase::Authentication { steps: 0, is_clients_turn: false };
        Ok(())
    }

    fn select_mode(&self) -> Result<Mode> {
        if self.shared.learner.as_ref().is_some_and(|learner| learner.learns_from(&self.account)) {
            return Ok(Mode::Learn(Box::default()));
        }
        Ok(match self.rules.role(&self.account) {
            Role::Plaintext => Mode::Unguarded,
            role => Mode::Guard(Box::new(Guard::new(role, self.salt)?)),
        })
    }

    fn is_pinned_account(&self) -> bool {
        !matches!(self.mode, Mode::Unguarded)
    }

    /// Return an error if the account would get ciphertext and the client has not announced that it decrypts.
    fn check_client(&self) -> OrError<()> {
        let is_guarded = matches!(self.mode, Mode::Guard(_));
        if is_guarded && self.salt.is_none() && self.rules.unknown_clients == UnknownClients::Refuse {
            return Err(ErrPacket::new(ACCESS_DENIED, DOES_NOT_DECRYPT));
        }
        Ok(())
    }

    fn server_packet(&mut self, packet: Packet<'_>, to_client: &mut Vec<u8>, to_server: &mut Vec<u8>) -> OrError<()> {
        let Packet { sequence, payload } = packet;
        let is_error = payload.first() == Some(&ERR);
        // An error may have any sequence number, because a server may end a session on its own at any time.
        if sequence != self.sequence && !is_error {
            return Err(Failure::protocol("the server's packet is out of sequence").into());
        }
        self.sequence = sequence.wrapping_add(1);
        match self.phase {
            Phase::Commands | Phase::Quitting => return self.answer_packet(packet, to_client, to_server),
            Phase::Pinning => return Ok(self.pinning_packet(payload, to_client)?),
            // The server's error ends the login in every phase.
            _ if is_error => {
                match self.mode {
                    Mode::Guard(_) => append_server_error(payload, sequence, to_client)?,
                    Mode::Unguarded | Mode::Learn(_) => packet.append(to_client)?,
                }
                self.phase = Phase::Over;
            }
            Phase::Greeting => {
                self.greeting = Some(Greeting::without_removed_capabilities(payload, sequence, self.tls, to_client)?);
                self.phase = Phase::Response { secured: false };
            }
            Phase::Authentication { is_clients_turn: false, .. } if payload.first() == Some(&packet::OK) => {
                self.check_client()?;
                if self.is_pinned_account() {
                    self.pin(packet, to_server)?;
                } else {
                    packet.append(to_client)?;
                    self.phase = Phase::Open;
                }
            }
            Phase::Authentication { steps: steps @ 0..MOST_STEPS, is_clients_turn: false } => {
                packet.append(to_client)?;
                let is_clients_turn = payload != FAST_AUTH_SUCCEEDED;
                self.phase = Phase::Authentication { steps: steps + 1, is_clients_turn };
            }
            _ => return Err(Failure::protocol("the server sent a packet that no command asked for").into()),
        }
        Ok(())
    }

    /// Begin to set and check ("pin") the session's settings. Store `packet`, the server's OK, which the client
    /// gets after the check.
    fn pin(&mut self, packet: Packet<'_>, to_server: &mut Vec<u8>) -> Result<()> {
        self.pinning = Pinning::default();
        append_bare_ok(packet.payload, false, packet.sequence, &mut self.pinning.held)?;
        to_server.extend_from_slice(&PINNING);
        (self.expected, self.sequence) = (Expected::Result, 1);
        self.phase = Phase::Pinning;
        Ok(())
    }

    fn pinning_packet(&mut self, payload: &[u8], to_client: &mut Vec<u8>) -> Result<()> {
        let not_pinned = |why: &str| {
            Err(Failure::protocol(format!("the server does not apply the settings that guarded accounts need: {why}")))
        };
        let kind = self.expected.advance(payload, self.without_eof)?;
        let is_expected = match (self.pinning.is_set, kind) {
            (false, Kind::Ok) => true,
            (true, Kind::Row) => self.pinning.row.replace(payload.to_vec()).is_none(),
            (true, Kind::Count(_) | Kind::Definition(_) | Kind::Eof | Kind::EndOfRows) => true,
            _ => false,
        };
        if !is_expected {
            return not_pinned("it refused to set them");
        }
        if self.expected != Expected::Nothing {
            return Ok(());
        }
        if !self.pinning.is_set {
            self.pinning.is_set = true;
            (self.expected, self.sequence) = (Expected::Result, 1);
            return Ok(());
        }
        let Some(row) = &self.pinning.row else { return not_pinned("it did not return them") };
        let mut reader = Reader::new(row);
        let is_allowed = |mode: &[u8]| mode.is_empty() || MODES.split(' ').any(|known| known.as_bytes() == mode);
        let mut is_pinned = reader.text()?.split(|byte| *byte == b',').all(is_allowed);
        for (_, expected) in READ_BACK {
            is_pinned &= reader.text()? == expected;
        }
        self.database = reader.text_or_null()?.map(<[u8]>::to_vec);
        if !is_pinned || !reader.is_empty() {
            return not_pinned("they have other values");
        }
        to_client.extend_from_slice(&self.pinning.held);
        self.is_resetting = false;
        self.phase = Phase::Commands;
        Ok(())
    }

    fn answer_packet(&mut self, packet: Packet<'_>, to_client: &mut Vec<u8>, to_server: &mut Vec<u8>) -> OrError<()> {
        let was_idle = self.expected == Expected::Nothing;
        let kind = self.expected.advance(packet.payload, self.without_eof)?;
        if kind == Kind::Ok && self.is_resetting {
            return Ok(self.pin(packet, to_server)?);
        }
        match &mut self.mode {
            Mode::Guard(guard) => guard.answer(kind, packet, &self.rules, &mut self.tally, to_client)?,
            Mode::Learn(recorder) => {
                match kind {
                    Kind::Prepared(prepared) => recorder.prepared(prepared.statement),
                    Kind::Definition(DefinitionsOf::Rows | DefinitionsOf::Columns) => recorder.column(packet.payload),
                    _ => {}
                }
                packet.append(to_client)?;
            }
            Mode::Unguarded => packet.append(to_client)?,
        }
        if self.expected == Expected::Nothing {
            if let Some(next) = self.next_database.take()
                && kind == Kind::Ok
            {
                self.database = Some(next);
            }
            if let (Mode::Learn(recorder), Some(learner)) = (&mut self.mode, &self.shared.learner) {
                recorder.answered(kind != Kind::Error, &self.rules, learner);
            }
        }
        if was_idle {
            self.phase = Phase::Over;
        }
        Ok(())
    }

    /// Apply the listener's new rules if the rules were replaced since the last command. Return an error if the session
    /// cannot continue under the new rules.
    fn renew_rules(&mut self) -> OrError<()> {
        if self.generation != self.shared.generation.load(Ordering::Acquire) {
            (self.rules, self.generation) = self.shared.rules();
            let role = self.rules.role(&self.account);
            match (&mut self.mode, role) {
                (Mode::Learn(_), _) | (Mode::Unguarded, Role::Plaintext) => {}
                // Until now, the account could send any command, such as a change of settings. The new rules allow only
                // approved statements. The gateway cannot undo the earlier commands, so the session ends.
                (Mode::Unguarded, _) => return Err(ErrPacket::new(REFUSED, CONNECT_AGAIN)),
                (Mode::Guard(_), Role::Plaintext) => {
                    self.mode = Mode::Unguarded;
                    self.phase = Phase::Open;
                }
                (Mode::Guard(guard), role) => guard.renew_rules(role, &self.rules)?,
            }
            self.check_client()?;
        }
        if let Mode::Guard(guard) = &mut self.mode {
            guard.renew_key_in_time()?;
        }
        Ok(())
    }

    /// Pass on the received commands of an open session (one that may send any statement), and return the number of
    /// bytes passed on. Only the codes in `KNOWN_COMMANDS` are allowed. COM_CHANGE_USER is not one of them, because a
    /// client could use this command to change to a guarded account (one that may send only approved statements).
    fn pass_commands(&mut self, input: &[u8], to_server: &mut Vec<u8>) -> OrError<usize> {
        let mut processed = 0;
        loop {
            let (left, continues) = self.passing;
            let available = left.min(input.len() - processed);
            to_server.extend_from_slice(&input[processed..processed + available]);
            processed += available;
            self.passing.0 -= available;
            let rest = &input[processed..];
            let Some((length, sequence)) = packet::split_header(rest) else { return Ok(processed) };
            let expected = if continues { self.sequence } else { 0 };
            if sequence != expected {
                return Err(Failure::protocol("the client's command is out of sequence").into());
            }
            self.sequence = sequence.wrapping_add(1);
            if !continues {
                let Some(&command) = rest.get(HEADER) else {
                    let why = "a command without a command byte";
                    return if length == 0 { Err(Failure::protocol(why).into()) } else { Ok(processed) };
                };
                self.renew_rules()?;
                if !KNOWN_COMMANDS.contains(&command) {
                    return Err(ErrPacket::new(UNKNOWN_COMMAND, unknown_command(command)));
                }
                self.tally.commands += 1;
            }
            self.passing = (HEADER + length, length == TOO_LONG);
        }
    }

    /// Process a command once it is complete. Return the number of processed bytes, 0 for an incomplete command.
    fn command(&mut self, input: &[u8], to_server: &mut Vec<u8>, to_client: &mut Vec<u8>) -> OrError<usize> {
        if let Some((left, error)) = self.skipped.take() {
            let available = left.min(input.len());
            if available < left {
                self.skipped = Some((left - available, error));
            } else {
                self.refuse(&error, to_client);
            }
            return Ok(available);
        }
        let Some((length, sequence)) = packet::split_header(input) else { return Ok(0) };
        self.sequence = sequence.wrapping_add(1);
        if sequence != 0 {
            return Err(Failure::protocol("the client's command is out of sequence").into());
        }
        if length == 0 {
            return Err(Failure::protocol("a command without a command byte").into());
        }
        let Some(&command) = input.get(HEADER) else { return Ok(0) };
        let Limits { statement_bytes, long_data_bytes, .. } = self.shared.limits;
        let (description, header_size, limit) = match command {
            QUERY | STMT_PREPARE => ("a statement", 1, statement_bytes),
            STMT_EXECUTE | STMT_SEND_LONG_DATA => ("parameters", BEFORE_PARAMETERS, long_data_bytes),
            _ => ("a command of this kind", 1, LONGEST_COMMAND),
        };
        if length > header_size + limit || length == TOO_LONG {
            let error = ErrPacket::too_large(description, limit);
            // In two cases the session cannot continue. SEND_LONG_DATA has no answer, so the client would take an error
            // for the answer to its next command. A command of 16 MB continues in packets that the gateway cannot skip.
            if command == STMT_SEND_LONG_DATA || length == TOO_LONG {
                return Err(error);
            }
            self.skipped = Some((HEADER + length, error));
            return self.command(input, to_server, to_client);
        }
        let Some(payload) = input.get(HEADER..HEADER + length) else { return Ok(0) };
        self.renew_rules()?;
        if self.phase == Phase::Open {
            return self.pass_commands(input, to_server);
        }
        match self.decide(command, payload, to_server)? {
            Decision::Passed(expected) => {
                self.expected = expected;
                self.is_resetting = command == RESET_CONNECTION;
                self.tally.commands += 1;
            }
            Decision::Refused(error) => self.refuse(&error, to_client),
            Decision::Dropped => {}
        }
        self.commands += 1;
        if command == QUIT {
            self.phase = Phase::Quitting;
        }
        Ok(HEADER + length)
    }

    fn refuse(&mut self, error: &ErrPacket, to_client: &mut Vec<u8>) {
        self.tally.refused += 1;
        error.append(self.sequence, true, to_client);
    }

    /// Decide whether to pass on a command, and pass it on if it is allowed. Call this only for guarded accounts (which
    /// may send only approved statements) and for accounts whose statements are recorded. This function lists every
    /// command that can be passed on for them.
    fn decide(&mut self, command: u8, payload: &[u8], to_server: &mut Vec<u8>) -> OrError<Decision> {
        let rest = &payload[1..];
        let expected = match command {
            QUIT if rest.is_empty() => Expected::Nothing,
            PING if rest.is_empty() => Expected::Short,
            RESET_CONNECTION if rest.is_empty() => {
                if let Mode::Guard(guard) = &mut self.mode {
                    guard.prepared.clear();
                }
                Expected::Short
            }
            INIT_DB if !is_plain_name(rest) => {
                return Ok(Decision::Refused(ErrPacket::not_allowed("a database name of this form")));
            }
            INIT_DB => {
                self.next_database = Some(rest.to_vec());
                Expected::Short
            }
            QUERY | STMT_PREPARE => return self.decide_on_statement(command, payload, to_server),
            STMT_EXECUTE | STMT_SEND_LONG_DATA | STMT_CLOSE | STMT_RESET => {
                return self.decide_on_prepared(command, payload, to_server);
            }
            CHANGE_USER => return Ok(Decision::Refused(ErrPacket::new(UNKNOWN_COMMAND, unknown_command(command)))),
            _ => return Ok(Decision::Refused(ErrPacket::not_allowed("a command of this kind"))),
        };
        Packet { sequence: 0, payload }.append(to_server)?;
        Ok(Decision::Passed(expected))
    }

    fn decide_on_statement(&mut self, command: u8, payload: &[u8], to_server: &mut Vec<u8>) -> OrError<Decision> {
        let (text, is_prepared) = (&payload[1..], command == STMT_PREPARE);
        let database = self.database.as_deref();
        let next_database = match (&mut self.mode, &self.shared.learner) {
            (Mode::Guard(guard), _) => {
                let limit = self.shared.limits.prepared_statements;
                if is_prepared && guard.prepared.len() >= limit {
                    let message =
                        format!("the gateway keeps at most {limit} prepared statements per session: close some");
                    return Ok(Decision::Refused(ErrPacket::new(TOO_MANY_STATEMENTS, message)));
                }
                let statement = match self.rules.statements.find(text, is_prepared, database, &mut guard.reading) {
                    Ok(statement) => statement,
                    Err(refusal) => return Ok(Decision::Refused(ErrPacket::new(REFUSED, refusal.to_string()))),
                };
                packet::append(0, to_server, |out| {
                    out.push(command);
                    statement.append(&guard.reading, out);
                })?;
                let uses = statement.uses.clone();
                guard.begin(Some(statement), if is_prepared { RowFormat::Binary } else { RowFormat::Text });
                uses
            }
            (Mode::Learn(recorder), Some(learner)) => {
                Packet { sequence: 0, payload }.append(to_server)?;
                recorder.statement(text, is_prepared, database, &self.rules, learner)
            }
            _ => return Err(Failure::protocol("a statement in a session without a guard").into()),
        };
        if is_prepared {
            return Ok(Decision::Passed(Expected::Prepared));
        }
        self.next_database = next_database;
        Ok(Decision::Passed(Expected::Result))
    }

    fn decide_on_prepared(&mut self, command: u8, payload: &[u8], to_server: &mut Vec<u8>) -> OrError<Decision> {
        let mut reader = Reader::new(&payload[1..]);
        let number = reader.u32()?;
        let expected = match command {
            STMT_EXECUTE => {
                let (cursor, _iterations) = (reader.u8()?, reader.u32()?);
                if cursor != NO_CURSOR {
                    return Ok(Decision::Refused(ErrPacket::not_allowed("a cursor")));
                }
                match (&mut self.mode, &self.shared.learner) {
                    (Mode::Guard(guard), _) => match guard.execute(number, reader.rest()) {
                        Ok(statement) => {
                            self.next_database = statement.uses.clone();
                            guard.begin(Some(statement), RowFormat::Binary);
                        }
                        Err(error) => return Ok(Decision::Refused(error)),
                    },
                    (Mode::Learn(recorder), Some(learner)) => {
                        recorder.execution(number, reader.rest(), &self.rules, learner);
                    }
                    _ => {}
                }
                Expected::Result
            }
            STMT_RESET => Expected::Short,
            _ => Expected::Nothing,
        };
        if let Mode::Guard(guard) = &mut self.mode {
            let Some(prepared) = guard.prepared.get_mut(&number) else {
                return Ok(match command {
                    STMT_RESET => Decision::Refused(ErrPacket::unknown_statement()),
                    _ => Decision::Dropped,
                });
            };
            match command {
                STMT_CLOSE => drop(guard.prepared.remove(&number)),
                STMT_RESET => prepared.long_data = 0,
                // The client expects no answer to this command, so an error ends the session.
                STMT_SEND_LONG_DATA => {
                    if !prepared.accepts_long_data(reader.u16()?) {
                        let description = "SEND_LONG_DATA for a parameter whose last value was not a text";
                        return Err(ErrPacket::not_allowed(description));
                    }
                    let limit = self.shared.limits.long_data_bytes;
                    prepared.long_data += reader.rest().len();
                    if prepared.long_data > limit {
                        return Err(ErrPacket::too_large("parameters sent by SEND_LONG_DATA", limit));
                    }
                }
                _ => {}
            }
        }
        Packet { sequence: 0, payload }.append(to_server)?;
        Ok(Decision::Passed(expected))
    }
}

fn unknown_command(command: u8) -> &'static str {
    if command == CHANGE_USER { OTHER_ACCOUNT } else { "the gateway does not know this command" }
}

#[cfg(test)]
mod tests;
