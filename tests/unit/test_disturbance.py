"""Rounds are left out by what the machine did, whatever was measured in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from costof.results.ledger import Ledger, SliceRecord
from costof.results.run import FEWEST_ROUNDS, MOST_DISCARDED, disturbances, read_run
from tests.fake_run import Truth, fake_run
from tests.support.small_plans import plan_of

ROUNDS, CORES = 20, 2


@pytest.fixture(scope="module")
def slices(tmp_path_factory: pytest.TempPathFactory) -> list[SliceRecord]:
    """Of a run on a machine that nobody else used."""
    folder = tmp_path_factory.mktemp("quiet")
    ledger = fake_run(folder / "run", plan_of("mongodb-tls"), Truth(), rounds=ROUNDS)
    return [record for record in ledger.records() if isinstance(record, SliceRecord)]


def with_load(slices: list[SliceRecord], rounds: set[int], **load: float) -> list[SliceRecord]:
    """The same slices, in these rounds with so much a second."""

    def changed(piece: SliceRecord) -> SliceRecord:
        seconds = piece.answer.elapsed_ns / 1e9 if piece.round in rounds else 0.0
        return piece.model_copy(update={name: each * seconds for name, each in load.items()})

    return [changed(piece) for piece in slices]


@pytest.mark.parametrize("kind", ["foreign_cpu_seconds", "steal_seconds"])
def test_a_round_in_which_others_had_the_machine_is_left_out(slices: list[SliceRecord], kind: str) -> None:
    found = disturbances(with_load(slices, {3, 11}, **{kind: 0.5}), CORES)
    assert found.discarded == {3, 11}
    assert found.usual == 0.0


def test_what_others_always_have_disturbs_no_round(slices: list[SliceRecord]) -> None:
    found = disturbances(with_load(slices, set(range(ROUNDS)), foreign_cpu_seconds=0.6), CORES)
    assert found.discarded == frozenset()
    assert found.usual == pytest.approx(0.3)


def test_what_others_had_is_a_share_of_the_time_that_was_watched(slices: list[SliceRecord]) -> None:
    """The readings lie around a slice, which may be short beside what gets it ready."""
    watched = [piece.model_copy(update={"observed_seconds": 4 * piece.answer.elapsed_ns / 1e9}) for piece in slices]
    found = disturbances(with_load(watched, set(range(ROUNDS)), foreign_cpu_seconds=2.0), CORES)
    assert found.usual == pytest.approx(0.25)


def test_where_most_rounds_would_go_all_of_them_stay(slices: list[SliceRecord]) -> None:
    many = set(range(int(MOST_DISCARDED * ROUNDS) + 1))
    assert disturbances(with_load(slices, many, foreign_cpu_seconds=1.0), CORES).discarded == frozenset()


def test_of_a_few_rounds_all_stay(slices: list[SliceRecord]) -> None:
    few = [piece for piece in slices if piece.round < FEWEST_ROUNDS - 1]
    assert disturbances(with_load(few, {0}, foreign_cpu_seconds=1.5), CORES).discarded == frozenset()


def test_a_machine_that_stood_still_spoils_the_round(slices: list[SliceRecord]) -> None:
    stood = [
        piece.model_copy(update={"clock_jump_seconds": -4.0}) if index == 40 else piece
        for index, piece in enumerate(slices)
    ]
    assert disturbances(stood, CORES).discarded == {slices[40].round}


def test_a_slow_slice_alone_is_never_left_out(slices: list[SliceRecord]) -> None:
    """It may be the cost that was asked for."""
    slow = [
        piece.model_copy(update={"answer": piece.answer.model_copy(update={"elapsed_ns": 10**11})})
        if piece.round == 5
        else piece
        for piece in slices
    ]
    assert disturbances(slow, CORES).discarded == frozenset()


def test_a_round_is_left_out_for_all_arms_alike(slices: list[SliceRecord], tmp_path: Path) -> None:
    plan = plan_of("mongodb-tls")
    ledger = Ledger.create(plan, tmp_path / "run")
    for piece in with_load(slices, {7}, foreign_cpu_seconds=1.5):
        ledger.append(piece)
    run = read_run(ledger)
    for arm in plan.arms:
        assert [*run.samples.by_round("wire.reused_query", arm.name)] == [each for each in range(ROUNDS) if each != 7]
