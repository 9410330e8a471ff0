"""The studies: one TOML file a question."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent


def study_names() -> list[str]:
    """Names of costof's own studies, sorted."""
    return sorted(file.stem for file in _FOLDER.glob("*.toml"))


def study_file(name: str) -> Path:
    """Where the study is."""
    return _FOLDER / f"{name}.toml"


def read_content(file: Path) -> dict[str, Any]:
    """What a study's file says, unchecked. Raises `OSError`, and `ValueError` for what is no TOML."""
    return tomllib.loads(file.read_text())
