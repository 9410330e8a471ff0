"""go-tpc, a client for TPC-C written in Go: built once, for the benches alone, into the user's cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import platformdirs

VERSION = "1.0.12"
PACKAGE = "github.com/pingcap/go-tpc/cmd/go-tpc"


def program() -> Path | None:
    """The program on PATH, or built, now if it is not there. None, where it cannot be."""
    found = shutil.which("go-tpc")
    if found:
        return Path(found)
    root = Path(platformdirs.user_cache_dir("costof")) / f"go-tpc-{VERSION}"
    built = root / "bin" / "go-tpc"
    return built if built.is_file() or _build(root) else None


def _build(root: Path) -> bool:
    go = shutil.which("go")
    if go is None:
        return False
    sys.stdout.write(f"building go-tpc {VERSION} into {root}, once, for some minutes\n")
    sys.stdout.flush()
    # Within a module of its own: `go install PACKAGE@VERSION` refuses one whose go.mod replaces others.
    steps = (["mod", "init", "bench"], ["get", f"{PACKAGE}@v{VERSION}"], ["install", PACKAGE])
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "GOBIN": str(root / "bin"), "GOFLAGS": "-mod=mod"}
        return all(
            subprocess.run([go, *step], check=False, cwd=folder, env=environment, capture_output=True).returncode == 0
            for step in steps
        )
