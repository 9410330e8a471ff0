//! The request of an arm (RFC 9112, 3): the same bytes every time, made once.

use crate::http::Settings;
use base::error::{Class, Failure, Result};

/// Named in every request, unless the plan's headers name another.
const USER_AGENT: &str = concat!("costof-engine/", env!("CARGO_PKG_VERSION"));
/// Fields that say where a message ends, whom it is for and what becomes of the connection: ours to say.
const OWN_FIELDS: [&str; 4] = ["host", "connection", "content-length", "transfer-encoding"];

/// A request, as it is sent.
pub struct Request {
    keeping: Vec<u8>,
    last: Vec<u8>,
}

impl Request {
    pub fn new(settings: &Settings, authority: &str) -> Result<Self> {
        check(settings)?;
        let host = settings.host.as_deref().unwrap_or(authority);
        let mut text = format!("GET {} HTTP/1.1\r\nHost: {host}\r\n", settings.path);
        let lines = || settings.headers.iter().map(|line| line.reveal());
        if !lines().any(|line| name_of(line).is_some_and(|name| name.eq_ignore_ascii_case("user-agent"))) {
            text += &format!("User-Agent: {USER_AGENT}\r\n");
        }
        lines().for_each(|line| text += &format!("{line}\r\n"));
        let keeping = format!("{text}\r\n").into_bytes();
        Ok(Request { keeping, last: format!("{text}Connection: close\r\n\r\n").into_bytes() })
    }

    pub fn bytes(&self, last: bool) -> &[u8] {
        if last { &self.last } else { &self.keeping }
    }
}

pub fn check(settings: &Settings) -> Result<()> {
    let wrong = |what: String| Err(Failure::new(Class::Plan, what));
    let visible = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if !settings.path.starts_with('/') || !visible(&settings.path) {
        return wrong(format!("the path {:?} does not begin with a slash, or is not in ASCII", settings.path));
    }
    if let Some(host) = &settings.host
        && (host.is_empty() || !visible(host))
    {
        return wrong(format!("the host {host:?} is no name or address"));
    }
    for (place, line) in settings.headers.iter().enumerate() {
        let line = line.reveal();
        let Some(name) = name_of(line) else {
            return wrong(format!("header {} is not of the form 'Name: value'", place + 1));
        };
        if line.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
            return wrong(format!("the header {name} has a control character, such as a line's end, in its value"));
        }
        if OWN_FIELDS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            return wrong(format!("the header {name} follows from the other settings and cannot be given"));
        }
    }
    Ok(())
}

/// The name before the colon, where it is one (RFC 9110, 5.6.2).
fn name_of(line: &str) -> Option<&str> {
    let (name, _) = line.split_once(':')?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    (!name.is_empty() && name.bytes().all(is_token)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(path: &str, host: Option<&str>, headers: &[&str]) -> Settings {
        Settings {
            addresses: Vec::new(),
            host: host.map(Into::into),
            path: path.into(),
            headers: headers.iter().map(|&line| line.into()).collect(),
            requests_per_connection: None,
            any_status: false,
        }
    }

    #[test]
    fn the_last_of_a_connection_says_so() {
        let request = Request::new(&settings("/?wait=200", None, &["Accept: */*", "user-agent: x"]), "h:8080").unwrap();
        let keeping = "GET /?wait=200 HTTP/1.1\r\nHost: h:8080\r\nAccept: */*\r\nuser-agent: x\r\n";
        assert_eq!(request.bytes(false), format!("{keeping}\r\n").as_bytes());
        assert_eq!(request.bytes(true), format!("{keeping}Connection: close\r\n\r\n").as_bytes());
        let named = Request::new(&settings("/", Some("shop.example"), &[]), "10.0.0.1:8080").unwrap();
        assert!(named.bytes(false).starts_with(b"GET / HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: costof-engine/"));
    }

    #[test]
    fn what_would_not_be_one_request_is_refused_without_its_values() {
        for (path, host, header) in [
            ("", None, "A: b"),
            ("index", None, "A: b"),
            ("/ HTTP/1.1\r\nX: y", None, "A: b"),
            ("/ä", None, "A: b"),
            ("/", Some(""), "A: b"),
            ("/", Some("a b"), "A: b"),
            ("/", None, "s3cret"),
            ("/", None, ": s3cret"),
            ("/", None, "A b: s3cret"),
            ("/", None, "A: s3cret\r\nB: c"),
            ("/", None, "Host: s3cret"),
            ("/", None, "CONNECTION: s3cret"),
        ] {
            let failure = check(&settings(path, host, &[header])).unwrap_err();
            assert_eq!(failure.class, Class::Plan, "{path} {host:?} {header}");
            assert!(!failure.detail.contains("s3cret") && !failure.detail.contains('\n'), "{failure}");
        }
    }
}
