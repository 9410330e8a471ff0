"""From a study and options to a plan; and one clear line for whatever a user gets wrong."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any, cast

import pytest

from costof.errors import EXIT_USAGE, CostofError, ErrorText
from costof.results.samples import in_unit
from costof.run.experiment import run
from costof.study.library import load_study
from costof.study.options import parse_duration, parse_precision
from costof.study.plan import Options, Plan, resolve
from costof.study.schema import AS_SERVED, PublishedFigure, Study
from tests.report.results import ENCRYPTION, HTTP, MONGODB, REPLICATION, TRANSPORT
from tests.support.engines import sent
from tests.support.small_plans import plan_of, replication_plan

STUDY = load_study(MONGODB)


def names(plan: Plan) -> list[str]:
    return [arm.name for arm in plan.arms]


def levels(plan: Plan, factor: str) -> set[str | None]:
    return {arm.levels.get(factor) for arm in plan.arms}


def changed(folder: Path, old: str, new: str) -> str:
    """A file of the user's own: the study of transports with a change."""
    text = resources.files("costof.studies").joinpath(f"{TRANSPORT}.toml").read_text()
    (folder / "mine.toml").write_text(text.replace(old, new, 1))
    return str(folder / "mine.toml")


def test_an_unknown_study_names_the_nearest() -> None:
    with pytest.raises(CostofError, match="did you mean 'mongodb-tls'"):
        load_study("mongo-tls")


def test_a_file_of_the_users_is_a_study(tmp_path: Path) -> None:
    mine = load_study(changed(tmp_path, "", ""))
    assert mine == load_study(TRANSPORT).model_copy(update={"name": "mine"})
    file = tmp_path / "mine.toml"
    for broken, detail in (("x = 1", "title: Field required"), ("title = [", "Invalid value"), (None, "No such file")):
        file.unlink() if broken is None else file.write_text(broken)
        with pytest.raises(CostofError, match=f"mine.toml is not valid: {detail}") as told:
            load_study(str(file))
        assert told.value.exit_status == EXIT_USAGE
    with pytest.raises(CostofError, match="small letters, digits and hyphens"):
        load_study(str(tmp_path / "Mine own.toml"))


@pytest.mark.parametrize(
    ("when", "detail"),
    [
        ('transport = ["tsl"]', "applies with unknown levels of transport: tsl"),
        ('transprot = ["tls"]', "applies with levels of the unknown factor transprot"),
    ],
)
def test_what_applies_with_no_arm_is_refused(when: str, detail: str, tmp_path: Path) -> None:
    text = resources.files("costof.studies").joinpath(f"{TRANSPORT}.toml").read_text()
    old = next(line for line in text.splitlines() if line.startswith("when = {"))
    with pytest.raises(CostofError, match=detail):
        load_study(changed(tmp_path, old, f"when = {{ {when} }}"))


def test_levels_ask_in_the_order_of_the_study_and_as_served_asks_for_nothing() -> None:
    study = load_study(TRANSPORT)
    weak = study.arm_settings({"transport": "tls", "suite": "aes256-sha", "key": "rsa-1024"})
    assert weak.transport is not None
    suite = {"cipher": "AES256-SHA", "security_level": 0}
    assert sent(weak.transport) == {"kind": "tls", "verify": "full", "resumption": False, **suite}
    assert (weak.lab, weak.evidence) == ({"key": "rsa-1024"}, {"key": "rsa-1024"})
    assert study.arm_settings({"transport": "tls", "key": AS_SERVED}).lab == {}
    tunnel = study.arm_settings({"transport": "ssh-aes256-ctr"})
    assert (tunnel.lab, tunnel.near_round_trips, tunnel.speaks_tls) == ({"tunnel": "aes256-ctr"}, 1, False)


def test_arms_are_the_combinations_that_make_sense() -> None:
    plan = plan_of(MONGODB, "default", "key=rsa-2048,ecdsa-p256", "tls_version=1.2,1.3")
    pairs = [f"tls-{version}-{key}" for version in ("1.2", "1.3") for key in ("rsa-2048", "ecdsa-p256")]
    assert names(plan) == ["plain", "plain-copy", *pairs]
    assert plan.arms[2].label == "TLS 1.2, rsa-2048"
    suites = plan_of(TRANSPORT, "quick", "transport=tls", "key=rsa-2048,ecdsa-p256", "suite=modern,aes256-sha")
    found = {(arm.levels["key"], arm.levels["suite"]) for arm in suites.protected}
    assert found == {("rsa-2048", "modern"), ("rsa-2048", "aes256-sha"), ("ecdsa-p256", "modern")}


def test_the_control_is_there_even_when_not_asked_for() -> None:
    plan = plan_of(MONGODB, "default", "transport=tls")
    assert names(plan) == ["plain", "plain-copy", "tls"]
    assert plan.protection_chosen


def test_a_label_says_what_the_user_has_set() -> None:
    (arm,) = plan_of(MONGODB, "default", "resumption=on", "key=ecdsa-p256").protected
    assert (arm.name, arm.label) == ("tls", "TLS 1.3, ecdsa-p256, session resumption on")
    (arm,) = plan_of(MONGODB, "default", "resumption=off").protected
    assert arm.label == "TLS 1.3, rsa-2048"


def test_a_target_keeps_its_own_key() -> None:
    plan = plan_of(MONGODB, "default", target="mongodb://h")
    assert plan.arms[2].levels["key"] == AS_SERVED
    assert not plan.protection_chosen


def test_a_target_is_asked_for_the_first_factor_that_is_not_the_labs() -> None:
    plan = replication_plan(target="mongodb://h")
    assert plan.study.main_factor == "write_concern"
    assert names(plan) == ["1", "1-copy", "majority"]
    assert levels(plan, "sync") == levels(plan, "nodes") == {AS_SERVED}
    assert {arm.context for arm in plan.arms} == {""}
    assert Plan.model_validate_json(plan.model_dump_json()) == plan
    assert names(replication_plan("write_concern=2", target="mongodb://h")) == ["1", "1-copy", "2"]
    with pytest.raises(CostofError, match="sync can be varied only in a lab"):
        replication_plan("sync=chain", target="mongodb://h")


@pytest.mark.parametrize(
    ("options", "problem", "told"),
    [
        ({"settings": ["keys=rsa-2048"]}, ErrorText.UNKNOWN_FACTOR, "did you mean 'key'?"),
        ({"settings": ["key=rsa-1"]}, ErrorText.UNKNOWN_LEVEL, "rsa-2048, rsa-4096, ecdsa-p256"),
        ({"settings": ["transport=plain", "key=rsa-2048"]}, ErrorText.LEVEL_APPLIES_NOWHERE, "transport = tls"),
        ({"settings": ["key"]}, ErrorText.NOT_AN_ASSIGNMENT, "--set"),
        ({"settings": ["records=-1"]}, ErrorText.BAD_NUMBER, "from 1 to"),
        ({"settings": ["records=many"]}, ErrorText.BAD_NUMBER, "many"),
        ({"budget": "soon"}, ErrorText.BAD_DURATION, "1h30m"),
        ({"budget": "0s"}, ErrorText.BAD_DURATION, "0s"),
        ({"precision": "2"}, ErrorText.BAD_PRECISION, "2%"),
        ({"precision": "-2%"}, ErrorText.BAD_PRECISION, "above 0"),
        *(
            ({"rounds": each}, ErrorText.BAD_NUMBER, "--rounds must be a whole number from 2")
            for each in ("1", "3.5", "")
        ),
        ({"rounds": "3", "budget": "5m"}, ErrorText.ROUNDS_ARE_EXACT, "remove --budget"),
        ({"rounds": "3", "precision": "2%"}, ErrorText.ROUNDS_ARE_EXACT, "remove --precision"),
        ({"rounds": "3", "budget": "5m", "precision": "2%"}, ErrorText.ROUNDS_ARE_EXACT, "--budget and --precision"),
        ({"restarts": "1"}, ErrorText.BAD_NUMBER, "--restarts must be a whole number from 2"),
        ({"restarts": "5", "precision": "2%"}, ErrorText.RESTARTS_ARE_EXACT, "remove --precision"),
        ({"restarts": "5", "target": "mongodb://h"}, ErrorText.RESTARTS_NEED_LAB, "works only in a lab"),
        ({"profile": "fast"}, ErrorText.UNKNOWN_PROFILE, "quick, default, published"),
        ({"settings": ["key=rsa-2048"], "target": "mongodb://h"}, ErrorText.LAB_ONLY_FACTOR, "key"),
    ],
)
def test_bad_input_is_told_in_one_line(options: dict[str, Any], problem: ErrorText, told: str) -> None:
    with pytest.raises(CostofError) as caught:
        resolve(STUDY, Options(**options))
    assert (caught.value.problem, caught.value.exit_status) == (problem, EXIT_USAGE)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_starts_share_a_budget_evenly_and_have_all_rounds_each() -> None:
    shared = resolve(STUDY, Options(budget="60s", restarts="5"))
    assert (shared.starts, shared.budget_seconds, shared.start_budget_seconds) == (5, 60.0, 12.0)
    assert not shared.ends_when_resolved
    assert shared.may_shorten_slices
    exact = resolve(STUDY, Options(rounds="4", restarts="5"))
    assert (exact.starts, exact.most_rounds) == (5, 4)


def test_durations_and_precisions() -> None:
    assert (parse_duration("1h30m"), parse_duration("45s")) == (5400, 45)
    assert parse_precision("2%") == pytest.approx(0.02)


def test_every_distance_has_a_control_and_a_twin_of_its_own() -> None:
    plan = plan_of(TRANSPORT, "default", "distance=lan,us-eu, 20.5ms", "transport=tls")
    wheres = ("lan", "us-eu", "20.5")
    assert [control.name for control in plan.controls] == [f"plain@{where}" for where in wheres]
    assert [plan.replicate_of(control).name for control in plan.controls] == [f"plain-copy@{where}" for where in wheres]
    for arm in plan.protected:
        assert arm.baseline == f"plain@{arm.context}"
        assert plan.arm(arm.baseline).levels["distance"] == arm.levels["distance"]
    assert {arm.protection for arm in plan.arms} == {"plain", "plain-copy", "tls"}


def test_one_distance_needs_no_name_of_it_and_a_target_is_as_far_as_it_is() -> None:
    far = plan_of(TRANSPORT, "default", "distance=us-us")
    assert far.controls[0].name == "plain"
    assert far.study.round_trip_ms(far.controls[0].levels) == 44.648
    target = plan_of(TRANSPORT, "default", target="mysql://h")
    assert {arm.context for arm in target.arms} == {""}
    assert target.study.round_trip_ms(target.controls[0].levels) == 0.0


@pytest.mark.parametrize("distance", ["-1", "far", "10001", "nan", "inf", ""])
def test_a_distance_that_is_none_is_refused(distance: str) -> None:
    with pytest.raises(CostofError, match="milliseconds") as caught:
        plan_of(TRANSPORT, "default", f"distance=lan,{distance}")
    assert caught.value.problem is ErrorText.UNKNOWN_LEVEL


def test_a_far_client_works_side_by_side() -> None:
    plan = plan_of(TRANSPORT, "default", "distance=lan,us-us")
    near, far = plan.arm("plain@lan"), plan.arm("plain@us-us")
    assert (plan.workers("connect", near), plan.workers("connect", far)) == (1, 5)
    assert plan.size("connect", near).operations == 100
    assert plan.size("connect", far).operations % plan.workers("connect", far) == 0


def test_a_rate_is_what_one_worker_or_all_of_them_get_done() -> None:
    metrics = load_study(TRANSPORT).metrics
    assert in_unit(metrics["wire.connections_per_second"], 2e6, workers=20) == pytest.approx(500)
    assert in_unit(metrics["wire.queries_per_second_32"], 2e6, workers=32) == pytest.approx(16_000)
    assert in_unit(metrics["wire.query_1"], 2e6, workers=1) == pytest.approx(2.0)


def test_a_profile_may_change_one_thing_at_a_time() -> None:
    plan = plan_of(HTTP, "default")
    base = plan.arm("balancer").levels
    for name, change in (
        ("balancer-resumption-on", {"resumption": "on"}),
        ("balancer-ecdsa-p256", {"key": "ecdsa-p256"}),
        ("balancer@keep_alive-100", {"keep_alive": "100"}),
        ("balancer@balancer_cpu-0.5", {"balancer_cpu": "0.5"}),
    ):
        assert plan.arm(name).levels == {**base, **change}
    assert plan.arm("balancer@keep_alive-100").baseline == "none@keep_alive-100"
    assert plan.arm("none@keep_alive-100").levels["keep_alive"] == "100"
    for name in ("none", "direct"):
        assert not {"suite", "key", "resumption", "verify"} & plan.arm(name).levels.keys(), "levels that need TLS"
    chosen = plan_of(HTTP, "quick", "keep_alive=1,10")
    assert levels(chosen, "keep_alive") == {"1", "10"}, "and none where the user chose that factor"
    target = plan_of(HTTP, "default", target="https://h/")
    assert (levels(target, "balancer_cpu"), levels(target, "keep_alive")) == ({AS_SERVED}, {"1", "10", "100"})


@pytest.mark.parametrize(("target", "workers"), [(None, [4, 20]), ("https://h/", [1, 1])])
def test_clients_of_a_target_do_not_queue_for_what_one_operation_takes(target: str | None, workers: list[int]) -> None:
    workloads = plan_of(HTTP, "default", target=target).study.workloads
    assert [workloads[name].workers for name in ("connection", "kept_request")] == workers


@pytest.mark.parametrize(
    ("profile", "settings", "target", "suites"),
    [
        ("quick", [], "https://h/", {AS_SERVED}),
        ("quick", ["suite=tls1.3"], "https://h/", {"tls1.3"}),
        ("quick", ["suite=aes256-sha,as served"], "https://h/", {"aes256-sha", AS_SERVED}),
        ("published", [], "https://h/", {"dhe-rsa-aes256-sha", "aes256-sha", "rc4-sha"}),
        ("quick", [], None, {"tls1.3"}),
    ],
)
def test_a_target_is_taken_as_served_unless_a_suite_is_asked_for(
    profile: str, settings: list[str], target: str | None, suites: set[str]
) -> None:
    assert {arm.levels.get("suite") for arm in plan_of(HTTP, profile, *settings, target=target).protected} == suites


def test_terminals_are_workers_and_settings_of_the_transactions() -> None:
    plan = plan_of(ENCRYPTION, "default", "terminals=8,32", "keying=on", "encrypted=0,20")
    assert names(plan) == [f"{arm}{context}" for context in ("", "@terminals-32") for arm in ("0", "0-copy", "20")]
    assert [plan.workers("transactions", arm) for arm in plan.arms] == [8, 8, 8, 32, 32, 32]
    assert plan.study.workloads["transactions"].tpcc == {"warehouses": 1}
    options = plan.arms[0].settings.workload["transactions"]
    assert options == {"workers": "8", "isolation": "serializable", "keying": True}
    assert plan.loads == "1 warehouse"


def test_an_algorithm_is_no_matter_of_arms_that_encrypt_nothing() -> None:
    encrypted = [f"{share}-{algorithm}" for share in (20, 100) for algorithm in ("aes-128-gcm", "sm4-cbc")]
    plan = plan_of(ENCRYPTION, "quick", "algorithm=aes-128-gcm,sm4-cbc")
    assert names(plan) == ["0", "0-copy", "direct", *encrypted]


def published() -> list[PublishedFigure]:
    found = load_study(REPLICATION).published
    return found.figures if found else []


def test_published_ratios_are_those_of_the_source() -> None:
    """Chaining on over off, as the source words it: w:1 gains with the nodes, w:majority loses."""
    ratios = {
        (f.levels["write_concern"], f.levels["nodes"]): round(f.value / f.control_value, 2)
        for f in published()
        if f.series == "chaining on" and "second" in f.metric and f.value and f.control_value
    }
    assert [ratios["majority", nodes] for nodes in ("3", "7", "15")] == [1.01, 0.7, 0.94]
    assert [ratios["1", nodes] for nodes in ("3", "7", "15")] == [1.02, 1.25, 1.88]


def test_a_level_that_changes_a_workload_that_is_none_is_refused() -> None:
    told = load_study(REPLICATION).model_dump()
    told["factors"]["read_share"]["levels"]["0.5"]["workload"] = {"reads": {"phase": "run"}}
    with pytest.raises(ValueError, match="unknown workloads"):
        Study.model_validate(told)


def test_a_run_of_the_control_alone_is_refused_before_anything_starts() -> None:
    nothing = cast(Any, None)
    with pytest.raises(CostofError, match=r"leave only the control \(plain\); add a level to compare it with"):
        run(plan_of(MONGODB, "quick", "transport=plain"), nothing, nothing, nothing)
