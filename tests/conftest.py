"""Options and fixtures of all tests."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# What lands is decided by the same examples everywhere and on any speed of machine; `pytest --hypothesis-profile
# explore` looks for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=2000, deadline=None)
settings.load_profile("repeatable")

# A shell's background job ignores Ctrl-C, and so does all that it starts: the tests that press it would test nothing.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew instead of comparing")


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Yield a TMPDIR for one test. Its path is short, because Unix sockets are created in it."""
    folder = Path(tempfile.mkdtemp(prefix="ct-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def no_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Act as an ordinary user without the right to create namespaces."""
    from costof.lab import network, topology

    monkeypatch.setattr(network, "can_make_hosts", lambda: False)
    for module in (network, topology):
        monkeypatch.setattr(module, "can_share_cpu", lambda: False)
