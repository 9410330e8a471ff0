"""Runs from several hosts: what their ledgers hold, and what a report says of each host."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from costof.errors import CostofError, Problem
from costof.report.sections.hosts import SECTION, Hosts, _answer_without, _told
from costof.results.core import core_of
from costof.results.ledger import EndRecord, Ledger, LostRecord
from costof.results.run import Run, read_run
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve
from costof.study.schema import Metric
from tests.fake_hosts import NAMES, fake_run_of_hosts, part
from tests.fake_run import Truth, fake_run


def plan_of_hosts() -> Plan:
    return resolve(load_study("redis-tls"), Options(target="redis://h/", hosts="auto", seed=1))


def test_a_ledger_of_the_version_before_is_still_read(tmp_path: Path) -> None:
    plan = resolve(load_study("redis-tls"), Options())
    ledger = fake_run(tmp_path / "run", plan, Truth(), rounds=2)
    content = json.loads((ledger.folder / "plan.json").read_text())
    lines = [json.loads(line) for line in (ledger.folder / "slices.jsonl").read_text().splitlines()]
    for line in lines:
        line.pop("hosts", None)
        line.get("answer", {}).pop("window", None)
    content.pop("hosts")
    (ledger.folder / "plan.json").write_text(json.dumps({**content, "ledger_version": 5}))
    (ledger.folder / "slices.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    assert core_of(read_run(Ledger.open(ledger.folder)), "run").rounds == 2
    (ledger.folder / "plan.json").write_text(json.dumps({**content, "ledger_version": 4}))
    with pytest.raises(CostofError) as caught:
        Ledger.open(ledger.folder).plan()
    assert caught.value.problem is Problem.OTHER_LEDGER


def run_of_hosts(folder: Path, slower: dict[str, float], busy: float = 0.3) -> Run:
    return read_run(fake_run_of_hosts(folder, plan_of_hosts(), slower, busy))


def section_of(run: Run) -> Hosts:
    found = SECTION.compute(run, core_of(run, "run"), None)
    assert found is not None
    return found


def test_a_slow_host_is_named_with_its_interval(tmp_path: Path) -> None:
    found = section_of(run_of_hosts(tmp_path, {"load-2": 1.12}))
    assert {each.host for each in found.slower} == {"load-2"}
    for each in found.slower:
        assert each.ratio.low <= 1.12 * (1 + 1e-6)
        assert each.ratio.high >= 1.12 * (1 - 1e-6)


def test_hosts_that_are_alike_are_not_named(tmp_path: Path) -> None:
    found = section_of(run_of_hosts(tmp_path, {}, busy=0.3))
    assert found.slower == []
    assert [row.host for row in found.rows] == list(NAMES)


def test_figures_of_all_but_one_host_are_those_that_the_others_told(tmp_path: Path) -> None:
    piece = run_of_hosts(tmp_path, {}).counted[0]
    hosts = [
        part.model_copy(update={"figures": {"rps": 100.0 * number, "p99_ms": number}})
        for number, part in enumerate(piece.hosts, 1)
    ]
    answer = piece.answer.model_copy(update={"figures": {"rps": 600.0, "p99_ms": 2.0}, "rates": ["rps"]})
    piece = piece.model_copy(update={"answer": answer, "hosts": hosts})
    assert _answer_without(piece, hosts[1]).figures == {"rps": 400.0, "p99_ms": 2.0}
    assert _answer_without(piece, hosts[2]).figures == {"rps": 300.0, "p99_ms": 1.5}


def test_a_host_whose_program_does_less_is_named() -> None:
    told = {"description": "d", "workload": "load", "phase": "figure.rps", "unit": "per_second", "margin": 0.05}
    metric = Metric(label="requests a second", headline=True, better="higher", **told)
    hosts = [part(name, figures={"rps": rate}) for name, rate in zip(NAMES, (100.0, 80.0, 101.0), strict=True)]
    assert _told(hosts, metric, "load-2") == (80.0, 100.5)
    assert _told(hosts, metric, "nowhere")[0] == 0.0
    assert _told([part(name) for name in NAMES], metric, "load-2") == (0.0, 0.0)


def test_a_round_in_which_a_host_was_lost_is_no_round(tmp_path: Path) -> None:
    ledger = fake_run(tmp_path / "run", plan_of_hosts(), Truth(), rounds=6)
    ledger.append(LostRecord(host="load-2", round=5, rest=None, detail="its process was ended"))
    ledger.append(EndRecord(partial="load-2 was lost: its process was ended", steal_share=0.0))
    run = read_run(ledger)
    assert (run.rounds, run.partial) == (5, "load-2 was lost: its process was ended")


def test_others_that_went_on_are_told(tmp_path: Path) -> None:
    ledger = fake_run(tmp_path / "run", plan_of_hosts(), Truth(), rounds=6)
    ledger.append(LostRecord(host="load-2", round=6, rest=2, detail="it is silent"))
    warned = core_of(read_run(ledger), "run").warnings
    assert "load-2 was lost in the middle of the run (it is silent), which went on with the 2 others" in warned


def test_a_report_says_which_view_hosts_leave_out(tmp_path: Path) -> None:
    told = core_of(run_of_hosts(tmp_path, {}), "run").warnings
    (said,) = (text for text in told if text.startswith("left out, since hosts have the engine alone"))
    labels = [each.label for each in plan_of_hosts().study.workloads.values() if each.view == "app"]
    assert labels
    assert all(label in said for label in labels)
