"""The plan of the study of chained replication: its settings, its workload by share of reads, its published figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from costof.messages.plan import Endpoint, ServiceSettings
from costof.results.ledger import Ledger
from costof.run.instruments import Instruments
from costof.services import Service
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve
from costof.study.schema import PublishedFigure, Study

NAME = "mongodb-chained-replication"


@pytest.fixture(scope="module")
def study() -> Study:
    return load_study(NAME)


def published() -> list[PublishedFigure]:
    found = load_study(NAME).published
    return found.figures if found else []


def settings(plan: Plan) -> set[tuple[str, ...]]:
    return {tuple(arm.levels[name] for name in ("nodes", "write_concern", "sync")) for arm in plan.arms}


def test_the_quick_profile_is_two_sizes_and_both_write_concerns_as_star_and_chain(study: Study) -> None:
    plan = resolve(study, Options(profile="quick"))
    asked = {(nodes, w, sync) for nodes in ("3", "7") for w in ("1", "majority") for sync in ("star", "chain")}
    assert settings(plan) == asked
    assert len(plan.controls) == 4


def test_the_published_profile_is_the_settings_of_the_published_tables(study: Study) -> None:
    plan = resolve(study, Options(profile="published"))
    assert {(nodes, w) for nodes, w, _ in settings(plan)} == {
        (nodes, w) for nodes in ("3", "7", "15") for w in ("1", "majority")
    }
    assert len(settings(plan)) == 18
    figures = published()
    for metric in ("wire.operations_per_second", "server.primary_cpu"):
        for sync in ("natural", "chain"):
            of = [each for each in figures if each.metric == metric and each.levels["sync"] == sync]
            assert len({(each.levels["nodes"], each.levels["write_concern"]) for each in of}) == len(of) == 6


def test_published_ratios_are_those_of_the_source() -> None:
    """Chaining on over off, as the source words it: w:1 gains with the nodes, w:majority loses."""
    figures = [f for f in published() if f.series == "chaining on" and "second" in f.metric]
    ratios = {
        (f.levels["write_concern"], f.levels["nodes"]): round(f.value / f.control_value, 2)
        for f in figures
        if f.value and f.control_value
    }
    assert ratios == {
        ("majority", "3"): 1.01,
        ("majority", "7"): 0.7,
        ("majority", "15"): 0.94,
        ("1", "3"): 1.02,
        ("1", "7"): 1.25,
        ("1", "15"): 1.88,
    }


class Elsewhere(Service):
    """Servers that are never asked: only the plan for the instrument is."""

    def __enter__(self) -> Elsewhere:
        return self

    def __exit__(self, *_: object) -> None: ...

    def endpoint(self, arm: object) -> Endpoint:
        return Endpoint(service=ServiceSettings(protocol="none", addresses=[]))

    def prepare(self, arm: object, load: object) -> None: ...

    def writes(self) -> list[str]:
        return []

    def describe(self) -> object:
        return None


def test_each_share_of_reads_is_a_workload_of_its_own_for_the_engine(study: Study, tmp_path: Path) -> None:
    plan = resolve(study, Options(profile="quick", settings=["read_share=0,0.5", "nodes=3", "write_concern=1"]))
    instruments = Instruments(plan, Elsewhere(), Ledger(tmp_path))
    told = {each.name: each for each in instruments._plan_for_instrument("wire", plan.arms).workloads}
    assert told.keys() == {"write", "write read_share 0.5"}
    usual, mixed = told["write"].ycsb, told["write read_share 0.5"].ycsb
    assert usual == {"phase": "load"}
    assert (mixed["phase"], mixed["insert_proportion"], mixed["read_proportion"]) == ("run", 0.5, 0.5)


def test_a_level_that_changes_a_workload_that_is_none_is_refused(study: Study) -> None:
    told = study.model_dump()
    told["factors"]["read_share"]["levels"]["0.5"]["workload"] = {"reads": {"phase": "run"}}
    with pytest.raises(ValueError, match="unknown workloads"):
        Study.model_validate(told)
