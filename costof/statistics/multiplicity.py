"""Many verdicts of one run: p-values adjusted for how many of them there are.

What a study is about is judged so that any false claim among all of it is rare (Holm 1979, "A simple sequentially
rejective multiple test procedure"); what is shown beside it, so that few of the claims that are made are false
(Benjamini & Hochberg 1995, "Controlling the false discovery rate").
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted: those at most 0.05 hold a false claim in at most 5 % of runs, whatever depends on what."""
    given = np.asarray(p_values, dtype=float)
    order = np.argsort(given)
    stepped = np.maximum.accumulate(given[order] * np.arange(len(given), 0, -1))
    return _in_place(order, np.minimum(1.0, stepped))


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjusted: of those at most 0.05, at most 5 % are false on average, where tests depend on each other positively,
    as effects against one control do (Benjamini & Yekutieli 2001)."""
    given = np.asarray(p_values, dtype=float)
    order = np.argsort(given)[::-1]
    stepped = np.minimum.accumulate(given[order] * len(given) / np.arange(len(given), 0, -1))
    return _in_place(order, np.minimum(1.0, stepped))


def _in_place(order: np.ndarray, ordered: np.ndarray) -> list[float]:
    adjusted = np.empty(len(order))
    adjusted[order] = ordered
    return [float(each) for each in adjusted]
