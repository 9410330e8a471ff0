//! Tests of subcommand `drive` through its standard input and output.

use crate::support::engine::{Engine, HANG_SECONDS};
use crate::support::mysql::{Mysql, PASSWORD};
use crate::support::server::{self, Behaviour};
use serde_json::{Value, json};

pub fn plan(address: &str) -> Value {
    let service = |address: &str| {
        json!({"protocol": "mongodb", "addresses": [address], "replica_set": null, "read_preference": "primary",
            "username": null, "password": null, "auth_source": "admin", "database": "d", "collection": "c"})
    };
    json!({"plan": {
        "seed": 1, "threads": 2, "operation_timeout_ms": 300000,
        "data": {"records": 1000, "fields": 10, "field_length": 100},
        "arms": [{"name": "plain", "service": service(address), "transport": {"kind": "plain"}},
                 {"name": "dead", "service": service("127.0.0.1:1"), "transport": {"kind": "plain"}}],
        "workloads": [{"name": "connect", "kind": "connect", "workers": 2},
                      {"name": "query", "kind": "query", "workers": 3},
                      {"name": "load", "kind": "load", "workers": 4}]}})
}

#[test]
fn measurements_of_all_mongodb_workloads_have_results() {
    let mut engine = Engine::start();
    let ready = engine.ask(&plan(&server::start(Behaviour::Plain)))["ready"].take();
    assert_eq!(ready["arms"][0]["error"], Value::Null);
    assert_eq!(ready["arms"][1]["error"]["class"], "refused");

    let load = engine.slice("plain", "load", 1050, HANG_SECONDS);
    assert_eq!((&load["operations"], &load["phases"]["operation"]["count"]), (&json!(1050), &json!(11)));

    let connect = engine.slice("plain", "connect", 20, HANG_SECONDS);
    let phases = &connect["phases"];
    let sum = |name: &str| phases[name]["sum_ns"].as_u64().unwrap();
    assert_eq!(connect["evidence"]["connections"], 20);
    assert_eq!(sum("connect"), sum("tcp") + sum("hello"));
    assert_eq!(sum("connect_and_first_operation"), sum("connect") + sum("first_operation"));
    assert_eq!(phases["connect_and_first_operation"]["round_trips"], 60);
    assert_eq!(phases["auth"], Value::Null, "phases that did not occur are absent");

    for _ in 0..2 {
        let query = engine.slice("plain", "query", 500, HANG_SECONDS);
        assert_eq!((&query["operations"], &query["errors"]), (&json!(500), &json!([])));
        assert!(query["phases"]["operation"]["histogram"].as_str().unwrap().starts_with("HISTFAAA"));
    }
    let persistent = engine.slice("plain", "query", 10, HANG_SECONDS);
    assert_eq!(persistent["evidence"]["connections"], 0, "connections persist between slices");
    let order = json!({"id": 1, "arm": "plain", "workload": "query", "operations": 10, "seconds": HANG_SECONDS,
        "reconnect": true});
    for _ in 0..2 {
        let slice = engine.ask(&json!({"slice": order}))["slice"].take();
        let connections = &slice["evidence"]["connections"];
        assert_eq!((&slice["operations"], connections), (&json!(10), &json!(3)), "one connection for each worker");
    }

    let dead = engine.slice("dead", "query", 10, HANG_SECONDS);
    assert_eq!((&dead["operations"], &dead["errors"][0]["class"]), (&json!(0), &json!("refused")));
    // A slice (measured window) whose time is over ends without errors, even if it has not performed all operations.
    engine.undisturbed("plain", "query", u64::MAX, 0.01, |_| true);
    drop(engine.input);
    assert!(engine.child.wait().unwrap().success());
}

#[test]
fn measurements_of_all_mysql_workloads_have_results() {
    let server = Mysql::default();
    let mut plan = plan(&server.start());
    let service = json!({"protocol": "mysql", "addresses": [server.start()], "username": "u", "password": PASSWORD,
        "database": "sbtest", "table": "sbtest1", "statements": "prepared"});
    plan["plan"]["arms"][0]["service"] = service;
    plan["plan"]["data"] = json!({"records": 1000});
    plan["plan"]["workloads"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "bare", "kind": "connect", "first_operation": false}));
    let mut engine = Engine::start();
    assert_eq!(engine.ask(&plan)["ready"]["arms"][0]["error"], Value::Null);

    let load = engine.slice("plain", "load", 1050, HANG_SECONDS);
    assert_eq!((&load["operations"], &load["phases"]["operation"]["count"]), (&json!(1050), &json!(11)));

    let bare = engine.slice("plain", "bare", 20, HANG_SECONDS);
    assert_eq!(bare["phases"]["connect"]["round_trips"], 60);
    assert_eq!(bare["phases"]["first_operation"], Value::Null);
    assert_eq!(bare["phases"]["connect_and_first_operation"], Value::Null);

    let connect = engine.slice("plain", "connect", 20, HANG_SECONDS);
    // Each connection takes three round trips to open, one to prepare the statement, and one to execute it.
    assert_eq!(connect["phases"]["connect_and_first_operation"]["round_trips"], 100);

    let query = engine.slice("plain", "query", 500, HANG_SECONDS);
    assert_eq!((&query["operations"], &query["errors"]), (&json!(500), &json!([])));
    assert_eq!(query["phases"]["operation"]["round_trips"], 500, "preparing is not measured");
    assert_eq!(query["evidence"]["connections"], 3);
}

#[test]
fn server_that_never_answers_is_reported_as_timeout() {
    let mut plan = plan(&server::start(Behaviour::Silent));
    plan["plan"]["operation_timeout_ms"] = json!(50);
    let ready = Engine::start().ask(&plan)["ready"].take();
    assert_eq!(ready["arms"][0]["error"]["class"], "timeout");
}

#[test]
fn closing_standard_input_during_a_measurement_ends_the_engine() {
    let mut engine = Engine::start();
    engine.ask(&plan(&server::start(Behaviour::Plain)));
    engine.send(
        &json!({"slice": {"id": 1, "arm": "plain", "workload": "query", "operations": u64::MAX, "seconds": 1e6}}),
    );
    drop(engine.input);
    assert!(engine.child.wait().unwrap().success());
}

#[test]
fn invalid_plan_ends_the_drive_subcommand_with_an_error_on_one_line() {
    let good = plan("127.0.0.1:1");
    let mut unknown_field = good.clone();
    unknown_field["plan"]["arms"][0]["transport"]["shiny"] = json!(true);
    let mut no_threads = good.clone();
    no_threads["plan"]["threads"] = json!(0);
    let mut misplaced = good.clone();
    misplaced["plan"]["workloads"][1]["first_operation"] = json!(false);
    let slice = json!({"slice": {"id": 1, "arm": "x", "workload": "query", "operations": 1, "seconds": 1}});
    for bad in [unknown_field, no_threads, misplaced, slice, json!("plan"), json!({"plan": {}})] {
        let mut engine = Engine::start();
        assert_eq!(engine.ask(&bad)["error"]["class"], "plan", "{bad}");
        assert_eq!(engine.child.wait().unwrap().code(), Some(2));
    }
}

#[test]
fn password_does_not_appear_in_output() {
    let mut plan = plan(&server::start(Behaviour::Plain));
    for arm in 0..2 {
        plan["plan"]["arms"][arm]["service"]["username"] = json!("somebody");
        plan["plan"]["arms"][arm]["service"]["password"] = json!("s3cret-Password");
    }
    let mut engine = Engine::start();
    let ready = engine.ask(&plan).to_string();
    assert!(ready.contains("authentication") && !ready.contains("s3cret"), "{ready}");
}
