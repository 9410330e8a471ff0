"""Adjusted p-values, against scipy's and against their definition."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from costof.statistics.verdicts import benjamini_hochberg, holm

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=20)


@given(P_VALUES)
def test_the_false_discovery_rate_is_scipys(p_values: list[float]) -> None:
    assert benjamini_hochberg(p_values) == pytest.approx(list(scipy.stats.false_discovery_control(p_values)))


@given(P_VALUES)
def test_holm_rejects_one_after_the_other(p_values: list[float]) -> None:
    """As the paper says it: the smallest at a/m, the next at a/(m-1), until one fails."""
    rejected = set()
    for rank, place in enumerate(np.argsort(p_values, kind="stable")):
        if p_values[place] * (len(p_values) - rank) > 0.05:
            break
        rejected.add(int(place))
    adjusted = holm(p_values)
    assert {place for place, p in enumerate(adjusted) if p <= 0.05} == rejected
    assert all(after >= before for before, after in zip(p_values, adjusted, strict=True))


def test_nothing_to_adjust() -> None:
    assert holm([]) == []
    assert benjamini_hochberg([]) == []
