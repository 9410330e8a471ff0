"""A lab in a process of its own that is ended by kill -9: whatever it had must be gone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.processes import alive
from tests.support.programs import eventually

ROOT = Path(__file__).parents[2]


def left_by_kill_9(*arguments: str) -> dict[str, Any]:
    """What `python` with these arguments has said of its lab, `pids` and `paths` among it, before it was killed.

    Fails unless all of them were there, or of the pids those that it says are `started`, and none is in the end.
    """
    with subprocess.Popen(
        [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        told: dict[str, Any] = json.loads(process.stdout.readline())
        paths = [Path(path) for path in told["paths"]]
        assert all(map(alive, told.get("started", told["pids"])))
        assert all(path.exists() for path in paths)
        process.kill()
    # What carries links is the run's own child and ends with its input; devices end with their namespaces.
    eventually("the end of its processes", lambda: not any(map(alive, told["pids"])))
    eventually("the end of its hosts and folders", lambda: not any(path.exists() for path in paths))
    return told
