use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

type Outcome = (Vec<Request>, Option<Refusal>);

fn read<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let mut reader = Reader::new();
    let mut requests = Vec::new();
    for mut part in parts {
        while !part.is_empty() {
            let room = reader.room();
            let copied = room.len().min(part.len());
            assert!(copied > 0, "the buffer has no room");
            room[..copied].copy_from_slice(&part[..copied]);
            part = &part[copied..];
            reader.received(copied);
            loop {
                match reader.next_request() {
                    Ok(Some(request)) => requests.push(request),
                    Ok(None) => break,
                    Err(refusal) => return (requests, Some(refusal)),
                }
            }
        }
    }
    (requests, None)
}

fn one(text: &str) -> Result<Option<Request>, Refusal> {
    match read([text.as_bytes()]) {
        (_, Some(refusal)) => Err(refusal),
        (requests, None) => Ok(requests.first().copied()),
    }
}

fn get(wait_ms: u32) -> Request {
    Request { method: Method::GetOrPost, wait_ms, persistence: Persistence::Implied }
}

#[test]
fn query_parameter_wait_sets_the_delay_of_the_response() {
    for (target, wait_ms) in [
        ("/", 0),
        ("/?wait=200", 200),
        ("/any/path?x=1&wait=60000&y", 60_000),
        ("/?wait=0", 0),
        ("/?await=5", 0),
        ("http://h/?wait=7", 7),
    ] {
        assert_eq!(one(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")), Ok(Some(get(wait_ms))), "{target}");
    }
    for target in ["/?wait=", "/?wait=60001", "/?wait=-1", "/?wait=+1", "/?wait=1.5", "/?wait=99999999999999999999"] {
        assert_eq!(one(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")), Err(Refusal::Malformed), "{target}");
    }
}

#[test]
fn http_version_and_connection_field_decide_whether_a_connection_persists() {
    for (version, field, persistence) in [
        ("1.1", "", Persistence::Implied),
        ("1.1", "Connection: keep-alive\r\n", Persistence::Implied),
        ("1.1", "connection: Close\r\n", Persistence::None),
        ("1.1", "Connection: keep-alive, close\r\n", Persistence::None),
        ("1.1", "Connection: upgrade\r\n", Persistence::Implied),
        ("1.0", "", Persistence::None),
        ("1.0", "Connection: Keep-Alive\r\n", Persistence::Stated),
        ("1.0", "Connection: keep-alive\r\nConnection: close\r\n", Persistence::None),
    ] {
        let request = one(&format!("GET / HTTP/{version}\r\nHost: h\r\n{field}\r\n")).unwrap().unwrap();
        assert_eq!(request.persistence, persistence, "HTTP/{version} {field}");
    }
}

#[test]
fn malformed_and_contradictory_requests_are_refused() {
    for (text, refusal) in [
        ("GET / HTTP/1.1\r\n\r\n", Refusal::Malformed),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", Refusal::Malformed),
        ("GET / HTTP/2.0\r\nHost: h\r\n\r\n", Refusal::Malformed),
        ("\x16\x03\x01\x02", Refusal::Malformed),
        ("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\n", Refusal::Malformed),
        ("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: \r\n\r\n", Refusal::Malformed),
        ("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", Refusal::Malformed),
        ("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n", Refusal::Malformed),
        ("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", Refusal::Malformed),
        ("PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Refusal::Malformed),
        ("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", Refusal::LengthRequired),
        ("PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n", Refusal::ExpectationFailed),
    ] {
        assert_eq!(one(text), Err(refusal), "{text}");
    }
}

#[test]
fn request_is_returned_after_its_body_is_skipped() {
    let header = "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(one(&format!("{header}GET ")), Ok(None));
    let (requests, refusal) = read([format!("{header}GET /GET / HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()]);
    assert_eq!((requests[0].method, requests[1], refusal), (Method::Other, get(0), None));
    let posted = one("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nGET /");
    assert_eq!(posted, Ok(Some(get(0))));
}

#[test]
fn header_limit_is_exactly_16_kib() {
    let request = |length: usize| {
        let start = "GET / HTTP/1.1\r\nHost: h\r\nX: ";
        format!("{start}{}\r\n\r\n", "x".repeat(length - start.len() - 4))
    };
    assert_eq!(one(&request(LONGEST_HEADER)), Ok(Some(get(0))));
    assert_eq!(one(&request(LONGEST_HEADER + 1)), Err(Refusal::HeaderTooLong));
    let many = "X: x\r\n".repeat(MAX_FIELDS);
    assert_eq!(one(&format!("GET / HTTP/1.1\r\nHost: h\r\n{many}\r\n")), Err(Refusal::HeaderTooLong));
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    let method = prop_oneof!["GET", "HEAD", "POST", "[A-Z!]{1,9}"];
    let target =
        prop_oneof![Just("/".to_owned()), (0..70_000_u32).prop_map(|wait| format!("/?wait={wait}")), "/.{0,9}"];
    let field = prop_oneof![
        Just("Connection: close".to_owned()),
        Just("Connection: keep-alive".to_owned()),
        (0..3000_usize).prop_map(|length| format!("Content-Length: {length}\r\nX-Body: {}", "b".repeat(length / 2))),
        (0..9000_usize).prop_map(|length| format!("X: {}", "x".repeat(length))),
        "[A-Za-z-]{0,9}:? ?.{0,9}",
    ];
    let request = (method, target, 0..2_u8, vec(field, 0..4), vec(any::<u8>(), 0..4)).prop_map(
        |(method, target, version, fields, body)| {
            let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
            let header = format!("{method} {target} HTTP/1.{version}\r\nHost: h\r\n{fields}\r\n");
            [header.as_bytes(), &body].concat()
        },
    );
    let plain = Just(b"GET /?wait=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab".to_vec());
    prop_oneof![3 => plain, 3 => request, 1 => vec(any::<u8>(), 0..40)]
}

fn cut<'a>(bytes: &'a [u8], places: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<_> = places.iter().map(|place| place.index(bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

proptest! {
    #[test]
    fn parsing_does_not_depend_on_how_bytes_are_split(
        messages in vec(message(), 1..6),
        places in vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let bytes = messages.concat();
        prop_assert_eq!(read([bytes.as_slice()]), read(cut(&bytes, &places)));
    }
}
