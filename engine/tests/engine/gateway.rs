//! Tests of subcommand `gateway`, which encrypts columns in a MySQL server's answers to clients. Some test servers
//! disconnect or violate the protocol.

use crate::support::authority::{Authority, VALID};
use crate::support::counting::allocations;
use crate::support::engine::Engine;
use crate::support::gateway::{
    END, Gateway, OK, QUERY, RULES, ServerScript, beginning, definition, final_error, greeting, packet, pinned_answers,
    receive, response, rules_file, scripted,
};
use crate::support::mysql::{Mysql, PASSWORD};
use crate::support::server;
use crate::support::{TIMEOUT_NS, mysql_service, open_mysql, tls};
use gateway::Limits;
use gateway::rules::{ColumnFacts, Rules};
use gateway::session::{Session, Shared};
use net::settings::{Transport, Verify};
use openssl::ssl::SslVersion;
use serde_json::{Value, json};
use std::io::Write;
use std::time::Duration;
use wire::mysql::Statements;

#[test]
fn client_gets_an_error_if_the_server_is_lost_during_a_result() {
    let (server, _) = scripted(ServerScript::SendsAndCloses([beginning(), b"\x05\0\0\x04\x05jo".to_vec()].concat()));
    let mut gateway = Gateway::start("lost", &server);
    for _ in 0..2 {
        let answer = gateway.answer("shop");
        assert_eq!(answer.len(), 4, "the complete packets, then an error");
        assert_eq!(final_error(&answer, "shop"), "the server behind the gateway was lost");
    }
    // The gateway still serves other clients.
    assert_eq!((gateway.counter("connections"), gateway.counter("errors")), (2, 2));
}

#[test]
fn server_that_violates_the_protocol_ends_only_its_session() {
    let (server, ends) = scripted(ServerScript::Sends(packet(1, b"\xfb/etc/passwd")));
    let mut gateway = Gateway::start("malformed", &server);
    let answer = final_error(&gateway.answer("shop"), "shop");
    assert!(answer.starts_with("the gateway ended this session: "), "{answer}");
    ends.recv_timeout(Duration::from_nanos(TIMEOUT_NS)).expect("the connection to the server ends too");
    assert_eq!((gateway.counter("connections"), gateway.counter("errors")), (1, 1));
}

#[test]
fn memory_of_the_gateway_is_locked_and_absent_from_core_dumps() {
    let (server, _) = scripted(ServerScript::Sends([beginning(), packet(4, END)].concat()));
    let gateway = Gateway::start("memory", &server);
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", gateway.engine.child.id())).unwrap();
    let limits = read("limits");
    let cores = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(cores.split_whitespace().skip(4).take(2).collect::<Vec<_>>(), ["0", "0"]);
    let locked = || {
        let status = read("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap()
    };
    let master_key = locked();
    assert!(master_key > 0, "no page is locked, or RLIMIT_MEMLOCK is 0");
    // Each session of a guarded account (one that gets encrypted answers) has its own key in locked memory.
    let _clients: Vec<_> = (0..50).map(|_| gateway.client("shop")).collect();
    assert!(locked() > master_key);
}

#[test]
fn client_disconnect_ends_the_server_session() {
    let (server, ends) = scripted(ServerScript::Sends(beginning()));
    let gateway = Gateway::start("goes", &server);
    let mut stream = gateway.client("u");
    stream.write_all(&packet(0, QUERY)).unwrap();
    receive(&mut stream).unwrap();
    drop(stream);
    ends.recv_timeout(Duration::from_nanos(TIMEOUT_NS)).expect("the connection to the server ends during the answer");
}

#[test]
fn every_authentication_method_works_through_the_gateway_with_and_without_tls() {
    let authority = Authority::new();
    let (ca_file, identity) = (authority.file("gateway-proofs"), authority.identity("127.0.0.1", VALID));
    let file = identity.file("gateway-proofs");
    for (proposes, plugin, cached) in [
        ("mysql_native_password", "mysql_native_password", false),
        ("mysql_native_password", "client_ed25519", false),
        ("caching_sha2_password", "caching_sha2_password", true),
        ("caching_sha2_password", "caching_sha2_password", false),
        ("mysql_native_password", "caching_sha2_password", false),
    ] {
        let plain = Mysql { proposes, plugin, cached, ..Mysql::default() };
        let listener = json!({"address": "127.0.0.1:0", "server": plain.start()});
        let gateway = Gateway::start_without_rules("proofs", listener);
        let service = |password| mysql_service(&gateway.address, password, Statements::Prepared);
        open_mysql(&service(PASSWORD), Transport::Plain {}).unwrap();
        let wrong = open_mysql(&service("wrong"), Transport::Plain {}).unwrap_err();
        assert!(wrong.detail.contains("Access denied"), "{wrong}");

        let secure = Mysql { tls: Some(server::acceptor(&identity, Some(SslVersion::TLS1_2))), ..plain };
        let gateway = Gateway::start_without_rules(
            "proofs-tls",
            json!({
                "address": "127.0.0.1:0", "server": secure.start(),
                "tls": {"certificate_file": file, "key_file": file},
                "server_transport": {"kind": "tls", "ca_file": ca_file, "verify": "full", "resumption": false},
            }),
        );
        let service = mysql_service(&gateway.address, PASSWORD, Statements::Prepared);
        let (_, connection) = open_mysql(&service, tls(&ca_file, None, Verify::Full)).unwrap();
        let protocol = connection.security.map(|security| security.protocol);
        assert_eq!(protocol, Some("TLSv1.3"), "both sides negotiate independently");
        let plain = open_mysql(&service, Transport::Plain {}).unwrap_err();
        assert!(plain.detail.contains("accepts connections under TLS only"), "{plain}");
    }
}

#[test]
fn gateway_refuses_a_server_with_an_untrusted_certificate() {
    let authority = Authority::new();
    let file = authority.identity("127.0.0.1", VALID).file("gateway-other");
    let acceptor = server::acceptor(&Authority::new().identity("127.0.0.1", VALID), None);
    let secure = Mysql { tls: Some(acceptor), ..Mysql::default() };
    let ca_file = authority.file("gateway-other");
    let gateway = Gateway::start_without_rules(
        "other",
        json!({
            "address": "127.0.0.1:0", "server": secure.start(),
            "tls": {"certificate_file": file, "key_file": file},
            "server_transport": {"kind": "tls", "ca_file": ca_file, "verify": "full", "resumption": false},
        }),
    );
    let service = mysql_service(&gateway.address, PASSWORD, Statements::Text);
    let failure = open_mysql(&service, tls(&ca_file, None, Verify::Full)).unwrap_err();
    assert!(failure.detail.contains("cannot be reached"), "{failure}");
}

#[test]
fn gateway_allocates_no_memory_for_a_repeated_command() {
    let text = (packet(0, QUERY), [beginning(), packet(4, END)].concat());
    let row = [&b"\x00\x00\x05"[..], b"smith"].concat();
    let binary = [packet(1, b"\x01"), packet(2, &definition()), packet(3, &row), packet(4, END)].concat();
    let prepared = (packet(0, b"\x17\x07\0\0\0\x00\x01\0\0\0"), binary);
    for account in ["u", "shop"] {
        let shared = Shared::new(rules_of_one_column(), Limits::default(), None);
        let mut session = Session::new(shared.into(), false);
        let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
        session.from_server(&greeting(), &mut to_client, &mut to_server);
        session.from_client(&response(account), &mut to_server, &mut to_client);
        session.from_server(&packet(2, OK), &mut to_client, &mut to_server);
        if account == "shop" {
            session.from_server(&pinned_answers(), &mut to_client, &mut to_server);
        }
        session.from_client(&packet(0, &[b"\x16", &QUERY[1..]].concat()), &mut to_server, &mut to_client);
        let answer = [packet(1, b"\x00\x07\0\0\0\x01\0\0\0\0\0\0"), packet(2, &definition())].concat();
        session.from_server(&answer, &mut to_client, &mut to_server);
        for (command, answer) in [&text, &prepared] {
            let mut ask = || {
                to_client.clear();
                to_server.clear();
                session.from_client(command, &mut to_server, &mut to_client);
                to_server.clear();
                assert_eq!(session.from_server(answer, &mut to_client, &mut to_server), answer.len());
                assert_eq!(to_client == *answer, account == "u");
            };
            ask();
            let before = allocations();
            (0..100).for_each(|_| ask());
            assert_eq!(allocations() - before, 0, "{account}");
        }
    }
}

fn rules_of_one_column() -> Rules {
    let mut rules = Rules::read(&rules_file("allocation", RULES)).unwrap();
    let column = ColumnFacts { names: ["d", "people", "name"].map(str::to_owned), is_generated: false };
    rules.set_catalogue(&[column], &[]);
    rules
}

#[test]
fn gateway_does_not_start_if_its_server_or_a_column_of_its_rules_is_missing() {
    let (server, _) = scripted(ServerScript::Sends(Vec::new()));
    let unknown = RULES.replace("column = 'name'", "column = 'nome'");
    for (server, rules, words) in [
        ("127.0.0.1:1", RULES, "[check]: cannot query 127.0.0.1:1"),
        (&server, &unknown, "the rule for d.people.nome matches no column"),
    ] {
        let file = rules_file("unasked", rules);
        let listener = json!({"address": "127.0.0.1:0", "rules_file": file, "server": server});
        let answer = Engine::start_subcommand("gateway").ask(&json!({"threads": 1, "listeners": [listener]}));
        let detail = answer["error"]["detail"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(answer["error"]["class"] == "plan" && detail.contains(words), "{answer}");
    }
}

#[test]
fn gateway_does_not_start_with_an_invalid_plan() {
    let rules = rules_file("plan", "");
    let listener = json!({"address": "127.0.0.1:0", "rules_file": rules, "server": "127.0.0.1:1"});
    let with = |name: &str, value: Value| {
        let mut changed = listener.clone();
        changed[name] = value;
        json!({"threads": 1, "listeners": [changed]})
    };
    for (plan, words) in [
        (json!({"threads": 0, "listeners": [listener]}), "threads must be at least 1"),
        (json!({"threads": 1, "listeners": []}), "no listener"),
        (with("colour", json!("red")), "unknown field `colour`"),
        (with("rules_file", json!("/no/such/file")), "No such file"),
        (with("server", json!("")), "is not an address"),
        (with("server_transport", json!({"kind": "tls", "verify": "none", "resumption": false})), "go together"),
        (with("address", json!("192.0.2.1:1")), "cannot listen on"),
    ] {
        let answer = Engine::start_subcommand("gateway").ask(&plan);
        let detail = answer["error"]["detail"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(answer["error"]["class"] == "plan" && detail.contains(words) && !detail.contains('\n'), "{answer}");
    }
}
