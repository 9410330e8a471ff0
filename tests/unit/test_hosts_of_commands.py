"""Commands of the user's own on several hosts: what is refused, and how what they tell is put together."""

from __future__ import annotations

import math
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costof import __version__
from costof.cli.options import check_asked, check_hosts
from costof.errors import CostofError, Problem
from costof.instruments.hosts.merging import apart, merged_answer, unproved
from costof.instruments.hosts.population import check_costof
from costof.messages.answers import SliceAnswer, merged_figures
from costof.messages.plan import HostsSettings
from costof.programs.access import Access
from costof.services.command.lab import Commands
from costof.services.open import open_service
from costof.study.library import load_study, study_of
from costof.study.load import LoadAsked
from costof.study.plan import Options, Plan, resolve
from tests.fake_hosts import part
from tests.fake_run import Slice, answer_of, phase_of


def answer(figures: dict[str, float], evidence: dict[str, object] | None = None) -> SliceAnswer:
    done = bool(figures)
    found = Slice(int(done), 1.0, {"command": phase_of(1.0)} if done else {}, {"command": 0.5}, dict(evidence or {}))
    return answer_of(found, "load", "on").model_copy(update={"figures": figures, "rates": ["rps"]})


def test_rates_of_programs_are_added_and_of_all_else_it_is_the_mean() -> None:
    told = [{"rps": 100.5, "p99_ms": 2.0, "peak_memory": 7.0}, {"rps": 200.0, "p99_ms": 4.0}]
    assert merged_figures(told, ["rps"]) == {"rps": 300.5, "p99_ms": 3.0, "peak_memory": 7.0}
    # A host whose program has failed: the rest is no rate of all.
    assert merged_figures([*told, {}], ["rps"]) == {"peak_memory": 7.0}
    assert merged_answer([answer(figures) for figures in told])["figures"] == merged_figures(told, ["rps"])


@given(st.lists(st.lists(st.integers(1, 10**9), min_size=1, max_size=4), min_size=2, max_size=4))
def test_two_hosts_told_as_one_are_those_two(parts: list[list[int]]) -> None:
    """So that it does not matter whose rates are added first."""
    told = [{"rate": float(sum(part))} for part in parts]
    first = merged_figures(told[:2], ["rate"])
    assert merged_figures([first, *told[2:]], ["rate"]) == merged_figures(told, ["rate"])


def test_a_host_that_has_not_proved_its_arm_is_named() -> None:
    fine, idle = answer({"rps": 1.0}), answer({}, {"mismatch": "'state' said 'off'"})
    assert unproved({"load-1": fine}) is None
    assert unproved({"load-1": fine, "load-2": idle, "load-3": idle}) == "from load-2 and load-3: 'state' said 'off'"


def test_programs_that_end_by_themselves_are_one_population_while_all_run() -> None:
    """However long they take, and each does one operation."""
    told = 0, math.inf
    assert apart([part(ended_ms=5000, operations=1), part("load-2", ended_ms=4800, operations=1)], *told) is None
    found = apart([part(ended_ms=5000, operations=1), part("load-2", ended_ms=4000, operations=1)], *told)
    assert found == "the hosts measured together for 80% of the slice"
    # One that is run again and again is under way when its seconds are over.
    assert apart([part(ended_ms=1000, operations=1), part("load-2", ended_ms=1900, operations=1)], 1000, 0.5) is None


STUDY = """
title = "What does it cost?"
service = "command"
control.it = "off"
[factors.it.levels]
off = {}
on = {}
[workloads.load.command]
run = "load {rate}"
"""


def commands_plan(levels: str = "", text: str = STUDY) -> Plan:
    study = study_of("mine", tomllib.loads(text.replace("off = {}", f"off = {{ {levels} }}")))
    return resolve(study, Options(profile="quick", seed=1, hosts="auto", load=LoadAsked(rate="300/s")))


def test_a_rate_is_divided_among_hosts() -> None:
    plan = commands_plan()
    service = Commands(plan)
    service.shared_by(3)
    told = [service.endpoint(arm).service.model_dump()["programs"]["load"]["argv"] for arm in plan.arms]
    assert told == [["load", "100"]] * 3
    assert service.commands() == ["off: run load 100", "on: run load 100"]


def test_what_all_hosts_would_undo_under_each_other_is_refused() -> None:
    plan = commands_plan('proof = { run = "state", matches = "off" }')
    check_hosts(plan, Commands(plan))
    plan = commands_plan('before = "switch on"')
    with pytest.raises(CostofError, match="have both levels stand beside each other") as caught:
        check_hosts(plan, Commands(plan))
    assert caught.value.problem is Problem.HOSTS_CANNOT


def test_commands_need_no_target_and_a_rate_no_fewer_hosts() -> None:
    plan = commands_plan()
    check_asked(plan.study, plan.load, None, HostsSettings(address="auto"))
    check_asked(plan.study, None, None, HostsSettings(address="auto", least=2))
    with pytest.raises(CostofError, match=r"--hosts-least beside '\{rate\}'"):
        check_asked(plan.study, plan.load, None, HostsSettings(address="auto", least=2))
    with pytest.raises(CostofError) as caught:
        check_asked(load_study("redis-tls"), None, None, HostsSettings(address="auto"))
    assert caught.value.problem is Problem.HOSTS_NEED_TARGET


def test_another_client_is_not_sent_to_hosts() -> None:
    plan = resolve(load_study("postgres-tls"), Options(target="postgresql://u@h/", client="pgbench", hosts="auto"))
    service = open_service(plan, Access("postgresql://u:p@h/"), "a-run")
    with pytest.raises(CostofError, match="--client pgbench cannot be had on other hosts"):
        check_hosts(plan, service)


def test_hosts_without_the_same_costof_are_refused_with_what_mends_it() -> None:
    check_costof({"load-1": __version__})
    with pytest.raises(CostofError) as caught:
        check_costof({"load-1": __version__, "load-2": "", "load-3": "0.0.1"})
    assert caught.value.problem is Problem.HOST_REFUSED
    said = str(caught.value)
    assert said.startswith("load-2 and load-3 cannot measure")
    assert "it has no costof and costof 0.0.1" in said
    assert f"pip install 'costof[ray]=={__version__}'" in said
