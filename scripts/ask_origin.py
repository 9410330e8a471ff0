"""Asks `costof-engine origin` as `costof ab` does: ask_origin.py COSTOF ab OPTIONS…"""

from __future__ import annotations

import subprocess
import sys

from costof.programs.origin import Listener, OriginProcess

with OriginProcess() as process:
    address = process.begin([Listener(address="127.0.0.1:0")]).listeners[0]
    sys.exit(subprocess.run([*sys.argv[1:], f"http://{address}/"], check=False).returncode)
