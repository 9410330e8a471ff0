"""oha, a load generator of crates.io: built once, for the benches alone, into the user's cache."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import platformdirs

VERSION = "1.16.0"


def program() -> Path | None:
    """The program, built now if it is not there. None, having said why, where it cannot be."""
    root = Path(platformdirs.user_cache_dir("costof")) / f"oha-{VERSION}"
    built = root / "bin" / "oha"
    if not built.is_file():
        cargo = shutil.which("cargo")
        if cargo is None:
            return None
        sys.stdout.write(f"building oha {VERSION} into {root}, once, for some minutes\n")
        sys.stdout.flush()
        argv = [cargo, "install", "--quiet", "--locked", "--root", str(root), f"oha@{VERSION}"]
        if subprocess.run(argv, check=False).returncode:
            return None
    return built
