"""A share's interval, on simulated rounds whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from costof.statistics.intervals import share_of


@pytest.mark.parametrize("rounds", [6, 20])
@pytest.mark.parametrize("noise", [0.02, 0.3])
def test_the_interval_holds_the_true_share_in_95_of_100_runs(rounds: int, noise: float) -> None:
    """Of 24 % of a whole whose rounds scatter by so much of it; an unbounded interval holds everything."""
    chance, held = np.random.default_rng(rounds), 0
    for _ in range(2000):
        wholes = chance.normal(1.0, noise, rounds)
        share = share_of(list(0.24 * wholes + chance.normal(0.0, noise, rounds)), list(wholes))
        held += share is None or share.low <= 0.24 <= share.high
    assert held / 2000 == pytest.approx(0.95, abs=0.02)


def test_a_share_of_nothing_has_no_interval() -> None:
    chance = np.random.default_rng(3)
    losses = list(chance.normal(0.0, 1.0, 10))
    assert share_of(list(chance.normal(5.0, 1.0, 10)), losses) is None


def test_a_share_is_the_gain_over_the_loss() -> None:
    chance = np.random.default_rng(4)
    losses = list(chance.normal(100.0, 2.0, 12))
    gains = [0.6 * loss + noise for loss, noise in zip(losses, chance.normal(0.0, 1.0, 12), strict=True)]
    share = share_of(gains, losses)
    assert share is not None
    assert share.low < 0.6 < share.high
    assert share.high - share.low < 0.05
    # Of a time both signs turn, and the share is the same.
    assert share_of([-each for each in gains], [-each for each in losses]) == pytest.approx(share)
