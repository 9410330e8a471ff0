"""`make bench`: every benchmark, one table each. Speed is told as a ratio against a peer, never asserted."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from benches import encryption, gateway, http, mongodb_find, mongodb_insert, mysql, tpcc
from costof.awake import cores_awake

BENCHES = [mongodb_find, mongodb_insert, mysql, tpcc, encryption, gateway, http]

if __name__ == "__main__":
    # As in a run: what a sleeping core costs is no client's.
    with cores_awake():
        for bench in BENCHES:
            bench.main()
