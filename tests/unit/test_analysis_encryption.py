"""Column encryption, from ledgers whose truth is known: figures of slices, where the loss goes, published tables."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from costof import format as fmt
from costof.report import analyse
from costof.report.blocks import Paragraph, Table
from costof.report.result import Result
from costof.report.sections.breakdown import SECTION as BREAKDOWN
from costof.report.sections.breakdown import Step
from costof.report.sections.sweep import SECTION as SWEEP
from costof.results.index import Index
from costof.results.ledger import Ledger, SliceRecord
from costof.statistics.estimate import Estimate
from costof.study.plan import Plan
from tests.fake_run import fake_run
from tests.noise import Noise
from tests.support.small_plans import plan_of
from tests.truths.mysql_column_encryption import BYTES, ENCRYPTED, STATEMENTS, EncryptionTruth, Taken

STUDY = "mysql-column-encryption"
ROUNDS = 8
CPU = {"cpu.client": "client", "cpu.gateway": "gateway", "cpu.server": "server"}


@cache
def plan() -> Plan:
    return plan_of(STUDY, "quick", "terminals=8,16")


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return fake_run(tmp_path_factory.mktemp("tpcc") / "run", plan(), EncryptionTruth(), rounds=ROUNDS)


@pytest.fixture(scope="module")
def result(ledger: Ledger) -> Result:
    return analyse(ledger)


def truth(arm: str) -> Taken:
    return EncryptionTruth().taken(plan().arm(arm))


def near(estimate: Estimate, wanted: float) -> bool:
    """Within twice the interval: one seed, and intervals are not to be tested here."""
    half = max((estimate.high - estimate.low) / 2, 1e-3 * abs(wanted))
    return estimate.low - half <= wanted <= estimate.high + half


def mean(result: Result, metric: str, arm: str) -> Estimate:
    return next(value.mean for value in result.values if (value.metric, value.arm) == (metric, arm))


@pytest.mark.parametrize("arm", ["0", "direct", "20", "100"])
def test_figures_of_slices_are_what_they_truly_are(result: Result, arm: str) -> None:
    for metric, role in CPU.items():
        assert near(mean(result, metric, arm), truth(arm).cpu_ms[role]), metric
    # Rolled back New-Orders are operations and no committed transactions: one of 200 here.
    assert near(mean(result, "wire.transactions_per_second", arm), truth(arm).per_second * 0.995)
    assert near(mean(result, "wire.queries_per_second", arm), truth(arm).per_second * STATEMENTS)
    assert near(mean(result, "wire.bytes", arm), truth(arm).bytes)
    assert near(mean(result, "server.bytes", arm), BYTES)


def test_cpu_is_a_view_of_its_own(result: Result) -> None:
    views = {metric.name: metric.view for metric in result.metrics}
    assert {views[name] for name in CPU} == {"cpu"}
    assert views["server.bytes"] == "server"
    assert views["wire.bytes"] == views["wire.transactions_per_second"] == "wire"


def steps(result: Result, context: str = "") -> dict[str, Step]:
    return {step.label: step for step in result.sections.breakdown if step.context == context}


def test_each_step_adds_what_it_truly_adds(result: Result) -> None:
    for context in ("", "terminals-16"):
        found = steps(result, context)
        assert list(found) == [
            "the gateway's presence",
            "encrypting 20 % of the columns",
            "encrypting 100 % of the columns",
        ]
        for step in found.values():
            before, after = truth(step.start), truth(step.end)
            total = sum(after.cpu_ms.values()) - sum(before.cpu_ms.values())
            assert near(step.ratio, after.per_second / before.per_second)
            assert near(step.total, total)
            for part in step.parts:
                added = after.cpu_ms[CPU[part.metric]] - before.cpu_ms[CPU[part.metric]]
                assert near(part.added, added), part
                assert part.share is not None
                assert near(part.share, added / total), part
            at_client, at_server = step.beside
            assert near(at_client.added, after.bytes - before.bytes)
            assert at_server.added.value == 0
            assert at_client.share is None


def test_the_presence_is_from_the_arm_without_the_gateway(result: Result) -> None:
    step = steps(result)["the gateway's presence"]
    assert (step.start, step.end) == ("direct", "0")
    assert step.ratio.value < 1


def test_a_step_that_adds_nothing_has_no_shares(tmp_path: Path) -> None:
    free_of_cost = EncryptionTruth(dict.fromkeys(ENCRYPTED, 0.0))
    free = analyse(fake_run(tmp_path / "run", plan_of(STUDY), free_of_cost, rounds=ROUNDS, noise=Noise(0.03)))
    step = steps(free)["encrypting 20 % of the columns"]
    assert step.total.low < 0 < step.total.high
    assert all(part.share is None for part in step.parts)
    shown = BREAKDOWN.blocks(Index(free), free.sections.breakdown)
    assert "which is not resolved" in " ".join(block.text for block in shown if isinstance(block, Paragraph))


def test_the_answer_is_what_encryption_costs_and_where_it_goes(result: Result) -> None:
    told = [each.text.replace(fmt.NBSP, " ") for each in result.answer if each.kind == "answer"]
    assert not any("No gateway" in text or "no gateway" in text for text in told)
    assert any(text.startswith("The gateway's presence takes ") and " driver (client)" in text for text in told)
    assert any(text.startswith("Encrypting 100 % of the columns takes ") for text in told)


def test_published_figures_stand_in_a_table_of_each_share(result: Result) -> None:
    shown = SWEEP.blocks(Index(result), result.sections.sweep)
    tables = {table.title: table for table in shown if isinstance(table, Table)}
    assert list(tables) == [
        f"{label}: transactions a second by terminals"
        for label in ("no gateway", "encrypting 20 % of the columns", "encrypting 100 % of the columns")
    ]
    rows = [[cell.text for cell in row.cells] for row in tables[list(tables)[1]].rows]
    assert [row[0] for row in rows] == ["8", "16"]
    assert [row[4:] for row in rows] == [
        [f"260.55 → 237.64 (8.79{fmt.NBSP}%)"],
        [f"302.78 → 280.28 (7.43{fmt.NBSP}%)"],
    ]
    # Nobody published what a gateway without rules costs.
    assert next(iter(tables.values())).columns[-1].text == "overhead"
    lost = 1 - truth("20").per_second / truth("0").per_second
    overhead = next(e.ratio for e in result.effects if (e.metric, e.arm) == ("wire.transactions_per_second", "20"))
    assert overhead is not None
    assert near(overhead, 1 - lost)
    assert rows[0][3] == fmt.loss(overhead).value
    assert ["Published" in table.note for table in tables.values()] == [False, False, True]


def test_counts_of_the_servers_are_added_up_in_the_evidence_with_those_of_the_warm_up(
    result: Result, ledger: Ledger
) -> None:
    arm = next(arm for arm in result.arms if arm.name == "100")
    facts = {name: fact for evidence in arm.evidence for name, fact in evidence.facts.items()}
    slices = [record for record in ledger.records() if isinstance(record, SliceRecord) and record.answer.arm == "100"]
    assert any(piece.warm_up for piece in slices)
    done = sum(truth("100").values(piece.answer.operations) for piece in slices)
    assert facts["values encrypted by the gateway"] == f"{done:,}"
    assert facts["values decrypted by the driver"] == f"{done:,}"
    # What was proved before and after the run stands together.
    assert facts["columns encrypted"] == "100%"
    assert facts["consistency"] == "conditions 1 to 12 held"
