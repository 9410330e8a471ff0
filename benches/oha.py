"""oha, a load generator from crates.io, built once into the user's cache."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import platformdirs

VERSION = "1.16.0"


def program() -> Path | None:
    """Return the path of oha, which the first call builds. Return None if it cannot be built."""
    root = Path(platformdirs.user_cache_dir("costof")) / f"oha-{VERSION}"
    built = root / "bin" / "oha"
    if not built.is_file():
        cargo = shutil.which("cargo")
        if cargo is None:
            return None
        sys.stdout.write(f"building oha {VERSION} into {root} (once, some minutes)\n")
        sys.stdout.flush()
        argv = [cargo, "install", "--quiet", "--locked", "--root", str(root), f"oha@{VERSION}"]
        if subprocess.run(argv, check=False).returncode:
            return None
    return built
