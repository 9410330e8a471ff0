"""Tests of resolving a study and options to a plan, and of errors for invalid input."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any, cast

import pytest

from costof.errors import EXIT_USAGE, CostofError, ErrorText
from costof.results.metrics import in_unit
from costof.run.experiment import run
from costof.study.library import load_study
from costof.study.options import parse_duration, parse_precision
from costof.study.plan import Options, Plan, TargetOptions, resolve
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
    """Write a copy of mysql-transport with one text replaced, as a user's study file, and return its path."""
    text = resources.files("costof.studies").joinpath(f"{TRANSPORT}.toml").read_text()
    (folder / "mine.toml").write_text(text.replace(old, new, 1))
    return str(folder / "mine.toml")


def test_error_for_an_unknown_study_suggests_the_nearest_name() -> None:
    with pytest.raises(CostofError, match="did you mean 'mongodb-tls'"):
        load_study("mongo-tls")


def test_study_is_loaded_from_a_file(tmp_path: Path) -> None:
    mine = load_study(changed(tmp_path, "", ""))
    assert mine == load_study(TRANSPORT).model_copy(update={"name": "mine"})
    file = tmp_path / "mine.toml"
    for broken, detail in (("x = 1", "title: Field required"), ("title = [", "Invalid value"), (None, "No such file")):
        file.unlink() if broken is None else file.write_text(broken)
        with pytest.raises(CostofError, match=f"mine.toml is not valid: {detail}") as caught:
            load_study(str(file))
        assert caught.value.exit_status == EXIT_USAGE
    with pytest.raises(CostofError, match="lower-case letters, digits and hyphens"):
        load_study(str(tmp_path / "Mine own.toml"))


@pytest.mark.parametrize(
    ("when", "detail"),
    [
        ('transport = ["tsl"]', "names unknown levels of 'transport': tsl"),
        ('transprot = ["tls"]', "names the unknown factor 'transprot'"),
    ],
)
def test_condition_in_a_study_file_on_an_unknown_factor_or_level_is_refused(
    when: str, detail: str, tmp_path: Path
) -> None:
    text = resources.files("costof.studies").joinpath(f"{TRANSPORT}.toml").read_text()
    old = next(line for line in text.splitlines() if line.startswith("when = {"))
    with pytest.raises(CostofError, match=detail):
        load_study(changed(tmp_path, old, f"when = {{ {when} }}"))


def test_settings_of_an_arm_combine_what_each_of_its_factor_levels_requires() -> None:
    study = load_study(TRANSPORT)
    weak = study.arm_settings({"transport": "tls", "suite": "aes256-sha", "key": "rsa-1024"})
    assert weak.transport is not None
    suite = {"cipher": "AES256-SHA", "security_level": 0}
    assert sent(weak.transport) == {"kind": "tls", "verify": "full", "resumption": False, **suite}
    assert (weak.lab, weak.evidence) == ({"key": "rsa-1024"}, {"key": "rsa-1024"})
    assert study.arm_settings({"transport": "tls", "key": AS_SERVED}).lab == {}
    tunnel = study.arm_settings({"transport": "ssh-aes256-ctr"})
    assert (tunnel.lab, tunnel.near_round_trips, tunnel.speaks_tls) == ({"tunnel": "aes256-ctr"}, 1, False)


def test_arms_are_the_valid_combinations_of_factor_levels() -> None:
    plan = plan_of(MONGODB, "default", "key=rsa-2048,ecdsa-p256", "tls_version=1.2,1.3")
    pairs = [f"tls-{version}-{key}" for version in ("1.2", "1.3") for key in ("rsa-2048", "ecdsa-p256")]
    assert names(plan) == ["plain", "plain-copy", *pairs]
    assert plan.arms[2].label == "TLS 1.2 (rsa-2048)"
    suites = plan_of(TRANSPORT, "quick", "transport=tls", "key=rsa-2048,ecdsa-p256", "suite=modern,aes256-sha")
    found = {(arm.levels["key"], arm.levels["suite"]) for arm in suites.protected}
    assert found == {("rsa-2048", "modern"), ("rsa-2048", "aes256-sha"), ("ecdsa-p256", "modern")}


def test_control_is_measured_even_if_the_user_does_not_choose_it() -> None:
    plan = plan_of(MONGODB, "default", "transport=tls")
    assert names(plan) == ["plain", "plain-copy", "tls"]
    assert plan.protection_chosen


def test_label_of_an_arm_names_the_settings_that_the_user_chose() -> None:
    (arm,) = plan_of(MONGODB, "default", "resumption=on", "key=ecdsa-p256").protected
    assert (arm.name, arm.label) == ("tls", "TLS 1.3 (ecdsa-p256, session resumption on)")
    (arm,) = plan_of(MONGODB, "default", "resumption=off").protected
    assert arm.label == "TLS 1.3 (rsa-2048)"


def test_certificate_key_is_not_varied_on_a_users_server() -> None:
    plan = plan_of(MONGODB, "default", target="mongodb://h")
    assert plan.arms[2].levels["key"] == AS_SERVED
    assert not plan.protection_chosen


def test_main_factor_on_a_users_server_is_the_first_factor_that_can_vary_there() -> None:
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
    ("options", "error", "message"),
    [
        ({"settings": ["keys=rsa-2048"]}, ErrorText.UNKNOWN_FACTOR, "did you mean 'key'?"),
        ({"settings": ["key=rsa-1"]}, ErrorText.UNKNOWN_LEVEL, "rsa-2048, rsa-4096, ecdsa-p256"),
        ({"settings": ["transport=plain", "key=rsa-2048"]}, ErrorText.LEVEL_APPLIES_NOWHERE, "transport = tls"),
        ({"settings": ["key"]}, ErrorText.NOT_AN_ASSIGNMENT, "--set"),
        ({"settings": ["records=-1"]}, ErrorText.BAD_NUMBER, "from 1 to"),
        ({"budget": "soon"}, ErrorText.BAD_DURATION, "1h30m"),
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
def test_invalid_input_is_reported_in_one_line(options: dict[str, Any], error: ErrorText, message: str) -> None:
    with pytest.raises(CostofError) as caught:
        resolve(STUDY, Options(**options))
    assert (caught.value.message, caught.value.exit_status) == (error, EXIT_USAGE)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_study_that_changes_settings_of_its_servers_is_refused_on_a_target() -> None:
    reason = "can be measured only in a lab, because it changes its servers' settings"
    with pytest.raises(CostofError, match=f"{reason}; remove --target, or compare your servers with costof versus"):
        plan_of("postgres-audit-logging", target="postgresql://h")


def test_time_budget_is_divided_among_server_starts_but_a_fixed_number_of_rounds_is_not() -> None:
    shared = resolve(STUDY, Options(budget="60s", restarts="5"))
    assert (shared.starts, shared.budget_seconds, shared.start_budget_seconds) == (5, 60.0, 12.0)
    assert not shared.ends_when_resolved
    assert shared.may_shorten_slices
    exact = resolve(STUDY, Options(rounds="4", restarts="5"))
    assert (exact.starts, exact.most_rounds) == (5, 4)


def test_run_of_several_versions_does_not_end_when_the_costs_on_each_version_have_verdicts() -> None:
    study = load_study("postgres-tls")
    assert resolve(study, Options("quick")).ends_when_resolved
    assert not resolve(study, Options("quick", ["server_version=15,18"])).ends_when_resolved


def test_durations_and_precisions_are_parsed() -> None:
    assert (parse_duration("1h30m"), parse_duration("45s")) == (5400, 45)
    assert parse_precision("2%") == pytest.approx(0.02)


def test_every_distance_has_its_own_control_and_copy_of_the_control() -> None:
    plan = plan_of(TRANSPORT, "default", "distance=lan,us-eu, 20.5ms", "transport=tls")
    contexts = ("lan", "us-eu", "20.5")
    assert [control.name for control in plan.controls] == [f"plain@{where}" for where in contexts]
    assert [plan.replicate(control).name for control in plan.controls] == [f"plain-copy@{where}" for where in contexts]
    for arm in plan.protected:
        assert arm.control_arm == f"plain@{arm.context}"
        assert plan.arm(arm.control_arm).levels["distance"] == arm.levels["distance"]
    assert {arm.protection for arm in plan.arms} == {"plain", "plain-copy", "tls"}


def test_single_distance_is_not_part_of_the_names_of_arms() -> None:
    far = plan_of(TRANSPORT, "default", "distance=us-us")
    assert far.controls[0].name == "plain"
    assert far.study.round_trip_ms(far.controls[0].levels) == 44.648
    target = plan_of(TRANSPORT, "default", target="mysql://h")
    assert {arm.context for arm in target.arms} == {""}
    assert target.study.round_trip_ms(target.controls[0].levels) == 0.0


@pytest.mark.parametrize("distance", ["-1", "far", "10001", "nan", "inf", ""])
def test_invalid_distance_is_refused(distance: str) -> None:
    with pytest.raises(CostofError, match="milliseconds") as caught:
        plan_of(TRANSPORT, "default", f"distance=lan,{distance}")
    assert caught.value.message is ErrorText.UNKNOWN_LEVEL


def test_client_at_a_distance_opens_connections_with_several_workers() -> None:
    plan = plan_of(TRANSPORT, "default", "distance=lan,us-us")
    near, far = plan.arm("plain@lan"), plan.arm("plain@us-us")
    assert (plan.workers("connect", near), plan.workers("connect", far)) == (1, 5)
    assert plan.size("connect", near).operations == 100
    assert plan.size("connect", far).operations % plan.workers("connect", far) == 0


def test_rate_of_a_workload_is_the_sum_over_all_workers() -> None:
    metrics = load_study(TRANSPORT).metrics
    assert in_unit(metrics["wire.connections_per_second"], 2e6, workers=20) == pytest.approx(500)
    assert in_unit(metrics["wire.queries_per_second_32"], 2e6, workers=32) == pytest.approx(16_000)
    assert in_unit(metrics["wire.query_1"], 2e6, workers=1) == pytest.approx(2.0)


def test_version_of_the_server_may_be_a_folder_with_the_users_own_build() -> None:
    plan = plan_of("postgres-tls", "quick", "server_version=18,/opt/pg19/bin")
    assert [arm.settings.lab["server"]["version"] for arm in plan.controls] == ["18", "/opt/pg19/bin"]
    with pytest.raises(CostofError, match="or the absolute path of a folder") as caught:
        plan_of("postgres-tls", "quick", "server_version=pg19/bin")
    assert caught.value.message is ErrorText.UNKNOWN_LEVEL


def test_additional_arms_of_a_profile_differ_from_the_main_arm_in_one_factor() -> None:
    plan = plan_of(HTTP, "default")
    base = plan.arm("balancer").levels
    for name, change in (
        ("balancer-resumption-on", {"resumption": "on"}),
        ("balancer-ecdsa-p256", {"key": "ecdsa-p256"}),
        ("balancer@keep_alive-100", {"keep_alive": "100"}),
        ("balancer@balancer_cpu-0.5", {"balancer_cpu": "0.5"}),
    ):
        assert plan.arm(name).levels == {**base, **change}
    assert plan.arm("balancer@keep_alive-100").control_arm == "none@keep_alive-100"
    assert plan.arm("none@keep_alive-100").levels["keep_alive"] == "100"
    for name in ("none", "direct"):
        assert not {"suite", "key", "resumption", "verify"} & plan.arm(name).levels.keys(), "levels that need TLS"
    chosen = plan_of(HTTP, "quick", "keep_alive=1,10")
    assert levels(chosen, "keep_alive") == {"1", "10"}, "no additional levels of a factor that the user chose"
    target = plan_of(HTTP, "default", target="https://h/")
    assert (levels(target, "balancer_cpu"), levels(target, "keep_alive")) == ({AS_SERVED}, {"1", "10", "100"})


@pytest.mark.parametrize(("target", "workers"), [(None, [4, 20]), ("https://h/", [1, 1])])
def test_workloads_that_time_single_operations_have_one_worker_on_a_users_server(
    target: str | None, workers: list[int]
) -> None:
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
def test_cipher_suite_is_varied_on_a_users_server_only_if_the_user_names_one(
    profile: str, settings: list[str], target: str | None, suites: set[str]
) -> None:
    assert {arm.levels.get("suite") for arm in plan_of(HTTP, profile, *settings, target=target).protected} == suites


def test_number_of_transaction_workers_equals_the_number_of_terminals() -> None:
    plan = plan_of(ENCRYPTION, "default", "terminals=8,32", "keying=on", "encrypted=0,20")
    assert names(plan) == [f"{arm}{context}" for context in ("", "@terminals-32") for arm in ("0", "0-copy", "20")]
    assert [plan.workers("transactions", arm) for arm in plan.arms] == [8, 8, 8, 32, 32, 32]
    assert plan.study.workloads["transactions"].tpcc == {"warehouses": 1}
    options = plan.arms[0].settings.workload["transactions"]
    assert options == {"workers": "8", "isolation": "serializable", "keying": True}
    assert plan.loads == "1 warehouse"


def test_encryption_algorithm_applies_only_to_encrypting_arms() -> None:
    encrypted = [f"{share}-{algorithm}" for share in (20, 100) for algorithm in ("aes-128-gcm", "sm4-cbc")]
    plan = plan_of(ENCRYPTION, "quick", "algorithm=aes-128-gcm,sm4-cbc")
    assert names(plan) == ["0", "0-copy", "direct", *encrypted]


def published() -> list[PublishedFigure]:
    published = load_study(REPLICATION).published
    return published.figures if published else []


def test_published_ratios_in_a_study_equal_the_ratios_in_the_cited_source() -> None:
    """In the source, chaining raises throughput with w:1 as nodes are added, and lowers it with w:majority."""
    ratios = {
        (f.levels["write_concern"], f.levels["nodes"]): round(f.value / f.control_value, 2)
        for f in published()
        if f.series == "chaining on" and "second" in f.metric and f.value and f.control_value
    }
    assert [ratios["majority", nodes] for nodes in ("3", "7", "15")] == [1.01, 0.7, 0.94]
    assert [ratios["1", nodes] for nodes in ("3", "7", "15")] == [1.02, 1.25, 1.88]


def test_factor_level_with_options_for_an_unknown_workload_is_refused() -> None:
    content = load_study(REPLICATION).model_dump()
    content["factors"]["read_share"]["levels"]["0.5"]["workload"] = {"reads": {"phase": "run"}}
    with pytest.raises(ValueError, match="unknown workloads"):
        Study.model_validate(content)


def test_run_of_the_control_alone_is_refused_before_anything_starts() -> None:
    nothing = cast(Any, None)
    with pytest.raises(CostofError, match=r"leave only the control \(plain\); add a level to compare it with"):
        run(plan_of(MONGODB, "quick", "transport=plain"), nothing, nothing, nothing)


def test_limit_on_the_cpu_time_of_a_target_server_requires_option_server_cpu() -> None:
    """Without this option the run would be measured in vain, since the limit would stay undecided."""
    servers, clients = [("wire.connect_server_cpu", "+10%")], [("wire.connect_client_cpu", "+10%")]
    with pytest.raises(CostofError) as refused:
        plan_of("postgres-tls", target="postgresql://h", limits=servers)
    assert refused.value.message is ErrorText.LIMIT_NEEDS_SERVER_CPU
    assert plan_of("postgres-tls", target="postgresql://h", limits=clients).limits
    read = TargetOptions(server_cpu="cat cpu")
    options = Options(profile="quick", target="postgresql://h", limits=servers, target_options=read)
    assert resolve(load_study("postgres-tls"), options).limits
