"""A copy of the repository to which an example (a toy) is added, as a contributor would do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from costof.messages.process import engine_path

ROOT = Path(__file__).parents[2]
TOYS = Path(__file__).parent


class Tree:
    """A copy of the repository in the folder `root`, and a Python interpreter for it.

    The interpreter imports costof from the copy, and libraries from the environment of the tests. The copy uses this
    repository's engine until `build_engine` is called.
    """

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        self._environment = folder / "environment"
        self._built = folder / "built"
        self._engine = engine_path()
        for name in _git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard"):
            # Git also lists files whose deletion is not committed.
            if (ROOT / name).is_file():
                _copy(ROOT / name, self.root / name)
        _git(self.root, "init", "--quiet")
        _git(self.root, "add", "--all")
        self._make_environment()

    def lay(self, toy: str) -> None:
        for name in _git(TOYS / toy, "ls-files", "--cached", "--others", "--exclude-standard"):
            _copy(TOYS / toy / name, self.root / name)

    def insert(self, name: str, text: str, *, before: str) -> None:
        """Insert `text` into a file before the text `before`, which must occur exactly once."""
        there = (self.root / name).read_text()
        assert there.count(before) == 1, f"{name} has not one {before!r}"
        (self.root / name).write_text(there.replace(before, text + before))

    def touched(self) -> list[str]:
        """Return new files and folders, and changed files with their numbers of added and removed lines."""
        new = _git(self.root, "ls-files", "--others", "--exclude-standard", "--directory")
        changed = (line.split("\t") for line in _git(self.root, "diff", "--numstat"))
        return sorted(new + [f"{name} +{come} -{gone}" for come, gone, name in changed])

    def run(self, *command: str, cwd: Path | None = None) -> str:
        """Run a program, by default in the copy's root, and return its output. 'python' runs the copy's interpreter."""
        path = os.pathsep.join([str(self._environment / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        env = {**os.environ, "PATH": path, "PYTHONPATH": str(self.root), "COSTOF_ENGINE": str(self._engine)}
        done = subprocess.run(command, cwd=cwd or self.root, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def costof(self, *arguments: str, cwd: Path | None = None) -> str:
        return self.run("python", "-m", "costof", *arguments, cwd=cwd)

    def build_engine(self) -> None:
        """Build the copy's engine, and use it from now on. Third-party crates are shared with the repository's build.

        RUSTC_WORKSPACE_WRAPPER makes Cargo build the copy's own crates separately. The wrapper (`env`) does nothing
        else.
        """
        env = {
            "CARGO_BUILD_BUILD_DIR": os.environ.get("CARGO_TARGET_DIR", str(ROOT / "engine" / "target")),
            "CARGO_TARGET_DIR": str(self._built),
            "RUSTC_WORKSPACE_WRAPPER": "/usr/bin/env",
        }
        subprocess.run(["cargo", "build", "--quiet"], cwd=self.root / "engine", env={**os.environ, **env}, check=True)
        self._engine = self._built / "debug" / "costof-engine"

    def _make_environment(self) -> None:
        venv.create(self._environment, symlinks=True)
        site_packages = Path(sysconfig.get_path("purelib", vars={"base": str(self._environment)}))
        (site_packages / "ours.pth").write_text(f"{sysconfig.get_path('purelib')}\n")


def _git(folder: Path, *arguments: str) -> list[str]:
    # In a Git hook, variables GIT_* would direct these commands to the hook's repository.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(["git", *arguments], cwd=folder, env=env, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def _copy(file: Path, to: Path) -> None:
    """Copy a file with its time of modification, by which Cargo decides what to rebuild."""
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(file, to)


def assert_answered(run: Path) -> None:
    """Check that a run has effects of all metrics, and evidence from client and server for plain and TLS."""
    result = json.loads((run / "result.json").read_text())
    assert result["partial"] is None
    assert {effect["metric"] for effect in result["effects"]} == {metric["name"] for metric in result["metrics"]}
    facts = {arm["name"]: evidence["facts"] for arm in result["arms"] for evidence in arm["evidence"]}
    assert "protocol" not in facts["plain"]
    assert facts["plain"]["TLS connections counted by the server"] == "none"
    assert facts["tls"]["protocol"] == "TLSv1.3"
    assert facts["tls"]["handshakes"] == facts["tls"]["connections"] != "0"
    assert facts["tls"]["TLS connections counted by the server"].endswith(f" {facts['tls']['connections']}")
