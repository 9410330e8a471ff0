"""Runs a command as on a slow and busy machine: `python -m tests.support.slow_machine 8 python -m pytest
tests/integration`.

The command and its children share one core with this number of busy loops. Needs root.
"""

from __future__ import annotations

import os
import subprocess
import sys

from costof.lab.cpu_share import CpuShare
from costof.lab.lab import Lab


def main(loops: int, command: list[str]) -> int:
    with Lab() as lab:
        prefix = CpuShare.create(lab, f"costof-slow-{os.getpid()}", 1.0).prefix
        for number in range(loops):
            lab.spawn(f"loop-{number}", "loop", [*prefix, "sh", "-c", "while :; do :; done"])
        return subprocess.run([*prefix, *command], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
