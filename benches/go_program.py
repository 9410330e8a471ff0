"""Benchmark clients written in Go, built once into the user's cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import platformdirs


@dataclass(frozen=True)
class GoProgram:
    """A version of a Go program, and the module that contains it."""

    name: str
    version: str
    package: str

    def path(self) -> Path | None:
        """Return the path of the program; build it first if necessary. If that fails, print a note and return None."""
        installed = shutil.which(self.name)
        if installed:
            return Path(installed)
        root = Path(platformdirs.user_cache_dir("costof")) / f"{self.name}-{self.version}"
        built = root / "bin" / self.name
        if built.is_file() or self._build(root):
            return built
        sys.stdout.write(f"{self.name}: skipped (not installed, and cannot be built)\n")
        return None

    def _build(self, root: Path) -> bool:
        go = shutil.which("go")
        if go is None:
            return False
        sys.stdout.write(f"building {self.name} {self.version} into {root} (once, some minutes)\n")
        sys.stdout.flush()
        # Build in a temporary module, because `go install PACKAGE@VERSION` rejects modules with replace directives.
        steps = (["mod", "init", "bench"], ["get", f"{self.package}@v{self.version}"], ["install", self.package])
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "GOBIN": str(root / "bin"), "GOFLAGS": "-mod=mod"}
            return all(
                subprocess.run([go, *step], check=False, cwd=folder, env=environment, capture_output=True).returncode
                == 0
                for step in steps
            )


GO_TPC = GoProgram("go-tpc", "1.0.12", "github.com/pingcap/go-tpc/cmd/go-tpc")
GO_YCSB = GoProgram("go-ycsb", "1.0.1", "github.com/pingcap/go-ycsb/cmd/go-ycsb")
