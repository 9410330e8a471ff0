//! Login on a connected socket: TLS, and authentication in one round trip. The client does not send information about
//! itself (`CLIENT SETINFO`): servers before version 7.2 do not know this command, and it costs additional round trips.

use super::Settings;
use super::channel::{Channel, append, append_argument, append_head, ok};
use super::reply::{Element, Reader, first};
use base::Secret;
use base::error::{Class, Failure, Result};
use net::runtime::Reactor;
use net::transport::{Address, Stream, Transport};
use record::{Phase, Timeline};
use std::rc::Rc;

const DEFAULT_USER: &str = "default";

/// The credentials and settings with which sessions begin. They include the password, so they are never printed.
pub struct Opening {
    username: Option<String>,
    password: Option<Secret>,
    resp: u8,
}

impl Opening {
    pub fn new(settings: &Settings) -> Self {
        let Settings { username, password, resp, .. } = settings.clone();
        Opening { username, password, resp }
    }

    /// Open a session, and record the phases `resolve`, `tcp`, `tls` and `auth`. With RESP3 and without a password, the
    /// last phase is `hello` instead of `auth`.
    pub async fn log_in(
        &self,
        reactor: &Rc<Reactor>,
        address: &Address,
        transport: &Transport,
        timeline: &mut Timeline,
    ) -> Result<Channel> {
        let mut stream = Stream::connect(reactor, address, timeline).await?;
        if let Transport::Tls(_) = transport {
            stream = stream.secure(transport, address, timeline).await?;
        }
        let mut channel = Channel::new(stream);
        let phase = if self.password.is_some() { Phase::Auth } else { Phase::Hello };
        if self.resp == 3 {
            self.append_hello(channel.request());
            channel.ask(read_hello).await?;
        } else if let Some(password) = &self.password {
            self.append_auth(password, channel.request());
            channel.ask(ok).await?;
        } else {
            return Ok(channel);
        }
        channel.io.end_phase(phase, timeline);
        Ok(channel)
    }

    fn append_hello(&self, out: &mut Vec<u8>) {
        append_head(out, if self.password.is_some() { 5 } else { 2 });
        append_argument(out, b"HELLO");
        append_argument(out, b"3");
        if let Some(password) = &self.password {
            append_argument(out, b"AUTH");
            append_argument(out, self.username.as_deref().unwrap_or(DEFAULT_USER).as_bytes());
            append_argument(out, password.reveal().as_bytes());
        }
    }

    /// Append AUTH. Without a configured user, AUTH has only the password: servers before version 6 know no other form.
    fn append_auth(&self, password: &Secret, out: &mut Vec<u8>) {
        let password = password.reveal().as_bytes();
        match &self.username {
            Some(username) => append(out, &[b"AUTH", username.as_bytes(), password]),
            None => append(out, &[b"AUTH", password]),
        }
    }
}

/// Check the answer to HELLO, which is a map. It must confirm version 3 of the protocol.
fn read_hello(element: Element<'_>, mut rest: Reader<'_>) -> Result<()> {
    let disagrees = || Failure::protocol("the server does not support RESP3");
    let Element::Aggregate(_) = element else { return Err(disagrees()) };
    while !rest.is_empty() {
        if let Element::Bytes(b"proto") | Element::Line(b"proto") = first(&mut rest)? {
            return if first(&mut rest)? == Element::Line(b"3") { Ok(()) } else { Err(disagrees()) };
        }
    }
    Err(disagrees())
}

/// The session as the server describes it: the version of the protocol, and the server's address.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ServerSide {
    /// The version of the protocol, `2` or `3`.
    pub resp: Option<String>,
    /// The server's address, `host:port`.
    pub address: Option<String>,
}

impl ServerSide {
    /// Send `CLIENT INFO`, which servers know from version 6.2 on. The returned fields are None if the server does not
    /// know the command or does not allow it for this user.
    pub async fn ask(channel: &mut Channel) -> Result<Self> {
        append(channel.request(), &[b"CLIENT", b"INFO"]);
        match channel.ask(|element, _| Ok(Self::read(element))).await {
            Err(failure) if matches!(failure.class, Class::Server | Class::Authentication) => {
                // NOAUTH means that the server requires a password, so every later command would fail too.
                if failure.detail.starts_with("NOAUTH") { Err(failure) } else { Ok(Self::default()) }
            }
            result => result,
        }
    }

    fn read(element: Element<'_>) -> Self {
        let Element::Bytes(info) = element else { return Self::default() };
        let info = String::from_utf8_lossy(info);
        let field = |name: &str| {
            let mut fields = info.split_ascii_whitespace().filter_map(|field| field.split_once('='));
            fields.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
        };
        ServerSide { resp: field("resp"), address: field("laddr") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opening(username: Option<&str>, password: Option<&str>, resp: u8) -> Opening {
        Opening { username: username.map(Into::into), password: password.map(Into::into), resp }
    }

    fn hello(opening: &Opening) -> Vec<u8> {
        let mut out = Vec::new();
        opening.append_hello(&mut out);
        out
    }

    #[test]
    fn resp3_session_begins_with_hello() {
        assert_eq!(hello(&opening(None, None, 3)), b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n");
        let named = b"*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$1\r\np\r\n";
        assert_eq!(hello(&opening(None, Some("p"), 3)), named);
    }

    #[test]
    fn resp2_session_begins_with_auth() {
        let mut out = Vec::new();
        opening(None, None, 2).append_auth(&"p".into(), &mut out);
        assert_eq!(out, b"*2\r\n$4\r\nAUTH\r\n$1\r\np\r\n");
        out.clear();
        opening(Some("u"), None, 2).append_auth(&"p".into(), &mut out);
        assert_eq!(out, b"*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$1\r\np\r\n");
    }

    fn greeted(reply: &[u8]) -> Result<()> {
        let mut reader = Reader::new(reply);
        let element = first(&mut reader)?;
        read_hello(element, reader)
    }

    #[test]
    fn redis_server_must_confirm_version_3_of_the_protocol() {
        greeted(b"%3\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nmodules\r\n*0\r\n$5\r\nproto\r\n:3\r\n").unwrap();
        for refused in [&b"%1\r\n$5\r\nproto\r\n:2\r\n"[..], b"%1\r\n$1\r\na\r\n:3\r\n", b"+OK\r\n", b"%0\r\n"] {
            assert_eq!(greeted(refused).unwrap_err().class, Class::Protocol, "{}", refused.escape_ascii());
        }
        assert_eq!(greeted(b"-WRONGPASS no\r\n").unwrap_err().class, Class::Authentication);
    }

    #[test]
    fn answer_to_client_info_is_parsed() {
        let info = b"txt:id=3 addr=127.0.0.1:4000 laddr=127.0.0.1:6380 fd=8 name= db=0 user=u resp=3\n";
        let server_side = ServerSide::read(Element::Bytes(info));
        assert_eq!(server_side, ServerSide { resp: Some("3".into()), address: Some("127.0.0.1:6380".into()) });
        assert_eq!(ServerSide::read(Element::Bytes(b"id=3 name=")), ServerSide::default());
        assert_eq!(ServerSide::read(Element::Null), ServerSide::default());
    }

    #[test]
    fn reading_login_replies_from_arbitrary_bytes_never_panics() {
        bolero::check!().with_iterations(2000).for_each(|bytes: &[u8]| {
            let _ = (greeted(bytes), ServerSide::read(Element::Bytes(bytes)));
        });
    }
}
