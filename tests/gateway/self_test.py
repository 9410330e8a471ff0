"""Whether the campaign finds a leak when any one of the gateway's checks is switched off: `make fuzz-self-test`.

Without this a campaign that finds nothing says nothing. Each check must be missed within a count of statements.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import Any

from tests.gateway.campaign import ENGINE, TARGETS, Ground, attack, ground, program

# Some checks are missed by the first hundred statements; the rarest need one of an uncommon form. About a minute's.
MOST_STATEMENTS = 100_000


def checks() -> list[str]:
    """By the names that switch them off."""
    listed = subprocess.run([*program(), "checks"], cwd=ENGINE, capture_output=True, text=True, check=True)
    return listed.stdout.split()


def find(standing: Ground, check: str, seed: int) -> dict[str, Any] | None:
    """How a gateway without the check has leaked."""
    report = attack(standing, TARGETS, weakened=check, seed=seed, statements=MOST_STATEMENTS, finds=1)
    finds: list[dict[str, Any]] = report["finds"]
    return finds[0] if finds else None


def main() -> int:
    parser = argparse.ArgumentParser(description="Switch each check of the gateway off, and look for the leak.")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("checks", nargs="*")
    options = parser.parse_args()
    unnoticed = []
    with ground() as standing:
        for check in options.checks or checks():
            for seed in range(options.seeds):
                found = find(standing, check, seed)
                told = f"{found['after']} statements, {found['commands'][-1]}" if found else "NOT FOUND"
                sys.stdout.write(f"{check:16} seed {seed}: {told}\n")
                sys.stdout.flush()
                unnoticed += [] if found else [check]
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
