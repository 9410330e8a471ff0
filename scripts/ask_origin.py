"""Asks `costof-engine origin`, plainly and by TLS, as `costof ab` does: ask_origin.py COSTOF ab OPTIONS…"""

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
    plainly, by_tls = process.begin(listeners).listeners
    subprocess.run([*sys.argv[1:], f"http://{plainly}/"], check=True)
    subprocess.run([*sys.argv[1:], "--tls-ca", str(authority.ca_file), f"https://{by_tls}/"], check=True)
