"""Simulated records of the memory that idle connections take, with a known result.

A run opens the connections in several steps. Each record has the memory that one step added.
"""

from __future__ import annotations

from costof.results.ledger import MemoryRecord
from costof.run.memory import step_sizes

CONNECTIONS = 1_000
STEPS = step_sizes(CONNECTIONS)
#: Noise in bytes, with mean 0, which each step after the first adds to the true memory of a connection.
NOISE = [0, 100, -100, 200, -200, 300, -300, 50, -50, 0]
#: Bytes of each connection in the first step. As on real servers, they are far more than in later steps.
FIRST_BYTES = 50_000


def memory_steps(arm: str, server: int, pooler: int = 0, count: int = len(STEPS)) -> list[MemoryRecord]:
    """Return the first `count` steps. A connection takes `server` bytes on the server, `pooler` on the pooler."""
    records, connections = [], 0
    for step, opened in enumerate(STEPS[:count]):
        connections += opened
        each = FIRST_BYTES if step == 0 else server + NOISE[step - 1]
        grown = {"server": opened * each, **({"pooler": opened * pooler} if pooler else {})}
        records.append(
            MemoryRecord(arm=arm, step=step, opened=opened, connections=connections, grown=grown, methods=["PSS"])
        )
    return records
