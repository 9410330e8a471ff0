"""The built-in studies, one TOML file each."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent


def study_names() -> list[str]:
    """Return the sorted names of the built-in studies."""
    return sorted(file.stem for file in _FOLDER.glob("*.toml"))


def study_file(name: str) -> Path:
    return _FOLDER / f"{name}.toml"


def read_content(file: Path) -> dict[str, Any]:
    """Return the unchecked content of a study file. Raises `OSError`, and `ValueError` for invalid TOML."""
    return tomllib.loads(file.read_text())
