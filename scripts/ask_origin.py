"""Run `costof ab` against the engine's own HTTP server, once without and once with TLS.

Usage: `ask_origin.py COSTOF ab OPTIONS…`. COSTOF is the path of the command; `costof-engine origin` is the server.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from costof.lab.certificates import DEFAULT_KEY, Authority
from costof.messages.plan import TlsFiles
from costof.programs.origin import Listener, OriginProcess

ADDRESS = "127.0.0.1"

with tempfile.TemporaryDirectory() as folder, OriginProcess() as process:
    authority = Authority(Path(folder))
    tls = TlsFiles.of(authority.issue("origin", DEFAULT_KEY, [ADDRESS]))
    listeners = [Listener(address=f"{ADDRESS}:0"), Listener(address=f"{ADDRESS}:0", tls=tls)]
    plain_address, tls_address = process.begin(listeners).listeners
    subprocess.run([*sys.argv[1:], f"http://{plain_address}/"], check=True)
    subprocess.run([*sys.argv[1:], "--tls-ca", str(authority.ca_file), f"https://{tls_address}/"], check=True)
