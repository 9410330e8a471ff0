"""Options and fixtures of all tests."""

from __future__ import annotations

import gc
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support import store

# Tests use the same examples on every machine, whatever its speed, so that their results are reproducible. `pytest
# --hypothesis-profile explore` tries new examples.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("explore", max_examples=2000, deadline=None)
settings.load_profile("repeatable")

# Background jobs of a shell, and their children, ignore SIGINT. Restore the default, because some tests send SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Collect garbage less often, which saves a tenth of the tests' CPU time: most objects belong to imported modules and
# live until the end.
gc.set_threshold(50_000)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew instead of comparing")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Begin with tests that start servers, which take longest. At the end, short tests then keep all worker processes
    # busy.
    items.sort(key=lambda item: item.get_closest_marker("servers") is None)


def pytest_collection_finish(session: pytest.Session) -> None:
    if any(item.get_closest_marker("servers") for item in session.items):
        # Imported here, because the import takes long.
        from tests.support.initdb import copy_from_now_on

        copy_from_now_on()


@pytest.fixture(scope="session", autouse=True)
def _store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let the workers of pytest-xdist share a folder, which pytest removes, for results that take long to compute."""
    if hasattr(request.config, "workerinput"):
        store.folder = tmp_path_factory.getbasetemp().parent / "store"
        store.folder.mkdir(exist_ok=True)


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Yield a TMPDIR for one test. Its path is short enough for Unix sockets."""
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
