"""A program that replays a run with the analysis of an earlier version of `costof`.

For each arm, it prints whether the verdict was 'costs' after one round, after two rounds, and so on. It reads the mean
times of all rounds as JSON from standard input, and prints JSON. PYTHONPATH must name the folder of the earlier
version. This is a separate program because one process cannot import two versions of a package.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any


def main() -> None:
    question = json.load(sys.stdin)
    effects = import_module("costof.effects")
    json.dump([_costs(effects, question, values) for values in question["arms"]], sys.stdout)


def _costs(effects: Any, question: dict[str, Any], values: list[float]) -> list[bool]:
    """Return, for one round, for two rounds and so on, whether the verdict on these first rounds is 'costs'.

    The verdict is computed as in the earlier version's function `effects_of` in `analysis/figures.py`.
    """
    verdicts = []
    judged = effects.Comparisons.of(len(question["arms"]), 0).of_kind(headline=True)
    for rounds in range(1, len(values) + 1):
        control, replicate, arm = question["control"][:rounds], question["replicate"][:rounds], values[:rounds]
        floor = effects.ratio(control, replicate) if rounds >= effects.ROUNDS_OF_AN_INTERVAL else None
        noise = max(abs(1 - floor.low), abs(floor.high - 1)) if floor else 0.0
        verdicts.append(effects.verdict(control, arm, question["margin"], judged, noise) == "costs")
    return verdicts


if __name__ == "__main__":
    main()
