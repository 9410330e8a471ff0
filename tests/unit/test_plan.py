"""From a study and options to a plan; and one clear line for whatever a user gets wrong."""

from __future__ import annotations

from typing import Any, cast

import pytest

from costof.errors import EXIT_USAGE, CostofError, Problem
from costof.results.samples import in_unit
from costof.run.experiment import run
from costof.study.library import load_study
from costof.study.options import parse_duration, parse_precision
from costof.study.plan import Options, Plan, resolve
from costof.study.schema import AS_SERVED, Study
from tests.support.small_plans import replication_plan


@pytest.fixture
def study() -> Study:
    return load_study("mongodb-tls")


def test_control_and_twin_differ_in_the_name_alone(study: Study) -> None:
    plan = resolve(study, Options())
    assert (
        plan.controls[0].levels
        == plan.twin_of(plan.controls[0]).levels
        == {
            "transport": "plain",
            "tls_library": "installed",
            "distance": "lan",
        }
    )


def test_arms_are_the_combinations_that_make_sense(study: Study) -> None:
    plan = resolve(study, Options(settings=["key=rsa-2048,ecdsa-p256", "tls_version=1.2,1.3"]))
    names = [arm.name for arm in plan.arms]
    assert names == [
        "plain",
        "plain-twin",
        "tls-1.2-rsa-2048",
        "tls-1.2-ecdsa-p256",
        "tls-1.3-rsa-2048",
        "tls-1.3-ecdsa-p256",
    ]
    assert plan.arms[2].label == "TLS 1.2, rsa-2048"


def test_the_control_is_there_even_when_not_asked_for(study: Study) -> None:
    plan = resolve(study, Options(settings=["transport=tls"]))
    assert [arm.name for arm in plan.arms] == ["plain", "plain-twin", "tls"]
    assert plan.protection_asked


def test_a_label_says_what_the_user_has_set(study: Study) -> None:
    (arm,) = resolve(study, Options(settings=["resumption=on", "key=ecdsa-p256"])).protected
    assert (arm.name, arm.label) == ("tls", "TLS 1.3, ecdsa-p256, session resumption on")
    (arm,) = resolve(study, Options(settings=["resumption=off"])).protected
    assert arm.label == "TLS 1.3, rsa-2048"


def test_a_target_keeps_its_own_key(study: Study) -> None:
    plan = resolve(study, Options(target="mongodb://h"))
    assert plan.arms[2].levels["key"] == AS_SERVED
    assert not plan.protection_asked


def test_a_target_is_asked_for_the_first_factor_that_is_not_the_labs() -> None:
    plan = replication_plan(target="mongodb://h")
    assert plan.study.main_factor == "write_concern"
    assert [arm.name for arm in plan.arms] == ["1", "1-twin", "majority"]
    assert {arm.levels["sync"] for arm in plan.arms} == {arm.levels["nodes"] for arm in plan.arms} == {AS_SERVED}
    assert {arm.context for arm in plan.arms} == {""}
    assert Plan.model_validate_json(plan.model_dump_json()) == plan
    assert [arm.name for arm in replication_plan("write_concern=2", target="mongodb://h").arms] == ["1", "1-twin", "2"]
    with pytest.raises(CostofError, match="sync can be varied in a lab only"):
        replication_plan("sync=chain", target="mongodb://h")


def test_the_published_profile_repeats_the_published_sizes(study: Study) -> None:
    plan = resolve(study, Options(profile="published"))
    assert plan.records == 1_000_000
    assert plan.slices["app_connect"].operations * plan.most_rounds == 5_000
    assert plan.slices["app_query"].operations * plan.most_rounds == 5_000
    assert plan.arms[2].levels["verify"] == "ca-only"


@pytest.mark.parametrize(
    ("options", "problem", "told"),
    [
        (Options(settings=["keys=rsa-2048"]), Problem.UNKNOWN_FACTOR, "did you mean 'key'?"),
        (Options(settings=["key=rsa-1"]), Problem.UNKNOWN_LEVEL, "rsa-2048, rsa-4096, ecdsa-p256"),
        (Options(settings=["transport=plain", "key=rsa-2048"]), Problem.LEVEL_APPLIES_NOWHERE, "transport = tls"),
        (Options(settings=["key"]), Problem.NOT_AN_ASSIGNMENT, "--set"),
        (Options(settings=["records=-1"]), Problem.BAD_NUMBER, "from 1 to"),
        (Options(settings=["records=many"]), Problem.BAD_NUMBER, "many"),
        (Options(budget="soon"), Problem.BAD_DURATION, "1h30m"),
        (Options(budget="0s"), Problem.BAD_DURATION, "0s"),
        (Options(precision="2"), Problem.BAD_PRECISION, "2%"),
        (Options(precision="-2%"), Problem.BAD_PRECISION, "above 0"),
        (Options(rounds="0"), Problem.BAD_NUMBER, "--rounds must be a whole number from 2"),
        (Options(rounds="-3"), Problem.BAD_NUMBER, "-3"),
        (Options(rounds="1"), Problem.BAD_NUMBER, "from 2 to"),
        (Options(rounds="3.5"), Problem.BAD_NUMBER, "3.5"),
        (Options(rounds=""), Problem.BAD_NUMBER, "--rounds"),
        (Options(rounds="3", budget="5m"), Problem.ROUNDS_ARE_EXACT, "leave out --budget"),
        (Options(rounds="3", precision="2%"), Problem.ROUNDS_ARE_EXACT, "leave out --precision"),
        (Options(rounds="3", budget="5m", precision="2%"), Problem.ROUNDS_ARE_EXACT, "--budget and --precision"),
        (Options(restarts="1"), Problem.BAD_NUMBER, "--restarts must be a whole number from 2"),
        (Options(restarts="5", precision="2%"), Problem.RESTARTS_ARE_EXACT, "leave out --precision"),
        (Options(restarts="5", target="mongodb://h"), Problem.RESTARTS_OF_TARGET, "nobody's to restart"),
        (Options(profile="fast"), Problem.UNKNOWN_PROFILE, "quick, default, published"),
        (Options(settings=["key=rsa-2048"], target="mongodb://h"), Problem.LAB_ONLY_FACTOR, "key"),
    ],
)
def test_bad_input_is_told_in_one_line(study: Study, options: Options, problem: object, told: str) -> None:
    with pytest.raises(CostofError) as caught:
        resolve(study, options)
    assert caught.value.problem is problem
    assert caught.value.exit_status == EXIT_USAGE
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_starts_share_a_budget_evenly_and_have_all_rounds_each(study: Study) -> None:
    shared = resolve(study, Options(budget="60s", restarts="5"))
    assert (shared.starts, shared.budget_seconds, shared.start_budget_seconds) == (5, 60.0, 12.0)
    assert not shared.ends_when_resolved
    assert shared.may_shorten_slices
    exact = resolve(study, Options(rounds="4", restarts="5"))
    assert (exact.starts, exact.most_rounds) == (5, 4)


def test_durations_and_precisions() -> None:
    assert parse_duration("1h30m") == 5400
    assert parse_duration("45s") == 45
    assert parse_precision("2%") == pytest.approx(0.02)


@pytest.fixture
def transport() -> Study:
    return load_study("mysql-transport")


def test_every_distance_has_a_control_and_a_twin_of_its_own(transport: Study) -> None:
    plan = resolve(transport, Options(settings=["distance=lan,us-eu,20.5", "transport=tls"]))
    assert [control.name for control in plan.controls] == ["plain@lan", "plain@us-eu", "plain@20.5"]
    for arm in plan.protected:
        assert arm.baseline == f"plain@{arm.context}"
        assert plan.arm(arm.baseline).levels["distance"] == arm.levels["distance"]
    assert [plan.twin_of(control).name for control in plan.controls] == [
        "plain-twin@lan",
        "plain-twin@us-eu",
        "plain-twin@20.5",
    ]
    assert {arm.protection for arm in plan.arms} == {"plain", "plain-twin", "tls"}


def test_a_distance_may_have_its_unit(transport: Study) -> None:
    plan = resolve(transport, Options(settings=["distance=lan, 2ms,0.5 ms"]))
    assert {arm.levels["distance"] for arm in plan.arms} == {"lan", "2", "0.5"}


def test_one_distance_needs_no_name_of_it(transport: Study) -> None:
    plan = resolve(transport, Options(settings=["distance=us-us"]))
    assert plan.controls[0].name == "plain"
    assert plan.study.round_trip_ms(plan.controls[0].levels) == 44.648


def test_a_far_client_works_side_by_side(transport: Study) -> None:
    plan = resolve(transport, Options(settings=["distance=lan,us-us"]))
    near, far = plan.arm("plain@lan"), plan.arm("plain@us-us")
    assert (plan.workers("connect", near), plan.workers("connect", far)) == (1, 5)
    assert plan.size("connect", near).operations == 100
    assert plan.size("connect", far).operations % plan.workers("connect", far) == 0


def test_an_ecdsa_key_cannot_serve_an_rsa_suite(transport: Study) -> None:
    settings = ["distance=lan", "transport=tls", "key=rsa-2048,ecdsa-p256", "suite=modern,aes256-sha"]
    plan = resolve(transport, Options(settings=settings))
    pairs = {(arm.levels["key"], arm.levels["suite"]) for arm in plan.protected}
    assert pairs == {("rsa-2048", "modern"), ("rsa-2048", "aes256-sha"), ("ecdsa-p256", "modern")}


@pytest.mark.parametrize("distance", ["-1", "far", "10001", "nan", "inf", ""])
def test_a_distance_that_is_none(transport: Study, distance: str) -> None:
    with pytest.raises(CostofError) as caught:
        resolve(transport, Options(settings=[f"distance=lan,{distance}"]))
    assert caught.value.problem is Problem.UNKNOWN_LEVEL
    assert "milliseconds" in str(caught.value)


def test_a_target_is_as_far_as_it_is(transport: Study) -> None:
    plan = resolve(transport, Options(target="mysql://h"))
    assert {arm.context for arm in plan.arms} == {""}
    assert plan.study.round_trip_ms(plan.controls[0].levels) == 0.0


def test_a_rate_is_what_one_worker_or_all_of_them_get_done(transport: Study) -> None:
    one, all_of_them = transport.metrics["wire.connections_per_second"], transport.metrics["wire.queries_per_second_32"]
    assert in_unit(one, 2e6, workers=20) == pytest.approx(500)
    assert in_unit(all_of_them, 2e6, workers=32) == pytest.approx(16_000)
    assert in_unit(transport.metrics["wire.query_1"], 2e6, workers=1) == pytest.approx(2.0)


@pytest.fixture
def termination() -> Study:
    return load_study("http-tls-termination")


def test_a_profile_may_change_one_thing_at_a_time(termination: Study) -> None:
    plan = resolve(termination, Options(profile="default"))
    base = plan.arm("balancer").levels
    for name, changed in (
        ("balancer-resumption-on", {"resumption": "on"}),
        ("balancer-ecdsa-p256", {"key": "ecdsa-p256"}),
        ("balancer@keep_alive-100", {"keep_alive": "100"}),
        ("balancer@balancer_cpu-0.5", {"balancer_cpu": "0.5"}),
    ):
        assert plan.arm(name).levels == {**base, **changed}
    assert plan.arm("balancer@keep_alive-100").baseline == "none@keep_alive-100"
    assert plan.arm("none@keep_alive-100").levels["keep_alive"] == "100"


def test_a_change_is_left_out_where_the_user_chose_that_factor(termination: Study) -> None:
    plan = resolve(termination, Options(profile="quick", settings=["keep_alive=1,10"]))
    assert {arm.levels["keep_alive"] for arm in plan.arms} == {"1", "10"}


def test_levels_that_need_tls_are_no_part_of_a_plain_arm(termination: Study) -> None:
    plan = resolve(termination, Options(profile="default"))
    for name in ("none", "direct"):
        assert not {"suite", "key", "resumption", "verify"} & plan.arm(name).levels.keys()
    assert plan.arm("backend").levels["key"] == "rsa-2048"


def test_a_target_takes_no_change_of_what_is_its_own(termination: Study) -> None:
    plan = resolve(termination, Options(profile="default", target="https://h/"))
    assert {arm.levels["balancer_cpu"] for arm in plan.arms} == {AS_SERVED}
    assert {arm.levels["keep_alive"] for arm in plan.arms} == {"1", "10", "100"}


WITHOUT_QUEUE = ("connection", "kept_request")


def test_clients_of_a_target_do_not_queue_for_what_one_operation_takes(termination: Study) -> None:
    workers = {
        target: [resolve(termination, Options(target=target)).study.workloads[name].workers for name in WITHOUT_QUEUE]
        for target in (None, "https://h/")
    }
    assert workers == {None: [4, 20], "https://h/": [1, 1]}


def test_a_target_is_taken_as_served_unless_a_suite_is_asked_for(termination: Study) -> None:
    def suites(*settings: str, profile: str = "quick", target: str | None = "https://h/") -> set[str | None]:
        plan = resolve(termination, Options(profile=profile, settings=list(settings), target=target))
        return {arm.levels.get("suite") for arm in plan.protected}

    assert suites() == {AS_SERVED}
    assert suites("suite=tls1.3") == {"tls1.3"}
    assert suites("suite=aes256-sha,as served") == {"aes256-sha", AS_SERVED}
    assert suites(profile="published") == {"dhe-rsa-aes256-sha", "aes256-sha", "rc4-sha"}
    assert suites(target=None) == {"tls1.3"}


ENCRYPTION = "mysql-column-encryption"


def test_terminals_are_workers_and_settings_of_the_transactions() -> None:
    plan = resolve(load_study(ENCRYPTION), Options(settings=["terminals=8,32", "keying=on", "encrypted=0,20"]))
    assert [arm.name for arm in plan.arms] == [
        "0",
        "0-twin",
        "20",
        *(f"{n}@terminals-32" for n in ("0", "0-twin", "20")),
    ]
    assert [plan.workers("transactions", arm) for arm in plan.arms] == [8, 8, 8, 32, 32, 32]
    assert plan.study.workloads["transactions"].tpcc == {"warehouses": 1}
    options = plan.arms[0].asked.workload["transactions"]
    assert options == {"workers": "8", "isolation": "serializable", "keying": True}
    assert plan.loads == "1 warehouse"


def test_an_algorithm_is_no_matter_of_arms_that_encrypt_nothing() -> None:
    plan = resolve(load_study(ENCRYPTION), Options(profile="quick", settings=["algorithm=aes-128-gcm,sm4-cbc"]))
    assert [arm.name for arm in plan.arms] == [
        *("0", "0-twin", "direct"),
        *("20-aes-128-gcm", "20-sm4-cbc", "100-aes-128-gcm", "100-sm4-cbc"),
    ]


def test_published_terminals_stand_an_hour_of_minutes_in_turns() -> None:
    plan = resolve(load_study(ENCRYPTION), Options(profile="published"))
    assert plan.slices["transactions"].seconds == 60.0
    assert plan.fewest_rounds >= 3
    assert {arm.levels["terminals"] for arm in plan.arms} == {"8", "16", "24", "32"}
    assert {arm.levels["encrypted"] for arm in plan.arms} == {"direct", "0", "20", "50", "100"}


def test_a_run_of_the_control_alone_is_refused_before_anything_starts() -> None:
    plan = resolve(load_study("mongodb-tls"), Options(profile="quick", settings=["transport=plain"]))
    nothing = cast(Any, None)
    with pytest.raises(CostofError, match=r"leave only the control \(plain\): add one to compare it with"):
        run(plan, nothing, nothing, nothing)
