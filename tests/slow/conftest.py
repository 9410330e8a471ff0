"""Slow tests, run by `make test-all` before a release and after changes in their area."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import authority as authority
from tests.integration.conftest import lab as lab
from tests.integration.conftest import standalone as standalone


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.slow)
