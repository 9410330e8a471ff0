"""Figures from the literature, as data; shown beside a run's own and never mixed into them."""

from __future__ import annotations

import tomllib
from importlib import resources

from costof.result import Published


def load_published(name: str) -> Published:
    """The published figures of a study, by the name of their file."""
    path = resources.files("costof.published") / f"{name}.toml"
    return Published.model_validate(tomllib.loads(path.read_text()))
