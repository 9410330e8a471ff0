//! The HTTP request that the settings describe (RFC 9112, 3). All workers send the same bytes, which are built once.

use crate::http::Settings;
use base::error::{Class, Failure, Result};

/// The header field User-Agent of every request, unless the configured headers contain another one.
const USER_AGENT: &str = concat!("costof-engine/", env!("CARGO_PKG_VERSION"));
/// The header fields that must not be configured as additional headers, because other settings determine their values.
const DERIVED_FIELDS: [&str; 4] = ["host", "connection", "content-length", "transfer-encoding"];

pub struct Request {
    keep_alive: Vec<u8>,
    last: Vec<u8>,
}

impl Request {
    pub fn new(settings: &Settings, authority: &str) -> Result<Self> {
        check(settings)?;
        let host = settings.host.as_deref().unwrap_or(authority);
        let method = if settings.body.is_some() { "POST" } else { "GET" };
        let mut text = format!("{method} {} HTTP/1.1\r\nHost: {host}\r\n", settings.path);
        let lines = || settings.headers.iter().map(|line| line.reveal());
        if !lines().any(|line| field_name(line).is_some_and(|name| name.eq_ignore_ascii_case("user-agent"))) {
            text += &format!("User-Agent: {USER_AGENT}\r\n");
        }
        lines().for_each(|line| text += &format!("{line}\r\n"));
        let body = settings.body.as_deref().unwrap_or_default();
        if settings.body.is_some() {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        let keep_alive = format!("{text}\r\n{body}").into_bytes();
        Ok(Request { keep_alive, last: format!("{text}Connection: close\r\n\r\n{body}").into_bytes() })
    }

    /// Return the request's bytes. The `last` request announces that the client closes the connection.
    pub fn bytes(&self, last: bool) -> &[u8] {
        if last { &self.last } else { &self.keep_alive }
    }
}

pub fn check(settings: &Settings) -> Result<()> {
    let wrong = |message: String| Err(Failure::new(Class::Plan, message));
    let visible = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if !settings.path.starts_with('/') || !visible(&settings.path) {
        return wrong(format!(
            "the path {:?} must begin with a slash and have only visible ASCII characters",
            settings.path
        ));
    }
    if let Some(host) = &settings.host
        && (host.is_empty() || !visible(host))
    {
        return wrong(format!("the host {host:?} is not a name or address"));
    }
    for (place, line) in settings.headers.iter().enumerate() {
        let line = line.reveal();
        let Some(name) = field_name(line) else {
            return wrong(format!("header {} is not of the form 'Name: value'", place + 1));
        };
        if line.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
            return wrong(format!("the header {name} has a control character, such as a line break, in its value"));
        }
        if DERIVED_FIELDS.iter().any(|derived| name.eq_ignore_ascii_case(derived)) {
            return wrong(format!("the header {name} follows from other settings: remove it"));
        }
    }
    Ok(())
}

/// Return the name before the colon, if it is a valid token (RFC 9110, 5.6.2). Otherwise return None.
fn field_name(line: &str) -> Option<&str> {
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
            body: None,
            requests_per_connection: None,
            any_status: false,
        }
    }

    #[test]
    fn last_request_of_a_connection_has_the_header_connection_close() {
        let request = Request::new(&settings("/?wait=200", None, &["Accept: */*", "user-agent: x"]), "h:8080").unwrap();
        let keep_alive = "GET /?wait=200 HTTP/1.1\r\nHost: h:8080\r\nAccept: */*\r\nuser-agent: x\r\n";
        assert_eq!(request.bytes(false), format!("{keep_alive}\r\n").as_bytes());
        assert_eq!(request.bytes(true), format!("{keep_alive}Connection: close\r\n\r\n").as_bytes());
        let named = Request::new(&settings("/", Some("shop.example"), &[]), "10.0.0.1:8080").unwrap();
        assert!(named.bytes(false).starts_with(b"GET / HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: costof-engine/"));
    }

    #[test]
    fn request_with_a_body_is_a_post_with_the_length_of_the_body() {
        let json = settings("/orders", Some("shop.example"), &["User-Agent: x", "Content-Type: application/json"]);
        let request = Request::new(&Settings { body: Some("{\"ä\": 1}".into()), ..json.clone() }, "h").unwrap();
        let header = "POST /orders HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: x\r\nContent-Type: application/json\r\n\
                      Content-Length: 9\r\n";
        assert_eq!(request.bytes(false), format!("{header}\r\n{{\"ä\": 1}}").as_bytes());
        assert_eq!(request.bytes(true), format!("{header}Connection: close\r\n\r\n{{\"ä\": 1}}").as_bytes());
        let empty = Request::new(&Settings { body: Some(String::new()), ..json }, "h").unwrap();
        assert!(empty.bytes(false).starts_with(b"POST ") && empty.bytes(false).ends_with(b"Content-Length: 0\r\n\r\n"));
    }

    #[test]
    fn invalid_settings_are_refused_without_quoting_their_values() {
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
