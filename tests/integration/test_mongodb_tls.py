"""A run of the MongoDB study on its lab, as a user starts it: costs, memory, evidence, and rebuilt reports."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from costof.errors import EXIT_EXCEEDED, EXIT_PARTIAL
from costof.report.result import Result
from costof.results.ledger import Ledger
from costof.results.run import read_run
from tests.support.command import costof
from tests.support.programs import eventually
from tests.support.small_plans import small_study

from .conftest import SMALL

pytestmark = [pytest.mark.slow, pytest.mark.servers]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a quick run with a TLS arm, and return its folder. Repeat the run if a busy machine hid the cost of TLS."""
    folder = tmp_path_factory.mktemp("quick")
    study = small_study("mongodb-tls", folder)
    kept, broken = ("--limit", "wire.tcp", "+10000%"), ("--limit", "wire.connect_and_first_query", "+0.001ms")
    runs: list[Path] = []

    def shows_what_tls_costs() -> bool:
        runs.append(folder / f"run{len(runs)}")
        arguments = [study, *SMALL, "--rounds", "5", "--seed", "1", *kept, *broken, "--out", runs[-1].name]
        done = costof("run", *arguments, cwd=folder)
        assert done.status in {EXIT_EXCEEDED, EXIT_PARTIAL}, done.err
        gate = costof("gate", runs[-1].name, cwd=folder)
        assert gate.status == done.status
        if done.status == EXIT_EXCEEDED:
            assert re.search(r"\d of \d limits (is|are) exceeded\.", done.out)
            assert "exceeded: 'connect and first query' on the wire +0.001ms, TLS 1.3 (rsa-2048): " in gate.out
        return (
            done.status == EXIT_EXCEEDED
            and "within: 'TCP' on the wire +10000%, TLS 1.3 (rsa-2048): " in gate.out
            and all(
                quickest_ns(runs[-1], workload, "tls") > quickest_ns(runs[-1], workload, "plain")
                for workload in ("wire_connect", "app_connect")
            )
        )

    eventually("a run that shows what TLS costs", shows_what_tls_costs)
    return runs[-1]


def quickest_ns(finished: Path, workload: str, arm: str) -> int:
    slices = read_run(Ledger.open(finished)).counted_slices(workload, arm)
    return min(record.answer.phases["connect_and_first_operation"].min_ns for record in slices)


@pytest.fixture(scope="module")
def result(finished: Path) -> Result:
    return Result.model_validate_json((finished / "result.json").read_bytes())


def test_mongodb_run_from_the_command_line_measures_the_costs_of_tls(result: Result) -> None:
    effects = {effect.metric: effect for effect in result.effects if effect.arm == "tls"}
    assert effects["wire.tls"].control_value == 0 < effects["wire.tls"].value
    for metric in ("wire.connect_and_first_query", "app.connect_and_first_query"):
        assert effects[metric].difference.rounds == 5
    values = {value.arm: value for value in result.values if value.metric == "wire.connect_and_first_query"}
    assert (values["tls"].bytes_sent or 0) > (values["plain"].bytes_sent or 0) > 0
    assert (values["tls"].bytes_received or 0) > (values["plain"].bytes_received or 0) > 0
    assert values["plain"].round_trips is not None
    assert values["tls"].round_trips == pytest.approx(values["plain"].round_trips + 1)


def test_memory_of_the_engine_does_not_grow_during_the_run(finished: Path) -> None:
    records = [json.loads(line) for line in (finished / "slices.jsonl").read_text().splitlines()]
    slices = [r for r in records if r["record"] == "slice" and r["view"] == "wire"]
    peaks = [r["answer"]["peak_memory_bytes"] for r in slices]
    assert len(peaks) > 20
    assert peaks[-1] - peaks[len(peaks) // 4] < 2 * 2**20


def test_evidence_comes_from_client_and_server(result: Result) -> None:
    facts = {(arm.name, e.view): e.facts for arm in result.arms for e in arm.evidence}
    wire = facts["tls", "wire"]
    assert (wire["protocol"], wire["key"], wire["verified"], wire["resumed"]) == ("TLSv1.3", "rsa-2048", "yes", "0")
    assert int(wire["connections counted by the server"]) >= int(wire["connections"])
    assert "TLSv1.3" in facts["tls", "app"]["TLS connections counted by the server"]
    assert "protocol" not in facts["plain", "wire"]


def test_every_report_can_be_rebuilt_from_the_raw_results(finished: Path) -> None:
    before = (finished / "report.md").read_text()
    for name in ("result.json", "report.html", "report.md"):
        (finished / name).unlink()
    assert costof("report", str(finished), cwd=finished.parent).status == 0
    assert (finished / "report.md").read_text() == before
    assert (finished / "report.html").stat().st_size > 10_000
    shown = costof("show", str(finished), cwd=finished.parent)
    assert shown.status == 0
    assert "connect and first query" in shown.out
