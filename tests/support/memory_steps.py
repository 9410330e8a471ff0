"""Simulated records of the memory that idle connections take, with a known result."""

from __future__ import annotations

from costof.results.ledger import MemoryRecord
from costof.run.memory import step_sizes

CONNECTIONS = 1_000
STEPS = step_sizes(CONNECTIONS)
#: Noise in bytes: how far each step after the first is from an arm's true memory of a connection. The mean is 0.
NOISE = [0, 100, -100, 200, -200, 300, -300, 50, -50, 0]
#: Bytes of each connection in the first step. As on real servers, they are far more than in later steps.
FIRST_BYTES = 50_000


def memory_steps(arm: str, server: int, pooler: int = 0, count: int = len(STEPS)) -> list[MemoryRecord]:
    """Return the records of the first `count` steps. `server` and `pooler` are the bytes of a connection."""
    records, connections = [], 0
    for step, opened in enumerate(STEPS[:count]):
        connections += opened
        each = FIRST_BYTES if step == 0 else server + NOISE[step - 1]
        grown = {"server": opened * each, **({"pooler": opened * pooler} if pooler else {})}
        records.append(
            MemoryRecord(arm=arm, step=step, opened=opened, connections=connections, grown=grown, methods=["PSS"])
        )
    return records
