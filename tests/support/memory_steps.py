"""Records of a measurement of memory with a known truth."""

from __future__ import annotations

from costof.results.ledger import MemoryRecord
from costof.run.memory import step_sizes

CONNECTIONS = 1_000
STEPS = step_sizes(CONNECTIONS)
#: Deviations of the steps after the first from an arm's bytes of a connection. Their mean is 0.
NOISE = [0, 100, -100, 200, -200, 300, -300, 50, -50, 0]
#: Bytes of each connection in the first step, which takes far more than the connections of later steps.
FIRST_BYTES = 50_000


def memory_steps(arm: str, server: int, pooler: int = 0, count: int = len(STEPS)) -> list[MemoryRecord]:
    """Return the first `count` steps of an arm whose connections take these bytes of server and pooler."""
    records, connections = [], 0
    for step, opened in enumerate(STEPS[:count]):
        connections += opened
        each = FIRST_BYTES if step == 0 else server + NOISE[step - 1]
        grown = {"server": opened * each, **({"pooler": opened * pooler} if pooler else {})}
        records.append(
            MemoryRecord(arm=arm, step=step, opened=opened, connections=connections, grown=grown, methods=["PSS"])
        )
    return records
