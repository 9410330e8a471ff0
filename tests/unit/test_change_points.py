"""Change points are those of another project's PELT, in series with and without changes."""

from __future__ import annotations

import numpy as np
import pytest
import ruptures

from costof.statistics.change_points import change_points


@pytest.mark.parametrize("seed", range(60))
def test_they_are_those_of_ruptures(seed: int) -> None:
    random = np.random.default_rng(seed)
    levels = random.normal(0, 4, size=random.integers(1, 5))
    values = np.concatenate([random.normal(level, 1, size=random.integers(2, 14)) for level in levels])
    penalty = 3 * np.log(len(values))
    pelt = ruptures.Pelt(model="l2", min_size=2, jump=1).fit_predict(values.reshape(-1, 1), penalty)
    assert [*change_points(values.tolist(), penalty, 2), len(values)] == pelt


def test_a_series_too_short_to_have_any_has_none() -> None:
    assert change_points([], 1.0, 2) == change_points([5.0], 1.0, 2) == change_points([5.0, 9.0], 1.0, 2) == []
