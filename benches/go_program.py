"""Clients written in Go, for the benches to measure against: built once, into the user's cache."""

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
    """A program of a Go module's."""

    name: str
    version: str
    package: str

    def path(self) -> Path | None:
        """The program on PATH, or built, now if it is not there. None, where it cannot be, which is said."""
        found = shutil.which(self.name)
        if found:
            return Path(found)
        root = Path(platformdirs.user_cache_dir("costof")) / f"{self.name}-{self.version}"
        built = root / "bin" / self.name
        if built.is_file() or self._build(root):
            return built
        sys.stdout.write(f"{self.name}: left out (it is missing, and cannot be built)\n")
        return None

    def _build(self, root: Path) -> bool:
        go = shutil.which("go")
        if go is None:
            return False
        sys.stdout.write(f"building {self.name} {self.version} into {root}, once, for some minutes\n")
        sys.stdout.flush()
        # Within a module of its own: `go install PACKAGE@VERSION` refuses one whose go.mod replaces others.
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
