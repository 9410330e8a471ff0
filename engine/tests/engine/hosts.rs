//! Tests of an engine on one of several hosts that measure together. The engine performs its part of the operations,
//! and opens slices (measured windows) at a requested instant. Other tests check that the engine accepts a plan (the
//! configuration of a run) that is encrypted to its key, and that it runs from a file in memory.

use crate::command_line;
use crate::support::engine::{Engine, HANG_SECONDS};
use crate::support::server::{self, Behaviour};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hpke::aead::AesGcm256;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable, OpModeS, Serializable, single_shot_seal};
use rustix::fs::{MemfdFlags, memfd_create};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::process::Command;

const HOSTS: u64 = 3;
const PROGRAM: &str = env!("CARGO_BIN_EXE_costof-engine");
const SECRET: &str = "s3cret-Password";

fn plan(address: &str) -> Value {
    let mut plan = command_line::plan(address);
    plan["plan"]["workloads"] = json!([
        {"name": "query", "kind": "query", "workers": 5},
        {"name": "few", "kind": "query", "workers": 2},
        {"name": "load", "kind": "load", "workers": 4},
        {"name": "paced", "kind": "query", "workers": 5, "pace": {"per_second": 1000.0, "arrivals": "poisson"}}]);
    plan["plan"]["arms"].as_array_mut().unwrap().truncate(1);
    plan
}

fn host(host: u64, address: &str) -> Engine {
    let mut plan = plan(address);
    plan["plan"]["share"] = json!({"host": host, "hosts": HOSTS});
    let mut engine = Engine::start();
    assert_eq!(engine.ask(&plan)["ready"]["arms"][0]["error"], Value::Null);
    engine
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

fn prepare(engine: &mut Engine, id: u64, workload: &str) -> Value {
    let order = json!({"id": id, "arm": "plain", "workload": workload, "reconnect": true});
    engine.ask(&json!({ "prepare": order }))["prepared"].take()
}

fn slice_at(engine: &mut Engine, id: u64, workload: &str, opens_ns: u64) -> Value {
    let order = json!({"id": id, "arm": "plain", "workload": workload, "reconnect": true, "operations": 30,
        "seconds": HANG_SECONDS, "opens_ns": opens_ns});
    engine.ask(&json!({ "slice": order }))
}

#[test]
fn several_hosts_divide_workers_and_operations() {
    let address = server::start(Behaviour::Plain);
    let mut engines: Vec<_> = (0..HOSTS).map(|number| host(number, &address)).collect();
    for (workload, operations, expected) in [
        ("query", 500, [(167, 2), (167, 2), (166, 1)]),
        ("few", 31, [(16, 1), (15, 1), (0, 0)]),
        ("load", 1050, [(1050, 4), (0, 0), (0, 0)]),
    ] {
        let answers = engines.iter_mut().map(|engine| engine.slice("plain", workload, operations, HANG_SECONDS));
        let shares: Vec<_> =
            answers.map(|answer| (number(&answer["operations"]), number(&answer["evidence"]["connections"]))).collect();
        assert_eq!(shares, expected, "{workload}: operations and connections");
    }
    let mut alone = Engine::start();
    alone.ask(&plan(&address));
    let mut scheduled = |engine: &mut Engine| {
        let answer = engine.slice("plain", "paced", 100, HANG_SECONDS);
        assert_eq!(answer["operations"], answer["counts"]["pace.scheduled"]);
        number(&answer["operations"])
    };
    assert_eq!(engines.iter_mut().map(&mut scheduled).collect::<Vec<_>>(), [34, 33, 33]);
    assert_eq!(scheduled(&mut alone), 100);
}

#[test]
fn prepared_measurement_starts_at_the_requested_instant() {
    let mut engine = host(0, &server::start(Behaviour::Plain));
    // A slow engine may get the command only after the requested instant, and then opens the slice (measured window) at
    // once. So try instants from 50 ms to 51 s ahead until a slice opens in time.
    let in_time = (0..=10).find(|doublings| {
        let id = 7 + doublings;
        assert_eq!(prepare(&mut engine, id, "query"), json!({"id": id, "errors": []}));
        let opens = base::clock::now() + (50_000_000 << doublings);
        let answer = slice_at(&mut engine, id, "query", opens)["slice"].take();
        let window = &answer["window"];
        let opened = number(&window["opened_ns"]);
        assert_eq!((&answer["operations"], &answer["evidence"]["connections"]), (&json!(10), &json!(2)));
        assert!(opened >= opens && number(&window["first_began_ns"]) >= opened);
        assert_eq!(number(&window["last_ended_ns"]) - opened, number(&answer["elapsed_ns"]));
        opened == opens
    });
    assert!(in_time.is_some(), "no slice opened at its instant");

    // The requested instant (1 ns after boot) is long past, so the slice (measured window) opens at once. Prepare the
    // slice twice: the second preparation must replace the first.
    let before = base::clock::now();
    prepare(&mut engine, 1, "query");
    prepare(&mut engine, 1, "query");
    let late = slice_at(&mut engine, 1, "query", 1)["slice"].take();
    assert!(number(&late["window"]["opened_ns"]) > before);
    assert_eq!(late["evidence"]["connections"], 2, "the first preparation is discarded");
    let plain = engine.slice("plain", "query", 30, HANG_SECONDS);
    assert_eq!((&plain["evidence"]["connections"], &plain["window"]), (&json!(0), &Value::Null));
}

#[test]
fn host_without_workers_reports_zero_operations_at_once() {
    let mut engine = host(2, &server::start(Behaviour::Plain));
    prepare(&mut engine, 1, "few");
    // The requested instant is far ahead (the limit is a minute), so that even a slow engine gets the command in time.
    let opens = base::clock::now() + 55_000_000_000;
    let answer = slice_at(&mut engine, 1, "few", opens)["slice"].take();
    assert_eq!((&answer["operations"], &answer["elapsed_ns"]), (&json!(0), &json!(0)));
    assert_eq!(answer["window"], json!({"opened_ns": opens, "first_began_ns": null, "last_ended_ns": null}));
}

#[test]
fn measurement_with_a_start_time_is_rejected_unless_the_same_measurement_was_prepared() {
    let address = server::start(Behaviour::Plain);
    for (prepared, opens_ns) in
        [(None, 1), (Some((1, "few")), 1), (Some((2, "query")), 1), (Some((1, "query")), u64::MAX)]
    {
        let mut engine = host(0, &address);
        if let Some((id, workload)) = prepared {
            prepare(&mut engine, id, workload);
        }
        assert_eq!(slice_at(&mut engine, 1, "query", opens_ns)["error"]["class"], "plan", "{prepared:?}");
        assert_eq!(engine.child.wait().unwrap().code(), Some(2));
    }
}

fn sealed(key: &str, plan: &Value) -> Value {
    let key = Deserializable::from_bytes(&BASE64_STANDARD.decode(key).unwrap()).unwrap();
    let (encapsulated, ciphertext) = single_shot_seal::<AesGcm256, HkdfSha256, X25519HkdfSha256>(
        &OpModeS::Base,
        &key,
        b"costof plan",
        plan.to_string().as_bytes(),
        b"",
    )
    .unwrap();
    let message = BASE64_STANDARD.encode([&encapsulated.to_bytes()[..], &ciphertext[..]].concat());
    json!({"sealed": {"message": message}})
}

#[test]
fn engine_started_from_memory_accepts_a_plan_encrypted_with_its_public_key() {
    let mut memory = File::from(memfd_create("costof-engine", MemfdFlags::CLOEXEC).unwrap());
    memory.write_all(&std::fs::read(PROGRAM).unwrap()).unwrap();
    let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
    let mut engine = Engine::start_with(Command::new(path).args(["drive", "--sealed"]));
    let key = engine.receive()["public_key"].as_str().unwrap().to_owned();
    let mut plan = plan(&server::start(Behaviour::Plain));
    plan["plan"]["arms"][0]["service"]["username"] = json!("somebody");
    plan["plan"]["arms"][0]["service"]["password"] = json!(SECRET);
    let ready = engine.ask(&sealed(&key, &plan)).to_string();
    assert!(ready.contains("authentication") && !ready.contains(SECRET), "{ready}");
    let slice = engine.slice("plain", "query", 10, HANG_SECONDS);
    assert_eq!(slice["errors"][0]["class"], "authentication");
}

#[test]
fn unencrypted_or_invalid_plan_ends_the_drive_subcommand_with_an_error_on_one_line() {
    let mut misplaced = plan("127.0.0.1:1");
    misplaced["plan"]["seed"] = json!(SECRET);
    for is_sealed in [true, false] {
        let mut engine = Engine::start_with(Command::new(PROGRAM).args(["drive", "--sealed"]));
        let key = engine.receive()["public_key"].as_str().unwrap().to_owned();
        let line = if is_sealed { sealed(&key, &misplaced) } else { misplaced.clone() };
        let error = engine.ask(&line)["error"].take();
        assert!(error["class"] == "plan" && !error.to_string().contains(SECRET), "{error}");
        assert_eq!(engine.child.wait().unwrap().code(), Some(2));
    }
}
