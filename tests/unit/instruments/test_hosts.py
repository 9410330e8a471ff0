"""Several hosts as one instrument: their options, merging their answers, and a report's sections about them."""

from __future__ import annotations

import ast
import hashlib
import math
import re
import sys
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import costof
from costof import __version__
from costof.cli.options import check_hosts, check_hosts_options, hosts_settings
from costof.errors import CostofError, ErrorText
from costof.instruments.hosts import actor
from costof.instruments.hosts.actor import HostActor
from costof.instruments.hosts.cluster import _begin, connect_cluster
from costof.instruments.hosts.merging import (
    evidence_mismatch,
    late,
    merged_answer,
    merged_mismatch,
    merged_ready,
    not_simultaneous_reason,
)
from costof.instruments.hosts.population import check_costof
from costof.messages.answers import PublicKey, Ready, ReadyArm, SliceAnswer, merged_figures
from costof.messages.plan import Arm, HostsSettings, Plan, Share
from costof.messages.process import engine_path
from costof.messages.sealing import sealed
from costof.programs.access import Access
from costof.programs.redis.connection import RedisSettings
from costof.report import analyse
from costof.report.sections.hosts import SECTION, Hosts
from costof.results.core import build_core
from costof.results.ledger import EndRecord, Ledger, LostRecord, SliceRecord
from costof.results.run import Run, read_run
from costof.services.command.lab import Commands
from costof.services.open import open_service
from costof.statistics.histogram import merged
from costof.study.library import load_study, read_study
from costof.study.load import RequestedLoad
from costof.study.plan import Options, resolve
from costof.study.plan import Plan as StudyPlan
from tests.fake_hosts import NAMES, fake_run_of_hosts, part
from tests.fake_run import Slice, Truth, answer_of, error_of, exact_phase, fake_run
from tests.report.results import printed
from tests.support.small_plans import with_only

PACKAGE = Path(costof.__file__).parent


def answer(nanoseconds: list[int], evidence: dict[str, object] | None = None) -> SliceAnswer:
    facts = {"connections": len(nanoseconds), "verified": True, "server": "h:1", **(evidence or {})}
    phases = {"operation": exact_phase(nanoseconds, 1, 100, 300)} if nanoseconds else {}
    counts = {"http.status.200": len(nanoseconds)}
    measured = Slice(len(nanoseconds), 1.0, phases, {"client": 0.5}, facts, counts=counts)
    return answer_of(measured, "query", "tls")


@given(st.lists(st.lists(st.integers(1, 10**10), max_size=8), min_size=1, max_size=4))
def test_results_merged_from_several_hosts_equal_the_result_of_one_host_with_all_operations(
    parts: list[list[int]],
) -> None:
    whole, together = answer([*chain(*parts)]), SliceAnswer(**merged_answer([answer(part) for part in parts]))
    assert together.operations == whole.operations
    assert together.count("http.status") == whole.count("http.status")
    assert together.evidence["connections"] == whole.evidence["connections"]
    assert together.phases.keys() == whole.phases.keys()
    for name, one in whole.phases.items():
        phase = together.phases[name]
        squares = {"histogram": "", "sum_squares_ns2": pytest.approx(one.sum_squares_ns2, rel=1e-15)}
        assert phase.model_copy(update={"histogram": ""}) == one.model_copy(update=squares)
        ours, theirs = merged([phase.histogram]), merged([one.histogram])
        assert ours.buckets.tolist() == theirs.buckets.tolist()
        assert ours.counts.tolist() == theirs.counts.tolist()


def test_errors_and_leftover_processes_of_several_hosts_are_merged_without_duplicates() -> None:
    first, second = (
        answer([10]).model_copy(update={"errors": [error_of("timeout", f"of {name}", count)]})
        for name, count in (("a", 2), ("b", 3))
    )
    assert merged_answer([first, second])["errors"] == [error_of("timeout", "of a", 5)]
    parts = [answer([1], {"left_running": names}) for names in (["sleep", "sh"], ["sleep", "java"])]
    assert merged_answer([*parts, answer([1])])["evidence"]["left_running"] == ["sleep", "sh", "java"]


def test_evidence_of_hosts_with_different_ciphers_is_reported_as_a_mismatch() -> None:
    parts = [answer([1], {"cipher": "A"}), answer([1], {"cipher": "B"}), answer([], {"cipher": None})]
    assert evidence_mismatch(parts) == (
        "the client hosts connected with different settings: cipher was A and B; use the same versions and settings on "
        "all of them"
    )
    assert evidence_mismatch([parts[0], parts[2]]) is None


def test_evidence_of_a_host_without_workers_is_ignored() -> None:
    idle = answer([], {"verified": False, "protocol": None, "server": None})
    facts = merged_answer([answer([1], {"protocol": "TLSv1.3"}), idle])["evidence"]
    assert (facts["verified"], facts["protocol"], facts["connections"]) == (True, "TLSv1.3", 1)
    assert not merged_answer([answer([1]), answer([1], {"verified": False})])["evidence"]["verified"]


def ready(detail: str | None = None) -> Ready:
    error = None if detail is None else error_of("refused", detail)
    arms = [ReadyArm(name="tls", server=None if detail else "h:1", error=error)]
    return Ready(instrument="costof-engine", versions={}, arms=arms)


@pytest.mark.parametrize(
    ("details", "server", "detail"),
    [
        ([None, "no route"], None, "no route (on load-2)"),
        (["no route", "no route"], None, "no route"),
        ([None, None], "h:1", None),
    ],
)
def test_error_of_an_arm_names_the_host_if_only_some_hosts_cannot_reach_the_server(
    details: list[str | None], server: str | None, detail: str | None
) -> None:
    (arm,) = merged_ready(dict(zip(NAMES, map(ready, details), strict=False))).arms
    assert (arm.server, arm.error and arm.error.detail) == (server, detail)


def test_host_that_began_too_late_is_reported() -> None:
    assert late([part(), part("load-2", 19)]) is None
    assert late([part(), part("load-2", 21)]) == "load-2 started 21 ms after the others"
    assert late([part(ended_ms=100), part("load-2", 4, 100)]) is None
    assert late([]) is None


def test_measurement_that_hosts_did_not_carry_out_at_the_same_time_is_reported() -> None:
    # A host stops measuring when the time of the slice is over, or when it has done its share of the operations. An
    # operation that is still running then does not count.
    assert not_simultaneous_reason([part(), part("load-2", ended_ms=951)], 200, 1.0) is None
    assert (
        not_simultaneous_reason([part(), part("load-2", ended_ms=940)], 200, 1.0)
        == "all hosts measured at the same time for only 94% of the slice"
    )
    assert not_simultaneous_reason([part(), part("load-2", ended_ms=600)], 1000, 1.0) is None
    assert not_simultaneous_reason([part(), part("load-2", ended_ms=1900)], 1000, 1.0) is None
    # A host without workers measures nothing and is ignored.
    idle = part("load-3", 0, 0, operations=0, first_ns=None)
    assert not_simultaneous_reason([part(), part("load-2"), idle], 200, 1.0) is None
    assert not_simultaneous_reason([], 200, 1.0) is None


def test_programs_of_fixed_duration_must_run_simultaneously_on_all_hosts() -> None:
    def both(first_ms: float, second_ms: float, *limits: float) -> str | None:
        parts = [part(ended_ms=first_ms, operations=1), part("load-2", ended_ms=second_ms, operations=1)]
        return not_simultaneous_reason(parts, *limits)

    assert both(5000, 4800, 0, math.inf) is None
    assert both(5000, 4000, 0, math.inf) == "all hosts measured at the same time for only 80% of the slice"
    # A repeated program is measured until the time (0.5 s) is over. Its last run may end later.
    assert both(1000, 1900, 1000, 0.5) is None


@given(st.integers(1, 200), st.integers(1, 12))
def test_workers_are_divided_evenly_among_hosts_without_losing_any(workers: int, hosts: int) -> None:
    shares = [Share(host=host, hosts=hosts).workers(workers) for host in range(hosts)]
    assert sum(shares) == workers
    assert max(shares) - min(shares) <= 1


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("h0:6379", [], None, False), ErrorText.HOSTS_ADDRESS),
        (("auto", ["pool"], None, False), ErrorText.HOSTS_LABEL),
        ((None, ["pool=load"], None, False), ErrorText.HOSTS_OPTION_UNUSED),
        ((None, [], 2, False), ErrorText.HOSTS_OPTION_UNUSED),
        ((None, [], None, True), ErrorText.HOSTS_OPTION_UNUSED),
    ],
)
def test_invalid_options_of_hosts_are_rejected(options: tuple[Any, ...], error: ErrorText) -> None:
    with pytest.raises(CostofError) as caught:
        hosts_settings(*options)
    assert caught.value.message is error


def test_settings_of_load_machines_are_built_from_the_options_hosts_where_and_least() -> None:
    settings = HostsSettings(address="ray://h0:10001", where=(("pool", "load"), ("zone", "")), least=3)
    assert hosts_settings("ray://h0:10001", ["pool=load", "zone="], 3, False) == settings
    assert hosts_settings(None, [], None, False) is None


@pytest.mark.parametrize(
    ("study", "url", "options", "why"),
    [
        ("mysql-column-encryption", "mysql://u@h/", {}, "the gateway runs on this machine"),
        (
            "mongodb-tls",
            "mongodb://u@h/?replicaSet=rs0",
            {"settings": ["tls_library=aws-lc"]},
            "the TLS library aws-lc",
        ),
        ("postgres-tls", "postgresql://u@h/", {"client": "pgbench"}, "--hosts does not support --client pgbench"),
    ],
)
def test_studies_and_options_that_hosts_cannot_run_are_rejected_with_the_reason(
    study: str, url: str, options: dict[str, Any], why: str
) -> None:
    plan = resolve(load_study(study), Options(target=url, hosts="auto", **options))
    with pytest.raises(CostofError, match=why) as caught:
        check_hosts(plan, open_service(plan, Access(url.replace("u@", "u:p@")), "a-run"))
    assert caught.value.message is ErrorText.HOSTS_CANNOT


def test_only_one_folder_of_costof_imports_ray() -> None:
    """The process of the command must not import Ray, because a crash of Ray must not end a run.

    import-linter checks that the command imports nothing from this folder.
    """
    using = {
        path.parent.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(r"^\s*(import|from) (ray|grpc)\b", path.read_text(), re.MULTILINE)
    }
    assert using == {"instruments/hosts"}


def test_missing_ray_is_reported_with_the_command_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(CostofError, match=r"pip install 'costof\[ray\]'"),
        connect_cluster(HostsSettings(address="auto")),
    ):
        pass


def test_connection_to_ray_is_retried_if_ray_fails_to_start_its_client() -> None:
    class UnreliableRay:
        def __init__(self, failures: int, text: str) -> None:
            self.attempts, self.failures, self.text = 0, failures, text

        def init(self, **_: object) -> None:
            self.attempts += 1
            if self.attempts <= self.failures:
                raise ConnectionAbortedError(self.text)

        def shutdown(self) -> None:
            pass

    unreliable = UnreliableRay(2, "Initialization failure from server:\nTraceback")
    _begin(unreliable, HostsSettings(address="ray://h0:10001"))
    assert unreliable.attempts == 3
    for ray in (UnreliableRay(3, unreliable.text), UnreliableRay(1, "another")):
        with pytest.raises(ConnectionAbortedError):
            _begin(ray, HostsSettings(address="ray://h0:10001"))
        assert ray.attempts == ray.failures


def test_ray_actor_imports_only_the_standard_library() -> None:
    nodes = [*ast.walk(ast.parse(Path(actor.__file__).read_text()))]
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in modules} <= sys.stdlib_module_names


def test_ray_actor_runs_the_engine_from_memory_with_an_encrypted_plan() -> None:
    engine, host = engine_path().read_bytes(), HostActor()
    try:
        started = host.start(engine, hashlib.sha256(engine).hexdigest(), b"an authority")
        assert len(started["files"]) == 1
        arms = [Arm(name="plain", service=RedisSettings(addresses=["127.0.0.1:1"]))]
        key = PublicKey.model_validate_json(started["line"])
        reply = host.ask(sealed(Plan(share=Share(host=0, hosts=2), arms=arms, workloads=[]), key), 60.0)
        # The answer names the arm, so the engine has decrypted the plan.
        assert b"plain" in reply["line"]
        assert {"busy", "steal"} < reply.keys()
    finally:
        host.stop()
    assert host.ask(b"{}\n", 1.0) == {"failed": "no instrument runs"}


def test_ray_actor_does_not_run_a_damaged_engine() -> None:
    host = HostActor()
    assert host.start(b"#!/bin/sh\n", "0" * 64) == {"failed": "the engine arrived damaged (its SHA-256 differs)"}
    engine = b"#!/no/such/program\n"
    assert "does not run from memory" in host.start(engine, hashlib.sha256(engine).hexdigest())["failed"]


def test_rates_of_commands_on_several_hosts_are_added_and_all_other_figures_are_averaged() -> None:
    host_figures = [{"rps": 100.5, "p99_ms": 2.0, "peak_memory": 7.0}, {"rps": 200.0, "p99_ms": 4.0}]
    figures = {"rps": 300.5, "p99_ms": 3.0, "peak_memory": 7.0}
    assert merged_figures(host_figures, ["rps"]) == figures
    # The program of a third host has failed, so the sum would not be the rate of all hosts.
    assert merged_figures([*host_figures, {}], ["rps"]) == {"peak_memory": 7.0}
    answers = [answer([1]).model_copy(update={"figures": each, "rates": ["rps"]}) for each in host_figures]
    assert merged_answer(answers)["figures"] == figures


def test_error_names_the_hosts_that_could_not_verify_the_arm() -> None:
    fine, idle = answer([1]), answer([], {"mismatch": "'state' printed 'off'"})
    assert merged_mismatch({"load-1": fine}) is None
    merged_detail = merged_mismatch({"load-1": fine, "load-2": idle, "load-3": idle})
    assert merged_detail == "'state' printed 'off' (on load-2 and load-3)"


STUDY = """
title = "What does it cost?"
service = "command"
control.it = "off"
[factors.it.levels]
off = { LEVEL }
on = {}
[workloads.load.command]
run = "load {rate}"
figures.rps = { regex = "(.*)", unit = "per_second", better = "higher" }
"""


def commands_plan(level: str = "") -> StudyPlan:
    study = read_study("mine", tomllib.loads(STUDY.replace("LEVEL", level)))
    return resolve(study, Options(profile="quick", seed=1, hosts="auto", load=RequestedLoad(rate="300/s")))


def test_requested_rate_is_divided_among_hosts() -> None:
    plan = commands_plan()
    service = Commands(plan)
    service.set_host_count(3)
    lines = [service.endpoint(arm).service.model_dump()["programs"]["load"]["argv"] for arm in plan.arms]
    assert lines == [["load", "100"]] * 3
    assert service.commands() == ["off: run load 100", "on: run load 100"]


def test_study_that_changes_settings_by_a_command_is_rejected_on_several_hosts() -> None:
    plan = commands_plan('verify = { run = "state", matches = "off" }')
    check_hosts(plan, Commands(plan))
    plan = commands_plan('before = "switch on"')
    with pytest.raises(CostofError, match="keep the servers of all levels running") as caught:
        check_hosts(plan, Commands(plan))
    assert caught.value.message is ErrorText.HOSTS_CANNOT


def test_option_hosts_least_is_refused_if_commands_run_at_a_rate() -> None:
    plan = commands_plan()
    check_hosts_options(plan.study, None, None, HostsSettings(address="auto", least=2))
    with pytest.raises(CostofError, match=r"--hosts-least with the placeholder \{rate\}"):
        check_hosts_options(plan.study, plan.load, None, HostsSettings(address="auto", least=2))


def test_several_hosts_need_a_target_unless_the_study_measures_commands() -> None:
    plan = commands_plan()
    check_hosts_options(plan.study, plan.load, None, HostsSettings(address="auto"))
    with pytest.raises(CostofError) as caught:
        check_hosts_options(load_study("redis-tls"), None, None, HostsSettings(address="auto"))
    assert caught.value.message is ErrorText.HOSTS_NEED_TARGET


def test_hosts_with_another_version_of_costof_are_rejected_with_a_remedy() -> None:
    check_costof({"load-1": __version__})
    with pytest.raises(CostofError) as caught:
        check_costof({"load-1": __version__, "load-2": "", "load-3": "0.0.1"})
    assert caught.value.message is ErrorText.HOST_REFUSED
    message = str(caught.value)
    assert message.startswith("load-2 and load-3 cannot measure")
    assert "it has no costof and costof 0.0.1" in message
    assert f"pip install 'costof[ray]=={__version__}'" in message


REDIS = resolve(load_study("redis-tls"), Options("quick", target="redis://h/", hosts="auto", seed=1))
QUERIES = with_only(REDIS, "wire_query")


def section_of(run: Run) -> Hosts:
    section = SECTION.compute(run, build_core(run, "run"), None)
    assert section is not None
    return section


def test_report_names_only_the_slow_host(tmp_path: Path) -> None:
    section = section_of(read_run(fake_run_of_hosts(tmp_path / "slow", QUERIES, {"load-2": 1.12})))
    assert {each.host for each in section.slower} == {"load-2"}
    for each in section.slower:
        assert each.ratio.low <= 1.12 * (1 + 1e-6)
        assert each.ratio.high >= 1.12 * (1 - 1e-6)
    section = section_of(read_run(fake_run_of_hosts(tmp_path / "equal", QUERIES, {})))
    assert (section.slower, [row.host for row in section.rows]) == ([], list(NAMES))


def with_rates(record: SliceRecord, rates: dict[str, float]) -> SliceRecord:
    hosts = [each.model_copy(update={"figures": {"rps": rates[each.host]}}) for each in record.hosts]
    answer = record.answer.model_copy(update={"figures": {"rps": sum(rates.values())}, "rates": ["rps"]})
    return record.model_copy(update={"hosts": hosts, "answer": answer})


def test_report_names_the_host_whose_program_has_a_lower_rate(tmp_path: Path) -> None:
    plan, rates = commands_plan(), dict(zip(NAMES, (100.0, 80.0, 101.0), strict=True))
    ledger = Ledger.create(plan, tmp_path / "rates")
    for record in fake_run_of_hosts(tmp_path, plan, {}).records():
        ledger.append(with_rates(record, rates) if isinstance(record, SliceRecord) else record)
    (slower,) = (each for each in section_of(read_run(ledger)).slower if each.host == "load-2")
    assert slower.ratio.value == pytest.approx(100.5 / 80)


def test_round_in_which_a_host_was_lost_is_discarded(tmp_path: Path) -> None:
    ledger = fake_run(tmp_path / "run", QUERIES, Truth(), rounds=6)
    ledger.append(LostRecord(host="load-2", round=5, rest=None, detail="its process was ended"))
    ledger.append(EndRecord(partial="host load-2 was lost: its process was ended", steal_share=0.0))
    run = read_run(ledger)
    assert (run.rounds, run.partial) == (5, "host load-2 was lost: its process was ended")


def test_report_warns_of_a_lost_host_and_lists_the_workloads_that_were_left_out(tmp_path: Path) -> None:
    ledger = fake_run(tmp_path / "run", REDIS, Truth(), rounds=2)
    ledger.append(LostRecord(host="load-2", round=2, rest=2, detail="it does not answer"))
    warnings = build_core(read_run(ledger), "run").warnings
    assert "host load-2 failed during the run (it does not answer); the run continued with the remaining 2" in warnings
    (warning,) = (text for text in warnings if text.startswith("not measured: "))
    labels = [each.label for each in REDIS.study.workloads.values() if each.view == "app"]
    assert [label in warning for label in labels] == [True] * len(labels) != []


def test_short_answer_shows_the_warning_about_a_lost_host_before_other_warnings(tmp_path: Path) -> None:
    ledger = fake_run_of_hosts(tmp_path, QUERIES, {"load-2": 1.12})
    ledger.append(LostRecord(host="load-3", round=2, rest=2, detail="it does not answer"))
    result = analyse(ledger)
    assert [each.text for each in result.answer if each.kind == "warning"], "another warning"
    warning = " ".join(printed(result, full=False).split()).partition("Warning ")[2]
    assert warning.startswith("Host load-3 failed during the run (it does not answer); the run continued with the")
