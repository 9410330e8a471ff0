"""The command with which `make setup` downloads mongod, so that the first run need not wait for the download."""

from __future__ import annotations

import sys

from costof.errors import CostofError
from costof.programs.mongod.lab import find_mongod, mongod_version

if __name__ == "__main__":
    try:
        sys.stdout.write(f"mongod {mongod_version(find_mongod())}\n")
    except CostofError as error:
        sys.exit(f"costof: {error}")
