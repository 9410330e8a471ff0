"""Asks an earlier `costof`, the one on PYTHONPATH, after which rounds it would have said that arms cost something.

A program of its own: two versions of one package do not fit into one process. It reads and writes JSON.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any


def main() -> None:
    asked = json.load(sys.stdin)
    effects = import_module("costof.effects")
    json.dump([_stands(effects, asked, values) for values in asked["arms"]], sys.stdout)


def _stands(effects: Any, asked: dict[str, Any], values: list[float]) -> list[bool]:
    """Return the verdicts after each round, as `effects_of` in that version's `analysis/figures.py` reached them."""
    found = []
    judged = effects.Comparisons.of(len(asked["arms"]), 0).of_kind(headline=True)
    for rounds in range(1, len(values) + 1):
        control, replicate, arm = asked["control"][:rounds], asked["replicate"][:rounds], values[:rounds]
        floor = effects.ratio(control, replicate) if rounds >= effects.ROUNDS_FOR_INTERVAL else None
        noise = max(abs(1 - floor.low), abs(floor.high - 1)) if floor else 0.0
        found.append(effects.verdict(control, arm, asked["margin"], judged, noise) == "costs")
    return found


if __name__ == "__main__":
    main()
