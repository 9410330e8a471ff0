"""What keeps a release back."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from costof import __version__

ROOT = Path(__file__).parents[2]
CHECK = runpy.run_path(str(ROOT / "scripts" / "release_check.py"))


def test_the_list_of_parts_names_the_openssl_that_is_built() -> None:
    assert list(CHECK["of_openssl"](ROOT)) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("## 1.2.0 (2026-01-31)\n- a\n## 1.1.0 (2026-01-01)\n", None),
        ("## Unreleased\n- a\n## 1.2.0 (2026-01-31)\n", "'Unreleased'"),
        ("## 1.1.0 (2026-01-01)\n", "does not begin with '## 1.2.0"),
        ("# Changelog\n", "does not begin with '## 1.2.0"),
    ],
)
def test_the_changelog_begins_with_the_version(text: str, problem: str | None) -> None:
    found = list(CHECK["of_changelog"](text, "1.2.0"))
    assert len(found) == (problem is not None)
    assert problem is None or problem in found[0]


def test_a_tag_that_differs_and_files_that_are_missing_are_told(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "dist").mkdir()
    for name in ("Cargo.toml", "Cargo.lock", "openssl.cdx.json"):
        shutil.copy(ROOT / "engine" / name, tmp_path / "engine")
    (tmp_path / "CHANGELOG.md").write_text("")
    tag, _, files = CHECK["problems"](tmp_path, "v9")
    assert tag.endswith(f"and the commit's tag is v9: git tag v{__version__}")
    assert files.startswith(f"dist/ holds nothing; `make wheels` makes costof-{__version__}-py3-none-manylinux_2_28_aa")


@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf (binutils)")
def test_a_program_that_wants_more_than_the_oldest_system_has_is_told() -> None:
    found = list(CHECK["of_engine"](Path(sys.executable).with_name("costof-engine"), "aarch64"))
    assert found[0] == "is of another machine than aarch64"
    assert any("libssl.so.3" in problem for problem in found), "the engine of `make setup` links the system's OpenSSL"


def test_a_build_without_rust_says_so_and_fetches_none(tmp_path: Path) -> None:
    build = (
        "import build_backend as backend; print(backend.get_requires_for_build_wheel()); "
        "backend.prepare_metadata_for_build_wheel('metadata')"
    )
    told = subprocess.run(
        [sys.executable, "-c", build],
        cwd=ROOT,
        env={"PATH": str(tmp_path), "PYTHONPATH": str(ROOT / "scripts")},
        capture_output=True,
        text=True,
    )
    assert told.returncode == 1
    assert told.stdout.startswith("[]\n"), "puccinialin, which fetches Rust"
    assert "Cargo, the Rust package manager, is not installed" in told.stderr
