//! Load at a pace.

use crate::http::{plain, plan};
use crate::support::engine::{Engine, HANG_SECONDS};
use crate::support::http::{Http, OK, Says};
use crate::support::server::{self, Manner};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::Duration;

fn paced(kind: &str, workers: u64, per_second: f64, arrivals: &str) -> Value {
    json!([{"name": kind, "kind": kind, "workers": workers, "pace": {"per_second": per_second, "arrivals": arrivals}}])
}

fn sum(slice: &Value, phase: &str) -> u64 {
    slice["phases"][phase]["sum_ns"].as_u64().unwrap_or_else(|| panic!("{phase} in {slice}"))
}

#[test]
fn a_late_workers_latency_counts_from_the_schedule() {
    let server = Http::start(Says::After(Duration::from_millis(40), OK));
    let mut engine = Engine::start();
    engine.ask(&plan(&server.address, &plain(), &paced("request", 1, 100.0, "constant")));
    let slice = engine.slice("arm", "request", 6, HANG_SECONDS);
    assert_eq!((&slice["operations"], &slice["errors"]), (&json!(6), &json!([])));
    // Due every 10 ms, and not answered before 40 ms: the n-th waits for its worker n times 30 ms at least.
    assert_eq!(slice["phases"]["delay"]["count"], 6);
    assert!(sum(&slice, "delay") >= 30_000_000 * (1 + 2 + 3 + 4 + 5));
    assert!(slice["phases"]["delay"]["max_ns"].as_u64().unwrap() >= 150_000_000);
    let whole = sum(&slice, "delay") + sum(&slice, "connect") + sum(&slice, "processing");
    assert_eq!(sum(&slice, "request"), whole);
}

#[test]
fn operations_begin_no_earlier_than_scheduled_on_all_threads_together() {
    let server = Http::start(Says::Bytes(OK));
    let mut engine = Engine::start();
    engine.ask(&plan(&server.address, &plain(), &paced("request", 8, 200.0, "constant")));
    let slice = engine.slice("arm", "request", 21, HANG_SECONDS);
    assert_eq!((&slice["operations"], &slice["phases"]["delay"]["count"]), (&json!(21), &json!(21)));
    // The last one's instant is 20 gaps of 5 ms after the start, whoever makes it.
    assert!(slice["elapsed_ns"].as_u64().unwrap() >= 100_000_000);
    engine.undisturbed("arm", "request", 1_000_000, 0.1, |closed| {
        assert!(closed["operations"].as_u64().unwrap() <= 20, "none begins at or after the window's close");
        true
    });
}

#[test]
fn what_has_no_end_when_its_slice_is_closed_is_counted_as_abandoned() {
    let never = Says::After(Duration::from_secs(3600), OK);
    let server = Http::start(Says::OneByOne(vec![Says::Bytes(OK), never]));
    let mut engine = Engine::start();
    engine.ask(&plan(&server.address, &plain(), &json!([{"name": "r", "kind": "request", "workers": 3}])));
    let mut abandoned_in = |seconds| {
        let slice = engine.slice("arm", "r", 100, seconds);
        assert_eq!((&slice["operations"], &slice["phases"]), (&json!(0), &json!({})));
        match slice["errors"].as_array().unwrap().as_slice() {
            // A busy machine may need longer until any worker has begun, or each.
            [] => 0,
            [error] if error["class"] == "abandoned" => error["count"].as_u64().unwrap(),
            _ => panic!("{slice}"),
        }
    };
    let of_all = [2.0, 4.0, 8.0, 16.0, 32.0, 64.0].into_iter().map(&mut abandoned_in).find(|count| *count >= 3);
    assert_eq!(of_all, Some(3));
}

#[test]
fn random_arrivals_are_followed() {
    let server = Http::start(Says::Bytes(OK));
    let mut engine = Engine::start();
    engine.ask(&plan(&server.address, &plain(), &paced("request", 4, 2000.0, "poisson")));
    let slice = engine.slice("arm", "request", 50, HANG_SECONDS);
    assert_eq!((&slice["operations"], &slice["phases"]["delay"]["count"]), (&json!(50), &json!(50)));
    let endless =
        json!({"slice": {"id": 1, "arm": "arm", "workload": "request", "operations": u64::MAX, "seconds": 1e9}});
    assert_eq!(engine.ask(&endless)["error"]["class"], "plan", "more than can be drawn beforehand");
}

#[test]
fn users_think_before_each_operation_and_in_no_phase() {
    let server = Http::start(Says::Bytes(OK));
    let mut engine = Engine::start();
    let thinking = json!([{"name": "request", "kind": "request", "workers": 4, "think_ms": 20.0}]);
    engine.ask(&plan(&server.address, &plain(), &thinking));
    let slice = engine.slice("arm", "request", 100, HANG_SECONDS);
    assert_eq!((&slice["operations"], &slice["errors"]), (&json!(100), &json!([])));
    assert!(slice["phases"].get("delay").is_none());
    // Four users with 25 operations each would take 500 ms in the mean; theirs are the seed's, whatever the machine.
    assert!(slice["elapsed_ns"].as_u64().unwrap() >= 300_000_000);
}

#[test]
fn the_first_operations_on_new_connections_wait_for_no_instant_and_no_thought() {
    let server = Http::start(Says::Bytes(OK));
    let mut engine = Engine::start();
    let pace = json!({"per_second": 0.000_1, "arrivals": "constant"});
    let workloads = json!([
        {"name": "paced", "kind": "request", "workers": 4, "pace": pace},
        {"name": "thinking", "kind": "request", "workers": 4, "think_ms": 3_600_000.0}]);
    engine.ask(&plan(&server.address, &plain(), &workloads));
    for workload in ["paced", "thinking"] {
        let anew = json!({"slice": {"id": 1, "arm": "arm", "workload": workload, "operations": 4,
            "seconds": HANG_SECONDS, "reconnect": true}});
        let slice = &engine.ask(&anew)["slice"];
        assert_eq!((&slice["operations"], &slice["errors"]), (&json!(4), &json!([])), "{workload}");
    }
}

#[test]
fn any_kind_of_workload_may_have_a_pace() {
    let mut engine = Engine::start();
    let service = json!({"protocol": "mongodb", "addresses": [server::start(Manner::Plain)], "username": null,
        "password": null, "database": "d", "collection": "c"});
    let kinds = ["connect", "query", "load"];
    let workloads: Vec<_> =
        kinds.iter().flat_map(|kind| paced(kind, 2, 1000.0, "poisson").as_array().unwrap().clone()).collect();
    let mut plan = plan("", &plain(), &json!(workloads));
    plan["plan"]["arms"][0]["service"] = service;
    plan["plan"]["data"]["records"] = json!(1000);
    assert_eq!(engine.ask(&plan)["ready"]["arms"][0]["error"], Value::Null);
    for (kind, phase) in [("connect", "connect"), ("query", "operation"), ("load", "operation")] {
        let slice = engine.slice("arm", kind, 20, HANG_SECONDS);
        assert_eq!((&slice["operations"], &slice["errors"]), (&json!(20), &json!([])), "{kind}");
        assert_eq!(slice["phases"]["delay"]["count"], slice["phases"][phase]["count"], "{kind}");
        assert_eq!(slice["counts"], json!({"pace.scheduled": 20}));
    }
}

/// The policies (sched(7)) of the threads that measure, while a slice of a workload is under way.
fn policies_in(workload: &Value, workers: u64) -> Vec<i32> {
    let never = Says::After(Duration::from_secs(3600), OK);
    let server = Http::start(Says::OneByOne(vec![Says::Bytes(OK), never]));
    let mut engine = Engine::start();
    let mut plan = plan(&server.address, &plain(), workload);
    plan["plan"]["threads"] = json!(1);
    engine.ask(&plan);
    let all_asked = 1 + workers as usize;
    engine.say(&json!({"slice": {"id": 1, "arm": "arm", "workload": "r", "operations": workers, "seconds": 3600.0}}));
    while server.requests.load(Ordering::Relaxed) < all_asked {
        std::thread::yield_now();
    }
    let tasks =
        std::fs::read_dir(format!("/proc/{}/task", engine.child.id())).unwrap().map(|task| task.unwrap().path());
    let pools = tasks.filter(|task| std::fs::read_to_string(task.join("comm")).unwrap().starts_with("pool-"));
    let number = |task: std::path::PathBuf| task.file_name().unwrap().to_str().unwrap().parse().unwrap();
    // SAFETY: it takes and gives numbers.
    let policies = pools.map(|task| unsafe { libc::sched_getscheduler(number(task)) }).collect();
    engine.child.kill().unwrap();
    policies
}

#[test]
fn a_thread_of_many_workers_interrupts_no_server_and_another_is_as_it_was() {
    let many = json!([{"name": "r", "kind": "request", "workers": 3}]);
    assert_eq!(policies_in(&many, 3), [libc::SCHED_BATCH]);
    let one = json!([{"name": "r", "kind": "request", "workers": 1}]);
    assert_eq!(policies_in(&one, 1), [libc::SCHED_OTHER]);
    let pace = json!({"per_second": 1000.0, "arrivals": "constant"});
    let paced = json!([{"name": "r", "kind": "request", "workers": 3, "pace": pace}]);
    assert_eq!(policies_in(&paced, 3), [libc::SCHED_OTHER]);
}
