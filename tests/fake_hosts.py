"""Simulated runs like those of `tests/fake_run.py`, except that three hosts share each measured window."""

from __future__ import annotations

from pathlib import Path

from costof.messages.answers import HostPart, PhaseSum
from costof.results.ledger import EnvironmentRecord, Ledger, SliceRecord
from costof.study.plan import Plan
from tests.fake_run import Truth, fake_run

NAMES = ("load-1", "load-2", "load-3")


def part(host: str = "load-1", late_ms: float = 0, ended_ms: float = 1000, **changes: object) -> HostPart:
    return HostPart(
        **{
            "host": host,
            "operations": 100,
            "errors": 0,
            "phases": {},
            "clock_offset_ns": 10**13,
            "clock_error_ns": 400_000,
            "late_ns": round(late_ms * 1e6),
            "first_ns": round(late_ms * 1e6) + 1000,
            "ended_ns": round(ended_ms * 1e6),
            "engine_cpu_ns": 10**8,
            "machine_busy": 0.3,
            "steal": 0.0,
            **changes,
        }
    )


def fake_run_of_hosts(folder: Path, plan: Plan, slower: dict[str, float], busy: float = 0.3) -> Ledger:
    """Write a simulated run in which three hosts each did a third of every slice.

    `slower` multiplies the times of some hosts, such as `{"load-2": 1.5}`. `busy` is the CPU load of each host.
    """
    whole, ledger = fake_run(folder / "whole", plan, Truth()), Ledger.create(plan, folder / "of-hosts")
    for record in whole.records():
        if isinstance(record, EnvironmentRecord):
            facts = {name: {"cores": 4, "CPUs given": 4, "ports": 28_232} for name in NAMES}
            record = record.model_copy(update={"facts": {**record.facts, "hosts": facts}})
        if isinstance(record, SliceRecord):
            record = record.model_copy(update={"hosts": _parts(record, slower, busy)})
        ledger.append(record)
    return ledger


def _parts(record: SliceRecord, slower: dict[str, float], busy: float) -> list[HostPart]:
    weights = [slower.get(name, 1.0) for name in NAMES]
    return [
        part(
            name,
            ended_ms=record.answer.elapsed_ns / 1e6,
            phases={
                phase: PhaseSum(count=each.count // 3, sum_ns=round(each.sum_ns * weight / sum(weights)))
                for phase, each in record.answer.phases.items()
            },
            operations=record.answer.operations // 3,
            machine_busy=busy,
        )
        for name, weight in zip(NAMES, weights, strict=True)
    ]
